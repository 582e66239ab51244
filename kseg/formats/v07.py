"""Messages of 0.6 and 0.7 (.kafka files), and captured fetch responses: kafka.message.Message and ByteBufferMessageSet
@0.7.

    at  field       magic 0  magic 1
     0  size        int32    int32      bytes after this field
     4  magic       int8     int8       0.7's own numbering: not the v0 and v1 of 0.8 and later
     5  attributes           int8       bits 0-1 codec: 0 none, 1 gzip, 2 snappy
     .  crc         uint32   uint32     CRC-32 of the payload alone
     .  payload                         compressed: a set of such entries, to any depth

There are no keys, offsets or timestamps: the offset in consumers is the byte position in the whole log. The 0.7
iterator returns with each message the next offset to fetch: the position after the message. Inside a compressed entry
it is the entry's own start for all messages but the last.
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from kseg.formats.compression import KAFKA_0_7, Remarks, decompress
from kseg.formats.message_set import cut_set_text
from kseg.formats.rows import BytesLike, Rows, Scratch, Sliceable, UndecodableError, int64s
from kseg.kernel.layout.headers import V07_CODEC, V07_FIELDS, V07_MAGIC, V07_MIN_BYTES, V07_SIZE_BYTES, struct_of
from kseg.kernel.layout.rows import COMPRESSED, CUT, DONE, FRAME_WIDTH, FULL
from kseg.kernel.records import messages as kernel
from kseg.kernel.scan import frames
from kseg.kernel.scan.frames import FrameScan
from kseg.limits import MAX_NESTING

MIN_BYTES = V07_MIN_BYTES
_HEADERS = tuple(struct_of(fields) for fields in V07_FIELDS)


class V07Header(NamedTuple):
    """The fields before the payload; ``attributes`` is 0 for magic 0, which has none."""

    size: int
    magic: int
    attributes: int
    crc: int

    @property
    def codec(self) -> int:
        return self.attributes & V07_CODEC


def parse_header(data: BytesLike, position: int = 0) -> V07Header:
    """Reads the entry at ``position``; 9 bytes must exist (10 if its magic is not 0)."""
    found = _HEADERS[data[position + V07_MAGIC] != 0]
    size, magic, *attributes, crc = found.unpack(data[position : position + found.size])
    return V07Header(size, magic, attributes[0] if attributes else 0, crc)


def read_rows(data: BytesLike, offset: int, scratch: Scratch, remarks: Remarks | None = None) -> Iterator[Rows]:
    """Yields rows of an entry that starts at ``offset`` (file name + position); all rows have that offset.

    Raises UndecodableError and fills ``remarks`` as `kseg.formats.message_set.read_rows` does. The caller computes each
    row's next offset.
    """
    yield from _open_set(data, offset, scratch, [scratch.max_batch_bytes], 0, remarks)


def _open_set(
    payload: BytesLike, offset: int, scratch: Scratch, budget: list[int], depth: int, remarks: Remarks | None
) -> Iterator[Rows]:
    if depth > MAX_NESTING:
        raise UndecodableError(f"more than {MAX_NESTING} compressed messages inside each other")
    walk = kernel.MessageWalk(offset)
    while True:
        status = walk.read(payload, scratch.rows, True)
        if walk.row_count:
            yield Rows(payload, scratch.rows, scratch.headers, walk.row_count)
        if status in (DONE, CUT):
            if status == CUT and remarks is not None:
                remarks.append(("cut-message-set", cut_set_text(payload, walk.position, V07_SIZE_BYTES)))
            return
        if status == COMPRESSED:
            header = parse_header(payload, walk.position)
            after = walk.position + V07_SIZE_BYTES + header.size
            start = walk.position + MIN_BYTES + 1  # only magic 1, which has attributes, is compressed
            inner = decompress(header.codec, payload[start:after], KAFKA_0_7, budget[0], remarks)
            budget[0] -= len(inner)
            yield from _open_set(inner, offset, scratch, budget, depth + 1, remarks)
            walk.position = after
        elif status != FULL:
            raise UndecodableError(kernel.REASONS[status])


# Captured fetch responses of 0.6 and 0.7 brokers: message sets, each preceded by an error code.
#
#     MessageSetSend            MultiMessageSetSend
#     int32  bytes that follow  int32  bytes that follow
#     int16  error code         int16  error code
#     messages                  MessageSetSend ...
#
# Source: kafka.server.MessageSetSend and MultiMessageSetSend @0.7. The bytes do not state which of the two they are,
# and 0.7 messages begin with their length as the sets do: the interpretation that gives an intact message is chosen.
# A file may hold several concatenated responses, and the messages may be of any format.
#
# A broker truncates the last message of a set at the fetch size; this is not damage.

HEADER_BYTES = 6
_HEADER = Struct(">ih")
_ERROR_CODE_BYTES = 2
# kafka.common.ErrorMapping @0.7: Unknown, NoError, OffsetOutOfRange, InvalidMessage, WrongPartition, InvalidFetchSize.
# Later releases have more codes.
_ERROR_CODES = range(-1, 5)


class MessageSet(NamedTuple):
    """Messages in bytes ``[start, end)`` of the file, perhaps none; ``is_07``: they are of 0.6 or 0.7.

    ``missing`` is the number of claimed bytes beyond the end of the file.
    """

    start: int
    end: int
    error_code: int
    is_07: bool
    missing: int


class Unreadable(NamedTuple):
    """Bytes ``[start, end)`` that are not a response."""

    start: int
    end: int
    reason: str


class _Header(NamedTuple):
    """A length and an error code at ``start``; ``end`` is the position after that length."""

    start: int
    end: int
    error_code: int

    @property
    def messages(self) -> int:
        return self.start + HEADER_BYTES


def parse(buffer: Sliceable, size: int) -> Iterator[MessageSet | Unreadable]:
    """Yields the message sets and unreadable ranges of a file of ``size`` bytes, in order. Never raises."""
    position = 0
    while position < size:
        answer = _header_at(buffer, position, size)
        if answer is None:
            yield Unreadable(position, size, "no length and error code of an answer")
            return
        end = min(answer.end, size)
        is_multi, reached = _is_multi(buffer, answer.messages, end), answer.messages
        for header in _headers(buffer, answer.messages, end) if is_multi else (answer,):
            start, stop = header.messages, min(header.end, end)
            is_07 = _era_of(buffer, start, stop)
            if is_07 is None:
                is_07 = _first_intact(buffer, start, stop, True) < _first_intact(buffer, start, stop, False)
            yield MessageSet(start, stop, header.error_code, is_07, max(header.end - end, 0))
            reached = header.end
        if reached < end:
            yield Unreadable(reached, end, "no length and error code of a message set")
        elif reached < answer.end:
            yield Unreadable(end, end, f"{answer.end - end} bytes of the answer are missing at the end")
        position = end


def _headers(buffer: Sliceable, position: int, end: int) -> Iterator[_Header]:
    """Yields consecutive headers up to ``end``; the last may extend beyond it."""
    while position < end:
        header = _header_at(buffer, position, end)
        if header is None:
            return
        yield header
        position = header.end


def _header_at(buffer: Sliceable, position: int, end: int) -> _Header | None:
    if end - position < HEADER_BYTES:
        return None
    length, error_code = _HEADER.unpack(bytes(buffer[position : position + HEADER_BYTES]))
    return None if length < _ERROR_CODE_BYTES else _Header(position, position + 4 + length, error_code)


def _is_multi(buffer: Sliceable, position: int, end: int) -> bool:
    """Whether message sets, and not messages, begin at ``position``."""
    reached = position
    are_codes_known = True
    for header in _headers(buffer, position, end):
        if _era_of(buffer, header.start, end) is not None:
            return False
        if _era_of(buffer, header.messages, min(header.end, end)) is not None:
            return True
        reached = header.end
        are_codes_known &= header.error_code in _ERROR_CODES
    return position < reached == end and are_codes_known


def _era_of(buffer: Sliceable, start: int, end: int) -> bool | None:
    """Whether the messages at ``start`` are of 0.7 (True) or later (False); None if the first is not intact."""
    for is_07 in (False, True) if start < end else ():
        scan = FrameScan(is_07, position=start)
        frames.scan(scan, buffer, end, int64s(FRAME_WIDTH))
        if scan.count:
            return is_07
    return None


def _first_intact(buffer: Sliceable, start: int, end: int, is_07: bool) -> int:
    """Returns the position of the first intact message of an era after a damaged one; ``end`` if there is none."""
    scan = FrameScan(is_07)
    scan.use_prefixes(start, end - start)
    found = frames.find(scan, buffer, start, end, end)
    return end if found < 0 else found
