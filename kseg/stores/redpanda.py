"""Presents segments of Redpanda as Kafka's: only the headers of their batches differ, which have the same size.

    at  field      type                              Kafka's
     0  headerCrc  uint32  CRC-32C of bytes 4 to 60  0  baseOffset int64
     4  size       int32   of the batch              8  length     int32
     8  baseOffset int64                            12  epoch      int32  presented as the term
    16  type       int8    1 is data                16  magic      int8
    17  crc        uint32  Kafka's                  17  crc        uint32

From byte 17 on the fields are Kafka's, but in little endian. A file is called BASE-TERM-v1.log; zeros may follow the
last batch, because files are preallocated. Source: the on-disk format of Redpanda 24 (model/record.h, storage/).

A batch whose header checksum is wrong gets a wrong CRC of Kafka's, and reaches to the next right header.
"""

import re
from collections.abc import Iterator, Sequence
from struct import Struct

from kseg.kernel.layout.headers import V2_FIELDS, struct_of
from kseg.kernel.scan.checksums import crc32c
from kseg.kernel.scan.frames import continues
from kseg.limits import MAX_OFFSET
from kseg.stores.extent import Extent
from kseg.stores.source import read_around

_HEADER = Struct("<IiqbIhiqqqhii")
_KAFKA_HEADER = struct_of(V2_FIELDS)
HEADER_BYTES = _HEADER.size
_OVERHEAD = 12
_LAST_OFFSET_DELTA = 1
"""Its number among the fields behind the CRC."""
_MAY_BE_HEADER = re.compile(rb"(?s)(?=.{7}[\x00-\x0f].{6}\x00\x00[\x01-\x3f])")
"""A size below 256 MiB, a base offset below 2^48, one of the types of batches."""
_PIECE_BYTES = 1 << 20
_INT32_MAX = (1 << 31) - 1
_NO_RECORDS = (0, 0, -1, -1, -1, -1, -1, 0)
"""Fields that follow the CRC, as in a header of Kafka."""


def _kafka_header(base_offset: int, size: int, term: int, crc: int, fields: Sequence[int]) -> bytes:
    return _KAFKA_HEADER.pack(base_offset, size - _OVERHEAD, term, 2, crc, *fields)


def is_header(data: bytes, position: int = 0) -> bool:
    """Whether a batch header with the right checksum is at the position."""
    head = data[position : position + HEADER_BYTES]
    if len(head) < HEADER_BYTES or int.from_bytes(head[4:8], "little", signed=True) < HEADER_BYTES:
        return False
    return crc32c(head[4:], 0) == int.from_bytes(head[:4], "little")


def as_kafka_segment(extent: Extent, named: re.Match[str] | None) -> Iterator[bytes]:
    """Yields the bytes of a segment with headers of Kafka: as many, each batch at its position. Raises OSError.

    ``named``: base offset and term in the file's name, None if it has another one.
    """
    term = min(int(named[2]), _INT32_MAX) if named else -1
    size = extent.current_size()
    position, next_offset = 0, min(int(named[1]), MAX_OFFSET) if named else 0
    while position < size:
        head = read_around(extent, position, min(position + HEADER_BYTES, size))
        if is_header(head):
            _, batch_bytes, base_offset, _, crc, *fields = _HEADER.unpack(head)
            end = min(position + batch_bytes, size)
            yield _kafka_header(base_offset, batch_bytes, term, crc, fields)
            next_offset = min(base_offset + max(fields[_LAST_OFFSET_DELTA], 0) + 1, MAX_OFFSET)
        else:
            end = _next_header(extent, position + 1, size)
            if not any(any(piece) for piece in _pieces(extent, position, end)):
                yield head[: end - position]
            else:
                # The last one is cut off: it is larger than the rest of the file.
                yield _broken(head, next_offset, end - position + (end == size), term)[: end - position]
        yield from _pieces(extent, position + HEADER_BYTES, end)
        position = end


def _pieces(extent: Extent, start: int, end: int) -> Iterator[bytes]:
    for at in range(start, end, _PIECE_BYTES):
        yield read_around(extent, at, min(at + _PIECE_BYTES, end))


def _broken(head: bytes, base_offset: int, size: int, term: int) -> bytes:
    """Returns the header of a batch of ``size`` bytes whose own is damaged or cut off: with its fields if they make
    sense, and a wrong CRC."""
    size = min(max(size, HEADER_BYTES), _INT32_MAX)
    if len(head) == HEADER_BYTES:
        _, _, _, _, crc, *fields = _HEADER.unpack(head)
        found = _kafka_header(base_offset, size, term, crc ^ 1, fields)
        if continues(found, base_offset - 1):
            return found
    return _kafka_header(base_offset, size, term, 1, _NO_RECORDS)


def _next_header(extent: Extent, start: int, size: int) -> int:
    """Returns the position of the next right header, ``size`` if there is none."""
    for at in range(start, size, _PIECE_BYTES):
        window = read_around(extent, at, min(at + _PIECE_BYTES + HEADER_BYTES - 1, size))
        for match in _MAY_BE_HEADER.finditer(window, 0, _PIECE_BYTES):
            if is_header(window, match.start()):
                return at + match.start()
    return size
