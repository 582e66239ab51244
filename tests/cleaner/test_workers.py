"""Cleaning with several threads gives the same bytes as with one; the kernel handles old messages like Python does."""

import errno
import random
import time
import tracemalloc
from pathlib import Path

import pytest

from cleaner.building import TRANSACTIONAL, NewRecord, build_marker, build_message_set, build_record_batch
from cleaner.cleaning import NOW, RETENTION, clean
from cleaner.partitions import new_records, write_log
from kseg.changes.quarantine import staging
from kseg.cleaner import rounds
from kseg.cleaner.log import CleanedTransactions, CleaningThreads, Window, read_segments, windows
from kseg.cleaner.planner import Compactor
from kseg.cleaner.rounds import OffsetMap, map_keys, memory_for
from kseg.cleaner.settings import CleanerSettings
from kseg.errors import KsegError
from kseg.kernel.files import system
from kseg.kernel.records.building import seal
from kseg.limits import FRAMES_PER_CALL
from kseg.node.log_directory import BrokerState
from kseg.segment.items import RecordBatch
from kseg.segment.survey import HeaderRows
from kseg.stores.windows import Buffers
from segment.reading import items_at

NOW_MS = 1_700_000_000_000


def cleaned(partition: Path, folder: Path, jobs: int, **settings: object) -> tuple[object, ...]:
    """Returns all results of a cleaning whose plan is not applied."""
    folder.mkdir()
    chosen = CleanerSettings(NOW_MS, min_ratio=0.0, includes_active=True, jobs=jobs, **settings)  # type: ignore
    with staging(str(partition), str(folder)) as stage:
        compactor = Compactor(str(partition), BrokerState(), chosen, stage)
        for _ in compactor.plans():
            pass
        found = [Path(group.segment.path).read_bytes() for group in compactor.result.groups]
    result = compactor.result
    return found, result.counts, result.end, result.rounds, result.keys


def log_of(partition: Path, codec: int, batches: int = 60) -> None:
    chosen, offset, parts = random.Random(codec), 0, []
    for number in range(batches):
        count = 4000 if number == batches // 2 else chosen.randrange(1, 300)
        rows = [
            (b"key-%d" % chosen.randrange(3000), None if chosen.random() < 0.1 else chosen.randbytes(200))
            for _ in range(count)
        ]
        parts.append(build_record_batch(new_records(rows, offset), codec))
        offset += count
    write_log(partition, parts, 2 << 20)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("codec", [0, 1, 3, 4])
@pytest.mark.parametrize("memory_bytes", [1 << 20, 40_000])
def test_threads_change_nothing(tmp_path: Path, codec: int, memory_bytes: int) -> None:
    log_of(tmp_path / "t-0", codec)
    settings = {"memory_bytes": memory_bytes, "until_clean": memory_bytes > 50_000}
    alone = cleaned(tmp_path / "t-0", tmp_path / "one", 1, **settings)
    assert cleaned(tmp_path / "t-0", tmp_path / "three", 3, **settings) == alone


@pytest.mark.parametrize(("jobs", "windows"), [(1, 3), (3, 3), pytest.param(2, 8, marks=pytest.mark.slow)])
def test_windows_behind_a_full_map_are_forgotten(tmp_path: Path, jobs: int, windows: int) -> None:
    """Threads have read them already; what they found must not be taken for results of the next segment."""
    count = windows * FRAMES_PER_CALL
    write_log(
        tmp_path / "t-0",
        [build_record_batch(new_records([(b"%d" % i, b"")], i)) for i in range(count)],
        1 << 30,
    )
    (segment,) = read_segments(str(tmp_path / "t-0"))
    workers = CleaningThreads(jobs)
    offset_map = OffsetMap(memory_for(FRAMES_PER_CALL // 2))
    try:
        assert not map_keys(offset_map, segment, 0, CleanedTransactions(), workers, Buffers())
        assert list(workers.drain()) == []
    finally:
        workers.close()
        offset_map.close()


@pytest.mark.skipif(not system.CAN_GUARD, reason="a file that is not mapped keeps what was read last")
def test_a_large_batch_is_freed_before_the_rest_is_read(tmp_path: Path) -> None:
    sizes = 40 << 20, 1, 1
    batches = [build_record_batch(new_records([(b"key", bytes(size))], i)) for i, size in enumerate(sizes)]
    write_log(tmp_path / "t-0", batches, 1 << 30)
    (segment,) = read_segments(str(tmp_path / "t-0"))
    tracemalloc.start()
    try:
        held = [(window.count, tracemalloc.get_traced_memory()[0]) for window in windows(segment.path, Buffers())]
    finally:
        tracemalloc.stop()
    assert [count for count, _ in held] == [1, 2]
    assert held[0][1] - held[1][1] > sizes[0] // 2


def test_columns_of_a_window_are_not_read_for_each_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window of small messages would take the square of their number."""
    reads, read = [], vars(HeaderRows)["lasts"].__get__
    monkeypatch.setattr(Window, "lasts", property(lambda rows: reads.append(rows) or read(rows)), raising=False)
    write_log(tmp_path / "t-0", [build_message_set(new_records([(b"%d" % i, b"")], i), 1, 1) for i in range(100)])
    cleaned(tmp_path / "t-0", tmp_path / "out", 1)
    assert 0 < len(reads) < 20


def test_damage_that_a_thread_finds_ends_it(tmp_path: Path) -> None:
    log_of(tmp_path / "t-0", 3)
    path = sorted((tmp_path / "t-0").glob("*.log"))[1]
    rows = new_records([(b"a", b"1"), (b"a", b"2")], 1 << 20)
    batch = bytearray(build_record_batch(rows))
    batch[61] = 0x7E
    seal(batch, 0, len(batch), bytes(batch), 0, 0, 0, 2)
    (tmp_path / "t-0" / f"{1 << 20:020d}.log").write_bytes(batch)
    for jobs in (1, 3):
        with pytest.raises(KsegError, match="does not fit the batch"):
            cleaned(tmp_path / "t-0", tmp_path / f"out{jobs}", jobs)
    assert path.exists()


def test_no_thread_uses_the_offset_map_after_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its memory is free then."""
    batches = [build_record_batch(new_records([(b"%d" % i, b"")], i)) for i in range(3 * FRAMES_PER_CALL)]
    write_log(tmp_path / "t-0", batches, 1 << 30)
    began, closed, used, real = list[object](), list[OffsetMap](), list[OffsetMap](), OffsetMap.close

    def failing(*_: object) -> None:
        began.append(None)
        if len(began) > 1:
            time.sleep(0.2)
            used.extend(closed)
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(OffsetMap, "close", lambda one: closed.append(one) or real(one))
    monkeypatch.setattr(rounds, "filter_window", failing)
    with pytest.raises(OSError, match="no space left"):
        cleaned(tmp_path / "t-0", tmp_path / "out", 3)
    assert (len(closed), used) == (1, [])


# What becomes of transaction markers, whose delete horizon is counted from when nothing else is left of them.


def markers(partition: Path) -> list[int]:
    """Offsets of the control batches that still have their record."""
    batches = (item for item in items_at(partition) if isinstance(item, RecordBatch))
    return [batch.base_offset for batch in batches if batch.is_control and list(batch)]


@pytest.mark.parametrize(("late_ms", "left"), [(-1, [1]), (0, [])])
def test_a_marker_goes_when_its_horizon_is_reached(late_ms: int, left: list[int], tmp_path: Path) -> None:
    partition = tmp_path / "t-0"
    old = NewRecord(0, 1_000_000, b"k", b"old")
    superseded = build_record_batch([old], TRANSACTIONAL, producer=7, epoch=0, sequence=0)
    latest = build_record_batch([NewRecord(2, 1_000_002, b"k", b"new")])
    write_log(partition, [superseded, build_marker(1, 7, True), latest], 1 << 20)
    assert not clean(partition).horizons
    assert markers(partition) == [1], "the data of its transaction was there until now"
    assert clean(partition, 0).horizons == {NOW + RETENTION: 1}
    assert markers(partition) == [1], "from now on it has a delete horizon"
    assert clean(partition, 0, now_ms=NOW + RETENTION + late_ms).horizons.total() == len(left)
    assert markers(partition) == left
