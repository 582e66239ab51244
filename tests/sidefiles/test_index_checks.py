"""Checks of index entries against the .log: which mismatches are found, and that little of the .log is read."""

import struct
from pathlib import Path
from typing import Any

from kernel.rendering import batch, record
from kseg.limits import ROWS_PER_CALL
from kseg.sidefiles.indexes import (
    IndexedLog,
    Mismatch,
    OffsetIndex,
    OffsetIndexEntry,
    TimeIndex,
    TimeIndexEntry,
    check_offset_entry,
    check_time_index,
)
from sidefiles.index_bytes import time_index_bytes
from sidefiles.real_files import DAMAGED, TESTDATA

SEGMENT = TESTDATA / "kafka-4.3.1" / "codecs" / "codec-mix-0" / "00000000000000000000"


class CountedBytes:
    """Bytes that count how many of them are read."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.asked = 0

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, key: slice) -> bytes:
        piece = self._data[key]
        self.asked += len(piece)
        return piece


def read(suffix: str, segment: Path = SEGMENT) -> bytes:
    return segment.with_name(segment.name + suffix).read_bytes()


def test_a_wrong_entry_is_a_mismatch() -> None:
    log = IndexedLog(read(".log"))
    index = OffsetIndex(read(".index"), 0)
    entry = index[1]
    assert check_offset_entry(entry, log) == []
    frame = log.frame_at(entry.position)
    assert frame is not None
    first = log.first_offset(frame)
    above = entry._replace(offset=entry.offset + 1)
    assert check_offset_entry(above, log) == [Mismatch("index-mismatch", entry.offset + 1, entry.offset, False)]
    below = entry._replace(offset=first - 1)
    assert check_offset_entry(below, log) == [Mismatch("index-mismatch", first - 1, entry.offset, True)]
    for position in (-1, len(log.buffer), 1 << 31, entry.position + 1):
        nowhere = OffsetIndexEntry(entry.offset, position)
        assert check_offset_entry(nowhere, log) == [Mismatch("index-mismatch", entry.offset, -1, True)]


def test_only_headers_are_read_for_offsets() -> None:
    log: Any = CountedBytes(read(".log"))
    index = OffsetIndex(read(".index"), 0)
    assert not any(check_offset_entry(entry, IndexedLog(log)) for entry in index.as_kafka_lists())
    assert 0 < log.asked <= 27 * len(index)


def test_a_time_entry_is_looked_up_by_the_offset_index() -> None:
    data = read(".log")
    index = OffsetIndex(read(".index"), 0)
    frames = []
    log = IndexedLog(data)
    while frame := log.frame_at(frames[-1].position + frames[-1].size if frames else 0):
        frames.append(frame)
    last = frames[-1]
    counted: Any = CountedBytes(data)
    times = TimeIndex(time_index_bytes([TimeIndexEntry(log.max_timestamp(last), last.last_offset)], 0), 0)
    assert [found for _, found in check_time_index(times, index, IndexedLog(counted))] == [[]]
    assert counted.asked < len(data) - index[0].position


def test_the_largest_timestamp_of_more_records_than_a_call_takes() -> None:
    number = ROWS_PER_CALL + 1
    log = IndexedLog(batch([record(delta, 7 if delta == 0 else 1) for delta in range(number)], base_timestamp=1000))
    frame = log.frame_at(0)
    assert frame is not None
    assert log.max_timestamp(frame) == 1007


def time_checks(*entries: tuple[int, int]) -> list[list[Mismatch]]:
    times = TimeIndex(b"".join(struct.pack(">qi", *entry) for entry in entries), 0)
    return [found for _, found in check_time_index(times, OffsetIndex(read(".index"), 0), IndexedLog(read(".log")))]


def test_time_entries_that_disagree_are_reported() -> None:
    stamp, offset = TimeIndex(read(".timeindex"), 0)[0]
    assert time_checks((stamp, offset)) == [[]]
    assert time_checks((stamp - 1, offset)) == [[Mismatch("timestamp-mismatch", stamp - 1, stamp, True)]]
    again = [[], [Mismatch("timestamp-out-of-order", stamp, stamp, True)]]
    assert time_checks((stamp, offset), (stamp, offset)) == again
    assert time_checks((stamp, 1 << 30)) == [[Mismatch("offset-not-found", 1 << 30, -1, False)]]


def test_an_offset_inside_a_batch_is_not_found() -> None:
    segment = DAMAGED / "timeindex-trunc-5-clean" / "dplain-0" / "00000000000000000046"
    log = IndexedLog(read(".log", segment))
    frame = log.frame_at(0)
    assert frame is not None
    times = TimeIndex(struct.pack(">qi", 1, frame.last_offset - 46 - 1), 46)
    [(_, found)] = list(check_time_index(times, OffsetIndex(b"", 46), log))
    assert found == [Mismatch("offset-not-found", frame.last_offset - 1, frame.last_offset, False)]
