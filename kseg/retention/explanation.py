"""Why each segment of a partition goes or stays, which record decides it, and when it will go."""

from collections.abc import Iterator
from dataclasses import dataclass

from kseg.formats.rows import Scratch, UndecodableError
from kseg.retention.partition_log import Segment
from kseg.retention.planning import Request, Retention
from kseg.segment.batches import Batch
from kseg.segment.reader import SegmentReader
from kseg.segment.seek import seek_offset
from kseg.segment.source import open_source

WALK_BATCHES = 1 << 12
"""How far behind the entry of the offset index the batch is looked for that the time index means."""


@dataclass(slots=True)
class Verdict:
    """``rule``: by which the segment goes, "" for one that stays. ``last_offset``: the last that it may hold.

    ``record_offset``: of the first record that has the largest timestamp; None where the file's time stands for it, or
    the time index means no record that is there. Of one that stays: ``goes_at_ms`` is when its age lets it go, if
    nothing is appended to it; ``blocked_by`` names an older segment that holds it back until then, ``is_future`` that
    its own timestamp lies ahead of now; ``goes_after_bytes`` is how much more the log has to hold for its size to let
    it go. ``held``: what keeps it in any case: "", "high watermark", "empty" or "keep-active".
    """

    segment: Segment
    last_offset: int
    rule: str = ""
    record_offset: int | None = None
    is_future: bool = False
    goes_at_ms: int | None = None
    blocked_by: str = ""
    goes_after_bytes: int | None = None
    held: str = ""


def explain(found: Retention, request: Request) -> Iterator[Verdict]:
    """Oldest first. Raises PathError where a segment cannot be read."""
    segments, limits = found.log.segments, request.limits
    gone = len(found.selection.why)
    left_bytes, held_bytes, blocker = sum(segment.size for segment in segments[gone:]), 0, None
    for i, segment in enumerate(segments):
        upper = segments[i + 1].base_offset if i + 1 < len(segments) else found.log.end_offset
        verdict = Verdict(segment, upper - 1, record_offset=deciding_record(segment))
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


def first_in_future(found: Retention, request: Request) -> Segment | None:
    """The oldest segment that stays although it would not have to, were its timestamp not ahead of now."""
    if not request.limits.deletes or request.limits.retention_ms < 0:
        return None
    left = found.log.segments[len(found.selection.why) :]
    return next((segment for segment in left if segment.largest.timestamp > request.now_ms), None)


def deciding_record(segment: Segment) -> int | None:
    """Offset of the first record of the batch that the time index means whose timestamp is the largest."""
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
