"""A segment that salvage will write: batches of its own file, and batches of other files between them."""

import struct
from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Container, Iterable, Iterator
from contextlib import ExitStack
from functools import cached_property, partial
from heapq import merge

from kseg.changes.plan import Content, Piece, Range
from kseg.errors import PathError
from kseg.formats.rows import int64s
from kseg.formats.suffixes import LOG, TIME_INDEX
from kseg.kernel.layout.headers import ENTRY_MAGIC, ENTRY_OVERHEAD, ENTRY_SIZE, MAGIC_V2, V2_LEADER_EPOCH
from kseg.kernel.layout.rows import (
    BATCH_FIRST_OFFSET,
    BATCH_LEADER_EPOCH,
    BATCH_MAGIC,
    BATCH_POSITION,
    BATCH_WIDTH,
    CRC_RIGHT,
    FRAME_MAGIC,
    FRAME_POSITION,
    FRAME_SIZE,
    FRAME_STATE,
    FRAME_WIDTH,
)
from kseg.kernel.scan.headers import read as read_headers
from kseg.limits import FRAMES_PER_CALL
from kseg.recovery.broker.segments import AcceptedBatches
from kseg.recovery.salvage.parts import (
    PartRow,
    Parts,
    SalvagedBatches,
    SegmentContents,
    batches_of,
    leading_bytes,
    without_batches,
)
from kseg.segment.survey import HeaderRows
from kseg.stores import trees
from kseg.stores.source import Source, open_source

_LENGTH = struct.Struct(">i")
_SMALL_BYTES = 1 << 18
"""Parts up to this size are gathered in memory and read together; one pass for each would take longer."""


class Layout:
    """Parts by offset: ``parts`` of the file at ``path`` and ``extra`` ones, both sorted.

    Positions in `headers` are those in the new file.
    """

    def __init__(self, path: str, parts: Parts, extra: list[SalvagedBatches]) -> None:
        self.path = path
        self.parts = parts
        self.extra = extra
        self._walk: Iterator[SalvagedBatches] | None = None
        self._at = 0
        self._part: SalvagedBatches | None = None

    def __iter__(self) -> Iterator[SalvagedBatches]:
        if not self.extra:
            return iter(self.parts)
        return merge(self.parts, self.extra, key=lambda part: part.first)

    def rows(self) -> Iterator[PartRow]:
        """Yields the row of each part; faster than the parts themselves."""
        if not self.extra:
            return self.parts.rows()
        return ((part.start, part.end, part.first, part.last, part.head, part.path) for part in self)

    def __len__(self) -> int:
        return len(self.parts) + len(self.extra)

    @property
    def size(self) -> int:
        return self.parts.size + sum(part.size for part in self.extra)

    @property
    def last_offset(self) -> int | None:
        ends = [parts[len(parts) - 1].last for parts in (self.parts, self.extra) if len(parts)]
        return max(ends, default=None)

    def content(self, name: str) -> Content:
        """Returns the content, from the file of that name and others; adjacent ranges of a file are one piece."""
        return Content(partial(self._pieces, name), self.size)

    def _pieces(self, name: str) -> Iterator[Piece]:
        file, start, end = name, -1, -1
        for first, last, _, _, head, path in self.rows():
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

    def headers(self, position: int = 0) -> Iterator[HeaderRows]:
        """Yields header rows of the batches from a position on."""
        with ExitStack() as stack:
            sources: dict[str, Source] = {}
            gathered, origin, at = bytearray(), 0, 0
            for start, end, _, _, head, path in self.rows():
                size = end - start
                skip = position - at if position > at else 0
                if skip < size:
                    if path not in sources:
                        sources[path] = stack.enter_context(open_source(path or self.path))
                    if size > _SMALL_BYTES and not head:
                        yield from _headers_in(gathered, origin)
                        gathered = bytearray()
                        yield from _shifted(sources[path], start, end, at, skip)
                    else:
                        if not gathered:
                            origin = at + skip
                        gathered += head[skip:]
                        gathered += bytes(sources[path].buffer[start + max(skip, len(head)) : end])
                        if len(gathered) >= _SMALL_BYTES:
                            yield from _headers_in(gathered, origin)
                            gathered = bytearray()
                at += size
            yield from _headers_in(gathered, origin)


def _headers_in(data: bytearray, origin: int) -> Iterator[HeaderRows]:
    """Yields the headers of adjacent batches; ``origin`` is the position of the first one in the layout.

    Raises PathError if their lengths are not those of the layout.
    """
    at, end = 0, len(data)
    while at < end:
        positions, sizes = list[int](), list[int]()
        while at < end and len(positions) < FRAMES_PER_CALL:
            size = _LENGTH.unpack_from(data, at + ENTRY_SIZE)[0] + ENTRY_OVERHEAD if at + ENTRY_OVERHEAD <= end else 0
            if not ENTRY_OVERHEAD < size <= end - at:
                raise PathError("a segment has changed while it was read")
            positions.append(at)
            sizes.append(size)
            at += size
        count = len(positions)
        frames, rows = int64s(count * FRAME_WIDTH), int64s(count * BATCH_WIDTH)
        magics = [data[position + ENTRY_MAGIC] for position in positions]
        columns = {FRAME_POSITION: positions, FRAME_SIZE: sizes, FRAME_MAGIC: magics, FRAME_STATE: [CRC_RIGHT] * count}
        for column, values in columns.items():
            frames[column::FRAME_WIDTH] = memoryview(array("q", values))
        read_headers(data, frames, count, False, origin, rows)
        yield HeaderRows(rows, count)


def _shifted(source: Source, start: int, end: int, at: int, skip: int) -> Iterator[HeaderRows]:
    for found in AcceptedBatches(source, end, start + skip):
        if at != start:
            for i in range(found.count):
                found.rows[i * BATCH_WIDTH + BATCH_POSITION] += at - start
        yield found


MAX_GAPS = 1 << 16
"""Limit of the gaps of a segment that are recorded one by one: `verify` accepts only gaps that are named exactly."""


class SegmentDraft:
    """The segment ``name``, "" for a file that becomes no segment: its own ``parts``, and ``extra`` ones put between
    them.

    ``file`` is the present name of the file with its own parts. A released draft has no parts until its file is read
    again.
    """

    def __init__(self, contents: SegmentContents, name: str, file: str = "") -> None:
        self.contents = contents
        self.name = name
        self.file = file or name
        self.extra: list[SalvagedBatches] = []
        self.is_released = False
        self._gaps: list[tuple[int, int]] = []
        self._next_offset = 0
        self._bytes = -1

    @property
    def parts(self) -> Parts:
        return self.contents.parts

    def release_parts(self) -> None:
        """Releases the parts of an intact segment."""
        self._gaps, self._next_offset = self._gaps_inside(False), self.next_offset
        self.contents.parts = Parts(self.contents.base)
        self.is_released = True

    def restore_parts(self, parts: Parts) -> None:
        """Stores the parts again."""
        self.contents.parts = parts
        self.is_released = False

    @cached_property
    def was_empty(self) -> bool:
        """Whether its closed file is empty, and its time index shows that it always was."""
        path = self.contents.path
        index = path.removesuffix(LOG) + TIME_INDEX
        return not self.contents.is_last and bool(path) and _is_empty(path) and path.endswith(LOG) and _is_empty(index)

    @property
    def has_repaired_headers(self) -> bool:
        """Whether headers were repaired."""
        return self.contents.has_repaired or any(part.head for part in self.extra)

    @property
    def is_changed(self) -> bool:
        """Whether its file will be rewritten."""
        return not self.contents.is_intact or bool(self.extra)

    @property
    def is_empty(self) -> bool:
        return not (len(self.parts) or self.extra or self.is_released)

    def gaps(self, is_cleaned: bool) -> list[tuple[int, int]]:
        """Returns the ranges of missing offsets from its base to its last offset; one range that spans them if there
        are many.

        ``is_cleaned``: without gaps between adjacent batches of the file, which the log cleaner has left.
        """
        if self.is_released:  # an intact one has none
            return [] if is_cleaned else self._gaps
        return self._gaps_inside(is_cleaned)

    def _gaps_inside(self, is_cleaned: bool) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        reached, count, before = self.contents.base, 0, ("", 0)
        for start, end, first, last, head, path in self.layout().rows():
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
        if self.is_released or not self.is_changed:
            return True
        ends = [parts[len(parts) - 1] for parts in (self.parts, self.extra) if len(parts)]
        last = max(ends, key=lambda part: part.last, default=None)
        return last is not None and not (last.path or last.head) and last.end == trees.getsize(self.contents.path)

    @property
    def next_offset(self) -> int:
        """The offset after its last batch; its base if it has none."""
        if self.is_released:
            return self._next_offset
        last = self.layout().last_offset
        return self.contents.base if last is None else last + 1

    def around(self, first: int, last: int) -> tuple[int | None, int | None] | None:
        """Returns the last taken offset before a free range and the first after it, each None if there is none.

        Returns None if the range is not free.
        """
        before, behind = None, None
        i = self.parts.last_from(last)
        if i >= 0:
            before = self.parts[i].last
        if i + 1 < len(self.parts):
            behind = self.parts[i + 1].first
        k = bisect_right(self.extra, last, key=lambda part: part.first) - 1
        if k >= 0:
            before = max(self.extra[k].last, -1 if before is None else before)
        if k + 1 < len(self.extra):
            found = self.extra[k + 1].first
            behind = found if behind is None else min(behind, found)
        return None if before is not None and before >= first else (before, behind)

    def covers(self, first: int, last: int) -> bool:
        """Whether all offsets of a range are taken."""
        at = last
        while at >= first:
            i = self.parts.last_from(at)
            k = bisect_right(self.extra, at, key=lambda part: part.first) - 1
            found = [self.parts[i]] if i >= 0 else []
            found += [self.extra[k]] if k >= 0 else []
            taken = [part.first for part in found if part.last >= at]
            if not taken:
                return False
            at = min(taken) - 1
        return True

    @property
    def size(self) -> int:
        """The size of its new file."""
        if self._bytes < 0:
            self._bytes = self.layout().size
        return self._bytes

    def put(self, part: SalvagedBatches) -> None:
        """Adds batches at free offsets."""
        self._bytes = -1 if self._bytes < 0 else self._bytes + part.size
        insort(self.extra, part, key=lambda part: part.first)

    def take(self, number: int) -> None:
        """Removes one of its own parts."""
        self.contents.parts, self._bytes = self.contents.parts.without({number}), -1

    def take_back(self, parts: Parts, part: SalvagedBatches) -> None:
        """Reverts `take` and `put`: restores its own ``parts``, and removes ``part``."""
        self.extra.remove(part)
        self.contents.parts, self._bytes = parts, -1

    def leave_out(self, firsts: Container[int]) -> list[SalvagedBatches]:
        """Removes and returns the batches with these first offsets, each with the path of its file, "" for the
        segment's own."""
        if not firsts:
            return []
        taken, self._bytes = self.contents.leave_out(firsts), -1
        self.extra[:] = without_batches(self.extra, firsts, self.contents.path, taken)
        return taken

    def holders(self, offsets: Iterable[int]) -> Iterator[SalvagedBatches]:
        """Yields the parts that contain any of these offsets, each once."""
        last = -1
        for offset in sorted(offsets):
            if offset <= last:
                continue
            k = bisect_right(self.extra, offset, key=lambda part: part.first) - 1
            i = self.parts.last_from(offset)
            found = ([self.parts[i]] if i >= 0 else []) + ([self.extra[k]] if k >= 0 else [])
            for part in found:
                if part.last >= offset:
                    last = part.last
                    yield part

    def layout(self) -> Layout:
        """Returns the layout of the new segment."""
        return Layout(self.contents.path, self.parts, self.extra)


def _is_empty(path: str) -> bool:
    """Whether a file exists and is empty."""
    try:
        return trees.getsize(path) == 0
    except OSError:
        return False


# Repairs leader epochs in headers of v2 batches, which no checksum covers.
#
# Epochs rise with offsets, so all batches between two batches of an epoch have that epoch.


def repair_epochs(draft: SegmentDraft) -> None:
    """Gives wrong batches of a segment the epoch of the batches around them."""
    epochs = dict(_wrong(draft.layout()))
    if epochs:
        set_epochs(draft, epochs)


def set_epochs(draft: SegmentDraft, epochs: dict[int, int]) -> None:
    """Gives batches of a segment new epochs, by first offset."""
    path, kept = draft.contents.path, draft.contents
    parts = Parts(kept.base)
    for part in _split(kept.parts, epochs, path):
        parts.append(part)
    kept.parts, kept.has_repaired = parts, True
    draft.extra[:] = _split(draft.extra, epochs, path)


def _wrong(layout: Layout) -> Iterator[tuple[int, int]]:
    """Yields first offset and right epoch of each batch with a wrong epoch."""
    before, epoch, first = -1, -1, -1
    for headers in layout.headers():
        rows, end = headers.rows, headers.count * BATCH_WIDTH
        firsts, epochs, magics = (
            rows[column:end:BATCH_WIDTH].tolist() for column in (BATCH_FIRST_OFFSET, BATCH_LEADER_EPOCH, BATCH_MAGIC)
        )
        for next_first, next_epoch, magic in zip(firsts, epochs, magics, strict=True):
            if 0 <= before == next_epoch != epoch and first >= 0:
                yield first, before
                epoch = before
            before, epoch, first = epoch, next_epoch, next_first if magic == MAGIC_V2 else -1


def _split(parts: Iterable[SalvagedBatches], epochs: dict[int, int], path: str) -> Iterator[SalvagedBatches]:
    """Yields the parts; batches that get a new epoch become parts of their own."""
    wanted = sorted(epochs)
    for part in parts:
        i = bisect_left(wanted, part.first)
        if i == len(wanted) or wanted[i] > part.last:
            yield part
            continue
        with open_source(part.path or path) as source:
            held: SalvagedBatches | None = None
            for batch in batches_of(source, part):
                if batch.first not in epochs:
                    held = held._replace(end=batch.end, last=batch.last) if held else batch
                    continue
                if held:
                    yield held
                head = leading_bytes(source, batch, ENTRY_MAGIC + 1)
                head = head[:V2_LEADER_EPOCH] + epochs[batch.first].to_bytes(4, "big") + head[ENTRY_MAGIC:]
                yield batch._replace(head=head, why="its leader epoch was repaired")
                held = None
            if held:
                yield held
