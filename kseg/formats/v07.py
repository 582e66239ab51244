"""Messages of 0.6 and 0.7 (.kafka files): kafka.message.Message and ByteBufferMessageSet @0.7.

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

from kseg.formats.byte_types import BytesLike
from kseg.formats.compression import KAFKA_0_7, decompress
from kseg.formats.decompressed import DecompressionError, Remarks
from kseg.formats.message_set import cut_set_text
from kseg.formats.rows import Rows, Scratch, UndecodableError
from kseg.kernel.layout.headers import V07_CODEC, V07_SIZE_BYTES
from kseg.kernel.records import messages as kernel
from kseg.limits import MAX_NESTING

MIN_BYTES = 9
_SIZE = Struct(">i")
_CRC = Struct(">I")


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
    (size,) = _SIZE.unpack(data[position : position + 4])
    magic = data[position + 4]
    attributes = data[position + 5] if magic else 0
    at = position + 5 + bool(magic)
    return V07Header(size, magic, attributes, *_CRC.unpack(data[at : at + 4]))


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
        raise UndecodableError("undecodable-records", f"more than {MAX_NESTING} compressed messages inside each other")
    walk = kernel.MessageWalk(offset)
    while True:
        status = walk.read(payload, len(payload), scratch.rows, True)
        if walk.row_count:
            yield Rows(payload, scratch.rows, scratch.headers, walk.row_count)
        if status in (kernel.END, kernel.CUT):
            if status == kernel.CUT and remarks is not None:
                remarks.append(("cut-message-set", cut_set_text(payload, walk.position, V07_SIZE_BYTES)))
            return
        if status == kernel.COMPRESSED:
            header = parse_header(payload, walk.position)
            after = walk.position + V07_SIZE_BYTES + header.size
            try:
                start = walk.position + MIN_BYTES + 1  # only magic 1, which has attributes, is compressed
                inner = decompress(header.codec, payload[start:after], KAFKA_0_7, budget[0], remarks)
            except DecompressionError as error:
                raise UndecodableError(error.problem, str(error)) from error
            budget[0] -= len(inner)
            yield from _open_set(inner, offset, scratch, budget, depth + 1, remarks)
            walk.position = after
        elif status != kernel.MORE:
            raise UndecodableError("undecodable-records", kernel.REASONS[status])
