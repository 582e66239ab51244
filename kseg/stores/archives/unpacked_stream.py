"""The decompressed bytes of a packed file, read into the caller's buffer.

libzstd writes into that buffer without a copy. A frame of zstd is found to be complete by the headers of its blocks,
because the library does not say whether the input ended too early.
"""

from collections.abc import Iterator
from typing import IO, Protocol, cast

from kseg.stores.archives.forms import ZSTD
from kseg.stores.archives.unpack import (
    LARGEST_WINDOW_BYTES,
    OUTPUT_BYTES,
    ZSTD_BLOCK_HEADER_BYTES,
    ZSTD_DESCRIPTOR_END,
    Frames,
    UnpackError,
    library_errors,
    reason,
    zstd_block,
    zstd_header,
)
from kseg.stores.extent import Extent

_CHECKSUM_BYTES = 4


class _FrameReader(Protocol):
    def readinto(self, view: memoryview) -> int:
        """Returns the number of bytes written to ``view``, 0 at the end of the frame. Raises UnpackError, OSError."""


class UnpackedStream:
    """All frames of a packed file, one after another."""

    def __init__(self, extent: Extent) -> None:
        self._frames = Frames(extent)
        self._names = self._frames.names()
        self._reader: _FrameReader | None = None
        self._error: UnpackError | None = None

    def readinto(self, view: memoryview) -> int:
        """Fills ``view`` up to the end of the file or the damage. Returns the number of bytes.

        Raises UnpackError after all bytes before the damage; OSError.
        """
        filled = 0
        while filled < len(view) and self._error is None:
            try:
                got = self._read(view[filled : filled + OUTPUT_BYTES])
            except UnpackError as error:
                self._error = error
                break
            if not got:
                break
            filled += got
        if self._error is not None and not filled:
            raise self._error
        return filled

    def _read(self, view: memoryview) -> int:
        """As `_FrameReader.readinto`, 0 only behind the last frame."""
        while True:
            if self._reader is None:
                name = next(self._names, None)
                if name is None:
                    return 0
                self._reader = _ZstdFrame(self._frames) if name == ZSTD else _Pieces(self._frames.frame(name))
            if got := self._reader.readinto(view):
                return got
            self._reader = None


class _Pieces:
    """A frame that its library decompresses into new objects."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._piece = memoryview(b"")

    def readinto(self, view: memoryview) -> int:
        if not self._piece:
            self._piece = memoryview(next(self._pieces, b""))
        taken, self._piece = self._piece[: len(view)], self._piece[len(view) :]
        view[: len(taken)] = taken
        return len(taken)


class _ZstdFrame:
    """A frame of zstd."""

    def __init__(self, frames: Frames) -> None:
        import zstandard

        self._input = _ZstdInput(frames)
        self._frames = frames
        decompressor = zstandard.ZstdDecompressor(max_window_size=LARGEST_WINDOW_BYTES)
        self._library = decompressor.stream_reader(cast("IO[bytes]", self._input), read_across_frames=False)

    def readinto(self, view: memoryview) -> int:
        try:
            got = int(self._library.readinto(view))
        except library_errors() as error:
            raise UnpackError(self._input.position, f"{ZSTD}: {reason(error)}") from error
        if not got and not self._input.is_complete:
            raise self._frames.cut(ZSTD)
        return got


class _ZstdInput:
    """The packed bytes of one frame of zstd, as a file for the library. ``position``: start of the last piece."""

    def __init__(self, frames: Frames) -> None:
        self.is_complete = False
        self.position = frames.position
        self._frames = frames
        self._header = b""
        self._is_in_blocks = self._is_last = self._has_checksum = False
        self._left = 0
        """Bytes up to the next header or the end of the frame."""

    def read(self, _size: int = -1) -> bytes:
        if self.is_complete:
            return b""
        self.position = self._frames.position
        data = self._frames.next_piece()
        end = self._walk(data)
        if end < len(data):
            self._frames.put_back(data[end:])
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
                self._left, self._has_checksum = _CHECKSUM_BYTES, False
                continue
            size = ZSTD_BLOCK_HEADER_BYTES if self._is_in_blocks else ZSTD_DESCRIPTOR_END
            missing = size - len(self._header)
            self._header += data[at : at + missing]
            at = min(at + missing, len(data))
            if len(self._header) < size:
                return at
            if self._is_in_blocks:
                self._is_last, self._left = zstd_block(self._header)
            else:
                self._has_checksum, header_bytes = zstd_header(self._header[-1])
                self._is_in_blocks, self._left = True, header_bytes - ZSTD_DESCRIPTOR_END
            self._header = b""
