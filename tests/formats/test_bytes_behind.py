"""Trailing bytes in a batch: each is reported, and records that Kafka's classes read are read.

The expected results were observed with Kafka 4.3.1 (RecordBatch.streamingIterator); the case texts state them.
"""

import struct
import zlib
from pathlib import Path

import pytest

import kseg
from formats.streams import GZIP, LZ4, SKIPPABLE, SNAPPY, ZSTD, ZSTD_MAGIC, gzip_member, lz4_frame, xerial, zstd_frame
from kseg.segment.items import RecordBatch
from segment.segments import sealed
from verification.partitions import message, of_records, plain_record, stored_gzip

RECORDS = plain_record(0) + plain_record(1)
PACKED = {
    GZIP: gzip_member(RECORDS), SNAPPY: xerial(RECORDS), LZ4: lz4_frame(RECORDS), ZSTD: zstd_frame(RECORDS),
}  # fmt: skip


def of_area(area: bytes, codec: int, count: int = 2) -> bytes:
    """A v2 batch with a record count of 2, or of 0."""
    made = bytearray(of_records([area, b""][: max(count, 1)], max(count - 1, 0), attributes=codec))
    struct.pack_into(">i", made, 57, count)
    return sealed(bytes(made))


def seen(tmp_path: Path, batch: bytes) -> tuple[list[str], int]:
    """Returns the problem codes and the number of records of the only batch in a segment."""
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(batch)
    (item,) = kseg.open(path)
    assert item.is_valid
    return [problem.code for problem in item.check()], len(list(item))


# v2 ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec, tail", [(GZIP, b"any"), (GZIP, b"any" * 20), (SNAPPY, b"any"), (LZ4, b"any")])
def test_bytes_that_readers_pass_over(tmp_path: Path, codec: int, tail: bytes) -> None:
    assert seen(tmp_path, of_area(PACKED[codec], codec)) == ([], 2)
    assert seen(tmp_path, of_area(PACKED[codec] + tail, codec)) == (["bytes-behind-records"], 2)


@pytest.mark.parametrize("length", range(1, 13))
def test_a_skippable_zstd_frame_that_is_cut_short(tmp_path: Path, length: int) -> None:
    """zstd-jni waits for the rest of the frame, and takes the end of its source as the end of the previous frame."""
    found = seen(tmp_path, of_area(PACKED[ZSTD] + SKIPPABLE[:length], ZSTD))
    assert found == (["bytes-behind-records"], 2)
    assert seen(tmp_path, of_area(PACKED[ZSTD] + SKIPPABLE, ZSTD)) == ([], 2)


@pytest.mark.parametrize("length", range(1, 9))
def test_a_zstd_frame_that_is_cut_short_in_its_header(tmp_path: Path, length: int) -> None:
    assert seen(tmp_path, of_area(PACKED[ZSTD] + PACKED[ZSTD][:length], ZSTD)) == (["bytes-behind-records"], 2)


def test_a_zstd_frame_truncated_inside_a_nonempty_block(tmp_path: Path) -> None:
    """A raw block is returned as it is read: the reader finds its bytes where the batch should end."""
    raw = ZSTD_MAGIC + b"\x20\x10" + struct.pack("<I", 16 << 3 | 1)[:3] + b"raw"
    codes, records = seen(tmp_path, of_area(PACKED[ZSTD] + raw, ZSTD))
    assert codes == ["bytes-behind-records", "undecodable-records"]
    assert records == 2


def test_the_order_of_problems(tmp_path: Path) -> None:
    """`check` begins with the trailing bytes, a finding of `kseg verify` with the error."""
    batch = of_area(PACKED[GZIP] + b"any", GZIP, 3)
    codes, _ = seen(tmp_path, batch)
    assert codes == ["bytes-behind-records", "undecodable-records"]
    data = memoryview(batch)
    found = RecordBatch(data, 0, len(data), 2, True).survey().problems
    assert [problem.code for problem in found] == codes[::-1]


@pytest.mark.parametrize("tail", [b"\0", b"any", b"not a frame at all"])
def test_trailing_bytes_after_a_zstd_frame(tmp_path: Path, tail: bytes) -> None:
    """Kafka fails at them after all records but the last."""
    assert seen(tmp_path, of_area(PACKED[ZSTD] + tail, ZSTD)) == (["undecodable-records"], 2)


def test_a_zstd_frame_that_is_cut_short_and_read_later(tmp_path: Path) -> None:
    """zstd-jni reads 131075 bytes at a time; it fails if a truncated frame needs another read."""
    skipped = struct.pack("<II", 0x184D2A50, 131075) + bytes(131075)
    codes, records = seen(tmp_path, of_area(PACKED[ZSTD] + skipped + SKIPPABLE[:9], ZSTD))
    assert (codes, records) == (["bytes-behind-records"], 2)
    inside = 131075 - len(PACKED[ZSTD])
    skipped = struct.pack("<II", 0x184D2A50, inside) + bytes(inside - 4)
    codes, records = seen(tmp_path, of_area(PACKED[ZSTD] + skipped, ZSTD))
    assert (codes, records) == (["undecodable-records"], 2)


@pytest.mark.parametrize("codec", range(8))
@pytest.mark.parametrize("area", [b"", b"\x99 no stream of any codec", RECORDS])
def test_a_batch_that_counts_no_records(tmp_path: Path, codec: int, area: bytes) -> None:
    """The gzip, snappy and lz4 streams read their header on construction, the zstd stream reads nothing."""
    reads = codec in (0, ZSTD)
    expected = ["undecodable-records"] if not reads else ["bytes-behind-records"] if area else []
    assert seen(tmp_path, of_area(area, codec, count=0)) == (expected, 0)


@pytest.mark.parametrize("codec", PACKED)
def test_a_stream_in_a_batch_that_counts_no_records(tmp_path: Path, codec: int) -> None:
    for stream in (PACKED[codec], PACKED[codec][:-2]):
        assert seen(tmp_path, of_area(stream, codec, count=0)) == (["bytes-behind-records"], 0)


# v0, v1 --------------------------------------------------------------------------------------------------------------

INNER = message(0, b"one") + message(1, b"two")


@pytest.mark.parametrize("tail", [b"\0", b"eleven byte", struct.pack(">qi", 2, 0x7FFFFFFF), message(2, b"three")[:-1]])
def test_a_set_that_ends_in_no_message(tmp_path: Path, tail: bytes) -> None:
    """Kafka allocates the claimed size, which may be too much, or drops the bytes."""
    assert seen(tmp_path, message(1, stored_gzip(INNER + tail), GZIP)) == (["cut-message-set"], 2)


@pytest.mark.parametrize("inner", [b"", b"\0" * 11, message(0, b"one")[:-1]])
def test_a_set_without_a_message(tmp_path: Path, inner: bytes) -> None:
    assert seen(tmp_path, message(0, stored_gzip(inner), GZIP)) == (["undecodable-records"], 0)


def test_trailing_bytes_after_the_stream_of_a_set(tmp_path: Path) -> None:
    assert seen(tmp_path, message(1, stored_gzip(INNER) + b"any", GZIP)) == (["bytes-behind-records"], 2)


def test_a_set_of_0_7_that_ends_in_no_message(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.kafka"
    path.write_bytes(message_07(stored_gzip(message_07(b"one", 0) + b"\0\0\0\x09\0"), GZIP))
    (item,) = kseg.open(path)
    assert [problem.code for problem in item.check()] == ["cut-message-set"]
    assert [record.value for record in item] == [b"one"]


def message_07(payload: bytes, codec: int) -> bytes:
    body = bytes([1, codec]) + struct.pack(">I", zlib.crc32(payload)) + payload
    return struct.pack(">i", len(body)) + body
