"""Decompresses zstd frames, including skippable ones (RFC 8878), as Kafka's reader does: ZstdInputStream of zstd-jni.

    frame        28 b5 2f fd | descriptor | [window] | [dictionary] | [content size] | block... | [xxh64, 4 bytes]
    block        3 bytes, little endian: bit 0 last, bits 1-2 type, size | bytes
    skippable    5? 2a 4d 18 | uint32 size, little endian | bytes

zstd-jni ignores a truncated frame after a complete one if both were read in one call.
"""

import struct
import threading
from contextlib import suppress
from typing import Any, NamedTuple

from kseg.formats.decompressed import DecompressedBytes, DecompressionError, over, reason, undecodable_error
from kseg.formats.rows import BytesLike

_UINT32_LE = struct.Struct("<I").unpack_from

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

_of_thread = threading.local()


def unzstd(view: memoryview, out: DecompressedBytes) -> bytes | bytearray:
    """Decompresses all frames of a stream into ``out``. Raises DecompressionError."""
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
            out.add(_unzstd_frame(view[position:end], header, bound, out.remaining, out.ceiling))
        position = end
    return out.whole()


class _FrameHeader(NamedTuple):
    """``claimed``: the content size, None if not stored."""

    has_checksum: bool
    claimed: int | None
    window: int

    def without_claims(self) -> bytes:
        """Returns a header for the same blocks without content size and checksum."""
        exponent = min(max((self.window - 1).bit_length() - 10, 0), _HIGHEST_EXPONENT)
        return struct.pack("<IBB", _ZSTD_MAGIC, 0, exponent << 3)


def open_frame(view: memoryview, position: int) -> tuple[_FrameHeader | None, int]:
    """Returns the header of the frame at `position` and the position of its first block; for a skippable frame None
    and its end. Raises DecompressionError."""
    if len(view) - position < 8:
        raise undecodable_error("zstd: stream ends in a frame header")
    (magic,) = _UINT32_LE(view, position)
    if magic & _ZSTD_SKIPPABLE_MASK == _ZSTD_SKIPPABLE:
        end = position + 8 + _UINT32_LE(view, position + 4)[0]
        if end > len(view):
            raise undecodable_error("zstd: stream ends in a skippable frame")
        return None, end
    if magic != _ZSTD_MAGIC:
        raise undecodable_error("zstd: no frame header")
    return _zstd_frame_header(view, position)


def _check_trailing(view: memoryview, position: int, out: DecompressedBytes, refusal: str) -> None:
    """Handles trailing bytes as Kafka's reader does: it ignores a truncated frame, and fails at anything else."""
    import zstandard

    if (position - 1) // _JNI_READ_BYTES != (len(view) - 1) // _JNI_READ_BYTES:
        out.refuse_rest(refusal)
        return
    try:
        piece = _stream_zstd_frame(view[position:], out.remaining, out.ceiling)
    except zstandard.ZstdError:
        out.refuse_rest(f"zstd: {len(view) - position} bytes after the last frame are not a frame")
        return
    out.add(piece)
    out.leave(len(view) - position)


def _frame_end(view: memoryview, header: _FrameHeader, position: int) -> tuple[int, int]:
    """Returns the end of a frame whose blocks start at `position`, and the largest size that they allow.

    Walking the block headers (one per 128 KiB of content) finds truncation, which the library's readers treat as the
    end of the stream. It also gives the library a tight output size; a generous one halves its speed.
    """
    bound = 0
    last = False
    while not last:
        last, kind, size, stored = block_header(view[position : position + BLOCK_HEADER_BYTES])
        if kind == _RESERVED:
            raise undecodable_error("zstd: block of a reserved type")
        bound += ZSTD_BLOCK if kind == _COMPRESSED else size
        position += BLOCK_HEADER_BYTES + stored
        if position > len(view):
            raise undecodable_error("zstd: stream ends in a frame")
    if header.has_checksum:
        position += CHECKSUM_BYTES
        if position > len(view):
            raise undecodable_error("zstd: stream ends before the checksum of a frame")
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


def _zstd_frame_header(view: memoryview, start: int) -> tuple[_FrameHeader, int]:
    has_checksum, window_width, dictionary_width, size_width = header_widths(view[start + 4])
    position = start + 5
    window = 0
    if window_width:
        exponent, mantissa = view[position] >> 3, view[position] & 7
        window = (1 << 10 + exponent) + (1 << 7 + exponent) * mantissa
    position += window_width + dictionary_width
    claimed = None
    if size_width:
        claimed = int.from_bytes(view[position : position + size_width], "little") + (256 if size_width == 2 else 0)
        position += size_width
    if position > len(view):
        raise undecodable_error("zstd: stream ends in a frame header")
    if not window_width and claimed is not None:
        window = claimed
    if window > _ZSTD_LARGEST_WINDOW:
        raise undecodable_error(f"zstd: frame asks for a window of {window} bytes")
    return _FrameHeader(has_checksum, claimed, window), position


def _unzstd_frame(frame: memoryview, header: _FrameHeader, bound: int, remaining: int, ceiling: int) -> Any:
    import zstandard

    size = bound if header.claimed is None else header.claimed
    # Kafka streams. One call is faster, but compares no block with a small window, refuses a wrong content size also
    # before an empty last block, ignores the blocks of a frame that claims to be empty, and has no error code for "too
    # small".
    if 0 < size <= min(bound, max(remaining, ZSTD_BLOCK)) and header.window >= min(size, ZSTD_BLOCK):
        decompressor = getattr(_of_thread, "decompressor", None)
        if decompressor is None:
            decompressor = _of_thread.decompressor = zstandard.ZstdDecompressor()
        with suppress(zstandard.ZstdError):
            return decompressor.decompress(frame, max_output_size=size)
    try:
        return _stream_zstd_frame(frame, remaining, ceiling)
    except zstandard.ZstdError as error:
        if size > bound:
            raise undecodable_error(f"zstd: a frame that holds at most {bound} bytes claims to hold {size}") from None
        raise undecodable_error(f"zstd: {reason(error)}") from None


def _stream_zstd_frame(frame: memoryview, remaining: int, ceiling: int) -> bytearray:
    """Decompresses a frame that may exceed the remaining ceiling in steps, and stops when it does."""
    import zstandard

    out = bytearray()
    step = memoryview(bytearray(_STREAM_STEP))
    with zstandard.ZstdDecompressor().stream_reader(frame) as reader:
        while count := reader.readinto(step):
            if len(out) + count > remaining:
                raise over(ceiling)
            out += step[:count]
    return out
