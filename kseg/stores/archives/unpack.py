"""Decompresses gzip, bzip2, xz, zstd and lz4 files of any number of frames, in bounded memory.

Sources: RFC 1952 and 8878, the .xz file format 1.1, the LZ4 frame format 1.6. The libraries release Python's lock.
"""

import zlib
from collections.abc import Iterator
from typing import Any, Protocol

from kseg.stores.archives.forms import GZIP, LZ4, XZ, ZSTD, UnpackError, is_skippable, packing_name
from kseg.stores.archives.zstd_frame import OUTPUT_BYTES, ZstdFrame
from kseg.stores.extent import Extent

_INPUT_BYTES = 256 << 10
LARGEST_DICTIONARY_BYTES = 256 << 20
"""Most memory for a dictionary of xz or LZMA; xz -9 needs 65 MiB."""


class FrameDecoder(Protocol):
    """Decodes one frame: ``decode`` yields bounded output for more input; ``eof`` is set at the end of the frame."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decode(self, data: bytes) -> Iterator[bytes]: ...


class PullDecoder:
    """A decoder of a library with the interface of bz2, lzma and lz4: bounded output, ``needs_input``."""

    def __init__(self, library: Any) -> None:
        self._library = library

    @property
    def eof(self) -> bool:
        return bool(self._library.eof)

    @property
    def unused_data(self) -> bytes:
        return self._library.unused_data or b""

    def decode(self, data: bytes) -> Iterator[bytes]:
        yield self._library.decompress(data, OUTPUT_BYTES)
        while not self._library.eof and not self._library.needs_input:
            yield self._library.decompress(b"", OUTPUT_BYTES)


class ZlibDecoder:
    """A decoder of zlib. ``wbits``: as in `zlib.decompressobj`."""

    def __init__(self, wbits: int) -> None:
        self._library = zlib.decompressobj(wbits)

    @property
    def eof(self) -> bool:
        return self._library.eof

    @property
    def unused_data(self) -> bytes:
        return self._library.unused_data

    def decode(self, data: bytes) -> Iterator[bytes]:
        while not self._library.eof:
            piece = self._library.decompress(data, OUTPUT_BYTES)
            yield piece
            data = self._library.unconsumed_tail
            if not data and len(piece) < OUTPUT_BYTES:  # a full piece: zlib may hold more output
                return


def new_decoder(name: str) -> FrameDecoder:
    """Returns the decoder of a frame of any compression but zstd (`kseg.stores.archives.zstd_frame`)."""
    if name == GZIP:
        return ZlibDecoder(16 + zlib.MAX_WBITS)  # 16: with the header of gzip
    if name == LZ4:
        from lz4.frame import LZ4FrameDecompressor

        return PullDecoder(LZ4FrameDecompressor())
    if name == XZ:
        import lzma

        return PullDecoder(lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=LARGEST_DICTIONARY_BYTES))
    import bz2

    return PullDecoder(bz2.BZ2Decompressor())


def unpacked(extent: Extent) -> Iterator[bytes]:
    """Yields the decompressed bytes of all frames. Raises UnpackError after all bytes before the damage; OSError."""
    frames = CompressedFrames(extent)
    for name in frames.names():
        yield from ZstdFrame(frames).pieces() if name == ZSTD else frames.frame(name)


def unpacked_bytes(head: bytes) -> Iterator[bytes]:
    """As `unpacked`, for bytes in memory."""
    return unpacked(MemoryExtent(head))


class MemoryExtent(Extent):
    """Bytes in memory."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        super().__init__(-1, 0, len(data))
        self._data = data

    def pread(self, length: int, position: int) -> bytes:
        return self._data[position : position + length]

    def current_size(self) -> int:
        return len(self._data)


class CompressedFrames:
    """Frames one after another. Zeros between and behind them are padding; skippable frames are skipped."""

    def __init__(self, extent: Extent) -> None:
        self._extent = extent
        self._held = b""
        self._position = 0
        """The position after the held bytes."""

    def next_piece(self) -> bytes:
        """Returns bytes behind those returned so far, none at the end of the file."""
        if self._held:
            data, self._held = self._held, b""
            return data
        return self._read()

    def put_back(self, data: bytes) -> None:
        """Gives back bytes of the last piece."""
        self._held = data

    @property
    def position(self) -> int:
        """The position of the next piece."""
        return self._position - len(self._held)

    def _read(self) -> bytes:
        data = self._extent.pread(_INPUT_BYTES, self._position)
        self._position += len(data)
        return data

    def _fill(self, least: int) -> bool:
        """Reads until at least ``least`` bytes are held. Returns False if the file ends before."""
        while len(self._held) < least and (data := self._read()):
            self._held += data
        return len(self._held) >= least

    def names(self) -> Iterator[str]:
        """Yields the compression of each frame; the caller reads the whole frame before the next."""
        is_first = True
        while self._find_frame(is_first):
            name = packing_name(self._held)
            if name is None:
                start = self.position
                raise UnpackError(start, f"the bytes from position {start} on belong to no compressed frame")
            yield name
            is_first = False

    def _find_frame(self, is_first: bool) -> bool:
        """Moves to the next frame with data. Returns whether there is one."""
        while self._fill(1):
            self._fill(8)
            if is_skippable(self._held):
                self._skip(8 + int.from_bytes(self._held[4:8], "little"))
            elif not is_first and self._held[0] == 0:
                if stripped := self._held.lstrip(b"\0"):
                    self._held = stripped
                    continue
                self._held = b""
            else:
                return True
        return False

    def _skip(self, size: int) -> None:
        start = self._position - len(self._held)
        if size > len(self._held):
            self._position, self._held = start + size, b""
            if self._position > self._extent.current_size():
                raise UnpackError(start, "it ends in a skippable frame")
        else:
            self._held = self._held[size:]

    def frame(self, name: str) -> Iterator[bytes]:
        """Yields the decompressed bytes of the frame at the position, of zstd aside. Raises UnpackError, OSError."""
        decoder = new_decoder(name)
        data, self._held = self._held, b""
        while True:
            try:
                for piece in decoder.decode(data):
                    if piece:
                        yield piece
            except _library_errors() as error:
                raise UnpackError.of_library(name, self._position - len(data), error) from error
            if decoder.eof:
                self._held = decoder.unused_data
                return
            data = self._read()
            if not data:
                raise UnpackError.cut(name, self._position)


def _library_errors() -> tuple[type[Exception], ...]:
    import lzma

    return (zlib.error, OSError, EOFError, lzma.LZMAError, ValueError, RuntimeError)
