"""Determines the clean, cleanable and uncleanable ranges of a log (LogCleanerManager, LogToClean).

Offsets below the checkpoint are clean. Whole segments are cleaned, up to the one that holds the first uncleanable
offset.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from kseg.cleaner.log import Segment, segments_between
from kseg.cleaner.settings import FOREVER_MS, CleanerSettings
from kseg.segment.times import show_span
from kseg.stores.regular_files import open_regular


@dataclass(slots=True)
class CleanableRange:
    """The dirty offsets [start, end); ``end`` is the base offset of a segment or the log end offset.

    ``ratio``: the dirty share of the bytes that a round would read. ``is_due``: whether the cleaner would clean it now.
    ``stops``: the reasons why it, or the range after it, is not cleaned, one sentence each.
    """

    start: int
    end: int
    clean_bytes: int
    dirty_bytes: int
    ratio: float
    is_due: bool
    stops: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class LogLimits:
    """``last_stable``: the first offset that transactions or the high watermark make unstable; ``why``: which of
    them."""

    start: int
    end: int
    last_stable: int
    why: str = ""


def cleanable_range(
    segments: Sequence[Segment], checkpoint: int | None, limits: LogLimits, settings: CleanerSettings
) -> CleanableRange:
    """Returns the range of a log that has at least one segment."""
    start = limits.start if checkpoint is None or not limits.start <= checkpoint <= limits.end else checkpoint
    inactive = list(segments) if settings.includes_active else list(segments[:-1])
    active_base = limits.end if settings.includes_active else segments[-1].base_offset
    dirty = [s for s in segments_between(segments, start, 1 << 63) if s.base_offset < active_base]
    uncleanable, stops = active_base, []
    if start < limits.end and start >= active_base:
        stops.append(f"offsets from {start} on are in the active segment, which is not cleaned (--include-active)")
    if limits.last_stable < uncleanable:
        uncleanable = limits.last_stable
        stops.append(f"offset {limits.last_stable} and above: {limits.why}")
    if settings.min_lag_ms > 0:
        for segment in dirty:
            largest = segment.largest_timestamp()
            if largest > settings.now_ms - settings.min_lag_ms:
                if segment.base_offset < uncleanable:
                    uncleanable = segment.base_offset
                    stops.append(f"segment {segment.base_offset}: {_lag(largest, settings)}")
                break
    uncleanable = max(start, uncleanable)
    end = next((s.base_offset for s in segments_between(inactive, uncleanable, 1 << 63)), active_base)
    if uncleanable >= active_base:
        end = active_base
    clean_bytes = sum(s.size for s in segments_between(segments, -1, start))
    dirty_bytes = sum(s.size for s in segments_between(segments, min(start, end), end))
    total = clean_bytes + dirty_bytes
    found = CleanableRange(start, end, clean_bytes, dirty_bytes, dirty_bytes / total if total else 0.0, False, stops)
    _judge(found, dirty, settings)
    return found


def _lag(largest_ms: int, settings: CleanerSettings) -> str:
    """Returns the reason why a segment with this largest timestamp is too recent to clean."""
    age_ms = settings.now_ms - largest_ms
    age = f"{show_span(age_ms)} old" if age_ms >= 0 else f"{show_span(age_ms)} in the future"
    return f"its newest record is {age}, min.compaction.lag.ms is {show_span(settings.min_lag_ms)}"


def _judge(found: CleanableRange, dirty: Sequence[Segment], settings: CleanerSettings) -> None:
    """Decides whether cleaning is due: dirty enough, or too old (LogCleanerManager.grabFilthiestCompactedLog)."""
    if found.dirty_bytes + found.clean_bytes == 0 or (found.end <= found.start and found.dirty_bytes == 0):
        return
    is_late = found.dirty_bytes > 0 and _is_late(dirty, settings)
    found.is_due = found.ratio > settings.min_ratio or is_late
    if not found.is_due and found.dirty_bytes:
        found.stops.append(
            f"{found.ratio:.0%} of the log is dirty, not above {settings.min_ratio:.0%} (--min-cleanable-ratio)"
        )


def _is_late(dirty: Sequence[Segment], settings: CleanerSettings) -> bool:
    """Whether the oldest dirty record is older than max.compaction.lag.ms."""
    if settings.max_lag_ms >= FOREVER_MS:
        return False
    stamps = [stamp for stamp in map(_first_timestamp, dirty) if stamp > 0]
    return bool(stamps) and min(stamps) < settings.now_ms - settings.max_lag_ms


def _first_timestamp(segment: Segment) -> int:
    """Returns the largest timestamp of the first batch, in ms; -1 if there is none."""
    with open_regular(segment.path) as stream:
        head = stream.read(61)
    if len(head) < 26:
        return -1
    if head[16] >= 2:
        return int.from_bytes(head[35:43], "big", signed=True) if len(head) >= 43 else -1
    return int.from_bytes(head[18:26], "big", signed=True) if head[16] == 1 else -1
