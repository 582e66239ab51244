"""The bytes of a repaired segment, and in which order: what a salvaged .log is made of."""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from heapq import merge

from kseg.changes.plan import Content, Piece, Range
from kseg.formats.rows import int64s
from kseg.kernel import headers
from kseg.kernel.native import (
    BATCH_POSITION,
    BATCH_WIDTH,
    FRAME_MAGIC,
    FRAME_POSITION,
    FRAME_SIZE,
    FRAME_STATE,
    FRAME_WIDTH,
    be32,
)
from kseg.limits import FRAMES_PER_CALL
from kseg.recovery.accepted import AcceptedBatches
from kseg.recovery.parts import Part, Parts
from kseg.segment.source import Source, open_source
from kseg.segment.survey import Headers

_SMALL_BYTES = 1 << 18
"""Parts up to this size are gathered in memory and read together: a pass of its own costs more for each."""


class Layout:
    """Parts in the order of their offsets: ``parts`` of the file at ``path``, and ``extra`` ones, both rising.

    Positions of `headers` count in what is made of them.
    """

    def __init__(self, path: str, parts: Parts, extra: list[Part]) -> None:
        self.path = path
        self.parts = parts
        self.extra = extra
        self._walk: Iterator[Part] | None = None
        self._at = 0
        self._part: Part | None = None

    def __iter__(self) -> Iterator[Part]:
        if not self.extra:
            return iter(self.parts)
        return merge(self.parts, self.extra, key=lambda part: part.first)

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
        """The bytes, out of the file of that name and others; what lies end to end in one is one piece."""
        return Content(partial(self._pieces, name), self.size)

    def _pieces(self, name: str) -> Iterator[Piece]:
        file, start, end = name, -1, -1
        for part in self:
            path, first = part.path or name, part.start + len(part.head)
            if part.head or path != file or part.start != end:
                if end > start:
                    yield Range(file, start, end - start)
                file, start = path, first
            if part.head:
                yield part.head
            end = part.end
        if end > start:
            yield Range(file, start, end - start)

    def read(self, position: int, length: int) -> bytes:
        """The bytes of a single batch; quick where positions rise from call to call."""
        if self._walk is None or position < self._at:
            self._walk, self._at, self._part = iter(self), 0, None
        while self._part is None or position >= self._at + self._part.size:
            self._at += self._part.size if self._part else 0
            self._part = next(self._walk)
        part, skip = self._part, position - self._at
        with open_source(part.path or self.path) as source:
            start = part.start + max(skip, len(part.head))
            return part.head[skip:] + bytes(source.buffer[start : part.start + skip + length])

    def headers(self, position: int = 0) -> Iterator[Headers]:
        """Header rows of the batches from a position on."""
        with ExitStack() as stack:
            sources: dict[str, Source] = {}
            gathered, at = _Gathered(), 0
            for part in self:
                skip = max(position - at, 0)
                if skip < part.size:
                    path = part.path or self.path
                    if path not in sources:
                        sources[path] = stack.enter_context(open_source(path))
                    if part.size <= _SMALL_BYTES or part.head:
                        gathered.add(sources[path], part, at, skip)
                        if gathered.is_full:
                            yield from gathered.take()
                    else:
                        yield from gathered.take()
                        yield from _shifted(sources[path], part, at, skip)
                at += part.size
            yield from gathered.take()


class _Gathered:
    """Bytes of a layout from ``origin`` on."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._origin = 0

    @property
    def is_full(self) -> bool:
        return len(self._data) >= _SMALL_BYTES

    def add(self, source: Source, part: Part, at: int, skip: int) -> None:
        if not self._data:
            self._origin = at + skip
        self._data += part.head[skip:]
        self._data += bytes(source.buffer[part.start + max(skip, len(part.head)) : part.end])

    def take(self) -> Iterator[Headers]:
        """The headers of what is there."""
        data, at, origin = self._data, 0, self._origin
        self._data = bytearray()
        while at < len(data):
            frames, count = int64s(FRAMES_PER_CALL * FRAME_WIDTH), 0
            while at < len(data) and count < FRAMES_PER_CALL:
                size, row = be32(data, at + 8) + 12, count * FRAME_WIDTH
                frames[row + FRAME_POSITION], frames[row + FRAME_SIZE] = at, size
                frames[row + FRAME_MAGIC], frames[row + FRAME_STATE] = data[at + 16], 1
                at += size
                count += 1
            rows = int64s(count * BATCH_WIDTH)
            headers.read(data, frames, count, False, origin, rows)
            yield Headers(rows, count)


def _shifted(source: Source, part: Part, at: int, skip: int) -> Iterator[Headers]:
    for found in AcceptedBatches(source, part.end, part.start + skip):
        if at != part.start:
            for i in range(found.count):
                found.rows[i * BATCH_WIDTH + BATCH_POSITION] += at - part.start
        yield found
