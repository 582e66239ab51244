"""One cleaning round of a log: builds an offset map of its dirty part, then cleans all segments up to the map's end."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Protocol

from kseg.cleaner.active_producers import Producers
from kseg.cleaner.log import CleanerSegment, aborted_between, group_segments, segments_between
from kseg.cleaner.offset_map import MapBuilder, OffsetMap
from kseg.cleaner.ranges import CleanableRange
from kseg.cleaner.reading import CleaningThreads, windows
from kseg.cleaner.settings import CleanerSettings
from kseg.cleaner.survivors import GroupCopier
from kseg.cleaner.transactions import CleanedTransactions
from kseg.errors import UnsupportedError
from kseg.formats.suffixes import LOG, TRANSACTION_INDEX
from kseg.segment.survey import record_count
from kseg.segment.writer import SegmentWriter
from kseg.sidefiles.indexes import AbortedTxn
from kseg.stores.buffers import Buffers

COUNT_BYTES = 4 << 30
"""Records of a larger dirty part are not counted beforehand: the offset map gets its full size at once."""


@dataclass(slots=True)
class CleanedGroup:
    """Source segments and the new ``segment``, whose ``paths`` are empty in a dry run.

    ``counts``: `GroupCopier.counts` of this group.
    """

    sources: list[CleanerSegment]
    segment: CleanerSegment
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def bytes_before(self) -> int:
        return sum(source.size for source in self.sources)

    @property
    def is_copy(self) -> bool:
        """Whether the new .log is identical to the old one."""
        changed = self.counts["rewritten"] + self.counts["emptied"] + self.counts["dropped"]
        return len(self.sources) == 1 and not changed


class Watcher(Protocol):
    """Receives the progress of a round: ``total`` bytes are to be read."""

    total: int | None

    def advance(self, count: int) -> None:
        """``count`` more bytes have been read."""


class Round:
    """``end``: the first offset that this round does not clean, known once `groups` has started, or after `survey`.

    ``make_folder`` returns a new directory for the files of each group; None in a dry run.
    """

    def __init__(
        self,
        segments: Sequence[CleanerSegment],
        found: CleanableRange,
        producers: Producers,
        settings: CleanerSettings,
        make_folder: Callable[[], str] | None,
        watcher: Watcher | None = None,
    ) -> None:
        self._watcher = watcher
        self._segments, self._range, self._producers, self._settings = segments, found, producers, settings
        self._make_folder = make_folder
        self._buffers = Buffers()
        self._with_aborted = [segment for segment in segments if TRANSACTION_INDEX in segment.paths]
        bases = [segment.base_offset for segment in segments]
        self._behind = dict(zip(bases, [*bases[1:], producers.end_offset], strict=True))
        self.end = found.start
        self.keys = 0

    @property
    def is_whole(self) -> bool:
        """Whether the whole dirty part fits in the offset map."""
        return self.end >= self._range.end

    def groups(self) -> Iterator[CleanedGroup]:
        """Yields new segments, oldest first. Raises DamagedError, UnsupportedError, OSError."""
        settings = self._settings
        advance = self._watched()
        for segment in self._with_aborted:
            segment.aborted()  # now: the caller may replace files while groups are made
        with closing(CleaningThreads(settings.jobs)) as workers, closing(self._map(workers, advance)) as offset_map:
            copier = self.copier(offset_map, workers, advance)
            for group in self.grouped():
                yield self.clean(group, copier, self._make_folder() if self._make_folder else None)

    def survey(self) -> None:
        """Finds ``end`` and ``keys`` without cleaning. Raises DamagedError, OSError."""
        with closing(CleaningThreads(self._settings.jobs)) as workers:
            self._map(workers, lambda _: None).close()

    def check_the_rest(self) -> None:
        """Verifies the checksums of segments that are copied but not in the offset map. Raises DamagedError."""
        known = segments_between(self._segments, self._range.start, self._range.end) if self.is_whole else []
        for segment in segments_between(self._segments, 0, self.end):
            if segment not in known:
                for _ in windows(segment.path, self._buffers):
                    pass

    def _map(self, workers: CleaningThreads, advance: Callable[[int], None]) -> OffsetMap:
        """Builds the offset map of the dirty part, or of as much as fits."""
        found = self._range
        offset_map = OffsetMap(self._settings.memory_bytes, self._expected_keys())
        try:
            builder = MapBuilder(offset_map, found.start, workers, advance)
            self.end = max(builder.build(self._segments, found.end, self._buffers), found.start)
        except BaseException:
            offset_map.close()
            raise
        self.keys = len(offset_map)
        return offset_map

    def copier(
        self,
        offset_map: OffsetMap,
        workers: CleaningThreads,
        advance: Callable[[int], None],
        transactions: CleanedTransactions | None = None,
    ) -> GroupCopier:
        """Returns a copier for the groups from some offset on; ``transactions``: their state at that offset."""
        found, settings = self._range, self._settings
        below = segments_between(self._segments, 0, found.start)
        horizon = below[-1].mtime_ms - settings.delete_retention_ms if below else 0
        return GroupCopier(
            offset_map, self._producers, settings, found.kept_end, horizon, workers, advance, transactions
        )

    def grouped(self) -> list[list[CleanerSegment]]:
        """Returns the groups of segments that are cleaned into one, once ``end`` is known."""
        return group_segments(segments_between(self._segments, 0, self.end), self._range.end, self._settings)

    def _watched(self) -> Callable[[int], None]:
        watcher = self._watcher
        if watcher is None:
            return lambda _: None
        dirty = segments_between(self._segments, self._range.start, self._range.end)
        whole = segments_between(self._segments, 0, self._range.end)
        watcher.total = sum(segment.size for segment in [*dirty, *whole])
        return watcher.advance

    def clean(self, group: list[CleanerSegment], copier: GroupCopier, folder: str | None) -> CleanedGroup:
        """Cleans a group into one segment in ``folder``. Raises DamagedError, UnsupportedError, OSError."""
        before = copier.counts
        writer = SegmentWriter(folder, group[0].base_offset, self._settings.interval_bytes)
        try:
            for source in group:
                copier.transactions.add(self.aborted_in(source))
                copier.copy(source, writer, self._buffers)
            written = writer.finish(group[-1].mtime_ns)
        except ValueError as error:
            raise UnsupportedError(
                f"{group[0].paths[LOG]}: its cleaned records do not fit in one segment: {error}"
            ) from error
        finally:
            writer.close()
        segment = CleanerSegment(group[0].base_offset, group[-1].mtime_ns, written.paths, written.sizes)
        counts = copier.counts
        counts.subtract(before)
        return CleanedGroup(group, segment, counts)

    def aborted_in(self, source: CleanerSegment) -> list[AbortedTxn]:
        """Returns the aborted transactions with data in a segment."""
        return aborted_between(self._with_aborted, source.base_offset, self._behind[source.base_offset])

    def _expected_keys(self) -> int | None:
        """Returns an upper bound of the dirty keys; None if it is unknown without decompressing batches."""
        dirty = segments_between(self._segments, self._range.start, self._range.end)
        if sum(segment.size for segment in dirty) > COUNT_BYTES:
            return None
        counts = [record_count(segment.path, self._buffers) for segment in dirty]
        return None if None in counts else sum(count for count in counts if count is not None)
