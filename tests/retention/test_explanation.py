"""Why a segment stays: the clock's limits to the millisecond."""

import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.releases.release import RetentionRules
from kseg.retention import planner
from kseg.retention.planner import (
    KnownOffsets,
    Limits,
    Retention,
    RetentionRequest,
    deciding_record,
    explain,
    first_in_future,
    retain,
)
from kseg.segment.reader import SegmentReader
from kseg.stores.source import open_source
from retention.partitions import NOW_MS, RETENTION

DIRECTORY = str(RETENTION / "before" / "r-time-half-0")
HOUR_MS = 3_600_000


Row = dict[str, Any]


def explained(found: Retention, request: RetentionRequest) -> list[Row]:
    return list(explain(found, request, [None] * len(found.log.segments)))


def retained(now_ms: int) -> tuple[Retention, RetentionRequest]:
    request = RetentionRequest(Limits(retention_ms=HOUR_MS), RetentionRules(), now_ms)
    return retain(DIRECTORY, KnownOffsets(), request), request


@pytest.mark.parametrize(("late_ms", "is_future"), [(0, False), (-1, True)])
def test_a_time_lies_in_the_future_only_after_now(late_ms: int, is_future: bool) -> None:
    newest = max(segment.largest.timestamp for segment in retained(NOW_MS)[0].log.segments)
    found, request = retained(newest + late_ms)
    rows = {row["largestTimestamp"]: row for row in explained(found, request)}
    assert rows[newest]["isFuture"] is is_future
    future = first_in_future(found, request)
    assert (future is not None) is is_future


def test_a_segment_goes_one_millisecond_after_its_time() -> None:
    found, request = retained(NOW_MS)
    goes_at_ms = next(row["goesAt"] for row in explained(found, request) if not row["rule"])
    assert goes_at_ms > NOW_MS
    gone = len(found.selection.why)
    for now_ms, count in ((goes_at_ms - 1, gone), (goes_at_ms, gone + 1)):
        assert len(retained(now_ms)[0].selection.why) == count


FILES = sorted(Path(DIRECTORY).glob("*.log"))
BASES = [int(path.stem) for path in FILES]
END = 500


def last_entry(path: Path) -> tuple[int, int]:
    """Timestamp and offset of the last entry of a segment's time index."""
    data = path.with_suffix(".timeindex").read_bytes()
    entries = [struct.unpack_from(">qI", data, at) for at in range(0, len(data), 12)]
    timestamp, relative = max(entries)
    return timestamp, int(path.stem) + relative


def first_record_at(path: Path, timestamp: int) -> int:
    with open_source(str(path)) as source:
        reader = SegmentReader(source)
        return next(record.offset for batch in reader for record in batch if record.timestamp == timestamp)


TIMES = [last_entry(path)[0] for path in FILES]
RECORDS = [first_record_at(path, time) for path, time in zip(FILES, TIMES, strict=True)]
NOWS = st.sampled_from([NOW_MS, *(time + change for time in TIMES for change in (-1, 0, HOUR_MS, HOUR_MS + 1))])
LOG_BYTES = sum(path.stat().st_size for path in FILES)


@given(
    now_ms=NOWS,
    ms=st.sampled_from([-1, 0, HOUR_MS]),
    size=st.sampled_from([-1, 0, LOG_BYTES - FILES[0].stat().st_size, LOG_BYTES]),
    deletes=st.sampled_from([True, True, False]),
    watermark=st.sampled_from([None, 0, BASES[2], BASES[2] + 1, END - 1, END]),
    keeps_active=st.booleans(),
)
def test_whole_verdicts(
    now_ms: int, ms: int, size: int, deletes: bool, watermark: int | None, keeps_active: bool
) -> None:
    """Those of a log of several segments, of its files alone."""
    request = RetentionRequest(Limits(ms, size, deletes), RetentionRules(), now_ms, keeps_active=keeps_active)
    found = retain(DIRECTORY, KnownOffsets(None, watermark), request)
    gone, bytes_to = len(found.selection.why), 0
    left_bytes = sum(path.stat().st_size for path in FILES[gone:])
    for i, (path, row) in enumerate(zip(FILES, explained(found, request), strict=True)):
        upper, size_bytes = [*BASES, END][i + 1], path.stat().st_size
        expected: Row = {
            "type": "segmentRetention", "file": path.name, "size": size_bytes, "records": None, "baseOffset": BASES[i],
            "lastOffset": upper - 1, "rule": None, "largestTimestamp": TIMES[i], "largestTimestampSource": "timeIndex",
            "recordOffset": RECORDS[i], "isFuture": TIMES[i] > now_ms, "goesAt": None, "goesAfterBytes": None,
            "blockedBy": None, "held": None,
        }  # fmt: skip
        if i < gone:
            expected["rule"] = found.selection.why[i]
        else:
            bytes_to += size_bytes
            if i == len(FILES) - 1 and keeps_active:
                expected["held"] = "keep-active"
            elif watermark is not None and upper > watermark:
                expected["held"] = "high watermark"
            if deletes and ms >= 0:
                newest = max(range(gone, i + 1), key=lambda k: (TIMES[k], k))
                expected["goesAt"] = TIMES[newest] + ms + 1
                expected["blockedBy"] = None if newest == i else FILES[newest].name
            if deletes and size >= 0:
                expected["goesAfterBytes"] = max(0, size + bytes_to - left_bytes)
        assert row == expected
    future = [found.log.segments[i] for i in range(gone, len(FILES)) if TIMES[i] > now_ms]
    assert first_in_future(found, request) == (future[0] if future and deletes and ms >= 0 else None)


def test_an_empty_last_segment_is_held(tmp_path: Path) -> None:
    partition = Path(shutil.copytree(DIRECTORY, tmp_path / "orders-0"))
    (partition / f"{END:020d}.log").write_bytes(b"")
    request = RetentionRequest(Limits(retention_ms=0), RetentionRules(), 2 * NOW_MS)
    rows = explained(retain(str(partition), KnownOffsets(), request), request)
    assert [row["held"] for row in rows] == [None] * len(FILES) + ["empty"]
    assert [row["rule"] for row in rows] == ["time"] * len(FILES) + [None]
    assert rows[-1]["recordOffset"] is None


def test_the_deciding_record_is_searched_in_few_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    segment = retained(NOW_MS)[0].log.segments[0]
    walked = deciding_record(segment)
    assert walked == RECORDS[0]
    found = []
    for limit in range(12):
        monkeypatch.setattr(planner, "WALK_BATCHES", limit)
        found.append(deciding_record(segment))
    assert found == sorted(found, key=lambda offset: offset is not None)
    assert set(found) <= {None, walked}
