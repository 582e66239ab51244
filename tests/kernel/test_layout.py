"""Constants stand once, in .pxd files: the interpreted kernel reads from there what the compiled one is made with."""

import struct

import pytest

from kernel.rendering import batch, message, record
from kseg.kernel.interpreted import definitions
from kseg.kernel.layout import headers as layout
from kseg.kernel.layout import rows
from kseg.kernel.native import prefixes


def test_fields_of_a_batch_lie_where_the_layout_says():
    data = batch(
        [record(0), record(1)], base_offset=3, attributes=0x38, base_timestamp=5, max_timestamp=7, producer=11,
        sequence=13, epoch=17, leader_epoch=19, last_delta=23, count=29,
    )  # fmt: skip

    def at(kind, position):
        return struct.unpack_from(kind, data, position)[0]

    assert at(">q", layout.V2_BASE_OFFSET) == 3
    assert at(">i", layout.ENTRY_SIZE) == len(data) - layout.ENTRY_OVERHEAD
    assert data[layout.ENTRY_MAGIC] == 2
    assert at(">i", layout.V2_LEADER_EPOCH) == 19
    assert at(">h", layout.V2_ATTRIBUTES) == data[layout.V2_FLAGS] == 0x38
    assert data[layout.V2_FLAGS] == layout.CONTROL | layout.TRANSACTIONAL | layout.LOG_APPEND_TIME
    assert at(">i", layout.V2_LAST_OFFSET_DELTA) == 23
    assert (at(">q", layout.V2_BASE_TIMESTAMP), at(">q", layout.V2_MAX_TIMESTAMP)) == (5, 7)
    assert (at(">q", layout.V2_PRODUCER_ID), at(">h", layout.V2_PRODUCER_EPOCH)) == (11, 17)
    assert (at(">i", layout.V2_BASE_SEQUENCE), at(">i", layout.V2_COUNT)) == (13, 29)
    assert data[layout.V2_HEADER_BYTES :] == record(0) + record(1)


def test_fields_of_a_message_lie_where_the_layout_says():
    v1 = message(3, 1, b"key", None, timestamp=5, attributes=layout.LOG_APPEND_TIME)
    assert struct.unpack_from(">q", v1, layout.V1_TIMESTAMP)[0] == 5
    assert v1[layout.LEGACY_FLAGS] == layout.LOG_APPEND_TIME
    assert v1[layout.V1_HEADER_BYTES :].startswith(struct.pack(">i", 3) + b"key")
    assert message(3, 0, b"key", None)[layout.V0_HEADER_BYTES :].startswith(struct.pack(">i", 3) + b"key")


def test_constants_and_structs_are_read_from_where_they_are_defined():
    assert definitions(layout.__file__.removesuffix(".py") + ".pxd")["V2_HEADER_BYTES"] == layout.V2_HEADER_BYTES == 61
    assert (rows.FRAME_STATE, rows.ROW_WIDTH, rows.BATCH_COORDINATOR_EPOCH) == (3, 10, 15)
    kept = prefixes.Prefixes()
    assert (kept.anchor, kept.ieee.filled, kept.castagnoli.crcs) == (0, 0, 0)
    assert kept.ieee is not kept.castagnoli


def test_structs_hold_structs_that_their_pxd_cimports(tmp_path):
    path = tmp_path / "made.pxd"
    path.write_text(
        "from kseg.kernel.native.prefixes cimport Prefixes, PrefixTable\n\n"
        "cdef enum:\n    MOST = -0x10\n\n"
        "cdef struct Inner:\n    long long* first\n\n"
        "cdef struct Outer:\n    Inner inner\n    PrefixTable table\n    const unsigned char* p\n"
    )
    found = definitions(str(path))
    assert (found["MOST"], sorted(found)) == (-16, ["Inner", "MOST", "Outer"])
    outer = found["Outer"]()
    assert (outer.inner.first, outer.table.filled, outer.p) == (0, 0, 0)
    with pytest.raises(AttributeError):
        outer.other = 1


def test_a_module_without_declarations_defines_nothing(tmp_path):
    assert definitions(str(tmp_path / "none.pxd")) == {}


def test_every_row_constant_stands_where_its_table_has_it():
    for table in ("FRAME", "ROW", "HEADER", "BATCH"):
        columns = {name: value for name, value in vars(rows).items() if name.startswith(table + "_")}
        width = columns.pop(table + "_WIDTH")
        assert sorted(columns.values()) == list(range(width)), table
