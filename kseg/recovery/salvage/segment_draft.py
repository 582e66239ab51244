"""A segment as salvage reads and writes it: runs of intact batches of its own file, and of others between them."""

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from heapq import merge
from typing import NamedTuple

from kseg.changes.plan import Content, Piece, Range
from kseg.errors import PathError
from kseg.formats.record_batch import HEADER_BYTES, offsets_of
from kseg.formats.rows import Scratch
from kseg.formats.suffixes import LOG, TIME_INDEX
from kseg.kernel.layout.headers import ENTRY_MAGIC, ENTRY_OVERHEAD, ENTRY_SIZE, MAGIC_V2, V2_LEADER_EPOCH
from kseg.kernel.layout.rows import be32
from kseg.limits import FRAMES_PER_CALL
from kseg.recovery.broker.segments import LARGEST_POSITION, AcceptedBatches
from kseg.segment.files import segment_stem
from kseg.segment.items import Damage, Message, RecordBatch
from kseg.segment.survey import HeaderRows, headers_of
from kseg.segment.writer import LARGEST_DELTA
from kseg.stores.place import Place
from kseg.stores.source import Source, open_source

BATCH_WEIGHT = 2
"""Weight of an intact batch in its place."""

_MAX_UINT32 = 0xFFFFFFFF


class SalvagedBatches(NamedTuple):
    """Batches at ``[start, end)`` of a file, with contiguous offsets ``first`` to ``last``.

    ``head`` replaces the first bytes of a single batch whose header was repaired. ``path`` is the file, "" for the
    segment's own.
    """

    start: int
    end: int
    first: int
    last: int
    head: bytes = b""
    path: str = ""

    @property
    def size(self) -> int:
        return self.end - self.start

    def leading_bytes(self, source: Source, size: int) -> bytes:
        """Returns the first bytes, ``size`` or the repaired head if that is longer; fewer at the end of the file."""
        return self.head + bytes(source.buffer[self.start + len(self.head) : self.start + size])


class Parts:
    """Parts with offsets in ``[base, base + 2^31)``, by number; stored in 36 bytes each, because a damaged segment can
    consist of millions.

    ``records``: the record count of each; ``weights``: those used to choose among them.
    """

    def __init__(self, base: int) -> None:
        self.base = base
        self._starts, self._ends = array("Q"), array("Q")
        self._firsts, self._lasts = array("I"), array("I")
        self.weights, self.records = array("I"), array("Q")
        self._special: dict[int, tuple[bytes, str]] = {}

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, i: int) -> SalvagedBatches:
        at = range(len(self))[i]
        first, last = self.base + self._firsts[at], self.base + self._lasts[at]
        return SalvagedBatches(self._starts[at], self._ends[at], first, last, *self._special.get(at, (b"", "")))

    def __iter__(self) -> Iterator[SalvagedBatches]:
        base, special = self.base, self._special
        columns = zip(self._starts, self._ends, self._firsts, self._lasts, strict=True)
        for i, (start, end, first, last) in enumerate(columns):
            yield SalvagedBatches(start, end, base + first, base + last, *special.get(i, ()))

    @property
    def size(self) -> int:
        """Size of all parts together."""
        return sum(self._ends) - sum(self._starts)

    def append(self, part: SalvagedBatches, weight: int = 0, records: int = 0) -> None:
        if part.head or part.path:
            self._special[len(self)] = (part.head, part.path)
        self._starts.append(part.start)
        self._ends.append(part.end)
        self._firsts.append(part.first - self.base)
        self._lasts.append(part.last - self.base)
        self.weights.append(min(weight, _MAX_UINT32))
        self.records.append(records)

    def lengthen(self, end: int, last: int, weight: int, records: int) -> None:
        """Extends the last part by the batches after it."""
        self._ends[-1], self._lasts[-1] = end, last - self.base
        self.weights[-1] = min(self.weights[-1] + weight, _MAX_UINT32)
        self.records[-1] += records

    def pop(self) -> SalvagedBatches:
        """Removes and returns the last part."""
        part = self[len(self) - 1]
        for column in (self._starts, self._ends, self._firsts, self._lasts, self.weights, self.records):
            column.pop()
        self._special.pop(len(self), None)
        return part

    def without(self, numbers: Container[int]) -> "Parts":
        """Returns the parts without those of these numbers."""
        found = Parts(self.base)
        for number, part in enumerate(self):
            if number not in numbers:
                found.append(part, self.weights[number], self.records[number])
        return found

    def is_one_batch(self, i: int) -> bool:
        """Whether a part is a single unchanged batch of the file, by its weight."""
        return self.weights[i] < 2 * BATCH_WEIGHT and not self[i].head

    @property
    def repaired(self) -> int:
        """Number of parts with a repaired head."""
        return sum(bool(head) for head, _ in self._special.values())

    @property
    def is_rising(self) -> bool:
        """Whether each part begins after the previous one."""
        firsts, lasts = self._firsts, self._lasts
        return all(firsts[i] > lasts[i - 1] for i in range(1, len(firsts)))

    # The following need rising parts.

    def last_from(self, offset: int) -> int:
        """Returns the number of the last part that begins at or before an offset, -1 if none does."""
        return bisect_right(self._firsts, offset - self.base) - 1

    def at_position(self, position: int) -> int:
        """Like `last_from`, for a position in the file; positions must rise too."""
        return bisect_right(self._starts, position) - 1


def batch_of(source: Source, part: SalvagedBatches, scratch: Scratch) -> RecordBatch | Message:
    """Returns the batch of a part of one batch."""
    data = part.leading_bytes(source, part.size)
    kind = RecordBatch if data[ENTRY_MAGIC] >= MAGIC_V2 else Message
    return kind(data, 0, len(data), data[ENTRY_MAGIC], True, scratch)


def batches_of(source: Source, part: SalvagedBatches) -> Iterator[SalvagedBatches]:
    """Yields each batch of a part as a part."""
    if part.head:
        yield part
        return
    position, first = part.start, part.first
    while position < part.end:
        head = bytes(source.buffer[position : position + HEADER_BYTES])
        _, last = offsets_of(head)
        size = be32(head, ENTRY_SIZE) + ENTRY_OVERHEAD
        yield SalvagedBatches(position, position + size, first, last, path=part.path)
        position, first = position + size, last + 1


Change = Callable[[Source, SalvagedBatches], SalvagedBatches | None]
"""Returns a batch as it will be, None for one that is removed; the source is its file."""


MAX_CUTS = 10_000
"""Limit of the ranges listed for a segment."""

NO_OFFSET = -1
"""Base and limit of a file that makes no segment."""

EXCESS_OFFSETS = "are more than the batch has records, and the next batch begins after its last record"
"""The reason for doubt about the offsets of a batch."""


MAX_GAPS = 1 << 16
"""Limit of the gaps of a segment that are recorded one by one: `verify` accepts only gaps that are named exactly."""

_SMALL_BYTES = 1 << 18
"""Parts up to this size are gathered in memory and read together: a salvage of a compacted log is 3 times as fast."""


@dataclass(slots=True, eq=False)
class MisplacedRun:
    """Intact ``batches`` of a file, ``own``, that seem to be in the wrong place. ``expected``: the first offset that
    their neighbours suggest, -1 if unknown; ``doubt``: why their own offsets, which another batch has, may yet be
    right; ``records``: their number by the headers; ``continues``: whether they begin their file at the offset after
    the segment before.
    """

    own: "SegmentDraft"
    part: SalvagedBatches
    batches: int
    expected: int = -1
    doubt: str = ""
    records: int = 0
    continues: bool = False


class SegmentDraft:
    """A segment with offsets between ``base`` and ``limit``, as a file has it and as salvage will write it.

    ``parts`` of the file at ``path`` rise in positions and offsets; ``extra`` ones come from other files and places;
    ``misplaced`` runs have no place yet; ``cuts`` are removed. ``name``: that of the new segment, "" for a file that
    makes none; ``file``: the present name of the file.
    """

    def __init__(self, path: str, base: int | None, next_base: int | None, file: str = "") -> None:
        """``path``: "" for a segment without a file of its own; ``base``: None for a file that makes no segment;
        ``next_base``: that of the next segment, None for the last."""
        self.path = path
        self.base = NO_OFFSET if base is None else base
        highest = NO_OFFSET if base is None else base + LARGEST_DELTA
        self.limit = highest if next_base is None else min(next_base - 1, highest)
        self.is_last = base is not None and next_base is None
        self.name = "" if path else segment_stem(self.base) + LOG
        self.file = file or self.name
        self.parts = Parts(self.base)
        self.extra: list[SalvagedBatches] = []
        self.cuts: list[Damage] = []
        self.more_cuts = 0
        """Number of removed ranges beyond the first ones, which ``cuts`` lists."""
        self.misplaced: list[MisplacedRun] = []
        self.is_sparse = False
        """Whether offsets are missing that damage does not explain."""
        self.is_rearranged = False
        """Whether two batches share bytes of its file, or batches of the file make segments of their own."""
        self.ambiguous = 0
        """Number of batches cut out although their offsets may be right."""
        self.epochs_fall = False
        """Whether a batch has a lower leader epoch than the previous one, or an invalid one; batches with a repaired
        header are not compared."""
        self._bytes = -1
        self._walk: Iterator[SalvagedBatches] | None = None
        self._at = 0
        self._part: SalvagedBatches | None = None

    def __iter__(self) -> Iterator[SalvagedBatches]:
        """Yields all parts by offset."""
        return merge(self.parts, self.extra, key=lambda part: part.first) if self.extra else iter(self.parts)

    @cached_property
    def was_empty(self) -> bool:
        """Whether its closed file is empty, and its time index shows that it always was."""
        if self.is_last or not self.path.endswith(LOG):
            return False
        try:
            return not any(path.size() for path in (Place(self.path), Place(self.path).with_ending(LOG, TIME_INDEX)))
        except OSError:  # one is missing
            return False

    @property
    def is_changed(self) -> bool:
        """Whether its file will be rewritten."""
        is_moved = self.misplaced or self.extra or self.is_rearranged
        return bool(self.cuts or is_moved or self.parts.repaired)

    @property
    def is_empty(self) -> bool:
        return not (len(self.parts) or self.extra)

    def cut_out(self, code: str, position: int, length: int, message: str) -> None:
        """Removes a range of its file."""
        if len(self.cuts) < MAX_CUTS:
            self.cuts.append(Damage(code, position, length, message))
        else:
            self.more_cuts += 1

    def gaps(self, is_cleaned: bool) -> list[tuple[int, int]]:
        """Returns the ranges of missing offsets from its base to its last offset; one range that spans them if there
        are many.

        ``is_cleaned``: without gaps between adjacent batches of the file, which the log cleaner has left.
        """
        found: list[tuple[int, int]] = []
        reached, count, before = self.base, 0, ("", 0)
        for start, end, first, last, head, path in self:
            if first > reached and not (is_cleaned and not head and before == (path, start)):
                count += 1
                if count <= MAX_GAPS:
                    found.append((reached, first - 1))
                else:
                    found[-1] = (found[-1][0], first - 1)
            reached = last + 1
            if is_cleaned:  # damage to a header may have hit its neighbours
                before = ("", -1) if head else (path, end)
        return found if count <= MAX_GAPS else [(found[0][0], found[-1][1])]

    @property
    def ends_as_it_was(self) -> bool:
        """Whether nothing is missing, moved or repaired at the end of its file."""
        if not self.is_changed:
            return True
        last = self.last_part
        return last is not None and not (last.path or last.head) and last.end == Place(self.path).size()

    @property
    def next_offset(self) -> int:
        """The offset after its last batch; its base if it has none."""
        last = self.last_part
        return self.base if last is None else last.last + 1

    @property
    def last_part(self) -> SalvagedBatches | None:
        ends = [parts[-1] for parts in (self.parts, self.extra) if len(parts)]
        return max(ends, key=lambda part: part.last, default=None)

    def _beginning_by(self, offset: int) -> list[SalvagedBatches]:
        """Returns the last own part and the last extra one that begin at or before an offset."""
        i = self.parts.last_from(offset)
        k = bisect_right(self.extra, offset, key=lambda part: part.first) - 1
        return ([self.parts[i]] if i >= 0 else []) + ([self.extra[k]] if k >= 0 else [])

    def around(self, first: int, last: int) -> tuple[int | None, int | None] | None:
        """Returns the last taken offset before a free range and the first after it, each None if there is none.

        Returns None if the range is not free.
        """
        before = max((part.last for part in self._beginning_by(last)), default=None)
        i = self.parts.last_from(last) + 1
        k = bisect_right(self.extra, last, key=lambda part: part.first)
        following = [parts[n].first for parts, n in ((self.parts, i), (self.extra, k)) if n < len(parts)]
        return None if before is not None and before >= first else (before, min(following, default=None))

    def covers(self, first: int, last: int) -> bool:
        """Whether all offsets of a range are taken."""
        at = last
        while at >= first:
            taken = [part.first for part in self._beginning_by(at) if part.last >= at]
            if not taken:
                return False
            at = min(taken) - 1
        return True

    @property
    def size(self) -> int:
        """The size of its new file."""
        if self._bytes < 0:
            self._bytes = self.parts.size + sum(part.size for part in self.extra)
        return self._bytes

    @property
    def repaired(self) -> int:
        """Number of batches with a repaired header."""
        return self.parts.repaired + sum(bool(part.head) for part in self.extra)

    def has_space(self, part: SalvagedBatches) -> bool:
        """Whether an index could still point to all batches with this one added."""
        return self.size + part.size <= LARGEST_POSITION

    def put(self, part: SalvagedBatches) -> None:
        """Adds batches at free offsets."""
        part = part._replace(path="") if part.path == self.path else part
        self._bytes = -1 if self._bytes < 0 else self._bytes + part.size
        insort(self.extra, part, key=lambda part: part.first)

    def take(self, number: int) -> None:
        """Removes one of its own parts."""
        self.parts, self._bytes = self.parts.without({number}), -1

    def edit(self, firsts: Collection[int], change: Change) -> None:
        """Changes the batches at these first offsets."""
        parts = Parts(self.base)
        for part in self._edited(self.parts, firsts, change):
            parts.append(part)
        self.parts, self._bytes = parts, -1
        self.extra[:] = self._edited(self.extra, firsts, change)

    def _edited(
        self, parts: Iterable[SalvagedBatches], firsts: Collection[int], change: Change
    ) -> Iterator[SalvagedBatches]:
        wanted = sorted(firsts)
        for part in parts:
            i = bisect_left(wanted, part.first)
            if i == len(wanted) or wanted[i] > part.last:
                yield part
                continue
            with open_source(part.path or self.path) as source:
                held: SalvagedBatches | None = None
                for batch in batches_of(source, part):
                    if batch.first not in firsts:
                        held = held._replace(end=batch.end, last=batch.last) if held else batch
                        continue
                    yield from filter(None, (held, change(source, batch)))
                    held = None
                if held:
                    yield held

    def leave_out(self, firsts: Collection[int]) -> list[SalvagedBatches]:
        """Removes and returns the batches with these first offsets, with their paths, "" for the segment's own."""
        taken: list[SalvagedBatches] = []

        def take(_source: Source, batch: SalvagedBatches) -> None:
            taken.append(batch)

        self.edit(firsts, take)
        return taken

    def holders(self, offsets: Iterable[int]) -> Iterator[SalvagedBatches]:
        """Yields the parts that contain any of these offsets, each once."""
        last = -1
        for offset in sorted(offsets):
            if offset <= last:
                continue
            for part in self._beginning_by(offset):
                if part.last >= offset:
                    last = part.last
                    yield part

    def content(self, name: str) -> Content:
        """Returns the content, from the file of that name and others; adjacent ranges of a file are one piece."""
        return Content(partial(self._pieces, name), self.size)

    def _pieces(self, name: str) -> Iterator[Piece]:
        file, start, end = name, -1, -1
        for first, last, _, _, head, path in self:
            if head or (path or name) != file or first != end:
                if end > start:
                    yield Range(file, start, end - start)
                file, start = path or name, first + len(head)
            if head:
                yield head
            end = last
        if end > start:
            yield Range(file, start, end - start)

    def read(self, position: int, length: int) -> bytes:
        """Returns the bytes of a batch; fast if positions rise from call to call."""
        if self._walk is None or position < self._at:
            self._walk, self._at, self._part = iter(self), 0, None
        while self._part is None or position >= self._at + self._part.size:
            self._at += self._part.size if self._part else 0
            self._part = next(self._walk)
        part, skip = self._part, position - self._at
        with open_source(part.path or self.path) as source:
            start = part.start + max(skip, len(part.head))
            return part.head[skip:] + bytes(source.buffer[start : part.start + skip + length])

    def with_sources(self) -> Iterator[tuple[Source, SalvagedBatches]]:
        """Yields all parts by offset, each with its file, which is opened once."""
        with ExitStack() as stack:
            sources: dict[str, Source] = {}
            for part in self:
                if part.path not in sources:
                    sources[part.path] = stack.enter_context(open_source(part.path or self.path))
                yield sources[part.path], part

    def headers(self, position: int = 0) -> Iterator[HeaderRows]:
        """Yields header rows of the batches from a position on."""
        gathered, origin, at = bytearray(), 0, 0
        for source, (start, end, _, _, head, _) in self.with_sources():
            size = end - start
            skip = position - at if position > at else 0
            if skip < size:
                is_large = size > _SMALL_BYTES and not head
                if is_large or len(gathered) >= _SMALL_BYTES:
                    yield from _headers_in(gathered, origin)
                    gathered = bytearray()
                if is_large:
                    for found in AcceptedBatches(source, end, start + skip):
                        if at != start:
                            found.shift(at - start)
                        yield found
                else:
                    if not gathered:
                        origin = at + skip
                    gathered += head[skip:]
                    gathered += bytes(source.buffer[start + max(skip, len(head)) : end])
            at += size
        yield from _headers_in(gathered, origin)


def _headers_in(data: bytearray, origin: int) -> Iterator[HeaderRows]:
    """Yields the headers of batches without gaps between them. ``origin``: where ``data`` begins in the new file.

    Raises PathError if a length in a header leads beyond the data: the files have changed since they were scanned.
    """
    at, end = 0, len(data)
    while at < end:
        spans = list[tuple[int, int]]()
        while at < end and len(spans) < FRAMES_PER_CALL:
            size = be32(data, at + ENTRY_SIZE) + ENTRY_OVERHEAD if at + ENTRY_OVERHEAD <= end else 0
            if not ENTRY_OVERHEAD < size <= end - at:
                raise PathError("a segment has changed while it was read")
            spans.append((at, size))
            at += size
        yield headers_of(data, spans, origin)


def repair_epochs(draft: SegmentDraft) -> None:
    """Gives v2 batches with a wrong leader epoch, which no checksum covers, that of the batches around them: epochs
    rise with offsets, so all batches between two batches of an epoch have that epoch."""
    right: dict[int, int] = {}  # by first offset
    before, epoch, first = -1, -1, -1
    for headers in draft.headers():
        for next_first, next_epoch, magic in zip(headers.firsts, headers.epochs, headers.magics, strict=True):
            if 0 <= before == next_epoch != epoch and first >= 0:
                right[first] = epoch = before
            before, epoch, first = epoch, next_epoch, next_first if magic == MAGIC_V2 else -1

    def with_epoch(source: Source, batch: SalvagedBatches) -> SalvagedBatches:
        head = batch.leading_bytes(source, ENTRY_MAGIC + 1)
        head = head[:V2_LEADER_EPOCH] + right[batch.first].to_bytes(4, "big") + head[ENTRY_MAGIC:]
        return batch._replace(head=head)

    if right:
        draft.edit(right, with_epoch)
