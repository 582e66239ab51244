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
from kseg.segment.files import list_segments, segment_stem
from kseg.segment.survey import FULL, QUICK, BatchProblem, HeaderRows, open_survey
from kseg.sidefiles.checkpoints import LEADER_EPOCHS, EpochEntry, build_leader_epochs, plain_epochs
from kseg.stores.regular_files import read_regular
from kseg.stores.windows import Buffers

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
            starts: dict[int, int] = {}  # each epoch from the lower of its start offsets on
            for entry in (*known, *(entry for segment in self.restored for entry in segment.epochs)):
                starts[entry.epoch] = min(entry.start_offset, starts.get(entry.epoch, entry.start_offset))
            epochs = LeaderEpochs(EpochEntry(epoch, start) for epoch, start in sorted(starts.items())).entries
            workspace.write(LEADER_EPOCHS, [build_leader_epochs(epochs)], "with the epochs of restored segments")


def deleted_segments(directory: str) -> DeletedSegments:
    """Chooses the segments of a partition directory that fit between those of the log. Raises PathError."""
    files = [file for file in list_segments(directory, everything=True) if file.kind == LOG]
    paths = {file.base_offset: file.path for file in files if not file.leftover and file.base_offset is not None}
    bases, buffers, found = sorted(paths), Buffers(), DeletedSegments()
    spans: dict[int, SegmentSpan] = {}

    def span_at(at: int) -> SegmentSpan | None:
        """Returns the span of a segment of the log, or of one already restored."""
        if not 0 <= at < len(bases):
            return None
        base = bases[at]
        if base not in spans:
            spans[base] = span_of(paths[base], buffers, QUICK)
            spans[base].base_offset = base
        return spans[base]

    for file in files:
        if file.leftover != DELETED or file.base_offset is None:
            continue
        base, span = file.base_offset, span_of(file.path, buffers)
        span.base_offset = base
        if span.next_offset < 0:
            found.skipped.append((file.path, "holds no batch"))
            continue
        at = bisect_left(bases, base)
        before, after = span_at(at - 1), span_at(at)
        if (before and before.next_offset > base) or (after and after.base_offset < span.next_offset):
            text = "the log has these offsets: a cleaner has replaced the segment, or others were written"
            found.skipped.append((file.path, text))
        elif not (_epochs_rise(before, span) and _epochs_rise(span, after)):
            text = "its leader epochs do not fit to the segments beside it: its records were given up"
            found.skipped.append((file.path, text))
        else:
            bases.insert(at, base)
            spans[base] = span
            found.restored.append(span)
    return found


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
