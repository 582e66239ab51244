"""The byte ranges, in order, that make up a salvaged .log."""

import struct
from array import array
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from heapq import merge

from kseg.changes.plan import Content, Piece, Range
from kseg.errors import PathError
from kseg.formats.rows import int64s
from kseg.kernel.layout.headers import ENTRY_MAGIC, ENTRY_OVERHEAD, ENTRY_SIZE
from kseg.kernel.layout.rows import (
    BATCH_POSITION,
    BATCH_WIDTH,
    CRC_RIGHT,
    FRAME_MAGIC,
    FRAME_POSITION,
    FRAME_SIZE,
    FRAME_STATE,
    FRAME_WIDTH,
)
from kseg.kernel.scan import headers
from kseg.limits import FRAMES_PER_CALL
from kseg.recovery.broker.accepted import AcceptedBatches
from kseg.recovery.salvage.parts import PartRow, Parts, SalvagedBatches
from kseg.segment.survey import HeaderRows
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
        headers.read(data, frames, count, False, origin, rows)
        yield HeaderRows(rows, count)


def _shifted(source: Source, start: int, end: int, at: int, skip: int) -> Iterator[HeaderRows]:
    for found in AcceptedBatches(source, end, start + skip):
        if at != start:
            for i in range(found.count):
                found.rows[i * BATCH_WIDTH + BATCH_POSITION] += at - start
        yield found
