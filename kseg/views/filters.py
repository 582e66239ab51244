"""The filters of dumps and views: which files, batches and records are selected, where reading starts and ends, and
messages if nothing matches.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from kseg.formats.rows import Rows, Scratch, UndecodableError
from kseg.formats.suffixes import CHECKPOINT
from kseg.kernel.layout.rows import ROW_KEY, ROW_OFFSET, ROW_TIMESTAMP, ROW_VALUE, ROW_WIDTH
from kseg.output.notices import Notices
from kseg.quantities import LAST_TIMESTAMP, show_time
from kseg.segment import matching
from kseg.segment.files import LAST_OFFSET, SegmentFile, between
from kseg.segment.items import Batch, Message, Record, RecordBatch, RowSpan, records_of
from kseg.segment.matching import Patterns
from kseg.segment.reader import SegmentReader, open_segment
from kseg.stores.source import STANDARD_INPUT, is_stream

# A dump without offsets and times needs no `kseg.segment.seek`: functions import it.
if TYPE_CHECKING:
    from kseg.segment.seek import OffsetStop, TimeStop

# Records by offset, time, key, value and headers, batches by producer id; all given criteria must match.


@dataclass(slots=True)
class Selection:
    """Ranges include both ends; ``times`` are ms since the epoch and not negative, because -1 means no timestamp.

    ``untimed`` counts batches excluded from a time range because their format has no timestamps (v0). ``key`` and the
    patterns, of each kind any, never match control records, whose bytes are not a user's; ``patterns`` are searched in
    key, value and headers. ``decoder``: one of `kseg.decoders`, whose texts may match instead of the bytes.
    """

    offsets: tuple[int, int] | None = None
    times: tuple[int, int] | None = None
    key: bytes | None = None
    producer_id: int | None = None
    key_patterns: Patterns = ()
    value_patterns: Patterns = ()
    header_patterns: Patterns = ()
    patterns: Patterns = ()
    decoder: Any = None
    untimed: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is no filter, so that every batch and record matches."""
        return not self.has_range and self.producer_id is None and not self.has_content

    @property
    def has_range(self) -> bool:
        """Whether offsets or times decide."""
        return self.offsets is not None or self.times is not None

    @property
    def has_content(self) -> bool:
        """Whether keys, values or headers decide."""
        patterns = self.key_patterns or self.value_patterns or self.header_patterns or self.patterns
        return self.key is not None or bool(patterns)

    def may_hold(self, batch: Batch) -> bool:
        """Whether the header allows the batch to hold a matching record."""
        if self.producer_id is not None and not (
            isinstance(batch, RecordBatch) and batch.header.producer_id == self.producer_id
        ):
            return False
        if self.has_content and batch.is_control:
            return False
        if self.times is not None:
            if batch.timestamp_type == "NoTimestampType":
                self.untimed += 1
                return False
            # If the CRC is wrong, the timestamp itself may be.
            if batch.is_valid and batch.max_timestamp < self.times[0]:
                return False
        if self.offsets is None:
            return True
        first, last = self.offsets
        base = batch.base_offset
        if isinstance(batch, Message) and batch.last_offset > last:
            base = batch.extent()[0]
        return first <= batch.last_offset and (base or 0) <= last

    def holds(self, batch: Batch) -> bool:
        """Whether the batch holds a matching record; reads its records if needed.

        An undecodable batch counts as matching, so that it is not skipped silently.
        """
        if not self.may_hold(batch):
            return False
        if self.times is None and not self.has_content:
            return True
        try:
            return any(self.spans(rows) for rows in batch.rows())
        except UndecodableError:
            return True

    def spans(self, rows: Rows) -> list[RowSpan]:
        """Returns the matching rows, in order, of a batch for which `may_hold` is true."""
        wanted: list[int] | range = range(rows.count)
        if self.decoder is not None and self.has_content:
            wanted = [i for i, record in enumerate(records_of(rows)) if self._matches_decoded(record)]
        elif self.key is not None:
            wanted = matching.rows_with_key(rows, self.key)
        if self.decoder is None:
            wanted = matching.matching_rows(rows, wanted, self.key_patterns, ROW_KEY)
            wanted = matching.matching_rows(rows, wanted, self.value_patterns, ROW_VALUE)
            wanted = matching.matching_rows(rows, wanted, self.header_patterns, with_headers=True)
            wanted = matching.matching_rows(rows, wanted, self.patterns, ROW_KEY, ROW_VALUE, with_headers=True)
        if self.offsets is not None:
            wanted = matching.rows_between(rows, wanted, ROW_OFFSET, *self.offsets)
        if self.times is not None:
            wanted = matching.rows_between(rows, wanted, ROW_TIMESTAMP, *self.times)
            if self.times[0] < 0:  # then those without a timestamp, which is -1, match too
                unset = frozenset(matching.rows_between(rows, wanted, ROW_TIMESTAMP, -1, -1))
                wanted = [row for row in wanted if row not in unset]
        return matching.spans_of(wanted)

    def _matches_decoded(self, record: Record) -> bool:
        decoded = self.decoder.decode(record.key, record.value, record.offset, record.headers)
        keys = _forms(record.key, decoded.key_text, decoded.key)
        values = _forms(record.value, decoded.payload_text, decoded.value)
        headers = [matching.header_text(header.key, header.value) for header in record.headers]
        searched = (
            (self.key_patterns, keys), (self.value_patterns, values), (self.header_patterns, headers),
            (self.patterns, [*keys, *values, *headers]),
        )  # fmt: skip
        is_found = all(not patterns or matching.matches_any(patterns, texts) for patterns, texts in searched)
        return is_found and (self.key is None or self.key in keys)


def _forms(data: bytes | None, text: str | None, value: object) -> list[bytes]:
    """Returns the bytes of a key or value, the text of its decoded form, and without quotes if that is a string."""
    texts = [each.encode("utf-8", "replace") for each in (text, value) if isinstance(each, str)]
    return texts if data is None else [data, *texts]


_NOTHING = "no record in it matches"


class Filters:
    """The filters of one run. ``are_set``: whether only some batches and records are printed.

    ``last``, ``around``: the numbers of `narrow`; ``counts_batches``: the first of them counts batches, not records.
    """

    def __init__(
        self, selection: Selection, scratch: Scratch, notices: Notices, *, is_07: bool = False,
        last: int | None = None, around: int | None = None, counts_batches: bool = False,
    ) -> None:  # fmt: skip
        self.selection = selection
        self._is_07, self._last, self._around, self._counts_batches = is_07, last, around, counts_batches
        self._offsets = selection.offsets
        self.are_set = not selection.is_empty or last is not None or around is not None
        self._scratch = scratch
        self._notices = notices
        self._found = 0
        self._places = 0
        self._example = ""
        """The first path without matches, and the range that it has."""
        self._ended_early = 0
        self._stops: list[OffsetStop | TimeStop] = []
        self._unread = Counter[str]()
        """Files of partitions that a search does not read, by kind, and the last one."""
        self._unread_example = ""

    def leave_unread(self, files: Sequence[SegmentFile]) -> None:
        """Counts files that may hold matches and are read with --all only."""
        if self.selection.has_content:
            for file in files:
                self._unread[file.leftover] += 1
                self._unread_example = file.path

    def begin_at(self, log_start: int) -> None:
        """For the next partition: selects no offsets below its log start, besides those that are asked for."""
        first, last = self._offsets or (0, LAST_OFFSET)
        self.selection.offsets = (max(first, log_start), last) if log_start else self._offsets

    def may_be_below(self, log_start: int) -> bool:
        """Whether offsets below a log start are asked for."""
        return self._offsets is None or self._offsets[0] < log_start

    def narrow(
        self, files: Sequence[SegmentFile], read: Callable[[SegmentFile], SegmentReader],
        is_visible: Callable[[Batch], bool],
    ) -> None:  # fmt: skip
        """For --last and --around: selects the offsets of a partition that are to be printed. Reads it from its end.

        ``files``: its segments, in order, which ``read`` opens. ``is_visible``: whether a batch is printed if it
        matches. Raises PathError if a segment cannot be opened.
        """
        last, around = self._last, self._around
        if last is None and around is None:
            return
        logs = without_snapshots(files)
        nearest = _Nearest(logs, self.selection, read, self._counts_batches, is_visible)
        if around is None:
            self.selection.offsets = nearest.before(LAST_OFFSET, last or 0), LAST_OFFSET
        else:
            behind = list(islice(nearest.offsets(logs, around, LAST_OFFSET), AROUND))
            self.selection.offsets = nearest.before(around, AROUND), behind[-1] if behind else around

    def among(self, files: list[SegmentFile]) -> list[SegmentFile]:
        """Returns the segments that can contain matches, judged by their names."""
        offsets = self.selection.offsets
        return between(without_snapshots(files), *offsets) if offsets is not None and len(files) > 1 else files

    def restart(self) -> None:
        """Prepares for the batches of another file or message set."""
        offsets, times = self.selection.offsets, self.selection.times
        self._stops = []
        if offsets is None and times is None:
            return
        from kseg.segment.seek import OffsetStop, TimeStop

        if offsets is not None and offsets[1] < LAST_OFFSET:
            self._stops.append(OffsetStop(offsets[1]))
        if times is not None and times[1] < LAST_TIMESTAMP:
            self._stops.append(TimeStop(times[1]))

    def begin(self, reader: SegmentReader, file: SegmentFile) -> None:
        """Moves a reader to the first possible match, found through the indexes of its segment."""
        self.restart()
        if self.selection.offsets is None and self.selection.times is None:
            return
        from kseg.segment.seek import seek_offset, seek_time

        starts = []
        if self.selection.offsets is not None:
            starts.append(seek_offset(reader, file, self.selection.offsets[0]))
        if self.selection.times is not None:
            starts.append(seek_time(reader, file, self.selection.times[0]))
        for start in starts:
            if start.reason:
                way = "read from its start" if start.is_scan else "read by an earlier entry"
                self._notices.detail(f"{file.path}: {way}: {start.reason}")
        reader.begin_at(max(start.position for start in starts))

    def is_behind(self, batch: Batch) -> bool:
        """Whether no match can follow from this batch on. Must be called for every batch, in order."""
        for stop in self._stops:
            if stop.is_behind(batch):
                from kseg.segment.seek import TimeStop

                self._ended_early += isinstance(stop, TimeStop) and batch.timestamp_type == "CreateTime"
                return True
        return False

    def holds(self, batch: Batch) -> bool:
        """Whether the batch contains a match."""
        found = self.selection.holds(batch)
        self._found += found
        return found

    def end_of_place(self, files: Sequence[SegmentFile], path: str) -> None:
        """Called after all segments of a partition, or a file, were read."""
        if not self.are_set:
            return
        self._places += 1
        if not self._found and not self._example:
            reason = _NOTHING if is_stream(path) else self._reason(files)
            self._example = f"{'standard input' if path == STANDARD_INPUT else path}: {reason}"

    def _reason(self, files: Sequence[SegmentFile]) -> str:
        """Returns why nothing matches: the offsets or times of the segments, if the requested ones are outside."""
        from kseg.segment.seek import offset_extent, time_extent

        if self.selection.offsets is not None:
            ends = [*self._extents(files, offset_extent, 1), *self._extents(files[::-1], offset_extent, 1)]
            if found := _range_if_outside("offsets", self.selection.offsets, ends, str):
                return found
        if self.selection.times is not None:
            extents = self._extents(files, time_extent, len(files))
            name = "times (of the first record, of the newest)"
            if found := _range_if_outside(name, self.selection.times, extents, show_time):
                return found
        return _NOTHING

    def summarize(self) -> None:
        """Reports that nothing matched, and the limits of a search by time."""
        if self._places and not self._found:
            several = f"{self._places} partitions and files, such as " if self._places > 1 else ""
            self._notices.warning(f"nothing found in {several}{self._example}")
        if self._unread:
            kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self._unread.items()))
            self._notices.warning(f"not searched: {kinds}, such as {self._unread_example}; --all reads them too")
        if self.selection.untimed:
            self._notices.warning(
                f"batches without timestamps (v0 and 0.7), omitted by --time: {self.selection.untimed}"
            )
        if self._ended_early:
            self._notices.warning(
                f"segments read only until batches were later than --time for a while: {self._ended_early}; "
                "later records with earlier timestamps are not printed"
            )

    def _extents(
        self,
        files: Sequence[SegmentFile],
        extent_of: Callable[[SegmentReader, SegmentFile], tuple[int, int] | None],
        max_files: int,
    ) -> list[tuple[int, int]]:
        """Returns the extents of the first ``max_files`` files that have one."""
        found: list[tuple[int, int]] = []
        for file in without_snapshots(files):
            if len(found) == max_files:
                break
            with open_segment(file, self._scratch, is_07=self._is_07) as reader:
                extent = extent_of(reader, file)
            if extent is not None:
                found.append(extent)
        return found


def without_snapshots(files: Sequence[SegmentFile]) -> list[SegmentFile]:
    """Returns the files of a partition without the snapshots of the cluster metadata, unless there is nothing else.

    Offsets of a snapshot's records are positions in the snapshot, not in the log.
    """
    return [file for file in files if file.kind != CHECKPOINT] or list(files)


def _range_if_outside(
    name: str, wanted: tuple[int, int], extents: list[tuple[int, int]], show: Callable[[int], str]
) -> str:
    """Returns the existing range as text, if it does not overlap with the requested one, otherwise ""."""
    if not extents:
        return f"has no {name.partition(' (')[0]}"
    first, last = min(extent[0] for extent in extents), max(extent[1] for extent in extents)
    if wanted[0] <= last and wanted[1] >= first:
        return ""
    return f"its {name} are {show(first)}..{show(last)}"


AROUND = 10
_FIRST_REACH = 4
"""The first step goes back by this multiple of the requested count; each further step is larger by this factor."""


class _Nearest:
    """The matches next to an offset, found from it in growing steps.

    ``files`` are the segments of one partition, in order; ``counts_batches``: batches are counted, not records.

    The offsets of the selection are ignored. ``read`` opens a file.
    """

    def __init__(
        self, files: Sequence[SegmentFile], selection: Selection, read: Callable[[SegmentFile], SegmentReader],
        counts_batches: bool, is_visible: Callable[[Batch], bool],
    ) -> None:  # fmt: skip
        self._files, self._read, self._counts_batches, self._is_visible = files, read, counts_batches, is_visible
        self._selection = copy(selection)
        self._selection.offsets = None

    def before(self, end: int, count: int) -> int:
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
        reach, top = count * _FIRST_REACH, 0
        with self._reader_at(file, end) as reader:  # an offset near the end of the segment, not above ``end``
            for batch in reader:
                if isinstance(batch, Batch) and batch.base_offset is not None and batch.base_offset < end:
                    top = min(end, batch.last_offset + 1)
        while True:
            start = max(base, top - reach)
            found = deque(self.offsets([file], start, end - 1), count)
            if len(found) == count or start == base:
                return list(found)
            reach *= _FIRST_REACH

    def offsets(self, files: Sequence[SegmentFile], first: int, last: int) -> Iterator[int]:
        """Yields the offsets of matches from ``first`` to ``last``, both included."""
        for i, file in enumerate(files):
            if i + 1 < len(files) and (files[i + 1].base_offset or 0) <= first:
                continue
            with self._reader_at(file, first) as reader:
                for batch in reader:
                    if not isinstance(batch, Batch) or not (self._is_visible(batch) and self._selection.holds(batch)):
                        continue
                    if batch.base_offset is not None and batch.base_offset > last:
                        return
                    found = [batch.last_offset]  # of a batch that counts as a whole
                    if not self._counts_batches:
                        with suppress(UndecodableError):
                            found = [
                                rows.rows[row * ROW_WIDTH + ROW_OFFSET]
                                for rows in batch.rows()
                                for start, stop in self._selection.spans(rows)
                                for row in range(start, stop)
                            ]
                    yield from (offset for offset in found if first <= offset <= last)

    def _reader_at(self, file: SegmentFile, offset: int) -> SegmentReader:
        from kseg.segment.seek import seek_offset

        reader = self._read(file)
        reader.begin_at(seek_offset(reader, file, offset).position)
        return reader
