"""New segments compared with real ones: the same batches, appended here, give the files that a broker's append gave."""

import os
from pathlib import Path
from struct import iter_unpack

import pytest

from conversion.conversions import files
from kseg.formats.rows import int64s
from kseg.kernel.layout.rows import (
    BATCH_FIRST_OFFSET,
    BATCH_LAST_OFFSET,
    BATCH_MAX_TIMESTAMP,
    BATCH_POSITION,
    BATCH_WIDTH,
    DONE,
    OFFSET_FALLS,
    OFFSET_OUTSIDE,
)
from kseg.segment.writer import LogWriter, RollLimits, SegmentIndexes, SegmentWriter, batch_rows
from segment.segments import TESTDATA, entries, sample

ROLLED = TESTDATA / "log-directories/4.3.1/logs/dplain-0"
LIMITS = RollLimits(segment_bytes=16384, interval_bytes=1024)


def log_of(folder: Path) -> bytes:
    return b"".join(files(folder, ".log").values())


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_a_log_rolls_and_is_indexed_as_by_a_broker(tmp_path: Path, step: int) -> None:
    writer, batches = LogWriter(str(tmp_path), 0, LIMITS), entries(log_of(ROLLED))
    for start in range(0, len(batches), step):
        writer.append(b"".join(batches[start : start + step]))
    written = writer.finish()
    assert files(tmp_path, ".log", ".index", ".timeindex") == files(ROLLED, ".log", ".index", ".timeindex")
    assert [segment.base_offset for segment in written] == [0, 46, 76, 116]
    assert [segment.next_offset for segment in written[:-1]] == [46, 76, 116]
    assert sum(segment.batches for segment in written) == len(batches)


@pytest.mark.parametrize("folder", ["kafka-4.3.1/compacted/e-txn-0", "kafka-4.3.1/clients/kafka-python-lz4-0"])
def test_a_segment_is_indexed_as_by_a_broker(tmp_path: Path, folder: str) -> None:
    source = TESTDATA / folder
    writer = SegmentWriter(str(tmp_path), 0, 1024)
    writer.append((source / "00000000000000000000.log").read_bytes())
    transactions = source / "00000000000000000000.txnindex"
    if transactions.exists():
        writer.add_aborted(transactions.read_bytes())
    written = writer.finish(mtime_ns=1_700_000_000_000_000_000)
    for suffix, path in written.paths.items():
        assert Path(path).name == written.name(suffix)
        assert Path(path).read_bytes() == (source / written.name(suffix)).read_bytes()
        assert os.stat(path).st_mtime_ns == 1_700_000_000_000_000_000
        assert written.sizes[suffix] == os.path.getsize(path)


def test_without_a_folder_all_is_counted_and_nothing_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    writer = LogWriter(None, 0, LIMITS)
    writer.append(log_of(ROLLED))
    assert [segment.sizes for segment in writer.finish()] == [
        {suffix: (ROLLED / f"{base:020d}{suffix}").stat().st_size for suffix in (".log", ".index", ".timeindex")}
        for base in (0, 46, 76, 116)
    ]
    assert list(tmp_path.iterdir()) == []


def test_each_file_is_synced_once_it_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: dict[tuple[int, int], int] = {}
    sync = os.fsync

    def note(descriptor: int) -> None:
        status = os.fstat(descriptor)
        synced[status.st_dev, status.st_ino] = status.st_size
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    stem = TESTDATA / "kafka-4.3.1/clients/librdkafka-txn-0/00000000000000000005"
    writer = SegmentWriter(str(tmp_path), 5, 1024)
    writer.append(stem.with_suffix(".log").read_bytes())
    writer.add_aborted(stem.with_suffix(".txnindex").read_bytes())
    written = writer.finish()
    assert sorted(written.paths) == [".index", ".log", ".timeindex", ".txnindex"]
    found = map(os.stat, written.paths.values())
    assert synced == {(status.st_dev, status.st_ino): status.st_size for status in found}


def test_old_messages_are_taken_too() -> None:
    data = sample("v0-v1-v2")
    writer = SegmentWriter(None, 0)
    writer.append(data)
    assert (writer.size, writer.batches) == (len(data), 3)


@pytest.mark.parametrize("cut", [-1, 10, 60])
def test_what_is_no_batch_is_refused(cut: int) -> None:
    with pytest.raises(ValueError, match="no batch begins"):
        list(batch_rows(sample("v2")[:cut], 0))


def test_an_offset_that_does_not_fit_is_refused() -> None:
    data = sample("v2")
    with pytest.raises(ValueError, match="does not fit the segment"):
        SegmentWriter(None, 1 << 40).append(data)
    with pytest.raises(ValueError, match="does not fit in a segment"):
        LogWriter(None, 1 << 40).append(data)


def test_a_log_rolls_where_an_index_is_full_and_where_offsets_are_too_far_apart() -> None:
    batches = entries(log_of(ROLLED))
    writer = LogWriter(None, 0, RollLimits(index_bytes=12 * 4, interval_bytes=0))
    writer.append(b"".join(batches))
    assert {segment.batches for segment in writer.finish()[:-1]} == {4}
    far = bytearray(batches[1])
    far[:8] = (1 << 33).to_bytes(8, "big")
    writer = LogWriter(None, 0)
    writer.append(batches[0] + bytes(far))
    assert [segment.base_offset for segment in writer.finish()] == [0, 1 << 33]


# Index entries by the rules of LogSegment.append, OffsetIndex.append and TimeIndex.maybeAppend, batch by batch.

BASE, INTERVAL = 1000, 4096
Batch = tuple[int, int, int]
"""Position, last offset and largest timestamp."""


def rows_of(batches: list[Batch]) -> memoryview:
    rows = int64s(len(batches) * BATCH_WIDTH)
    for i, (position, last, timestamp) in enumerate(batches):
        at = i * BATCH_WIDTH
        rows[at + BATCH_POSITION], rows[at + BATCH_LAST_OFFSET] = position, last
        rows[at + BATCH_FIRST_OFFSET], rows[at + BATCH_MAX_TIMESTAMP] = last, timestamp
    return rows


def built(batches: list[Batch], **rules: bool) -> tuple[list[tuple[int, int]], list[tuple[int, int]], tuple[int, int]]:
    """Entries of the offset and of the time index after `finish`, and what `take` returned."""
    indexes = SegmentIndexes(BASE, INTERVAL, **rules)
    taken = indexes.take(rows_of(batches), len(batches))
    indexes.finish()
    return list(iter_unpack(">ii", indexes.offsets)), list(iter_unpack(">qi", indexes.times)), taken


@pytest.mark.parametrize(("position", "is_indexed"), [(INTERVAL, False), (INTERVAL + 1, True)])
def test_an_entry_needs_more_than_the_interval_behind_the_one_before(position: int, is_indexed: bool) -> None:
    offsets, _, _ = built([(0, 1000, 5), (position, 1001, 5)])
    assert offsets == [(1, position)] * is_indexed
    second = INTERVAL + 1 + position
    offsets, _, _ = built([(INTERVAL + 1, 1000, 5), (second, 1001, 5)])
    assert offsets == [(0, INTERVAL + 1), *[(1, second)] * is_indexed]


@pytest.mark.parametrize(("last", "status"), [(1006, DONE), (1005, OFFSET_FALLS), (1004, OFFSET_FALLS)])
def test_offsets_of_entries_rise(last: int, status: int) -> None:
    batches = [(5000, 1005, 5), (10_000, last, 5)]
    offsets, _, taken = built(batches)
    assert taken == (status, 2 if status == DONE else 1)
    assert offsets == [(5, 5000), *[(last - BASE, 10_000)] * (status == DONE)]


@pytest.mark.parametrize(
    ("last", "status"),
    [(BASE, DONE), (BASE - 1, OFFSET_OUTSIDE), (BASE + (1 << 31) - 1, DONE), (BASE + (1 << 31), OFFSET_OUTSIDE)],
)
def test_an_offset_fits_into_31_bits_above_the_base(last: int, status: int) -> None:
    assert built([(0, last, 5)])[2] == (status, int(status == DONE))
    assert built([(0, last, 5)], takes_any=True)[2] == (DONE, 1)


def test_a_time_entry_has_the_largest_timestamp_so_far_and_its_offset() -> None:
    batches = [(0, 1000, 7), (5000, 1001, 6), (10_000, 1002, 7), (15_000, 1003, 9), (15_100, 1004, 12)]
    assert built(batches)[1] == [(7, 0), (9, 3), (12, 4)]
    assert built(batches, has_times=False)[1] == []


def test_the_last_time_entry_is_added_only_for_a_larger_timestamp() -> None:
    assert built([(5000, 1000, 7), (5100, 1001, 7)])[1] == [(7, 0)]
    assert built([(5000, 1000, 7), (5100, 1001, 8)])[1] == [(7, 0), (8, 1)]
    assert built([(0, 1000, -1)])[1] == []
