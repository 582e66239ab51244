"""Finds where to start and to stop reading a .log for an offset or a time; its .index and .timeindex give the start.

    .index       int32 offset - base offset | int32 position of a batch           Kafka's OffsetIndex
    .timeindex   int64 timestamp in ms | int32 offset - base offset               Kafka's TimeIndex

An offset index entry identifies a batch by its first offset (brokers up to 1.1), its last one (from 2.0 on) or the last
one of its append (followers up to 3.9). A time index entry states that no record up to its offset has a later
timestamp. A preallocated file is zeros after the last entry.

Either index may be missing, stale or wrong. An entry is therefore used only if it points to an intact batch that
matches it. Otherwise earlier entries are tried, and finally the .log is read from its start.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from struct import Struct
from typing import NamedTuple

from kseg.formats.rows import Scratch, UndecodableError
from kseg.formats.suffixes import INDEX, LOG, TIME_INDEX
from kseg.formats.v07 import MessageSet, parse
from kseg.kernel.layout.rows import ROW_TIMESTAMP
from kseg.segment.files import LAST_OFFSET, SegmentFile
from kseg.segment.items import Batch, Damage
from kseg.segment.reader import Run, SegmentReader
from kseg.stores.extent import Extent
from kseg.stores.place import Place
from kseg.stores.source import Source

# Determines where reading can stop: after the last wanted offset or time.
#
# Offsets rise in an intact log. A base offset is not covered by the CRC, so a single batch is not trusted: two in a
# row must be beyond the last wanted offset, and offsets must have risen so far.
#
# Timestamps need not rise: producers set them, and clocks differ. Reading therefore continues for `MARGIN_BYTES` in
# which all timestamps exceed the last wanted time by more than any decrease seen so far. A record with an earlier
# timestamp that is appended later still is missed; callers must document this.

MARGIN_BYTES = 64 << 10
BATCHES_BEHIND = 2


class OffsetStop:
    """Detects that no record with an offset up to ``last`` can follow. Needs every batch, in order."""

    def __init__(self, last: int) -> None:
        self._last = last
        self._previous = -1
        self._is_rising = True
        self._behind = 0

    def is_behind(self, batch: Batch) -> bool:
        if not batch.is_valid or not self._is_rising:
            self._behind = 0
            return False
        # A compressed v0 or v1 message does not store its first offset, which is above the previous last one.
        first = batch.base_offset if batch.base_offset is not None else self._previous + 1
        self._is_rising = self._previous < first <= batch.last_offset
        self._previous = batch.last_offset
        self._behind = self._behind + 1 if first > self._last and self._is_rising else 0
        return self._behind >= BATCHES_BEHIND

    def is_behind_end(self, reader: SegmentReader, run: Run) -> bool:
        """Whether no such record can follow a run whose first batch was looked at: a store need not be asked again."""
        last = range(max(1, run.count - BATCHES_BEHIND), run.count)
        return any(self.is_behind(reader.batch(run, i, keep=False)) for i in last)


class TimeStop:
    """Detects that no record with a timestamp (ms) up to ``last`` is to be expected. Needs every batch, in order."""

    def __init__(self, last: int) -> None:
        self._last = last
        self._newest = -1
        self._farthest_back = 0
        self._batches = self._bytes = 0

    def is_behind(self, batch: Batch) -> bool:
        # For most batches before the range the header alone is enough.
        if not batch.is_valid or batch.max_timestamp <= self._last:
            self._newest = max(self._newest, batch.max_timestamp if batch.is_valid else -1)
            self._batches = self._bytes = 0
            return False
        earliest = earliest_timestamp(batch)
        if earliest is None:
            return False
        if self._newest >= 0:
            self._farthest_back = max(self._farthest_back, self._newest - earliest)
        self._newest = max(self._newest, batch.max_timestamp)
        if earliest <= self._last + self._farthest_back:
            self._batches = self._bytes = 0
            return False
        self._batches += 1
        self._bytes += batch.size
        return self._batches >= BATCHES_BEHIND and self._bytes >= MARGIN_BYTES


def earliest_timestamp(batch: Batch) -> int | None:
    """Returns the smallest record timestamp of a batch in ms; None if there is none, or the batch is undecodable."""
    if batch.timestamp_type == "LogAppendTime":
        return batch.max_timestamp
    stamps = (stamp for rows in batch.rows() for stamp in rows.column(ROW_TIMESTAMP) if stamp >= 0)
    try:
        return min(stamps, default=None)
    except UndecodableError:
        return None


def message_sets(source: Source, scratch: Scratch) -> Iterator[tuple[MessageSet, SegmentReader] | Damage]:
    """Yields each message set of captured fetch responses with a reader for it, and damage for all other bytes.

    Positions are relative to the file. 0.7 offsets, which are positions in a log, are relative to the set: a capture
    does not contain its position in the log. A last message truncated by the broker is not damage; bytes missing at the
    end of the capture are.
    """
    for part in parse(source.buffer, source.size):
        if not isinstance(part, MessageSet):
            code = "nonsense-block" if part.end > part.start else "truncated-batch"
            yield Damage(code, part.start, part.end - part.start, part.reason)
            continue
        reader = SegmentReader(source, part.is_07, -part.start, max_bytes=part.end, scratch=scratch)
        reader.begin_at(part.start)
        reader.is_cut = part.missing == 0
        yield part, reader


PROBES = 16
"""Number of entries tried, each twice as far back as the previous one, before reading from the start."""

CHAINED = 4
"""Number of preceding entries that must be right for an entry to be used without reading the batches before them."""

WALK_BYTES = 1 << 20
"""Largest distance from an offset index entry to the batch that a time index entry refers to."""

OFFSET_ENTRY = Struct(">ii")
TIME_ENTRY = Struct(">qi")


class StartPosition(NamedTuple):
    """A position in the .log at which to start. ``is_scan``: it is the file's start, because no index was usable.

    ``reason`` explains a scan or lists rejected entries, for users; "" otherwise.
    """

    position: int
    is_scan: bool
    reason: str


class Entries:
    """The entries of an index file, read one at a time: none if it is not usable, for a ``reason``."""

    def __init__(self, entry: Struct, extent: Extent | None, reason: str = "") -> None:
        self._entry, self._extent, self.reason = entry, extent, reason
        self._count = 0 if extent is None else extent.current_size() // entry.size

    def at(self, i: int) -> tuple[int, int] | None:
        """Returns entry i; None for padding, for an impossible entry, or if the file has been truncated."""
        data = b"" if self._extent is None else self._extent.pread(self._entry.size, i * self._entry.size)
        if len(data) < self._entry.size:
            return None
        first, second = self._entry.unpack(data)
        relative = first if self._entry is OFFSET_ENTRY else second
        return (first, second) if relative > 0 or (relative == 0 and i == 0) else None

    def last_that(self, holds: Callable[[tuple[int, int]], bool]) -> int:
        """Binary search: returns the index of the last entry for which ``holds`` is true, -1 if there is none."""

        def is_behind(i: int) -> bool:
            entry = self.at(i)
            return entry is None or not holds(entry)

        return bisect_left(range(self._count), True, key=is_behind) - 1


def index_path(file: SegmentFile, suffix: str) -> str:
    """Returns the path of a .log's index, with its leftover suffix: 5.index.deleted for 5.log.deleted."""
    return Place(file.path).with_ending(file.kind + file.leftover, suffix + file.leftover)


def seek_offset(reader: SegmentReader, file: SegmentFile, offset: int) -> StartPosition:
    """Finds the start for the first record with this offset or a higher one. Never raises for a bad index."""
    base = file.base_offset or 0

    def position_of(entry: tuple[int, int]) -> int | None:
        return entry[1] if _points_to_batch(reader, base, entry, offset) else None

    return _seek(reader, file, INDEX, lambda entry: base + entry[0] <= offset, position_of)


def seek_time(reader: SegmentReader, file: SegmentFile, timestamp: int) -> StartPosition:
    """Finds the start for all records with this timestamp (ms) or a later one. Never raises for a bad index."""

    def position_of(entry: tuple[int, int]) -> int | str | None:
        if entry[0] >= timestamp:  # timestamps need not rise in a wrong index
            return None
        batch = _batch_of_time_entry(reader, file, entry)
        return batch.end if isinstance(batch, Batch) else batch

    return _seek(reader, file, TIME_INDEX, lambda entry: entry[0] < timestamp, position_of)


def _seek(
    reader: SegmentReader,
    file: SegmentFile,
    suffix: str,
    holds: Callable[[tuple[int, int]], bool],
    position_of: Callable[[tuple[int, int]], int | str | None],
) -> StartPosition:
    """Tries the last entry for which ``holds`` is true, and earlier ones. ``position_of``: the start by an entry; None
    if it does not match the .log, or a reason to scan all of it."""
    skipped = 0
    with _open_entries(file, suffix, reader.is_07) as entries:
        if entries.reason:
            return StartPosition(0, True, entries.reason)
        for i in _back_from(entries.last_that(holds)):
            entry = entries.at(i)
            found = None if entry is None else position_of(entry)
            if isinstance(found, str):
                return StartPosition(0, True, found)
            if found is not None:
                text = f"{suffix} entries skipped because they do not match the .log: {skipped}" if skipped else ""
                return StartPosition(found, False, text)
            skipped += 1
    text = f"no entry of the {suffix} tried fits the .log (entries tried: {skipped})" if skipped else ""
    return StartPosition(0, bool(skipped), text)


def seek_position(reader: SegmentReader, file: SegmentFile, position: int) -> int | None:
    """Returns the last indexed batch position at or before ``position`` that is certain; None if no entry is usable.

    An intact batch alone proves nothing, because a record may contain whole batches. Following the batches from
    `CHAINED` entries earlier must pass each of them and reach the position.
    """
    with _open_entries(file, INDEX, reader.is_07) as entries:
        base = file.base_offset or 0
        for i in _back_from(entries.last_that(lambda entry: entry[1] <= position)):
            entry = entries.at(i)
            if entry is None or entry[1] > position or not _points_to_batch(reader, base, entry, LAST_OFFSET):
                continue
            chain = [entries.at(k) for k in range(max(i - CHAINED, 0), i)]
            places = [0] * (i <= CHAINED) + [-1 if found is None else found[1] for found in chain] + [entry[1]]
            if all(_leads_to(reader, start, end) for start, end in pairwise(places)):
                return entry[1]
    return None


def _leads_to(reader: SegmentReader, position: int, end: int) -> bool:
    """Whether adjacent intact batches lead from ``position`` to ``end``."""
    while position < end:
        run = reader.frame_at(position)
        if run is None:
            return False
        position = run.end
    return position == end


class ByteSpan(NamedTuple):
    """Bytes of a .log, ``start`` to ``end``. A reader that wants to be certain of ``start`` reads from ``before``."""

    start: int
    end: int
    before: int = 0


def indexed_span(file: SegmentFile, size: int, first_offset: int, last_offset: int, earliest_ms: int = 0) -> ByteSpan:
    """Returns the bytes with wanted records, by the indexes alone: they are not compared with the .log.

    ``size``: that of the .log, which is returned whole without an index.
    """
    base = file.base_offset or 0
    if earliest_ms > 0:
        with _open_entries(file, TIME_INDEX) as entries:
            entry = entries.at(max(entries.last_that(lambda entry: entry[0] < earliest_ms), 0))
            if entry is not None and entry[0] < earliest_ms:
                first_offset = max(first_offset, base + entry[1])
    with _open_entries(file, INDEX) as entries:
        first = entries.last_that(lambda entry: base + entry[0] <= first_offset)
        # An entry may be the last offset of an append, which ends at the next entry; readers look at batches behind it.
        last = entries.last_that(lambda entry: base + entry[0] <= last_offset) + BATCHES_BEHIND
        return _span(entries, first, last, size)


def span_of_bytes(file: SegmentFile, size: int, start: int, end: int) -> ByteSpan:
    """Returns the bytes of all batches that begin in ``[start, end)``, by the .index alone; without it, all bytes."""
    with _open_entries(file, INDEX) as entries:
        first = entries.last_that(lambda entry: entry[1] <= start)
        return _span(entries, first, entries.last_that(lambda entry: entry[1] < end), size)


def _span(entries: Entries, first: int, last: int, size: int) -> ByteSpan:
    """Returns the bytes from entry ``first`` to the one after ``last``, or to the end of the .log."""
    start, before = (entries.at(i) if i >= 0 else None for i in (first, first - CHAINED))
    behind = entries.at(last + 1)
    return ByteSpan(
        0 if start is None else start[1], size if behind is None else min(behind[1], size),
        0 if before is None else before[1],
    )  # fmt: skip


def offset_extent(reader: SegmentReader, file: SegmentFile) -> tuple[int, int] | None:
    """Returns the first and last offset of a segment's intact batches; None if there are none."""
    reader.begin_at(0)
    first = next(reader.intact(), None)
    if first is None:
        return None
    last = first
    for batch in _tail(reader, file):
        last = batch
    return first.first_offset() or 0, last.last_offset


def time_extent(reader: SegmentReader, file: SegmentFile) -> tuple[int, int] | None:
    """Returns the first record's timestamp and the largest timestamp (ms) of a segment; None if there are none."""
    reader.begin_at(0)
    stamps = (record.timestamp for batch in reader.intact() for record in batch)
    first = next((stamp for stamp in stamps if stamp is not None and stamp >= 0), None)
    if first is None:
        return None
    with _open_entries(file, TIME_INDEX, reader.is_07) as entries:
        entry = entries.at(max(entries.last_that(lambda entry: True), 0))
        if entry is not None and isinstance(_batch_of_time_entry(reader, file, entry), Batch):
            return first, max(first, entry[0], max((batch.max_timestamp for batch in _tail(reader, file)), default=-1))
    reader.begin_at(0)
    return first, max(batch.max_timestamp for batch in reader.intact())


def _tail(reader: SegmentReader, file: SegmentFile) -> Iterator[Batch]:
    """Returns the intact batches from the last offset index entry on."""
    reader.begin_at(seek_offset(reader, file, LAST_OFFSET).position)
    return reader.intact()


@contextmanager
def _open_entries(file: SegmentFile, suffix: str, is_07: bool = False) -> Iterator[Entries]:
    """Yields the index of a .log, without entries if it is not usable."""
    form = OFFSET_ENTRY if suffix == INDEX else TIME_ENTRY
    if is_07 or file.kind != LOG:
        yield Entries(form, None, "only .log files have indexes")
        return
    if file.base_offset is None:
        yield Entries(form, None, f"without the base offset in its name the entries of a {suffix} say nothing")
        return
    try:
        extent = Place(index_path(file, suffix)).open_extent()
    except OSError as error:
        yield Entries(form, None, f"{suffix}: {error.strerror}")
        return
    try:
        entries = Entries(form, extent)
        is_padding = entries.at(0) == (0, 0) and entries.at(1) is None
        is_empty = entries.at(0) is None or is_padding
        yield Entries(form, None, f"the {suffix} has no entry") if is_empty else entries
    finally:
        extent.close()


def _back_from(i: int) -> Iterator[int]:
    """Yields i, then entries ever farther back, and finally entry 0."""
    for probe in range(PROBES):
        at = i - (1 << probe) + 1
        if at <= 0:
            break
        yield at
    if i >= 0:
        yield 0


def _points_to_batch(reader: SegmentReader, base: int, entry: tuple[int, int], offset: int) -> bool:
    """Whether an intact batch at the entry's position matches its offset, and does not begin after ``offset``.

    In every era the batch's first offset is at most the entry's; the entry of an append may exceed the batch's last
    one.
    """
    batch = _batch_at(reader, entry[1])
    first = None if batch is None else batch.first_offset()
    return first is not None and base <= first <= min(offset, base + entry[0])


def _batch_at(reader: SegmentReader, position: int) -> Batch | None:
    run = reader.frame_at(position)
    return None if run is None else reader.batch(run, 0, keep=False)


def _batch_of_time_entry(reader: SegmentReader, file: SegmentFile, entry: tuple[int, int]) -> Batch | str | None:
    """Returns the batch that a time index entry refers to: it holds the offset and has the entry's largest timestamp.

    Returns None if there is no such batch, or a reason if the offset index leaves this to a scan.
    """
    offset = (file.base_offset or 0) + entry[1]
    start = seek_offset(reader, file, offset)
    if start.is_scan and reader.end > WALK_BYTES:
        return start.reason
    position = start.position
    while position < min(start.position + WALK_BYTES, reader.end):
        batch = _batch_at(reader, position)
        if batch is None:
            return None
        if batch.last_offset >= offset:
            fits = batch.max_timestamp == entry[0] and (batch.base_offset is None or batch.base_offset <= offset)
            return batch if fits else None
        position = batch.end
    return None
