"""The chunk index of a manifest: sizes of a segment's chunks, original and as stored.

Chunks are adjacent in the .log object. Each but the last restores to ``original_chunk_bytes``.

    variable index    int32 count | int32 size                       if count is 1; nothing follows a count of 0
                      int32 count | int32 base | int8 width | count - 1 unsigned differences from base | int32 last size

Source: FixedSizeChunkIndex, VariableSizeChunkIndex and ChunkSizesBinaryCodec of Aiven's plugin. All integers are
big-endian.
"""

from array import array
from itertools import accumulate
from struct import Struct, error
from typing import Any

from kseg.limits import MAX_CHUNK_BYTES, MAX_CHUNKS, MAX_SEGMENT_BYTES

_INT32 = Struct(">i")
_BASE = Struct(">iB")
_MAX_OVERHEAD_BYTES = 4 << 20
"""Limit of the bytes that compression and encryption add to a chunk."""
_PLAIN_CHUNK_BYTES = 4 << 20


class ManifestError(ValueError):
    """A manifest that is inconsistent, or has values that no plugin writes. The text is one line."""


class ChunkIndex:
    """``original_bytes`` in chunks; ``positions`` are those of the stored chunks and the end of the last one."""

    def __init__(self, original_chunk_bytes: int, original_bytes: int, stored_sizes: "array[int]") -> None:
        self.original_chunk_bytes = original_chunk_bytes
        self.original_bytes = original_bytes
        self.positions = array("q", accumulate(stored_sizes, initial=0))

    def __len__(self) -> int:
        return len(self.positions) - 1

    @property
    def stored_bytes(self) -> int:
        return self.positions[-1]

    def original_range(self, chunk: int) -> tuple[int, int]:
        """Returns the bytes of the segment in a chunk: the first, and the one after the last."""
        start = chunk * self.original_chunk_bytes
        return start, min(start + self.original_chunk_bytes, self.original_bytes)


def parse_chunk_index(fields: Any) -> ChunkIndex:
    """Reads ``chunkIndex`` of a manifest. Raises ManifestError."""
    if not isinstance(fields, dict):
        raise ManifestError("chunkIndex is missing")
    chunk_bytes = bounded_integer(fields, "originalChunkSize", MAX_SEGMENT_BYTES)
    file_bytes = bounded_integer(fields, "originalFileSize", MAX_SEGMENT_BYTES)
    if min(chunk_bytes, file_bytes) > MAX_CHUNK_BYTES:
        raise ManifestError(f"a chunk of {min(chunk_bytes, file_bytes)} bytes is above the limit of {MAX_CHUNK_BYTES}")
    count = -(-file_bytes // chunk_bytes)
    if count > MAX_CHUNKS:
        raise ManifestError(f"{count} chunks are above the limit of {MAX_CHUNKS}")
    kind = fields.get("type")
    if kind == "fixed":
        size = bounded_integer(fields, "transformedChunkSize", MAX_SEGMENT_BYTES)
        sizes = array("q", [size]) * (count - 1)
        sizes.append(bounded_integer(fields, "finalTransformedChunkSize", MAX_SEGMENT_BYTES))
    elif kind == "variable":
        sizes = variable_sizes(_unpacked(fields.get("transformedChunks")))
    else:
        raise ManifestError(f"chunkIndex has the unknown type {str(kind)[:20]!r}")
    if len(sizes) == count and max(sizes) > MAX_CHUNK_BYTES + _MAX_OVERHEAD_BYTES:
        raise ManifestError(f"a stored chunk of {max(sizes)} bytes is above the limit of {MAX_CHUNK_BYTES}")
    if len(sizes) != count:
        raise ManifestError(f"the chunk index has {len(sizes)} chunks, the sizes of file and chunks make {count}")
    return ChunkIndex(chunk_bytes, file_bytes, sizes)


def chunk_index_of_plain_file(size: int) -> ChunkIndex:
    """Returns an index for a log that is stored as it is."""
    count = -(-size // _PLAIN_CHUNK_BYTES)
    sizes = array("q", [_PLAIN_CHUNK_BYTES]) * (count - 1)
    sizes.append(size - (count - 1) * _PLAIN_CHUNK_BYTES)
    return ChunkIndex(_PLAIN_CHUNK_BYTES, size, sizes)


def bounded_integer(fields: dict[str, Any], name: str, maximum: int, minimum: int = 1) -> int:
    """Returns an integer field within bounds. Raises ManifestError."""
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
        raise ManifestError(f"{name} is {str(value)[:40]}, not a number from {minimum} to {maximum}")
    return value


def variable_sizes(data: bytes) -> "array[int]":
    """Decodes the sizes of a variable chunk index. Raises ManifestError."""
    sizes = array("q")
    try:
        (count,) = _INT32.unpack_from(data)
        if count < 0:
            raise ManifestError(f"the chunk index has {count} chunks")
        if count > 1:
            base, width = _BASE.unpack_from(data, 4)
            end = 9 + (count - 1) * width
            if not 1 <= width <= 4 or end + 4 != len(data):
                raise ManifestError(f"the chunk index has {len(data)} bytes for {count} chunks of width {width}")
            sizes.extend(base + int.from_bytes(data[at : at + width], "big") for at in range(9, end, width))
            sizes.append(_INT32.unpack_from(data, end)[0])
        elif count == 1:
            sizes.append(_INT32.unpack_from(data, 4)[0])
    except error as cause:
        raise ManifestError("the chunk index ends too early") from cause
    if len(sizes) and min(sizes) < 1:
        raise ManifestError("the chunk index has a chunk without bytes")
    return sizes


def _unpacked(text: Any) -> bytes:
    """Decodes base64 and zstd. Raises ManifestError."""
    import binascii

    from kseg.formats.decompressed import DecompressedBytes, DecompressionError
    from kseg.formats.zstd_stream import unzstd

    try:
        data = binascii.a2b_base64(text, strict_mode=True) if isinstance(text, str) else b""
        return bytes(unzstd(memoryview(data), DecompressedBytes(4 * MAX_CHUNKS + 16)))
    except (binascii.Error, ValueError, IndexError, DecompressionError) as cause:
        raise ManifestError(f"transformedChunks cannot be decoded: {cause}") from cause
