"""Selects the contents of a rebuilt partition: pieces of remote segments, then local segments."""

from collections.abc import Callable
from dataclasses import dataclass, field

from kseg.logdir.remote_partitions import (
    Candidate,
    Lineage,
    LocalLogs,
    LocalPartition,
    MissingOffsets,
    SegmentOffsets,
    candidates_of,
    lineage_of,
    live_segments,
)
from kseg.segment.files import SegmentFile
from kseg.sidefiles.leader_epochs import starting_at
from kseg.stores.remote.segment import RemoteSegment
from kseg.stores.remote.storage import RemotePartition


@dataclass(frozen=True, slots=True)
class UnusedSegment:
    """A remote segment, or a part of one, that is not used."""

    path: str
    first_offset: int
    last_offset: int
    reason: str


@dataclass(slots=True)
class RestoredSegments:
    """``pieces``, then ``local`` segments, by offset; ``holes``: offsets that neither has.

    ``remarks``: sentences about the partition. ``is_deleted``: the broker had begun to delete all segments.
    """

    partition: RemotePartition
    pieces: list[SegmentOffsets[RemoteSegment]] = field(default_factory=list)
    local: list[SegmentFile] = field(default_factory=list)
    local_directory: str = ""
    lineage: Lineage = ()
    log_start: int = 0
    holes: list[MissingOffsets] = field(default_factory=list)
    left_out: list[UnusedSegment] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    is_deleted: bool = False

    @property
    def new_bytes(self) -> int:
        return sum(piece.candidate.segment.size for piece in self.pieces)


def select_segments(
    partition: RemotePartition, logs: LocalLogs | None, is_named: bool, is_intact: Callable[[SegmentFile], bool]
) -> RestoredSegments:
    """Selects the segments of a partition.

    ``is_named``: --topic names the topic, so segments of a deleted topic are selected too; ``is_intact`` checks a local
    segment. Raises KeyMissingError, PathError, UnsupportedError.
    """
    selection = RestoredSegments(partition)
    candidates, unusable = candidates_of(partition)
    for segment, reason in unusable:
        selection.left_out.append(UnusedSegment(segment.path(), segment.start_offset, segment.start_offset, reason))
    local = None
    if logs is not None:
        local = logs.partition(partition)
        if not is_named:
            kept = _without_deleted(candidates, partition, logs, selection)
            selection.is_deleted = bool(candidates) and not kept
            candidates = kept
        selection.log_start = logs.log_starts.get((partition.topic, partition.number), 0)
    selection.lineage = lineage_of(candidates)
    if local is not None and local.lineage and local.segments:
        _join(selection, candidates, local, is_intact)
    else:
        _select_pieces(selection, candidates)
    return selection


def _without_deleted(
    candidates: list[Candidate[RemoteSegment]], partition: RemotePartition, logs: LocalLogs, selection: RestoredSegments
) -> list[Candidate[RemoteSegment]]:
    kept = []
    for candidate in candidates:
        if (partition.topic_id, partition.number, candidate.segment.segment_id) in logs.deleted:
            reason = f"the broker had begun to delete it; --topic {partition.topic} selects it all the same"
            selection.left_out.append(_left_out(candidate, reason))
        else:
            kept.append(candidate)
    return kept


def _join(
    selection: RestoredSegments, candidates: list[Candidate[RemoteSegment]], local: LocalPartition,
    is_intact: Callable[[SegmentFile], bool],
) -> None:  # fmt: skip
    """Selects the local log from its start, and remote segments below it."""
    if selection.lineage and selection.lineage[-1].epoch > local.lineage[-1].epoch:
        selection.remarks.append(
            f"{local.directory}: its last leader epoch is {local.lineage[-1].epoch}, the store has "
            f"{selection.lineage[-1].epoch}: an outdated replica, which is not used"
        )
        _select_pieces(selection, candidates)
        return
    selection.lineage = local.lineage
    selection.local_directory = local.directory
    end = max((candidate.end_offset for candidate in candidates), default=-1)
    selection.local = local.segments
    for number in range(len(local.segments) - 1, 0, -1):
        file, following = local.segments[number - 1], local.segments[number].base_offset or 0
        if following - 1 <= end and not is_intact(file):
            selection.remarks.append(f"{file.path}: is damaged, and replaced from the store")
            selection.local = local.segments[number:]
            break
    _select_pieces(selection, candidates, selection.local[0].base_offset or 0)


def _select_pieces(
    selection: RestoredSegments, candidates: list[Candidate[RemoteSegment]], local_start: int | None = None
) -> None:
    """Sets the pieces, holes and log start."""
    lineage = selection.lineage
    if lineage:
        selection.log_start = max(selection.log_start, lineage[0].start_offset)
    live = live_segments(candidates, lineage, selection.log_start)
    pieces = live.pieces
    if local_start is not None:
        pieces = [
            piece._replace(last=min(piece.last, local_start - 1)) for piece in pieces if piece.first < local_start
        ]
    ends = [piece.last + 1 for piece in pieces]
    starts = [piece.first for piece in pieces[1:]] + ([] if local_start is None else [local_start])
    selection.holes = [MissingOffsets(end, start - 1) for end, start in zip(ends, starts, strict=False) if start > end]
    selection.pieces = pieces
    first = pieces[0].first if pieces else (local_start or 0)
    if first > selection.log_start:
        selection.remarks.append(
            f"begins at offset {first}: nothing is left of offsets {selection.log_start} to {first - 1}"
        )
        selection.log_start = first
    selection.lineage = starting_at(lineage, selection.log_start)
    lasts = {id(piece.candidate): piece.last for piece in live.pieces}
    for candidate in live.abandoned:
        reason = "written by a leader whose records were lost: other leader epochs hold these offsets"
        selection.left_out.append(
            _left_out(candidate, reason, lasts.get(id(candidate), candidate.start_offset - 1) + 1)
        )
    for candidate in live.superseded:
        selection.left_out.append(_left_out(candidate, "other segments hold the same records"))


def _left_out(candidate: Candidate[RemoteSegment], reason: str, first: int | None = None) -> UnusedSegment:
    start = candidate.start_offset if first is None else first
    return UnusedSegment(candidate.segment.path(), start, candidate.end_offset, reason)
