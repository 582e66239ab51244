"""Divides a segment into runs of frames and damage that tile it exactly, without overlap or gap.

The kernel follows frames (`kseg.kernel.scan.frames`), thousands per call: intact ones, and those with a wrong CRC or
magic whose length leads to a plausible frame or to the end. If the length itself is suspect, the kernel searches for
the next intact frame by structure and CRC. The bytes before it are damage; if there is none, the rest of the file is.
Frames and damage with bytes that the disk cannot read become damage of the kind "unreadable-bytes".

The kernel keeps both steps linear in the size of the file.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby
from typing import Any, Self

from kseg.formats import message_set, v07
from kseg.formats.compression import expansion_buffer
from kseg.formats.record_batch import HEADER_BYTES, offsets_of
from kseg.formats.rows import BytesLike, Scratch, Sliceable, int64s
from kseg.kernel.codecs.expand import ExpansionBuffer
from kseg.kernel.layout.headers import ENTRY_MAGIC, ENTRY_OVERHEAD, ENTRY_SIZE, LEGACY_CRC, MAGIC_V2, V2_CRC
from kseg.kernel.layout.rows import (
    BATCH_WIDTH,
    CRC_RIGHT,
    FRAME_MAGIC,
    FRAME_POSITION,
    FRAME_SIZE,
    FRAME_STATE,
    FRAME_WIDTH,
    IRREGULAR,
    be32,
    be64,
)
from kseg.kernel.scan import frames as kernel
from kseg.kernel.scan import headers
from kseg.kernel.scan.checksums import crc32, crc32c
from kseg.kernel.scan.frames import WALK_RECORDS, FrameScan
from kseg.limits import FRAMES_PER_CALL, MAX_BATCH_BYTES, RUN_BYTES, SEARCH_BYTES, WINDOW_BYTES
from kseg.segment.files import SegmentFile
from kseg.segment.items import Batch, Damage, Message, Message07, RecordBatch
from kseg.stores.extent import NEAR_BYTES, Extent, next_data
from kseg.stores.source import Source, UnreadableRange, named, open_source, overlapping

_FRAMES_AHEAD = 64

_LEADING_ZEROS = 64
"""More zeros than a frame may begin with."""

UNREADABLE = "unreadable-bytes"
_BROKEN_FRAMES = ("truncated-batch", "bad-length")


@dataclass(slots=True, eq=False)
class Run:
    """``count`` adjacent frames in ``rows`` (columns FRAME_*); a frame with STATE 0 is not intact.

    Valid until the reader's next item. ``previous``: the position of the frame before the first, -1 if unknown.
    """

    rows: memoryview
    count: int
    previous: int = -1

    @property
    def position(self) -> int:
        return self.rows[FRAME_POSITION]

    @property
    def positions(self) -> memoryview:
        return self.rows[FRAME_POSITION : self.count * FRAME_WIDTH : FRAME_WIDTH]

    @property
    def end(self) -> int:
        last = (self.count - 1) * FRAME_WIDTH
        return self.rows[last + FRAME_POSITION] + self.rows[last + FRAME_SIZE]

    def part(self, first: int, stop: int) -> "Run":
        """Returns the frames ``first`` to ``stop`` (exclusive)."""
        return Run(self.rows[first * FRAME_WIDTH : stop * FRAME_WIDTH], stop - first, self.position_before(first))

    def pieces(self, piece_bytes: int) -> "Iterator[Run]":
        """Yields runs of about ``piece_bytes``, at least one batch each."""
        starts, first = self.positions, 0
        while first < self.count:
            stop = bisect_left(starts, starts[first] + piece_bytes, first + 1)
            yield self.part(first, stop)
            first = stop

    def copied(self) -> "Run":
        """Returns a run that stays valid."""
        rows = int64s(self.count * FRAME_WIDTH)
        rows[:] = self.rows[: self.count * FRAME_WIDTH]
        return Run(rows, self.count, self.previous)

    def position_before(self, i: int) -> int:
        """Returns the position of the frame before frame i, -1 if unknown."""
        return self.rows[(i - 1) * FRAME_WIDTH + FRAME_POSITION] if i else self.previous


def unreadable(ranges: list[UnreadableRange], position: int, end: int) -> Damage:
    """Returns the damage that covers ``[position, end)`` and overlaps the unreadable ``ranges``."""
    return Damage(UNREADABLE, position, end - position, named(overlapping(ranges, position, end)))


def around(item: "Run | Damage", ranges: list[UnreadableRange]) -> Iterator["Run | Damage"]:
    """Yields the item, with frames or damage that overlap the unreadable ``ranges`` as damage."""
    if not overlapping(ranges, item.position, item.end):
        yield item
        return
    if isinstance(item, Damage):
        yield unreadable(ranges, item.position, item.end)
        return
    first, frames = 0, (item.part(i, i + 1) for i in range(item.count))
    for is_lost, group in groupby(frames, lambda frame: bool(overlapping(ranges, frame.position, frame.end))):
        part = item.part(first, first + len(list(group)))
        yield unreadable(ranges, part.position, part.end) if is_lost else part
        first += part.count


def open_segment(
    file: SegmentFile | str,
    scratch: Scratch | None = None,
    *,
    source: Source | None = None,
    base_offset: int | None = None,
    is_07: bool = False,
    live: bool = False,
    max_bytes: int | None = None,
    scan_options: int = 0,
    run_bytes: int = RUN_BYTES,
) -> "SegmentReader":
    """Returns a reader of a file; used in a `with` statement, it closes the file. Raises PathError.

    The name of a `SegmentFile` gives ``base_offset`` and ``is_07``; a path alone gives neither. ``source``: the bytes
    of the file, if they are open already. See `SegmentReader` for the rest.
    """
    if not isinstance(file, str):
        is_07 = is_07 or file.is_07
        base_offset = file.base_offset if base_offset is None else base_offset
    if source is None:
        source = open_source(file if isinstance(file, str) else file.path)
    return SegmentReader(source, is_07, base_offset or 0, live, max_bytes, scratch, scan_options, run_bytes)


class SegmentReader:
    """Reads one segment. ``is_07``: a .kafka file; ``base_offset``: the number in its name.

    ``live``: the file is being written; a partial batch at its end is not damage, and reading ends before it.
    ``scan_options``: WALK_RECORDS, SKIP_CHECKSUMS and LONG_RUNS combined by or, or 0. ``run_bytes``: size of a run, in
    which compressed frames count eightfold, or twice with LONG_RUNS.
    After reading, ``end`` is the end of the last item. The items tile the file from ``start`` on, which is 0 or set by
    `begin_at`.
    """

    def __init__(
        self,
        source: Source,
        is_07: bool = False,
        base_offset: int = 0,
        live: bool = False,
        max_bytes: int | None = None,
        scratch: Scratch | None = None,
        scan_options: int = 0,
        run_bytes: int = RUN_BYTES,
    ) -> None:
        self.source = self._opened = source
        self.is_07 = is_07
        self.base_offset = base_offset
        self.live = live
        self.scratch = Scratch() if scratch is None else scratch
        self.end = source.size if max_bytes is None else min(source.size, max_bytes)
        self.is_cut = self.end < source.size
        self.start = 0
        self._frames_first = FRAMES_PER_CALL
        self._scan_options, self._run_bytes = scan_options, run_bytes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._opened.close()

    # Created on first use: a pass over an intact segment reads it in windows instead.

    @cached_property
    def _scan(self) -> FrameScan:
        scan = FrameScan(self.is_07, self._scan_options)
        scan.budget = self._run_bytes
        return scan

    @cached_property
    def _expansion(self) -> ExpansionBuffer | None:
        return expansion_buffer(self.scratch.max_batch_bytes) if self._scan_options & WALK_RECORDS else None

    @cached_property
    def buffer(self) -> Any:
        """The bytes of the source, mapped on first use."""
        return self.source.buffer

    @cached_property
    def _rows(self) -> memoryview:
        return int64s(FRAMES_PER_CALL * FRAME_WIDTH)

    def begin_at(self, position: int, batch_before: int = -1) -> None:
        """Reads from ``position`` on, first one frame, then doubling the step, to read little more than needed.

        ``batch_before``, if given, is the position of an intact batch whose offsets classify damage.
        """
        self.start = position
        self._frames_first = 1
        self.source.expect_jumps(True)
        self._scan.forget_prefixes()
        self._scan.last_offset = -1
        if batch_before >= 0:
            self.source.need(batch_before, position)
            self._scan.position, self._scan.largest = batch_before, self.scratch.max_batch_bytes
            kernel.scan(self._scan, self.buffer, position, self._rows[:FRAME_WIDTH], self._expansion)

    def __iter__(self) -> Iterator[Batch | Damage]:
        """Yields every item in order; the batches own their bytes."""
        for item in self.runs():
            if isinstance(item, Damage):
                yield item
            else:
                for i in range(item.count):
                    yield self.batch(item, i)

    def intact(self) -> Iterator[Batch]:
        """Yields the valid batches in order; they own their bytes."""
        return (item for item in self if isinstance(item, Batch) and item.is_valid)

    def batch(
        self, run: Run, i: int, keep: bool = True, scratch: Scratch | None = None, shared: ExpansionBuffer | None = None
    ) -> Batch:
        """Returns frame i of a run as a Batch; without ``keep`` its bytes may be a view, valid while the source is.

        Threads other than the reader's must pass their own ``scratch``, and may pass a ``shared`` buffer (see Batch). A
        batch with a wrong CRC is not decompressed into it: libzstd versions treat malformed streams differently.
        """
        at = i * FRAME_WIDTH
        position, size, magic = run.rows[at + FRAME_POSITION], run.rows[at + FRAME_SIZE], run.rows[at + FRAME_MAGIC]
        data = self.buffer[position : position + size]
        is_valid = bool(run.rows[at + FRAME_STATE] & CRC_RIGHT)
        kind = Message07 if self.is_07 else RecordBatch if magic >= MAGIC_V2 else Message
        batch = kind(bytes(data) if keep else data, position, size, magic, is_valid, scratch or self.scratch)
        if isinstance(batch, Message07):
            batch.file_base = self.base_offset
        elif isinstance(batch, Message):
            batch.offset_before = partial(self._offset_before, run.position_before(i), position)
        if is_valid:
            batch.records_buffer = shared
        return batch

    def _offset_before(self, previous: int, position: int) -> int:
        """Returns the last offset before ``position``, if the frame at ``previous`` ends there."""
        if position == 0:
            return self.base_offset - 1
        head = bytes(self.buffer[previous : previous + HEADER_BYTES]) if previous >= 0 else b""
        if not head or previous + ENTRY_OVERHEAD + be32(head, ENTRY_SIZE) != position:
            return message_set.UNKNOWN_OFFSET
        return offsets_of(head)[1]

    def broken_batch(self, damage: Damage) -> Batch | None:
        """Returns the batch of which a damaged range is a part, or whose length is wrong; None if it seems to be none.

        Call it before the next item. Its `rows_before_fault` are unproven.
        """
        length = min(damage.length, self.scratch.max_batch_bytes)
        if self.is_07 or damage.code not in _BROKEN_FRAMES or length < HEADER_BYTES:
            return None
        data = self.buffer[damage.position : damage.position + length]
        magic = data[ENTRY_MAGIC]
        if magic == MAGIC_V2:
            return RecordBatch(data, damage.position, length, MAGIC_V2, False, self.scratch)
        if magic > MAGIC_V2:
            return None
        message = Message(data, damage.position, length, magic, False, self.scratch)
        last_offset = self.base_offset - 1 if damage.position == 0 else self._scan.last_offset
        message.offset_before = lambda: last_offset
        return message

    @property
    def last_offset(self) -> int:
        """The last offset of the frame before the last item, by which damage is classified; -1 if unknown."""
        return int(self._scan.last_offset)

    def window(self, run: Run, first: int) -> tuple[Any, memoryview, int, int]:
        """Returns the bytes of frames ``first`` to ``stop`` of a run for the kernel, as (bytes, rows, origin, stop).

        Positions in these rows are relative to the bytes, which start at ``origin`` in the file.
        """
        if isinstance(self.buffer, memoryview):
            return self.buffer, run.rows, 0, run.count
        piece = next(run.part(first, run.count).pieces(WINDOW_BYTES))
        stop, origin = first + piece.count, piece.position
        moved = Run(run.rows, stop).copied().rows
        kernel.move_frames(moved[first * FRAME_WIDTH :], -origin)
        return self.buffer[origin : piece.end], moved, origin, stop

    def headers(self, run: Run) -> memoryview:
        """Returns the headers of the frames of a run as rows of BATCH_* columns."""
        rows, first = int64s(run.count * BATCH_WIDTH), 0
        while first < run.count:
            data, found, origin, stop = self.window(run, first)
            part = rows[first * BATCH_WIDTH : stop * BATCH_WIDTH]
            headers.read(data, found[first * FRAME_WIDTH :], stop - first, self.is_07, origin, part)
            first = stop
        return rows

    def runs(self) -> Iterator[Run | Damage]:
        """Yields the same items, with batches as runs of frames."""
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
        """Like `runs`, without regard to unreadable bytes."""
        position, frames, previous = self.start, self._frames_first, -1
        while position < self.end:
            last_offset = self._scan.last_offset
            self._scan.position, self._scan.largest = position, self.scratch.max_batch_bytes
            rows = self._rows[: frames * FRAME_WIDTH]
            if self._frames_first < frames == _FRAMES_AHEAD:
                self.source.expect_jumps(False)
            frames = min(2 * frames, FRAMES_PER_CALL)
            reach = self.source.reach(position, self.end)
            status = kernel.scan(self._scan, self.buffer, reach, rows, self._expansion)
            count, reached = self._scan.count, self._scan.position
            if self._has_shrunk() and reached > self.end:
                self._scan.last_offset = last_offset
                continue
            if self._meets_unreadable(last_offset):
                continue
            if count:
                run = Run(self._rows, count, previous)
                previous = run.position_before(count)
                yield run
                position = reached
            if status == IRREGULAR and position < self.end:
                if reach < self.end:
                    self.source.reach_further(position, self.end)
                    continue
                if not self._scan.has_prefixes:
                    # From the first irregular frame on, CRCs of long frames come from prefix CRCs.
                    self._scan.use_prefixes(position, self.end - position)
                    continue
                damage = self._damage(position)
                if damage is None or self._meets_unreadable(last_offset if not count else self._scan.last_offset):
                    continue
                # What a live broker, or a larger --max-bytes, would complete is no damage.
                may_grow = {"truncated-batch": self.live or self.is_cut, "zero-block": self.live}
                if damage.end == self.end and may_grow.get(damage.code):
                    self.end = damage.position
                    return
                yield damage
                position = damage.end

    def frame_at(self, position: int) -> Run | None:
        """Returns the intact frame at ``position``, None if there is none. Invalidates earlier runs."""
        self.source.expect_jumps(True)
        largest = self.scratch.max_batch_bytes
        if not 0 <= position < self.end:
            return None
        self.source.need(position, position + HEADER_BYTES)
        end = kernel.claimed_end(self.buffer, position, self.end, self.is_07, largest)
        if not end:
            return None
        self.source.need(position, end)
        self._scan.position, self._scan.largest = position, 0
        kernel.scan(self._scan, self.buffer, self.end, self._rows[:FRAME_WIDTH])
        run = Run(self._rows, 1)
        if not self._scan.count or self._has_shrunk() or self._meets_unreadable(self._scan.last_offset):
            return None
        return None if overlapping(self.source.unreadable, run.position, run.end) else run

    def _meets_unreadable(self, last_offset: int) -> bool:
        """Whether new unreadable bytes were found. The last item must then be read again, after a batch with
        ``last_offset``."""
        if not self.source.look_for_unreadable():
            return False
        self.__dict__.pop("buffer", None)
        self._scan.forget_prefixes()
        self._scan.last_offset = last_offset
        return True

    def _has_shrunk(self) -> bool:
        size = self.source.current_size()
        if size < self.end:
            self.end = size
            return True
        return False

    def _damage(self, position: int) -> Damage | None:
        """Returns the damage at a position without a batch; None if the file has shrunk meanwhile."""
        following = self._next_intact(position)
        if self._has_shrunk():
            return None
        stop = self.end if following < 0 else following
        last_offset, extent = self._scan.last_offset, self.source.extent
        return describe(self.buffer, position, stop, following >= 0, self.is_07, last_offset, extent)

    def _next_intact(self, position: int) -> int:
        """Returns the position of the next intact frame after an irregular entry, -1 if there is none."""
        start = position + 1
        while (start := self._behind_hole(start)) < self.end:
            stop = min(start + SEARCH_BYTES, self.end)
            found = kernel.find(self._scan, self.buffer, start, stop, self.end, position)
            if found >= 0 or self.source.current_size() < self.end:
                return found
            start = self._scan.position
        return -1

    def _behind_hole(self, start: int) -> int:
        """Returns where a search from ``start`` continues: no frame begins in a hole, except for its leading zeros."""
        data = next_data(self.source.extent, start, self.end)
        if data - start <= NEAR_BYTES:
            return start
        if data < self.end:
            data -= _LEADING_ZEROS
            self._scan.use_prefixes(data, self.end - data)
        return data


# Classifies damage: the bytes between two batches, or after the last one.

_OFFSET_BYTES = 8
_LARGEST = (1 << 31) - 1
_ZERO_RUN_BYTES = 64
_NONSENSE_07 = ("nonsense-block", "bytes that belong to no message")


def describe(
    buffer: Sliceable,
    position: int,
    stop: int,
    is_followed: bool,
    is_07: bool,
    last_offset: int,
    extent: Extent | None = None,
) -> Damage:
    """Returns the damage that covers ``[position, stop)`` of a segment.

    ``is_followed``: an intact batch begins at ``stop``; otherwise the file ends there. ``last_offset`` is that of the
    previous batch, -1 if there is none. Holes of ``extent``, if given, are not read.
    """
    if is_followed and is_zero(buffer, position, stop, extent):
        return Damage("zero-block", position, stop - position, f"{stop - position} zero bytes")
    if is_followed and stop - position < _OFFSET_BYTES:
        return Damage("nonsense-block", position, stop - position, f"{stop - position} bytes that belong to no batch")
    code, message = _diagnose(buffer, position, stop, is_07, last_offset, extent)
    if not is_followed:
        message += "; no intact batch follows"
    return Damage(code, position, stop - position, message)


def _diagnose(
    buffer: Sliceable, position: int, stop: int, is_07: bool, last_offset: int, extent: Extent | None
) -> tuple[str, str]:
    length = stop - position
    # A few zero bytes may also be the start of an offset field.
    least = 8 if is_07 or not kernel.offset_continues(0, last_offset) else 12
    if length >= least and is_zero(buffer, position, stop, extent):
        return "zero-block", f"{length} zero bytes"
    if is_07:
        return _diagnose_07(buffer, position, stop, extent)
    head = bytes(buffer[position : min(position + HEADER_BYTES, stop)])
    claimed = be32(head, ENTRY_SIZE) + ENTRY_OVERHEAD if length >= message_set.MIN_BYTES else 0
    # No field can hold the length of a larger batch: 0 is that of none.
    size = length - ENTRY_OVERHEAD if length <= _LARGEST else 0
    whole = head[:ENTRY_SIZE] + size.to_bytes(4, "big", signed=True) + head[ENTRY_OVERHEAD:]
    if (
        claimed
        and length <= MAX_BATCH_BYTES
        and kernel.continues(whole, last_offset)
        and crc_holds(buffer, position, stop)
    ):
        return "bad-length", f"a complete batch of {length} bytes, whose length field says {claimed}"
    if length < HEADER_BYTES and _is_cut_header(head, last_offset):
        return "truncated-batch", f"only {length} bytes of a batch"
    if length < message_set.MIN_BYTES:
        return "nonsense-block", f"{length} bytes that belong to no batch"
    if kernel.continues(head, last_offset) and claimed > length:
        return "truncated-batch", f"{length} of the {claimed} bytes of a batch"
    if kernel.continues(head, last_offset):
        return (
            "nonsense-block",
            f"a batch of {claimed} bytes and the bytes after it{_zeros_in(buffer, position, stop, extent)}",
        )
    for magic in range(3):
        if kernel.continues(head[:ENTRY_MAGIC] + bytes([magic]) + head[ENTRY_MAGIC + 1 :], last_offset):
            return "bad-magic", f"a batch whose magic is {head[ENTRY_MAGIC]}"
    if kernel.continues(whole, last_offset):
        return "bad-length", f"a batch of {length} bytes up to the next one, whose length field says {claimed}"
    return "nonsense-block", f"{length} bytes that belong to no batch{_zeros_in(buffer, position, stop, extent)}"


def _is_cut_header(head: bytes, last_offset: int) -> bool:
    """Whether these bytes, fewer than a header, can be the start of one."""
    if len(head) < 8:
        return True
    if not kernel.offset_continues(be64(head, 0), last_offset):
        return False
    if len(head) < ENTRY_OVERHEAD:
        return True
    has_known_magic = len(head) <= ENTRY_MAGIC or head[ENTRY_MAGIC] <= MAGIC_V2
    return be32(head, ENTRY_SIZE) + ENTRY_OVERHEAD > len(head) and has_known_magic


def _zeros_in(buffer: Sliceable, start: int, stop: int, extent: Extent | None) -> str:
    """Describes the long runs of zero bytes, such as lost pages."""
    written = list(_written(start, stop, extent))
    zeros = stop - start - sum(end - at for at, end in written)
    zeros += sum(kernel.long_zeros(buffer[at:end], _ZERO_RUN_BYTES) for at, end in written)
    return f" ({zeros} of them zero)" if zeros else ""


def _diagnose_07(buffer: Sliceable, position: int, stop: int, extent: Extent | None) -> tuple[str, str]:
    length = stop - position
    head = bytes(buffer[position : min(position + 10, stop)])
    size = be32(head, 0) if length >= 4 else 0
    if length < v07.MIN_BYTES:
        is_cut = length < 4 or (size > length - 4 and (length < 5 or head[4] <= 1))
        return ("truncated-batch", f"only {length} bytes of a message") if is_cut else _NONSENSE_07
    stored = be32(head, 5 + head[4]) & 0xFFFFFFFF if head[4] <= 1 else -1
    if 0 <= stored and length <= MAX_BATCH_BYTES and _crc_of(crc32, buffer, position + 9 + head[4], stop) == stored:
        return "bad-length", f"a complete message of {length} bytes, whose length field says {size + 4}"
    if size + 4 > length and head[4] <= 1:
        return "truncated-batch", f"{length} of the {size + 4} bytes of a message"
    return _NONSENSE_07[0], _NONSENSE_07[1] + _zeros_in(buffer, position, stop, extent)


def _crc_of(crc_with: Callable[[BytesLike, int], int], buffer: Sliceable, start: int, stop: int) -> int:
    crc = 0
    for at in range(start, stop, WINDOW_BYTES):
        crc = crc_with(buffer[at : min(at + WINDOW_BYTES, stop)], crc)
    return crc


def is_zero(buffer: Sliceable, start: int, stop: int, extent: Extent | None = None) -> bool:
    """Whether all bytes of the range are zero; ``extent`` as in `describe`."""
    if buffer[start] or buffer[stop - 1]:
        return False
    return all(kernel.leading_zeros(buffer[at:end]) == end - at for at, end in _written(start, stop, extent))


def _written(start: int, stop: int, extent: Extent | None) -> Iterator[tuple[int, int]]:
    """Yields the windows of a range, without its holes."""
    at = start
    while at < stop:
        data = at if extent is None else next_data(extent, at, stop)
        if data - at > WINDOW_BYTES:
            at = data
            continue
        end = min(at + WINDOW_BYTES, stop)
        yield at, end
        at = end


def crc_holds(buffer: Sliceable, position: int, stop: int, is_v2: bool | None = None) -> bool:
    """Whether the CRC in the header at ``position`` matches the bytes up to ``stop``, ignoring the length field.
    ``is_v2``: the format, None for that of the magic."""
    is_v2 = buffer[position + ENTRY_MAGIC] == MAGIC_V2 if is_v2 is None else is_v2
    at = position + (V2_CRC if is_v2 else LEGACY_CRC)
    stored = int.from_bytes(bytes(buffer[at : at + 4]), "big")
    return _crc_of(crc32c if is_v2 else crc32, buffer, at + 4, stop) == stored
