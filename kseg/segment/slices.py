"""Divides a segment by position: into slices for several machines, and into parts for several threads.

Slices are cut at arbitrary bytes. A slice owns the batches and damage that begin in it, wherever they end, so the
slices of a file together yield the items of a full read, each once. To achieve this, reading starts before the slice at
a certain batch start. An apparent batch start is not enough: a record may contain whole batches, and the classification
of damage depends on the batches before it.
"""

import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, TypeVar

from kseg.errors import KsegError
from kseg.kernel import COMPILED
from kseg.kernel.scan.frames import SKIP_CHECKSUMS
from kseg.runtime.threads import TASKS_AHEAD, Pipeline
from kseg.segment.files import SegmentFile
from kseg.segment.items import Damage
from kseg.segment.reader import Run, SegmentReader
from kseg.segment.seek import seek_position
from kseg.stores.extent import Extent
from kseg.stores.windows import next_frame

_CHECKED_FRAMES = 32


class Slice(NamedTuple):
    """The items that begin in ``[start, end)`` of a segment; ``end`` None: up to the end of the file."""

    start: int = 0
    end: int | None = None


def slices(size: int, slice_bytes: int) -> list[Slice]:
    """Cuts a file into slices of about ``slice_bytes``, at least one; the last is open, because the file may grow."""
    count = max(1, round(size / slice_bytes))
    cuts = [size * i // count for i in range(count)]
    return [Slice(start, end) for start, end in zip(cuts, [*cuts[1:], None], strict=True)]


def runs_of(reader: SegmentReader, file: SegmentFile, part: Slice) -> Iterator[Run | Damage]:
    """Yields the items of `SegmentReader.runs` that begin in the slice; ``reader`` must be new."""
    if part.start > 0:
        start = seek_position(reader, file, part.start)
        reader.begin_at(_followed(reader, part.start) if start is None else start)
    for item in reader.runs():
        if isinstance(item, Run):
            first = bisect_left(item.positions, part.start)
            stop = item.count if part.end is None else bisect_left(item.positions, part.end)
            if stop > first:
                yield item.part(first, stop)
        elif item.position >= part.start and (part.end is None or item.position < part.end):
            yield item
        if part.end is not None and item.end >= part.end:
            return


def _followed(reader: SegmentReader, position: int) -> int:
    """Returns the position of an intact batch, at or before ``position``, that a read from the file start reaches: by
    following the lengths in the headers.

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
        passed.extend(at for at in item.positions if at <= position)
        if item.end > position:
            break
    while len(passed) > 1:
        last = passed.pop()
        run = reader.frame_at(passed[-1])
        if run is not None and run.end == last and reader.frame_at(last) is not None:
            return last
    return 0


# Reads a range of a file in several threads, in parts whose results come in order.
#
# The range is divided at apparent starts of intact batches. Bytes inside a record may look like one, so a part is
# used only if the previous part ends exactly at its start.

T = TypeVar("T")

PART_BYTES = 8 << 20
LAST_PART_BYTES = 1 << 20
"""Parts shrink to this size towards the end, so that all threads finish at about the same time."""
AHEAD_BYTES = 64 << 20
"""Bytes that all threads together read ahead, roughly: a part is not smaller than LAST_PART_BYTES. Results of small
batches take as much memory."""


def is_worth_parts(size: int, jobs: int) -> bool:
    """Whether ``jobs`` threads read this many bytes faster than one; never with the interpreted kernel."""
    return COMPILED and jobs > 1 and size > PART_BYTES


Read = Callable[[int, int], tuple[int, T]]


def in_parts(
    extent: Extent, start: int, end: int, jobs: int, make_read: Callable[[], Read[T]]
) -> Iterator[tuple[int, T]]:
    """Yields the results of ``read(start, end)`` for each part: the position at which it ended, and its value.

    ``make_read`` creates a reader per thread, with its own buffers. Stops after a part that does not end at the start
    of the next. Raises any error of ``read``, but OSError and KsegError only of parts that are used.
    """
    position, own = start, threading.local()

    def read(begin: int, stop: int) -> tuple[int, int, T | OSError | KsegError]:
        if not hasattr(own, "read"):
            own.read = make_read()
        try:
            reached, found = own.read(begin, stop)
        except (OSError, KsegError) as error:
            return begin, begin, error
        return begin, reached, found

    with Pipeline(jobs) as pipeline:
        for begin, reached, found in pipeline.each(partial(read, *part) for part in _ranges(extent, start, end, jobs)):
            if begin != position:
                return
            if isinstance(found, OSError | KsegError):
                raise found
            position = reached
            yield reached, found


def _ranges(extent: Extent, start: int, end: int, jobs: int) -> Iterator[tuple[int, int]]:
    """Yields ranges that begin at apparent batch starts; the last one ends at ``end``."""
    least = min(LAST_PART_BYTES, PART_BYTES)
    max_bytes = min(PART_BYTES, AHEAD_BYTES // (TASKS_AHEAD * jobs))
    while end - start > 2 * least:
        size = max(min(max_bytes, (end - start) // (2 * jobs)), least)
        found = next_frame(extent, start + size, end, min(start + 2 * size, end))  # not through all of a damaged rest
        if found < 0:
            break
        yield start, found
        start = found
    yield start, end
