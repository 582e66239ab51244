"""The decompressed bytes of a packed file, read into the caller's buffer: libzstd writes there without a copy."""

from collections.abc import Iterator
from typing import Protocol

from kseg.stores.archives.forms import ZSTD
from kseg.stores.archives.unpack import CompressedFrames
from kseg.stores.archives.unpack_error import UnpackError
from kseg.stores.archives.zstd_frame import OUTPUT_BYTES, ZstdFrame
from kseg.stores.extent import Extent


class _FrameReader(Protocol):
    def readinto(self, view: memoryview) -> int:
        """Returns the number of bytes written to ``view``, 0 at the end of the frame. Raises UnpackError, OSError."""


class UnpackedStream:
    """All frames of a packed file, one after another."""

    def __init__(self, extent: Extent) -> None:
        self._frames = CompressedFrames(extent)
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
                self._reader = ZstdFrame(self._frames) if name == ZSTD else _Pieces(self._frames.frame(name))
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
