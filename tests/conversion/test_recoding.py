"""Recompression of many batches in one call: which batches it takes, and how invalid records are omitted."""

from pathlib import Path

import pytest

from conversion.conversions import TESTDATA, a_log, batches_of, convert, files, records_of
from kseg.conversion.partition import Refusal, recode
from kseg.formats.compressing import parse_target
from kseg.formats.rows import int64s
from kseg.kernel.layout.rows import FRAME_MAGIC, FRAME_POSITION, FRAME_SIZE, FRAME_STATE, FRAME_WIDTH
from kseg.kernel.scan.checksums import crc32c
from kseg.kernel.scan.frames import recodable
from kseg.segment.items import RecordBatch
from segment.segments import entries, sealed

PLAIN = TESTDATA / "log-directories/4.3.1/logs/dplain-0"
FIRST = PLAIN / f"{0:020d}.log"


def frames_of(data: bytes) -> memoryview:
    found = entries(data)
    rows, at = int64s(len(found) * FRAME_WIDTH), 0
    for i, entry in enumerate(found):
        row = i * FRAME_WIDTH
        rows[row + FRAME_POSITION], rows[row + FRAME_SIZE] = at, len(entry)
        rows[row + FRAME_MAGIC], rows[row + FRAME_STATE] = entry[16], 1
        at += len(entry)
    return rows


def test_a_run_ends_at_the_first_other_batch() -> None:
    found = entries(FIRST.read_bytes())

    def reach(changed: int, at: int, value: bytes, kept: int = 4, most: int = 1 << 20) -> int:
        some = [bytearray(entry) for entry in found]
        some[changed][at : at + len(value)] = value
        data = b"".join(bytes(entry) for entry in some)
        return int(recodable(data, frames_of(data), 0, len(some), 0, kept, most)[0])

    data = FIRST.read_bytes()
    assert recodable(data, frames_of(data), 0, len(found), 0, 4, 1 << 20) == (len(found), 46, len(data))
    assert reach(3, 22, b"\x20") == 3  # a control batch
    assert reach(3, 22, b"\x04") == 3  # has the codec
    assert reach(3, 22, b"\x07") == 3  # no codec
    assert reach(3, 16, b"\x01") == 3  # another format
    assert reach(3, 57, bytes(4)) == 3  # holds nothing
    assert reach(3, 0, bytes(8)) == 3  # its offset is one that was there
    assert reach(3, 23, b"\xff\xff\xff\xff") == 3
    assert reach(0, 0, b"", most=len(found[0])) == 1
    with pytest.raises(ValueError):
        recodable(b"", frames_of(data), 0, 1, 0, 0, 9)


def with_wrong_records(found: list[bytes]) -> tuple[list[bytes], RecordBatch]:
    """Batches of which the third has wrong records under a right checksum, and that batch."""
    wrong = bytearray(found[2])
    wrong[62] ^= 0x55
    bad = sealed(bytes(wrong))
    return [*found[:2], bad, *found[3:]], RecordBatch(bad, 0, len(bad), 2, True)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_with_invalid_records_are_omitted_in_place(codec: str) -> None:
    found, bad = with_wrong_records(entries(FIRST.read_bytes()))
    data = b"".join(found)
    results = recode(memoryview(data), frames_of(data), 1000, parse_target(codec), 1 << 20)
    assert [type(result) for result in results] == [bytearray, Refusal, bytearray]
    refusal = results[1]
    assert isinstance(refusal, Refusal)
    assert refusal.damage.position == 1000 + len(found[0]) + len(found[1])
    assert refusal.damage.code == "undecodable-records"
    assert refusal.gaps == [(bad.base_offset, bad.last_offset)]
    for entry in entries(results[0] + results[2]):  # type: ignore[operator]
        assert RecordBatch(entry, 0, len(entry), 2, True).check() == []
        assert crc32c(entry[21:], 0) == int.from_bytes(entry[17:21], "big")


@pytest.mark.parametrize("jobs", [1, 3])
def test_threads_keep_the_order(tmp_path: Path, jobs: int) -> None:
    made = convert(PLAIN, tmp_path / f"x{jobs}-0", "gzip", jobs=jobs)
    convert(PLAIN, tmp_path / "one-0", "gzip", jobs=1)
    assert files(tmp_path / f"x{jobs}-0", ".log") == files(tmp_path / "one-0", ".log")
    assert made.batches == len(batches_of(PLAIN))


def test_a_batch_with_wrong_records_is_a_gap(tmp_path: Path) -> None:
    found, bad = with_wrong_records(entries(FIRST.read_bytes()))
    made = convert(a_log(tmp_path / "damaged-0", *found), tmp_path / "x-0", "zstd", skips_damage=True)
    assert made.gaps == [(bad.base_offset, bad.last_offset)]
    lost = range(bad.base_offset, bad.last_offset + 1)
    assert records_of(tmp_path / "x-0") == [
        record for record in records_of(PLAIN) if record[0] < 46 and record[0] not in lost
    ]
    assert made.skipped[0][1].code == "undecodable-records"


@pytest.mark.parametrize("codec", ["zstd", "zstd:9", "lz4"])
def test_many_small_batches_are_compressed_as_each_alone(codec: str) -> None:
    found = entries(FIRST.read_bytes())[:3]
    data = b"".join([*found * 30, bytes(with_wrong_records(found)[1].data), *found * 2])
    target = parse_target(codec)
    together = recode(memoryview(data), frames_of(data), 0, target, 1 << 20)
    assert [type(result) for result in together] == [bytearray, Refusal, bytearray]
    alone = [recode(entry, frames_of(entry), 0, target, 1 << 20) for entry in found]
    each = b"".join(bytes(entry[0]) for entry in alone)  # type: ignore[arg-type]
    assert together[0] == each * 30
    assert together[2] == each * 2
