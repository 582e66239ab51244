"""The records of a v2 batch in the hex view: every varint with its meaning; keys, values and headers abbreviated."""

from kseg.formats.control import control_text, parse_control
from kseg.formats.record_batch import RecordBatchHeader
from kseg.formats.rows import BytesLike
from kseg.output.hex.lines import HexLines
from kseg.quantities import shown_time

REST_BYTES = 256


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

    def number(self, name: str, max_bytes: int = 5) -> int:
        raw, value = self.varint(max_bytes)
        self.show(raw, name, str(value))
        return value

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
        if lines.is_behind(position + at):
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
            lines.rows(position, data, walk.shown, end, REST_BYTES)
            return
        at = after
    if at < end:
        place = "after the last record" if header.record_count > 0 else "in a batch without records"
        lines.note(f"{end - at} bytes {place}:", "red")
        lines.rows(position, data, at, end, REST_BYTES)


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
    count = walk.number("headersCount")
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
        walk.lines.rows(walk.position, walk.data, walk.at, walk.end, REST_BYTES)
