"""Decompresses a frame of zstd into the caller's buffer, in bounded memory.

The library does not say whether the input ended too early: a frame is complete by the headers of its blocks. Source:
RFC 8878.
"""

from collections.abc import Iterator
from typing import IO, Protocol, cast

from kseg.formats.zstd_stream import BLOCK_HEADER_BYTES, CHECKSUM_BYTES, block_header, header_widths
from kseg.stores.archives.forms import ZSTD, UnpackError

OUTPUT_BYTES = 256 << 10
LARGEST_WINDOW_BYTES = (1 << 27) + (1 << 10)
"""Most memory for a window of zstd: 128 MiB, as for the command zstd without --long."""
_DESCRIPTOR_END = 5
"""End of the descriptor in the header of a frame."""


class PackedBytes(Protocol):
    """Packed bytes, read from a frame's start on."""

    @property
    def position(self) -> int:
        """The position of the next piece."""

    def next_piece(self) -> bytes:
        """Returns bytes behind those returned so far, none at the end."""

    def put_back(self, data: bytes) -> None:
        """Gives back bytes of the last piece, which belong to no frame or to the next."""


class ZstdFrame:
    """One frame."""

    def __init__(self, packed: PackedBytes) -> None:
        import zstandard

        self._input = _Input(packed)
        self._error = zstandard.ZstdError
        decompressor = zstandard.ZstdDecompressor(max_window_size=LARGEST_WINDOW_BYTES)
        self._library = decompressor.stream_reader(cast("IO[bytes]", self._input), read_across_frames=False)

    def pieces(self) -> Iterator[bytes]:
        """Yields the decompressed bytes. Raises UnpackError after those before the damage; OSError."""
        buffer = bytearray(OUTPUT_BYTES)
        view = memoryview(buffer)
        try:
            while got := self._library.readinto(buffer):
                yield bytes(view[:got])
        except self._error as error:
            raise UnpackError.of_library(ZSTD, self._input.position, error) from error
        if not self._input.is_complete:
            raise UnpackError.cut(ZSTD, self._input.packed.position)


class _Input:
    """The packed bytes of the frame, as a file for the library. ``position``: start of the last piece."""

    def __init__(self, packed: PackedBytes) -> None:
        self.is_complete = False
        self.position = packed.position
        self.packed = packed
        self._header = b""
        self._is_in_blocks = self._is_last = self._has_checksum = False
        self._left = 0
        """Bytes up to the next header or the end of the frame."""

    def read(self, _size: int = -1) -> bytes:
        if self.is_complete:
            return b""
        self.position = self.packed.position
        data = self.packed.next_piece()
        end = self._walk(data)
        if end < len(data):
            self.packed.put_back(data[end:])
        return data[:end]

    def _walk(self, data: bytes) -> int:
        """Follows the headers in a piece. Returns where the frame ends in it, its length if the frame goes on."""
        at = 0
        while True:
            step = min(self._left, len(data) - at)
            at, self._left = at + step, self._left - step
            if self._left:
                return at
            if self._is_last and not self._has_checksum:
                self.is_complete = True
                return at
            if self._is_last:
                self._left, self._has_checksum = CHECKSUM_BYTES, False
                continue
            size = BLOCK_HEADER_BYTES if self._is_in_blocks else _DESCRIPTOR_END
            missing = size - len(self._header)
            self._header += data[at : at + missing]
            at = min(at + missing, len(data))
            if len(self._header) < size:
                return at
            if self._is_in_blocks:
                self._is_last, _, _, self._left = block_header(self._header)
            else:
                self._has_checksum, *widths = header_widths(self._header[-1])
                self._is_in_blocks, self._left = True, sum(widths)
            self._header = b""
