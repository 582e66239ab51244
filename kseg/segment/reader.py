"""Turns the bytes of a segment into runs of frames and damage that tile it exactly: no overlap, no hole.

Frames are followed in the kernel (`kseg.kernel.frames`), thousands a call: those that are intact, and those whose CRC
or magic is wrong but whose length leads somewhere sound. Where the length itself is suspect, the next intact frame is
searched for, by structure and CRC, and what lies before it is damage; without one, the rest of the file is. Frames and
damage that hold bytes which the disk cannot give are damage of a kind of their own, "unreadable-bytes".

The kernel keeps both steps linear in the size of the file.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from kseg.formats.expansion import room
from kseg.formats.rows import Scratch, int64s
from kseg.kernel import frames as kernel
from kseg.kernel.expand import Room
from kseg.kernel.native import FRAME_MAGIC, FRAME_POSITION, FRAME_SIZE, FRAME_STATE, FRAME_WIDTH
from kseg.kernel.plausibility import claimed_end
from kseg.limits import FRAMES_PER_CALL, RUN_BYTES, SEARCH_BYTES, WINDOW_BYTES
from kseg.segment.batches import Batch, Message, Message07, RecordBatch
from kseg.segment.damage import describe
from kseg.segment.items import Damage
from kseg.segment.source import Source
from kseg.segment.unreadable import Range, named, overlapping

_FRAMES_AHEAD = 64

WALK_RECORDS, BELIEVE_CHECKSUMS, LONG_RUNS = 1, 2, 4
"""Look at the records (`kseg.kernel.frames`, RECORDS_RIGHT); follow headers alone; give longer runs of compressed
batches, to one who lays many open at a time."""

# Of the kernel's state (`kseg.kernel.frames`).
_NEXT, _FRAMES, _ANCHOR, _FILLED_C, _FILLED_IEEE = 0, 1, 2, 3, 4
_BUDGET, _MANNER, _LAST_OFFSET, _LARGEST = 5, 6, 8, 9

SHORT_TAIL_BYTES = 17
"""So many bytes at the end hold no magic; Kafka's readers stop there without an error (FileLogInputStream)."""

UNREADABLE = "unreadable-bytes"

LEAST_SIZE = 14
"""Below this a size field stops Kafka's readers (LegacyRecord.RECORD_OVERHEAD_V0)."""


class Run:
    """``count`` frames in ``rows`` (columns FRAME_*), end to end; those whose STATE is 0 are not intact.

    Valid until the reader is asked for more.
    """

    __slots__ = ("count", "rows")

    def __init__(self, rows: memoryview, count: int) -> None:
        self.rows = rows
        self.count = count

    @property
    def position(self) -> int:
        return self.rows[FRAME_POSITION]

    @property
    def end(self) -> int:
        last = (self.count - 1) * FRAME_WIDTH
        return self.rows[last + FRAME_POSITION] + self.rows[last + FRAME_SIZE]

    def part(self, first: int, stop: int) -> "Run":
        """The frames first to stop of it."""
        return Run(self.rows[first * FRAME_WIDTH :], stop - first)


def unreadable(ranges: list[Range], position: int, end: int) -> Damage:
    """The damage that covers ``[position, end)``, parts of which lie in the unreadable ``ranges``."""
    return Damage(UNREADABLE, position, end - position, named(overlapping(ranges, position, end)))


def around(item: "Run | Damage", ranges: list[Range]) -> Iterator["Run | Damage"]:
    """The item, what of it holds bytes of the unreadable ``ranges`` as damage."""
    if not overlapping(ranges, item.position, item.end):
        yield item
    elif isinstance(item, Damage):
        yield unreadable(ranges, item.position, item.end)
    else:
        yield from _around_frames(item, ranges)


def _around_frames(run: Run, ranges: list[Range]) -> Iterator[Run | Damage]:
    first = 0
    for i in range(run.count):
        frame = run.part(i, i + 1)
        if overlapping(ranges, frame.position, frame.end):
            if i > first:
                yield run.part(first, i)
            yield unreadable(ranges, frame.position, frame.end)
            first = i + 1
    if first < run.count:
        yield run.part(first, run.count)


class SegmentReader:
    """Reads one segment. ``era_07``: a .kafka file; ``base_offset``: the number in its name.

    With ``live`` the file is being written to: a partial batch at its end is no damage, and reading ends before it.
    ``manner``: WALK_RECORDS, BELIEVE_CHECKSUMS and LONG_RUNS or'ed together, 0 for none; ``run_bytes``: of a run,
    compressed ones counted eightfold, with LONG_RUNS twice.
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
        run_bytes: int = RUN_BYTES,
    ) -> None:
        self.source = source
        self.era_07 = era_07
        self.base_offset = base_offset
        self.live = live
        self.scratch = Scratch() if scratch is None else scratch
        self.end = source.size if max_bytes is None else min(source.size, max_bytes)
        self.is_cut = self.end < source.size
        self.start = 0
        self._frames_first = FRAMES_PER_CALL
        self._manner, self._run_bytes = manner, run_bytes

    # What follows is made when it is asked for first: a pass over an intact segment reads it in windows instead.

    @cached_property
    def _state(self) -> memoryview:
        state = int64s(kernel.STATE_SIZE)
        state[_ANCHOR] = state[_LAST_OFFSET] = -1
        state[_BUDGET] = self._run_bytes
        state[_MANNER] = self._manner
        return state

    @cached_property
    def _room(self) -> Room | None:
        return room(self.scratch.max_batch_bytes) if self._manner & WALK_RECORDS else None

    @cached_property
    def _tables(self) -> tuple[memoryview, memoryview]:
        return _table(1), _table(1)

    @cached_property
    def buffer(self) -> Any:
        """The bytes of the source, which it maps only for one who asks."""
        return self.source.buffer

    @cached_property
    def _rows(self) -> memoryview:
        return int64s(FRAMES_PER_CALL * FRAME_WIDTH)

    def begin_at(self, position: int, batch_before: int = -1) -> None:
        """Reads from ``position`` on, in steps of a frame at first that double: little more than what is asked for.

        What is damaged there is named after the offsets of the intact batch at ``batch_before``, if one is given.
        """
        self.start = position
        self._frames_first = 1
        self.source.expect_jumps(True)
        self._state[_ANCHOR] = self._state[_LAST_OFFSET] = -1
        self._state[_FILLED_C] = self._state[_FILLED_IEEE] = 0
        if batch_before >= 0:
            self._state[_NEXT], self._state[_LARGEST] = batch_before, self.scratch.max_batch_bytes
            row = self._rows[:FRAME_WIDTH]
            kernel.scan(self.buffer, position, row, self.era_07, *self._tables, self._state, self._room)

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

    def window(self, run: Run, first: int) -> tuple[Any, memoryview, int, int]:
        """The bytes of frames first to stop of a run for the kernel, as (bytes, rows, origin, stop).

        Positions in these rows count from the start of the bytes, which lie at ``origin`` in the file.
        """
        if isinstance(self.buffer, memoryview):
            return self.buffer, run.rows, 0, run.count
        rows = run.rows
        origin = rows[first * FRAME_WIDTH + FRAME_POSITION]
        stop = first + 1
        while stop < run.count and rows[stop * FRAME_WIDTH + FRAME_POSITION] - origin < WINDOW_BYTES:
            stop += 1
        last = (stop - 1) * FRAME_WIDTH
        end = rows[last + FRAME_POSITION] + rows[last + FRAME_SIZE]
        moved = int64s(stop * FRAME_WIDTH)
        moved[:] = rows[: stop * FRAME_WIDTH]
        for i in range(first, stop):
            moved[i * FRAME_WIDTH + FRAME_POSITION] -= origin
        return self.buffer[origin:end], moved, origin, stop

    def runs(self) -> Iterator[Run | Damage]:
        """The same items with batches as runs of frames."""
        lost: Damage | None = None
        for item in self._followed():
            for part in around(item, self.source.unreadable) if self.source.unreadable else (item,):
                if isinstance(part, Damage) and part.code == UNREADABLE:
                    lost = part if lost is None else unreadable(self.source.unreadable, lost.position, part.end)
                    continue
                if lost is not None:
                    yield lost
                    lost = None
                yield part
        if lost is not None:
            yield lost

    def _followed(self) -> Iterator[Run | Damage]:
        """As `runs`, whatever of it is unreadable."""
        position, frames = self.start, self._frames_first
        while position < self.end:
            last_offset = self._state[_LAST_OFFSET]
            self._state[_NEXT], self._state[_LARGEST] = position, self.scratch.max_batch_bytes
            rows = self._rows[: frames * FRAME_WIDTH]
            if self._frames_first < frames == _FRAMES_AHEAD:
                self.source.expect_jumps(False)
            frames = min(2 * frames, FRAMES_PER_CALL)
            status = kernel.scan(self.buffer, self.end, rows, self.era_07, *self._tables, self._state, self._room)
            count, reached = self._state[_FRAMES], self._state[_NEXT]
            if self._has_shrunk() and reached > self.end:
                self._state[_LAST_OFFSET] = last_offset
                continue
            if self._meets_unreadable(last_offset):
                continue
            if count:
                yield Run(self._rows, count)
                position = reached
            if status == kernel.IRREGULAR and position < self.end:
                if self._state[_ANCHOR] < 0:
                    self._use_tables(position)
                    continue
                damage = self._damage(position)
                if damage is None or self._meets_unreadable(last_offset if not count else self._state[_LAST_OFFSET]):
                    continue
                if self._is_awaited(damage):
                    self.end = damage.position
                    return
                yield damage
                position = damage.end

    def frame_at(self, position: int) -> Run | None:
        """The intact frame that begins at ``position``, None where none does. Ends the validity of earlier runs."""
        self.source.expect_jumps(True)
        largest = self.scratch.max_batch_bytes
        if not 0 <= position < self.end or not claimed_end(self.buffer, position, self.end, self.era_07, largest):
            return None
        self._state[_NEXT], self._state[_LARGEST] = position, 0
        row = self._rows[:FRAME_WIDTH]
        kernel.scan(self.buffer, self.end, row, self.era_07, *self._tables, self._state)
        run = Run(self._rows, 1)
        if not self._state[_FRAMES] or self._has_shrunk() or self._meets_unreadable(self._state[_LAST_OFFSET]):
            return None
        return None if overlapping(self.source.unreadable, run.position, run.end) else run

    def _meets_unreadable(self, last_offset: int) -> bool:
        """Whether bytes could not be read for the first time: what was read last is to be read again, behind a batch
        with that offset."""
        if not self.source.look_for_unreadable():
            return False
        self.__dict__.pop("buffer", None)
        self._tables = _table(1), _table(1)
        self._state[_ANCHOR] = -1
        self._state[_FILLED_C] = self._state[_FILLED_IEEE] = 0
        self._state[_LAST_OFFSET] = last_offset
        return True

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

    def _use_tables(self, position: int) -> None:
        """From the first irregular frame on, CRCs of long frames come from prefix CRCs."""
        entries = (self.end - position) // 256 + 2
        self._tables = (_table(entries), _table(entries))
        self._state[_ANCHOR] = position

    def _damage(self, position: int) -> Damage | None:
        """The damage that begins at a position where no batch does; None where the file has shrunk meanwhile."""
        following = self._find_behind(position)
        if self._has_shrunk():
            return None
        stop = self.end if following < 0 else following
        return describe(self.buffer, position, stop, following >= 0, self.era_07, self._state[_LAST_OFFSET])

    def _find_behind(self, position: int) -> int:
        """Where the next intact frame begins behind an irregular entry, -1 if none does."""
        start = position + 1
        while start < self.end:
            stop = min(start + SEARCH_BYTES, self.end)
            found = kernel.find(self.buffer, start, stop, self.end, self.era_07, *self._tables, self._state, position)
            if found >= 0 or self.source.current_size() < self.end:
                return found
            start = self._state[_NEXT]
        return -1


def _table(entries: int) -> memoryview:
    """Room for prefix CRCs."""
    return memoryview(bytearray(4 * entries)).cast("I")
