"""``recover --from-replica DIR``: replaces damaged or missing batches of a partition by those of another replica.

First the partition is salvaged; the replica provides the offsets of batches in wrong places. Then holes are filled with
unchanged batches of the replica, if the batches next to a hole are equal on both sides and leader epochs rise. The
replica is not changed.
"""

import os
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from itertools import groupby, islice
from typing import Any, NamedTuple

from kseg.changes.plan import ReplicaOffsets
from kseg.errors import KsegError, PathError
from kseg.formats.record_batch import HEADER_BYTES
from kseg.formats.rows import Scratch
from kseg.formats.suffixes import LOG, SNAPSHOT
from kseg.kernel.layout.headers import ENTRY_MAGIC, MAGIC_V2, V2_COUNT, V2_LEADER_EPOCH
from kseg.kernel.layout.rows import be32
from kseg.limits import MAX_OFFSET
from kseg.node.log_directory import topic_id_at
from kseg.recovery.broker.segments import LARGEST_POSITION
from kseg.recovery.options import BrokerStart
from kseg.recovery.result import Salvage
from kseg.recovery.salvage.header_repair import fingerprint, first_bytes
from kseg.recovery.salvage.relocation import MAX_SINGLES
from kseg.recovery.salvage.salvage import Attempt, plan_salvage
from kseg.recovery.salvage.segment_draft import SalvagedBatches, SegmentDraft, batch_of, batches_of
from kseg.recovery.salvage.segment_scan import BatchFilter, scan_segment
from kseg.recovery.workspace import leading_offset
from kseg.segment.files import METADATA_TOPIC, SegmentFile, directory_name, list_segments, parse_partition_name
from kseg.segment.items import Problem, Record
from kseg.sidefiles.checkpoints import LEADER_EPOCHS
from kseg.stores.place import Place
from kseg.stores.source import Source, open_source
from kseg.stores.stored_object import shown
from kseg.stores.windows import equal_bytes

_FIRST_BYTES = 1 << 14
"""Bytes compared at first."""

_MAX_UNMATCHED = 250_000
"""Limit of reported parts that only this replica has, of about 200 bytes each."""


class ReplicasDivergeError(KsegError):
    """Two replicas have different records at one offset; nothing was changed.

    ``here``: the batch of this one, and whether it continues a neighbour without a gap.
    """

    def __init__(self, message: str, here: "Unmatched | None" = None) -> None:
        super().__init__(message)
        self.here = here


class Border(NamedTuple):
    """A batch next to a hole, and its leader epoch. ``is_common``: the other replica has its records, else none."""

    part: SalvagedBatches
    epoch: int
    is_common: bool


class Offer(NamedTuple):
    """Intact batches of the other replica, and the leader epochs of the first and last, -1 if none."""

    part: SalvagedBatches
    first_epoch: int
    last_epoch: int


class MissingBatches(NamedTuple):
    """Batches that only the other replica has, between two batches of this one, before its first or after its last."""

    before: Border | None
    behind: Border | None
    offers: tuple[Offer, ...]


class Unmatched(NamedTuple):
    """Batches that the other replica lacks. ``is_joined``: they continue a neighbour without a gap."""

    part: SalvagedBatches
    is_joined: bool


class Cursor:
    """A position at a batch of one side, until ``is_at_end``. Parts have rising offsets and the paths of their files.

    ``behind``: the part after ``part``, None for the last.
    """

    def __init__(self, parts: Iterator[SalvagedBatches]) -> None:
        self._parts = parts
        self._opened: tuple[str, Source] | None = None
        self._batch: SalvagedBatches | None = None
        self._records: dict[int, Record] | None = None
        self.is_at_end = False
        self.part = SalvagedBatches(0, 0, -1, -1)
        self.behind = next(self._parts, None)
        self._next_part()

    def close(self) -> None:
        if self._opened:
            self._opened[1].close()
            self._opened = None

    def _next_part(self) -> None:
        part, self.behind = self.behind, next(self._parts, None)
        self._batch = self._records = None
        self.is_at_end = part is None
        if part is not None:
            self.part = part

    @property
    def source(self) -> Source:
        """The file of the part."""
        if self._opened is None or self._opened[0] != self.part.path:
            self.close()
            self._opened = (self.part.path, open_source(self.part.path))
        return self._opened[1]

    @property
    def batch(self) -> SalvagedBatches:
        """The current batch: the first of the rest of the part."""
        if self._batch is None:
            self._batch = next(batches_of(self.source, self.part))
        return self._batch

    def records(self, scratch: Scratch) -> dict[int, Record]:
        """Returns the records of the batch by offset."""
        if self._records is None:
            self._records = {record.offset: record for record in batch_of(self.source, self.batch, scratch)}
        return self._records

    def read(self, size: int, start: int) -> bytes:
        """Returns bytes of the part."""
        return self.source.extent.pread(size, self.part.start + start)

    def before(self, other: "Cursor") -> SalvagedBatches | None:
        """Returns batches from the position on that end before those of the other side: all of the part, or one."""
        if other.is_at_end or self.part.last < other.part.first:
            return self.part
        return self.batch if self.batch.last < other.batch.first else None

    def step(self) -> None:
        """Moves to the next batch."""
        self.skip(self.batch.size, self.batch.last + 1)

    def skip(self, size: int, next_offset: int) -> None:
        """Moves behind ``size`` bytes of whole batches, to ``next_offset``."""
        self._batch = self._records = None
        part = self.part
        if size >= part.size:
            self._next_part()
        else:
            self.part = part._replace(start=part.start + size, first=next_offset)


def epoch_of(source: Source, batch: SalvagedBatches) -> int:
    """Returns the leader epoch of a batch; -1 for v0 and v1."""
    head = batch.leading_bytes(source, ENTRY_MAGIC + 1)
    return be32(head, V2_LEADER_EPOCH) if head[ENTRY_MAGIC] >= MAGIC_V2 else -1


class Agreement:
    """Compares two replicas of a partition: where they have the same records, and which batches only the other one has.
    Reads both sides once. Raises ReplicasDivergeError at the first offset whose records differ.

    Bytes are compared first, many batches at a time. If they differ (cleaned separately, other batch bounds or codecs),
    records are compared: leader epoch, key, value, timestamp, headers.

    After `holes`: ``unmatched`` has the first batches that only this replica has; ``heads``, by first offset, the other
    replica's first bytes of batches whose headers were repaired here with another result, or whose own leader epochs
    are wrong.
    """

    def __init__(self, here: Iterator[SalvagedBatches], there: Iterator[SalvagedBatches], scratch: Scratch) -> None:
        self._a, self._b = Cursor(here), Cursor(there)
        self._scratch = scratch
        self._before: tuple[SalvagedBatches, bool] | None = None
        """The last batches of A passed so far, and whether B has the last one, too."""
        self._reached = -1
        self._offers: list[Offer] = []
        self.unmatched: list[Unmatched] = []
        self.heads: dict[int, bytes] = {}

    def holes(self) -> Iterator[MissingBatches]:
        """Yields the holes: batches that only B has, in order."""
        a, b = self._a, self._b
        with closing(a), closing(b):
            while not b.is_at_end:
                if b.part.first <= self._reached and (a.is_at_end or b.batch.last < a.part.first):
                    b.step()  # A has a part of it
                elif theirs := b.before(a):
                    self._offer(theirs)
                elif ours := a.before(b):
                    yield from self._border(False)
                    self._pass_unmatched(ours)
                elif same := self._same_bytes():
                    yield from self._border(True)
                    self._before, self._reached = (same, True), same.last
                    a.skip(same.size, same.last + 1)
                    b.skip(same.size, same.last + 1)
                else:
                    is_common = self._same_records()
                    yield from self._border(is_common)
                    mine, other = a.batch, b.batch
                    if self._before is not None and self._before[0] == mine:
                        is_common = is_common or self._before[1]
                    self._before, self._reached = (mine, is_common), mine.last
                    if mine.last <= other.last:
                        a.step()
                    if other.last <= mine.last:
                        b.step()
            yield from self._border(False)
            while not a.is_at_end:
                self._pass_unmatched(a.part)

    def _border(self, is_common: bool) -> Iterator[MissingBatches]:
        """Yields the hole that ends at the batch of A, or at the end of A, if there is one."""
        a = self._a
        if self._offers:
            behind = None if a.is_at_end else Border(a.batch, epoch_of(a.source, a.batch), is_common)
            yield MissingBatches(self._last_border(), behind, tuple(self._offers))
            self._offers.clear()

    def _last_border(self) -> Border | None:
        if self._before is None:
            return None
        part, is_common = self._before
        with open_source(part.path) as source:
            last = deque(batches_of(source, part), maxlen=1)[0]
            return Border(last, epoch_of(source, last), is_common)

    def _pass_unmatched(self, part: SalvagedBatches) -> None:
        if len(self.unmatched) < _MAX_UNMATCHED:
            self.unmatched.append(Unmatched(part, self._is_joined(part)))
        self._before, self._reached = (part, False), part.last
        self._a.skip(part.size, part.last + 1)

    def _is_joined(self, part: SalvagedBatches) -> bool:
        """Whether the current batch of A continues a neighbour without a gap."""
        follows = self._before is not None and self._reached + 1 == part.first
        behind = self._a.behind.first if self._a.behind else -1
        return follows or part.last < self._a.part.last or part.last + 1 == behind

    def _offer(self, part: SalvagedBatches) -> None:
        first = last = -1
        for batch in batches_of(self._b.source, part):
            epoch = epoch_of(self._b.source, batch)
            if 0 <= epoch < last:
                raise ReplicasDivergeError(
                    f"{part.path}: position {batch.start}: leader epoch {epoch} follows {last}: no sound replica; "
                    "nothing was changed"
                )
            first, last = epoch if first < 0 else first, max(epoch, last)
        self._offers.append(Offer(part, first, last))
        self._b.skip(part.size, part.last + 1)

    def _same_bytes(self) -> SalvagedBatches | None:
        """Returns the next batches that are equal on both sides; None if the next one differs."""
        a, b = self._a, self._b
        if a.part.first != b.part.first:
            return None
        if a.part.head:
            if fingerprint(a.source, a.batch) != fingerprint(b.source, b.batch):
                return None
            mine, other = first_bytes(a.source, a.batch), first_bytes(b.source, b.batch)
            if mine != other:
                self.heads[a.part.first] = other
            return a.part
        common_bytes = min(a.part.size, b.part.size)
        size = equal_bytes(a.read, b.read, common_bytes, _FIRST_BYTES)
        if size == common_bytes:
            return a.part._replace(end=a.part.start + size, last=min(a.part, b.part, key=lambda part: part.size).last)
        if self._has_wrong_epoch():
            self.heads[a.batch.first] = first_bytes(b.source, b.batch)
            return a.batch
        return _fitting(a.source, a.part, size)

    def _has_wrong_epoch(self) -> bool:
        """Whether A has the batch of B with an impossible leader epoch: an invalid one, or one that does not fit its
        neighbours; or the batch has no records, so nothing can diverge."""
        a, b = self._a, self._b
        is_same = a.batch.first == b.batch.first and fingerprint(a.source, a.batch) == fingerprint(b.source, b.batch)
        epoch = epoch_of(a.source, a.batch)
        if not is_same or epoch == epoch_of(b.source, b.batch):
            return False
        if epoch < -1 or not be32(bytes(a.source.buffer[a.batch.start : a.batch.start + HEADER_BYTES]), V2_COUNT):
            return True
        before = self._last_border()
        rest = a.part._replace(start=a.batch.end) if a.batch.end < a.part.end else a.behind
        if rest is None:
            return before is not None and epoch < before.epoch
        with open_source(rest.path) as source:
            behind = epoch_of(source, rest)
        return 0 <= behind < epoch or (before is not None and epoch < before.epoch)

    def _same_records(self) -> bool:
        """Whether both overlapping batches have common offsets. Raises ReplicasDivergeError if records differ."""
        a, b = self._a, self._b
        mine, other = a.records(self._scratch), b.records(self._scratch)
        common = mine.keys() & other.keys()
        epochs = (epoch_of(a.source, a.batch), epoch_of(b.source, b.batch))
        differs = min(epochs) >= 0 and epochs[0] != epochs[1]
        for offset in sorted(common):
            if differs or not _is_same(mine[offset], other[offset]):
                difference = f"leader epochs {epochs[0]} and {epochs[1]}" if differs else "another record"
                raise ReplicasDivergeError(
                    f"{a.part.path} at position {a.batch.start} and {b.part.path} at position {b.batch.start} diverge "
                    f"at offset {offset}: {difference}; nothing was changed",
                    Unmatched(a.batch, self._is_joined(a.batch)),
                )
        return bool(common)


def _fitting(source: Source, part: SalvagedBatches, max_bytes: int, limit: int = MAX_OFFSET) -> SalvagedBatches | None:
    """Returns the first batches of a part within a size and up to an offset; None if there are none."""
    fitting = None
    for batch in batches_of(source, part):
        if batch.end - part.start > max_bytes or batch.last > limit:
            break
        fitting = part._replace(end=batch.end, last=batch.last)
    return fitting


def _is_same(one: Record, other: Record) -> bool:
    """Whether two records are equal, apart from fields that a format lacks."""
    timestamps = (one.timestamp, other.timestamp)
    if None not in timestamps and timestamps[0] != timestamps[1]:
        return False
    return (one.key, one.value, one.headers) == (other.key, other.value, other.headers)


def offsets_of(parts: Iterator[SalvagedBatches], prints: set[bytes]) -> dict[bytes, int]:
    """Returns the first offsets of batches with these fingerprints, without those at several offsets."""
    found: dict[bytes, int] = {}
    several: set[bytes] = set()
    for mark, batch, _ in _marked(Unmatched(part, False) for part in parts):
        if mark in prints:
            several |= {mark} & found.keys()
            found[mark] = batch.first
    return {mark: first for mark, first in found.items() if mark not in several}


def conflicting_offsets(unmatched: list[Unmatched], there: Iterator[SalvagedBatches]) -> dict[int, Problem]:
    """Returns single batches between gaps of this replica that the other one has at other offsets, by first offset.

    No checksum covers the base offset of v2. The other replica is believed, unless the batch here continues from a
    neighbour and the batch there does not.
    """
    single = [one for one in unmatched if not one.is_joined]
    ours = {mark: batch for mark, batch, is_joined in islice(_marked(single), MAX_SINGLES) if not is_joined}
    known = offsets_of(there, set(ours)) if ours else {}
    found = dict[int, Problem]()
    for mark, first in known.items():
        part = ours[mark]
        if first != part.first:
            text = f"the batch of offsets {part.first} to {part.last} is at {first} in the replica"
            found[part.first] = Problem("wrong-base-offset", text)
    return found


def offsets_here(unmatched: list[Unmatched], holes: list[MissingBatches]) -> dict[int, int]:
    """Returns the first offsets here of single batches between gaps of the other replica, by those there."""
    offered: dict[bytes, int] = {}
    for hole in holes:
        for i, offer in enumerate(hole.offers):
            with open_source(offer.part.path) as source:
                batch = next(batches_of(source, offer.part))
                if batch.size == offer.part.size and not _is_joined(hole, i):
                    offered[fingerprint(source, batch)] = batch.first
    ours = islice(_marked(unmatched), MAX_SINGLES) if offered else ()
    return {offered[mark]: batch.first for mark, batch, is_joined in ours if is_joined and mark in offered}


def _marked(unmatched: Iterable[Unmatched]) -> Iterator[tuple[bytes, SalvagedBatches, bool]]:
    """Yields each batch with its fingerprint, and whether it continues a neighbour without a gap."""
    for path, group in groupby(unmatched, key=lambda one: one.part.path):
        with open_source(path) as source:
            for one in group:
                for batch in batches_of(source, one.part):
                    yield fingerprint(source, batch), batch, one.is_joined or batch.size < one.part.size


def _is_joined(hole: MissingBatches, i: int) -> bool:
    part = hole.offers[i].part
    before = hole.offers[i - 1].part if i else hole.before and hole.before.part
    behind = hole.offers[i + 1].part if i + 1 < len(hole.offers) else hole.behind and hole.behind.part
    return bool((before and before.last + 1 == part.first) or (behind and part.last + 1 == behind.first))


def replica_of(directory: str, path: str) -> str | None:
    """Returns the replica of a partition at a path: a partition, or a log directory, which may have none (None).

    Raises PathError if there is no directory.
    """
    if not Place(path).is_dir():
        raise PathError(f"{shown(path)}: no such directory")
    if list_segments(path):
        return path
    inside = Place(path) / directory_name(directory)
    return inside if inside.is_dir() else None


def plan_from_replica(
    directory: str,
    replica_directory: str,
    start: BrokerStart,
    is_compacted: bool = False,
    batch_filter: BatchFilter | None = None,
) -> Salvage:
    """Plans the recovery. The plan's ``from_replica`` lists the batches that come from the replica, and those not
    taken.

    ``is_compacted``: whether gaps may come from the log cleaner. Raises ReplicasDivergeError if the two have different
    records at one offset, KsegError if they are no replicas of one partition, else as `plan_salvage`.
    """
    if os.path.realpath(directory) == os.path.realpath(replica_directory):
        raise KsegError(f"{replica_directory}: is the partition itself, not a replica of it")
    names = [parse_partition_name(directory_name(path)) for path in (directory, replica_directory)]
    if None not in names and names[0] != names[1]:
        raise KsegError(f"{replica_directory}: its name is that of another partition than {directory}")
    ids = [topic_id_at(path) for path in (directory, replica_directory)]
    if None not in ids and ids[0] != ids[1]:
        raise KsegError(f"{replica_directory}: belongs to topic id {ids[1]}, {directory} to {ids[0]}")
    files = [file for file in list_segments(replica_directory) if file.kind == LOG and file.base_offset is not None]
    if not files:
        raise PathError(f"{replica_directory}: holds no segment")
    # The metadata topic has no id of its own.
    is_same_log = None not in ids and names[0] is not None and names[0][0] != METADATA_TOPIC
    make_attempt = partial(FillingAttempt, files, is_same_log)
    return plan_salvage(directory, start, lambda: is_compacted, batch_filter, make_attempt)


class FillingAttempt(Attempt):
    """An attempt that fills gaps with batches of a replica's ``files``. ``is_same_log``: both are of the same topic by
    its id; ``more``: the parameters of `Attempt`."""

    def __init__(self, files: list[SegmentFile], is_same_log: bool, *more: Any) -> None:
        super().__init__(*more)
        self._files, self._is_sparse, self._is_same_log = files, self._may_be_compacted(), is_same_log
        self.replica_bases = {Place(file.path).absolute: file.base_offset or 0 for file in files}

    def known_offsets(self, prints: set[bytes]) -> dict[bytes, int]:
        return offsets_of(self._there(), prints)

    def fill(self) -> None:
        self._is_sparse |= any(draft.is_sparse for draft in self.drafts)
        holes, unmatched, wrong = self._compared()
        while wrong:
            self.leave_out(wrong)
            holes, unmatched, wrong = self._compared()
        elsewhere = offsets_here(unmatched, holes)
        for hole in holes:
            for offer in hole.offers:
                why = self._objection(hole, offer)
                if offer.part.first in elsewhere:
                    why = f"the same batch is here at offset {elsewhere[offer.part.first]}, where offsets go on"
                if why:
                    self._list(offer.part, why)
                else:
                    self._put(offer.part)
        # Snapshots after a hole may have been taken without its batches: the state is rebuilt.
        firsts = [one.first_offset for one in self.from_replica if not one.why]
        for name in self.workspace.names(SNAPSHOT) if firsts else ():
            offset = leading_offset(name)
            if offset is None or offset > min(firsts):
                self.workspace.delete(name, "may lack the batches that come from the replica")

    def _compared(self) -> tuple[list[MissingBatches], list[Unmatched], dict[int, Problem]]:
        """Returns the batches that only the replica has, those that only this one has, and those with wrong offsets."""
        agreement = Agreement(self._here(), self._there(), self.scratch)
        try:
            holes = list(agreement.holes())
        except ReplicasDivergeError as error:
            wrong = conflicting_offsets([error.here] if error.here else [], self._there())
            if not wrong:
                raise
            return [], [], wrong
        if heads := agreement.heads:
            for draft in self.drafts:
                if any(draft.base <= first <= draft.limit for first in heads):
                    draft.edit(heads, lambda _source, batch: batch._replace(head=heads[batch.first]))
            return self._compared()
        return holes, agreement.unmatched, conflicting_offsets(agreement.unmatched, self._there())

    def _here(self) -> Iterator[SalvagedBatches]:
        for draft in self.drafts:
            for part in draft:
                yield part if part.path else part._replace(path=draft.path)

    def _there(self) -> Iterator[SalvagedBatches]:
        """Yields the intact batches of the replica that are in their places."""
        reached = -1
        bases = [file.base_offset for file in self._files]
        for file, behind in zip(self._files, [*bases[1:], None], strict=True):
            path = Place(file.path).absolute
            with open_source(path) as source:
                kept = scan_segment(source, file.base_offset or 0, behind, self.scratch, self.load.start.jobs)
            self._is_sparse |= kept.is_sparse
            for part in kept.parts:
                if not part.head and part.first > reached:
                    reached = part.last
                    yield part._replace(path=path)

    def _objection(self, hole: MissingBatches, offer: Offer) -> str:
        """Returns why batches are not taken; "" if they are. Raises ReplicasDivergeError."""
        before, behind = hole.before, hole.behind
        borders = [border for border in (before, behind) if border]
        if borders and not any(border.is_common for border in borders) and not self._has_one_epoch(offer):
            return "the replica has neither the batch before nor the one after"
        if offer.part.first < self.load.start.log_start_offset:
            return f"the log begins at {self.load.start.log_start_offset}"
        if self._is_sparse and before and behind:
            # Whether the log cleaner may have removed everything between two batches, which are adjacent in the file.
            # It has not, if a whole segment of the replica lies between them. Gaps reported by an earlier salvage
            # prove nothing: they include offsets that the cleaner removed before.
            one, other = before.part, behind.part
            are_adjacent = one.end == other.start
            if one.path != other.path:
                is_whole = one.last < self.replica_bases[offer.part.path]
                are_adjacent = not is_whole and other.start == 0 and Place(one.path).size() == one.end
            if are_adjacent:
                return "the log is compacted, and no bytes are missing there"
        first, last = before.epoch if before else -1, behind.epoch if behind else -1
        if 0 <= offer.first_epoch < first or 0 <= last < offer.last_epoch:
            raise ReplicasDivergeError(
                f"{offer.part.path}: position {offer.part.start}: leader epochs {offer.first_epoch} to "
                f"{offer.last_epoch} do not fit between {first} and {last} on both sides; nothing was changed"
            )
        for entry in self.load.epochs.entries:
            if entry.start_offset <= offer.part.first and 0 <= offer.first_epoch < entry.epoch:
                return (
                    f"leader epoch {offer.first_epoch}, but by {LEADER_EPOCHS} epoch {entry.epoch} began at "
                    f"{entry.start_offset}"
                )
        return ""

    def _has_one_epoch(self, offer: Offer) -> bool:
        """Whether both replicas have the offsets in the same leader epoch: only one leader wrote to the topic in it."""
        entries = self.load.epochs.entries
        ours = {
            max((entry.epoch for entry in entries if entry.start_offset <= offset), default=-1)
            for offset in (offer.part.first, offer.part.last)
        }
        return self._is_same_log and ours == {offer.first_epoch, offer.last_epoch} and len(ours - {-1}) == 1

    def _list(self, part: SalvagedBatches, why: str = "") -> None:
        rows = self.from_replica
        if rows and rows[-1].last_offset + 1 == part.first and (rows[-1].file, rows[-1].why) == (part.path, why):
            rows[-1] = rows[-1]._replace(last_offset=part.last)
        else:
            rows.append(ReplicaOffsets(part.first, part.last, part.path, why))

    def _put(self, part: SalvagedBatches) -> None:
        """Puts batches into their segment; a segment that only the replica has is created."""
        base, drafts = self.replica_bases[part.path], self.drafts
        while True:
            i = bisect_right(drafts, part.first, key=lambda draft: draft.base) - 1
            if i < 0 or (drafts[i].base < base and drafts[i].next_offset <= base):
                i += 1
                behind = drafts[i].base if i < len(drafts) else None
                if i:
                    drafts[i - 1].limit = min(drafts[i - 1].limit, base - 1)
                    drafts[i - 1].is_last = False
                drafts.insert(i, SegmentDraft("", base, behind))
            draft = drafts[i]
            free_bytes = LARGEST_POSITION - draft.size
            if part.size <= free_bytes and part.last <= draft.limit:
                break
            with open_source(part.path) as source:
                fitting = _fitting(source, part, free_bytes, draft.limit)
            if fitting is None and draft.base < part.first >= draft.next_offset and free_bytes < part.size:
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
