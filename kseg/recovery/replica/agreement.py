"""Compares two replicas of a partition: where they have the same records, and which batches only the other one has.

Bytes are compared first, many batches at a time. If they differ (cleaned separately, other batch bounds or codecs),
records are compared: leader epoch, key, value, timestamp, headers.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from kseg.errors import KsegError
from kseg.formats.record_batch import HEADER_BYTES
from kseg.formats.rows import Scratch
from kseg.kernel.layout.headers import ENTRY_MAGIC, MAGIC_V2, V2_COUNT, V2_LEADER_EPOCH
from kseg.kernel.layout.rows import be32
from kseg.recovery.salvage.header_repair import fingerprint, first_bytes
from kseg.recovery.salvage.parts import SalvagedBatches, batch_of, batches_of, leading_bytes
from kseg.recovery.salvage.relocation import MAX_SINGLES
from kseg.recovery.salvage.segment_draft import SegmentDraft, set_epochs
from kseg.segment.items import Record
from kseg.stores.buffers import common_prefix
from kseg.stores.source import Source, open_source

_FIRST_BYTES, _LAST_BYTES = 1 << 14, 1 << 20
"""Bytes compared at a time."""

_MAX_UNMATCHED = 250_000
"""Limit of reported parts that only this replica has, of about 200 bytes each."""


class ReplicasDivergeError(KsegError):
    """Two replicas have different records at one offset; nothing was changed.

    ``here``: the batch of this one, and whether it continues a neighbour without a gap.
    """

    def __init__(self, message: str, here: "Unmatched | None" = None) -> None:
        super().__init__(message)
        self.here = here


@dataclass(frozen=True, slots=True)
class Border:
    """A batch next to a hole, and its leader epoch. ``is_common``: the other replica has the same records; otherwise it
    has none of them."""

    part: SalvagedBatches
    epoch: int
    is_common: bool


@dataclass(frozen=True, slots=True)
class Offer:
    """Intact batches of the other replica, and the leader epochs of the first and last, -1 if none."""

    part: SalvagedBatches
    first_epoch: int
    last_epoch: int


@dataclass(frozen=True, slots=True)
class MissingBatches:
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

    def __init__(self, parts: Iterator[SalvagedBatches], stack: ExitStack) -> None:
        self._parts = parts
        self._stack = stack
        self._opened: tuple[str, Source] | None = None
        self._batch: SalvagedBatches | None = None
        self._records: dict[int, Record] | None = None
        self.is_at_end = False
        self.part = SalvagedBatches(0, 0, -1, -1)
        self.behind = next(self._parts, None)
        self._stack.callback(self._close)
        self._next_part()

    def _close(self) -> None:
        if self._opened:
            self._opened[1].close()
            self._opened = None

    def _next_part(self) -> None:
        part, self.behind = self.behind, next(self._parts, None)
        self._batch = None
        self._records = None
        self.is_at_end = part is None
        if part is not None:
            self.part = part

    @property
    def source(self) -> Source:
        """The file of the part."""
        if self._opened is None or self._opened[0] != self.part.path:
            self._close()
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

    def read(self, start: int, size: int) -> bytes:
        """Returns bytes of the part."""
        return self.source.extent.pread(size, self.part.start + start)

    def step(self) -> None:
        """Moves to the next batch."""
        self.skip(self.batch.size, self.batch.last + 1)

    def skip(self, size: int | None = None, next_offset: int = 0) -> None:
        """Moves behind ``size`` bytes of whole batches, to ``next_offset``; without ``size`` to the next part."""
        self._batch = self._records = None
        part = self.part
        if size is None or size >= part.size:
            self._next_part()
        else:
            self.part = part._replace(start=part.start + size, first=next_offset)


def epoch_of(source: Source, batch: SalvagedBatches) -> int:
    """Returns the leader epoch of a batch; -1 for v0 and v1."""
    head = leading_bytes(source, batch, ENTRY_MAGIC + 1)
    return be32(head, V2_LEADER_EPOCH) if head[ENTRY_MAGIC] >= MAGIC_V2 else -1


class Agreement:
    """Reads both sides once. Raises ReplicasDivergeError at the first offset whose records differ.

    After `holes`: ``unmatched`` has the first batches that only this replica has; ``heads`` the other replica's first
    bytes of batches whose headers were repaired here with another result, by first offset; ``epochs`` its leader epochs
    of batches whose own epochs are wrong.
    """

    def __init__(self, here: Iterator[SalvagedBatches], there: Iterator[SalvagedBatches], scratch: Scratch) -> None:
        self._stack = ExitStack()
        self._a, self._b = Cursor(here, self._stack), Cursor(there, self._stack)
        self._scratch = scratch
        self._before: tuple[SalvagedBatches, bool] | None = None
        """The last batches of A passed so far, and whether B has the last one, too."""
        self._reached = -1
        self._offers: list[Offer] = []
        self.unmatched: list[Unmatched] = []
        self.heads: dict[int, bytes] = {}
        self.epochs: dict[int, int] = {}

    def holes(self) -> Iterator[MissingBatches]:
        """Yields the holes: batches that only B has, in order."""
        a, b = self._a, self._b
        with self._stack:
            while not b.is_at_end:
                if b.part.first <= self._reached and (a.is_at_end or b.batch.last < a.part.first):
                    b.step()  # A has a part of it
                elif a.is_at_end or b.part.last < a.part.first:
                    self._offer(b.part)
                    b.skip()
                elif a.part.last < b.part.first:
                    yield from self._border(False)
                    self._pass_unmatched(a.part)
                    a.skip()
                elif b.batch.last < a.batch.first:
                    self._offer(b.batch)
                    b.step()
                elif a.batch.last < b.batch.first:
                    yield from self._border(False)
                    self._pass_unmatched(a.batch)
                    a.step()
                elif size := self._same_bytes():
                    yield from self._border(True)
                    self._pass_same(size)
                else:
                    is_common = self._same_records()
                    yield from self._border(is_common)
                    self._pass_apart(is_common)
            if self._offers and not a.is_at_end:
                yield from self._border(False)
            elif self._offers:
                yield MissingBatches(self._last_border(), None, tuple(self._offers))
            while not a.is_at_end:
                self._pass_unmatched(a.part)
                a.skip()

    def _border(self, is_common: bool) -> Iterator[MissingBatches]:
        """Yields the hole that ends at the batch of A, if there is one."""
        if self._offers:
            behind = Border(self._a.batch, epoch_of(self._a.source, self._a.batch), is_common)
            yield MissingBatches(self._last_border(), behind, tuple(self._offers))
            self._offers.clear()

    def _last_border(self) -> Border | None:
        if self._before is None:
            return None
        part, is_common = self._before
        with open_source(part.path) as source:
            last = _last_of(source, part)
            return Border(last, epoch_of(source, last), is_common)

    def _pass_unmatched(self, part: SalvagedBatches) -> None:
        if len(self.unmatched) < _MAX_UNMATCHED:
            self.unmatched.append(Unmatched(part, self._is_joined(part)))
        self._pass(part, False)

    def _is_joined(self, part: SalvagedBatches) -> bool:
        """Whether the current batch of A continues a neighbour without a gap."""
        follows = self._before is not None and self._reached + 1 == part.first
        behind = self._a.behind.first if self._a.behind else -1
        return follows or part.last < self._a.part.last or part.last + 1 == behind

    def _pass(self, part: SalvagedBatches, is_common: bool) -> None:
        self._before, self._reached = (part, is_common), part.last

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

    def _same_bytes(self) -> int:
        """Returns the size of the next batches that are equal on both sides; 0 if the next one differs."""
        a, b = self._a, self._b
        if a.part.first != b.part.first:
            return 0
        if a.part.head:
            if fingerprint(a.source, a.batch) != fingerprint(b.source, b.batch):
                return 0
            mine, other = first_bytes(a.source, a.batch), first_bytes(b.source, b.batch)
            if mine != other:
                self.heads[a.part.first] = other
            return a.part.size
        common_bytes, size, chunk = min(a.part.size, b.part.size), 0, _FIRST_BYTES
        while size < common_bytes:
            wanted, chunk = min(chunk, common_bytes - size), min(2 * chunk, _LAST_BYTES)
            mine, other = a.read(size, wanted), b.read(size, wanted)
            if mine != other or len(mine) < wanted:
                size += common_prefix(mine, other)
                break
            size += wanted
        if size == common_bytes:
            return size
        if self._has_wrong_epoch():
            self.epochs[a.batch.first] = epoch_of(b.source, b.batch)
            return a.batch.size
        end = 0
        for batch in batches_of(a.source, a.part):
            if batch.end - a.part.start > size:
                break
            end = batch.end - a.part.start
        return end

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

    def _pass_same(self, size: int) -> None:
        a, b = self._a, self._b
        if a.part.size == size:
            part = a.part
        elif b.part.size == size:
            part = a.part._replace(end=a.part.start + size, last=b.part.last)
        else:
            part = a.part._replace(end=a.part.start + size)
            part = part._replace(last=_last_of(a.source, part).last)
        self._pass(part, True)
        a.skip(size, part.last + 1)
        b.skip(size, part.last + 1)

    def _same_records(self) -> bool:
        """Whether both batches, which overlap, have common offsets. Raises ReplicasDivergeError if their records
        differ."""
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

    def _pass_apart(self, is_common: bool) -> None:
        a, b = self._a, self._b
        mine, other = a.batch, b.batch
        if self._before is not None and self._before[0] == mine:
            is_common = is_common or self._before[1]
        self._pass(mine, is_common)
        if mine.last <= other.last:
            a.step()
        if other.last <= mine.last:
            b.step()


def _last_of(source: Source, part: SalvagedBatches) -> SalvagedBatches:
    return deque(batches_of(source, part), maxlen=1)[0]


def _is_same(one: Record, other: Record) -> bool:
    """Whether two records are equal, apart from fields that a format lacks."""
    timestamps = (one.timestamp, other.timestamp)
    if None not in timestamps and timestamps[0] != timestamps[1]:
        return False
    return (one.key, one.value, one.headers) == (other.key, other.value, other.headers)


# Batches that two replicas of a partition have at different offsets: one base offset is wrong.
#
# No checksum covers the base offset of v2. The other replica is believed, unless the batch here continues from a
# neighbour and the batch there does not.


class ConflictingOffset(NamedTuple):
    """A batch ``here`` that the other replica has at another ``first`` offset."""

    here: SalvagedBatches
    first: int


def offsets_of(parts: Iterator[SalvagedBatches], prints: set[bytes]) -> dict[bytes, int]:
    """Returns the first offsets of batches with these fingerprints, without those at several offsets."""
    found: dict[bytes, int] = {}
    several: set[bytes] = set()
    with ExitStack() as stack:
        cursor = Cursor(parts, stack)
        while not cursor.is_at_end:
            mark = fingerprint(cursor.source, cursor.batch)
            if mark in prints:
                several |= {mark} & found.keys()
                found[mark] = cursor.batch.first
            cursor.step()
    return {mark: first for mark, first in found.items() if mark not in several}


def conflicting_offsets(unmatched: list[Unmatched], there: Iterator[SalvagedBatches]) -> list[ConflictingOffset]:
    """Returns single batches between gaps of this replica that the other one has at other offsets."""
    single = [one for one in unmatched if not one.is_joined]
    ours = {mark: batch for mark, batch, is_joined in islice(_marked(single), MAX_SINGLES) if not is_joined}
    known = offsets_of(there, set(ours)) if ours else {}
    return [ConflictingOffset(ours[mark], first) for mark, first in known.items() if first != ours[mark].first]


def offsets_here(unmatched: list[Unmatched], holes: list[MissingBatches]) -> dict[int, int]:
    """Returns the first offset here of each single batch between gaps of the other replica, by its first offset
    there."""
    offered: dict[bytes, int] = {}
    for hole in holes:
        for i, offer in enumerate(hole.offers):
            with open_source(offer.part.path) as source:
                batch = next(batches_of(source, offer.part))
                if batch.size == offer.part.size and not _is_joined(hole, i):
                    offered[fingerprint(source, batch)] = batch.first
    ours = islice(_marked(unmatched), MAX_SINGLES) if offered else ()
    return {offered[mark]: batch.first for mark, batch, is_joined in ours if is_joined and mark in offered}


def _marked(unmatched: list[Unmatched]) -> Iterator[tuple[bytes, SalvagedBatches, bool]]:
    """Yields each batch with its fingerprint, and whether it continues a neighbour without a gap."""
    for one in unmatched:
        with open_source(one.part.path) as source:
            for batch in batches_of(source, one.part):
                yield fingerprint(source, batch), batch, one.is_joined or batch.size < one.part.size


def _is_joined(hole: MissingBatches, i: int) -> bool:
    part = hole.offers[i].part
    before = hole.offers[i - 1].part if i else hole.before and hole.before.part
    behind = hole.offers[i + 1].part if i + 1 < len(hole.offers) else hole.behind and hole.behind.part
    return bool((before and before.last + 1 == part.first) or (behind and part.last + 1 == behind.first))


def copy_headers(drafts: list[SegmentDraft], heads: dict[int, bytes], epochs: dict[int, int]) -> None:
    """Gives batches the header fields of the other replica, by first offset; see `Agreement`."""

    def with_head(_source: Source, batch: SalvagedBatches) -> SalvagedBatches:
        return batch._replace(head=heads[batch.first], why="its header is that of the replica")

    for draft in drafts:
        if any(draft.base <= first <= draft.limit for first in heads):
            draft.edit(heads, with_head)
        mine = {first: epoch for first, epoch in epochs.items() if draft.base <= first <= draft.limit}
        if mine:
            set_epochs(draft, mine)
