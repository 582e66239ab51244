"""A part of a segment, so that several machines can share it: what begins between two positions, and nothing else.

Positions are cuts at any byte. A part owns the batches and damage that begin in it, whole, wherever they end; so the
parts of a file make up what reading it from its start makes of it, each item once. For that a part is read from a place
before its start that is a batch's beginning for certain: never from what merely looks like one, as a record may hold
whole batches, and what is damage depends on the batches before it.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from kseg.kernel.native import FRAME_POSITION, FRAME_WIDTH
from kseg.segment.files import SegmentFile
from kseg.segment.items import Damage
from kseg.segment.reader import BELIEVE_CHECKSUMS, Run, SegmentReader
from kseg.segment.seek import seek_position

_LOOKED_AT = 32


class Slice(NamedTuple):
    """What begins in ``[start, end)`` of a segment; ``end`` None: up to the end of the file.

    ``is_certain``: it is known that reading from the start of the file comes by ``start``, and a batch begins there.
    """

    start: int = 0
    end: int | None = None
    is_certain: bool = False


def slices(size: int, slice_bytes: int) -> list[Slice]:
    """Cuts a file into parts of about so many bytes, one at least; the last is open, as the file may have grown."""
    count = max(1, round(size / slice_bytes))
    cuts = [size * i // count for i in range(count)]
    return [Slice(start, end) for start, end in zip(cuts, [*cuts[1:], None], strict=True)]


def runs_of(reader: SegmentReader, file: SegmentFile, part: Slice) -> Iterator[Run | Damage]:
    """The items of `SegmentReader.runs` that begin in the part, for a fresh reader."""
    if part.start > 0:
        reader.begin_at(part.start if part.is_certain else _certain_start(reader, file, part.start))
    for item in reader.runs():
        if isinstance(item, Run):
            first, stop = _between(item, part)
            if stop > first:
                yield item.part(first, stop)
        elif item.position >= part.start and (part.end is None or item.position < part.end):
            yield item
        if part.end is not None and item.end >= part.end:
            return


def _between(run: Run, part: Slice) -> tuple[int, int]:
    """The frames of a run, first to stop, that begin in the part."""
    if part.start <= run.position and (part.end is None or run.end <= part.end):
        return 0, run.count
    positions = run.rows[FRAME_POSITION : run.count * FRAME_WIDTH : FRAME_WIDTH].tolist()
    first = sum(position < part.start for position in positions)
    stop = run.count if part.end is None else sum(position < part.end for position in positions)
    return first, stop


def _certain_start(reader: SegmentReader, file: SegmentFile, position: int) -> int:
    """Where an intact batch begins, at or before ``position``, that reading from the start of the file comes by."""
    if file.kind == ".log" and not reader.era_07:
        indexed = seek_position(reader, file, position)
        if indexed is not None:
            return indexed
    return _followed(reader, position)


def _followed(reader: SegmentReader, position: int) -> int:
    """As `_certain_start`, by the lengths in the headers from the start of the file on.

    Checksums are looked at of the last two batches alone: what a wrong length leads to is not intact. Where headers
    cannot be followed, the batches before that are what is certain.
    """
    headers = SegmentReader(
        reader.source, reader.era_07, reader.base_offset, reader.live, reader.end, reader.scratch, BELIEVE_CHECKSUMS
    )
    headers.begin_at(0)
    passed: deque[int] = deque(maxlen=_LOOKED_AT)
    for item in headers.runs():
        if isinstance(item, Damage):
            break
        positions = item.rows[FRAME_POSITION : item.count * FRAME_WIDTH : FRAME_WIDTH].tolist()
        passed.extend(at for at in positions if at <= position)
        if item.end > position:
            break
    while len(passed) > 1:
        last = passed.pop()
        run = reader.frame_at(passed[-1])
        if run is not None and run.end == last and reader.frame_at(last) is not None:
            return last
    return 0
