"""Runs of intact batches in a file; a damaged segment consists of many."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from typing import NamedTuple

from kseg.formats.record_batch import HEADER_BYTES
from kseg.formats.rows import Scratch
from kseg.kernel.layout.headers import (
    ENTRY_MAGIC,
    ENTRY_OFFSET,
    ENTRY_OVERHEAD,
    ENTRY_SIZE,
    MAGIC_V2,
    V2_LAST_OFFSET_DELTA,
)
from kseg.kernel.layout.rows import be32, be64
from kseg.segment.batches import Message, RecordBatch
from kseg.stores.source import Source, open_source

BATCH_WEIGHT = 2
"""Weight of an intact batch in its place."""

_MAX_UINT32 = 0xFFFFFFFF


class SalvagedBatches(NamedTuple):
    """Batches at ``[start, end)`` of a file, with contiguous offsets ``first`` to ``last``.

    ``head`` replaces the first bytes of a single batch whose header was repaired; ``why`` says how. ``path`` is the
    file, "" for the segment's own.
    """

    start: int
    end: int
    first: int
    last: int
    head: bytes = b""
    why: str = ""
    path: str = ""

    @property
    def size(self) -> int:
        return self.end - self.start


class Parts:
    """Parts with offsets in ``[base, base + 2^31)``, by number; stored in 28 bytes each, because there can be millions.

    ``records``: the record count of each; ``weights``: those used to choose among them.
    """

    def __init__(self, base: int) -> None:
        self.base = base
        self._starts, self._ends = array("I"), array("I")
        self._firsts, self._lasts = array("I"), array("I")
        self.weights, self.records = array("I"), array("Q")
        self._special: dict[int, tuple[bytes, str, str]] = {}

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, i: int) -> SalvagedBatches:
        at = range(len(self))[i]
        first, last = self.base + self._firsts[at], self.base + self._lasts[at]
        return SalvagedBatches(self._starts[at], self._ends[at], first, last, *self._special.get(at, (b"", "", "")))

    def __iter__(self) -> Iterator[SalvagedBatches]:
        base, special = self.base, self._special
        columns = zip(self._starts, self._ends, self._firsts, self._lasts, strict=True)
        for i, (start, end, first, last) in enumerate(columns):
            if i in special:
                yield SalvagedBatches(start, end, base + first, base + last, *special[i])
            else:
                yield SalvagedBatches(start, end, base + first, base + last)

    @property
    def size(self) -> int:
        """Size of all parts together."""
        return sum(self._ends) - sum(self._starts)

    def append(self, part: SalvagedBatches, weight: int = 0, records: int = 0) -> None:
        self._widen(part.end)
        if part.head or part.path:
            self._special[len(self)] = (part.head, part.why, part.path)
        self._starts.append(part.start)
        self._ends.append(part.end)
        self._firsts.append(part.first - self.base)
        self._lasts.append(part.last - self.base)
        self.weights.append(min(weight, _MAX_UINT32))
        self.records.append(records)

    def lengthen(self, end: int, last: int, weight: int, records: int) -> None:
        """Extends the last part by the batches after it."""
        self._widen(end)
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

    def _widen(self, end: int) -> None:
        if end > _MAX_UINT32 and self._ends.typecode == "I":
            self._starts, self._ends = array("Q", self._starts), array("Q", self._ends)

    @property
    def repaired(self) -> int:
        """Number of parts with a repaired head."""
        return sum(bool(head) for head, _, _ in self._special.values())

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


def leading_bytes(source: Source, part: SalvagedBatches, size: int) -> bytes:
    """Returns the first bytes of a part, ``size`` or its repaired head if that is longer; fewer at the end of the
    file."""
    return part.head + bytes(source.buffer[part.start + len(part.head) : part.start + size])


def batch_of(source: Source, part: SalvagedBatches, scratch: Scratch) -> RecordBatch | Message:
    """Returns the batch of a part of one batch."""
    data = bytes(part.head) + bytes(source.buffer[part.start + len(part.head) : part.end])
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
        last = first + be32(head, V2_LAST_OFFSET_DELTA) if head[ENTRY_MAGIC] >= MAGIC_V2 else be64(head, ENTRY_OFFSET)
        size = be32(head, ENTRY_SIZE) + ENTRY_OVERHEAD
        yield SalvagedBatches(position, position + size, first, last, path=part.path)
        position, first = position + size, last + 1


Change = Callable[[Source, SalvagedBatches], SalvagedBatches | None]
"""Returns a batch as it will be, None for one that is removed; the source is its file."""


def edited(
    parts: Iterable[SalvagedBatches], firsts: Collection[int], path: str, change: Change
) -> Iterator[SalvagedBatches]:
    """Yields the parts with the batches at these first offsets changed; ``path``: the file of parts without one."""
    wanted = sorted(firsts)
    for part in parts:
        i = bisect_left(wanted, part.first)
        if i == len(wanted) or wanted[i] > part.last:
            yield part
            continue
        with open_source(part.path or path) as source:
            held: SalvagedBatches | None = None
            for batch in batches_of(source, part):
                if batch.first not in firsts:
                    held = held._replace(end=batch.end, last=batch.last) if held else batch
                    continue
                yield from filter(None, (held, change(source, batch)))
                held = None
            if held:
                yield held
