"""Rows of header fields, of batches and messages that are built field by field, and their fingerprints."""

import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kernel.rendering import batch, frames, header_rows, int64s, message, record
from kseg.kernel.layout import rows as native
from kseg.kernel.layout.rows import BATCH_WIDTH
from kseg.kernel.scan import headers
from kseg.verification.manifest import Block

FIELDS = {
    name.removeprefix("BATCH_"): value
    for name, value in vars(native).items()
    if name.startswith("BATCH_") and name != "BATCH_WIDTH"
}
ABORT, COMMIT = 0, 1


def read(data, found=None, is_07=False, origin=0):
    """A dict of columns for each frame."""
    found = frames(data) if found is None else int64s(found)
    count = len(found) // 4
    rows = int64s(count * BATCH_WIDTH)
    headers.read(data, found, count, is_07, origin, rows)
    return [{name: rows[i * BATCH_WIDTH + column] for name, column in FIELDS.items()} for i in range(count)]


def control_record(kind, headers=()):
    return record(0, key=struct.pack(">hh", 0, kind), value=struct.pack(">hi", 0, 7), headers=headers)


def test_fields_of_v2():
    data = batch(
        [record(0), record(4)], base_offset=1 << 40, attributes=0x13, base_timestamp=5, max_timestamp=6, sequence=11,
        producer=12, epoch=13, leader_epoch=14, last_delta=4,
    )  # fmt: skip
    (row,) = read(data, origin=1000)
    assert row == {
        "POSITION": 1000, "SIZE": len(data), "MAGIC": 2, "STATE": 1, "FIRST_OFFSET": 1 << 40,
        "LAST_OFFSET": (1 << 40) + 4, "ATTRIBUTES": 0x13, "LEADER_EPOCH": 14, "BASE_TIMESTAMP": 5, "MAX_TIMESTAMP": 6,
        "PRODUCER_ID": 12, "PRODUCER_EPOCH": 13, "BASE_SEQUENCE": 11, "COUNT": 2, "MARKER": -1,
        "COORDINATOR_EPOCH": -1,
    }  # fmt: skip


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1])
def test_fields_of_messages(magic, codec):
    (row,) = read(message(77, magic, b"key", b"value", timestamp=5, attributes=codec))
    assert (row["FIRST_OFFSET"], row["COUNT"]) == ((-1, -1) if codec else (77, 1))
    assert (row["LAST_OFFSET"], row["ATTRIBUTES"], row["MAX_TIMESTAMP"]) == (77, codec, 5 if magic else -1)
    assert {row[name] for name in ("LEADER_EPOCH", "PRODUCER_ID", "BASE_SEQUENCE", "MARKER")} == {-1}


@pytest.mark.parametrize("attributes, count", [(None, 1), (0, 1), (1, -1), (2, -1)])
def test_fields_of_07(attributes, count):
    body = bytes(1 + (attributes is not None)) + bytes(4) + b"payload"
    data = bytearray(struct.pack(">i", len(body)) + body)
    if attributes is not None:
        data[4:6] = 1, attributes
    (row,) = read(bytes(data), [0, len(data), data[4], 1], is_07=True)
    assert (row["COUNT"], row["ATTRIBUTES"]) == (count, attributes or 0)
    assert {row[name] for name in ("FIRST_OFFSET", "LAST_OFFSET", "MAX_TIMESTAMP", "LEADER_EPOCH")} == {-1}


def test_attributes_are_not_negative():
    assert [row["ATTRIBUTES"] for row in read(batch([], attributes=-1) + message(0, 1, b"", b"", attributes=-1))] == [
        0xFFFF, 0xFF,
    ]  # fmt: skip


@pytest.mark.parametrize("base, delta, last", [((1 << 63) - 1, 1, -(1 << 63)), (-(1 << 63), -1, (1 << 63) - 1)])
def test_offsets_are_added_as_java_adds_them(base, delta, last):
    assert read(batch([], base_offset=base, last_delta=delta))[0]["LAST_OFFSET"] == last


@pytest.mark.parametrize("kind", [ABORT, COMMIT, 2, 3])
def test_markers(kind):
    """With any number of headers: Kafka does not look at them."""
    for some in ((), ((b"h", b""),), ((b"h", b""), (b"i", None))):
        (row,) = read(batch([control_record(kind, headers=some)], attributes=32))
        assert (row["MARKER"], row["COORDINATOR_EPOCH"]) == (kind, 7)


@pytest.mark.parametrize(
    "frame",
    [
        batch([control_record(COMMIT)], attributes=16),
        batch([control_record(COMMIT)], attributes=32, count=0),
        batch([control_record(COMMIT)], attributes=33),
        batch([record(0, key=b"\0\0\1", value=bytes(6))], attributes=32),
        batch([record(0, value=bytes(6))], attributes=32),
        batch([b"\x20rubbish"], attributes=32),
        batch([], attributes=32, count=1),
    ],
    ids=["no control batch", "no record", "compressed", "short key", "no key", "rubbish", "nothing there"],
)
def test_what_holds_no_marker(frame):
    assert read(frame)[0]["MARKER"] == -1


@pytest.mark.parametrize("value", [None, b"", bytes(5)])
def test_a_marker_without_an_epoch(value):
    (row,) = read(batch([record(0, key=struct.pack(">hh", 0, COMMIT), value=value)], attributes=32))
    assert (row["MARKER"], row["COORDINATOR_EPOCH"]) == (COMMIT, -1)


@given(st.binary(max_size=80), st.integers(-3, 9))
def test_no_control_batch_reads_beyond_its_end(records, count):
    data = batch([records], attributes=32, count=count)
    (row,) = read(data)
    assert row["COUNT"] == count
    assert read(data + b"\xff" * 50, frames(data))[0] == row


def packed(data, origin=0):
    rows, count = header_rows(data, origin)
    out = bytearray(count * headers.MAX_FINGERPRINT_BYTES)
    return bytes(out[: headers.pack_fingerprints(data, rows, count, origin, out)]), count


@given(st.lists(st.tuples(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(0, 300)), min_size=1, max_size=8))
def test_what_is_packed_can_be_read(batches):
    made = [batch([record(0, value=bytes(size))], base_offset=offset) for offset, size in batches]
    data = b"".join(made)
    fingerprint, count = packed(data, origin=77)
    block = Block(77, len(data), bytes(32), count, 0, 0, fingerprint)
    found = list(block.batches())
    assert block.is_sound()
    assert [part.crc for part in found] == [crc32c(part) for part in made]
    assert [part.size for part in found] == [len(part) for part in made]
    assert [part.last_offset for part in found] == [offset for offset, _ in batches]
    assert found[0].position == 77
