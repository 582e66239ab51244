"""Decompresses what a broken stream holds before its fault: a wrong or missing end, changed bytes, a cut.

Nothing proves such bytes. `kseg.formats.compression` describes the streams; it refuses what is read here.

    codec    read up to
    gzip     the byte at which the inflater stops
    snappy   the fault in a block
    lz4      the fault in a block; checksums are ignored, blocks may depend on each other
    zstd     the last whole block: a block can only be decoded as a whole; checksum and content size are ignored
"""

import zlib
from collections.abc import Callable

from kseg.formats.compression import (
    CONTENT_SIZE,
    GZIP,
    GZIP_TRAILER,
    LZ4,
    LZ4_EXPANSION,
    LZ4_MAGIC,
    SNAPPY,
    SNAPPY_EXPANSION,
    XERIAL_HEADER,
    ZSTD,
    gzip_body,
    is_xerial,
    snappy_size,
)
from kseg.formats.decompressed import DecompressedBytes, DecompressionError
from kseg.formats.rows import BytesLike
from kseg.formats.zstd_stream import BLOCK_HEADER_BYTES, CHECKSUM_BYTES, ZSTD_BLOCK, block_header, open_frame
from kseg.kernel.codecs.broken_blocks import BlockOutput
from kseg.limits import LARGEST_BUFFER_BYTES

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
