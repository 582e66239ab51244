"""Builds the offset map from the dirty part of a log (Cleaner.buildOffsetMap)."""

from collections.abc import Callable, Iterator, Sequence

from kseg.cleaner.key_reading import Hashes, read_keys
from kseg.cleaner.log import CleanerSegment, aborted_between, segments_between
from kseg.cleaner.offset_map import OffsetMap
from kseg.cleaner.opening import RecordBuffers
from kseg.cleaner.reading import Window, windows
from kseg.cleaner.transactions import CleanedTransactions, as_verdicts
from kseg.cleaner.workers import CleaningThreads
from kseg.formats.suffixes import TRANSACTION_INDEX
from kseg.kernel.layout.rows import BATCH_LAST_OFFSET, BATCH_WIDTH
from kseg.stores.buffers import Buffers

_Found = tuple[Window, list[Hashes]]


class MapBuilder:
    """Adds the keys of offsets [start, end) to ``offset_map``; ``end`` is a segment's base offset or the log end."""

    def __init__(
        self,
        offset_map: OffsetMap,
        start: int,
        workers: CleaningThreads,
        advance: Callable[[int], None] = lambda _: None,
        transactions: CleanedTransactions | None = None,
    ) -> None:
        """``advance`` receives the number of bytes read; ``transactions``: their state at ``start``."""
        self._advance = advance
        self._map, self._start, self._workers = offset_map, start, workers
        self._transactions = transactions or CleanedTransactions()

    def build(self, segments: Sequence[CleanerSegment], end: int, buffers: Buffers) -> int:
        """Returns the first offset that is not in the map. Raises DamagedError."""
        dirty = segments_between(segments, self._start, end)
        with_aborted = [segment for segment in segments if TRANSACTION_INDEX in segment.paths]
        self._transactions.add(aborted_between(with_aborted, self._start, end))
        for i, segment in enumerate(dirty):
            if not self.take(segment, buffers):
                return self._map.latest_offset + 1
            behind = dirty[i + 1].base_offset if i + 1 < len(dirty) else end
            self._map.latest_offset = max(behind - 1, self._map.latest_offset)
        return self._map.latest_offset + 1

    def take(self, segment: CleanerSegment, buffers: Buffers) -> bool:
        """Adds a segment; returns False if the map is full. Raises DamagedError."""
        for window in windows(segment.path, buffers):
            if not self._take(window):
                self._discard_rest()
                return False
            self._advance(window.size)
        if not self._put_all(self._workers.drain()):
            self._discard_rest()
            return False
        return True

    def _take(self, window: Window) -> bool:
        """Submits a window and adds the results that are ready; returns False if the map is full."""
        workers, start, secret = self._workers, self._start, self._map.keys.secret
        verdicts = as_verdicts(self._transactions.discardable(window.rows, window.count), window.count)
        if workers.is_alone:
            return read_keys(
                window, verdicts, start, secret, workers.buffers[0], lambda hashes: self._put(window, hashes)
            )

        def work(buffers: RecordBuffers, kept: Window) -> _Found:
            found: list[Hashes] = []

            def put(hashes: Hashes) -> bool:
                found.append(hashes.copy())
                return True

            read_keys(kept, verdicts, start, secret, buffers, put)
            return kept, found

        return self._put_all(workers.submit(window, work))

    def _put_all(self, ready: Iterator[_Found]) -> bool:
        return all(self._put(window, hashes) for window, found in ready for hashes in found)

    def _discard_rest(self) -> None:
        """Discards windows read after the map became full."""
        for _ in self._workers.drain():
            pass

    def _put(self, window: Window, found: Hashes) -> bool:
        """Adds the keys of a window; returns False if the map is full."""
        taken = self._map.put(found.hashes, found.offsets, found.keys)
        if taken < found.keys:
            self._end_before(window, found.offsets[taken])
            if taken:
                self._map.latest_offset = max(self._map.latest_offset, found.offsets[taken - 1])
            return False
        self._end_before(window, None, found.batches)
        return True

    def _end_before(self, window: Window, offset: int | None, batches: int | None = None) -> None:
        """Records the map's end: the last batch that ends before ``offset``, or batch number ``batches``."""
        count = window.count if batches is None else batches
        ends = window.rows[BATCH_LAST_OFFSET : count * BATCH_WIDTH : BATCH_WIDTH].tolist() if count else []
        if offset is not None:
            ends = [end for end in ends if end < offset]
        if ends and ends[-1] >= self._start:
            self._map.latest_offset = max(self._map.latest_offset, ends[-1])
