"""Copies the surviving records of a group of segments into one new segment (Cleaner.cleanSegments, cleanInto)."""

from collections import Counter
from collections.abc import Callable, Iterable

from kseg.cleaner.active_producers import Producers
from kseg.cleaner.filtering import WindowFilter
from kseg.cleaner.log import CleanerSegment
from kseg.cleaner.offset_map import OffsetMap
from kseg.cleaner.opening import RecordBuffers
from kseg.cleaner.reading import Window, windows
from kseg.cleaner.settings import CleanerSettings
from kseg.cleaner.transactions import CleanedTransactions, as_verdicts
from kseg.cleaner.workers import CleaningThreads
from kseg.kernel.compact import survivors as kernel
from kseg.kernel.compact.judging import Counts
from kseg.kernel.layout.headers import CONTROL, DELETE_HORIZON
from kseg.kernel.layout.rows import BATCH_ATTRIBUTES, BATCH_BASE_TIMESTAMP, BATCH_LAST_OFFSET, BATCH_WIDTH
from kseg.segment.writer import SegmentWriter
from kseg.sidefiles.transaction_index import build_transaction_index
from kseg.stores.buffers import Buffers

_Filtered = tuple[list[bytes], Counts]


class GroupCopier:
    """Copies the groups of a round, one after another. ``counts``: those of all groups so far.

    ``kept_end``: see `CleanableRange`. ``legacy_horizon_ms``: v0 and v1 tombstones in segments written after this time
    are kept.
    """

    def __init__(
        self,
        offset_map: OffsetMap,
        producers: Producers,
        settings: CleanerSettings,
        kept_end: int | None,
        legacy_horizon_ms: int,
        workers: CleaningThreads,
        advance: Callable[[int], None] = lambda _: None,
        transactions: CleanedTransactions | None = None,
    ) -> None:
        """``advance`` receives the number of bytes read; ``transactions``: their state at the first group."""
        self._advance = advance
        self._map, self._producers, self._settings = offset_map, producers, settings
        self._kept_end, self._legacy_horizon_ms, self._workers = kept_end, legacy_horizon_ms, workers
        self._transactions = transactions or CleanedTransactions()
        self._counts = Counts()

    @property
    def counts(self) -> Counter[str]:
        return Counter(self._counts.as_dict())

    @property
    def transactions(self) -> CleanedTransactions:
        return self._transactions

    def copy(self, segment: CleanerSegment, writer: SegmentWriter, buffers: Buffers) -> None:
        """Appends the survivors of a segment. Raises DamagedError, OSError, and ValueError if they do not fit."""
        window_filter = WindowFilter(self._map, self._settings, segment.mtime_ms > self._legacy_horizon_ms)
        for window in windows(segment.path, buffers):
            self._filter(window_filter, window, writer)
            self._advance(window.size)
        self._append(self._workers.drain(), writer)
        if self._transactions.kept:
            writer.add_aborted(build_transaction_index(self._transactions.kept))
            self._transactions.kept = []

    def _filter(self, window_filter: WindowFilter, window: Window, writer: SegmentWriter) -> None:
        """Filters a window, and appends those survivors of this and earlier windows that are ready."""
        verdicts, workers = self._verdicts(window, window_filter.keeps_tombstones), self._workers
        if workers.is_alone:
            self._counts.add(window_filter.filter(window, verdicts, workers.buffers[0], writer.append))
            return

        def work(buffers: RecordBuffers, kept: Window) -> _Filtered:
            pieces: list[bytes] = []
            return pieces, window_filter.filter(kept, verdicts, buffers, lambda piece: pieces.append(bytes(piece)))

        self._append(workers.submit(window, work), writer)

    def _append(self, ready: Iterable[_Filtered], writer: SegmentWriter) -> None:
        for pieces, counts in ready:
            self._counts.add(counts)
            for piece in pieces:
                writer.append(piece)

    def _verdicts(self, window: Window, keeps_markers: bool) -> memoryview:
        """Returns one verdict per batch from the transaction state; ``keeps_markers`` if file times decide."""
        rows, count = window.rows, window.count
        numbers = self._transactions.discardable(rows, count)
        found = as_verdicts(numbers, count)
        for i in range(count if numbers else 0):
            at = i * BATCH_WIDTH
            if not rows[at + BATCH_ATTRIBUTES] & CONTROL:
                continue
            found[i] = kernel.ALL
            if numbers[i] and self._settings.has_horizons:
                found[i] |= kernel.EMPTY_TXN
                has_horizon = rows[at + BATCH_ATTRIBUTES] & DELETE_HORIZON
                if has_horizon and rows[at + BATCH_BASE_TIMESTAMP] <= self._settings.now_ms:
                    found[i] |= kernel.DISCARD
            elif numbers[i] and not keeps_markers:
                found[i] |= kernel.DISCARD
        for i in self._producers.last_batches(rows, count):
            found[i] |= kernel.KEEP_EMPTY
        end = self._kept_end
        if end is not None and rows[(count - 1) * BATCH_WIDTH + BATCH_LAST_OFFSET] + 1 >= end:
            ends = rows[BATCH_LAST_OFFSET : count * BATCH_WIDTH : BATCH_WIDTH].tolist()
            if end - 1 in ends:
                found[ends.index(end - 1)] |= kernel.KEEP_EMPTY
        return found
