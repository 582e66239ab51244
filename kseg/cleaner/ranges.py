"""Determines the clean, cleanable and uncleanable ranges of a log (LogCleanerManager, LogToClean).

Offsets below the checkpoint are clean. Whole segments are cleaned, up to the one that holds the first uncleanable
offset.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kseg.cleaner.active_producers import Producers
from kseg.cleaner.log import CleanerSegment, segments_between
from kseg.cleaner.settings import FOREVER_MS, CleanerSettings
from kseg.formats import message_set, record_batch
from kseg.kernel.layout.headers import ENTRY_MAGIC, MAGIC_V2
from kseg.releases.release import HIGH_WATERMARK, RANGE_END
from kseg.segment.times import show_span
from kseg.stores.regular_files import open_regular

ACTIVE, TRANSACTION, WATERMARK, LAG, RATIO, DAMAGE, RECORD_SIZE = (
    "active-segment", "open-transaction", "high-watermark", "min-compaction-lag", "dirty-ratio", "damage",
    "record-size",
)  # fmt: skip


class Stop(NamedTuple):
    """A reason why offsets are not cleaned. ``code``: one of the above; ``short``: a few words for a table."""

    code: str
    short: str
    text: str


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """A partition's entries in the log directory's checkpoints; None if missing."""

    cleaner: int | None = None
    log_start: int | None = None
    high_watermark: int | None = None


@dataclass(slots=True)
class CleanableRange:
    """The dirty offsets [start, end); ``end`` is the base offset of a segment or the log end offset.

    ``ratio``: the dirty share of the bytes that a round would read. ``is_due``: whether the cleaner would clean it now.
    ``stops``: the reasons why it, or the range after it, is not cleaned. ``kept_end``: the batch that ends before this
    offset is kept as an empty one if it loses its records; None for no such batch.
    """

    start: int
    end: int
    clean_bytes: int
    dirty_bytes: int
    ratio: float
    is_due: bool
    stops: list[Stop] = field(default_factory=list)
    kept_end: int | None = None


@dataclass(frozen=True, slots=True)
class LogLimits:
    """``start`` and ``end``: the log start and log end offsets; ``last_stable``: the first offset that is unstable.

    ``code``: TRANSACTION or WATERMARK, which makes it so. ``high_watermark``: None if it is unknown.
    """

    start: int
    end: int
    last_stable: int
    code: str = TRANSACTION
    high_watermark: int | None = None


_UNSTABLE = {
    TRANSACTION: ("open transaction at", "an open transaction begins there"),
    WATERMARK: ("high watermark", "above the high watermark: replicas may not have it"),
}


def log_limits(known: Checkpoints, first_base: int, producers: Producers, heeds_high_watermark: bool) -> LogLimits:
    """Returns the limits of a log. ``first_base``: base offset of the first segment.

    ``heeds_high_watermark``: see `CleanerSettings`.
    """
    stable, code = producers.end_offset, TRANSACTION
    if heeds_high_watermark and known.high_watermark is not None and known.high_watermark < stable:
        stable, code = known.high_watermark, WATERMARK
    if producers.first_unstable is not None and producers.first_unstable < stable:
        stable, code = producers.first_unstable, TRANSACTION
    return LogLimits(max(known.log_start or 0, first_base), producers.end_offset, stable, code, known.high_watermark)


def cleanable_range(
    segments: Sequence[CleanerSegment], checkpoint: int | None, limits: LogLimits, settings: CleanerSettings
) -> CleanableRange:
    """Returns the range of a log that has at least one segment."""
    start = limits.start if checkpoint is None or not limits.start <= checkpoint <= limits.end else checkpoint
    inactive = list(segments) if settings.includes_active else list(segments[:-1])
    active_base = limits.end if settings.includes_active else segments[-1].base_offset
    dirty = [s for s in segments_between(segments, start, 1 << 63) if s.base_offset < active_base]
    uncleanable, stops = active_base, []
    if start < limits.end and start >= active_base:
        text = f"offsets from {start} on are in the active segment, which is not cleaned (--include-active)"
        stops.append(Stop(ACTIVE, "segment roll", text))
    if limits.last_stable < uncleanable:
        uncleanable = limits.last_stable
        short, why = _UNSTABLE[limits.code]
        stops.append(Stop(limits.code, f"{short} {uncleanable}", f"offset {uncleanable} and above: {why}"))
    if settings.min_lag_ms > 0:
        for segment in dirty:
            largest = segment.largest_timestamp()
            if largest > settings.now_ms - settings.min_lag_ms:
                if segment.base_offset < uncleanable:
                    uncleanable = segment.base_offset
                    short = f"min.compaction.lag.ms {show_span(settings.min_lag_ms)}"
                    stops.append(Stop(LAG, short, f"segment {segment.base_offset}: {_lag(largest, settings)}"))
                break
    uncleanable = max(start, uncleanable)
    end = next((s.base_offset for s in segments_between(inactive, uncleanable, 1 << 63)), active_base)
    if uncleanable >= active_base:
        end = active_base
    clean_bytes = sum(s.size for s in segments_between(segments, -1, start))
    dirty_bytes = sum(s.size for s in segments_between(segments, min(start, end), end))
    total = clean_bytes + dirty_bytes
    found = CleanableRange(start, end, clean_bytes, dirty_bytes, dirty_bytes / total if total else 0.0, False, stops)
    if settings.kept_end == HIGH_WATERMARK:
        found.kept_end = limits.end if limits.high_watermark is None else min(limits.high_watermark, limits.end)
    elif settings.kept_end == RANGE_END:
        found.kept_end = end
    _judge(found, dirty, settings)
    return found


def _lag(largest_ms: int, settings: CleanerSettings) -> str:
    """Returns the reason why a segment with this largest timestamp is too recent to clean."""
    age_ms = settings.now_ms - largest_ms
    age = f"{show_span(age_ms)} old" if age_ms >= 0 else f"{show_span(age_ms)} in the future"
    return f"its newest record is {age}, min.compaction.lag.ms is {show_span(settings.min_lag_ms)}"


def _judge(found: CleanableRange, dirty: Sequence[CleanerSegment], settings: CleanerSettings) -> None:
    """Decides whether cleaning is due: dirty enough, or too old (LogCleanerManager.grabFilthiestCompactedLog)."""
    if found.dirty_bytes + found.clean_bytes == 0 or (found.end <= found.start and found.dirty_bytes == 0):
        return
    oldest_ms = _oldest(dirty) if found.dirty_bytes and settings.max_lag_ms < FOREVER_MS else None
    is_late = oldest_ms is not None and oldest_ms < settings.now_ms - settings.max_lag_ms
    found.is_due = found.ratio > settings.min_ratio or is_late
    if not found.is_due and found.dirty_bytes:
        least = f"{settings.min_ratio:.0%}"
        text = f"{found.ratio:.0%} of the log is dirty, not above {least} (--min-cleanable-ratio)"
        if oldest_ms is not None:
            left_ms = oldest_ms + settings.max_lag_ms - settings.now_ms
            text += f"; max.compaction.lag.ms makes it due in {show_span(left_ms)}"
        found.stops.append(Stop(RATIO, f"dirty {found.ratio:.0%} of {least}", text))


def _oldest(dirty: Sequence[CleanerSegment]) -> int | None:
    """Returns the least timestamp of the first batches of dirty segments, in ms; None if they have none."""
    return min((stamp for stamp in map(_first_timestamp, dirty) if stamp > 0), default=None)


def _first_timestamp(segment: CleanerSegment) -> int:
    """Returns the largest timestamp of the first batch, in ms; -1 if there is none."""
    with open_regular(segment.path) as stream:
        head = stream.read(record_batch.HEADER_BYTES)
    if len(head) < message_set.MIN_BYTES:
        return -1
    if head[ENTRY_MAGIC] >= MAGIC_V2:
        return record_batch.parse_header(head).max_timestamp if len(head) == record_batch.HEADER_BYTES else -1
    return message_set.parse_header(head).timestamp
