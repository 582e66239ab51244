"""Filters the batches of one window to the records that survive cleaning (Cleaner.cleanInto); thread-safe."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kseg.cleaner.legacy import rebuilt
from kseg.cleaner.offset_map import OffsetMap
from kseg.cleaner.opening import RecordBuffers, batch_bytes, open_message, open_records, refuse
from kseg.cleaner.reading import Window
from kseg.cleaner.settings import CleanerSettings
from kseg.formats.compressing import compress, target_of
from kseg.formats.rows import Rows, int64s
from kseg.kernel import survivors as kernel
from kseg.kernel.judging import judge_rows
from kseg.kernel.native import BATCH_MAGIC, BATCH_WIDTH
from kseg.kernel.rewriting import seal

_HEADER_BYTES = 61


@dataclass(frozen=True, slots=True)
class WindowFilter:
    """``keeps_tombstones``: tombstones of v0 and v1, and before 3.1 all tombstones, are kept."""

    offset_map: OffsetMap
    settings: CleanerSettings
    keeps_tombstones: bool

    def filter(
        self, window: Window, verdicts: memoryview, buffers: RecordBuffers, put: Callable[[Any], None]
    ) -> memoryview:
        """Passes new batches to ``put`` and returns COUNTS (`kseg.kernel.survivors`).

        The batches are views, valid only during the call of ``put``. Raises DamagedError, and any error of ``put``.
        """
        return _Filtering(self, window, verdicts, buffers, put).run()


class _Filtering:
    def __init__(
        self,
        manner: WindowFilter,
        window: Window,
        verdicts: memoryview,
        buffers: RecordBuffers,
        put: Callable[[Any], None],
    ) -> None:
        self._map, self._settings, self._keeps_tombstones = manner.offset_map, manner.settings, manner.keeps_tombstones
        self._window, self._verdicts, self._buffers, self._put = window, verdicts, buffers, put
        self._state, self._numbers = int64s(16), int64s(16)

    def run(self) -> memoryview:
        window, buffers, settings, state = self._window, self._buffers, self._settings, self._state
        state[kernel.LATEST], state[kernel.NOW] = self._map.latest_offset, settings.now_ms
        state[kernel.RETENTION] = settings.delete_retention_ms
        state[kernel.LEGACY] = kernel.KEEP_FORMAT * settings.keeps_format
        state[kernel.LEGACY] |= kernel.KEEP_TOMBSTONES * self._keeps_tombstones
        state[kernel.LEGACY] |= kernel.BY_FILE_TIME * (not settings.has_horizons)
        opened: bytes | memoryview | None = None
        while True:
            status = kernel.survive(
                window.data, window.rows, window.count, self._verdicts, self._map.secret, self._map.table,
                self._map.state, buffers.rows, buffers.hashes, buffers.keep, buffers.out, state, self._numbers,
                buffers.room, opened,
            )  # fmt: skip
            opened, i = None, state[kernel.BATCH]
            if status == kernel.BAD:
                refuse(window, i, state[kernel.REASON])
            if status == kernel.PACK:
                self._pack(i)
            elif status == kernel.FULL:
                self._flush()
                if state[kernel.NEEDED] > len(buffers.out):
                    buffers.out = bytearray(2 * state[kernel.NEEDED])
            elif status == kernel.ROWS:
                buffers.widen(state[kernel.NEEDED])
            elif status == kernel.OPEN or (status == kernel.ROOM and not buffers.expand(window, i)):
                if window.rows[i * BATCH_WIDTH + BATCH_MAGIC] < 2:
                    self._flush()
                    self._filter_message(i)
                    state[kernel.BATCH] = i + 1
                else:
                    opened = open_records(window, i, buffers)
            elif status == kernel.DONE:
                break
        self._flush()
        return self._numbers

    def _pack(self, i: int) -> None:
        """Compresses the records written by the kernel, and completes their batch header."""
        out, state = self._buffers.out, self._state
        start, attributes = state[kernel.OUT] + _HEADER_BYTES, state[kernel.ATTRIBUTES]
        with memoryview(out) as whole:
            area = compress(target_of(attributes & 7), whole[start : start + state[kernel.AREA]])
        end = start + len(area)
        if end > len(out):
            out.extend(bytes(end - len(out)))
        out[start:end] = area
        seal(
            out, state[kernel.OUT], end, batch_bytes(self._window, i), attributes, state[kernel.BASE_TIMESTAMP],
            state[kernel.MAX_TIMESTAMP], state[kernel.SURVIVORS],
        )  # fmt: skip
        state[kernel.OUT], state[kernel.BATCH] = end, i + 1

    def _flush(self) -> None:
        if self._state[kernel.OUT]:
            with memoryview(self._buffers.out) as out:
                self._put(out[: self._state[kernel.OUT]])
            self._state[kernel.OUT] = 0

    def _filter_message(self, i: int) -> None:
        settings = self._settings
        message = open_message(self._window, i, self._buffers)
        ends_log = settings.includes_active and bool(self._verdicts[i] & kernel.KEEP_EMPTY)
        horizon_ms = settings.now_ms + settings.delete_retention_ms
        data, kept = rebuilt(message, self._keeps, horizon_ms, settings.keeps_format, ends_log)
        self._count("kept", kept)
        is_same = data == message.data
        self._count("copied" if is_same else "rewritten" if data else "dropped", 1)
        if data:
            self._put(data)

    def _keeps(self, rows: Rows) -> bytes:
        """Returns a byte per v0 or v1 record, 1 if it survives, else 0 (Cleaner.shouldRetainRecord)."""
        buffers = self._buffers
        if rows.count * 2 > len(buffers.hashes):
            buffers.widen(rows.count)
        judge_rows(
            rows.payload, rows.rows, rows.count, self._keeps_tombstones, self._map.latest_offset, self._map.secret,
            self._map.table, self._map.state, buffers.hashes, buffers.keep, self._numbers,
        )  # fmt: skip
        return bytes(memoryview(buffers.keep)[: rows.count])

    def _count(self, name: str, number: int) -> None:
        self._numbers[kernel.COUNTS.index(name)] += number
