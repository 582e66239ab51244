"""Writes the twin of one segment: its batches with other payloads, its damage as random bytes, at the same places.

The kernel replaces the records of intact batches, run by run. It leaves compressed ones to be packed, and all others to
`kseg.redaction.batches`.
"""

from bisect import bisect_left
from collections.abc import Iterator

from kseg.formats.compression import expansion_buffer
from kseg.formats.record_batch import HEADER_BYTES, parse_header
from kseg.formats.rows import BytesLike, Scratch, int64s
from kseg.kernel.layout.headers import ENTRY_MAGIC, ENTRY_SIZE, MAGIC_V2, V0_HEADER_BYTES, V1_HEADER_BYTES
from kseg.kernel.layout.rows import DONE, FRAME_POSITION, FRAME_SIZE, FRAME_WIDTH, NEEDS_PACKING
from kseg.limits import MAX_BATCH_BYTES, WINDOW_BYTES
from kseg.redaction.batches import BatchRedaction, packed, random_like
from kseg.redaction.internal_records import RecordRule
from kseg.redaction.pseudonyms import Pseudonyms
from kseg.segment.files import SegmentFile
from kseg.segment.items import Damage
from kseg.segment.reader import Run, SegmentReader, describe, open_segment
from kseg.stores.extent import next_data

_HEADS = V1_HEADER_BYTES + 4, V0_HEADER_BYTES + 4, HEADER_BYTES, 0
"""Bytes of a header at the start of damage, with the size of a key: numbers, and no payload."""
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


class SegmentRedaction:
    """Replaces in one segment. ``rule``: that of an internal topic; ``moves``: takes the places of its bytes."""

    def __init__(
        self, file: SegmentFile, names: Pseudonyms, rule: RecordRule | None, scratch: Scratch, moves: Moves
    ) -> None:
        self._file, self._scratch, self._moves = file, scratch, moves
        self._batches = BatchRedaction(names, rule, scratch)
        self._is_plain = rule is None and not file.is_07
        self.counts = self._batches.replacer
        self.damaged_bytes = 0
        self._expansion = expansion_buffer(scratch.max_batch_bytes)
        self._at = 0

    @property
    def lost_bytes(self) -> int:
        """Bytes of broken batches that became random."""
        return self._batches.lost_bytes

    def pieces(self) -> Iterator[Piece]:
        """Yields the twin's bytes, in order. Raises KsegError if the file cannot be read."""
        forgotten = 0
        with open_segment(self._file, self._scratch) as reader:
            for item in reader.runs():
                if item.position - forgotten > _MAPPED_BYTES:
                    reader.source.forget(forgotten, item.position)
                    forgotten = item.position
                if isinstance(item, Damage):
                    self.damaged_bytes += item.length
                    at = self._at
                    for piece in self._damage(reader, item):
                        self._at += piece if isinstance(piece, int) else len(piece)
                        yield piece
                    self._moves.note(item.position, item.end, at, self._at - at)
                else:
                    yield from self._run(reader, item)

    def _moved(self, position: int, end: int, piece: bytes | memoryview) -> bytes | memoryview:
        """Notes the place of a piece that stands for bytes [position, end) of the file."""
        self._moves.note(position, end, self._at, len(piece))
        self._at += len(piece)
        return piece

    def _run(self, reader: SegmentReader, run: Run) -> Iterator[Piece]:
        if not self._is_plain:
            for i in range(run.count):
                batch = reader.batch(run, i)
                yield self._moved(batch.position, batch.end, self._batches.batch(batch))
            return
        first = 0
        while first < run.count:
            stop, start = first + 1, run.rows[first * FRAME_WIDTH + FRAME_POSITION]
            end = start + run.rows[first * FRAME_WIDTH + FRAME_SIZE]
            while stop < run.count and end - start < WINDOW_BYTES:
                end += run.rows[stop * FRAME_WIDTH + FRAME_SIZE]
                stop += 1
            yield from self._window(reader, run, first, stop, reader.buffer[start:end])
            first = stop

    def _window(self, reader: SegmentReader, run: Run, first: int, stop: int, data: BytesLike) -> Iterator[Piece]:
        """Yields the twin of adjacent frames, whose bytes are ``data``."""
        start = run.rows[first * FRAME_WIDTH + FRAME_POSITION]
        rows = int64s((stop - first) * FRAME_WIDTH)
        rows[:] = run.rows[first * FRAME_WIDTH : stop * FRAME_WIDTH]
        for at in range(FRAME_POSITION, len(rows), FRAME_WIDTH):
            rows[at] -= start
        out, replacer, scratch, done = bytearray(data), self._batches.replacer, self._scratch, 0
        replacer.go_to(0)
        while True:
            status = replacer.replace_frames(
                data, rows, stop - first, scratch.rows, scratch.headers, out, self._expansion
            )
            if status == DONE:
                break
            at = replacer.frame * FRAME_WIDTH
            position, end = rows[at + FRAME_POSITION], rows[at + FRAME_POSITION] + rows[at + FRAME_SIZE]
            if position > done:
                yield self._moved(start + done, start + position, memoryview(out)[done:position])
            if status == NEEDS_PACKING:
                assert self._expansion is not None
                header = parse_header(data[position : position + HEADER_BYTES])
                new = packed(header, self._expansion.view()[: replacer.area_size])
            else:
                new = self._batches.batch(reader.batch(run, first + replacer.frame))
            yield self._moved(start + position, start + end, new)
            done = end
            replacer.go_to(replacer.frame + 1)
        if len(out) > done:
            yield self._moved(start + done, start + len(out), memoryview(out)[done:])

    def _damage(self, reader: SegmentReader, damage: Damage) -> Iterator[Piece]:
        if damage.code == "zero-block":
            yield damage.length
        elif damage.length > _LARGEST_CHECKED:
            head = 0 if damage.code == "nonsense-block" else HEADER_BYTES
            yield from self._lost_range(reader, damage, head)
        else:
            yield self._described(reader, damage)

    def _lost_range(self, reader: SegmentReader, damage: Damage, head: int) -> Iterator[Piece]:
        """Yields random bytes for a long range, whose holes stay, behind ``head`` bytes that stay."""
        at = damage.position + head
        yield bytes(reader.buffer[damage.position : at])
        while at < damage.end:
            data = next_data(reader.source.extent, at, damage.end)
            if data > at:
                yield data - at
            at, end = data, min(data + WINDOW_BYTES, damage.end)
            if end > at:
                yield random_like(reader.buffer[at:end])
            at = end

    def _described(self, reader: SegmentReader, damage: Damage) -> bytes:
        """Returns bytes that are damage of the same kind."""
        old, last_offset = bytes(reader.buffer[damage.position : damage.end]), reader.last_offset
        is_followed = damage.end < reader.end

        def is_alike(new: bytes) -> bool:
            return describe(new, 0, len(new), is_followed, reader.is_07, last_offset).code == damage.code

        mended = None if reader.is_07 else self._batches.mended(old)
        if mended is not None and is_alike(mended):
            return mended

        broken = reader.broken_batch(damage) if damage.length <= MAX_BATCH_BYTES else None
        if broken is not None and not broken.header.codec:
            new = self._batches.batch(broken)
            if is_alike(new):
                return new
        is_v2 = len(old) > ENTRY_MAGIC and old[ENTRY_MAGIC] == MAGIC_V2
        heads = (HEADER_BYTES, *_HEADS) if is_v2 else _HEADS
        for _ in range(_ATTEMPTS):
            for head in (0,) if damage.code == "nonsense-block" else heads:
                new = old[:head] + random_like(old[head:])
                if head <= ENTRY_SIZE < len(old):  # whether a broker takes the length for impossible, or only for long
                    new = _with_sign(new, old)
                if is_alike(new):
                    return new
        return new


def _with_sign(new: bytes, old: bytes) -> bytes:
    """Returns ``new`` with the sign of the length that stands in ``old``."""
    sign = new[ENTRY_SIZE] & 0x7F | old[ENTRY_SIZE] & 0x80
    return new[:ENTRY_SIZE] + bytes((sign,)) + new[ENTRY_SIZE + 1 :]
