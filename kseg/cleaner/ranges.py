"""The clean, cleanable and uncleanable ranges of a log, and what a cleaner has still to do (LogCleanerManager,
LogToClean).

Offsets below the checkpoint are clean. Whole segments are cleaned, up to the one that holds the first uncleanable
offset.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kseg.cleaner.log import (
    CleanedTransactions,
    CleanerSegment,
    DamagedError,
    Producers,
    RecordBuffers,
    Window,
    aborted_between,
    open_message,
    open_records,
    read_producers,
    read_segments,
    segments_between,
    windows,
)
from kseg.cleaner.settings import FOREVER_MS, CleanerSettings, settings_for
from kseg.errors import KsegError, text_of
from kseg.formats import message_set, record_batch
from kseg.formats.suffixes import TRANSACTION_INDEX
from kseg.kernel.layout.headers import CODEC, ENTRY_MAGIC, MAGIC_V2
from kseg.kernel.layout.rows import (
    ROW_KEY_SIZE,
    ROW_VALUE_SIZE,
    ROW_WIDTH,
    VARINT_LENGTH_MASK,
    VARINT_VALUE_SHIFT,
    varint,
)
from kseg.logdir.log_directory import BrokerState
from kseg.releases.release import HIGH_WATERMARK, RANGE_END
from kseg.segment.times import show_span
from kseg.stores.regular_files import open_regular
from kseg.stores.windows import Buffers

ACTIVE, TRANSACTION, WATERMARK, LAG, RATIO, DAMAGE, RECORD_SIZE = (
    "active-segment", "open-transaction", "high-watermark", "min-compaction-lag", "dirty-ratio", "damage",
    "record-size",
)  # fmt: skip


class Stop(NamedTuple):
    """A reason why offsets are not cleaned. ``code``: one of the above; ``short``: a few words for a table."""

    code: str
    short: str
    text: str


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


_UNSTABLE = {
    TRANSACTION: ("open transaction at", "an open transaction begins there"),
    WATERMARK: ("high watermark", "above the high watermark: replicas may not have it"),
}


def cleanable_range(
    segments: Sequence[CleanerSegment], known: BrokerState, producers: Producers, settings: CleanerSettings
) -> CleanableRange:
    """Returns the range of a log that has at least one segment. ``known``: the offsets of its checkpoints count."""
    start, log_end = max(known.log_start_offset or 0, segments[0].base_offset), producers.end_offset
    if known.cleaner_offset is not None and start <= known.cleaner_offset <= log_end:
        start = known.cleaner_offset
    # The first offset that is unstable, and what makes it so.
    last_stable, code = log_end, TRANSACTION
    if settings.heeds_high_watermark and known.high_watermark is not None and known.high_watermark < last_stable:
        last_stable, code = known.high_watermark, WATERMARK
    if producers.first_unstable is not None and producers.first_unstable < last_stable:
        last_stable, code = producers.first_unstable, TRANSACTION
    inactive = list(segments) if settings.includes_active else list(segments[:-1])
    active_base = log_end if settings.includes_active else segments[-1].base_offset
    dirty = [s for s in segments_between(segments, start, 1 << 63) if s.base_offset < active_base]
    uncleanable, stops = active_base, []
    if active_base <= start < log_end:
        text = f"offsets from {start} on are in the active segment, which is not cleaned (--include-active)"
        stops.append(Stop(ACTIVE, "segment roll", text))
    if last_stable < uncleanable:
        uncleanable = last_stable
        short, why = _UNSTABLE[code]
        stops.append(Stop(code, f"{short} {uncleanable}", f"offset {uncleanable} and above: {why}"))
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
        found.kept_end = log_end if known.high_watermark is None else min(known.high_watermark, log_end)
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
    oldest_ms = None
    if found.dirty_bytes and settings.max_lag_ms < FOREVER_MS:
        oldest_ms = min((stamp for stamp in map(_first_timestamp, dirty) if stamp > 0), default=None)
    is_late = oldest_ms is not None and oldest_ms < settings.now_ms - settings.max_lag_ms
    found.is_due = found.ratio > settings.min_ratio or is_late
    if not found.is_due and found.dirty_bytes:
        least = f"{settings.min_ratio:.0%}"
        text = f"{found.ratio:.0%} of the log is dirty, not above {least} (--min-cleanable-ratio)"
        if oldest_ms is not None:
            left_ms = oldest_ms + settings.max_lag_ms - settings.now_ms
            text += f"; max.compaction.lag.ms makes it due in {show_span(left_ms)}"
        found.stops.append(Stop(RATIO, f"dirty {found.ratio:.0%} of {least}", text))


def _first_timestamp(segment: CleanerSegment) -> int:
    """Returns the largest timestamp of the first batch, in ms; -1 if there is none."""
    with open_regular(segment.path) as stream:
        head = stream.read(record_batch.HEADER_BYTES)
    if len(head) < message_set.MIN_BYTES:
        return -1
    if head[ENTRY_MAGIC] >= MAGIC_V2:
        return record_batch.parse_header(head).max_timestamp if len(head) == record_batch.HEADER_BYTES else -1
    return message_set.parse_header(head).timestamp


# Records above max.decompressed.message.bytes, at which a broker gives up cleaning a partition.
#
# Only records of compressed batches count. Source: DefaultRecord.readFrom, AbstractLegacyRecordBatch and Cleaner of
# 4.4.

_MESSAGE_BYTES = (14, 22)
"""Bytes of a message of v0 and v1 besides its key and value, after its offset and size."""


class LargeRecord(NamedTuple):
    """A record above the limit. ``segment``: the base offset of its segment; ``last_offset``: that of its batch;
    ``is_dirty``: it is read before anything is cleaned."""

    segment: int
    last_offset: int
    size: int
    is_dirty: bool

    def stop(self, limit_bytes: int) -> Stop:
        """Returns the reason why the partition is not cleaned."""
        text = (
            f"a record of {self.size} bytes in the batch that ends at offset {self.last_offset} is above "
            f"max.decompressed.message.bytes {limit_bytes}: brokers give up cleaning this partition"
        )
        return Stop(RECORD_SIZE, f"record above {limit_bytes} bytes", text)


def large_record(
    segments: Sequence[CleanerSegment], found: CleanableRange, limit_bytes: int, buffers: Buffers
) -> LargeRecord | None:
    """Returns the record that ends a round: the first of the dirty part, else the first of all that is cleaned.

    Raises DamagedError, OSError.
    """
    transactions, first, opened = CleanedTransactions(), None, RecordBuffers(0)
    with_aborted = [segment for segment in segments if TRANSACTION_INDEX in segment.paths]
    transactions.add(aborted_between(with_aborted, 0, found.end))
    for segment in segments_between(segments, 0, found.end):
        for window in windows(segment.path, buffers):
            skipped = transactions.discardable(window)
            for i, last_offset in enumerate(window.lasts):
                is_dirty = last_offset >= found.start
                if (skipped and skipped[i]) or (first and not is_dirty):
                    continue
                size = next((size for size in _record_sizes(window, i, limit_bytes, opened) if size > limit_bytes), 0)
                if size:
                    first = LargeRecord(segment.base_offset, last_offset, size, is_dirty)
                    if is_dirty:
                        return first
    return first


def _record_sizes(window: Window, i: int, limit_bytes: int, buffers: RecordBuffers) -> Iterator[int]:
    """Yields the sizes of the records in batch i; none if it is not compressed or too small for a large record."""
    if not window[i].attributes & CODEC:
        return
    magic = window[i].magic
    if magic < MAGIC_V2:
        for found in open_message(window, i, buffers).rows():
            for at in range(0, found.count * ROW_WIDTH, ROW_WIDTH):
                sizes = found.rows[at + ROW_KEY_SIZE], found.rows[at + ROW_VALUE_SIZE]
                yield _MESSAGE_BYTES[magic] + sum(max(size, 0) for size in sizes)
        return
    payload = open_records(window, i, buffers)
    at, end = 0, len(payload)
    while end > limit_bytes and at < end and (found := varint(payload, at, end)):
        size = found >> VARINT_VALUE_SHIFT
        yield size
        at += (found & VARINT_LENGTH_MASK) + max(size, 0)


# The backlog of the cleaner in a partition, and why the partition is not cleaned (LogCleanerManager).

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Backlog:
    """``ratio``: the dirty share of the bytes that a round would read; ``is_due``: whether a round would begin now.

    ``stops``: the reasons why the partition, or its last part, is not cleaned. The first four fields are None if the
    log cannot be read.
    """

    clean_bytes: int | None
    dirty_bytes: int | None
    ratio: float | None
    is_due: bool | None
    stops: tuple[Stop, ...] = ()

    @property
    def short(self) -> str:
        """A short text for a table."""
        waits = [stop.short for stop in self.stops if stop.code != ACTIVE]
        if self.is_due:
            waits.insert(0, f"due, dirty {self.ratio:.0%}")
        if not waits:
            waits = [stop.short for stop in self.stops] or ["clean"]
        return "; ".join(waits)

    def as_object(self) -> dict[str, Any]:
        """Returns the backlog as JSON."""
        return {
            "state": self.short,
            "cleanBytes": self.clean_bytes,
            "dirtyBytes": self.dirty_bytes,
            "dirtyRatio": None if self.ratio is None else round(self.ratio, 4),
            "isDue": self.is_due,
            "waitsFor": [{"code": stop.code, "message": stop.text} for stop in self.stops],
        }


def backlog_of(
    directory: str, broker: BrokerState, now_ms: int, damaged: str = "", producers: Producers | None = None
) -> Backlog | None:
    """Returns None unless the partition is known to be compacted.

    ``damaged``: the damage that stops the cleaner, "" if none is known; ``producers``: their state at the end of the
    log, if known.
    """
    if not broker.is_compacted and broker.cleaner_offset is None:
        return None
    try:
        segments = read_segments(directory)
        if not segments:
            return Backlog(0, 0, 0.0, False)
        settings, _ = settings_for(CleanerSettings(now_ms), {}, (broker.cleaner_settings or {}).get)
        expiration_ms = settings.producer_expiration_ms
        producers = producers or read_producers(directory, segments, now_ms, expiration_ms, Buffers())
        found = cleanable_range(segments, broker, producers, settings)
    except DamagedError as error:
        return _unreadable(Stop(DAMAGE, "damaged", str(error)))
    except (KsegError, OSError) as error:
        return _unreadable(Stop(UNKNOWN, UNKNOWN, text_of(error)))
    if damaged:
        stop = Stop(DAMAGE, f"uncleanable: {damaged}", f"brokers give up cleaning this partition: {damaged}")
        return Backlog(found.clean_bytes, found.dirty_bytes, found.ratio, False, (stop,))
    return Backlog(found.clean_bytes, found.dirty_bytes, found.ratio, found.is_due, tuple(found.stops))


def _unreadable(stop: Stop) -> Backlog:
    return Backlog(None, None, None, None, (stop,))
