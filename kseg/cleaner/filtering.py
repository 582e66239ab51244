"""What is left of the batches of one window, in a cleaning (Cleaner.cleanInto); may run on any thread."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kseg.cleaner.legacy import rebuilt
from kseg.cleaner.offset_map import OffsetMap
from kseg.cleaner.opening import RecordRooms, batch_bytes, open_message, open_records, refuse
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
    """``keeps_tombstones``: those of v0 and v1, and before 3.1 all others, may not go yet."""

    offset_map: OffsetMap
    settings: CleanerSettings
    keeps_tombstones: bool

    def filter(
        self, window: Window, verdicts: memoryview, rooms: RecordRooms, put: Callable[[Any], None]
    ) -> memoryview:
        """Hands new batches to ``put``, views that are valid while it runs; returns COUNTS (`kseg.kernel.survivors`).

        Raises DamagedError, and what ``put`` raises.
        """
        return _Filtering(self, window, verdicts, rooms, put).run()


class _Filtering:
    def __init__(
        self,
        manner: WindowFilter,
        window: Window,
        verdicts: memoryview,
        rooms: RecordRooms,
        put: Callable[[Any], None],
    ) -> None:
        self._map, self._settings, self._keeps_tombstones = manner.offset_map, manner.settings, manner.keeps_tombstones
        self._window, self._verdicts, self._rooms, self._put = window, verdicts, rooms, put
        self._state, self._numbers = int64s(16), int64s(16)

    def run(self) -> memoryview:
        window, rooms, settings, state = self._window, self._rooms, self._settings, self._state
        state[kernel.LATEST], state[kernel.NOW] = self._map.latest_offset, settings.now_ms
        state[kernel.RETENTION] = settings.delete_retention_ms
        state[kernel.LEGACY] = kernel.KEEP_FORMAT * settings.keeps_format
        state[kernel.LEGACY] |= kernel.KEEP_TOMBSTONES * self._keeps_tombstones
        state[kernel.LEGACY] |= kernel.BY_FILE_TIME * (not settings.has_horizons)
        opened: bytes | memoryview | None = None
        while True:
            status = kernel.survive(
                window.data, window.rows, window.count, self._verdicts, self._map.secret, self._map.table,
                self._map.state, rooms.rows, rooms.hashes, rooms.keep, rooms.out, state, self._numbers, rooms.room,
                opened,
            )  # fmt: skip
            opened, i = None, state[kernel.BATCH]
            if status == kernel.BAD:
                refuse(window, i, state[kernel.REASON])
            if status == kernel.PACK:
                self._pack(i)
            elif status == kernel.FULL:
                self._flush()
                if state[kernel.NEEDED] > len(rooms.out):
                    rooms.out = bytearray(2 * state[kernel.NEEDED])
            elif status == kernel.ROWS:
                rooms.widen(state[kernel.NEEDED])
            elif status == kernel.OPEN or (status == kernel.ROOM and not rooms.expand(window, i)):
                if window.rows[i * BATCH_WIDTH + BATCH_MAGIC] < 2:
                    self._flush()
                    self._take_message(i)
                    state[kernel.BATCH] = i + 1
                else:
                    opened = open_records(window, i, rooms)
            elif status == kernel.DONE:
                break
        self._flush()
        return self._numbers

    def _pack(self, i: int) -> None:
        """Compresses the records that the kernel has written, and completes their batch."""
        out, state = self._rooms.out, self._state
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
            with memoryview(self._rooms.out) as out:
                self._put(out[: self._state[kernel.OUT]])
            self._state[kernel.OUT] = 0

    def _take_message(self, i: int) -> None:
        settings = self._settings
        message = open_message(self._window, i, self._rooms)
        ends_log = settings.includes_active and bool(self._verdicts[i] & kernel.KEEP_EMPTY)
        horizon_ms = settings.now_ms + settings.delete_retention_ms
        data, kept = rebuilt(message, self._keeps, horizon_ms, settings.keeps_format, ends_log)
        self._count("kept", kept)
        is_same = data == message.data
        self._count("copied" if is_same else "rewritten" if data else "dropped", 1)
        if data:
            self._put(data)

    def _keeps(self, rows: Rows) -> bytes:
        """A 1 for each record of v0 or v1 that stays, else a 0 (Cleaner.shouldRetainRecord)."""
        rooms = self._rooms
        if rows.count * 2 > len(rooms.hashes):
            rooms.widen(rows.count)
        judge_rows(
            rows.payload, rows.rows, rows.count, self._keeps_tombstones, self._map.latest_offset, self._map.secret,
            self._map.table, self._map.state, rooms.hashes, rooms.keep, self._numbers,
        )  # fmt: skip
        return bytes(memoryview(rooms.keep)[: rows.count])

    def _count(self, name: str, number: int) -> None:
        self._numbers[kernel.COUNTS.index(name)] += number
