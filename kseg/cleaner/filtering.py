"""Filters the batches of one window to the records that survive cleaning (Cleaner.cleanInto); thread-safe."""

from collections.abc import Callable
from dataclasses import dataclass

from kseg.cleaner.legacy import rebuilt
from kseg.cleaner.offset_map import OffsetMap
from kseg.cleaner.opening import RecordBuffers, batch_bytes, open_message, open_records, refuse
from kseg.cleaner.reading import Window
from kseg.cleaner.settings import CleanerSettings
from kseg.formats.compressing import compress, target_of
from kseg.formats.record_batch import HEADER_BYTES
from kseg.formats.rows import BytesLike, Rows
from kseg.kernel.compact import survivors as kernel
from kseg.kernel.compact.judging import Counts, judge_rows
from kseg.kernel.compact.rewriting import seal
from kseg.kernel.layout.headers import CODEC, MAGIC_V2
from kseg.kernel.layout.rows import BATCH_MAGIC, BATCH_WIDTH
from kseg.kernel.records.opening import DONE, MALFORMED, NEEDS_BUFFER, NEEDS_OPENING, OUTPUT_FULL, ROWS_FULL


@dataclass(frozen=True, slots=True)
class WindowFilter:
    """``keeps_tombstones``: tombstones of v0 and v1, and before 3.1 all tombstones, are kept."""

    offset_map: OffsetMap
    settings: CleanerSettings
    keeps_tombstones: bool

    def filter(
        self, window: Window, verdicts: memoryview, buffers: RecordBuffers, put: Callable[[BytesLike], None]
    ) -> Counts:
        """Passes new batches to ``put`` and returns the counts of the window.

        The batches are views, valid only during the call of ``put``. Raises DamagedError, and any error of ``put``.
        """
        return _Filtering(self, window, verdicts, buffers, put).run()


class _Filtering:
    def __init__(
        self,
        window_filter: WindowFilter,
        window: Window,
        verdicts: memoryview,
        buffers: RecordBuffers,
        put: Callable[[BytesLike], None],
    ) -> None:
        self._map, self._settings = window_filter.offset_map, window_filter.settings
        self._keeps_tombstones = window_filter.keeps_tombstones
        self._window, self._verdicts, self._buffers, self._put = window, verdicts, buffers, put
        settings = self._settings
        self._survivors = survivors = kernel.Survivors(self._map.keys, Counts())
        survivors.now_ms, survivors.retention_ms = settings.now_ms, settings.delete_retention_ms
        survivors.keeps_format, survivors.has_horizons = settings.keeps_format, settings.has_horizons
        survivors.keeps_tombstones = self._keeps_tombstones

    def run(self) -> Counts:
        window, buffers, survivors = self._window, self._buffers, self._survivors
        opened: bytes | memoryview | None = None
        while True:
            status = survivors.write(
                window.data, window.rows, window.count, self._verdicts, buffers.rows, buffers.keep, buffers.out,
                buffers.expansion, opened,
            )  # fmt: skip
            opened, i = None, survivors.batch
            if status == MALFORMED:
                refuse(window, i, survivors.reason)
            if status == kernel.NEEDS_PACKING:
                self._pack(i)
            elif status == OUTPUT_FULL:
                self._flush()
                if survivors.needed > len(buffers.out):
                    buffers.out = bytearray(2 * survivors.needed)
            elif status == ROWS_FULL:
                buffers.widen(survivors.needed)
            elif status == NEEDS_OPENING or (status == NEEDS_BUFFER and not buffers.expand(window, i)):
                if window.rows[i * BATCH_WIDTH + BATCH_MAGIC] < MAGIC_V2:
                    self._flush()
                    self._filter_message(i)
                    survivors.batch = i + 1
                else:
                    opened = open_records(window, i, buffers)
            elif status == DONE:
                break
        self._flush()
        return survivors.counts

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
            survivors.max_timestamp, survivors.records,
        )  # fmt: skip
        survivors.size, survivors.batch = end, i + 1

    def _flush(self) -> None:
        if self._survivors.size:
            with memoryview(self._buffers.out) as out:
                self._put(out[: self._survivors.size])
            self._survivors.size = 0

    def _filter_message(self, i: int) -> None:
        settings = self._settings
        message = open_message(self._window, i, self._buffers)
        ends_log = settings.includes_active and bool(self._verdicts[i] & kernel.KEEP_EMPTY)
        horizon_ms = settings.now_ms + settings.delete_retention_ms
        data, kept = rebuilt(message, self._keeps, horizon_ms, settings.keeps_format, ends_log)
        counts = self._survivors.counts
        counts.kept += kept
        if data == message.data:
            counts.copied += 1
        elif data:
            counts.rewritten += 1
        else:
            counts.dropped += 1
        if data:
            self._put(data)

    def _keeps(self, rows: Rows) -> bytes:
        """Returns a byte per v0 or v1 record, 1 if it survives, else 0 (Cleaner.shouldRetainRecord)."""
        buffers = self._buffers
        if rows.count > len(buffers.keep):
            buffers.widen(rows.count)
        judge_rows(
            self._map.keys, rows.payload, rows.rows, rows.count, self._keeps_tombstones, buffers.keep,
            self._survivors.counts,
        )  # fmt: skip
        return bytes(memoryview(buffers.keep)[: rows.count])
