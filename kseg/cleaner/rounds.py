"""One cleaning round of a log: builds an offset map of its dirty part, then cleans all segments up to the map's end."""

import math
import mmap
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from kseg.changes.driver.command import Progress
from kseg.cleaner import log
from kseg.cleaner.settings import CleanerSettings
from kseg.errors import UnsupportedError
from kseg.formats.compressing import NONE, build_batch, build_wrapper, compress, target_of
from kseg.formats.record_batch import HEADER_BYTES, RecordBatchHeader
from kseg.formats.rows import Rows, int64s
from kseg.formats.suffixes import LOG, TRANSACTION_INDEX
from kseg.kernel.compact import key_map
from kseg.kernel.compact import survivors as kernel
from kseg.kernel.compact.key_map import ENTRY_WIDTH, SECRET_BYTES, KeyMap, Secret
from kseg.kernel.compact.survivors import Counts
from kseg.kernel.layout import rows as layout
from kseg.kernel.layout.headers import CODEC, CONTROL, DELETE_HORIZON, LOG_APPEND_TIME
from kseg.kernel.records.building import Area, seal
from kseg.segment.items import Message
from kseg.segment.writer import SegmentWriter
from kseg.sidefiles.indexes import AbortedTxn, build_transaction_index
from kseg.stores.windows import Buffers

ENTRY_BYTES = 24
LOAD_FACTOR = 0.9
"""log.cleaner.io.buffer.load.factor."""

_MAX_SLOTS = (1 << 32) - 1
_FIRST_SLOTS = 1 << 16
_GROWING_LOAD = 0.6
"""Load factor at which a growing map is enlarged; a higher one makes lookups slower."""
_MOVED_SLOTS = 1 << 17
"""Slots moved at a time, after which the old ones are released: 3 MiB."""


def memory_for(keys: int) -> int:
    """Returns the bytes that a map of ``keys`` keys takes."""
    return math.ceil((keys + 1) / LOAD_FACTOR) * ENTRY_BYTES


class OffsetMap:
    """A `KeyMap` (``keys``) whose table grows with its keys, within a memory limit (Kafka's SkimpyOffsetMap).

    Each map draws a new secret for its hash, unless it is a partition of a larger map, whose secret it then shares.
    """

    def __init__(self, memory_bytes: int, secret: bytes | None = None) -> None:
        self._max_slots = max(min(memory_bytes // ENTRY_BYTES, _MAX_SLOTS), 2)
        self.keys = KeyMap(Secret(secret or os.urandom(SECRET_BYTES)))
        self._memory, self._table = self._allocated(min(self._max_slots, _FIRST_SLOTS))

    def _allocated(self, slots: int) -> tuple[mmap.mmap, memoryview]:
        """Allocates an empty table and makes it the map's table."""
        max_count = int(slots * (LOAD_FACTOR if slots == self._max_slots else _GROWING_LOAD))
        size = slots * ENTRY_BYTES
        if hasattr(mmap, "MAP_PRIVATE"):
            memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # shared ones get no huge pages
        else:
            memory = mmap.mmap(-1, size)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)
        table = memoryview(memory).cast("q")
        self.keys.use(table, slots, min(max_count, slots - 1))
        return memory, table

    def _grow(self) -> bool:
        """Moves to a table of twice the size, releasing the old one in steps; returns False at the maximum size."""
        old_memory, old, slots = self._memory, self._table, self.keys.slots
        if slots == self._max_slots:
            return False
        self._memory, self._table = self._allocated(min(2 * slots, self._max_slots))
        for first in range(0, slots, _MOVED_SLOTS):
            stop = min(first + _MOVED_SLOTS, slots)
            self.keys.move(old, first, stop)
            if hasattr(mmap, "MADV_DONTNEED"):
                old_memory.madvise(mmap.MADV_DONTNEED, first * ENTRY_BYTES, (stop - first) * ENTRY_BYTES)
        old.release()
        old_memory.close()
        return True

    def __len__(self) -> int:
        return int(self.keys.count)

    def put(self, hashes: memoryview, offsets: memoryview, count: int) -> int:
        """Adds keys by their hashes, in order; returns the number added before the map was full."""
        taken = 0
        while True:
            taken += self.keys.put(hashes[2 * taken :], offsets[taken:], count - taken)
            if taken == count or not self._grow():
                return taken

    def entries(self, buckets: int) -> list[memoryview]:
        """Returns all entries, partitioned into ``buckets`` buckets (layout: `kseg.kernel.compact.key_map`).

        A key is in the same bucket of every map with this secret.
        """
        bounds, out = int64s(buckets + 2), int64s(ENTRY_WIDTH * len(self))
        self.keys.scatter(bounds, out)
        return [out[ENTRY_WIDTH * bounds[b] : ENTRY_WIDTH * bounds[b + 1]] for b in range(buckets)]

    def merge(self, entries: memoryview, least: int = 0) -> bool:
        """Merges entries of offsets from ``least`` on, keeping each key's last offset; False if the map is full."""
        while not self.keys.merge(entries, least):  # merging an entry twice is harmless
            if not self._grow():
                return False
        return True

    def look_up(self, entries: memoryview) -> memoryview:
        """Returns this map's entries for the keys of ``entries``."""
        out = int64s(len(entries))
        return out[: ENTRY_WIDTH * self.keys.look_up(entries, out)]

    def close(self) -> None:
        self.keys.clear()
        self._table.release()
        self._memory.close()


class Hashes(NamedTuple):
    """Hashes of keys in record order; the window's first ``batches`` batches are complete with them."""

    hashes: memoryview
    offsets: memoryview
    batches: int


def read_keys(
    window: log.Window, verdicts: memoryview, least: int, secret: Secret, buffers: log.RecordBuffers
) -> list[Hashes]:
    """Returns the keys of offsets ``least`` and above, in parts; any thread may hash them. Raises DamagedError."""
    reader, found = key_map.KeyReader(secret, least), []
    opened: Any = None

    def take(count: int, batches: int) -> None:
        hashes, offsets = int64s(2 * count), int64s(count)
        hashes[:], offsets[:] = buffers.hashes[: 2 * count], buffers.offsets[:count]
        found.append(Hashes(hashes, offsets, batches))

    while True:
        status = reader.read(
            window.data, window.rows, window.count, verdicts, buffers.rows, buffers.hashes, buffers.offsets,
            buffers.expansion, opened,
        )  # fmt: skip
        i, opened = reader.frame, opened if reader.is_open else None
        take(reader.keys, i)
        reader.keys = 0
        if status == layout.DONE:
            return found
        if status == layout.NOT_PLAIN:
            opened = log.open_batch(window, i, buffers)
        if isinstance(opened, Message):
            for rows in opened.rows():
                if rows.count > len(buffers.offsets):
                    buffers.widen(rows.count)
                take(reader.read_rows(rows.payload, rows.rows, rows.count, buffers.hashes, buffers.offsets), i)
            reader.go_to(i + 1)
            opened = None


def map_keys(
    offset_map: OffsetMap,
    segment: log.CleanerSegment,
    start: int,
    transactions: log.CleanedTransactions,
    workers: log.CleaningThreads,
    buffers: Buffers,
    advance: Callable[[int], None] = lambda _: None,
) -> bool:
    """Adds the keys of a segment's offsets from ``start`` on (Cleaner.buildOffsetMap).

    Returns False if the map is full. Raises DamagedError.
    ``transactions``: their state at the segment's start; ``advance`` receives the number of bytes read.
    """
    secret = offset_map.keys.secret

    def reading(window: log.Window) -> Callable[[log.RecordBuffers, log.Window], tuple[log.Window, list[Hashes]]]:
        verdicts = log.as_verdicts(transactions.discardable(window), window.count)
        return lambda buffers, kept: (kept, read_keys(kept, verdicts, start, secret, buffers))

    for window, found in workers.each(segment.path, buffers, reading, advance):
        if not all(_put(offset_map, hashes, window, start) for hashes in found):
            workers.discard()  # windows read after the map became full
            return False
    return True


def _put(offset_map: OffsetMap, found: Hashes, window: log.Window, start: int) -> bool:
    """Adds keys of a window; returns False if the map is full. The map ends with the last batch whose keys are all in
    it, or with the last key."""
    keys, end = len(found.offsets), -1
    taken = offset_map.put(found.hashes, found.offsets, keys)
    if taken < keys:
        ends = [last for last in window.lasts if last < found.offsets[taken]]
        end = max([*ends[-1:], *found.offsets[:taken][-1:]], default=-1)
    elif found.batches:  # last offsets rise; the column is not read, as each message may be a part of its own
        end = window[found.batches - 1].last_offset
    if end >= start:
        offset_map.keys.latest_offset = max(offset_map.keys.latest_offset, end)
    return taken == keys


def rebuilt(
    message: Message, keeps: Callable[[Rows], bytes], horizon_ms: int, keeps_format: bool, ends_log: bool = False
) -> tuple[bytes, int]:
    """Returns the survivors of an intact v0 or v1 message (b"" if there are none), and their number.

    They become a v2 batch (KIP-724), or, up to 3.9, keep their format.
    ``horizon_ms``: the delete horizon of a batch with a tombstone, which a new v2 batch gets at once. ``ends_log``: the
    last offset must be preserved; v0 and v1 can do this only by keeping the whole message.
    """
    marks = [keeps(rows) for rows in message.rows()]
    kept = b"".join(marks)
    if ends_log and keeps_format:
        kept = b"\1" * len(kept)
    count = sum(kept)
    if not count:
        return (_emptied(message), 0) if ends_log else (b"", 0)
    if keeps_format and count == len(kept):
        return bytes(message.data), count
    if keeps_format:
        return _set_of(message, kept), count
    return _batch_of(message, kept, horizon_ms, ends_log), count


def _emptied(message: Message) -> bytes:
    """Returns the header of a batch without records (DefaultRecordBatch.writeEmptyHeader)."""
    header = message.header
    attributes = LOG_APPEND_TIME if header.is_log_append_time else 0
    first = next((_offset_of(rows, 0) for rows in message.rows() if rows.count), header.offset)
    fields = first, 0, -1, 2, 0, attributes, header.offset - first, -1, header.timestamp, -1, -1, -1, 0
    return build_batch(RecordBatchHeader(*fields), b"", NONE)


def _set_of(message: Message, kept: bytes) -> bytes:
    """Returns a compressed message with the survivors. An uncompressed message survives as a whole or not at all."""
    header, area = message.header, Area(message.magic, is_relative=True)
    _gather(area, message, kept, None)
    timestamp = header.timestamp if header.is_log_append_time else area.largest_timestamp
    attributes = header.attributes & ~header.codec
    return build_wrapper(message.magic, area.last_offset, timestamp, attributes, area.take(), target_of(header.codec))


def _batch_of(message: Message, kept: bytes, horizon_ms: int, ends_log: bool) -> bytes:
    header, area, width = message.header, Area(2), layout.ROW_WIDTH
    columns = (rows.rows[layout.ROW_VALUE_SIZE : rows.count * width : width].tolist() for rows in message.rows())
    has_tombstone = any(size < 0 and mark for size, mark in zip(chain.from_iterable(columns), kept, strict=False))
    _gather(area, message, kept, horizon_ms if has_tombstone else None)
    attributes = LOG_APPEND_TIME if header.is_log_append_time else 0
    if has_tombstone:
        attributes |= DELETE_HORIZON
    last = header.offset if ends_log else area.last_offset
    largest = header.timestamp if header.is_log_append_time else area.largest_timestamp
    fields = (
        area.base_offset, 0, -1, 2, 0, attributes, last - area.base_offset, area.base_timestamp, largest, -1, -1, -1,
        area.count,
    )  # fmt: skip
    return build_batch(RecordBatchHeader(*fields), area.take(), target_of(header.codec) if header.codec else NONE)


def _gather(area: Area, message: Message, kept: bytes, base_timestamp: int | None) -> None:
    """Copies the surviving records to the area, runs of adjacent records at once."""
    first = 0
    for rows in message.rows():
        row = kept.find(1, first, first + rows.count) - first
        while row >= 0:
            end = kept.find(0, first + row, first + rows.count)
            stop = rows.count if end < 0 else end - first
            if not area.count:
                area.begin(_offset_of(rows, row), base_timestamp=base_timestamp)
            area.add(rows, row, stop)
            row = kept.find(1, first + stop, first + rows.count) - first
        first += rows.count


def _offset_of(rows: Rows, row: int) -> int:
    return int(rows.rows[row * layout.ROW_WIDTH + layout.ROW_OFFSET])


class Filtered(NamedTuple):
    """The new batches of a window, and the numbers of its records and batches that are kept, changed or removed."""

    pieces: list[bytes]
    counts: Counts


def filter_window(
    offset_map: OffsetMap,
    settings: CleanerSettings,
    keeps_tombstones: bool,
    verdicts: memoryview,
    buffers: log.RecordBuffers,
    window: log.Window,
    erased: memoryview | None = None,
) -> Filtered:
    """Filters one window to the records that survive cleaning (Cleaner.cleanInto); thread-safe. Raises DamagedError.

    ``keeps_tombstones``: tombstones of v0 and v1, and before 3.1 all tombstones, are kept. ``erased``: as in
    `Survivors`.
    """
    pieces, counts = list[bytes](), Counts()
    opened: Any = None
    survivors = kernel.Survivors(offset_map.keys, counts, erased)
    survivors.now_ms, survivors.retention_ms = settings.now_ms, settings.delete_retention_ms
    survivors.keeps_format, survivors.has_horizons = settings.keeps_format, settings.has_horizons
    survivors.keeps_tombstones = keeps_tombstones

    def flush() -> None:
        if survivors.size:
            with memoryview(buffers.out) as out:
                pieces.append(bytes(out[: survivors.size]))
            survivors.size = 0

    def keeps(rows: Rows) -> bytes:
        """Returns a byte per v0 or v1 record, 1 if it survives, else 0 (Cleaner.shouldRetainRecord)."""
        if rows.count > len(buffers.keep):
            buffers.widen(rows.count)
        survivors.mark(rows.payload, rows.rows, rows.count, buffers.keep)
        return bytes(memoryview(buffers.keep)[: rows.count])

    while True:
        status = survivors.write(
            window.data, window.rows, window.count, verdicts, buffers.rows, buffers.keep, buffers.out,
            buffers.expansion, opened,
        )  # fmt: skip
        i, opened = survivors.frame, None
        if status == layout.NEEDS_PACKING:
            _pack(survivors, buffers.out, window.batch(i))
        elif status == layout.FULL:
            flush()
            if survivors.needed > len(buffers.out):
                buffers.out = bytearray(2 * survivors.needed)
        elif status == layout.MORE_ROWS:
            buffers.widen(survivors.needed)
        elif status == layout.DONE:
            flush()
            return Filtered(pieces, counts)
        else:
            opened = log.open_batch(window, i, buffers)
            if isinstance(opened, Message):
                flush()
                ends_log = settings.includes_active and bool(verdicts[i] & kernel.KEEP_EMPTY)
                horizon_ms = settings.now_ms + settings.delete_retention_ms
                keeps_format = settings.keeps_format and (erased is None or not ends_log)
                data, kept = rebuilt(opened, keeps, horizon_ms, keeps_format, ends_log)
                counts.kept += kept
                if data == opened.data:
                    counts.copied += 1
                elif data:
                    counts.rewritten += 1
                else:
                    counts.dropped += 1
                if data:
                    pieces.append(data)
                survivors.go_to(i + 1)
                opened = None


def _pack(survivors: kernel.Survivors, out: bytearray, old: memoryview) -> None:
    """Compresses the records written by the kernel, and completes their batch header from that of the old batch."""
    start, attributes = survivors.size + HEADER_BYTES, survivors.attributes
    with memoryview(out) as whole:
        area = compress(target_of(attributes & CODEC), whole[start : start + survivors.area_size])
    end = start + len(area)
    if end > len(out):
        out.extend(bytes(end - len(out)))
    out[start:end] = area
    seal(
        out, survivors.size, end, old, attributes, survivors.base_timestamp, survivors.max_timestamp, survivors.kept
    )  # fmt: skip
    survivors.size = end
    survivors.go_to(survivors.frame + 1)


@dataclass(slots=True)
class CleanedGroup:
    """Source segments and the new ``segment``, whose ``paths`` are empty in a dry run.

    ``counts``: those of `Counts`, by name. ``horizons``: how many markers that transactions without records have left
    wait for each delete horizon (ms).
    """

    sources: list[log.CleanerSegment]
    segment: log.CleanerSegment
    counts: Counter[str] = field(default_factory=Counter)
    horizons: Counter[int] = field(default_factory=Counter)

    @property
    def bytes_before(self) -> int:
        return sum(source.size for source in self.sources)

    @property
    def is_copy(self) -> bool:
        """Whether the new .log is identical to the old one."""
        changed = self.counts["rewritten"] + self.counts["emptied"] + self.counts["dropped"]
        return len(self.sources) == 1 and not changed


class Round:
    """``end``: the first offset that this round does not clean, known once `groups` has started, or after `survey`.

    ``make_folder`` returns a new directory for the files of each group; None in a dry run.
    """

    def __init__(
        self,
        segments: Sequence[log.CleanerSegment],
        found: log.CleanableRange,
        producers: log.Producers,
        settings: CleanerSettings,
        make_folder: Callable[[], str] | None,
        watcher: Progress | None = None,
    ) -> None:
        self._watcher = watcher
        self._segments, self._range, self._producers, self._settings = segments, found, producers, settings
        self._make_folder = make_folder
        self._buffers = Buffers()
        self._with_aborted = [segment for segment in segments if TRANSACTION_INDEX in segment.paths]
        bases = [segment.base_offset for segment in segments]
        self._behind = dict(zip(bases, [*bases[1:], producers.end_offset], strict=True))
        below = log.segments_between(segments, 0, found.start)
        # Tombstones of v0 and v1 in segments written after this time are kept.
        self._legacy_horizon_ms = below[-1].mtime_ms - settings.delete_retention_ms if below else 0
        self.end = found.start
        self.keys = 0

    @property
    def is_whole(self) -> bool:
        """Whether the whole dirty part fits in the offset map."""
        return self.end >= self._range.end

    def groups(self) -> Iterator[CleanedGroup]:
        """Yields new segments, oldest first. Raises DamagedError, UnsupportedError, OSError."""
        transactions, watcher, end = log.CleanedTransactions(), self._watcher, self._range.end
        if watcher is not None:
            read_twice = log.segments_between(self._segments, self._range.start, end)
            whole = log.segments_between(self._segments, 0, end)
            watcher.total = sum(segment.size for segment in [*read_twice, *whole])
        advance: Callable[[int], None] = (lambda _: None) if watcher is None else watcher.advance
        for segment in self._with_aborted:
            segment.aborted()  # now: the caller may replace files while groups are made
        with self._mapped(advance) as (offset_map, workers):
            for group in self.grouped():
                folder = self._make_folder() if self._make_folder else None
                yield self.clean(group, folder, offset_map, workers, transactions, advance)

    def survey(self) -> None:
        """Finds ``end`` and ``keys`` without cleaning. Raises DamagedError, OSError."""
        with self._mapped(lambda _: None):
            pass

    def check_the_rest(self) -> None:
        """Verifies the checksums of segments that are copied but not in the offset map. Raises DamagedError."""
        known = log.segments_between(self._segments, self._range.start, self._range.end) if self.is_whole else []
        mapped = {segment.base_offset for segment in known}
        for segment in log.segments_between(self._segments, 0, self.end):
            if segment.base_offset not in mapped:
                for _ in log.windows(segment.path, self._buffers):
                    pass

    @contextmanager
    def _mapped(self, advance: Callable[[int], None]) -> Iterator[tuple[OffsetMap, log.CleaningThreads]]:
        """Builds the offset map of the dirty part, or of as much as fits. The threads end before the map is freed:
        after an error they may still use it."""
        found, transactions = self._range, log.CleanedTransactions()
        with (
            closing(OffsetMap(self._settings.memory_bytes)) as offset_map,
            closing(log.CleaningThreads(self._settings.jobs)) as workers,
        ):
            keys = offset_map.keys
            transactions.add(log.aborted_between(self._with_aborted, found.start, found.end))
            for segment in log.segments_between(self._segments, found.start, found.end):
                if not map_keys(offset_map, segment, found.start, transactions, workers, self._buffers, advance):
                    break
                behind = self._behind[segment.base_offset]
                if keys.latest_offset >= behind:  # aborted transactions would be sought in the wrong segments
                    text = f"it reaches offset {keys.latest_offset}, the next segment begins at {behind}"
                    raise log.DamagedError(segment.path, segment.size, text)
                end = min(behind, found.end)
                keys.latest_offset = max(end - 1, keys.latest_offset)
            self.end = max(keys.latest_offset + 1, found.start)
            self.keys = len(offset_map)
            yield offset_map, workers

    def grouped(self) -> list[list[log.CleanerSegment]]:
        """Returns the groups of segments that are cleaned into one, once ``end`` is known."""
        return log.group_segments(log.segments_between(self._segments, 0, self.end), self._range.end, self._settings)

    def clean(
        self,
        group: list[log.CleanerSegment],
        folder: str | None,
        offset_map: OffsetMap,
        workers: log.CleaningThreads,
        transactions: log.CleanedTransactions,
        advance: Callable[[int], None],
    ) -> CleanedGroup:
        """Cleans a group into one segment in ``folder`` (Cleaner.cleanSegments). ``transactions``: their state at the
        start of the group; ``advance`` receives the number of bytes read.

        Raises DamagedError, UnsupportedError, OSError.
        """
        counts, horizons = Counts(), Counter[int]()
        writer = SegmentWriter(folder, group[0].base_offset, self._settings.interval_bytes)
        try:
            for source in group:
                transactions.add(self.aborted_in(source))

                def filtering(
                    window: log.Window, keeps_tombstones: bool = source.mtime_ms > self._legacy_horizon_ms
                ) -> Callable[[log.RecordBuffers, log.Window], Filtered]:
                    """Windows come in the order of the segment; any thread may filter them."""
                    verdicts = self._verdicts(window, keeps_tombstones, transactions, horizons)
                    return partial(filter_window, offset_map, self._settings, keeps_tombstones, verdicts)

                for found in workers.each(source.path, self._buffers, filtering, advance):
                    counts.add(found.counts)
                    for piece in found.pieces:
                        writer.append(piece)
                if transactions.kept:
                    writer.add_aborted(build_transaction_index(transactions.kept))
                    transactions.kept = []
            written = writer.finish(group[-1].mtime_ns)
        except ValueError as error:
            raise UnsupportedError(
                f"{group[0].paths[LOG]}: its cleaned records do not fit in one segment: {error}"
            ) from error
        finally:
            writer.close()
        segment = log.CleanerSegment(group[0].base_offset, group[-1].mtime_ns, written.paths, written.sizes)
        return CleanedGroup(group, segment, Counter(counts.as_dict()), horizons)

    def _verdicts(
        self, window: log.Window, keeps_markers: bool, transactions: log.CleanedTransactions, horizons: Counter[int]
    ) -> memoryview:
        """Returns one verdict per batch from the transaction state; ``keeps_markers`` if file times decide. Counts the
        markers that wait for a horizon in ``horizons``."""
        numbers = transactions.discardable(window)
        found = log.as_verdicts(numbers, window.count)
        for i, attributes in enumerate(window.attributes if numbers else ()):
            if not attributes & CONTROL:
                continue
            found[i] = kernel.ALL
            if numbers[i] and self._settings.has_horizons:
                found[i] |= kernel.EMPTY_TXN
                horizon = self._settings.now_ms + self._settings.delete_retention_ms
                if attributes & DELETE_HORIZON:
                    horizon = window[i].base_timestamp
                if attributes & DELETE_HORIZON and horizon <= self._settings.now_ms:
                    found[i] |= kernel.DISCARD
                else:
                    horizons[horizon] += 1
            elif numbers[i] and not keeps_markers:
                found[i] |= kernel.DISCARD
        for i in self._producers.last_batches(window):
            found[i] |= kernel.KEEP_EMPTY
        end = self._range.kept_end
        if end is not None and window[-1].last_offset + 1 >= end and end - 1 in window.lasts:
            found[window.lasts.index(end - 1)] |= kernel.KEEP_EMPTY
        return found

    def aborted_in(self, source: log.CleanerSegment) -> list[AbortedTxn]:
        """Returns the aborted transactions with data in a segment."""
        return log.aborted_between(self._with_aborted, source.base_offset, self._behind[source.base_offset])
