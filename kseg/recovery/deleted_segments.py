"""Segments that a broker has marked as deleted (`.deleted`) and that can be restored to their log.

Retention deletes whole segments at the start of a log, a truncation whole segments at its end; brokers rename their
files and remove them a minute later. The cleaner does the same with segments that it has replaced: the log still has
their offsets, so these are not restored. Sources: LocalLog.deleteSegmentFiles and replaceSegments of Kafka 4.3.1.
"""

import os
from bisect import bisect_left
from dataclasses import dataclass, field

from kseg.formats.suffixes import DELETED, LOG, SEGMENT_SUFFIXES, SNAPSHOT
from kseg.kernel.layout.rows import CRC_RIGHT
from kseg.limits import MAX_ROOT_FILE_BYTES
from kseg.recovery.broker.segments import EpochChanges, LeaderEpochs
from kseg.recovery.workspace import Workspace
from kseg.segment.files import SegmentFile, list_segments, segment_stem
from kseg.segment.survey import FULL, QUICK, BatchProblem, HeaderRows, open_survey
from kseg.sidefiles.checkpoints import LEADER_EPOCHS, EpochEntry, build_leader_epochs, plain_epochs
from kseg.stores.buffers import Buffers
from kseg.stores.regular_files import read_regular

# The offsets and leader epochs of one segment, and whether all of it is intact.


@dataclass(slots=True)
class SegmentSpan:
    """``next_offset``: that after the last batch, -1 if there is none; ``epochs``: where each leader epoch begins."""

    base_offset: int = 0
    next_offset: int = -1
    is_intact: bool = True
    epochs: list[EpochEntry] = field(default_factory=list)


def span_of(path: str, buffers: Buffers, level: int = FULL) -> SegmentSpan:
    """Reads a segment at a level of `kseg.segment.survey`. Raises PathError."""
    span = SegmentSpan()
    changes = EpochChanges(lambda epoch, offset: span.epochs.append(EpochEntry(epoch, offset)))
    with open_survey(path, level, buffers) as survey:
        for item in survey:
            if isinstance(item, HeaderRows):
                if level >= FULL:
                    span.is_intact &= all(state & CRC_RIGHT for state in item.states)
                span.next_offset = item[-1].last_offset + 1
                changes.add(item)
            elif not isinstance(item, BatchProblem):
                span.is_intact = False
    return span


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
        known = plain_epochs(workspace.read(LEADER_EPOCHS))
        if known == []:
            workspace.delete(LEADER_EPOCHS, "holds no epoch")  # a broker empties it before it deletes a log
        elif known and self.restored:
            epochs = merged_epochs(known, [entry for segment in self.restored for entry in segment.epochs])
            workspace.write(LEADER_EPOCHS, [build_leader_epochs(epochs)], "with the epochs of restored segments")


def merged_epochs(known: list[EpochEntry], more: list[EpochEntry]) -> list[EpochEntry]:
    """Returns the entries of both, each epoch from the lower of its start offsets on."""
    starts: dict[int, int] = {}
    for entry in [*known, *more]:
        starts[entry.epoch] = min(entry.start_offset, starts.get(entry.epoch, entry.start_offset))
    return LeaderEpochs(EpochEntry(epoch, start) for epoch, start in sorted(starts.items())).entries


def deleted_segments(directory: str) -> DeletedSegments:
    """Chooses the segments of a partition directory that fit between those of the log. Raises PathError."""
    files = [file for file in list_segments(directory, everything=True) if file.kind == LOG]
    log = _Log([file for file in files if not file.leftover and file.base_offset is not None])
    found = DeletedSegments()
    for file in files:
        if file.leftover != DELETED or file.base_offset is None:
            continue
        reason = log.restore(file, found.restored)
        if reason:
            found.skipped.append((file.path, reason))
    return found


class _Log:
    """The segments of a log, and those already restored, by base offset."""

    def __init__(self, files: list[SegmentFile]) -> None:
        self._paths = {file.base_offset or 0: file.path for file in files}
        self._spans: dict[int, SegmentSpan] = {}
        self._buffers = Buffers()
        self._bases = sorted(self._paths)

    def restore(self, file: SegmentFile, restored: list[SegmentSpan]) -> str:
        """Adds a deleted segment to the log and to ``restored``. Returns why it does not fit, "" if it does."""
        base, span = file.base_offset or 0, span_of(file.path, self._buffers)
        span.base_offset = base
        if span.next_offset < 0:
            return "holds no batch"
        at = bisect_left(self._bases, base)
        before = self._span(self._bases[at - 1]) if at else None
        after = self._span(self._bases[at]) if at < len(self._bases) else None
        is_behind = before is None or before.next_offset <= base
        if not is_behind or (after is not None and self._bases[at] < span.next_offset):
            return "the log has these offsets: a cleaner has replaced the segment, or others were written"
        if not (_epochs_rise(before, span) and _epochs_rise(span, after)):
            return "its leader epochs do not fit to the segments beside it: its records were given up"
        self._bases.insert(at, base)
        self._spans[base] = span
        restored.append(span)
        return ""

    def _span(self, base: int) -> SegmentSpan:
        if base not in self._spans:
            self._spans[base] = span_of(self._paths[base], self._buffers, QUICK)
        return self._spans[base]


def _epochs_rise(before: SegmentSpan | None, after: SegmentSpan | None) -> bool:
    if before is None or after is None or not before.epochs or not after.epochs:
        return True
    return before.epochs[-1].epoch <= after.epochs[0].epoch


def first_epoch_start(directory: str) -> int:
    """Returns the start offset of the first leader epoch, which is the log start offset; 0 if that is unknown."""
    try:
        entries = plain_epochs(read_regular(os.path.join(directory, LEADER_EPOCHS), MAX_ROOT_FILE_BYTES))
    except OSError:
        return 0  # no file, or one whose loss recovery reports
    return entries[0].start_offset if entries else 0
