"""Positions of header fields in layout/headers.pxd, against batches and messages packed by the struct module."""

import struct

from kernel.rendering import batch, message, record
from kseg.kernel.layout import headers as layout


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
