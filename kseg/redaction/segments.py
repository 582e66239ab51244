"""Writes the twin of one segment: its batches with other payloads, its damage as random bytes, at the same places.

The kernel replaces the records of intact batches, run by run. It leaves compressed ones to be packed, and all others to
`kseg.redaction.batches`.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from kseg.formats.compressing import build_batch
from kseg.formats.record_batch import HEADER_BYTES, parse_header
from kseg.kernel.layout.headers import (
    ENTRY_MAGIC,
    ENTRY_SIZE,
    MAGIC_V2,
    V0_HEADER_BYTES,
    V07_MAGIC,
    V07_MIN_BYTES,
    V1_HEADER_BYTES,
)
from kseg.kernel.layout.rows import (
    CRC_RIGHT,
    DONE,
    FRAME_MAGIC,
    FRAME_POSITION,
    FRAME_SIZE,
    FRAME_STATE,
    FRAME_WIDTH,
    NEEDS_PACKING,
)
from kseg.kernel.scan.frames import continues, move_frames
from kseg.limits import MAX_BATCH_BYTES, WINDOW_BYTES
from kseg.redaction.batches import BatchRedaction, Workers, numbers, random_like, target_of, true_magic
from kseg.redaction.internal_records import RecordRule
from kseg.segment.files import SegmentFile
from kseg.segment.items import Damage, Message, RecordBatch
from kseg.segment.reader import SegmentReader, describe, open_segment
from kseg.stores.extent import next_data

_ATTEMPTS = 4
_MAPPED_BYTES = 16 << 20
"""Bytes of a mapped file that stay in memory behind the reader."""
_LARGEST_CHECKED = 16 << 20
"""Damage up to this size is described again, so that it keeps its kind."""

Piece = bytes | bytearray | memoryview | int
"""Bytes of a file, or a number of zeros."""


class Moves:
    """Where the bytes of a file are in its twin, asked for ``positions`` alone, which are noted in passing."""

    def __init__(self, positions: list[int]) -> None:
        self._wanted = sorted(set(positions))
        self._found: dict[int, int] = {}
        self._end = (0, 0)

    def note(self, start: int, end: int, moved: int, size: int) -> None:
        """Notes that bytes ``[start, end)`` are now ``size`` bytes at ``moved``."""
        self._end = end, moved + size
        at = bisect_left(self._wanted, start)
        while at < len(self._wanted) and self._wanted[at] < end:
            inside = self._wanted[at] - start
            self._found[self._wanted[at]] = moved + (inside if size == end - start else min(inside, size - 1))
            at += 1

    def moved(self, position: int) -> int:
        """Returns the place of one of the positions."""
        old, new = self._end
        return self._found.get(position, position - old + new if position >= old else position)


class Redacted(NamedTuple):
    """What stands in the twin for bytes ``[position, end)`` of the file."""

    position: int
    end: int
    piece: Piece


Result = tuple[list[Redacted], Counter[str]]
"""Adjacent pieces of a twin, and what was replaced in them."""
Task = Callable[[], Result]
"""Makes pieces in any thread."""


class SegmentRedaction:
    """Replaces in one segment. ``rule``: that of an internal topic; ``workers``: one a thread.

    The records of internal topics are Python's work, that of the thread that asks for the tasks.
    """

    def __init__(self, file: SegmentFile, rule: RecordRule | None, workers: Workers) -> None:
        self._file, self._workers = file, workers
        self._batches = workers.with_rule(rule)
        self._is_internal = rule is not None
        self._counts = Counter[str]()
        """What was replaced in damage."""

    def counts(self) -> Counter[str]:
        """Returns what was replaced outside of the tasks, once all were asked for."""
        return self._batches.taken() + self._counts

    def tasks(self) -> Iterator[Task]:
        """Yields tasks for any threads, whose results are the twin's bytes, in order. Raises KsegError if the file
        cannot be read."""
        forgotten = 0
        with open_segment(self._file, self._workers.of_thread().scratch) as reader:
            for item in reader.runs():
                if item.position - forgotten > _MAPPED_BYTES:
                    reader.source.forget(forgotten, item.position)
                    forgotten = item.position
                if isinstance(item, Damage):
                    for found in self._damage(reader, item):
                        yield partial(_ready, [found])
                    continue
                if self._file.is_07:
                    for batch in map(partial(reader.batch, item), range(item.count)):
                        yield partial(_ready, [Redacted(batch.position, batch.end, self._batches.batch(batch))])
                    continue
                for run in item.pieces(WINDOW_BYTES):
                    window = run.position, bytes(reader.buffer[run.position : run.end]), run.copied().rows
                    if self._is_internal:
                        yield partial(_ready, *self._window(self._batches, *window))
                    else:
                        yield partial(self._window, None, *window)

    def _window(self, batches: BatchRedaction | None, start: int, data: bytes, rows: memoryview) -> Result:
        """Returns the twin of adjacent frames (``rows``), whose bytes are ``data``, at ``start`` of the file.
        ``batches``: None for that of the thread."""
        move_frames(rows, -start)
        batches = batches or self._workers.of_thread()
        replacer, out, pieces, done = batches.replacer, bytearray(data), list[Redacted](), 0
        replacer.go_to(0)
        while True:
            status = batches.frames(data, rows, out)
            at = replacer.frame * FRAME_WIDTH
            position = len(out) if status == DONE else rows[at + FRAME_POSITION]
            if position > done:
                pieces.append(Redacted(start + done, start + position, memoryview(out)[done:position]))
            if status == DONE:
                return pieces, batches.taken()
            done = position + rows[at + FRAME_SIZE]
            if status == NEEDS_PACKING:
                header = parse_header(data[position : position + HEADER_BYTES])
                area = batches.expansion.view()[: replacer.area_size]
                new = build_batch(header, area, target_of(header.codec))
            else:
                kind = RecordBatch if rows[at + FRAME_MAGIC] >= MAGIC_V2 else Message
                is_valid = bool(rows[at + FRAME_STATE] & CRC_RIGHT)
                place = start + position, done - position, rows[at + FRAME_MAGIC]
                new = batches.batch(kind(data[position:done], *place, is_valid, batches.scratch))
            pieces.append(Redacted(start + position, start + done, new))
            replacer.go_to(replacer.frame + 1)

    def _damage(self, reader: SegmentReader, damage: Damage) -> Iterator[Redacted]:
        """Yields what stands for damage: random bytes, whose holes stay if the damage is long."""
        if damage.code == "zero-block":
            yield Redacted(damage.position, damage.end, damage.length)
            return
        if damage.length <= _LARGEST_CHECKED:
            yield Redacted(damage.position, damage.end, self._described(reader, damage))
            return
        head = _head(reader, damage)
        at = damage.position + len(head)
        yield Redacted(damage.position, at, head)
        while at < damage.end:
            data = next_data(reader.source.extent, at, damage.end)
            if data > at:
                yield Redacted(at, data, data - at)
            at, end = data, min(data + WINDOW_BYTES, damage.end)
            if end > at:
                self._counts["randomBytes"] += end - at
                yield Redacted(at, end, random_like(reader.buffer[at:end]))
            at = end

    def _described(self, reader: SegmentReader, damage: Damage) -> bytes:
        """Returns bytes that are damage of the same kind."""
        old, last_offset = bytes(reader.buffer[damage.position : damage.end]), reader.last_offset
        is_followed = damage.end < reader.end

        def is_alike(new: bytes) -> bool:
            return describe(new, 0, len(new), is_followed, reader.is_07, last_offset).code == damage.code

        self._counts += self._batches.taken()
        mended = self._batches.mended_07(old) if reader.is_07 else self._batches.mended(old)
        if mended is not None and is_alike(mended):
            return mended
        self._batches.taken()  # what was replaced in vain

        broken = reader.broken_batch(damage) if damage.length <= MAX_BATCH_BYTES else None
        if broken is not None and not broken.header.codec:
            new = self._batches.batch(broken)
            if is_alike(new):
                return new
            self._batches.taken()
        for head in (_head(reader, damage), b"") * _ATTEMPTS:
            new = head + random_like(old[len(head) :])
            if len(head) <= ENTRY_SIZE < len(old):  # whether a broker takes the length for impossible, or only for long
                sign = bytes((new[ENTRY_SIZE] & 0x7F | old[ENTRY_SIZE] & 0x80,))
                new = new[:ENTRY_SIZE] + sign + new[ENTRY_SIZE + 1 :]
            if is_alike(new):
                break
        self._counts["randomBytes"] += len(old) - len(head)
        return new


def _head(reader: SegmentReader, damage: Damage) -> bytes:
    """Returns the numbers at the start of damage. Payload among them, such as a key before the size of a value, is
    random."""
    head = bytes(reader.buffer[damage.position : min(damage.position + HEADER_BYTES, damage.end)])
    if damage.code == "nonsense-block" and (reader.is_07 or not continues(head, reader.last_offset)):
        return b""
    if reader.is_07:
        head = head[: V07_MIN_BYTES + (head[V07_MAGIC : V07_MAGIC + 1] > b"\0")]
    elif len(head) > ENTRY_MAGIC and (magic := true_magic(head, reader.last_offset)) < MAGIC_V2:
        key = (V1_HEADER_BYTES if magic else V0_HEADER_BYTES) + 4
        value = key + max(int.from_bytes(head[key - 4 : key], "big", signed=True), 0)
        head = head[:key] + random_like(head[key:value]) + head[value : value + 4]
    return numbers(head)


def _ready(pieces: list[Redacted], counts: Counter[str] | None = None) -> Result:
    """Returns a result that was made before its task runs."""
    return pieces, counts or Counter()
