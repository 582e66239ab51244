"""Explains for each segment of a partition why it is deleted or kept, by which record, and when it will be deleted."""

from collections.abc import Iterator
from dataclasses import dataclass

from kseg.formats.rows import Scratch, UndecodableError
from kseg.retention.partition_log import RetentionSegment
from kseg.retention.partition_plan import Retention, RetentionRequest
from kseg.segment.batches import Batch
from kseg.segment.reader import SegmentReader
from kseg.segment.seek import seek_offset
from kseg.stores.source import open_source

WALK_BATCHES = 1 << 12
"""Limit of batches read after the offset index entry to find the batch of the last time index entry."""


@dataclass(slots=True)
class SegmentExplanation:
    """Why a segment is deleted or kept. ``last_offset`` is the last offset that it may hold.

    ``rule`` is the rule that deletes the segment, "" if it is kept. ``record_offset`` is the offset of the first record
    with the largest timestamp; None if the file's modification time is used, or if the record is not found.

    The other fields are about a kept segment. ``is_future``: its largest timestamp is after now. ``goes_at_ms``: when
    retention.ms will delete it if nothing is appended to it. ``blocked_by``: the older segment that keeps it until
    then. ``goes_after_bytes``: how many bytes the log must grow before retention.bytes deletes it. ``held``: why it is
    kept in any case: "", "high watermark", "empty" or "keep-active".
    """

    segment: RetentionSegment
    last_offset: int
    rule: str = ""
    record_offset: int | None = None
    is_future: bool = False
    goes_at_ms: int | None = None
    blocked_by: str = ""
    goes_after_bytes: int | None = None
    held: str = ""


def explain(found: Retention, request: RetentionRequest) -> Iterator[SegmentExplanation]:
    """Yields the verdicts, oldest segment first. Raises PathError if a segment cannot be read."""
    segments, limits = found.log.segments, request.limits
    gone = len(found.selection.why)
    left_bytes, held_bytes, blocker = sum(segment.size for segment in segments[gone:]), 0, None
    for i, segment in enumerate(segments):
        upper = segments[i + 1].base_offset if i + 1 < len(segments) else found.log.end_offset
        verdict = SegmentExplanation(segment, upper - 1, record_offset=deciding_record(segment))
        verdict.is_future = segment.largest.timestamp > request.now_ms
        if i < gone:
            verdict.rule = found.selection.why[i]
            yield verdict
            continue
        is_last = i + 1 == len(segments)
        if is_last and not segment.size:
            verdict.held = "empty"
        elif is_last and request.keeps_active:
            verdict.held = "keep-active"
        elif request.rules.has_log_start and upper > found.state.high_watermark:
            verdict.held = "high watermark"
        if limits.deletes and limits.retention_ms >= 0:
            if blocker is None or segment.largest.timestamp >= blocker.largest.timestamp:
                blocker = segment
            verdict.goes_at_ms = blocker.largest.timestamp + limits.retention_ms + 1
            verdict.blocked_by = "" if blocker is segment else blocker.file.name
        if limits.deletes and limits.retention_bytes >= 0:
            held_bytes += segment.size
            verdict.goes_after_bytes = max(0, limits.retention_bytes + held_bytes - left_bytes)
        yield verdict


def first_in_future(found: Retention, request: RetentionRequest) -> RetentionSegment | None:
    """Returns the oldest segment that is kept only because its timestamp is in the future."""
    if not request.limits.deletes or request.limits.retention_ms < 0:
        return None
    left = found.log.segments[len(found.selection.why) :]
    return next((segment for segment in left if segment.largest.timestamp > request.now_ms), None)


def deciding_record(segment: RetentionSegment) -> int | None:
    """Returns the offset of the first record with the largest timestamp in the batch that the time index names."""
    entry = segment.largest
    if entry.offset is None:
        return None
    with open_source(segment.file.path) as source:
        reader = SegmentReader(source, base_offset=segment.base_offset, scratch=Scratch())
        reader.begin_at(seek_offset(reader, segment.file, entry.offset).position)
        for walked, batch in enumerate(reader):
            if walked > WALK_BATCHES:
                return None
            if isinstance(batch, Batch) and batch.is_valid and batch.last_offset >= entry.offset:
                return _first_at(batch, entry.timestamp)
    return None


def _first_at(batch: Batch, timestamp: int) -> int | None:
    try:
        return next((record.offset for record in batch if record.timestamp == timestamp), None)
    except UndecodableError:
        return None
