"""Divides a segment into slices by position, so that several machines can share it.

Slices are cut at arbitrary bytes. A slice owns the batches and damage that begin in it, wherever they end, so the
slices of a file together yield the items of a full read, each once. To achieve this, reading starts before the slice at
a certain batch start. An apparent batch start is not enough: a record may contain whole batches, and the classification
of damage depends on the batches before it.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from kseg.formats.suffixes import LOG
from kseg.kernel.layout.rows import FRAME_POSITION, FRAME_WIDTH
from kseg.kernel.scan.frame_scan import SKIP_CHECKSUMS
from kseg.segment.files import SegmentFile
from kseg.segment.items import Damage
from kseg.segment.reader import Run, SegmentReader
from kseg.segment.seek import seek_position

_CHECKED_FRAMES = 32


class Slice(NamedTuple):
    """The items that begin in ``[start, end)`` of a segment; ``end`` None: up to the end of the file.

    ``is_certain``: a batch begins at ``start``, and reading from the start of the file reaches it.
    """

    start: int = 0
    end: int | None = None
    is_certain: bool = False


def slices(size: int, slice_bytes: int) -> list[Slice]:
    """Cuts a file into slices of about ``slice_bytes``, at least one; the last is open, because the file may grow."""
    count = max(1, round(size / slice_bytes))
    cuts = [size * i // count for i in range(count)]
    return [Slice(start, end) for start, end in zip(cuts, [*cuts[1:], None], strict=True)]


def runs_of(reader: SegmentReader, file: SegmentFile, part: Slice) -> Iterator[Run | Damage]:
    """Yields the items of `SegmentReader.runs` that begin in the slice; ``reader`` must be new."""
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
    """Returns the frames of a run, first to stop, that begin in the slice."""
    if part.start <= run.position and (part.end is None or run.end <= part.end):
        return 0, run.count
    positions = run.rows[FRAME_POSITION : run.count * FRAME_WIDTH : FRAME_WIDTH].tolist()
    first = sum(position < part.start for position in positions)
    stop = run.count if part.end is None else sum(position < part.end for position in positions)
    return first, stop


def _certain_start(reader: SegmentReader, file: SegmentFile, position: int) -> int:
    """Returns the position of an intact batch, at or before ``position``, that a read from the file start reaches."""
    if file.kind == LOG and not reader.is_07:
        indexed = seek_position(reader, file, position)
        if indexed is not None:
            return indexed
    return _followed(reader, position)


def _followed(reader: SegmentReader, position: int) -> int:
    """Like `_certain_start`, by following the lengths in the headers from the start of the file.

    Only the checksums of the last two batches are verified: a wrong length does not lead to intact ones. If headers
    cannot be followed further, the last certain batch before that is returned.
    """
    headers = SegmentReader(
        reader.source, reader.is_07, reader.base_offset, reader.live, reader.end, reader.scratch, SKIP_CHECKSUMS
    )
    headers.begin_at(0)
    passed: deque[int] = deque(maxlen=_CHECKED_FRAMES)
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
