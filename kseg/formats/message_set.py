"""Messages v0 (0.8, 0.9) and v1 (0.10), and their nested sets: Kafka's LegacyRecord, KIP-31, KIP-32.

    at  field       v0     v1
     0  offset      int64  int64    of a compressed message: the offset of its last inner message
     8  size        int32  int32    bytes after this field
    12  crc         uint32 uint32   CRC-32 of byte 16 to the end
    16  magic       int8   int8
    17  attributes  int8   int8     bits 0-2 codec; v1: bit 3 LogAppendTime
    18  timestamp          int64    ms, -1 none
    18  key         .      26       int32 size, -1 null, then the bytes
        value                       the same; of a compressed message: a set of such messages

Inner offsets of v0 are absolute. Those of v1 are relative: the last one corresponds to the offset of the compressed
message, and the others keep their distance to it.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Any, NamedTuple

from kseg.formats.compression import Remarks, decompress_limited, leading_bytes
from kseg.formats.rows import BytesLike, Rows, Scratch, UndecodableError
from kseg.kernel.layout import headers as layout
from kseg.kernel.layout.rows import COMPRESSED, CUT, DONE, FULL, difference, sum_of
from kseg.kernel.records import messages as kernel
from kseg.limits import MAX_NESTING

_HEADERS = layout.struct_of(layout.V0_FIELDS), layout.struct_of(layout.V1_FIELDS)
_INT64 = Struct(">q")
_INT32 = Struct(">i")
MIN_BYTES = layout.V0_HEADER_BYTES + layout.SIZES_BYTES
"""Least size of a v0 entry, with null key and value; a v1 entry has at least 34."""
COMPRESSED_TWICE = "compressed-twice"
UNKNOWN_OFFSET = -2
MIN_SIZE = MIN_BYTES - layout.ENTRY_OVERHEAD
"""A smaller size field stops Kafka's readers (LegacyRecord.RECORD_OVERHEAD_V0)."""


class MessageHeader(NamedTuple):
    """The fields before key and value. ``timestamp`` is -1 for v0; ``magic`` is signed and may be invalid."""

    offset: int
    size: int
    crc: int
    magic: int
    attributes: int
    timestamp: int

    @property
    def codec(self) -> int:
        return self.attributes & layout.CODEC

    @property
    def is_log_append_time(self) -> bool:
        return self.magic != 0 and bool(self.attributes & layout.LOG_APPEND_TIME)


def parse_header(data: BytesLike, position: int = 0) -> MessageHeader:
    """Reads the header of the entry at ``position``; 26 bytes must exist (34 unless the magic is 0)."""
    found = _HEADERS[data[position + layout.ENTRY_MAGIC] != 0]
    fields = found.unpack(data[position : position + found.size])
    return MessageHeader(*fields[:5], *(fields[5:] or (-1,)))


class _Reading:
    """Options for reading the nested sets of one entry, and the bytes to which they may still decompress in total."""

    __slots__ = ("budget", "mode", "offset_before", "remarks", "scratch")

    def __init__(self, scratch: Scratch, mode: int, remarks: Remarks | None, offset_before: int | None) -> None:
        self.scratch, self.mode, self.remarks, self.offset_before = scratch, mode, remarks, offset_before
        self.budget = scratch.max_batch_bytes


def read_rows(
    data: BytesLike,
    header: MessageHeader,
    scratch: Scratch,
    mode: int = kernel.STRICT,
    remarks: Remarks | None = None,
    offset_before: int | None = None,
) -> Iterator[Rows]:
    """Yields the rows of an entry: one row for an uncompressed message, else those of its inner set.

    ``data`` are the entry's bytes, beginning with its offset. The rows include whether each message's CRC is valid.
    Raises UndecodableError at the first unreadable message, after yielding the rows before it. A message truncated by
    the end of the set is left out, as in Kafka, and reported in ``remarks`` as ``"cut-message-set"``. Messages of a set
    inside a set are read, before which the latter is reported as COMPRESSED_TWICE: Kafka's readers stop there.

    With ``offset_before``, the last offset before the entry or UNKNOWN_OFFSET, messages before the fault of a broken
    stream are read before the error, too. Offsets of v1 then continue that one if the last message is missing, and
    ``data`` may be cut off.

    ``mode`` is one of `kseg.kernel.records.messages`: STRICT, or AS_DUMPED or SIZES_ONLY to print what
    kafka-dump-log prints.
    """
    if header.codec == 0:
        walk = kernel.MessageWalk(mode=mode)
        status = walk.read(data, scratch.rows)
        if status != DONE:
            raise UndecodableError(_reason(status))
        yield Rows(data, scratch.rows, scratch.headers, walk.row_count, walk.misfits)
        return
    yield from _open_set(data, 0, len(data), header, header.offset, _Reading(scratch, mode, remarks, offset_before), 1)


def value_of(data: BytesLike, position: int, end: int, is_cut: bool = False) -> Any | None:
    """Returns the value of the entry in ``[position, end)``, None for null. Raises UndecodableError.

    If the entry may be cut (``is_cut``), so may the value.
    """
    at = position + (layout.V0_HEADER_BYTES if data[position + layout.ENTRY_MAGIC] == 0 else layout.V1_HEADER_BYTES)
    for part in ("key", "value"):
        if at + 4 > end:
            raise UndecodableError(f"a {part} does not fit its message")
        size = _INT32.unpack(data[at : at + 4])[0]
        at += 4
        if size > end - at and not (is_cut and part == "value"):
            raise UndecodableError(f"a {part} does not fit its message")
        if part == "value":
            return data[at : min(at + size, end)] if size >= 0 else None
        at += max(size, 0)
    return None


def _open_set(
    data: BytesLike, position: int, end: int, header: MessageHeader, offset: int, reading: _Reading, depth: int
) -> Iterator[Rows]:
    """Yields the rows of the set inside the compressed entry at ``position``, whose absolute offset is ``offset``."""
    if depth > MAX_NESTING:
        raise UndecodableError(f"more than {MAX_NESTING} compressed messages inside each other")
    payload, fault = _expanded(data, position, end, header, reading)
    reading.budget -= len(payload)
    base, kind = 0, layout.NO_TIME
    if header.magic:
        base = _base_of(payload, offset, reading.mode, None if fault is None else reading.offset_before)
        kind = layout.APPEND_TIME if header.is_log_append_time else layout.CREATE_TIME
    walk = kernel.MessageWalk(base, kind, header.timestamp, mode=reading.mode)
    scratch, is_empty = reading.scratch, True
    while True:
        status = walk.read(payload, scratch.rows)
        if walk.row_count:
            yield Rows(payload, scratch.rows, scratch.headers, walk.row_count, walk.misfits)
            walk.misfits, is_empty = 0, False
        if fault is not None and status not in (FULL, COMPRESSED):
            raise fault
        if status in (DONE, CUT):
            if is_empty:
                raise UndecodableError("a compressed message holds no message")
            if status == CUT and reading.remarks is not None:
                reading.remarks.append(("cut-message-set", cut_set_text(payload, walk.position, layout.ENTRY_OVERHEAD)))
            return
        if status == COMPRESSED:
            is_empty = False
            if reading.remarks is not None and not any(code == COMPRESSED_TWICE for code, _ in reading.remarks):
                reading.remarks.append((COMPRESSED_TWICE, "a message inside a compressed message is compressed"))
            inner = parse_header(payload, walk.position)
            after = walk.position + layout.ENTRY_OVERHEAD + inner.size
            offset_inside = sum_of(inner.offset, base)
            yield from _open_set(payload, walk.position, after, inner, offset_inside, reading, depth + 1)
            walk.position = after
        elif status != FULL:
            raise UndecodableError(_reason(status))


def _expanded(
    data: BytesLike, position: int, end: int, header: MessageHeader, reading: _Reading
) -> tuple[BytesLike, UndecodableError | None]:
    """Returns the set inside a compressed entry; before a fault, with which it is returned, if that is asked for.

    Raises UndecodableError.
    """
    before_large = reading.scratch.before_large
    try:
        value = value_of(data, position, end)
        if value is None:
            raise UndecodableError("a compressed message has no value")
        found = decompress_limited(header.codec, value, header.magic, reading.budget, before_large, reading.remarks)
        return found, None
    except UndecodableError as error:
        fault = error
    if reading.offset_before is None or fault.problem != "undecodable-records":
        raise fault
    value = value_of(data, position, end, is_cut=True)
    return b"" if value is None else leading_bytes(header.codec, value, reading.budget, before_large), fault


def cut_set_text(payload: BytesLike, position: int, overhead: int) -> str:
    """Returns the message for a truncated entry at ``position``, which would begin with ``overhead`` bytes."""
    left = len(payload) - position
    if left < overhead:
        return f"the compressed set ends in {left} bytes that are no message"
    (size,) = _INT32.unpack(payload[position + overhead - 4 : position + overhead])
    return f"the last message of the compressed set claims {size} bytes, {left - overhead} are left"


def _base_of(payload: BytesLike, wrapper_offset: int, mode: int, offset_before: int | None) -> int:
    """Returns the number to add to relative inner offsets of a v1 entry (the rules of AbstractLegacyRecordBatch).

    If the end of the set is missing, its offsets continue ``offset_before``, unless that is None.
    """
    walk = kernel.MessageWalk(kind=layout.CREATE_TIME, mode=mode)
    status = walk.read(payload)
    if offset_before is not None and (status != DONE or walk.count == 0):
        if offset_before == UNKNOWN_OFFSET:
            raise UndecodableError("a cut message set has no offsets")
        first = _INT64.unpack(payload[:8])[0] if walk.count else 0
        base = difference(offset_before + 1, first)
        if base + walk.last_offset < wrapper_offset:
            return base
        raise UndecodableError("a cut message set has offsets beyond that of its last message")
    if walk.count == 0:
        raise UndecodableError("a compressed message holds no message" if status == 0 else _reason(status))
    last_inner = walk.last_offset
    if wrapper_offset == 0:
        return 0
    if wrapper_offset < last_inner:
        raise UndecodableError(
            f"offset {wrapper_offset} of a compressed message is below that of its last one, {last_inner}"
        )
    return difference(wrapper_offset, last_inner)


def _reason(status: int) -> str:
    return kernel.REASONS.get(status, "a message is cut off")
