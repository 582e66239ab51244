"""Scans of many segments: threads give the same chunks, ranges and errors, in order, and leave nothing open."""

import os
import shutil
import threading
from pathlib import Path

import pytest

from export.chunk_rows import rows_of
from kseg.export import scanning
from kseg.export.chunk import NAMES
from kseg.export.decoding import LeftOut
from kseg.export.scanning import PartReader, ScanRequest, parts_of_scan
from kseg.segment.files import SegmentFile
from kseg.stores.source import open_source

TESTDATA = Path(__file__).resolve().parent.parent.parent / "testdata"
PLACES = ["log-directories/4.3.1/logs", "kafka-4.3.1/clients", "kafka-2.8.2/*", "damaged/4.3.1-*"]
SPEED = TESTDATA / "speed"


def read(paths: list[str], jobs: int) -> tuple[list[tuple[str, list[object]]], list[tuple[str, LeftOut]]]:
    """The rows of each chunk with its file, and what was left out."""
    told: list[tuple[str, LeftOut]] = []
    request = ScanRequest(tuple(paths))
    reader = PartReader(request, NAMES, 1, lambda file, left_out: told.append((file.path, left_out)), jobs)
    parts = (part for _, part in parts_of_scan(request))
    return [(part.file.path, list(rows_of(chunk))) for part, chunk in reader.chunks_of(parts)], told


@pytest.mark.parametrize("place", PLACES)
def test_threads_give_the_same_chunks_in_order(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = sorted(str(path) for path in TESTDATA.glob(f"{place}/**/*.log") if path.stat().st_size)
    assert len(paths) > 1
    expected = read(paths, 1)
    monkeypatch.setattr(scanning, "MEDIUM_BYTES", 0)
    assert read(paths, 3) == expected
    assert expected[0]


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts descriptors in /proc")
def test_a_scan_that_is_given_up_leaves_no_thread_and_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "MEDIUM_BYTES", 0)
    for number in range(9):
        shutil.copy(SPEED / "zstd.log", tmp_path / f"{number:020}.log")
    threads, descriptors = threading.active_count(), open_descriptors()
    request = ScanRequest(tuple(map(str, sorted(tmp_path.iterdir()))))

    def refuse(_file: SegmentFile, left_out: LeftOut) -> None:
        raise InterruptedError(left_out.code)

    reader = PartReader(request, NAMES, 1, refuse, 3)
    chunks = reader.chunks_of(part for _, part in parts_of_scan(request))
    next(chunks)
    chunks.close()  # type: ignore[attr-defined]
    assert (threading.active_count(), open_descriptors()) == (threads, descriptors)
    data = bytearray((tmp_path / f"{3:020}.log").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / f"{3:020}.log").write_bytes(data)
    found = []
    with pytest.raises(InterruptedError, match="crc-mismatch"):
        found += [part.file.path for part, _ in reader.chunks_of(part for _, part in parts_of_scan(request))]
    assert (threading.active_count(), open_descriptors()) == (threads, descriptors)


def test_only_compressed_segments_of_medium_size_get_a_thread() -> None:
    def is_worth(name: str, jobs: int) -> bool:
        reader = PartReader(ScanRequest(()), NAMES, 1, lambda *_: None, jobs)
        with open_source(str(SPEED / name)) as source:
            return reader._is_worth_a_thread(source)

    sizes = {name: (SPEED / name).stat().st_size for name in ("zstd.log", "1k.log")}
    assert all(size < scanning.PART_BYTES for size in sizes.values())
    expected = scanning.COMPILED and sizes["zstd.log"] >= scanning.MEDIUM_BYTES
    assert is_worth("zstd.log", 2) == expected
    assert not is_worth("zstd.log", 1)
    assert not is_worth("1k.log", 2)
