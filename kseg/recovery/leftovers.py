"""Segments that a broker has marked as deleted (`.deleted`): which hold the only copy of records, and which can be
restored to their log.

Retention deletes whole segments at the start of a log, a truncation whole segments at its end; brokers rename their
files and remove them a minute later, at the latest when they start, as a recovery does. The cleaner does the same with
segments that it has replaced: the log still has their offsets, so these are not restored. Sources:
LocalLog.deleteSegmentFiles and replaceSegments of Kafka 4.3.1.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise, starmap

from kseg.changes.plan import Removed
from kseg.formats.suffixes import DELETED, LOG, SEGMENT_SUFFIXES, SNAPSHOT
from kseg.kernel.layout.rows import CRC_RIGHT
from kseg.kernel.scan.headers import Chain, follow
from kseg.kernel.state.indexing import EpochState
from kseg.quantities import plural
from kseg.recovery.broker.segments import LeaderEpochs, epoch_changes
from kseg.recovery.workspace import Workspace
from kseg.segment.files import LAST_OFFSET, SegmentFile, list_segments, segment_stem
from kseg.segment.survey import FULL, QUICK, BatchProblem, BatchRow, HeaderRows, open_survey
from kseg.sidefiles import checkpoints
from kseg.sidefiles.checkpoints import LEADER_EPOCHS, EpochEntry, build_leader_epochs
from kseg.stores.place import Place
from kseg.stores.windows import Buffers


@dataclass(slots=True)
class SegmentSpan:
    """``next_offset``: that after the last batch, -1 if there is none; ``is_sparse``: a batch has fewer records than
    offsets, which only the cleaner leaves; ``epochs``: where each leader epoch begins."""

    base_offset: int = 0
    next_offset: int = -1
    is_intact: bool = True
    is_sparse: bool = False
    epochs: list[EpochEntry] = field(default_factory=list)


def span_of(path: str, buffers: Buffers, level: int = FULL, base_offset: int = 0) -> SegmentSpan:
    """Reads a segment at a level of `kseg.segment.survey`. Raises PathError."""
    span, before, chain = SegmentSpan(base_offset), EpochState(), Chain()
    with open_survey(path, level, buffers) as survey:
        for item in survey:
            if isinstance(item, HeaderRows):
                if level >= FULL:
                    span.is_intact &= all(state & CRC_RIGHT for state in item.states)
                follow(item.rows, item.count, chain)
                span.next_offset = item[-1].last_offset + 1
                span.epochs += starmap(EpochEntry, epoch_changes(item, before))
            elif not isinstance(item, BatchProblem):
                span.is_intact = False
    span.is_sparse = chain.sparse > 0
    return span


def _segments_in(directory: str) -> tuple[dict[int, str], list[SegmentFile]]:
    """Returns the paths of the log's segments by base offset, and the files marked as deleted. Raises PathError."""
    files = [file for file in list_segments(directory, everything=True) if file.kind == LOG]
    live = {file.base_offset: file.path for file in files if not file.leftover and file.base_offset is not None}
    return live, [file for file in files if file.leftover == DELETED]


def has_records(directory: str) -> bool:
    """Whether a partition directory has a segment that is not empty, deleted ones included."""
    return any(Place(file.path).status().st_size for file in list_segments(directory, everything=True))


def only_copies(directory: str) -> dict[str, list[Removed]]:
    """Returns the ranges of intact batches in deleted segments that the log lacks, by name of their file. Raises
    PathError.

    If the log has their offsets, but damaged, the number of their records is unknown: a cleaner may have removed some
    of them on purpose. In a cleaned log other offsets are missing on purpose, too, up to its end. Files below the first
    segment are not read: retention has deleted them.
    """
    live, deleted = _segments_in(directory)
    bases = sorted(live)
    marked = [file for file in deleted if (file.base_offset or 0) >= (bases[0] if bases else 0)]
    buffers, other_buffers, found = Buffers(), Buffers(), dict[str, list[Removed]]()
    damages: dict[int, list[tuple[int, int]]] = {}
    spans = [span_of(live[base], buffers, QUICK) for base in bases] if marked else []
    ends = [max(base, span.next_offset) for base, span in zip(bases, spans, strict=False)]
    is_cleaned = any(span.is_sparse for span in spans)

    def is_damaged(at: int, first: int, last: int) -> bool:
        """Whether damage hides offsets of a segment of the log."""
        if at not in damages:
            damages[at] = _damaged_offsets(live[bases[at]], bases[at], bases[at + 1 :], other_buffers)
        return any(low <= last and first <= high for low, high in damages[at])

    for file in marked:
        removed, copies = list[Removed](), list[BatchRow]()
        with open_survey(file.path, FULL, buffers) as survey:
            for item in survey:
                for row in item if isinstance(item, HeaderRows) else ():
                    if not row.has_right_crc:
                        continue
                    first, last = row.first_offset, row.last_offset
                    at = bisect_right(bases, last) - 1
                    is_covered = at >= 0 and ends[at] > max(first, 0)
                    if at >= 0 and (is_covered or is_cleaned) and is_damaged(at, max(first, 0), last):
                        copies.append(row)
                    elif not is_covered and not (is_cleaned and last < ends[-1]):
                        text = "its offsets are in no other file"
                        removed.append(Removed(row.position, row.size, text, first, last, max(row.records, 0)))
        removed += _copied(copies)
        if removed:
            found[file.name] = removed
    return found


def _copied(copies: list[BatchRow]) -> Iterator[Removed]:
    """Yields the ranges of adjacent intact copies."""
    ends = [i for i, row in enumerate(copies, 1) if i == len(copies) or copies[i].position != row.end]
    for start, stop in pairwise([0, *ends]):
        first, last, most = copies[start], copies[stop - 1], sum(max(row.records, 1) for row in copies[start:stop])
        text = f"intact copies: up to {plural(most, 'record is', 'records are')} damaged in the log"
        offsets = max(first.first_offset, 0), last.last_offset
        yield Removed(first.position, last.end - first.position, text, *offsets)


def _damaged_offsets(path: str, base: int, bases_behind: list[int], buffers: Buffers) -> list[tuple[int, int]]:
    """Returns the first and last offsets between intact batches that damage separates. Raises PathError."""
    found, next_offset, is_damaged = list[tuple[int, int]](), base, False
    with open_survey(path, FULL, buffers) as survey:
        for item in survey:
            if not isinstance(item, HeaderRows):
                is_damaged |= not isinstance(item, BatchProblem)
                continue
            for first, last, state in zip(item.firsts, item.lasts, item.states, strict=True):
                if not state & CRC_RIGHT:
                    is_damaged = True
                    continue
                if is_damaged:
                    found.append((next_offset, (first if first >= 0 else last) - 1))
                next_offset, is_damaged = last + 1, False
    if is_damaged:
        found.append((next_offset, bases_behind[0] - 1 if bases_behind else LAST_OFFSET))
    return [(low, high) for low, high in found if low <= high]


@dataclass(slots=True)
class DeletedSegments:
    """``restored``: by base offset; ``skipped``: path and reason of each other one."""

    restored: list[SegmentSpan] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)

    def restore(self, workspace: Workspace) -> None:
        """Renames the files in a workspace, and adds the leader epochs."""
        for segment in self.restored:
            reason = f"takes offsets {segment.base_offset} to {segment.next_offset - 1} back"
            for suffix in (*SEGMENT_SUFFIXES, SNAPSHOT):
                name = segment_stem(segment.base_offset) + suffix
                if name + DELETED in workspace and name not in workspace:
                    workspace.rename(name + DELETED, name, reason)
        if LEADER_EPOCHS not in workspace:
            return
        known = checkpoints.plain_epochs(workspace.read(LEADER_EPOCHS))
        if known == []:
            workspace.delete(LEADER_EPOCHS, "holds no epoch")  # a broker empties it before it deletes a log
        elif known and self.restored:
            starts: dict[int, int] = {}  # each epoch from the lower of its start offsets on
            for entry in (*known, *(entry for segment in self.restored for entry in segment.epochs)):
                starts[entry.epoch] = min(entry.start_offset, starts.get(entry.epoch, entry.start_offset))
            epochs = LeaderEpochs(EpochEntry(epoch, start) for epoch, start in sorted(starts.items())).entries
            workspace.write(LEADER_EPOCHS, [build_leader_epochs(epochs)], "with the epochs of restored segments")


def deleted_segments(directory: str, log_start: int = 0) -> DeletedSegments:
    """Chooses the segments that fit between those of the log, and do not end below a log start. Raises PathError."""
    paths, deleted = _segments_in(directory)
    bases, buffers, found = sorted(paths), Buffers(), DeletedSegments()
    spans: dict[int, SegmentSpan] = {}

    def span_at(index: int) -> SegmentSpan | None:
        """Returns the span of a segment of the log or a restored one, None if there is none."""
        if not 0 <= index < len(bases):
            return None
        base = bases[index]
        if base not in spans:
            spans[base] = span_of(paths[base], buffers, QUICK, base)
        return spans[base]

    def misfit(span: SegmentSpan, index: int) -> str:
        """Returns why a segment does not fit between its neighbours, "" if it does."""
        before, after = span_at(index - 1), span_at(index)
        if (before and before.next_offset > span.base_offset) or (after and after.base_offset < span.next_offset):
            return "the log has these offsets: a cleaner has replaced the segment, or others were written"
        if not (_epochs_rise(before, span) and _epochs_rise(span, after)):
            return "its leader epochs do not fit to the segments beside it: its records were given up"
        return ""

    for file in deleted:
        if (base := file.base_offset) is None:
            continue
        span, at = span_of(file.path, buffers, base_offset=base), bisect_left(bases, base)
        if span.next_offset < 0:
            why = "holds no batch"
        elif span.next_offset <= log_start:
            why = f"its records were deleted on purpose, below the log start offset {log_start}: --topic restores them"
        else:
            why = misfit(span, at)
        if why:
            found.skipped.append((file.path, why))
        else:
            bases.insert(at, base)
            spans[base] = span
            found.restored.append(span)
    return found


def _epochs_rise(before: SegmentSpan | None, after: SegmentSpan | None) -> bool:
    if before is None or after is None or not before.epochs or not after.epochs:
        return True
    return before.epochs[-1].epoch <= after.epochs[0].epoch
