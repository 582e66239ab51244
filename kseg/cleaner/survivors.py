"""Copies the surviving records of a group of segments into one new segment (Cleaner.cleanSegments, cleanInto)."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Self

from kseg.cleaner.active_producers import Producers
from kseg.cleaner.log import CleanerSegment
from kseg.cleaner.offset_map import OffsetMap
from kseg.cleaner.reading import CleaningThreads, RecordBuffers, Window, batch_bytes, open_batch, windows
from kseg.cleaner.settings import CleanerSettings
from kseg.cleaner.transactions import CleanedTransactions, as_verdicts
from kseg.formats.areas import NONE, Area, build_batch, build_wrapper
from kseg.formats.compressing import compress, target_of
from kseg.formats.record_batch import HEADER_BYTES, RecordBatchHeader
from kseg.formats.rows import Rows
from kseg.kernel.compact import survivors as kernel
from kseg.kernel.compact.survivors import Counts, judge_rows
from kseg.kernel.layout.headers import CODEC, CONTROL, DELETE_HORIZON, LOG_APPEND_TIME
from kseg.kernel.layout.rows import DONE, FULL, MORE_ROWS, NEEDS_PACKING, ROW_OFFSET, ROW_VALUE_SIZE, ROW_WIDTH
from kseg.kernel.records.building import seal
from kseg.segment.batches import Message
from kseg.segment.writer import SegmentWriter
from kseg.sidefiles.indexes import build_transaction_index
from kseg.stores.buffers import Buffers

# v0 and v1 messages: survivors become v2 batches (KIP-724), or, up to 3.9, keep their format.


def rebuilt(
    message: Message, keeps: Callable[[Rows], bytes], horizon_ms: int, keeps_format: bool, ends_log: bool = False
) -> tuple[bytes, int]:
    """Returns the survivors of an intact message (b"" if there are none), and their number.

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
    header, area = message.header, Area(2)
    has_tombstone = _has_tombstone(message, kept)
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


def _has_tombstone(message: Message, kept: bytes) -> bool:
    first = 0
    for rows in message.rows():
        sizes = rows.rows[ROW_VALUE_SIZE : rows.count * ROW_WIDTH : ROW_WIDTH].tolist()
        if any(size < 0 and kept[first + row] for row, size in enumerate(sizes)):
            return True
        first += rows.count
    return False


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
    return int(rows.rows[row * ROW_WIDTH + ROW_OFFSET])


# The batches of one window, filtered to the records that survive cleaning (Cleaner.cleanInto); thread-safe.


class _WindowFilter:
    """Filters one window. ``pieces``: the new batches; ``counts``: of the window.

    ``keeps_tombstones``: tombstones of v0 and v1, and before 3.1 all tombstones, are kept.
    """

    def __init__(
        self,
        offset_map: OffsetMap,
        settings: CleanerSettings,
        keeps_tombstones: bool,
        window: Window,
        verdicts: memoryview,
        buffers: RecordBuffers,
    ) -> None:
        self._map, self._settings, self._keeps_tombstones = offset_map, settings, keeps_tombstones
        self._window, self._verdicts, self._buffers = window, verdicts, buffers
        self.pieces: list[bytes] = []
        self.counts = Counts()
        self._survivors = survivors = kernel.Survivors(offset_map.keys, self.counts)
        survivors.now_ms, survivors.retention_ms = settings.now_ms, settings.delete_retention_ms
        survivors.keeps_format, survivors.has_horizons = settings.keeps_format, settings.has_horizons
        survivors.keeps_tombstones = keeps_tombstones

    def run(self) -> Self:
        """Raises DamagedError."""
        window, buffers, survivors = self._window, self._buffers, self._survivors
        opened: Any = None
        while True:
            status = survivors.write(
                window.data, window.rows, window.count, self._verdicts, buffers.rows, buffers.keep, buffers.out,
                buffers.expansion, opened,
            )  # fmt: skip
            i, opened = survivors.frame, None
            if status == NEEDS_PACKING:
                self._pack(i)
            elif status == FULL:
                self._flush()
                if survivors.needed > len(buffers.out):
                    buffers.out = bytearray(2 * survivors.needed)
            elif status == MORE_ROWS:
                buffers.widen(survivors.needed)
            elif status == DONE:
                self._flush()
                return self
            else:
                opened = open_batch(window, i, buffers)
                if isinstance(opened, Message):
                    self._flush()
                    self._filter_message(i, opened)
                    survivors.go_to(i + 1)
                    opened = None

    def _pack(self, i: int) -> None:
        """Compresses the records written by the kernel, and completes their batch header."""
        out, survivors = self._buffers.out, self._survivors
        start, attributes = survivors.size + HEADER_BYTES, survivors.attributes
        with memoryview(out) as whole:
            area = compress(target_of(attributes & CODEC), whole[start : start + survivors.area_size])
        end = start + len(area)
        if end > len(out):
            out.extend(bytes(end - len(out)))
        out[start:end] = area
        seal(
            out, survivors.size, end, batch_bytes(self._window, i), attributes, survivors.base_timestamp,
            survivors.max_timestamp, survivors.kept,
        )  # fmt: skip
        survivors.size = end
        survivors.go_to(i + 1)

    def _flush(self) -> None:
        if self._survivors.size:
            with memoryview(self._buffers.out) as out:
                self.pieces.append(bytes(out[: self._survivors.size]))
            self._survivors.size = 0

    def _filter_message(self, i: int, message: Message) -> None:
        settings = self._settings
        ends_log = settings.includes_active and bool(self._verdicts[i] & kernel.KEEP_EMPTY)
        horizon_ms = settings.now_ms + settings.delete_retention_ms
        data, kept = rebuilt(message, self._keeps, horizon_ms, settings.keeps_format, ends_log)
        counts = self.counts
        counts.kept += kept
        if data == message.data:
            counts.copied += 1
        elif data:
            counts.rewritten += 1
        else:
            counts.dropped += 1
        if data:
            self.pieces.append(data)

    def _keeps(self, rows: Rows) -> bytes:
        """Returns a byte per v0 or v1 record, 1 if it survives, else 0 (Cleaner.shouldRetainRecord)."""
        buffers = self._buffers
        if rows.count > len(buffers.keep):
            buffers.widen(rows.count)
        judge_rows(
            self._map.keys, rows.payload, rows.rows, rows.count, self._keeps_tombstones, buffers.keep,
            self.counts,
        )  # fmt: skip
        return bytes(memoryview(buffers.keep)[: rows.count])


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
        self.transactions = transactions or CleanedTransactions()
        self._counts = Counts()

    @property
    def counts(self) -> Counter[str]:
        return Counter(self._counts.as_dict())

    def copy(self, segment: CleanerSegment, writer: SegmentWriter, buffers: Buffers) -> None:
        """Appends the survivors of a segment. Raises DamagedError, OSError, and ValueError if they do not fit."""
        keeps_tombstones = segment.mtime_ms > self._legacy_horizon_ms
        for window in windows(segment.path, buffers):
            self._filter(window, keeps_tombstones, writer)
            self._advance(window.size)
        self._append(self._workers.drain(), writer)
        if self.transactions.kept:
            writer.add_aborted(build_transaction_index(self.transactions.kept))
            self.transactions.kept = []

    def _filter(self, window: Window, keeps_tombstones: bool, writer: SegmentWriter) -> None:
        """Filters a window, and appends those survivors of this and earlier windows that are ready."""
        verdicts = self._verdicts(window, keeps_tombstones)

        def work(buffers: RecordBuffers, kept: Window) -> _WindowFilter:
            return _WindowFilter(self._map, self._settings, keeps_tombstones, kept, verdicts, buffers).run()

        self._append(self._workers.submit(window, work), writer)

    def _append(self, ready: Iterable[_WindowFilter], writer: SegmentWriter) -> None:
        for found in ready:
            self._counts.add(found.counts)
            for piece in found.pieces:
                writer.append(piece)

    def _verdicts(self, window: Window, keeps_markers: bool) -> memoryview:
        """Returns one verdict per batch from the transaction state; ``keeps_markers`` if file times decide."""
        numbers = self.transactions.discardable(window)
        found = as_verdicts(numbers, window.count)
        for i, attributes in enumerate(window.attributes if numbers else ()):
            if not attributes & CONTROL:
                continue
            found[i] = kernel.ALL
            if numbers[i] and self._settings.has_horizons:
                found[i] |= kernel.EMPTY_TXN
                if attributes & DELETE_HORIZON and window[i].base_timestamp <= self._settings.now_ms:
                    found[i] |= kernel.DISCARD
            elif numbers[i] and not keeps_markers:
                found[i] |= kernel.DISCARD
        for i in self._producers.last_batches(window):
            found[i] |= kernel.KEEP_EMPTY
        end = self._kept_end
        if end is not None and window[-1].last_offset + 1 >= end and end - 1 in window.lasts:
            found[window.lasts.index(end - 1)] |= kernel.KEEP_EMPTY
        return found
