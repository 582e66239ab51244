"""Finds runs of batches that occur more than once in an image: copies, and possible versions of a batch."""

import mmap
import os
import random
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple

from kseg.carving.image import Piece
from kseg.formats.rows import sparse_int64s
from kseg.kernel.layout.headers import MAGIC_V2
from kseg.kernel.scan.pieces import KeyIndex, common_prefix
from kseg.limits import WINDOW_BYTES
from kseg.stores.archives.spool import current_spool
from kseg.stores.source import Source

MAX_VERSIONS = 16
"""Different batches of equal offsets and producers that are compared: more are many partitions' alike, or hostile."""

HELD_TABLE_BYTES = 64 << 20
"""A larger table of keys is moved to the spool."""


class CopiedRun(NamedTuple):
    """The batches ``first`` to ``stop`` (exclusive) of a piece are those of ``original`` from number ``k`` on."""

    first: int
    stop: int
    original: Piece
    k: int


class Copies:
    """The runs of batches that earlier pieces have too, by piece, in order. The original of a run is no copy itself.

    ``originals``: the pieces of which others have copies.
    """

    def __init__(self, pieces: list[Piece]) -> None:
        self.originals: set[Piece] = set()
        self._runs: dict[Piece, list[CopiedRun]] = defaultdict(list)
        self._pieces = pieces
        self._starts = list(accumulate(map(len, pieces), initial=0))

    def of(self, piece: Piece) -> list[CopiedRun]:
        return self._runs.get(piece, [])

    def tiles(self, piece: Piece) -> Iterator[CopiedRun]:
        """Yields all batches of a piece as runs: those that stand nowhere else are their own originals."""
        at = 0
        for run in [*self.of(piece), CopiedRun(len(piece), len(piece), piece, 0)]:
            if run.first > at:
                yield CopiedRun(at, run.first, piece, at)
            yield run
            at = run.stop

    def find(self) -> Iterator[tuple[Piece, int, CopiedRun | None, list[tuple[Piece, int]]]]:
        """Finds copies in all pieces. Yields a piece, the number of a batch in it, and the run of copies that begins
        there; if there is none, the batches of which it may be a version."""
        index = KeyIndex(_table(self._starts[-1]), random.getrandbits(62))
        for piece, number in zip(self._pieces, self._starts, strict=False):
            i = 0
            for stop, *data in _windows(piece):
                while i < stop and (i := index.add(*data, piece.rows, i, stop, number)) < stop:
                    known = [self._batch(found) for found in index.alike(*data, piece.rows, i)]
                    run = self._run(piece, i, known)
                    yield piece, i, run, known
                    if run is None and len(known) < MAX_VERSIONS:
                        index.add_version(*data, piece.rows, i, number + i)
                    i = i + 1 if run is None else run.stop

    def _batch(self, number: int) -> tuple[Piece, int]:
        at = bisect_right(self._starts, number) - 1
        return self._pieces[at], number - self._starts[at]

    def _run(self, piece: Piece, i: int, known: list[tuple[Piece, int]]) -> CopiedRun | None:
        """Adds the run that begins at batch i, if it is one of the known ones."""
        for other, k in known:
            copied = self.of(other)
            behind = bisect_left(copied, k, key=attrgetter("first"))
            most = (copied[behind].first if behind < len(copied) else len(other)) - k
            count = _equal_batches(piece, i, other, k, min(most, i - k) if other is piece else most)
            if count:
                self.originals.add(other)
                self._runs[piece].append(CopiedRun(i, i + count, other, k))
                return self._runs[piece][-1]
        return None


def _table(count: int) -> memoryview:
    """Returns the zeros of a `KeyIndex` for so many batches."""
    slots = 1 << (count + count // 2).bit_length()
    if 8 * slots <= HELD_TABLE_BYTES:
        return sparse_int64s(slots)
    descriptor = current_spool().new_file(8 * slots)
    try:
        return memoryview(mmap.mmap(descriptor, 8 * slots)).cast("q")
    finally:
        os.close(descriptor)


def _windows(piece: Piece) -> Iterator[tuple[int, memoryview | bytes, int]]:
    """Yields where a window of batches ends, its bytes, and their position; no bytes where rows tell enough."""
    if min(piece.magics) >= MAGIC_V2:
        yield len(piece), b"", 0
        return
    first, buffer = 0, piece.source.buffer
    while first < len(piece):
        start = piece[first].position
        stop = max(first + 1, piece.first_ending_behind(start + WINDOW_BYTES, first))
        yield stop, buffer[start : piece.end_of(stop - 1)], start
        first = stop


def _equal_batches(piece: Piece, i: int, other: Piece, k: int, most: int) -> int:
    """Returns how many batches, at most so many, are the same in both pieces from i and from k on."""
    start, other_start = piece[i].position, other[k].position
    size = min(piece.end - start, other.end_of(k + most - 1) - other_start)
    same, chunk = 0, piece[i].size
    while same < size:
        wanted = min(chunk, size - same)
        mine = piece.source.buffer[start + same : start + same + wanted]
        found = common_prefix(mine, other.source.buffer[other_start + same : other_start + same + wanted])
        same += found
        if found < wanted:
            break
        chunk = min(2 * chunk, WINDOW_BYTES)
    for source, at in ((piece.source, start), (other.source, other_start)):
        if isinstance(source, Source):
            source.forget(at, at + same)
    return piece.first_ending_behind(start + same, i) - i
