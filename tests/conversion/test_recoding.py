"""Recompression in the kernel: which batches it handles, and how invalid records are omitted."""

import json
import threading
from pathlib import Path

import pytest

from conversion.conversions import TESTDATA, batches_of, convert, files, records_of
from kseg.conversion import partition
from kseg.conversion.partition import Refusal, recode
from kseg.formats import codec_libraries
from kseg.formats.areas import NONE
from kseg.formats.compressing import parse_target
from kseg.formats.compression import ZSTD
from kseg.formats.rows import int64s
from kseg.kernel import COMPILED
from kseg.kernel.codecs import recoding as kernel
from kseg.kernel.layout.rows import DONE, FRAME_MAGIC, FRAME_POSITION, FRAME_SIZE, FRAME_STATE, FRAME_WIDTH, NOT_PLAIN
from kseg.kernel.scan.checksums import crc32c
from kseg.segment.batches import RecordBatch
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
    selection = kernel.BatchSelection()

    def reach(changed: int, at: int, value: bytes, kept: int = 4, most: int = 1 << 20) -> int:
        some = [bytearray(entry) for entry in found]
        some[changed][at : at + len(value)] = value
        data = b"".join(bytes(entry) for entry in some)
        selection.next_offset = 0
        return int(selection.select(data, frames_of(data), 0, len(some), kept, most))

    assert reach(0, 0, b"") == len(found)
    assert selection.next_offset == 46
    assert selection.size == len(FIRST.read_bytes())
    assert reach(3, 22, b"\x20") == 3  # a control batch
    assert reach(3, 22, b"\x04") == 3  # has the codec
    assert reach(3, 22, b"\x07") == 3  # no codec
    assert reach(3, 16, b"\x01") == 3  # another format
    assert reach(3, 57, bytes(4)) == 3  # holds nothing
    assert reach(3, 0, bytes(8)) == 3  # its offset is one that was there
    assert reach(3, 23, b"\xff\xff\xff\xff") == 3
    assert reach(0, 0, b"", most=len(found[0])) == 1
    with pytest.raises(ValueError):
        selection.select(b"", frames_of(FIRST.read_bytes()), 0, 1, 0, 9)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_with_invalid_records_are_omitted_in_place(codec: str) -> None:
    found = entries(FIRST.read_bytes())
    wrong = bytearray(found[2])
    wrong[62] ^= 0x55
    found[2] = sealed(bytes(wrong))
    data = b"".join(found)
    results = recode(memoryview(data), frames_of(data), 1000, parse_target(codec), 1 << 20)
    assert [type(result) for result in results] == [bytearray, Refusal, bytearray]
    refusal = results[1]
    assert isinstance(refusal, Refusal)
    assert refusal.damage.position == 1000 + len(found[0]) + len(found[1])
    assert refusal.damage.code == "undecodable-records"
    old = RecordBatch(found[2], 0, len(found[2]), 2, True)
    assert refusal.gaps == [(old.base_offset, old.last_offset)]
    for entry in entries(results[0] + results[2]):  # type: ignore[operator]
        assert RecordBatch(entry, 0, len(entry), 2, True).check() == []
        assert crc32c(entry[21:], 0) == int.from_bytes(entry[17:21], "big")


def test_nothing_becomes_nothing() -> None:
    assert recode(b"", int64s(0), 0, NONE, 9) == [b""]


@pytest.mark.parametrize("jobs", [1, 3])
def test_threads_keep_the_order(tmp_path: Path, jobs: int) -> None:
    made = convert(PLAIN, tmp_path / f"x{jobs}-0", "gzip", jobs=jobs)
    convert(PLAIN, tmp_path / "one-0", "gzip", jobs=1)
    assert files(tmp_path / f"x{jobs}-0", ".log") == files(tmp_path / "one-0", ".log")
    assert made.batches == len(batches_of(PLAIN))


def test_a_batch_with_wrong_records_is_a_gap(tmp_path: Path) -> None:
    source = tmp_path / "damaged-0"
    source.mkdir()
    found = entries(FIRST.read_bytes())
    wrong = bytearray(found[2])
    wrong[62] ^= 0x55
    found[2] = sealed(bytes(wrong))
    (source / FIRST.name).write_bytes(b"".join(found))
    made = convert(source, tmp_path / "x-0", "zstd", skips_damage=True)
    old = RecordBatch(found[2], 0, len(found[2]), 2, True)
    assert made.gaps == [(old.base_offset, old.last_offset)]
    lost = range(old.base_offset, old.last_offset + 1)
    kept = [record for record in records_of(PLAIN) if record[0] < 46 and record[0] not in lost]
    assert records_of(tmp_path / "x-0") == kept
    assert json.dumps(made.skipped[0][1]._asdict()).startswith('{"code": "undecodable-records"')


@pytest.mark.parametrize("codec", ["zstd", "zstd:9", "lz4"])
def test_many_small_batches_are_compressed_as_each_alone(codec: str) -> None:
    found = entries(FIRST.read_bytes())[:3]
    wrong = bytearray(found[2])
    wrong[62] ^= 0x55
    data = b"".join([*found * 30, sealed(bytes(wrong)), *found * 2])
    target = parse_target(codec)
    together = recode(memoryview(data), frames_of(data), 0, target, 1 << 20)
    assert [type(result) for result in together] == [bytearray, Refusal, bytearray]
    alone = [recode(entry, frames_of(entry), 0, target, 1 << 20) for entry in found]
    each = b"".join(bytes(entry[0]) for entry in alone)  # type: ignore[arg-type]
    assert together[0] == each * 30
    assert together[2] == each * 2


def own_libzstd() -> bool:
    """Whether zstandard contains a libzstd with exported functions, so that the kernel can use it."""
    own, *others = codec_libraries.zstd_candidates()
    return bool(others) and codec_libraries.addresses_in_zstd(own) is not None


LEVELS = [f"zstd{level}" for level in ("", ":1", ":9", ":-5", ":19")] + [
    f"lz4{level}" for level in ("", ":1", ":5", ":17")
]


@pytest.mark.parametrize("codec", ["none", *LEVELS])
@pytest.mark.parametrize("source", ["plain", "lz4", "gzip", "snappy", "zstd"])
def test_the_kernel_compresses_as_the_packages_do(codec: str, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if codec.startswith("zstd") and not own_libzstd():
        pytest.skip("zstandard is built on another libzstd")
    found, target = entries(FIRST.read_bytes()), NONE if codec == "none" else parse_target(codec)
    plain = b"".join(found)
    data = plain
    if source != "plain":
        data = bytes(recode(plain, frames_of(plain), 0, parse_target(source), 1 << 20)[0])
    by_kernel = recode(data, frames_of(data), 0, target, 1 << 20)
    monkeypatch.setattr(partition, "packer", lambda _: None)
    monkeypatch.setattr(partition, "_of_thread", threading.local())
    assert recode(data, frames_of(data), 0, target, 1 << 20) == by_kernel
    assert len(entries(bytes(by_kernel[0]))) == len(found)


@pytest.mark.parametrize("piece_bytes", [0, 1, 300, 5000])
def test_the_output_grows_for_a_large_batch(piece_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data, target = FIRST.read_bytes(), parse_target("zstd")
    expected = recode(data, frames_of(data), 0, target, 1 << 20)
    monkeypatch.setattr(partition, "_expected", lambda *_: piece_bytes)
    assert recode(data, frames_of(data), 0, target, 1 << 20) == expected


@pytest.mark.skipif(not COMPILED, reason="an interpreted kernel leaves all of them")
def test_batches_that_the_kernel_skips() -> None:
    data = FIRST.read_bytes()
    frames, out = frames_of(data), bytearray(1 << 20)
    pack, held = codec_libraries.packer(ZSTD, 3), codec_libraries.expansion_buffer(1 << 20)

    def status(data: bytes = data, largest: int = 1 << 20) -> tuple[int, int]:
        repacking = kernel.Repacking(held, pack, largest)
        return repacking.repack(data, frames, out), repacking.frame

    assert status() == (DONE, len(frames) // FRAME_WIDTH)
    assert status(largest=1) == (NOT_PLAIN, 0)
    gzipped = bytearray(data)
    gzipped[frames[FRAME_WIDTH + FRAME_POSITION] + 22] |= 1
    assert status(bytes(gzipped)) == (NOT_PLAIN, 1)
    with pytest.raises(ValueError):
        status(data[:-1])
    for frame, size in ((-1, 0), (0, -1), (0, len(out) + 1)):
        wrong = kernel.Repacking(held, pack, 1)
        wrong.frame, wrong.size = frame, size
        with pytest.raises(ValueError):
            wrong.repack(data, frames, out)


@pytest.mark.skipif(not COMPILED, reason="an interpreted kernel gets no expansion buffer")
def test_skipped_batches_copy_no_large_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the time for many small batches would grow with the square of their number."""
    plain = FIRST.read_bytes()
    gzipped = bytes(recode(plain, frames_of(plain), 0, parse_target("gzip"), 1 << 20)[0])
    asked: list[int] = []
    lengthen = partition.lengthen
    monkeypatch.setattr(partition, "lengthen", lambda out, size: (asked.append(size), lengthen(out, size)))
    data = gzipped * 300
    found = recode(data, frames_of(data), 0, parse_target("lz4"), 1 << 20)
    assert len(entries(bytes(found[0]))) == len(asked) == 300 * len(entries(gzipped))
    assert max(asked) <= partition._TRIED_BYTES < len(data)
