"""One round of the cleaner over a log: a map of its dirty part, and new segments for all that it covers."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kseg.cleaner.copying import GroupCopier
from kseg.cleaner.grouping import group_segments
from kseg.cleaner.log import LOG, TRANSACTION_INDEX, Segment, aborted_between, segments_between
from kseg.cleaner.mapping import MapBuilder
from kseg.cleaner.offset_map import OffsetMap
from kseg.cleaner.opening import RecordRooms
from kseg.cleaner.producers import Producers
from kseg.cleaner.ranges import CleanableRange
from kseg.cleaner.reading import windows
from kseg.cleaner.settings import CleanerSettings
from kseg.cleaner.transactions import CleanedTransactions
from kseg.errors import UnsupportedError
from kseg.kernel.native import BATCH_COUNT, BATCH_WIDTH
from kseg.segment.buffers import Buffers
from kseg.segment.writer import SegmentWriter
from kseg.sidefiles.transaction_index import AbortedTxn

OUT_BYTES = 2 << 20
COUNT_BYTES = 4 << 30
"""Of a larger dirty part records are not counted before the map is made: it gets all of its memory at once."""


@dataclass(slots=True)
class CleanedGroup:
    """What became of some segments: ``segment`` is new, None in a dry run. ``counts``: `GroupCopier.counts` of it."""

    sources: list[Segment]
    segment: Segment
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def bytes_before(self) -> int:
        return sum(source.size for source in self.sources)

    @property
    def is_copy(self) -> bool:
        """Whether the .log came out as it was."""
        changed = self.counts["rewritten"] + self.counts["emptied"] + self.counts["dropped"]
        return len(self.sources) == 1 and not changed


class Watcher(Protocol):
    """Is told how far a round is: ``total`` bytes are to be read."""

    total: int | None

    def advance(self, count: int) -> None:
        """So many bytes more are read."""


class Round:
    """``end``: the first offset that it did not clean, known once `groups` has begun.

    ``make_folder``: a new folder for the files of each group, None in a dry run.
    """

    def __init__(
        self,
        segments: Sequence[Segment],
        found: CleanableRange,
        producers: Producers,
        settings: CleanerSettings,
        make_folder: Callable[[], str] | None,
        watcher: Watcher | None = None,
    ) -> None:
        self._watcher = watcher
        self._segments, self._range, self._producers, self._settings = segments, found, producers, settings
        self._make_folder = make_folder
        self._buffers, self._rooms = Buffers(), RecordRooms(OUT_BYTES)
        self._with_aborted = [segment for segment in segments if TRANSACTION_INDEX in segment.paths]
        bases = [segment.base_offset for segment in segments]
        self._behind = dict(zip(bases, [*bases[1:], producers.end_offset], strict=True))
        self._aborted: dict[int, list[AbortedTxn]] = {}
        self.end = found.start
        self.keys = 0

    @property
    def is_whole(self) -> bool:
        """Whether the map had room for all that was dirty."""
        return self.end >= self._range.end

    def groups(self) -> Iterator[CleanedGroup]:
        """New segments, the oldest first. Raises DamagedError, UnsupportedError, OSError."""
        found, settings = self._range, self._settings
        offset_map = OffsetMap(settings.memory_bytes, self._expected_keys())
        try:
            advance = self._watched()
            builder = MapBuilder(offset_map, found.start, self._rooms, advance)
            self.end = max(builder.build(self._segments, found.end, self._buffers), found.start)
            self.keys = len(offset_map)
            copier = self.copier(offset_map, advance)
            groups = self.grouped()
            # All of them now: a group that is put in place takes away the indexes of its sources.
            self._aborted = {source.base_offset: self.aborted_in(source) for group in groups for source in group}
            for group in groups:
                yield self.clean(group, copier, self._make_folder() if self._make_folder else None)
        finally:
            offset_map.close()

    def copier(
        self, offset_map: OffsetMap, advance: Callable[[int], None], transactions: CleanedTransactions | None = None
    ) -> GroupCopier:
        """One for the groups from some place in the log on; ``transactions``: what is known of them there."""
        found, settings = self._range, self._settings
        below = segments_between(self._segments, 0, found.start)
        horizon = below[-1].mtime_ms - settings.delete_retention_ms if below else 0
        return GroupCopier(
            offset_map, self._producers, settings, found.end, horizon, self._rooms, advance, transactions
        )

    def grouped(self) -> list[list[Segment]]:
        """Segments that become one each, once ``end`` is known."""
        return group_segments(segments_between(self._segments, 0, self.end), self._range.end, self._settings)

    def _watched(self) -> Callable[[int], None]:
        watcher = self._watcher
        if watcher is None:
            return lambda _: None
        dirty = segments_between(self._segments, self._range.start, self._range.end)
        whole = segments_between(self._segments, 0, self._range.end)
        watcher.total = sum(segment.size for segment in [*dirty, *whole])
        return watcher.advance

    def clean(self, group: list[Segment], copier: GroupCopier, folder: str | None) -> CleanedGroup:
        """Makes one segment of a group, in ``folder``. Raises DamagedError, UnsupportedError, OSError."""
        before = copier.counts
        writer = SegmentWriter(folder, group[0].base_offset, self._settings.interval_bytes)
        try:
            for source in group:
                copier.transactions.add(self.aborted_in(source))
                copier.copy(source, writer, self._buffers)
            written = writer.finish(group[-1].mtime_ns)
        except ValueError as error:
            raise UnsupportedError(f"{group[0].paths[LOG]}: what comes out of it fits no segment: {error}") from error
        finally:
            writer.discard()
        segment = Segment(group[0].base_offset, group[-1].mtime_ns, written.paths, written.sizes)
        counts = copier.counts
        counts.subtract(before)
        return CleanedGroup(group, segment, counts)

    def aborted_in(self, source: Segment) -> list[AbortedTxn]:
        """Aborted transactions with data in a segment."""
        if source.base_offset in self._aborted:
            return self._aborted[source.base_offset]
        return aborted_between(self._with_aborted, source.base_offset, self._behind[source.base_offset])

    def _expected_keys(self) -> int | None:
        """At most so many keys are dirty; None where that is not known without opening batches."""
        dirty = segments_between(self._segments, self._range.start, self._range.end)
        if sum(segment.size for segment in dirty) > COUNT_BYTES:
            return None
        total = 0
        for segment in dirty:
            for window in windows(segment.path, self._buffers, believes=True):
                counts = window.rows[BATCH_COUNT : window.count * BATCH_WIDTH : BATCH_WIDTH].tolist()
                if min(counts) < 0:
                    return None
                total += sum(counts)
        return total
