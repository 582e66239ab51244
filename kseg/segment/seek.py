"""Where to begin reading a .log for an offset or a time, by the .index and .timeindex beside it.

    .index       int32 offset - base offset | int32 position of a batch           Kafka's OffsetIndex
    .timeindex   int64 timestamp in ms | int32 offset - base offset               Kafka's TimeIndex

An entry of the offset index names a batch by its first offset (brokers up to 1.1), its last one (from 2.0 on) or the
last one of the set it was appended with (followers up to 3.9). An entry of the time index says that no record up to
its offset is later than its timestamp. Behind the last entry a preallocated file is zeros.

Either may be missing, stale or wrong. So an entry is only believed if an intact batch begins where it points and fits
it; else an earlier one is tried, and at last the .log is read from its start.
"""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from struct import Struct
from typing import NamedTuple

from kseg.segment.batches import Batch, Message
from kseg.segment.files import LAST_OFFSET, SegmentFile
from kseg.segment.reader import SegmentReader
from kseg.segment.regular_files import open_at_once

LAST_TIMESTAMP = (1 << 63) - 1

PROBES = 16
"""Entries tried, each twice as far back as the one before, until the file is read from its start."""

CHAINED = 4
"""Entries before one that must be right for it to be believed without the batches before them."""

WALK_BYTES = 1 << 20
"""How far the batch that an entry of the time index means may lie behind the entry of the offset index."""

_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")


class Start(NamedTuple):
    """Where to begin: a position in the .log. ``is_scan``: at its start, as no index could be used.

    ``reason`` says for people why it is a scan, or which entries were passed over; "" if all went well.
    """

    position: int
    is_scan: bool
    reason: str


class Entries:
    """The entries of an index file, read one at a time."""

    def __init__(self, descriptor: int, entry: Struct) -> None:
        self._descriptor = descriptor
        self._entry = entry
        self._count = os.fstat(descriptor).st_size // entry.size

    def __len__(self) -> int:
        return self._count

    def at(self, i: int) -> tuple[int, int] | None:
        """Entry i; None for padding, for what can be none, and for what is gone since."""
        data = os.pread(self._descriptor, self._entry.size, i * self._entry.size)
        if len(data) < self._entry.size:
            return None
        first, second = self._entry.unpack(data)
        relative = first if self._entry is _OFFSET_ENTRY else second
        return (first, second) if relative > 0 or (relative == 0 and i == 0) else None

    def last_that(self, holds: Callable[[tuple[int, int]], bool]) -> int:
        """Index of the last entry for which ``holds`` is true, -1 if there is none; true for a first part of them."""
        low, high = 0, self._count
        while low < high:
            middle = (low + high) // 2
            entry = self.at(middle)
            if entry is not None and holds(entry):
                low = middle + 1
            else:
                high = middle
        return low - 1


def index_path(file: SegmentFile, suffix: str) -> str:
    """Where the index of a .log lies, its leftover suffix kept: 5.log.deleted has 5.index.deleted."""
    return file.path.removesuffix(file.leftover).removesuffix(file.kind) + suffix + file.leftover


def seek_offset(reader: SegmentReader, file: SegmentFile, offset: int) -> Start:
    """Where to begin for the first record with this offset or a higher one. Never raises for a bad index."""
    with _open_entries(reader, file, ".index", _OFFSET_ENTRY) as entries:
        if isinstance(entries, str):
            return Start(0, True, entries)
        base = file.base_offset or 0
        nearest = entries.last_that(lambda entry: base + entry[0] <= offset)
        passed_over = 0
        for i in _back_from(nearest):
            entry = entries.at(i)
            if entry is not None and _points_to_batch(reader, base, entry, offset):
                return Start(entry[1], False, _told(passed_over, ".index"))
            passed_over += 1
    if passed_over:
        return Start(0, True, f"no entry of the .index tried fits the .log (entries tried: {passed_over})")
    return Start(0, False, "")


def seek_time(reader: SegmentReader, file: SegmentFile, timestamp: int) -> Start:
    """Where to begin for all records with this timestamp (ms) or a later one. Never raises for a bad index."""
    with _open_entries(reader, file, ".timeindex", _TIME_ENTRY) as entries:
        if isinstance(entries, str):
            return Start(0, True, entries)
        passed_over = 0
        for i in _back_from(entries.last_that(lambda entry: entry[0] < timestamp)):
            entry = entries.at(i)
            if entry is not None and entry[0] < timestamp:  # they need not rise in an index that is wrong
                batch = _batch_meant(reader, file, entry)
                if isinstance(batch, str):
                    return Start(0, True, batch)
                if batch is not None:
                    return Start(batch.end, False, _told(passed_over, ".timeindex"))
            passed_over += 1
    if passed_over:
        return Start(0, True, f"no entry of the .timeindex tried fits the .log (entries tried: {passed_over})")
    return Start(0, False, "")


def seek_position(reader: SegmentReader, file: SegmentFile, position: int) -> int | None:
    """Where a batch begins at or before ``position``, by the .index: the nearest that is known without following the
    file from its start. None where no entry can be believed.

    An intact batch alone proves nothing, as a record may hold whole batches: following the batches from `CHAINED`
    entries before must come by each of them and lead to it.
    """
    with _open_entries(reader, file, ".index", _OFFSET_ENTRY) as entries:
        if isinstance(entries, str):
            return None
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
    """Whether intact batches lie end to end from ``position`` to ``end``."""
    while position < end:
        run = reader.frame_at(position)
        if run is None:
            return False
        position = run.end
    return position == end


def offset_extent(reader: SegmentReader, file: SegmentFile) -> tuple[int, int] | None:
    """First and last offset of the intact batches of a segment; None where there is none."""
    reader.begin_at(0)
    first = next((batch for batch in reader if isinstance(batch, Batch) and batch.is_valid), None)
    if first is None:
        return None
    last = _tail(reader, file)[0]
    return _first_offset(first) or 0, first.last_offset if last is None else last


def time_extent(reader: SegmentReader, file: SegmentFile) -> tuple[int, int] | None:
    """Timestamp (ms) of the first record and the largest of a segment; None where no record has one."""
    reader.begin_at(0)
    batches = (batch for batch in reader if isinstance(batch, Batch) and batch.is_valid)
    stamps = (record.timestamp for batch in batches for record in batch)
    first = next((stamp for stamp in stamps if stamp is not None and stamp >= 0), None)
    if first is None:
        return None
    indexed = _last_indexed_timestamp(reader, file)
    if indexed is not None:
        return first, max(first, indexed, _tail(reader, file)[1])
    reader.begin_at(0)
    return first, max(batch.max_timestamp for batch in reader if isinstance(batch, Batch) and batch.is_valid)


def _last_indexed_timestamp(reader: SegmentReader, file: SegmentFile) -> int | None:
    with _open_entries(reader, file, ".timeindex", _TIME_ENTRY) as entries:
        if isinstance(entries, str):
            return None
        entry = entries.at(max(entries.last_that(lambda entry: True), 0))
        if entry is None or not isinstance(_batch_meant(reader, file, entry), Batch):
            return None
        return entry[0]


def _tail(reader: SegmentReader, file: SegmentFile) -> tuple[int | None, int]:
    """Last offset and largest timestamp of the intact batches from the last entry of the offset index on."""
    reader.begin_at(seek_offset(reader, file, LAST_OFFSET).position)
    last, newest = None, -1
    for batch in reader:
        if isinstance(batch, Batch) and batch.is_valid:
            last, newest = batch.last_offset, max(newest, batch.max_timestamp)
    return last, newest


@contextmanager
def _open_entries(reader: SegmentReader, file: SegmentFile, suffix: str, entry: Struct) -> Iterator[Entries | str]:
    """The index beside a .log, or why there is none to be used."""
    if reader.era_07 or file.kind != ".log":
        yield "only .log files have indexes"
        return
    if file.base_offset is None:
        yield f"without the base offset in its name the entries of a {suffix} say nothing"
        return
    path = index_path(file, suffix)
    try:
        descriptor = open_at_once(path)
    except OSError as error:
        yield f"{suffix}: {error.strerror}"
        return
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            yield f"{suffix}: is no regular file"
            return
        entries = Entries(descriptor, entry)
        if not len(entries) or entries.at(0) is None or _is_padding(entries):
            yield f"the {suffix} has no entry"
            return
        yield entries
    finally:
        os.close(descriptor)


def _is_padding(entries: Entries) -> bool:
    return entries.at(0) == (0, 0) and entries.at(1) is None


def _back_from(i: int) -> Iterator[int]:
    """i, and then ever farther back, the first entry at last."""
    for probe in range(PROBES):
        at = i - (1 << probe) + 1
        if at <= 0:
            break
        yield at
    if i >= 0:
        yield 0


def _told(passed_over: int, suffix: str) -> str:
    return f"entries of the {suffix} passed over as they do not fit the .log: {passed_over}" if passed_over else ""


def _points_to_batch(reader: SegmentReader, base: int, entry: tuple[int, int], offset: int) -> bool:
    """Whether an intact batch begins at the entry's position that its offset fits, and that is not behind ``offset``.

    Its first offset is at or below the entry's in every era; that of a set may be beyond its last one.
    """
    batch = _batch_at(reader, entry[1])
    first = None if batch is None else _first_offset(batch)
    return first is not None and base <= first <= min(offset, base + entry[0])


def _batch_at(reader: SegmentReader, position: int) -> Batch | None:
    run = reader.frame_at(position)
    return None if run is None else reader.batch(run, 0, keep=False)


def _first_offset(batch: Batch) -> int | None:
    return batch.extent()[0] if isinstance(batch, Message) and batch.base_offset is None else batch.base_offset


def _batch_meant(reader: SegmentReader, file: SegmentFile, entry: tuple[int, int]) -> Batch | str | None:
    """The batch that an entry of the time index means: it holds the offset, and its largest timestamp is the entry's.

    None where there is none such; a reason where the offset index leaves it to a scan to find out.
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
