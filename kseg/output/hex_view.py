"""``--hex``: the bytes of a segment, field by field, with their meaning, including damage.

The fields are those of the tables at the heads of the modules in `kseg.formats`. Nothing outside of a batch or damage
is read for it, whatever its length fields are. Each line is a field with its bytes, name and value, or a range of
bytes, abbreviated if it is long:

    position  bytes in groups of 4  name and value, or the bytes as ASCII

Positions are those in the file. In decompressed data they start at 0 and have the prefix ``+``.
"""

import textwrap
from collections.abc import Callable, Sequence
from struct import calcsize
from typing import Any

from kseg.formats import message_set, v07
from kseg.formats.compression import KAFKA_0_7, DecompressionError, codec_name, decompress
from kseg.formats.control import control_text, parse_control
from kseg.formats.record_batch import HEADER_BYTES, RecordBatchHeader, open_records
from kseg.formats.rows import BytesLike, Scratch, Sliceable, UndecodableError
from kseg.kernel.layout import headers
from kseg.kernel.scan.checksums import crc32, crc32c
from kseg.limits import MAX_NESTING, WINDOW_BYTES
from kseg.output.notices import Paint, on_one_line
from kseg.output.printer import Printer, Style
from kseg.output.sink import Sink
from kseg.output.terminal import clipped
from kseg.quantities import plural, shown_time
from kseg.segment.files import SegmentFile
from kseg.segment.items import Batch, Damage, Message07, RecordBatch, Spans, all_rows
from kseg.segment.reader import Run, SegmentReader

FIELD_BYTES = 8
ROW_BYTES = 16
MIN_ZERO_ROWS = 4
SHOWN_BYTES = 64
"""Printed bytes of a key, value or header, unless ``--position`` is given."""
UNPACKED_ENTRIES = 10_000
"""Printed records, headers and messages of a compressed batch: a few hundred bytes can contain millions."""
_NAME_WIDTH = 20
_VALUE_AT = 52
_MIN_VALUE_WIDTH = 20
_PREVIEW_CHARS = 48
_PREVIEW_BYTES = 256


class HexLines:
    """Writes lines of at most ``width`` columns to ``put``.

    ``positions``: the first and last byte to print; None: all bytes, abbreviated if there are many. Given positions
    abbreviate zeros only. ``is_unpacked``: the bytes are decompressed, and at most UNPACKED_ENTRIES are printed.
    """

    def __init__(
        self,
        put: Callable[[str], None],
        paint: Paint,
        width: int,
        positions: tuple[int, int] | None = None,
        is_unpacked: bool = False,
    ) -> None:
        self.put, self.paint, self.width = put, paint, width
        self.first = positions[0] if positions else 0
        self.last = positions[1] if positions else None
        self.sign = "+" if is_unpacked else ""
        """Prefix of positions."""
        self._entries_left = UNPACKED_ENTRIES if is_unpacked else None

    def unpacked(self) -> "HexLines":
        """Returns lines with the same settings for decompressed bytes."""
        return HexLines(self.put, self.paint, self.width, is_unpacked=True)

    def take_entry(self) -> bool:
        """Counts a record, header or message. Returns whether it is printed."""
        if self._entries_left is None:
            return True
        self._entries_left -= self._entries_left > 0
        return self._entries_left > 0

    def shows(self, start: int, stop: int) -> bool:
        """Whether any of the bytes [start, stop) is printed; for an empty range, whether its position is."""
        return max(stop, start + 1) > self.first and (self.last is None or start <= self.last)

    def title(self, position: int, text: str, color: str | None = None) -> None:
        """Writes a heading above the bytes at ``position``."""
        self._wrapped(self._place(position), text, color, is_bold=True)

    def note(self, text: str, color: str | None = None) -> None:
        """Writes a remark on the previous lines."""
        self._wrapped(" " * 10, text, color)

    def _wrapped(self, place: str, text: str, color: str | None, is_bold: bool = False) -> None:
        for line in textwrap.wrap(on_one_line(text), max(self.width - 12, _MIN_VALUE_WIDTH)):
            self.put(f"{place}  {self.paint(line, color, bold=is_bold)}")
            place = " " * 10

    def field(
        self, position: int, data: BytesLike, name: str, value: str, color: str | None = None, is_record: bool = False
    ) -> None:
        """Writes a field of at most 16 bytes and its ``value``."""
        if not self.shows(position, position + len(data)):
            return
        label = ("  " if is_record else "") + name
        width = max(self.width - _VALUE_AT, _MIN_VALUE_WIDTH)
        shown = textwrap.wrap(on_one_line(value), width, break_on_hyphens=False) or [""]
        for at in range(0, max(len(data), FIELD_BYTES * len(shown), 1), FIELD_BYTES):
            part = bytes(data[at : at + FIELD_BYTES])
            text = shown[at // FIELD_BYTES] if at // FIELD_BYTES < len(shown) else ""
            place = self._place(position + at) if part or at == 0 else " " * 10
            name_shown = self.paint(f"{label if at == 0 else '':<{_NAME_WIDTH}}", "cyan")
            self.put(f"{place}  {part.hex(' ', -4):<17}  {name_shown} {self.paint(text, color)}".rstrip())

    def content(self, position: int, data: BytesLike, name: str, is_record: bool = True) -> None:
        """Writes a key, value or header: on one line if it is short, otherwise a preview and rows of bytes."""
        if not len(data) or not self.shows(position, position + len(data)):
            return
        if len(data) <= FIELD_BYTES:
            self.field(position, data, name, preview(data), is_record=is_record)
            return
        label = ("  " if is_record else "") + name
        shown = f"{len(data)} bytes {preview(data)}"
        width = max(self.width - 12 - _NAME_WIDTH - 1, _MIN_VALUE_WIDTH)
        shown = clipped(shown.rstrip(), width)
        self.put(f"{'':10}  {self.paint(f'{label:<{_NAME_WIDTH}}', 'cyan')} {shown}")
        self.rows(position, data, 0, len(data), SHOWN_BYTES)

    def rows(self, position: int, data: Sliceable, start: int, stop: int, shown_bytes: int) -> None:
        """Writes the bytes data[start:stop] in rows of 16; ``position`` is that of data[0].

        Runs of zeros are abbreviated, and bytes after ``shown_bytes``, unless the user gave these positions.
        """
        if self.first > position + start:
            start += (self.first - position - start) // ROW_BYTES * ROW_BYTES
        if self.last is not None:
            stop = min(stop, start + -(-(self.last + 1 - position - start) // ROW_BYTES) * ROW_BYTES)
        left = shown_bytes if self.last is None else stop - start
        window, window_at = b"", start
        while start < stop:
            if left <= 0:
                hint = "" if self.sign else f" (--position {position + start}..{position + stop - 1})"
                self.note(f"... {stop - start} more bytes{hint}")
                return
            if start + ROW_BYTES > window_at + len(window):
                window, window_at = bytes(data[start : min(start + WINDOW_BYTES, stop)]), start
            row = window[start - window_at : start - window_at + ROW_BYTES]
            if not any(row) and (zeros := _zeros(data, start, stop)) >= MIN_ZERO_ROWS * ROW_BYTES:
                self.put(f"{self._place(position + start)}  ... {zeros} zero bytes")
                start += zeros
                left -= ROW_BYTES
                continue
            text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
            self.put(f"{self._place(position + start)}  {row.hex(' ', -4):<35}  {text}".rstrip())
            start += ROW_BYTES
            left -= ROW_BYTES

    def _place(self, position: int) -> str:
        return self.paint(f"{self.sign}{position}".rjust(10), "bright_black")


def preview(data: BytesLike) -> str:
    """Returns the first bytes as quoted text; "" if they are not printable text."""
    part = bytes(data[:_PREVIEW_BYTES])
    try:
        text = part.decode()
    except UnicodeDecodeError as error:
        if len(data) <= _PREVIEW_BYTES or error.start < _PREVIEW_BYTES - 3:
            return ""
        text = part[: error.start].decode()
    if not all(char.isprintable() or char in "\t\n\r" for char in text):
        return ""
    is_cut = len(text) > _PREVIEW_CHARS or len(data) > len(part)
    return f'"{on_one_line(text[:_PREVIEW_CHARS])}{"…" if is_cut else ""}"'


def _zeros(data: Sliceable, start: int, stop: int) -> int:
    """Returns the number of zero bytes at the start of data[start:stop], in complete rows unless they reach the end."""
    at, step = start, MIN_ZERO_ROWS * ROW_BYTES  # small at first, because there can be many short runs
    while at < stop and not (window := bytes(data[at : min(at + step, stop)])).strip(b"\0"):
        at += len(window)
        step = min(2 * step, WINDOW_BYTES)
    if at == stop:
        return at - start
    return (at + len(window) - len(window.lstrip(b"\0")) - start) // ROW_BYTES * ROW_BYTES


DAMAGE_BYTES = 256
"""Printed bytes of a damaged range after its possible header, and of invalid parts, unless ``--position`` is given."""


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
        self._lines = HexLines(sink.put, paint or Paint(), width, positions)
        self._unpacked = unpacked
        self._buffer: Any = b""
        self._is_07 = False
        self._bytes_left = 0
        """Bytes to which the rest of a message may be decompressed."""

    def begin(self, file: SegmentFile) -> None:
        super().begin(file)
        self.sink.put(self._lines.paint(on_one_line(file.path), bold=True))

    def attend(self, reader: SegmentReader) -> None:
        """Selects the reader of the following items."""
        self._buffer, self._is_07 = reader.buffer, reader.is_07

    def run(self, reader: SegmentReader, run: Run) -> None:
        self.attend(reader)
        if not self._lines.shows(run.position, run.end):
            return
        super().run(reader, run)

    def batch(self, batch: Batch, spans: Spans = all_rows) -> None:
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
            self._bytes_left = self.scratch.max_batch_bytes
            self._entry(self._lines, batch.data, batch.position, batch.size, 0)

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
        read, start = 0, damage.position
        if damage.code != "zero-block":
            lines.note("if a header began here:")
            checked = min(damage.length, self.scratch.max_batch_bytes)
            read = show_header(lines, self._buffer, start, damage.length, self._is_07, checked, start)
            if read < damage.length:
                lines.note("bytes after it:")
        lines.rows(0, self._buffer, start + read, damage.end, DAMAGE_BYTES)

    def _record_batch(self, batch: RecordBatch) -> None:
        lines, data = self._lines, batch.data
        show_header(lines, data, batch.position, batch.size, False, batch.size)
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
        if not self._unpacked or not lines.shows(at, batch.end):
            return
        try:
            payload, start = open_records(data, header, self.scratch.max_batch_bytes)
        except UndecodableError as error:
            lines.note(f"cannot be decompressed: {error}", "red")
            return
        if header.record_count:
            lines.note(f"decompressed: {len(payload)} bytes", "green")
            show_records(lines.unpacked(), payload, start, 0, header)

    def _entry(self, lines: HexLines, data: BytesLike, position: int, size: int, depth: int) -> None:
        """Prints a v0, v1 or 0.7 message of ``size`` bytes at ``position``; data[0] is its first byte."""
        is_07 = self._is_07
        read = show_header(lines, data, position, size, is_07, size)
        if (is_07 and read < v07.MIN_BYTES) or (not is_07 and data[headers.ENTRY_MAGIC] >= headers.MAGIC_V2):
            _show_unknown(lines, data, position, read)
            return
        if is_07:
            codec, name, value = v07.parse_header(data).codec, "payload", (read, size)
        else:
            codec, name = data[headers.LEGACY_FLAGS] & headers.CODEC, "value"
            found = show_key(lines, data, read, size, position)
            if found is None:
                return
            value = found
        start, stop = value
        if stop > start:
            shown = name if codec == 0 else f"{name}, compressed"
            lines.content(position + start, data[start:stop], shown, is_record=False)
        if not codec or not self._unpacked or not lines.shows(position, position + size):
            return
        if depth >= MAX_NESTING:
            self._lines.note(f"more than {MAX_NESTING} compressed messages inside each other", "red")
            return
        try:
            magic = KAFKA_0_7 if is_07 else data[headers.ENTRY_MAGIC]
            payload = memoryview(decompress(codec, data[start:stop], magic, self._bytes_left))
        except DecompressionError as error:
            self._lines.note(f"cannot be decompressed: {error}", "red")
            return
        self._bytes_left -= len(payload)
        self._entries(self._lines.unpacked() if depth == 0 else lines, payload, depth + 1)

    def _entries(self, lines: HexLines, payload: memoryview, depth: int) -> None:
        """Prints the messages inside a compressed one."""
        lines.note(f"decompressed: {len(payload)} bytes", "green")
        at, overhead = 0, headers.V07_SIZE_BYTES if self._is_07 else headers.ENTRY_OVERHEAD
        least = v07.MIN_BYTES if self._is_07 else message_set.MIN_BYTES
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
            self._entry(lines, payload[at : at + size], at, size, depth)
            at += size
        lines.note(f"end of the {len(payload)} bytes", "green")


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


class _BrokenError(Exception):
    """The bytes of a record are invalid from here on."""


class _Walk:
    """Reads the fields of a record in data[at:end] and prints them; ``position`` is that of data[0]."""

    def __init__(self, lines: HexLines, data: BytesLike, at: int, end: int, position: int) -> None:
        self.lines, self.data, self.at, self.end, self.position = lines, data, at, end, position
        self.shown = at

    def varint(self, max_bytes: int = 5) -> tuple[bytes, int]:
        """Reads a zigzag varint. Returns its bytes and value. ``max_bytes``: 5 bytes, 10 for a varlong."""
        raw = bytes(self.data[self.at : min(self.at + max_bytes, self.end)])
        used = next((i + 1 for i, byte in enumerate(raw) if byte < 128), 0)
        if not used:
            raise _BrokenError("no varint")
        value = sum((byte & 127) << 7 * i for i, byte in enumerate(raw[:used])) % (1 << (32 if max_bytes == 5 else 64))
        self.at += used
        return raw[:used], value >> 1 ^ -(value & 1)

    def show(self, raw: bytes, name: str, value: str) -> None:
        """Prints the field that was just read."""
        self.shown = self.at
        self.lines.field(self.position + self.at - len(raw), raw, name, value, is_record=True)

    def content(self, name: str, may_be_null: bool = True) -> bytes | None:
        """Reads a length and that many bytes."""
        raw, size = self.varint()
        if size > self.end - self.at or (size < 0 and not may_be_null):
            self.show(raw, f"{name}Length", f"{size}: does not fit the record")
            raise _BrokenError(f"{name}Length does not fit")
        self.show(raw, f"{name}Length", f"{size}: null" if size < 0 else str(size))
        if size < 0:
            return None
        start = self.at
        self.at += size
        self.shown = self.at
        view = self.data[start : self.at]
        self.lines.content(self.position + start, view, name)
        return bytes(view[:4096])


def show_records(lines: HexLines, data: BytesLike, start: int, position: int, header: RecordBatchHeader) -> None:
    """Prints the records in data[start:]; ``position`` is that of data[0]. Invalid parts are printed as bytes."""
    end = len(data)
    at = start
    for number in range(header.record_count):
        if lines.last is not None and position + at > lines.last:
            return
        if not lines.take_entry():
            lines.note(f"{header.record_count - number} further records, {end - at} bytes, are not shown", "yellow")
            return
        walk = _Walk(lines, data, at, end, position)
        try:
            raw, length = walk.varint()
            if not 0 <= length <= end - walk.at:
                raise _BrokenError(f"a length of {length}, where {end - walk.at} bytes are left")
            after = walk.at + length
            if lines.shows(position + at, position + after):
                lines.title(position + at, f"record {number + 1} of {header.record_count}")
                walk.show(raw, "length", f"{length}: ends at {lines.sign}{position + after}")
                walk.end = after
                _show_record(walk, header)
        except _BrokenError as error:
            lines.note(f"record {number + 1} cannot be decoded: {error}", "red")
            lines.rows(position, data, walk.shown, end, DAMAGE_BYTES)
            return
        at = after
    if at < end:
        place = "after the last record" if header.record_count > 0 else "in a batch without records"
        lines.note(f"{end - at} bytes {place}:", "red")
        lines.rows(position, data, at, end, DAMAGE_BYTES)


def _show_record(walk: _Walk, header: RecordBatchHeader) -> None:
    if walk.at >= walk.end:
        raise _BrokenError("it has no fields")
    attributes = bytes(walk.data[walk.at : walk.at + 1])
    walk.at += 1
    walk.show(attributes, "attributes", f"0x{attributes[0]:02x}" + (": unknown bits" if attributes[0] else ""))
    raw, delta = walk.varint(10)
    timestamp = header.max_timestamp if header.is_log_append_time else header.base_timestamp + delta
    walk.show(raw, "timestampDelta", f"{delta}: {shown_time(timestamp) if timestamp >= 0 else timestamp}")
    raw, delta = walk.varint()
    walk.show(raw, "offsetDelta", f"{delta}: offset {header.base_offset + delta}")
    key = walk.content("key")
    value = walk.content("value")
    if header.is_control:
        walk.lines.note(f"control record:{control_text(parse_control(key, value))}", "magenta")
    raw, count = walk.varint()
    walk.show(raw, "headersCount", str(count))
    if not 0 <= count <= walk.end - walk.at:
        raise _BrokenError("headersCount does not fit")
    for number in range(count):
        if not walk.lines.take_entry():
            walk.lines.note(f"{count - number} further headers are not shown", "yellow")
            return
        walk.content("headerKey", may_be_null=False)
        walk.content("headerValue")
    if walk.at != walk.end:
        walk.lines.note(f"{walk.end - walk.at} bytes at the end of the record:", "red")
        walk.lines.rows(walk.position, walk.data, walk.at, walk.end, DAMAGE_BYTES)


MAGIC_END = headers.ENTRY_MAGIC + 1
"""The end of the fields that all formats since 0.8 share."""
_UNSET = {"producerId", "producerEpoch", "baseSequence"}
_TIMES = {"baseTimestamp", "maxTimestamp", "timestamp"}


def fields_of(head: bytes, is_07: bool) -> Sequence[tuple[str, str]]:
    """Returns names and types of the header's fields, by its magic; for an unknown magic the fields before it."""
    at = headers.V07_MAGIC if is_07 else headers.ENTRY_MAGIC
    magic = head[at] if len(head) > at else -1
    if is_07:
        return headers.V07_FIELDS[magic] if magic in (0, 1) else headers.V07_FIELDS[0][:2]
    if magic in (0, 1):
        return headers.V0_FIELDS if magic == 0 else headers.V1_FIELDS
    return headers.V2_FIELDS if magic == headers.MAGIC_V2 else headers.V2_FIELDS[:4]


def show_header(
    lines: HexLines, data: Sliceable, position: int, size: int, is_07: bool, max_bytes: int, origin: int = 0
) -> int:
    """Prints the header at ``position``, where data[origin] is. Returns its size in bytes.

    ``size``: size of the batch or damage; bytes after it are not read. The CRC is computed for at most ``max_bytes``.
    """
    head, at = bytes(data[origin : origin + min(HEADER_BYTES, size)]), 0
    seen: dict[str, int] = {}
    for name, kind in fields_of(head, is_07):
        width = calcsize(">" + kind)
        raw = head[at : at + width]
        if len(raw) < width:
            if raw:
                lines.field(position + at, raw, name, f"cut off: {len(raw)} of {width} bytes", "red")
            return len(head)
        number = int.from_bytes(raw, "big", signed=kind.islower())
        seen[name] = number
        value, color = _meaning(name, number, seen, position, is_07)
        if name == "crc":
            # The range of bytes that it covers, by the length field.
            start, stop = headers.ENTRY_MAGIC, headers.ENTRY_OVERHEAD
            if is_07:
                start, stop = v07.MIN_BYTES + (seen["magic"] != 0), headers.V07_SIZE_BYTES
            elif "batchLength" in seen:
                start = headers.V2_ATTRIBUTES
            stop += seen["batchLength" if "batchLength" in seen else "size"]
            value, color = f"{number}: not checked, the length exceeds these bytes", "yellow"
            if start <= stop <= min(size, start + max_bytes):
                wanted = (crc32c if "batchLength" in seen else crc32)(bytes(data[origin + start : origin + stop]))
                value, color = f"{number}: wrong, computed {wanted}", "red"
                if number == wanted:
                    value, color = f"{number}: right", "green"
        lines.field(position + at, raw, name, value, color)
        at += width
    return at


def _meaning(name: str, number: int, seen: dict[str, int], position: int, is_07: bool) -> tuple[str, str | None]:
    """Returns the value as text, and its color."""
    if name in ("batchLength", "size"):
        end = position + number + (headers.V07_SIZE_BYTES if is_07 else headers.ENTRY_OVERHEAD)
        return (f"{number}: ends at {end}", None) if number >= 0 else (f"{number}: invalid", "red")
    if name == "magic" and number not in ((0, 1) if is_07 else (0, 1, 2)):
        return f"{number}: names no format", "red"
    if name == "magic":
        return (f"{number}: format of 0.7" if is_07 else f"{number}: format v{number}"), None
    if name == "attributes":
        return _attributes(number, seen, is_07), None
    if name == "lastOffsetDelta":
        return f"{number}: last offset {seen['baseOffset'] + number}", None
    if name == "baseTimestamp" and seen["attributes"] & 64:
        return f"{number}: delete horizon {shown_time(number)}", None
    if name in _TIMES:
        return (f"{number}: none" if number == -1 else f"{number}: {shown_time(number)}"), None
    if name in _UNSET and number == -1:
        return "-1: none", None
    return str(number), None


def _attributes(bits: int, seen: dict[str, int], is_07: bool) -> str:
    found = [codec_name(bits & (3 if is_07 else 7))]
    if is_07:
        return f"0x{bits & 0xFF:02x}: {found[0]}"
    is_v2 = "batchLength" in seen
    if is_v2 or seen["magic"] == 1:
        found.append("LogAppendTime" if bits & 8 else "CreateTime")
    known = 0x7F if is_v2 else 0xF if seen["magic"] == 1 else 7
    if is_v2:
        names = ((16, "transactional"), (32, "control"), (64, "has delete horizon"))
        found += [name for bit, name in names if bits & bit]
    width = 16 if is_v2 else 8
    unknown = bits & (1 << width) - 1 & ~known
    if unknown:
        found.append(f"unknown bits 0x{unknown:x}")
    return f"0x{bits & (1 << width) - 1:0{width // 4}x}: {', '.join(found)}"


def show_key(lines: HexLines, data: BytesLike, start: int, size: int, position: int) -> tuple[int, int] | None:
    """Prints the key of a v0 or v1 message and the size of its value. Returns the range of the value, None if it is
    invalid.

    ``start``: end of the header in ``data``, the message of ``size`` bytes at ``position``.
    """
    for name in ("key", "value"):
        field = bytes(data[start : min(start + 4, size)])
        length = int.from_bytes(field, "big", signed=True)
        if len(field) < 4 or length > size - start - 4:
            shown = f"{length}: does not fit the message" if len(field) == 4 else "cut off"
            lines.field(position + start, field, f"{name}Size", shown, "red")
            lines.rows(position, data, start + len(field), size, DAMAGE_BYTES)
            return None
        lines.field(position + start, field, f"{name}Size", f"{length}: null" if length < 0 else str(length))
        start += 4
        if name == "key" and length > 0:
            lines.content(position + start, data[start : start + length], "key", is_record=False)
            start += length
    stop = start + max(length, 0)
    if stop < size:
        lines.note(f"{size - stop} bytes after the value:", "red")
        lines.rows(position, data, stop, size, DAMAGE_BYTES)
    return start, stop
