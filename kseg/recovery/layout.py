"""The bytes of a damaged segment that are kept, and in which order: what a salvaged .log is made of."""

from collections.abc import Iterator
from dataclasses import dataclass

from kseg.changes.plan import Piece, Range
from kseg.formats.rows import int64s
from kseg.kernel import headers
from kseg.kernel.native import BATCH_POSITION, BATCH_WIDTH, FRAME_MAGIC, FRAME_SIZE, FRAME_STATE, FRAME_WIDTH
from kseg.recovery.accepted import AcceptedBatches
from kseg.segment.source import Source
from kseg.segment.survey import Headers


@dataclass(frozen=True, slots=True)
class Part:
    """Batches at ``[start, end)`` of the damaged file, with offsets ``first`` to ``last``.

    ``head`` takes the place of the first bytes: of a single batch whose header was mended. ``why`` says how.
    """

    start: int
    end: int
    first: int
    last: int
    head: bytes = b""
    why: str = ""

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Layout:
    """``parts`` in the order of their offsets. Positions of `headers` count in what is made of them."""

    parts: tuple[Part, ...]

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)

    def pieces(self, name: str) -> Iterator[Piece]:
        """The content, out of the file of that name; what lies end to end there is one piece."""
        start = end = -1
        for part in self.parts:
            if part.head:
                if end > start:
                    yield Range(name, start, end - start)
                yield part.head
                start, end = part.start + len(part.head), part.end
            elif part.start == end:
                end = part.end
            else:
                if end > start:
                    yield Range(name, start, end - start)
                start, end = part.start, part.end
        if end > start:
            yield Range(name, start, end - start)

    def headers(self, source: Source, position: int = 0) -> Iterator[Headers]:
        """Header rows of the batches from a position on."""
        at = 0
        for part in self.parts:
            if at + part.size > position:
                skip = max(position - at, 0)
                yield from _mended(source, part, at) if part.head else _shifted(source, part, at, skip)
            at += part.size


def _shifted(source: Source, part: Part, at: int, skip: int) -> Iterator[Headers]:
    for found in AcceptedBatches(source, part.end, part.start + skip):
        if at != part.start:
            for i in range(found.count):
                found.rows[i * BATCH_WIDTH + BATCH_POSITION] += at - part.start
        yield found


def _mended(source: Source, part: Part, at: int) -> Iterator[Headers]:
    data = part.head + bytes(source.buffer[part.start + len(part.head) : part.end])
    rows, frame = int64s(BATCH_WIDTH), int64s(FRAME_WIDTH)
    frame[FRAME_SIZE], frame[FRAME_MAGIC], frame[FRAME_STATE] = len(data), data[16], 1
    headers.read(data, frame, 1, False, at, rows)
    yield Headers(rows, 1)
