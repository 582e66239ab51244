"""Turns the bytes of a segment into runs of frames and damage that tile it exactly: no overlap, no hole.

Intact frames are followed in the kernel, thousands a call. Where one is not intact there are three outcomes:

1. Its length leads somewhere sound (the end of the file, a header that goes on from it, an intact frame): it is a batch
   all the same, one whose CRC or magic is wrong.
2. Its length is suspect: the next intact frame is searched for, by structure and CRC; what lies before it is damage.
3. No intact frame follows: the rest of the file is damage.

The kernel keeps both steps linear in the size of the file (`kseg.kernel.frames`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kseg.formats import record_batch, v07
from kseg.formats.libzstd import room
from kseg.formats.rows import Scratch, int64s
from kseg.kernel import frames as kernel
from kseg.kernel.expand import Room
from kseg.kernel.native import FRAME_MAGIC, FRAME_POSITION, FRAME_SIZE, FRAME_STATE, FRAME_WIDTH, be32, be64
from kseg.limits import FRAMES_PER_CALL, RUN_BYTES, SEARCH_BYTES
from kseg.segment.batches import Batch, Message, Message07, RecordBatch
from kseg.segment.damage import compressed_bytes, continues, describe, last_offset_claimed
from kseg.segment.items import Damage
from kseg.segment.source import Source

_FRAMES_AHEAD = 64

WALK_RECORDS, BELIEVE_CHECKSUMS = 1, 2
"""Look at the records (`kseg.kernel.frames`, RECORDS_RIGHT); follow headers alone."""

SHORT_TAIL_BYTES = 17
"""So many bytes at the end hold no magic; Kafka's readers stop there without an error (FileLogInputStream)."""

LEAST_SIZE = 14
"""Below this a size field stops Kafka's readers (LegacyRecord.RECORD_OVERHEAD_V0)."""


@dataclass(slots=True)
class Run:
    """``count`` frames in ``rows`` (columns FRAME_*), end to end. Valid until the reader is asked for more."""

    rows: memoryview
    count: int

    @property
    def position(self) -> int:
        return self.rows[FRAME_POSITION]

    @property
    def end(self) -> int:
        last = (self.count - 1) * FRAME_WIDTH
        return self.rows[last + FRAME_POSITION] + self.rows[last + FRAME_SIZE]


class SegmentReader:
    """Reads one segment. ``era_07``: a .kafka file; ``base_offset``: the number in its name.

    With ``live`` the file is being written to: a partial batch at its end is no damage, and reading ends before it.
    ``manner``: WALK_RECORDS and BELIEVE_CHECKSUMS or'ed together, 0 for neither.
    ``end`` after reading is how far the items reach. They tile the file from ``start`` on, where `begin_at` has moved
    it.
    """

    def __init__(
        self,
        source: Source,
        era_07: bool = False,
        base_offset: int = 0,
        live: bool = False,
        max_bytes: int | None = None,
        scratch: Scratch | None = None,
        manner: int = 0,
    ) -> None:
        self.source = source
        self.buffer: Any = source.buffer
        self.era_07 = era_07
        self.base_offset = base_offset
        self.live = live
        self.scratch = scratch or Scratch()
        self.end = source.size if max_bytes is None else min(source.size, max_bytes)
        self.is_cut = self.end < source.size
        self.start = 0
        self._frames_first = FRAMES_PER_CALL
        self._rows = int64s(FRAMES_PER_CALL * FRAME_WIDTH)
        self._state = int64s(8)
        self._state[2] = -1
        self._state[5] = RUN_BYTES
        self._state[6] = manner
        self._room = room(self.scratch.max_batch_bytes) if manner & WALK_RECORDS else None
        self._tables = (_table(1), _table(1))
        self._last_offset = -1

    def begin_at(self, position: int) -> None:
        """Reads from ``position`` on, in steps of a frame at first that double: little more than what is asked for."""
        self.start = position
        self._frames_first = 1
        self.source.expect_jumps(True)
        self._last_offset = -1
        self._state[2], self._state[3], self._state[4] = -1, 0, 0

    def __iter__(self) -> Iterator[Batch | Damage]:
        """Every item in order; the batches own their bytes."""
        for item in self.runs():
            if isinstance(item, Damage):
                yield item
            else:
                for i in range(item.count):
                    yield self.batch(item, i)

    def batch(
        self, run: Run, i: int, keep: bool = True, scratch: Scratch | None = None, shared: Room | None = None
    ) -> Batch:
        """Frame i of a run as a Batch; without ``keep`` its bytes may be a view that ends with the source.

        Another thread than the reader's gives a ``scratch`` of its own, and a room to be ``shared`` (see Batch) or
        none. What a wrong CRC covers is not expanded there: versions of libzstd differ about bad streams.
        """
        at = i * FRAME_WIDTH
        position, size, magic = run.rows[at + FRAME_POSITION], run.rows[at + FRAME_SIZE], run.rows[at + FRAME_MAGIC]
        data = self.buffer[position : position + size]
        is_valid = bool(run.rows[at + FRAME_STATE] & kernel.CRC_RIGHT)
        kind = Message07 if self.era_07 else RecordBatch if magic >= 2 else Message
        batch = kind(bytes(data) if keep else data, position, size, magic, is_valid, scratch or self.scratch)
        if isinstance(batch, Message07):
            batch.file_base = self.base_offset
        if is_valid:
            batch.room = shared
        return batch

    def runs(self) -> Iterator[Run | Damage]:
        """The same items with batches as runs of frames."""
        position, frames = self.start, self._frames_first
        while position < self.end:
            self._state[0] = position
            rows = self._rows[: frames * FRAME_WIDTH]
            if self._frames_first < frames == _FRAMES_AHEAD:
                self.source.expect_jumps(False)
            frames = min(2 * frames, FRAMES_PER_CALL)
            status = kernel.scan(self.buffer, self.end, rows, self.era_07, *self._tables, self._state, self._room)
            count, reached = self._state[1], self._state[0]
            if self._has_shrunk() and reached > self.end:
                continue
            if count:
                run = Run(self._rows, count)
                self._last_offset = self._last_offset_of(run)
                yield run
                position = reached
            if status == kernel.IRREGULAR and position < self.end:
                item = self._irregular(position)
                if item is None:
                    continue
                if isinstance(item, Damage) and self._is_awaited(item):
                    self.end = item.position
                    return
                yield item
                position = item.end

    def frame_at(self, position: int) -> Run | None:
        """The intact frame that begins at ``position``, None where none does. Ends the validity of earlier runs."""
        self.source.expect_jumps(True)
        if not 0 <= position < self.end or not self._claimed_end(position):
            return None
        self._state[0] = position
        row = self._rows[:FRAME_WIDTH]
        kernel.scan(self.buffer, self.end, row, self.era_07, *self._tables, self._state)
        return Run(self._rows, 1) if self._state[1] and not self._has_shrunk() else None

    def _has_shrunk(self) -> bool:
        size = self.source.current_size()
        if size < self.end:
            self.end = size
            return True
        return False

    def _is_awaited(self, damage: Damage) -> bool:
        """Whether it is the part of a batch that a live broker (or --max-bytes) is just about to complete."""
        if damage.end != self.end:
            return False
        return (damage.code == "truncated-batch" and (self.live or self.is_cut)) or (
            damage.code == "zero-block" and self.live
        )

    def _last_offset_of(self, run: Run) -> int:
        position = run.rows[(run.count - 1) * FRAME_WIDTH + FRAME_POSITION]
        if self.era_07:
            return -1
        offset = be64(self._bytes(position, 8), 0)
        if run.rows[(run.count - 1) * FRAME_WIDTH + FRAME_MAGIC] >= 2:
            offset += be32(self._bytes(position + 23, 4), 0)
        return offset

    def _bytes(self, position: int, size: int) -> bytes:
        return bytes(self.buffer[position : min(position + size, self.end)])

    def _irregular(self, position: int) -> Run | Damage | None:
        """What is at a position where no intact frame begins."""
        self._use_tables(position)
        after = self._claimed_end(position)
        if after and self._leads_on(position, after):
            return self._single(position, after - position)
        following = self._find_behind(position)
        if self._has_shrunk():
            return None
        if after and following == after:
            return self._single(position, after - position)
        stop = self.end if following < 0 else following
        return describe(self.buffer, position, stop, following >= 0, self.era_07, self._last_offset)

    def _use_tables(self, position: int) -> None:
        """From the first irregular frame on, CRCs of long frames come from prefix CRCs."""
        if self._state[2] < 0:
            entries = (self.end - position) // 256 + 2
            self._tables = (_table(entries), _table(entries))
            self._state[2] = position

    def _claimed_end(self, position: int) -> int:
        """Where the length field at position leads if that is in the file and the entry can hold its header, else 0."""
        if self.era_07:
            if self.end - position < v07.LEAST_BYTES:
                return 0
            head = self._bytes(position, 5)
            size, magic = be32(head, 0), head[4]
            least, after = 5 + (magic != 0), position + 4 + size
        else:
            if self.end - position <= SHORT_TAIL_BYTES:
                return 0
            head = self._bytes(position, 17)
            size, magic = be32(head, 8), head[16]
            least, after = (49 if 2 <= magic < 128 else 14 if magic == 0 else 22), position + 12 + size
        # A length beyond what a batch may take is not believed on its own word: the CRC was wrong.
        fits = least <= size <= self.scratch.max_batch_bytes and after <= self.end
        return after if fits else 0

    def _leads_on(self, position: int, after: int) -> bool:
        if after == self.end:
            return True
        if self._find(after, after + 1) == after:
            return True
        if self.era_07:
            return False
        last_offset = last_offset_claimed(self._bytes(position, record_batch.HEADER_BYTES))
        is_tail = self.end - after <= SHORT_TAIL_BYTES
        if not is_tail and not continues(self._bytes(after, record_batch.HEADER_BYTES), last_offset):
            return False
        # An intact batch before that end speaks against the length, and must not be lost to it.
        return self._find_behind(position, after) < 0

    def _find_behind(self, position: int, stop: int | None = None) -> int:
        """The next intact frame behind an irregular entry, -1 without one; not a message inside a compressed one.

        lz4 and snappy leave messages readable. One of those is not compressed, and its offset (absolute in v0, relative
        in v1) does not go beyond that of the message around it.
        """
        found = self._find(position + 1, stop)
        if self.era_07 or found < 0:
            return found
        head = self._bytes(position, record_batch.HEADER_BYTES)
        inside = position + compressed_bytes(head, self._last_offset)
        while 0 <= found < inside:
            inner = self._bytes(found, record_batch.HEADER_BYTES)
            if inner[16] > 1 or inner[17] & 7 or 0 < be64(inner, 0) - be64(head, 0) < 1 << 31:
                break
            found = self._find(found + 12 + be32(inner, 8), stop)
        return found

    def _find(self, start: int, stop: int | None = None) -> int:
        """The next position of an intact frame, -1 if there is none."""
        stop = self.end if stop is None else stop
        while start < stop:
            until = min(start + SEARCH_BYTES, stop)
            found = kernel.find(self.buffer, start, until, self.end, self.era_07, *self._tables, self._state)
            if found >= 0:
                return found
            if self.source.current_size() < self.end:
                return -1
            start = until
        return -1

    def _single(self, position: int, size: int) -> Run:
        magic = self.buffer[position + 4] if self.era_07 else self.buffer[position + 16]
        self._rows[FRAME_POSITION], self._rows[FRAME_SIZE] = position, size
        self._rows[FRAME_MAGIC] = magic - 256 if magic > 127 else magic
        self._rows[FRAME_STATE] = 0
        run = Run(self._rows, 1)
        if not self.era_07 and continues(self._bytes(position, record_batch.HEADER_BYTES), self._last_offset):
            self._last_offset = self._last_offset_of(run)
        return run


def _table(entries: int) -> memoryview:
    """Room for prefix CRCs."""
    return memoryview(bytearray(4 * entries)).cast("I")
