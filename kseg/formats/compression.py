"""Decompresses the record area of a batch, or the value of a wrapper message.

    codec   stream                                              allowed in
    0 none  the bytes themselves                                all
    1 gzip  RFC 1952 members, concatenated                      all
    2 snappy  xerial stream (below), or one bare snappy block   all
    3 lz4   one LZ4 frame                                       magic 0, 1, 2
    4 zstd  RFC 8878 frames, including skippable ones           magic 2

    xerial stream   82 "SNAPPY" 00 | int32 version | int32 least version | chunk...
    chunk           int32 length (big endian) | snappy block; or another 16-byte header
    LZ4 frame       04 22 4d 18 | FLG | BD | [int64 content size] | HC | block... | int32 0 | [xxh32]
    block           uint32 length (little endian, bit 31: stored) | data | [xxh32 of data]

Streams are accepted exactly if Kafka 4.3.1's own reader accepts them (`org.apache.kafka.common.compress`, and below it
`java.util.zip.GZIPInputStream`, `SnappyInputStream` of snappy-java, `Lz4BlockInputStream`, zstd-jni). A batch reported
as undecodable is therefore unreadable for every Java consumer, and vice versa. Known exceptions, none of them written
by producers: zstd-jni reads frames older than zstd 0.8; libzstd versions decode a broken Huffman stream differently if
the frame has no checksum; `Lz4BlockInputStream` takes an empty stored block for the end mark; `GZIPInputStream` may
look for another member in fewer than 19 bytes if a member ends near the end of its buffer.

A claimed size is checked against the largest possible expansion of the input and against the ceiling before memory is
allocated for it. Codec libraries are imported on first use.
"""

import struct
import zlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from kseg.formats.decompressed import DecompressedBytes, DecompressionError, Remarks, over, reason, undecodable_error
from kseg.formats.rows import BytesLike
from kseg.formats.zstd_stream import BLOCK_HEADER_BYTES, CHECKSUM_BYTES, ZSTD_BLOCK, block_header, open_frame, unzstd
from kseg.kernel.codecs.broken_blocks import BlockOutput
from kseg.limits import LARGEST_BUFFER_BYTES

CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
"""Codecs, as in the attributes of a batch."""

KAFKA_0_7 = -7
"""Used as the magic of Kafka 0.7 messages; their own magic 0 and 1 have another meaning."""

LARGEST_EXPANSION = 1 << 15
"""Of any codec: a zstd block of 4 bytes repeats one byte 2^17 times."""

_HIGHEST_CODEC = {KAFKA_0_7: SNAPPY, 0: LZ4, 1: LZ4}

_INT32_BE = struct.Struct(">i").unpack_from
_UINT32_LE = struct.Struct("<I").unpack_from
_TWO_UINT32_LE = struct.Struct("<II").unpack_from


def decompress(codec: int, payload: BytesLike, magic: int, ceiling: int, remarks: Remarks | None = None) -> BytesLike:
    """Decompresses `payload` (bytes-like, contiguous).

    `codec` is the id in the attributes (attributes & 7; & 3 in Kafka 0.7). `magic` is that of the batch or of the
    wrapper message, `KAFKA_0_7` in a file of Kafka 0.7. Codec 0 returns `payload` itself, the others `bytes` or
    `bytearray` of at most `ceiling` bytes. Memory is limited to the ceiling and one block, whatever size is claimed.

    With `remarks`, trailing bytes after the stream are reported there: ``"bytes-behind-records"`` if Kafka's readers
    ignore them, ``"undecodable-records"`` if these fail after reading all records. Without `remarks`, the latter is an
    error.

    Raises DecompressionError.
    """
    if codec == NONE:
        return payload
    _check_codec(codec, magic)
    view = memoryview(payload)
    if codec == GZIP:
        return _gunzip(view, DecompressedBytes(ceiling, remarks))
    if codec == SNAPPY:
        return _unsnappy(view, DecompressedBytes(ceiling, remarks))
    if codec == LZ4:
        return _unlz4(view, DecompressedBytes(ceiling, remarks), verify_header=magic != 0)
    return unzstd(view, DecompressedBytes(ceiling, remarks))


def check_beginning(codec: int, payload: BytesLike, ceiling: int) -> None:
    """Checks the compressed area of a v2 batch without records as far as Kafka does; it reads no record of it.

    Raises DecompressionError.
    """
    _check_codec(codec, 2)
    view = memoryview(payload)
    if codec == GZIP:
        gzip_body(view, 0)
    elif codec == SNAPPY and not is_xerial(view):
        _unsnappy_block(view, DecompressedBytes(ceiling))
    elif codec == LZ4:
        _lz4_descriptor(view, verify_header=True)


def _check_codec(codec: int, magic: int) -> None:
    if codec < 0 or not allows(magic, codec):
        raise undecodable_error(_refusal(codec, magic))


def _refusal(codec: int, magic: int) -> str:
    if not 0 <= codec < len(CODEC_NAMES):
        return f"unknown compression codec {codec}"
    era = "Kafka 0.7" if magic == KAFKA_0_7 else f"message format {magic}"
    return f"{era} has no {CODEC_NAMES[codec]} compression"


def allows(magic: int, codec: int) -> bool:
    """Whether batches of this magic may have the codec."""
    return codec <= _HIGHEST_CODEC.get(magic, ZSTD)


def codec_name(codec: int) -> str:
    return CODEC_NAMES[codec] if codec < len(CODEC_NAMES) else f"unknown({codec})"


# gzip ----------------------------------------------------------------------------------------------------------------

_FHCRC, _FEXTRA, _FNAME, _FCOMMENT = 2, 4, 8, 16
GZIP_TRAILER = 8
_MIN_LATER_MEMBER_BYTES = 19
"""GZIPInputStream looks for another member only if more than a header and a trailer (18 bytes) are left."""


def _gunzip(view: memoryview, out: DecompressedBytes) -> bytes | bytearray:
    position = gzip_body(view, 0)
    # The input is passed in windows because the inflater copies all input after the end of a member: with many tiny
    # members in one large payload the same bytes would be copied many times.
    position = _inflate_member(view, position, out, window=1 << 20)
    while len(view) - position >= _MIN_LATER_MEMBER_BYTES:
        try:
            body = gzip_body(view, position)
        except DecompressionError:
            break  # GZIPInputStream ignores trailing bytes that are not a member header
        position = _inflate_member(view, body, out, window=1 << 10)
    out.leave(len(view) - position)
    return out.whole()


def gzip_body(view: memoryview, start: int) -> int:
    """Returns the position of the deflate stream of the member at `start`. Ignores reserved flags, as Java does."""
    if len(view) - start < 10:
        raise undecodable_error("gzip: stream ends in a member header")
    if bytes(view[start : start + 3]) != b"\x1f\x8b\x08":
        raise undecodable_error("gzip: no member header")
    flags = view[start + 3]
    position = start + 10
    if flags & _FEXTRA:
        position += 2 + int.from_bytes(view[position : position + 2], "little")
    if flags & _FNAME:
        position = _after_zero_byte(view, position)
    if flags & _FCOMMENT:
        position = _after_zero_byte(view, position)
    if flags & _FHCRC:
        expected = zlib.crc32(view[start:position]) & 0xFFFF
        if int.from_bytes(view[position : position + 2], "little") != expected:
            raise undecodable_error("gzip: header checksum mismatch")
        position += 2
    if position > len(view):
        raise undecodable_error("gzip: stream ends in a member header")
    return position


def _after_zero_byte(view: memoryview, position: int) -> int:
    while position < len(view):
        found = bytes(view[position : position + 256]).find(0)
        if found >= 0:
            return position + found + 1
        position += 256
    raise undecodable_error("gzip: stream ends in a member header")


def _inflate_member(view: memoryview, position: int, out: DecompressedBytes, window: int) -> int:
    """Appends the member whose deflate stream starts at `position` to `out`; returns the position after its trailer."""
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    crc = size = 0
    while not inflater.eof:
        chunk = view[position : position + window]
        if not chunk:
            raise undecodable_error("gzip: stream ends early")
        try:
            piece = inflater.decompress(chunk, out.remaining + 1)
        except zlib.error as error:
            raise undecodable_error(f"gzip: {reason(error)}") from None
        crc = zlib.crc32(piece, crc)
        size += len(piece)
        out.add(piece)
        position += len(chunk) - len(inflater.unused_data)
        window = min(window * 2, 1 << 20)
    if len(view) - position < GZIP_TRAILER:
        raise undecodable_error("gzip: stream ends in a trailer")
    if _TWO_UINT32_LE(view, position) != (crc, size & 0xFFFFFFFF):
        raise undecodable_error("gzip: checksum or size in the trailer is wrong")
    return position + GZIP_TRAILER


# snappy --------------------------------------------------------------------------------------------------------------

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = 16
_XERIAL_AGAIN = int.from_bytes(_XERIAL_MAGIC[:4], "big", signed=True)
_LARGEST_CHUNK = 512 << 20
SNAPPY_EXPANSION = 22
"""Largest expansion of a snappy block: a copy element of 3 bytes yields 64."""


def is_xerial(view: memoryview) -> bool:
    return len(view) >= XERIAL_HEADER and bytes(view[:8]) == _XERIAL_MAGIC


def _unsnappy(view: memoryview, out: DecompressedBytes) -> BytesLike:
    if not is_xerial(view):
        return _unsnappy_block(view, out)
    position = XERIAL_HEADER
    # SnappyInputStream checks the version of later headers, not of the first. A header with another magic is skipped,
    # or ends the stream if nothing precedes it. Fewer bytes than a length field also end the stream. None is an error.
    while len(view) - position >= 4:
        (length,) = _INT32_BE(view, position)
        if length == _XERIAL_AGAIN:
            if len(view) - position < XERIAL_HEADER:
                raise undecodable_error("snappy: stream ends in a header")
            (version,) = _INT32_BE(view, position + 8)
            if bytes(view[position : position + 8]) == _XERIAL_MAGIC:
                if version < 1:
                    raise undecodable_error(f"snappy: stream version {version}")
            elif not out.size:
                break
            position += XERIAL_HEADER
            continue
        position += 4
        if not 0 <= length <= _LARGEST_CHUNK:
            raise undecodable_error(f"snappy: chunk length {length}")
        if length > len(view) - position:
            raise undecodable_error("snappy: stream ends in a chunk")
        piece = _unsnappy_block(view[position : position + length], out)
        out.add(piece)
        position += length
    out.leave(len(view) - position)
    return out.whole()


def _unsnappy_block(block: memoryview, out: DecompressedBytes) -> bytes:
    import snappy

    claimed = snappy_size(block)
    if claimed > len(block) * SNAPPY_EXPANSION:
        raise undecodable_error(f"snappy: a block of {len(block)} bytes claims to hold {claimed}")
    if claimed > out.remaining:
        raise over(out.ceiling)
    try:
        return bytes(snappy.uncompress(block))
    except snappy.UncompressError as error:
        raise undecodable_error(f"snappy: {reason(error.__cause__ or error)}") from None


def snappy_size(block: memoryview) -> int:
    size = 0
    for index, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return size
    raise undecodable_error("snappy: a block without its size")


# lz4 -----------------------------------------------------------------------------------------------------------------

LZ4_MAGIC = b"\x04\x22\x4d\x18"
LZ4_EXPANSION = 255
_LZ4_LARGEST_BLOCK = 4 << 20
_LZ4_STEP = 1 << 20
_CONTENT_CHECKSUM, CONTENT_SIZE = 0x04, 0x08


def _unlz4(view: memoryview, out: DecompressedBytes, verify_header: bool) -> bytes | bytearray:
    """Decompresses the frame after replacing its header with a generated one.

    The stored header may be deliberately wrong (KAFKA-3160). Two of its fields bind the library but not Kafka: the
    content size, and the content checksum, which Kafka reads but does not verify.
    """
    from lz4 import frame

    flags, block_descriptor, position = _lz4_descriptor(view, verify_header)
    context = frame.create_decompression_context()
    ended = False
    try:
        frame.decompress_chunk(context, _lz4_header(flags & ~(CONTENT_SIZE | _CONTENT_CHECKSUM), block_descriptor))
        while not ended:
            data = view[position:]
            limit = min(out.remaining + 1, _LZ4_STEP, len(data) * LZ4_EXPANSION + _LZ4_LARGEST_BLOCK)
            piece, consumed, ended = frame.decompress_chunk(context, data, max_length=limit)
            if not (piece or consumed or ended):
                raise undecodable_error("lz4: stream ends early")
            out.add(piece)
            position += consumed
    except RuntimeError as error:
        raise undecodable_error(f"lz4: {reason(error)}") from None
    if flags & _CONTENT_CHECKSUM:
        position += 4
    if position > len(view):
        raise undecodable_error("lz4: stream ends before its checksum")
    out.leave(len(view) - position)
    return out.whole()


def _lz4_descriptor(view: memoryview, verify_header: bool) -> tuple[int, int, int]:
    """Returns FLG, BD and the position of the first block (Lz4BlockInputStream.readHeader)."""
    if len(view) < 7:
        raise undecodable_error("lz4: stream ends in its header")
    if bytes(view[:4]) != LZ4_MAGIC:
        raise undecodable_error("lz4: no frame header")
    flags, block_descriptor = view[4], view[5]
    if flags & 0xC0 != 0x40 or flags & 0x03:
        raise undecodable_error(f"lz4: frame flags 0x{flags:02x}")
    if not flags & 0x20:
        raise undecodable_error("lz4: blocks that depend on each other")
    if block_descriptor & 0x8F or block_descriptor < 0x40:
        raise undecodable_error(f"lz4: block descriptor 0x{block_descriptor:02x}")
    checksum_position = 14 if flags & CONTENT_SIZE else 6
    if len(view) <= checksum_position:
        raise undecodable_error("lz4: stream ends in its header")
    # KAFKA-3160: in magic 0 the header checksum includes the frame's magic, and no reader since 0.10 verifies it.
    if verify_header and view[checksum_position] != _header_checksum(bytes(view[4:checksum_position])):
        raise undecodable_error("lz4: header checksum mismatch")
    return flags, block_descriptor, checksum_position + 1


@lru_cache(maxsize=16)
def _lz4_header(flags: int, block_descriptor: int) -> bytes:
    descriptor = bytes((flags, block_descriptor))
    return LZ4_MAGIC + descriptor + bytes((_header_checksum(descriptor),))


@lru_cache(maxsize=64)
def _header_checksum(descriptor: bytes) -> int:
    """The HC byte of an LZ4 frame: the second byte of xxh32, seed 0, of FLG up to HC."""
    return (_short_xxh32(descriptor) >> 8) & 0xFF


_PRIME_1, _PRIME_2, _PRIME_3, _PRIME_4, _PRIME_5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1


def _short_xxh32(data: bytes) -> int:
    """xxh32 with seed 0 of fewer than 16 bytes, which skip its main loop (the xxHash specification)."""
    value = _PRIME_5 + len(data)
    whole = len(data) & ~3
    for index in range(0, whole, 4):
        value = _rotated(value + _UINT32_LE(data, index)[0] * _PRIME_3, 17) * _PRIME_4
    for byte in data[whole:]:
        value = _rotated(value + byte * _PRIME_5, 11) * _PRIME_1
    value &= 0xFFFFFFFF
    value = (value ^ value >> 15) * _PRIME_2 & 0xFFFFFFFF
    value = (value ^ value >> 13) * _PRIME_3 & 0xFFFFFFFF
    return value ^ value >> 16


def _rotated(value: int, bits: int) -> int:
    value &= 0xFFFFFFFF
    return (value << bits | value >> (32 - bits)) & 0xFFFFFFFF


LZ4_HEADER = _lz4_header(0x60, 0x40)
"""Header of frames as Kafka writes them: independent blocks of 64 KiB, no size, no checksums."""
KAFKA_3160_LZ4_HEADER = LZ4_HEADER[:6] + bytes((_header_checksum(LZ4_HEADER[:6]),))
"""The same for magic 0: its checksum includes the frame's magic, and readers up to 0.9 accept no other."""


# Several threads: large results one at a time -------------------------------------------------------------------------


def decompress_limited(
    codec: int,
    payload: BytesLike,
    magic: int,
    ceiling: int,
    before_large: Callable[[], None] | None,
    remarks: Remarks | None = None,
) -> Any:
    """Like `decompress`. ``before_large`` is called before more than LARGEST_BUFFER_BYTES are produced.

    Decompression is then restarted, because the size of a stream is known only after decompression.
    """
    if before_large is not None and ceiling > LARGEST_BUFFER_BYTES:
        try:
            return decompress(codec, payload, magic, LARGEST_BUFFER_BYTES, remarks)
        except DecompressionError as error:
            if error.problem != "decompression-limit":
                raise
        before_large()
    return decompress(codec, payload, magic, ceiling, remarks)


# Decompresses what a broken stream holds before its fault: a wrong or missing end, changed bytes, a cut.
#
# Nothing proves such bytes: the functions above refuse what is read here.
#
#     codec    read up to
#     gzip     the byte at which the inflater stops
#     snappy   the fault in a block
#     lz4      the fault in a block; checksums are ignored, blocks may depend on each other
#     zstd     the last whole block: a block can only be decoded as a whole; checksum and content size are ignored

_STEP = 64 << 10
_LZ4_HISTORY = 64 << 10
_LZ4_BLOCK_CHECKSUM = 0x10
_STORED = 1 << 31


def leading_bytes(
    codec: int, payload: BytesLike, ceiling: int, before_large: Callable[[], None] | None = None
) -> BytesLike:
    """Returns the decompressed bytes before the fault of a stream, at most ``ceiling``; b"" for an unknown codec.

    ``before_large`` is called before more than LARGEST_BUFFER_BYTES may be produced.
    """
    read = _READERS.get(codec)
    if read is None:
        return b""
    if before_large is not None and ceiling > LARGEST_BUFFER_BYTES:
        before_large()
    out = DecompressedBytes(ceiling)
    try:
        read(memoryview(payload), out)
    except DecompressionError:
        pass  # the fault, or the ceiling
    return out.whole()


def _gzip(view: memoryview, out: DecompressedBytes) -> None:
    position = 0
    while position < len(view):
        inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        position = _inflate(inflater, view, gzip_body(view, position), out)
        if not inflater.eof:
            return
        position += GZIP_TRAILER


def _inflate(inflater: "zlib._Decompress", view: memoryview, position: int, out: DecompressedBytes) -> int:
    """Appends a deflate stream byte by byte up to its fault; returns the position behind it.

    The inflater withholds the output of a call that fails, so the call is repeated in ever smaller steps.
    """
    step = _STEP
    while not inflater.eof:
        before = inflater.copy()
        chunk = view[position : position + _STEP]
        try:
            piece = inflater.decompress(chunk, min(step, out.remaining + 1))
        except zlib.error:
            if step == 1:
                break
            inflater, step = before, step // 2
            continue
        consumed = len(chunk) - len(inflater.unconsumed_tail) - len(inflater.unused_data)
        if not piece and not consumed:
            break
        out.add(piece)
        position += consumed
    return position


def _snappy(view: memoryview, out: DecompressedBytes) -> None:
    if not is_xerial(view):
        _snappy_block(view, out)
        return
    position, is_whole = XERIAL_HEADER, True
    while is_whole and len(view) - position > 4:
        length = int.from_bytes(view[position : position + 4], "big", signed=True)
        if length <= 0:
            return
        position += 4
        is_whole = _snappy_block(view[position : position + length], out)
        position += length


def _snappy_block(block: memoryview, out: DecompressedBytes) -> bool:
    """Appends a block up to its fault. Returns whether it is whole."""
    claimed = snappy_size(block)
    found = bytearray(min(claimed, len(block) * SNAPPY_EXPANSION, out.remaining))
    output = BlockOutput(block, found)
    output.read_snappy()
    out.add(found[: output.position])
    return bool(output.is_whole) and output.position == claimed


def _lz4(view: memoryview, out: DecompressedBytes) -> None:
    if bytes(view[:4]) != LZ4_MAGIC or len(view) < 7:
        return
    flags, largest = view[4], 1 << (8 + 2 * max(view[5] >> 4 & 7, 4))
    position = 15 if flags & CONTENT_SIZE else 7
    history, is_whole = bytearray(), True
    while is_whole and len(view) - position > 4:
        field = int.from_bytes(view[position : position + 4], "little")
        size = field & ~_STORED
        if not 0 < size <= largest:
            return
        position += 4
        block = view[position : position + size]
        piece = bytearray(block)
        if not field & _STORED:
            found = history + bytearray(min(largest, LZ4_EXPANSION * len(block)))
            output = BlockOutput(block, found, len(history))
            output.read_lz4()
            is_whole = output.is_whole
            piece = found[len(history) : output.position]
        out.add(piece)
        history = (history + piece)[-_LZ4_HISTORY:]
        position += size + 4 * bool(flags & _LZ4_BLOCK_CHECKSUM)


def _zstd(view: memoryview, out: DecompressedBytes) -> None:
    import zstandard

    library, position = zstandard.ZstdDecompressor(), 0
    while position < len(view):
        header, position = open_frame(view, position)
        if header is None:
            continue
        decompressor = library.decompressobj()
        decompressor.decompress(header.without_claims())
        is_last = False
        while not is_last:
            is_last, _, size, stored = block_header(view[position : position + BLOCK_HEADER_BYTES])
            end = position + BLOCK_HEADER_BYTES + stored
            if end > len(view) or size > ZSTD_BLOCK:
                return
            try:
                out.add(decompressor.decompress(view[position:end]))
            except zstandard.ZstdError:
                return
            position = end
        position += CHECKSUM_BYTES * header.has_checksum


_READERS: dict[int, Callable[[memoryview, DecompressedBytes], None]] = {
    GZIP: _gzip,
    SNAPPY: _snappy,
    LZ4: _lz4,
    ZSTD: _zstd,
}
