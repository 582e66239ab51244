"""Seeking never skips a wanted record, whatever the indexes hold, and reads little of the file with right ones."""

import os
import shutil
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kseg.stores.extent
from kseg.kernel import COMPILED
from kseg.kernel.scan.frames import FrameScan
from kseg.segment import reader as reader_module
from kseg.segment import seek
from kseg.segment.files import SegmentFile, segment_file
from kseg.segment.items import Batch
from kseg.segment.reader import open_segment
from segment.long_log import BASE_OFFSET, FIRST_TIMESTAMP, STEP_MS, write_long_log
from segment.segments import LOGS, TESTDATA, name_of

INDEXED = [path for path in LOGS if path.with_suffix(".index").exists()]
LONG_BYTES = 64 << 20
MAX_TOUCHED_BYTES = 1 << 20


def batches(file: SegmentFile) -> list[Batch]:
    with open_segment(file) as reader:
        return [item for item in reader if isinstance(item, Batch)]


def assert_nothing_is_skipped(file: SegmentFile, found: list[Batch], offset: int) -> int:
    """Seeks ``offset``; asserts that the position is that of a batch, and that all batches before it are below."""
    with open_segment(file) as reader:
        start = seek.seek_offset(reader, file, offset)
    assert start.position in {0, *(batch.position for batch in found)}
    assert all(batch.last_offset < offset for batch in found if batch.position < start.position)
    assert not start.is_scan or start.position == 0
    return start.position


def assert_no_time_is_skipped(file: SegmentFile, found: list[Batch], timestamp: int) -> int:
    with open_segment(file) as reader:
        start = seek.seek_time(reader, file, timestamp)
    assert start.position in {0, *(batch.end for batch in found)}
    early = [record.timestamp for batch in found if batch.position < start.position for record in batch]
    assert all(stamp is None or stamp < timestamp for stamp in early)
    return start.position


@pytest.mark.sampled(24)
@pytest.mark.parametrize("path", INDEXED, ids=name_of)
def test_real_indexes_lead_to_the_batch(path: Path) -> None:
    file = segment_file(str(path))
    found = batches(file)
    wanted = sorted({offset + d for batch in found[:60] for offset in (batch.last_offset,) for d in (-1, 0, 1)})
    positions = [assert_nothing_is_skipped(file, found, offset) for offset in wanted]
    stamps = sorted({record.timestamp or 0 for batch in found[:30] for record in batch})
    positions += [assert_no_time_is_skipped(file, found, stamp + d) for stamp in stamps for d in (0, 1)]
    if index_entries(path) > 1:
        assert max(positions) > 0, "no entry was ever used"


def index_entries(path: Path) -> int:
    return sum(any(entry) for entry in struct.iter_unpack(">ii", path.with_suffix(".index").read_bytes()))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("path", INDEXED, ids=name_of)
def test_the_extent_is_that_of_a_scan(path: Path) -> None:
    file = segment_file(str(path))
    found = batches(file)
    stamps = [stamp for batch in found for _, stamp, *_ in batch if stamp is not None and stamp >= 0]
    with open_segment(file) as reader:
        first = next(iter(found[0])).offset if found[0].base_offset is None else found[0].base_offset
        assert seek.offset_extent(reader, file) == (first, found[-1].last_offset)
        assert seek.time_extent(reader, file) == (
            (stamps[0], max(batch.max_timestamp for batch in found)) if stamps else None
        )


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("small")


mutations = st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(0, 255)), max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mutations, mutations, st.binary(max_size=60), st.booleans(), st.integers(0, 90), st.data())
def test_wrong_indexes_cost_time_and_nothing_else(
    small: Path, offsets: list, times: list, noise: bytes, is_noise: bool, cut: int, data: st.DataObject
) -> None:
    source = TESTDATA / "kafka-4.3.1/codecs/codec-mix-0/00000000000000000000.log"
    path = small / source.name
    if not path.exists():
        shutil.copy(source, path)
    for suffix, changes in ((".index", offsets), (".timeindex", times)):
        content = bytearray(source.with_suffix(suffix).read_bytes())
        for at, byte in changes:
            content[at % len(content)] = byte
        path.with_suffix(suffix).write_bytes(noise if is_noise else content[: len(content) - cut])
    file = segment_file(str(path))
    found = batches(file)
    assert_nothing_is_skipped(file, found, data.draw(st.integers(-5, found[-1].last_offset + 5)))
    assert_no_time_is_skipped(file, found, data.draw(st.integers(1_789_999_000_000, 1_790_001_000_000)))


@pytest.mark.parametrize("state", ["missing", "empty", "zeros", "of another segment", "a FIFO", "a directory"])
def test_without_an_index_the_file_is_scanned(state: str, tmp_path: Path) -> None:
    file = write_long_log(tmp_path, 1 << 16, with_indexes=False)
    for suffix in (".index", ".timeindex"):
        path = Path(seek.index_path(file, suffix))
        if state == "empty":
            path.write_bytes(b"")
        elif state == "zeros":
            path.write_bytes(bytes(1 << 16))
        elif state == "of another segment":
            path.write_bytes(struct.pack(">ii", 1, 99) if suffix == ".index" else struct.pack(">qi", 5, 1))
        elif state == "a FIFO":
            os.mkfifo(path)
        elif state == "a directory":
            path.mkdir()
    with open_segment(file) as reader:
        for start in (seek.seek_offset(reader, file, 1 << 40), seek.seek_time(reader, file, 1 << 50)):
            assert (start.position, start.is_scan) == (0, True)
            assert start.reason


def test_an_entry_that_is_wrong_gives_way_to_an_earlier_one(tmp_path: Path) -> None:
    file = write_long_log(tmp_path, 1 << 18)
    found = batches(file)
    index = Path(seek.index_path(file, ".index"))
    content = bytearray(index.read_bytes())
    struct.pack_into(">i", content, 8 * 9 + 4, found[10].position + 1)
    index.write_bytes(content)
    with open_segment(file) as reader:
        start = seek.seek_offset(reader, file, found[10].last_offset)
    assert start.position == found[9].position
    assert not start.is_scan
    assert start.reason


@pytest.mark.parametrize("leftover", [".deleted", ".swap", ".cleaned"])
def test_leftovers_have_indexes_of_their_own(leftover: str) -> None:
    file = segment_file(f"t-0/00000000000000000005.log{leftover}")
    assert seek.index_path(file, ".timeindex") == f"t-0/00000000000000000005.timeindex{leftover}"


class Touched:
    """Counts the bytes read of segments: by pread of unmapped ones, and by the kernel."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read = self.followed = 0
        read_at, scan = kseg.stores.extent.read_at, reader_module.kernel.scan

        def counting_read(descriptor: int, size: int, position: int) -> bytes:
            self.read += size
            return read_at(descriptor, size, position)

        def counting_scan(state: FrameScan, *arguments: Any) -> int:
            start = state.position
            status = scan(state, *arguments)
            self.followed += state.position - start
            return int(status)

        kernel = SimpleNamespace(**vars(reader_module.kernel) | {"scan": counting_scan, "find": None})
        monkeypatch.setattr(reader_module, "kernel", kernel)
        monkeypatch.setattr(kseg.stores.extent, "read_at", counting_read)


@pytest.fixture(scope="module", params=[False, True], ids=["last offsets", "first offsets"])
def long_log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SegmentFile:
    return write_long_log(tmp_path_factory.mktemp("long"), LONG_BYTES, by_first_offset=request.param)


def test_right_indexes_spare_the_file(long_log: SegmentFile, monkeypatch: pytest.MonkeyPatch) -> None:
    touched = Touched(monkeypatch)
    count = os.path.getsize(seek.index_path(long_log, ".index")) // 8 - 1000
    with open_segment(long_log) as reader:
        first, last = seek.offset_extent(reader, long_log) or (0, 0)
        stamps = seek.time_extent(reader, long_log)
        for fraction in (0.25, 0.5, 0.9):
            wanted = first + int((last - first) * fraction)
            reader.begin_at(seek.seek_offset(reader, long_log, wanted).position)
            seen = next(batch for batch in reader if isinstance(batch, Batch) and batch.last_offset >= wanted)
            assert seen.base_offset <= wanted
            moment = FIRST_TIMESTAMP + int(count * fraction) * STEP_MS
            reader.begin_at(seek.seek_time(reader, long_log, moment).position)
            late = next(batch for batch in reader if isinstance(batch, Batch) and batch.max_timestamp >= moment)
            assert late.max_timestamp == moment
    assert first == BASE_OFFSET
    assert stamps is not None
    assert stamps[1] == FIRST_TIMESTAMP + count * STEP_MS
    assert 0 < touched.followed < MAX_TOUCHED_BYTES
    # Index entries are read by pread in both cases.
    assert touched.read < MAX_TOUCHED_BYTES
    assert COMPILED or touched.read > touched.followed // 2


# Spans of bytes that indexes give for ranges of offsets, times and bytes, against a search of plain lists.

BASE, SIZE = 100, 5000
OFFSETS = [(3 + 5 * i, 100 + 60 * i) for i in range(12)]
"""Entries of an offset index: relative offsets and positions."""
TIMES = [(1000 + 10 * i, 3 + 5 * i) for i in range(12)]
IN_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def write(
    folder: Path, offsets: list[tuple[int, int]] | None, times: list[tuple[int, int]] | None = None, base: int = BASE
) -> SegmentFile:
    path = folder / f"{base:020}.log"
    path.touch()
    for entries, suffix, form in ((offsets, ".index", ">ii"), (times, ".timeindex", ">qi")):
        path.with_suffix(suffix).unlink(missing_ok=True)
        if entries is not None:
            path.with_suffix(suffix).write_bytes(b"".join(struct.pack(form, *entry) for entry in entries))
    return segment_file(str(path))


def test_without_an_index_all_bytes_are_read(tmp_path: Path) -> None:
    for offsets in (None, []):
        file = write(tmp_path, offsets, TIMES)
        assert seek.indexed_span(file, SIZE, BASE + 50, BASE + 51, 1100) == seek.ByteSpan(0, SIZE)
        assert seek.span_of_bytes(file, SIZE, 700, 701) == seek.ByteSpan(0, SIZE)


@IN_FOLDER
@given(
    steps=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 40), st.integers(1, 9)), min_size=1, max_size=12),
    first=st.integers(0, 60), width=st.integers(0, 30), size=st.integers(1, 500), earliest=st.integers(0, 80),
)  # fmt: skip
def test_any_index(
    tmp_path: Path, steps: list[tuple[int, int, int]], first: int, width: int, size: int, earliest: int
) -> None:
    offsets, times, relative, position, time = [], [], 0, 0, 0
    for offset_step, bytes_step, time_step in steps:
        relative, position, time = relative + offset_step, position + bytes_step, time + time_step
        offsets.append((relative, position))
        times.append((time, relative))
    file, last = write(tmp_path, offsets, times, base=7), first + width

    def place(i: int) -> int:
        return offsets[i][1] if i >= 0 else 0

    def end(i: int) -> int:
        return min(offsets[i][1], size) if i < len(offsets) else size

    before = [entry for entry in times if entry[0] < earliest]
    least = max(first, 7 + before[-1][1]) if before else first
    chosen = sum(7 + entry[0] <= least for entry in offsets) - 1
    behind = sum(7 + entry[0] <= last for entry in offsets) + seek.BATCHES_BEHIND
    expected = seek.ByteSpan(place(chosen), end(behind), place(chosen - seek.CHAINED))
    assert seek.indexed_span(file, size, first, last, earliest) == expected
    of_bytes = sum(entry[1] <= first for entry in offsets) - 1
    after = sum(entry[1] < last for entry in offsets)
    assert seek.span_of_bytes(file, size, first, last) == seek.ByteSpan(
        place(of_bytes), end(after), place(of_bytes - seek.CHAINED)
    )
