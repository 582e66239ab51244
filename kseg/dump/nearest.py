"""Finds the offsets of the last matches of a partition, or of matches next to an offset, without a full scan."""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice

from kseg.formats.rows import Scratch, UndecodableError
from kseg.formats.suffixes import CHECKPOINT
from kseg.kernel.layout.rows import ROW_OFFSET, ROW_WIDTH
from kseg.segment.batches import Batch
from kseg.segment.files import LAST_OFFSET, SegmentFile
from kseg.segment.reader import SegmentReader
from kseg.segment.seek import seek_offset
from kseg.segment.selection import Selection
from kseg.stores.source import Source, open_source

AROUND = 10
_FIRST_REACH = 4
"""The first step goes back by this multiple of the requested count; each further step is larger by this factor."""


class Nearest:
    """``files`` are the segments of one partition, in order; ``counts_batches``: batches are counted, not records.

    The offsets of the selection are ignored.
    """

    def __init__(
        self, files: Sequence[SegmentFile], selection: Selection, scratch: Scratch, live: bool, counts_batches: bool
    ) -> None:
        self._files, self._scratch, self._live = files, scratch, live
        self._counts_batches = counts_batches
        self._selection = Selection(
            None, selection.times, selection.key, selection.producer_id, selection.key_pattern, selection.grep
        )

    def last(self, count: int) -> tuple[int, int]:
        """Returns the range that holds the last ``count`` matches. Raises PathError if a segment cannot be opened."""
        return self._before(LAST_OFFSET, count), LAST_OFFSET

    def around(self, offset: int) -> tuple[int, int]:
        """Returns the range of the matches next to ``offset``. Raises PathError if a segment cannot be opened."""
        behind = list(islice(self._offsets(self._files, offset, LAST_OFFSET), AROUND))
        return self._before(offset, AROUND), behind[-1] if behind else offset

    def _before(self, end: int, count: int) -> int:
        """Returns the offset of the ``count``-th match before ``end``, else of the first match, else ``end``."""
        found: list[int] = []
        for i in range(len(self._files) - 1, -1, -1):
            file = self._files[i]
            base = 0 if file.kind == CHECKPOINT else file.base_offset or 0  # records of a snapshot begin at 0
            if base >= end:
                continue
            found = self._last_of(file, base, end, count - len(found)) + found
            if len(found) >= count:
                break
        return found[-count] if len(found) >= count else found[0] if found else end

    def _last_of(self, file: SegmentFile, base: int, end: int, count: int) -> list[int]:
        """Returns the last matches of one segment before ``end``. Searches backwards in growing steps."""
        reach = count * _FIRST_REACH
        top = self._end_of(file, end)
        while True:
            start = max(base, top - reach)
            found = deque(self._offsets([file], start, end - 1), count)
            if len(found) == count or start == base:
                return list(found)
            reach *= _FIRST_REACH

    def _end_of(self, file: SegmentFile, end: int) -> int:
        """Returns an offset near the end of a segment, not above ``end``."""
        last = -1
        with open_source(file.path) as source:
            reader = self._reader(file, source)
            reader.begin_at(seek_offset(reader, file, end).position)
            for batch in reader:
                if isinstance(batch, Batch) and batch.base_offset is not None and batch.base_offset < end:
                    last = batch.last_offset
        return min(end, last + 1)

    def _offsets(self, files: Sequence[SegmentFile], first: int, last: int) -> Iterator[int]:
        """Yields the offsets of matches from ``first`` to ``last``, both included."""
        for i, file in enumerate(files):
            if i + 1 < len(files) and (files[i + 1].base_offset or 0) <= first:
                continue
            with open_source(file.path) as source:
                reader = self._reader(file, source)
                reader.begin_at(seek_offset(reader, file, first).position)
                for batch in reader:
                    if not isinstance(batch, Batch) or not self._selection.holds(batch):
                        continue
                    if batch.base_offset is not None and batch.base_offset > last:
                        return
                    yield from (offset for offset in self._of_batch(batch) if first <= offset <= last)

    def _of_batch(self, batch: Batch) -> list[int]:
        """Returns the offsets of the selected records; of a batch that counts as a whole, its last offset."""
        if self._counts_batches:
            return [batch.last_offset]
        try:
            return [
                rows.rows[row * ROW_WIDTH + ROW_OFFSET]
                for rows in batch.rows()
                for start, stop in self._selection.spans(rows)
                for row in range(start, stop)
            ]
        except UndecodableError:
            return [batch.last_offset]

    def _reader(self, file: SegmentFile, source: Source) -> SegmentReader:
        return SegmentReader(source, False, file.base_offset or 0, self._live, scratch=self._scratch)
