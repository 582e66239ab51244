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
    zstd frame      28 b5 2f fd | descriptor | [window] | [dictionary] | [content size] | block... | [xxh64, 4 bytes]
    block           3 bytes (little endian: bit 0 last, bits 1-2 type, size) | bytes
    skippable       5? 2a 4d 18 | uint32 size (little endian) | bytes

Streams are accepted exactly if Kafka 4.3.1's own reader accepts them (`org.apache.kafka.common.compress`, and below it
`java.util.zip.GZIPInputStream`, `SnappyInputStream` of snappy-java, `Lz4BlockInputStream`, zstd-jni). A batch reported
as undecodable is therefore unreadable for every Java consumer, and vice versa. Some lz4 frames that Kafka refuses are
whole: with linked blocks, or a wrong header checksum. They are read, and reported as REFUSED. Known exceptions, none of
them written by producers: zstd-jni reads frames older than zstd 0.8; libzstd versions decode a broken Huffman stream
differently if the frame has no checksum; `Lz4BlockInputStream` takes an empty stored block for the end mark;
`GZIPInputStream` may look for another member in fewer than 19 bytes if a member ends near the end of its buffer.

A claimed size is checked against the largest possible expansion of the input and against the ceiling before memory is
allocated for it. Codec libraries are imported on first use.
"""

import struct
import sys
import zlib
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from typing import Any, NamedTuple

from kseg.formats.rows import BytesLike, UndecodableError
from kseg.kernel.codecs.expand import ExpansionBuffer
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

Remarks = list[tuple[str, str]]
"""Ignored bytes and refused forms, as (problem code, sentence)."""

REFUSED = "refused-compression"
"""The problem of a whole stream in a form that Kafka's readers refuse."""


class DecompressionError(UndecodableError):
    """A compressed area that yields no records; `str()` is one line.

    `problem` is ``"undecodable-records"`` for a malformed stream, ``"decompression-limit"`` for one that expands beyond
    the ceiling.
    """


def over(ceiling: int) -> DecompressionError:
    return DecompressionError(f"records decompress to more than {ceiling} bytes", "decompression-limit")


def reason(error: BaseException) -> str:
    """Returns a library's error message on one line."""
    return " ".join(str(error).split()) or type(error).__name__


class DecompressedBytes:
    """The decompressed bytes, `found`. `size` is their number; exceeding `ceiling` raises DecompressionError.

    Ignored trailing bytes and refused forms are reported in `remarks`, if given. `is_salvage`: what a broken stream
    holds before its fault is wanted, too (`leading_bytes`).
    """

    def __init__(self, ceiling: int, remarks: Remarks | None = None, is_salvage: bool = False):
        self.ceiling = ceiling
        self.is_salvage = is_salvage
        self.size = 0
        self._remarks = remarks
        self.found: bytes | bytearray = b""

    @property
    def remaining(self) -> int:
        return self.ceiling - self.size

    def add(self, piece: bytes | bytearray) -> None:
        if len(piece) > self.remaining:
            if self.is_salvage:
                self.add(piece[: self.remaining])
            raise over(self.ceiling)
        self.size += len(piece)
        if not self.found:
            self.found = piece  # most often the only one, which is not copied
            return
        # One buffer: a malicious stream may have a piece of one byte per few input bytes.
        if isinstance(self.found, bytes):
            self.found = bytearray(self.found)
        self.found += piece

    def leave(self, count: int) -> None:
        """Reports that the last `count` bytes are not part of the stream and that Kafka's readers ignore them."""
        if count and self._remarks is not None:
            self._remarks.append(("bytes-behind-records", f"{count} bytes after the compressed records"))

    def refuse(self, message: str, problem: str = REFUSED) -> None:
        """Reports a form, or a rest that is not part of the stream, at which Kafka's readers stop. Raises
        DecompressionError if there are no `remarks`."""
        if self._remarks is None:
            raise DecompressionError(message)
        self._remarks.append((problem, message))


def decompress(codec: int, payload: BytesLike, magic: int, ceiling: int, remarks: Remarks | None = None) -> BytesLike:
    """Decompresses `payload` (bytes-like, contiguous).

    `codec` is the id in the attributes (attributes & 7; & 3 in Kafka 0.7). `magic` is that of the batch or of the
    wrapper message, `KAFKA_0_7` in a file of Kafka 0.7. Codec 0 returns `payload` itself, the others `bytes` or
    `bytearray` of at most `ceiling` bytes. Memory is limited to the ceiling and one block, whatever size is claimed.

    With `remarks`, trailing bytes after the stream are reported there: ``"bytes-behind-records"`` if Kafka's readers
    ignore them, ``"undecodable-records"`` if these fail after reading all records; and a form of a whole stream that
    Kafka's readers refuse (REFUSED). Without `remarks`, the latter two are errors.

    Raises DecompressionError.
    """
    if codec == NONE:
        return payload
    _check_codec(codec, magic)
    view, out = memoryview(payload), DecompressedBytes(ceiling, remarks)
    if codec == GZIP:
        _gunzip(view, out)
    elif codec == SNAPPY:
        _unsnappy(view, out)
    elif codec == LZ4:
        _unlz4(view, out, verify_header=magic != 0)
    else:
        unzstd(view, out)
    return out.found


def decompress_limited(
    codec: int,
    payload: BytesLike,
    magic: int,
    ceiling: int,
    before_large: Callable[[], None] | None,
    remarks: Remarks | None = None,
) -> Any:
    """Like `decompress`. ``before_large`` is called before more than LARGEST_BUFFER_BYTES are produced, so that of
    several threads one at a time produces as much.

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
    elif codec == LZ4 and (refusal := _lz4_descriptor(view, verify_header=True)[3]):
        raise DecompressionError(refusal)


def is_refused(codec: int, payload: BytesLike) -> bool:
    """Whether the compressed area of a v2 batch begins in a form that is REFUSED."""
    try:
        return codec == LZ4 and bool(_lz4_descriptor(memoryview(payload), verify_header=True)[3])
    except DecompressionError:
        return False


def _check_codec(codec: int, magic: int) -> None:
    if not 0 <= codec < len(CODEC_NAMES):
        raise DecompressionError(f"unknown compression codec {codec}")
    if not allows(magic, codec):
        era = "Kafka 0.7" if magic == KAFKA_0_7 else f"message format {magic}"
        raise DecompressionError(f"{era} has no {CODEC_NAMES[codec]} compression")


def allows(magic: int, codec: int) -> bool:
    """Whether batches of this magic may have the codec."""
    return codec <= _HIGHEST_CODEC.get(magic, ZSTD)


def codec_name(codec: int) -> str:
    return CODEC_NAMES[codec] if codec < len(CODEC_NAMES) else f"unknown({codec})"


# gzip ----------------------------------------------------------------------------------------------------------------

_FHCRC, _FEXTRA, _FNAME, _FCOMMENT = 2, 4, 8, 16
GZIP_TRAILER = 8
_LARGEST_WINDOW, _SALVAGE_WINDOW = 1 << 20, 64 << 10
_MIN_LATER_MEMBER_BYTES = 19
"""GZIPInputStream looks for another member only if more than a header and a trailer (18 bytes) are left."""


def _gunzip(view: memoryview, out: DecompressedBytes) -> None:
    position = gzip_body(view, 0)
    # The input is passed in windows because the inflater copies all input after the end of a member: with many tiny
    # members in one large payload the same bytes would be copied many times.
    position = _inflate_member(view, position, out, window=_LARGEST_WINDOW)
    least = 1 if out.is_salvage else _MIN_LATER_MEMBER_BYTES
    while len(view) - position >= least:
        try:
            body = gzip_body(view, position)
        except DecompressionError:
            break  # GZIPInputStream ignores trailing bytes that are not a member header
        position = _inflate_member(view, body, out, window=1 << 10)
    out.leave(len(view) - position)


def gzip_body(view: memoryview, start: int) -> int:
    """Returns the position of the deflate stream of the member at `start`. Ignores reserved flags, as Java does."""
    if len(view) - start < 10:
        raise DecompressionError("gzip: stream ends in a member header")
    if bytes(view[start : start + 3]) != b"\x1f\x8b\x08":
        raise DecompressionError("gzip: no member header")
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
            raise DecompressionError("gzip: header checksum mismatch")
        position += 2
    if position > len(view):
        raise DecompressionError("gzip: stream ends in a member header")
    return position


def _after_zero_byte(view: memoryview, position: int) -> int:
    while position < len(view):
        found = bytes(view[position : position + 256]).find(0)
        if found >= 0:
            return position + found + 1
        position += 256
    raise DecompressionError("gzip: stream ends in a member header")


def _inflate_member(view: memoryview, position: int, out: DecompressedBytes, window: int) -> int:
    """Appends the member whose deflate stream starts at `position` to `out`; returns the position after its trailer."""
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    crc = size = 0
    while not inflater.eof:
        window = min(window, _SALVAGE_WINDOW if out.is_salvage else _LARGEST_WINDOW)
        chunk = view[position : position + window]
        if not chunk:
            raise DecompressionError("gzip: stream ends early")
        before = inflater.copy() if out.is_salvage else None
        try:
            piece = inflater.decompress(chunk, out.remaining + 1)
        except zlib.error as error:
            if before is not None:
                _inflate_before_fault(before, chunk, out)
            raise DecompressionError(f"gzip: {reason(error)}") from None
        crc = zlib.crc32(piece, crc)
        size += len(piece)
        out.add(piece)
        position += len(chunk) - len(inflater.unused_data)
        window *= 2
    if len(view) - position < GZIP_TRAILER:
        raise DecompressionError("gzip: stream ends in a trailer")
    if _TWO_UINT32_LE(view, position) != (crc, size & 0xFFFFFFFF) and not out.is_salvage:
        raise DecompressionError("gzip: checksum or size in the trailer is wrong")
    return position + GZIP_TRAILER


def _inflate_before_fault(inflater: "zlib._Decompress", chunk: BytesLike, out: DecompressedBytes) -> None:
    """Appends the bytes of a deflate stream up to the fault in ``chunk``.

    The inflater withholds the output of a call that fails, so the call is repeated in ever smaller steps.
    """
    step = _SALVAGE_WINDOW
    while step:
        before = inflater.copy()
        try:
            piece = inflater.decompress(chunk, min(step, out.remaining + 1))
        except zlib.error:
            inflater, step = before, step // 2
            continue
        out.add(piece)
        chunk = inflater.unconsumed_tail


# snappy --------------------------------------------------------------------------------------------------------------

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = 16
_XERIAL_AGAIN = int.from_bytes(_XERIAL_MAGIC[:4], "big", signed=True)
_LARGEST_CHUNK = 512 << 20
SNAPPY_EXPANSION = 22
"""Largest expansion of a snappy block: a copy element of 3 bytes yields 64."""


def is_xerial(view: memoryview) -> bool:
    return len(view) >= XERIAL_HEADER and bytes(view[:8]) == _XERIAL_MAGIC


def _unsnappy(view: memoryview, out: DecompressedBytes) -> None:
    if not is_xerial(view):
        _unsnappy_block(view, out)
        return
    position = XERIAL_HEADER
    # SnappyInputStream checks the version of later headers, not of the first. A header with another magic is skipped,
    # or ends the stream if nothing precedes it. Fewer bytes than a length field also end the stream. None is an error.
    while len(view) - position >= 4:
        (length,) = _INT32_BE(view, position)
        if length == _XERIAL_AGAIN:
            if len(view) - position < XERIAL_HEADER:
                raise DecompressionError("snappy: stream ends in a header")
            (version,) = _INT32_BE(view, position + 8)
            if bytes(view[position : position + 8]) == _XERIAL_MAGIC:
                if version < 1:
                    raise DecompressionError(f"snappy: stream version {version}")
            elif not out.size:
                break
            position += XERIAL_HEADER
            continue
        position += 4
        if length < 0 or (length > _LARGEST_CHUNK and not out.is_salvage):
            raise DecompressionError(f"snappy: chunk length {length}")
        if length > len(view) - position and not out.is_salvage:
            raise DecompressionError("snappy: stream ends in a chunk")
        _unsnappy_block(view[position : position + length], out)
        position += length
    out.leave(len(view) - position)


def _unsnappy_block(block: memoryview, out: DecompressedBytes) -> None:
    import snappy

    claimed = snappy_size(block)
    if out.is_salvage:
        found = bytearray()
        is_whole = _Block(block, found, min(claimed, len(block) * SNAPPY_EXPANSION, out.remaining)).read_snappy()
        out.add(found)
        if not is_whole or len(found) != claimed:
            raise DecompressionError("snappy: a broken block")
        return
    if claimed > len(block) * SNAPPY_EXPANSION:
        raise DecompressionError(f"snappy: a block of {len(block)} bytes claims to hold {claimed}")
    if claimed > out.remaining:
        raise over(out.ceiling)
    try:
        out.add(bytes(snappy.uncompress(block)))
    except snappy.UncompressError as error:
        raise DecompressionError(f"snappy: {reason(error.__cause__ or error)}") from None


def snappy_size(block: memoryview) -> int:
    size = 0
    for index, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return size
    raise DecompressionError("snappy: a block without its size")


# lz4 -----------------------------------------------------------------------------------------------------------------

LZ4_MAGIC = b"\x04\x22\x4d\x18"
LZ4_EXPANSION = 255
_LZ4_LARGEST_BLOCK = 4 << 20
_LZ4_STEP = 1 << 20
_CONTENT_CHECKSUM, CONTENT_SIZE, _LZ4_BLOCK_CHECKSUM, _LZ4_INDEPENDENT_BLOCKS = 0x04, 0x08, 0x10, 0x20


def _unlz4(view: memoryview, out: DecompressedBytes, verify_header: bool) -> None:
    """Decompresses the frame after replacing its header with a generated one.

    The stored header may be deliberately wrong (KAFKA-3160). Two of its fields bind the library but not Kafka: the
    content size, and the content checksum, which Kafka reads but does not verify.
    """
    from lz4 import frame

    flags, block_descriptor, position, refusal = _lz4_descriptor(view, verify_header)
    context = frame.create_decompression_context()
    ended = False
    try:
        frame.decompress_chunk(context, _lz4_header(flags & ~(CONTENT_SIZE | _CONTENT_CHECKSUM), block_descriptor))
        while not ended:
            data = view[position:]
            limit = min(out.remaining + 1, _LZ4_STEP, len(data) * LZ4_EXPANSION + _LZ4_LARGEST_BLOCK)
            piece, consumed, ended = frame.decompress_chunk(context, data, max_length=limit)
            if not (piece or consumed or ended):
                raise DecompressionError("lz4: stream ends early")
            out.add(piece)
            position += consumed
    except RuntimeError as error:
        raise DecompressionError(f"lz4: {reason(error)}") from None
    if flags & _CONTENT_CHECKSUM:
        position += 4
    if position > len(view):
        raise DecompressionError("lz4: stream ends before its checksum")
    if refusal:
        out.refuse(refusal)
    out.leave(len(view) - position)


def _lz4_descriptor(view: memoryview, verify_header: bool) -> tuple[int, int, int, str]:
    """Returns FLG, BD, the position of the first block, and why Kafka refuses a frame that is readable, else ""
    (Lz4BlockInputStream.readHeader)."""
    if len(view) < 7:
        raise DecompressionError("lz4: stream ends in its header")
    if bytes(view[:4]) != LZ4_MAGIC:
        raise DecompressionError("lz4: no frame header")
    flags, block_descriptor = view[4], view[5]
    if flags & 0xC0 != 0x40 or flags & 0x03:
        raise DecompressionError(f"lz4: frame flags 0x{flags:02x}")
    refusal = "" if flags & _LZ4_INDEPENDENT_BLOCKS else "lz4: blocks that depend on each other"
    if block_descriptor & 0x8F or block_descriptor < 0x40:
        raise DecompressionError(f"lz4: block descriptor 0x{block_descriptor:02x}")
    checksum_position = 14 if flags & CONTENT_SIZE else 6
    if len(view) <= checksum_position:
        raise DecompressionError("lz4: stream ends in its header")
    # KAFKA-3160: in magic 0 the header checksum includes the frame's magic, and no reader since 0.10 verifies it.
    if verify_header:
        from lz4 import frame

        try:
            frame.get_frame_info(bytes(view[: checksum_position + 1]))
        except RuntimeError:
            refusal = "lz4: header checksum mismatch"
    return flags, block_descriptor, checksum_position + 1, refusal


_HEADER_CHECKSUMS = bytes.fromhex("82fb5173 ad843372 c07796df c02b6881")
"""The HC byte of a header without content size and checksum: without checksums of blocks for each of the four largest
sizes of a block, then with them; both for independent blocks, then for linked ones."""


def _lz4_header(flags: int, block_descriptor: int) -> bytes:
    kind = bool(flags & _LZ4_BLOCK_CHECKSUM) + 2 * (not flags & _LZ4_INDEPENDENT_BLOCKS)
    checksum = _HEADER_CHECKSUMS[4 * kind + (block_descriptor >> 4) - 4]
    return LZ4_MAGIC + bytes((flags, block_descriptor, checksum))


LZ4_HEADER = _lz4_header(0x60, 0x40)
"""Header of frames as Kafka writes them: independent blocks of 64 KiB, no size, no checksums."""
KAFKA_3160_LZ4_HEADER = LZ4_HEADER[:6] + b"\x1a"
"""The same for magic 0: its checksum includes the frame's magic, and readers up to 0.9 accept no other."""


# zstd ----------------------------------------------------------------------------------------------------------------
#
# Frames as ZstdInputStream of zstd-jni reads them: it ignores a truncated one after a complete one if both were read
# in one call.

_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_SKIPPABLE, _ZSTD_SKIPPABLE_MASK = 0x184D2A50, 0xFFFFFFF0
ZSTD_BLOCK = 128 << 10
_ZSTD_LARGEST_WINDOW = (1 << 27) + 1
"""Largest window that streaming decoders such as Kafka's accept by default (ZSTD_MAXWINDOWSIZE_DEFAULT)."""
_HIGHEST_EXPONENT = 17
CHECKSUM_BYTES = 4
BLOCK_HEADER_BYTES = 3
_RLE, _COMPRESSED, _RESERVED = 1, 2, 3
_STREAM_STEP = 16 << 10
"""Kafka's step: libzstd decompresses a frame in one call if its claimed size fits the step."""
_JNI_READ_BYTES = (128 << 10) + 3
"""Size of ZstdInputStream's reads (ZSTD_DStreamInSize); a truncated frame is an error to it only after another
read."""


def unzstd(view: memoryview, out: DecompressedBytes) -> bytes | bytearray:
    """Decompresses all frames of a stream into ``out``. Raises DecompressionError."""
    import zstandard

    position = 0
    while position < len(view):
        try:
            header, end = open_frame(view, position)
            bound = 0
            if header is not None:
                end, bound = _frame_end(view, header, end)
        except DecompressionError as error:
            if position == 0:
                raise
            _check_trailing(view, position, out, str(error))
            break
        if header is not None:
            try:
                out.add(_stream_zstd_frame(view[position:end], out))
            except zstandard.ZstdError as error:
                if header.claimed is not None and header.claimed > bound:
                    message = f"a frame that holds at most {bound} bytes claims to hold {header.claimed}"
                    raise DecompressionError(f"zstd: {message}") from None
                raise DecompressionError(f"zstd: {reason(error)}") from None
        position = end
    return out.found


class _FrameHeader(NamedTuple):
    """``claimed``: the content size, None if not stored."""

    has_checksum: bool
    claimed: int | None
    window: int


def open_frame(view: memoryview, position: int) -> tuple[_FrameHeader | None, int]:
    """Returns the header of the frame at `position` and the position of its first block; for a skippable frame None
    and its end. Raises DecompressionError."""
    if len(view) - position < 8:
        raise DecompressionError("zstd: stream ends in a frame header")
    (magic,) = _UINT32_LE(view, position)
    if magic & _ZSTD_SKIPPABLE_MASK == _ZSTD_SKIPPABLE:
        end = position + 8 + _UINT32_LE(view, position + 4)[0]
        if end > len(view):
            raise DecompressionError("zstd: stream ends in a skippable frame")
        return None, end
    if magic != _ZSTD_MAGIC:
        raise DecompressionError("zstd: no frame header")
    has_checksum, window_width, dictionary_width, size_width = header_widths(view[position + 4])
    position += 5
    claimed, window = None, 0
    if window_width:
        exponent, mantissa = view[position] >> 3, view[position] & 7
        window = (1 << 10 + exponent) + (1 << 7 + exponent) * mantissa
    position += window_width + dictionary_width
    if size_width:
        claimed = int.from_bytes(view[position : position + size_width], "little") + (256 if size_width == 2 else 0)
        position += size_width
    if position > len(view):
        raise DecompressionError("zstd: stream ends in a frame header")
    if not window_width and claimed is not None:
        window = claimed
    if window > _ZSTD_LARGEST_WINDOW:
        raise DecompressionError(f"zstd: frame asks for a window of {window} bytes")
    return _FrameHeader(has_checksum, claimed, window), position


def _check_trailing(view: memoryview, position: int, out: DecompressedBytes, refusal: str) -> None:
    """Handles trailing bytes as Kafka's reader does: it ignores a truncated frame, and fails at anything else."""
    import zstandard

    if (position - 1) // _JNI_READ_BYTES != (len(view) - 1) // _JNI_READ_BYTES:
        out.refuse(refusal, "undecodable-records")
        return
    try:
        piece = _stream_zstd_frame(view[position:], out)
    except zstandard.ZstdError:
        left = len(view) - position
        out.refuse(f"zstd: {left} bytes after the last frame are not a frame", "undecodable-records")
        return
    out.add(piece)
    out.leave(len(view) - position)


def _frame_end(view: memoryview, header: _FrameHeader, position: int) -> tuple[int, int]:
    """Returns the end of a frame whose blocks start at `position`, and the largest size that they allow.

    Walking the block headers (one per 128 KiB of content) finds truncation, which the library's readers treat as the
    end of the stream.
    """
    bound = 0
    last = False
    while not last:
        last, kind, size, stored = block_header(view[position : position + BLOCK_HEADER_BYTES])
        if kind == _RESERVED:
            raise DecompressionError("zstd: block of a reserved type")
        bound += ZSTD_BLOCK if kind == _COMPRESSED else size
        position += BLOCK_HEADER_BYTES + stored
        if position > len(view):
            raise DecompressionError("zstd: stream ends in a frame")
    if header.has_checksum:
        position += CHECKSUM_BYTES
        if position > len(view):
            raise DecompressionError("zstd: stream ends before the checksum of a frame")
    return position, bound


def block_header(data: BytesLike) -> tuple[bool, int, int, int]:
    """Returns whether the block is the last of its frame, its type, its size, and the number of bytes behind it."""
    field = int.from_bytes(data, "little")
    kind, size = field >> 1 & 3, field >> 3
    return bool(field & 1), kind, size, 1 if kind == _RLE else size


def header_widths(descriptor: int) -> tuple[bool, int, int, int]:
    """Returns whether a frame ends with a checksum, and the bytes of its window, its dictionary and its content size.

    ``descriptor`` is the fifth byte of the frame.
    """
    is_single, code = bool(descriptor & 0x20), descriptor >> 6
    size_width = 1 if is_single and not code else (0, 2, 4, 8)[code]
    return bool(descriptor & 4), int(not is_single), (0, 1, 2, 4)[descriptor & 3], size_width


def _stream_zstd_frame(frame: memoryview, out: DecompressedBytes) -> bytearray:
    """Decompresses a frame that may exceed the remaining ceiling of ``out`` in steps, and stops when it does."""
    import zstandard

    found = bytearray()
    step = memoryview(bytearray(_STREAM_STEP))
    with zstandard.ZstdDecompressor().stream_reader(frame) as reader:
        while count := reader.readinto(step):
            if len(found) + count > out.remaining:
                raise over(out.ceiling)
            found += step[:count]
    return found


# Decompresses what a broken stream holds before its fault: a wrong or missing end, changed bytes, a cut.
#
# Nothing proves such bytes: `decompress` refuses what is read here.
#
#     codec    read up to
#     gzip     the byte at which the inflater stops; checksums are ignored
#     snappy   the fault in a block
#     lz4      the fault in a block; checksums are ignored, blocks may depend on each other
#     zstd     the last whole block: a block can only be decoded as a whole; checksum and content size are ignored

_LZ4_HISTORY = 64 << 10
_STORED = 1 << 31


def leading_bytes(
    codec: int, payload: BytesLike, ceiling: int, before_large: Callable[[], None] | None = None
) -> BytesLike:
    """Returns the decompressed bytes before the fault of a stream, at most ``ceiling``; b"" for an unknown codec.

    ``before_large`` is called before more than LARGEST_BUFFER_BYTES may be produced.
    """
    read = {GZIP: _gunzip, SNAPPY: _unsnappy, LZ4: _salvage_lz4, ZSTD: _salvage_zstd}.get(codec)
    if read is None:
        return b""
    if before_large is not None and ceiling > LARGEST_BUFFER_BYTES:
        before_large()
    out = DecompressedBytes(ceiling, is_salvage=True)
    with suppress(DecompressionError):  # the fault, or the ceiling
        read(memoryview(payload), out)
    return out.found


class _Block:
    """Reads a block of LZ4 or snappy up to its first fault or missing byte; the libraries refuse all of such a block.

    ``found`` gets the bytes, up to ``limit`` in all; matches reach back into what it holds already. Integers are little
    endian. Sources: the LZ4 block format, the snappy format description.
    """

    def __init__(self, block: memoryview, found: bytearray, limit: int) -> None:
        self._input, self._size = BytesIO(block), len(block)
        self._found, self._limit = found, limit

    def read_lz4(self) -> bool:
        """Reads sequences, the last of which ends behind its literals. Returns whether there was no fault.

        token (literals << 4 | match - 4) | more literals... | literals | uint16 distance | more match...
        """
        while (token := self._number(1)) >= 0:
            length = self._length(token >> 4)
            if length < 0 or not self._copy(length):
                return False
            if self._input.tell() == self._size:
                return True
            distance, length = self._number(2), self._length(token & 15)
            if length < 0 or not self._repeat(distance, length + 4):
                return False
        return False

    def read_snappy(self) -> bool:
        """Reads the size, which the caller knows, and the elements. Returns whether there was no fault.

        Bits 0-1 of the tag of an element: 0 literals, 1 to 3 a match whose distance has 11, 16 or 32 bits.
        """
        while self._number(1) >= 128:
            pass
        is_right = True
        while is_right and (tag := self._number(1)) >= 0:
            kind, length = tag & 3, (tag >> 2) + 1
            if kind == 0:
                if length > 60:
                    length = self._number(length - 60) + 1
                is_right = length > 0 and self._copy(length)
            elif kind == 1:
                low = self._number(1)
                is_right = low >= 0 and self._repeat(tag >> 5 << 8 | low, (tag >> 2 & 7) + 4)
            else:
                is_right = self._repeat(self._number(2 if kind == 2 else 4), length)
        return is_right

    def _number(self, width: int) -> int:
        """Reads an integer; -1 if it is cut off."""
        data = self._input.read(width)
        return int.from_bytes(data, "little") if len(data) == width else -1

    def _length(self, length: int) -> int:
        """Returns a length of LZ4 with the bytes that continue it if its 4 bits are 15; -1 if they are cut off."""
        byte = 255 if length == 15 else 0
        while byte == 255:
            byte = self._number(1)
            length = length + byte if byte >= 0 else -1
        return length

    def _copy(self, count: int) -> bool:
        """Copies literals. Returns whether all were there and fitted."""
        piece = self._input.read(min(count, self._limit - len(self._found)))
        self._found += piece
        return len(piece) == count

    def _repeat(self, distance: int, count: int) -> bool:
        """Repeats bytes of the output. Returns whether there were so many, and all fitted."""
        start, end = len(self._found) - distance, min(len(self._found) + count, self._limit)
        fits = len(self._found) + count <= self._limit
        if distance <= 0 or start < 0:
            return False
        while (left := end - len(self._found)) > 0:  # a match may overlap with itself
            self._found += self._found[start : start + left]
        return fits


def _salvage_lz4(view: memoryview, out: DecompressedBytes) -> None:
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
        found = bytearray(history)
        if field & _STORED:
            found += block
        else:
            limit = len(history) + min(largest, LZ4_EXPANSION * len(block))
            is_whole = _Block(block, found, limit).read_lz4()
        out.add(found[len(history) :])
        history = found[-_LZ4_HISTORY:]
        position += size + 4 * bool(flags & _LZ4_BLOCK_CHECKSUM)


def _salvage_zstd(view: memoryview, out: DecompressedBytes) -> None:
    import zstandard

    library, position = zstandard.ZstdDecompressor(), 0
    while position < len(view):
        header, position = open_frame(view, position)
        if header is None:
            continue
        decompressor = library.decompressobj()
        # A header for the same blocks without content size and checksum.
        exponent = min(max((header.window - 1).bit_length() - 10, 0), _HIGHEST_EXPONENT)
        decompressor.decompress(struct.pack("<IBB", _ZSTD_MAGIC, 0, exponent << 3))
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


# Functions of liblz4 and libzstd that the kernel calls directly, by their addresses.
#
# liblz4's are those that the lz4 package calls: what the kernel decompresses and refuses is identical. So are libzstd's
# if zstandard brings its own library; else the system's is used. All functions are part of libzstd's stable interface.
# Versions treat a malformed stream without checksum differently. Only data with a valid CRC is therefore decompressed
# this way, and a rejected stream is decompressed again by zstandard.

_LZ4_FRAMES = 100
"""Version of liblz4's frame interface, unchanged since 1.0."""
MIN_ZSTD_VERSION = 10505
"""zstd 1.5.5, since which the reserved bits of blocks are checked, as in Kafka's version."""

LZ4_FUNCTIONS = (
    "LZ4F_createDecompressionContext",
    "LZ4F_freeDecompressionContext",
    "LZ4F_getFrameInfo",
    "LZ4F_decompress",
    "LZ4F_isError",
)
ZSTD_FUNCTIONS = (
    "ZSTD_createDCtx",
    "ZSTD_freeDCtx",
    "ZSTD_decompressDCtx",
    "ZSTD_findFrameCompressedSize",
    "ZSTD_isError",
    "ZSTD_getErrorCode",
)
"""In the order of kernel/native/codecs.h."""

_kept: list[Any] = []
"""Keeps libraries loaded so that their addresses stay valid."""


def expansion_buffer(max_bytes: int) -> ExpansionBuffer:
    """Allocates a reusable decompression buffer for the records of one batch, at most ``max_bytes``."""
    return ExpansionBuffer(min(max_bytes, LARGEST_BUFFER_BYTES), addresses)


def addresses(codec: int) -> tuple[int, ...] | None:
    """Returns the addresses of a codec's functions, None if its library is not available."""
    if codec == LZ4:
        from lz4.frame import _frame

        return addresses_in(LZ4, _frame.__file__)
    from importlib.util import find_spec
    from pathlib import Path

    package = find_spec("zstandard")
    folders = (package.submodule_search_locations or []) if package else []
    paths = [str(path) for folder in folders for path in Path(folder).glob("_cffi*.so")]
    paths.append("libzstd.1.dylib" if sys.platform == "darwin" else "libzstd.so.1")
    return next(filter(None, (addresses_in(ZSTD, path) for path in paths)), None)


def addresses_in(codec: int, path: str) -> tuple[int, ...] | None:
    """Returns the addresses of the functions of lz4 or zstd in a library, valid for the life of the process.

    None if the library does not exist, is of another version or does not export the functions.
    """
    import ctypes

    try:
        library = ctypes.CDLL(path)
        if codec == LZ4 and library.LZ4F_getVersion() != _LZ4_FRAMES:
            return None
        if codec == ZSTD and library.ZSTD_versionNumber() < MIN_ZSTD_VERSION:
            return None
        names = LZ4_FUNCTIONS if codec == LZ4 else ZSTD_FUNCTIONS
        found = tuple(ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in names)
    except (OSError, AttributeError):
        return None
    _kept.append(library)
    return found if all(found) else None
