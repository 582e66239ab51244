"""``--hex``: the bytes of a segment, field by field, with their meaning, including damage.

The fields are those of the tables at the heads of the modules in `kseg.formats`. Nothing outside of a batch or damage
is read for it, whatever its length fields are.
"""

from collections.abc import Callable
from typing import Any

from kseg.formats import message_set, v07
from kseg.formats.compression import KAFKA_0_7, decompress
from kseg.formats.decompressed import DecompressionError
from kseg.formats.record_batch import HEADER_BYTES, open_records, parse_header
from kseg.formats.rows import BytesFrom, BytesLike, Rows, Scratch, UndecodableError
from kseg.kernel.layout.headers import CODEC, ENTRY_MAGIC, ENTRY_OVERHEAD, LEGACY_FLAGS, MAGIC_V2, V07_SIZE_BYTES
from kseg.limits import MAX_NESTING
from kseg.output.hex.headers import MAGIC_END, show_header, show_key
from kseg.output.hex.lines import HexLines
from kseg.output.hex.records import show_records
from kseg.output.paint import Paint
from kseg.output.printer import Printer, Style
from kseg.output.sink import Sink
from kseg.quantities import plural
from kseg.segment.batches import Batch, Message07, RecordBatch
from kseg.segment.files import SegmentFile
from kseg.segment.items import Damage
from kseg.segment.reader import Run, SegmentReader
from kseg.segment.selection import RowSpan

DAMAGE_BYTES = 256
"""Printed bytes of a damaged range after its possible header, unless ``--position`` is given."""


class HexPrinter(Printer):
    """Prints items as annotated bytes. `attend` must be called with the reader before its items.

    ``positions``: first and last byte to print. ``unpacked``: compressed batches are decompressed, too.
    """

    def __init__(
        self,
        sink: Sink,
        scratch: Scratch,
        *,
        paint: Paint | None = None,
        width: int = 80,
        positions: tuple[int, int] | None = None,
        unpacked: bool = False,
    ) -> None:
        super().__init__(sink, Style(), scratch)
        first, last = positions or (0, None)
        self._lines = HexLines(self._write, paint or Paint(), width, first, last, is_limited=positions is not None)
        self._unpacked = unpacked
        self._buffer: Any = b""
        self._is_07 = False

    def begin(self, file: SegmentFile) -> None:
        self._lines.file(file.path)

    def attend(self, reader: SegmentReader) -> None:
        """Selects the reader of the following items."""
        self._buffer, self._is_07 = reader.buffer, reader.is_07

    def finish(self) -> None:
        self.sink.flush()

    def run(self, reader: SegmentReader, run: Run) -> None:
        self.attend(reader)
        if not self._lines.shows(run.position, run.end):
            return
        for i in range(run.count):
            self.batch(reader.batch(run, i, keep=False))

    def batch(self, batch: Batch, spans: Callable[[Rows], list[RowSpan]] | None = None) -> None:
        """Prints the whole batch; ``spans`` is ignored."""
        if not self._lines.shows(batch.position, batch.end):
            return
        problems = batch.check()
        self.errors += bool(problems)
        self._lines.title(batch.position, _heading(batch))
        for problem in problems:
            self._lines.note(f"{problem.code}: {problem.message}", "red")
        if isinstance(batch, RecordBatch):
            self._record_batch(batch)
        else:
            is_07 = isinstance(batch, Message07)
            budget = [self.scratch.max_batch_bytes]
            self._entry(self._lines, batch.data, batch.position, batch.size, is_07, budget, 0)

    def damage(self, damage: Damage) -> None:
        self.errors += 1
        lines = self._lines
        if not lines.shows(damage.position, damage.end):
            return
        lines.title(
            damage.position,
            f"damage: {damage.code} position: {damage.position} length: {damage.length}: {damage.message}",
            "red",
        )
        read = 0
        if damage.code != "zero-block":
            lines.note("if a header began here:")
            head = bytes(self._buffer[damage.position : min(damage.position + HEADER_BYTES, damage.end)])
            read = show_header(lines, head, damage.position, damage.length, self._is_07, self._damaged_bytes(damage))
            if read < damage.length:
                lines.note("bytes after it:")
        view = BytesFrom(self._buffer, damage.position)
        lines.rows(damage.position, view, read, damage.length, DAMAGE_BYTES)

    def _damaged_bytes(self, damage: Damage) -> Any:
        """Returns a function (start, stop) -> bytes of the damage, for checksums; None if too large."""

        def read(start: int, stop: int) -> bytes | None:
            if stop - start > self.scratch.max_batch_bytes or stop > damage.length:
                return None
            return bytes(self._buffer[damage.position + start : damage.position + stop])

        return read

    def _record_batch(self, batch: RecordBatch) -> None:
        lines, data = self._lines, batch.data
        show_header(lines, bytes(data[:HEADER_BYTES]), batch.position, batch.size, False, _slices(data))
        header = batch.header
        if not batch.has_known_magic:
            _show_unknown(lines, data, batch.position, MAGIC_END)
            return
        if header.codec == 0:
            show_records(lines, data, HEADER_BYTES, batch.position, header)
            return
        at = batch.position + HEADER_BYTES
        if batch.size > HEADER_BYTES:
            name = f"{batch.compression} records"
            lines.content(at, data[HEADER_BYTES:], name, is_record=False)
        if self._unpacked and lines.shows(at, batch.end):
            self._open_batch(batch)

    def _open_batch(self, batch: RecordBatch) -> None:
        header = parse_header(batch.data)
        try:
            payload, start = open_records(batch.data, header, self.scratch.max_batch_bytes)
        except UndecodableError as error:
            self._lines.note(f"cannot be decompressed: {error}", "red")
            return
        if header.record_count:
            self._lines.note(f"decompressed: {len(payload)} bytes", "green")
            show_records(self._lines.unpacked(), payload, start, 0, header)

    def _entry(
        self, lines: HexLines, data: BytesLike, position: int, size: int, is_07: bool, budget: list[int], depth: int
    ) -> None:
        """Prints a v0, v1 or 0.7 message of ``size`` bytes at ``position``; data[0] is its first byte."""
        read = show_header(lines, bytes(data[:HEADER_BYTES]), position, size, is_07, _slices(data))
        if (is_07 and read < v07.MIN_BYTES) or (not is_07 and data[ENTRY_MAGIC] >= MAGIC_V2):
            _show_unknown(lines, data, position, read)
            return
        if is_07:
            codec, value = v07.parse_header(data).codec, (read, size)
        else:
            codec = data[LEGACY_FLAGS] & CODEC
            found = show_key(lines, data, read, size, position)
            if found is None:
                return
            value = found
        start, stop = value
        if stop > start:
            name = "payload" if is_07 else "value"
            shown = name if codec == 0 else f"{name}, compressed"
            lines.content(position + start, data[start:stop], shown, is_record=False)
        if codec and self._unpacked and lines.shows(position, position + size):
            magic = KAFKA_0_7 if is_07 else data[ENTRY_MAGIC]
            inside = self._lines.unpacked() if depth == 0 else lines
            self._open_entry(inside, data[start:stop], codec, magic, is_07, budget, depth)

    def _open_entry(
        self, lines: HexLines, value: BytesLike, codec: int, magic: int, is_07: bool, budget: list[int], depth: int
    ) -> None:
        if depth >= MAX_NESTING:
            self._lines.note(f"more than {MAX_NESTING} compressed messages inside each other", "red")
            return
        try:
            payload = memoryview(decompress(codec, value, magic, budget[0]))
        except DecompressionError as error:
            self._lines.note(f"cannot be decompressed: {error}", "red")
            return
        budget[0] -= len(payload)
        lines.note(f"decompressed: {len(payload)} bytes", "green")
        at, overhead, least = (
            0,
            V07_SIZE_BYTES if is_07 else ENTRY_OVERHEAD,
            v07.MIN_BYTES if is_07 else message_set.MIN_BYTES,
        )
        while at < len(payload):
            left = len(payload) - at
            if not lines.take_entry():
                lines.note(f"{left} bytes of further messages are not shown", "yellow")
                return
            size = overhead + int.from_bytes(payload[at + overhead - 4 : at + overhead], "big", signed=True)
            if left < least or not least <= size <= left:
                lines.note(f"{left} bytes that are not a complete message:", "yellow")
                lines.rows(0, payload, at, len(payload), DAMAGE_BYTES)
                return
            lines.title(at, f"message inside, {size} bytes")
            self._entry(lines, payload[at : at + size], at, size, is_07, budget, depth + 1)
            at += size
        lines.note(f"end of the {len(payload)} bytes", "green")

    def _write(self, line: str) -> None:
        self.sink.write(line.encode("utf-8", "backslashreplace") + b"\n")


def _slices(data: BytesLike) -> Callable[[int, int], Any]:
    return lambda start, stop: data[start:stop] if stop <= len(data) else None


def _show_unknown(lines: HexLines, data: BytesLike, position: int, start: int) -> None:
    """Prints the bytes after an unknown magic."""
    lines.note("how the rest is laid out is not known:")
    lines.rows(position, data, start, len(data), DAMAGE_BYTES)


def _heading(batch: Batch) -> str:
    if isinstance(batch, Message07):
        return f"0.7 message, {batch.size} bytes: offset {batch.base_offset}, next {batch.next_offset}"
    if isinstance(batch, RecordBatch):
        kind = "control batch" if batch.is_control else "batch"
        count = plural(batch.header.record_count, "record", "records")
        span = f"offsets {batch.base_offset} to {batch.last_offset}, {count}"
        return f"v{batch.magic} {kind}, {batch.size} bytes: {span}"
    kind = "message" if batch.header.codec == 0 else f"{batch.compression} message"
    return f"v{batch.magic} {kind}, {batch.size} bytes: offset {batch.last_offset}"
