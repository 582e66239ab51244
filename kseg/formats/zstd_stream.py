"""Decompresses zstd frames, including skippable ones (RFC 8878), as Kafka's reader does: ZstdInputStream of zstd-jni.

    frame        28 b5 2f fd | descriptor | [window] | [dictionary] | [content size] | block... | [xxh64, 4 bytes]
    block        3 bytes, little endian: bit 0 last, bits 1-2 type, size | bytes
    skippable    5? 2a 4d 18 | uint32 size, little endian | bytes

zstd-jni ignores a truncated frame after a complete one if both were read in one call.
"""

import threading
from struct import Struct
from typing import Any

from kseg.formats.decompressed import DecompressedBytes, DecompressionError, over, reason, undecodable_error

_UINT32_LE = Struct("<I").unpack_from

_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_SKIPPABLE, _ZSTD_SKIPPABLE_MASK = 0x184D2A50, 0xFFFFFFF0
_ZSTD_BLOCK = 128 << 10
_ZSTD_LARGEST_WINDOW = (1 << 27) + 1
"""Largest window that streaming decoders such as Kafka's accept by default (ZSTD_MAXWINDOWSIZE_DEFAULT)."""
_RLE, _COMPRESSED, _RESERVED = 1, 2, 3
_STREAM_STEP = 256 << 10
_JNI_READ_BYTES = (128 << 10) + 3
"""Size of ZstdInputStream's reads (ZSTD_DStreamInSize); a truncated frame is an error to it only after another
read."""

_of_thread = threading.local()


def unzstd(view: memoryview, out: DecompressedBytes) -> bytes | bytearray:
    """Decompresses all frames of a stream into ``out``. Raises DecompressionError."""
    position = 0
    while position < len(view):
        try:
            end, claimed, bound = _frame_at(view, position)
        except DecompressionError as error:
            if position == 0:
                raise
            _check_trailing(view, position, out, str(error))
            break
        if bound is not None:
            out.add(_unzstd_frame(view[position:end], claimed, bound, out.remaining, out.ceiling))
        position = end
    return out.whole()


def _frame_at(view: memoryview, position: int) -> tuple[int, int | None, int | None]:
    """Like `_zstd_frame`; for a skippable frame only its end is returned."""
    if len(view) - position < 8:
        raise undecodable_error("zstd: stream ends in a frame header")
    (magic,) = _UINT32_LE(view, position)
    if magic & _ZSTD_SKIPPABLE_MASK == _ZSTD_SKIPPABLE:
        end = position + 8 + _UINT32_LE(view, position + 4)[0]
        if end > len(view):
            raise undecodable_error("zstd: stream ends in a skippable frame")
        return end, None, None
    if magic != _ZSTD_MAGIC:
        raise undecodable_error("zstd: no frame header")
    return _zstd_frame(view, position)


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


def _zstd_frame(view: memoryview, start: int) -> tuple[int, int | None, int]:
    """Returns the end of the frame at `start`, its claimed size or None, and the largest size that its blocks allow.

    Walking the block headers (one per 128 KiB of content) finds truncation, which the library's readers treat as the
    end of the stream. It also gives the library a tight output size; a generous one halves its speed.
    """
    has_checksum, claimed, position = _zstd_frame_header(view, start)
    bound = 0
    last = False
    while not last:
        header = int.from_bytes(view[position : position + 3], "little")
        last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
        position += 3
        if kind == _RESERVED:
            raise undecodable_error("zstd: block of a reserved type")
        bound += _ZSTD_BLOCK if kind == _COMPRESSED else size
        position += 1 if kind == _RLE else size
        if position > len(view):
            raise undecodable_error("zstd: stream ends in a frame")
    if has_checksum:
        position += 4
        if position > len(view):
            raise undecodable_error("zstd: stream ends before the checksum of a frame")
    return position, claimed, bound


def _zstd_frame_header(view: memoryview, start: int) -> tuple[bool, int | None, int]:
    """Returns whether a checksum ends the frame, its claimed content size or None, and the position of its first
    block."""
    descriptor = view[start + 4]
    is_single_segment = bool(descriptor & 0x20)
    size_code = descriptor >> 6
    position = start + 5
    window = 0
    if not is_single_segment:
        exponent, mantissa = view[position] >> 3, view[position] & 7
        window = (1 << 10 + exponent) + (1 << 7 + exponent) * mantissa
        position += 1
    position += (0, 1, 2, 4)[descriptor & 3]
    size_width = 1 if is_single_segment and not size_code else (0, 2, 4, 8)[size_code]
    claimed = None
    if size_width:
        claimed = int.from_bytes(view[position : position + size_width], "little") + (256 if size_width == 2 else 0)
        position += size_width
    if position > len(view):
        raise undecodable_error("zstd: stream ends in a frame header")
    if is_single_segment and claimed is not None:
        window = claimed
    if window > _ZSTD_LARGEST_WINDOW:
        raise undecodable_error(f"zstd: frame asks for a window of {window} bytes")
    return bool(descriptor & 4), claimed, position


def _unzstd_frame(frame: memoryview, claimed: int | None, bound: int, remaining: int, ceiling: int) -> Any:
    import zstandard

    if claimed is not None:
        if claimed > bound:
            raise undecodable_error(f"zstd: a frame that holds at most {bound} bytes claims to hold {claimed}")
        if claimed > remaining:
            raise over(ceiling)
    size = bound if claimed is None else claimed
    try:
        # The library ignores the blocks of a frame that claims to be empty, and has no error code for "too small".
        if not 0 < size <= max(remaining, _ZSTD_BLOCK):
            return _stream_zstd_frame(frame, remaining, ceiling)
        decompressor = getattr(_of_thread, "decompressor", None)
        if decompressor is None:
            decompressor = _of_thread.decompressor = zstandard.ZstdDecompressor()
        return decompressor.decompress(frame, max_output_size=size)
    except zstandard.ZstdError as error:
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
