"""Reads parts of a segment in an object store. The parts start at batches listed in the .index.

Each task verifies the index: valid batches must be contiguous from some entries before its part, through all of them,
to the end of the part. Otherwise the whole segment is fetched and split as one without an index.
"""

import os
import tempfile
from bisect import bisect_right
from itertools import pairwise
from struct import Struct
from typing import NamedTuple

from kseg.errors import PathError
from kseg.formats.rows import Scratch
from kseg.kernel.layout.rows import FRAME_POSITION, FRAME_STATE, FRAME_WIDTH
from kseg.segment.files import SegmentFile
from kseg.segment.reader import Run, SegmentReader
from kseg.segment.seek import CHAINED, index_path
from kseg.segment.slices import Slice, slices
from kseg.spark.stores import Storage, file_system, open_path, spool_range
from kseg.stores.extent import Extent
from kseg.stores.source import Source
from kseg.stores.stored_object import is_url

_ENTRY = Struct(">ii")
_MOST_INDEX_BYTES = 64 << 20


class RangedSlice(NamedTuple):
    """A part that ends at the start of a batch, or at the end of the file.

    ``proof``: positions of entries before its start, then its start.
    """

    slice: Slice
    proof: tuple[int, ...]
    end: int


def stored_slices(file: SegmentFile, size: int, slice_bytes: int, storage: Storage) -> list[Slice | RangedSlice]:
    """Returns the parts of a segment in a store, of about ``slice_bytes``; only one if no index allows a split."""
    wanted = slices(size, slice_bytes)
    if file.kind != ".log" or len(wanted) < 2:
        return [Slice()]
    positions = _positions(file, size, storage)
    cuts = sorted({0, *(_last_at_most(positions, part.start) for part in wanted)})
    if len(cuts) < 2:
        return [Slice()]
    places = {position: i for i, position in enumerate(positions)}
    found: list[Slice | RangedSlice] = []
    for start, end in pairwise([*cuts, size]):
        i = places.get(start, 0)
        before = positions[max(i - CHAINED, 0) : i]
        proof = (*([0] if i <= CHAINED and start else []), *before, start)
        is_last = end == size
        found.append(RangedSlice(Slice(start, None if is_last else end), proof, end))
    return found


def _last_at_most(positions: list[int], limit: int) -> int:
    i = bisect_right(positions, limit)
    return positions[i - 1] if i else 0


def _positions(file: SegmentFile, size: int, storage: Storage) -> list[int]:
    """Returns the positions in the .index, as long as they rise and are in the segment; none without an index."""
    url = index_path(file, ".index")
    system, path = file_system(url, storage)
    try:
        with system.open_input_file(path) as stored:
            data = stored.read_at(min(stored.size(), _MOST_INDEX_BYTES), 0)
    except OSError:
        return []  # the index is optional: without one the segment is read as a whole
    found: list[int] = []
    for _, position in _ENTRY.iter_unpack(data[: len(data) // _ENTRY.size * _ENTRY.size]):
        if not (found[-1] if found else 0) < position < size:
            break
        found.append(position)
    return found


def size_of(part: Slice | RangedSlice, size: int) -> int:
    """Returns the size of a part of a segment of this size, in bytes."""
    return size if isinstance(part, Slice) else part.end - part.slice.start


def open_part(file: SegmentFile, part: Slice | RangedSlice, storage: Storage, scratch: Scratch) -> tuple[Source, Slice]:
    """Opens a segment, or the bytes needed for a part. Returns the source, and the part to read. Raises PathError."""
    if isinstance(part, Slice):
        return open_path(file.path, storage), part
    if is_url(file.path):
        source = _range(file.path, part, storage)
        if _is_proved(source, file, part, scratch):
            return source, part.slice._replace(is_certain=True)
        source.close()
    return open_path(file.path, storage), part.slice


def _range(url: str, part: RangedSlice, storage: Storage) -> Source:
    """Returns the file up to the end of the part, with a hole before the first position of the proof."""
    system, path = file_system(url, storage)
    try:
        with system.open_input_file(path) as stored, tempfile.TemporaryFile() as spool:
            spool.truncate(part.end)
            spool_range(stored, spool, part.proof[0], part.end)
            return Source(Extent(os.dup(spool.fileno())), url, part.end)
    except OSError as error:
        raise PathError(f"{url}: {error}") from error


def _is_proved(source: Source, file: SegmentFile, part: RangedSlice, scratch: Scratch) -> bool:
    """Whether valid batches are contiguous through all positions of the proof, up to the end."""
    reader = SegmentReader(source, base_offset=file.base_offset or 0, scratch=scratch)
    reader.begin_at(part.proof[0])
    open_places, end = list(reversed(part.proof)), part.proof[0]
    for item in reader.runs():
        if not isinstance(item, Run) or item.position != end:
            return False
        if 0 in item.rows[FRAME_STATE : item.count * FRAME_WIDTH : FRAME_WIDTH].tolist():
            return False
        for position in item.rows[FRAME_POSITION : item.count * FRAME_WIDTH : FRAME_WIDTH].tolist():
            if open_places and position == open_places[-1]:
                open_places.pop()
        end = item.end
    return end == part.end and not open_places
