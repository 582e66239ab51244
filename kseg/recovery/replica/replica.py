"""``recover --from-replica DIR``: replaces damaged or missing batches of a partition by those of another replica.

First the partition is salvaged; the replica provides the offsets of batches in wrong places. Then holes are filled with
unchanged batches of the replica, if the batches next to a hole are equal on both sides and leader epochs rise. The
replica is not changed.
"""

import os
from bisect import bisect_right
from collections.abc import Iterator
from functools import partial

from kseg.changes.plan import ReplicaOffsets
from kseg.errors import KsegError, PathError
from kseg.formats.rows import Scratch
from kseg.formats.suffixes import LOG, SNAPSHOT
from kseg.recovery.broker.segments import LARGEST_POSITION
from kseg.recovery.options import BrokerStart
from kseg.recovery.replica.agreement import (
    Agreement,
    ConflictingOffset,
    MissingBatches,
    Offer,
    ReplicasDivergeError,
    Unmatched,
    conflicting_offsets,
    copy_headers,
    offsets_here,
    offsets_of,
)
from kseg.recovery.salvage.parts import SalvagedBatches, batches_of
from kseg.recovery.salvage.rejected_batches import KEEP_ALL, Dropping, Rejection
from kseg.recovery.salvage.salvage import Attempt, Filling, Salvage, plan_salvage
from kseg.recovery.salvage.segment_draft import SegmentDraft
from kseg.recovery.salvage.segment_scan import scan_segment
from kseg.recovery.workspace import leading_offset
from kseg.segment.files import SegmentFile, list_segments, parse_partition_name, segment_stem
from kseg.sidefiles.leader_epochs import LEADER_EPOCHS
from kseg.sidefiles.partition_metadata import PARTITION_METADATA, PartitionMetadata, read_partition_metadata
from kseg.stores import trees
from kseg.stores.regular_files import open_regular
from kseg.stores.source import open_source
from kseg.stores.stored_object import shown


def replica_of(directory: str, path: str) -> str | None:
    """Returns the replica of a partition at a path: a partition, or a log directory, which may have none (None).

    Raises PathError if there is no directory.
    """
    if not trees.isdir(path):
        raise PathError(f"{shown(path)}: no such directory")
    if list_segments(path):
        return path
    inside = os.path.join(path, os.path.basename(os.path.abspath(directory)))
    return inside if trees.isdir(inside) else None


def plan_from_replica(
    directory: str,
    replica_directory: str,
    start: BrokerStart,
    is_compacted: bool = False,
    scratch: Scratch | None = None,
    dropping: Dropping = KEEP_ALL,
) -> Salvage:
    """Plans the recovery. The plan's ``from_replica`` lists the batches that come from the replica, and those not
    taken.

    ``is_compacted``: whether gaps may come from the log cleaner. Raises ReplicasDivergeError if the two have different
    records at one offset, KsegError if they are no replicas of one partition, else as `plan_salvage`.
    """
    begin = partial(ReplicaFilling, _replica_files(directory, replica_directory), is_compacted)
    return plan_salvage(directory, start, scratch, lambda: is_compacted, dropping, begin)


def _replica_files(directory: str, replica_directory: str) -> list[SegmentFile]:
    if os.path.realpath(directory) == os.path.realpath(replica_directory):
        raise KsegError(f"{replica_directory}: is the partition itself, not a replica of it")
    names = [parse_partition_name(os.path.basename(os.path.abspath(path))) for path in (directory, replica_directory)]
    if None not in names and names[0] != names[1]:
        raise KsegError(f"{replica_directory}: its name is that of another partition than {directory}")
    ids = [_topic_id(path) for path in (directory, replica_directory)]
    if None not in ids and ids[0] != ids[1]:
        raise KsegError(f"{replica_directory}: belongs to topic id {ids[1]}, {directory} to {ids[0]}")
    files = [file for file in list_segments(replica_directory) if file.kind == LOG and file.base_offset is not None]
    if not files:
        raise PathError(f"{replica_directory}: holds no segment")
    return files


def _topic_id(directory: str) -> str | None:
    try:
        with open_regular(os.path.join(directory, PARTITION_METADATA)) as file:
            items = list(read_partition_metadata(file.read(1 << 16)))
    except OSError:
        return None  # a replica need not have one, and errors of ours are handled elsewhere
    return next((item.topic_id for item in items if isinstance(item, PartitionMetadata)), None)


class ReplicaFilling(Filling):
    """Fills gaps with batches of a replica's ``files`` in one attempt to salvage a partition. ``is_compacted``: gaps
    may come from the log cleaner."""

    def __init__(self, files: list[SegmentFile], is_compacted: bool, attempt: Attempt) -> None:
        super().__init__()
        self._files, self._attempt, self._scratch = files, attempt, attempt.scratch
        self._bases = {os.path.abspath(file.path): file.base_offset or 0 for file in files}
        self._is_sparse = is_compacted

    def has(self, path: str) -> bool:
        return path in self._bases

    def offsets_of(self, prints: set[bytes]) -> dict[bytes, int]:
        return offsets_of(self._there(), prints)

    def fill(self, drafts: list[SegmentDraft]) -> None:
        """Puts batches that only the replica has into the segments, and batches that have another offset there away."""
        self._is_sparse |= any(draft.is_sparse for draft in drafts)
        holes, unmatched, wrong = self._compared(drafts)
        while wrong:
            self._attempt.leave_out({one.here.first: _elsewhere(one) for one in wrong})
            holes, unmatched, wrong = self._compared(drafts)
        elsewhere = offsets_here(unmatched, holes)
        for hole in holes:
            for offer in hole.offers:
                why = self._objection(hole, offer)
                if offer.part.first in elsewhere:
                    why = f"the same batch is here at offset {elsewhere[offer.part.first]}, where offsets go on"
                if why:
                    self._list(offer.part, why)
                else:
                    self._put(drafts, offer.part)
        self._delete_later_snapshots()

    def _compared(
        self, drafts: list[SegmentDraft]
    ) -> tuple[list[MissingBatches], list[Unmatched], list[ConflictingOffset]]:
        """Returns the batches that only the replica has, those that only this one has, and those with wrong offsets."""
        agreement = Agreement(self._here(drafts), self._there(), self._scratch)
        try:
            holes = list(agreement.holes())
        except ReplicasDivergeError as error:
            wrong = conflicting_offsets([error.here] if error.here else [], self._there())
            if not wrong:
                raise
            return [], [], wrong
        if agreement.heads or agreement.epochs:
            copy_headers(drafts, agreement.heads, agreement.epochs)
            return self._compared(drafts)
        return holes, agreement.unmatched, conflicting_offsets(agreement.unmatched, self._there())

    def _delete_later_snapshots(self) -> None:
        """Removes snapshots after a hole, which may have been taken without its batches: the state is rebuilt."""
        firsts = [one.first_offset for one in self.offsets if not one.why]
        for name in self._attempt.workspace.names(SNAPSHOT) if firsts else ():
            offset = leading_offset(name)
            if offset is None or offset > min(firsts):
                self._attempt.workspace.delete(name, "may lack the batches that come from the replica")

    def _here(self, drafts: list[SegmentDraft]) -> Iterator[SalvagedBatches]:
        for draft in drafts:
            self._attempt.load_parts(draft)
            for part in draft:
                yield part if part.path else part._replace(path=draft.path)

    def _there(self) -> Iterator[SalvagedBatches]:
        """Yields the intact batches of the replica that are in their places."""
        reached = -1
        bases = [file.base_offset for file in self._files]
        for file, behind in zip(self._files, [*bases[1:], None], strict=True):
            path = os.path.abspath(file.path)
            with open_source(path) as source:
                kept = scan_segment(source, file.base_offset or 0, behind, self._scratch, self._attempt.load.start.jobs)
            self._is_sparse |= kept.is_sparse
            for part in kept.parts:
                if not part.head and part.first > reached:
                    reached = part.last
                    yield part._replace(path=path)

    def _objection(self, hole: MissingBatches, offer: Offer) -> str:
        """Returns why batches are not taken; "" if they are. Raises ReplicasDivergeError."""
        before, behind = hole.before, hole.behind
        borders = [border for border in (before, behind) if border]
        if borders and not any(border.is_common for border in borders):
            return "the replica has neither the batch before nor the one after"
        if offer.part.first < self._attempt.load.start.log_start_offset:
            return f"the log begins at {self._attempt.load.start.log_start_offset}"
        if self._is_sparse and before and behind and self._may_be_cleaned(before.part, behind.part, offer.part):
            return "the log is compacted, and no bytes are missing there"
        first, last = before.epoch if before else -1, behind.epoch if behind else -1
        if 0 <= offer.first_epoch < first or 0 <= last < offer.last_epoch:
            raise ReplicasDivergeError(
                f"{offer.part.path}: position {offer.part.start}: leader epochs {offer.first_epoch} to "
                f"{offer.last_epoch} do not fit between {first} and {last} on both sides; nothing was changed"
            )
        for entry in self._attempt.load.epochs.entries:
            if entry.start_offset <= offer.part.first and 0 <= offer.first_epoch < entry.epoch:
                return (
                    f"leader epoch {offer.first_epoch}, but by {LEADER_EPOCHS} epoch {entry.epoch} began at "
                    f"{entry.start_offset}"
                )
        return ""

    def _may_be_cleaned(self, before: SalvagedBatches, behind: SalvagedBatches, offered: SalvagedBatches) -> bool:
        """Whether the log cleaner may have removed everything between two batches, which are adjacent in the file.

        It has not, if a whole segment of the replica lies between them. Gaps reported by an earlier salvage prove
        nothing: they include offsets that the cleaner removed before.
        """
        if before.path == behind.path:
            return before.end == behind.start
        is_whole = before.last < self._bases[offered.path]
        return not is_whole and behind.start == 0 and trees.getsize(before.path) == before.end

    def _list(self, part: SalvagedBatches, why: str = "") -> None:
        rows = self.offsets
        if rows and rows[-1].last_offset + 1 == part.first and (rows[-1].file, rows[-1].why) == (part.path, why):
            rows[-1] = rows[-1]._replace(last_offset=part.last)
        else:
            rows.append(ReplicaOffsets(part.first, part.last, part.path, why))

    def _put(self, drafts: list[SegmentDraft], part: SalvagedBatches) -> None:
        """Puts batches into their segment; a segment that only the replica has is created."""
        base = self._bases[part.path]
        while True:
            i = bisect_right(drafts, part.first, key=lambda draft: draft.base) - 1
            if i < 0 or (drafts[i].base < base and drafts[i].next_offset <= base):
                i += 1
                drafts.insert(i, self._begun(drafts, i, base))
            draft = drafts[i]
            free_bytes = LARGEST_POSITION - draft.size
            if part.size <= free_bytes and part.last <= draft.limit:
                break
            fitting = self._fitting(part, free_bytes, draft.limit)
            if (
                fitting is None
                and part.first > draft.base
                and part.first >= draft.next_offset
                and free_bytes < part.size
            ):
                base = part.first  # the segment is full
                continue
            if fitting is None:
                self._list(part, "a batch does not fit between the bounds of segments")
                return
            draft.put(fitting)
            self._list(fitting)
            part = part._replace(start=fitting.end, first=fitting.last + 1)
        draft.put(part)
        self._list(part)

    @staticmethod
    def _fitting(part: SalvagedBatches, free_bytes: int, limit: int) -> SalvagedBatches | None:
        """Returns the first batches of a part within a size and up to an offset; None if there are none."""
        fitting = None
        with open_source(part.path) as source:
            for batch in batches_of(source, part):
                if batch.end - part.start > free_bytes or batch.last > limit:
                    break
                fitting = part._replace(end=batch.end, last=batch.last)
        return fitting

    def _begun(self, drafts: list[SegmentDraft], i: int, base: int) -> SegmentDraft:
        """Inserts an empty segment as number ``i``, and returns it."""
        behind = drafts[i].base if i < len(drafts) else None
        if i:
            drafts[i - 1].limit = min(drafts[i - 1].limit, base - 1)
            drafts[i - 1].is_last = False
        return SegmentDraft("", base, behind, segment_stem(base) + LOG)


def _elsewhere(one: ConflictingOffset) -> Rejection:
    part = one.here
    text = f"the batch of offsets {part.first} to {part.last} is at {one.first} in the replica"
    return Rejection("wrong-base-offset", text)
