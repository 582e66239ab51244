"""The header fields of every format in the hex view, with the meaning of each value."""

from collections.abc import Callable
from typing import Any

from kseg.formats.compression import codec_name
from kseg.formats.rows import BytesLike
from kseg.kernel.layout.headers import ENTRY_MAGIC, MAGIC_V2, V07_MAGIC
from kseg.kernel.scan.checksums import crc32, crc32c
from kseg.output.hex.lines import HexLines
from kseg.quantities import shown_time

_V2 = (
    ("baseOffset", 8), ("batchLength", 4), ("partitionLeaderEpoch", 4), ("magic", 1), ("crc", 4), ("attributes", 2),
    ("lastOffsetDelta", 4), ("baseTimestamp", 8), ("maxTimestamp", 8), ("producerId", 8), ("producerEpoch", 2),
    ("baseSequence", 4), ("recordsCount", 4),
)  # fmt: skip
_V0 = (("offset", 8), ("size", 4), ("crc", 4), ("magic", 1), ("attributes", 1))
_V1 = (*_V0, ("timestamp", 8))
_UNKNOWN = _V2[:4]
_V07 = {0: (("size", 4), ("magic", 1), ("crc", 4)), 1: (("size", 4), ("magic", 1), ("attributes", 1), ("crc", 4))}
MAGIC_END = ENTRY_MAGIC + 1
"""The end of the fields that all formats since 0.8 share."""
_UNSET = {"producerId", "producerEpoch", "baseSequence"}
_TIMES = {"baseTimestamp", "maxTimestamp", "timestamp"}

Slices = Callable[[int, int], Any]
"""Returns the bytes (start, stop) relative to the header, None if some are missing."""


def fields_of(head: bytes, is_07: bool) -> tuple[tuple[str, int], ...]:
    """Returns names and sizes of the header's fields, by its magic; for an unknown magic the fields before it."""
    at = V07_MAGIC if is_07 else ENTRY_MAGIC
    magic = head[at] if len(head) > at else -1
    if is_07:
        return _V07.get(magic, _V07[0][:2])
    if magic in (0, 1):
        return _V0 if magic == 0 else _V1
    return _V2 if magic == MAGIC_V2 else _UNKNOWN


def show_header(lines: HexLines, head: bytes, position: int, size: int, is_07: bool, read: Slices) -> int:
    """Prints the header at ``position``, as far as ``head`` contains it. Returns its size in bytes.

    ``size``: size of the batch or damage. The CRC is computed over bytes from ``read``.
    """
    at = 0
    seen: dict[str, int] = {}
    for name, width in fields_of(head, is_07):
        data = head[at : at + width]
        if len(data) < width:
            if data:
                lines.field(position + at, data, name, f"cut off: {len(data)} of {width} bytes", "red")
            return len(head)
        number = int.from_bytes(data, "big", signed=name != "crc")
        seen[name] = number
        value, color = _meaning(name, number, seen, head, position, is_07, read)
        lines.field(position + at, data, name, value, color)
        at += width
    return at


def _meaning(
    name: str, number: int, seen: dict[str, int], head: bytes, position: int, is_07: bool, read: Slices
) -> tuple[str, str | None]:
    """Returns the value as text, and its color."""
    if name in ("batchLength", "size"):
        end = position + number + (4 if is_07 else 12)
        return (f"{number}: ends at {end}", None) if number >= 0 else (f"{number}: invalid", "red")
    if name == "magic":
        return _magic(number, is_07)
    if name == "crc":
        return _crc(number, seen, head, is_07, read)
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


def _magic(number: int, is_07: bool) -> tuple[str, str | None]:
    known = (0, 1) if is_07 else (0, 1, 2)
    if number not in known:
        return f"{number}: names no format", "red"
    return (f"{number}: format of 0.7" if is_07 else f"{number}: format v{number}"), None


def _crc(stored: int, seen: dict[str, int], head: bytes, is_07: bool, read: Slices) -> tuple[str, str | None]:
    """Checks the CRC over the number of bytes in the length field."""
    if is_07:
        start, stop = 9 + (seen["magic"] != 0), seen["size"] + 4
    elif "batchLength" in seen:
        start, stop = 21, seen["batchLength"] + 12
    else:
        start, stop = 16, seen["size"] + 12
    covered = read(start, stop) if stop >= start else None
    if covered is None:
        return f"{stored}: not checked, the length exceeds these bytes", "yellow"
    wanted = crc32c(covered) if "batchLength" in seen else crc32(covered)
    return (f"{stored}: right", "green") if stored == wanted else (f"{stored}: wrong, computed {wanted}", "red")


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
            lines.rows(position, data, start + len(field), size, 256)
            return None
        lines.field(position + start, field, f"{name}Size", f"{length}: null" if length < 0 else str(length))
        start += 4
        if name == "key" and length > 0:
            lines.content(position + start, data[start : start + length], "key", is_record=False)
            start += length
    stop = start + max(length, 0)
    if stop < size:
        lines.note(f"{size - stop} bytes after the value:", "red")
        lines.rows(position, data, stop, size, 256)
    return start, stop
