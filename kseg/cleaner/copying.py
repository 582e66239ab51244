"""Copies what survives of a group of segments into one new segment (Cleaner.cleanSegments, cleanInto)."""

from collections import Counter
from collections.abc import Callable, Sequence

from kseg.cleaner.legacy import rebuilt
from kseg.cleaner.log import Segment
from kseg.cleaner.offset_map import OffsetMap
from kseg.cleaner.opening import RecordRooms, batch_bytes, open_message, open_records, refuse
from kseg.cleaner.producers import Producers
from kseg.cleaner.reading import Window, windows
from kseg.cleaner.settings import CleanerSettings
from kseg.cleaner.transactions import CONTROL, CleanedTransactions, as_verdicts
from kseg.formats.compressing import compress, target_of
from kseg.formats.rows import int64s
from kseg.kernel import survivors as kernel
from kseg.kernel.native import BATCH_ATTRIBUTES, BATCH_BASE_TIMESTAMP, BATCH_LAST_OFFSET, BATCH_MAGIC, BATCH_WIDTH
from kseg.kernel.rewriting import seal
from kseg.segment.buffers import Buffers
from kseg.segment.items import Record
from kseg.segment.writer import SegmentWriter
from kseg.sidefiles.transaction_index import build_transaction_index

_HORIZON = 64
_HEADER_BYTES = 61


class GroupCopier:
    """Copies one group after the other of a round. ``counts``: `kseg.kernel.survivors`.COUNTS, of all so far.

    ``end``: the first offset that this round does not clean; ``legacy_horizon_ms``: tombstones of v0 and v1 in segments
    that were written later stay.
    """

    def __init__(
        self,
        offset_map: OffsetMap,
        producers: Producers,
        settings: CleanerSettings,
        end: int,
        legacy_horizon_ms: int,
        rooms: RecordRooms,
        advance: Callable[[int], None] = lambda _: None,
        transactions: CleanedTransactions | None = None,
    ) -> None:
        """``advance`` is told of bytes that are read; ``transactions``: what is known of them where it begins."""
        self._advance = advance
        self._map, self._producers, self._settings = offset_map, producers, settings
        self._end, self._legacy_horizon_ms, self._rooms = end, legacy_horizon_ms, rooms
        self._transactions = transactions or CleanedTransactions()
        self._numbers = int64s(16)
        self._keeps_tombstones = True

    @property
    def counts(self) -> Counter[str]:
        return Counter(dict(zip(kernel.COUNTS, self._numbers, strict=False)))

    @property
    def transactions(self) -> CleanedTransactions:
        return self._transactions

    def copy(self, segment: Segment, writer: SegmentWriter, buffers: Buffers) -> None:
        """Appends what is left of a segment. Raises DamagedError, OSError, ValueError where it does not fit."""
        self._keeps_tombstones = segment.mtime_ms > self._legacy_horizon_ms
        for window in windows(segment.path, buffers):
            self._filter(window, writer)
            self._advance(window.size)
        if self._transactions.kept:
            writer.add_aborted(build_transaction_index(self._transactions.kept))
            self._transactions.kept = []

    def _filter(self, window: Window, writer: SegmentWriter) -> None:
        rooms, settings, state = self._rooms, self._settings, int64s(16)
        state[kernel.LATEST], state[kernel.NOW] = self._map.latest_offset, settings.now_ms
        state[kernel.RETENTION] = settings.delete_retention_ms
        verdicts = self._verdicts(window)
        opened: bytes | memoryview | None = None
        while True:
            status = kernel.survive(
                window.data, window.rows, window.count, verdicts, self._map.secret, self._map.table, self._map.state,
                rooms.rows, rooms.hashes, rooms.keep, rooms.out, state, self._numbers, rooms.room, opened,
            )  # fmt: skip
            opened, i = None, state[kernel.BATCH]
            if status == kernel.BAD:
                refuse(window, i, state[kernel.REASON])
            if status == kernel.PACK:
                self._pack(window, i, state)
            elif status == kernel.FULL:
                self._flush(writer, state)
                if state[kernel.NEEDED] > len(rooms.out):
                    rooms.out = bytearray(2 * state[kernel.NEEDED])
            elif status == kernel.ROWS:
                rooms.widen(state[kernel.NEEDED])
            elif status == kernel.OPEN or (status == kernel.ROOM and not rooms.expand(window, i)):
                if window.rows[i * BATCH_WIDTH + BATCH_MAGIC] < 2:
                    self._flush(writer, state)
                    ends_log = settings.includes_active and bool(verdicts[i] & kernel.KEEP_EMPTY)
                    self._copy_message(window, i, ends_log, writer)
                    state[kernel.BATCH] = i + 1
                else:
                    opened = open_records(window, i, rooms)
            elif status == kernel.DONE:
                break
        self._flush(writer, state)

    def _verdicts(self, window: Window) -> memoryview:
        """What is known of the batches before their records are read."""
        rows, count = window.rows, window.count
        numbers = self._transactions.discardable(rows, count)
        found = as_verdicts(numbers, count)
        for i in range(count if numbers else 0):
            at = i * BATCH_WIDTH
            if not rows[at + BATCH_ATTRIBUTES] & CONTROL:
                continue
            is_over = rows[at + BATCH_BASE_TIMESTAMP] <= self._settings.now_ms
            found[i] = kernel.ALL
            if numbers[i]:
                found[i] |= kernel.EMPTY_TXN
                if rows[at + BATCH_ATTRIBUTES] & _HORIZON and is_over:
                    found[i] |= kernel.DISCARD
        for i in self._producers.last_batches(rows, count):
            found[i] |= kernel.KEEP_EMPTY
        if self._settings.keeps_log_end and rows[(count - 1) * BATCH_WIDTH + BATCH_LAST_OFFSET] + 1 >= self._end:
            ends = rows[BATCH_LAST_OFFSET : count * BATCH_WIDTH : BATCH_WIDTH].tolist()
            if self._end - 1 in ends:
                found[ends.index(self._end - 1)] |= kernel.KEEP_EMPTY
        return found

    def _pack(self, window: Window, i: int, state: memoryview) -> None:
        """Compresses the records that the kernel has written, and completes their batch."""
        out, at = self._rooms.out, state[kernel.OUT]
        start = at + _HEADER_BYTES
        attributes = state[kernel.ATTRIBUTES]
        area = compress(target_of(attributes & 7), bytes(out[start : start + state[kernel.AREA]]))
        end = start + len(area)
        if end > len(out):
            out.extend(bytes(end - len(out)))
        out[start:end] = area
        seal(
            out, at, end, batch_bytes(window, i), attributes, state[kernel.BASE_TIMESTAMP],
            state[kernel.MAX_TIMESTAMP], state[kernel.SURVIVORS],
        )  # fmt: skip
        state[kernel.OUT], state[kernel.BATCH] = end, i + 1

    def _flush(self, writer: SegmentWriter, state: memoryview) -> None:
        if state[kernel.OUT]:
            with memoryview(self._rooms.out) as out:
                writer.append(out[: state[kernel.OUT]])
            state[kernel.OUT] = 0

    def _copy_message(self, window: Window, i: int, ends_log: bool, writer: SegmentWriter) -> None:
        settings = self._settings
        message = open_message(window, i, self._rooms)
        horizon_ms = settings.now_ms + settings.delete_retention_ms
        data, kept = rebuilt(message, self._keeps, horizon_ms, settings.keeps_format, ends_log)
        self._count("kept", kept)
        self._count("rewritten" if data else "dropped", 1)
        if data:
            writer.append(data)

    def _keeps(self, record: Record) -> bool:
        """Cleaner.shouldRetainRecord for a record of v0 or v1."""
        self._count("records", 1)
        if record.offset > self._map.latest_offset:
            return True
        if record.key is None:
            self._count("no_key", 1)
        elif record.offset < self._map.get(record.key):
            self._count("superseded", 1)
        elif record.value is None and not self._keeps_tombstones:
            self._count("tombstones", 1)
        else:
            return True
        return False

    def _count(self, name: str, number: int) -> None:
        self._numbers[kernel.COUNTS.index(name)] += number


def group_bytes(group: Sequence[Segment]) -> int:
    return sum(segment.size for segment in group)
