"""Decompresses gzip, bzip2, xz, zstd and lz4 files of any number of frames, in bounded memory.

Sources: RFC 1952 and 8878, the .xz file format 1.1, the LZ4 frame format 1.6. The libraries release Python's lock.
"""

import lzma
import sys
import zlib
from collections.abc import Iterator
from typing import Any

from kseg.stores.archives.forms import GZIP, LZ4, XZ, ZSTD, UnpackError, is_skippable, packing_name
from kseg.stores.extent import Extent

_INPUT_BYTES = 256 << 10
OUTPUT_BYTES = 256 << 10
LARGEST_DICTIONARY_BYTES = 256 << 20
"""Most memory for a dictionary of xz or LZMA; xz -9 needs 65 MiB."""
_LARGEST_ZSTD_WINDOW = (1 << 27) + (1 << 10)
"""Most memory for a window of zstd: 128 MiB, as for the command zstd without --long."""
_ZSTD_BLOCK_BYTES = 4
"""Size of the smallest block of zstd; it may hold 128 KiB."""
_ZSTD_INPUT_BYTES = 1 << 11
"""Input of one call of zstd at most, whose output then has up to 64 MiB."""


class FrameDecoder:
    """Decodes one frame: ``decode`` yields bounded output for more input; ``eof`` is set at the end of the frame.

    ``library``: a decoder with the interface of bz2, lzma and lz4, with bounded output and ``needs_input``.
    """

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


class ZlibDecoder(FrameDecoder):
    """A decoder of zlib. ``wbits``: as in `zlib.decompressobj`."""

    def __init__(self, wbits: int) -> None:
        super().__init__(zlib.decompressobj(wbits))

    def decode(self, data: bytes) -> Iterator[bytes]:
        while not self._library.eof:
            piece = self._library.decompress(data, OUTPUT_BYTES)
            yield piece
            data = self._library.unconsumed_tail
            if not data and len(piece) < OUTPUT_BYTES:  # a full piece: zlib may hold more output
                return


class ZstdDecoder(FrameDecoder):
    """A decoder of zstd, which bounds its output by the input of each call."""

    def __init__(self) -> None:
        import zstandard

        super().__init__(zstandard.ZstdDecompressor(max_window_size=_LARGEST_ZSTD_WINDOW).decompressobj())
        self._error = zstandard.ZstdError
        self._rest, self._step = b"", _ZSTD_INPUT_BYTES

    @property
    def unused_data(self) -> bytes:
        return super().unused_data + self._rest

    def decode(self, data: bytes) -> Iterator[bytes]:
        view, at = memoryview(data), 0
        while at < len(data) and not self._library.eof:
            try:
                found = self._library.decompress(view[at : at + self._step])
            except self._error as error:
                raise ValueError(str(error)) from error
            at += self._step
            # Output that stays in the processor's cache: half the time for data that is packed to a hundredth.
            longer, shorter = min(2 * self._step, _ZSTD_INPUT_BYTES), max(self._step // 2, _ZSTD_BLOCK_BYTES)
            self._step = longer if len(found) < OUTPUT_BYTES else shorter
            for start in range(0, len(found), OUTPUT_BYTES):
                yield found[start : start + OUTPUT_BYTES]
            del found
        self._rest = data[at:]


def new_decoder(name: str) -> FrameDecoder:
    """Returns the decoder of a frame."""
    if name == ZSTD:
        return ZstdDecoder()
    if name == GZIP:
        return ZlibDecoder(16 + zlib.MAX_WBITS)  # 16: with the header of gzip
    if name == LZ4:
        from lz4.frame import LZ4FrameDecompressor

        return FrameDecoder(LZ4FrameDecompressor())
    if name == XZ:
        return FrameDecoder(lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=LARGEST_DICTIONARY_BYTES))
    import bz2

    return FrameDecoder(bz2.BZ2Decompressor())


def unpacked(extent: Extent) -> Iterator[bytes]:
    """Yields the decompressed bytes of all frames. Raises UnpackError after all bytes before the damage; OSError."""
    frames = CompressedFrames(extent)
    for name in frames.names():
        yield from frames.frame(name)


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
    """Frames one after another. Zeros between and behind them are padding; skippable frames are skipped.

    They are the bytes from ``start`` to ``end`` of the extent, the whole of it by default.
    """

    def __init__(self, extent: Extent, start: int = 0, end: int = sys.maxsize) -> None:
        self._extent = extent
        self._end = end
        self._held = b""
        """The next bytes, as far as they were read ahead."""
        self._position = start
        """The position after the held bytes."""

    def _read(self) -> bytes:
        """Returns the next bytes of the file, none at its end."""
        data = self._extent.pread(min(_INPUT_BYTES, self._end - self._position), self._position)
        self._position += len(data)
        return data

    def _fill(self, least: int) -> bool:
        """Reads until at least ``least`` bytes are held. Returns False if the file ends before."""
        while len(self._held) < least and (data := self._read()):
            self._held += data
        return len(self._held) >= least

    def names(self) -> Iterator[str]:
        """Yields the compression of each frame with data; the caller reads the whole frame before the next."""
        is_first = True
        while self._fill(1):
            self._fill(8)
            start = self._position - len(self._held)
            if is_skippable(self._held):
                size = 8 + int.from_bytes(self._held[4:8], "little")
                if size > len(self._held) and start + size > self._extent.current_size():
                    raise UnpackError(start, "it ends in a skippable frame")
                self._position, self._held = max(self._position, start + size), self._held[size:]
            elif not is_first and self._held[0] == 0:
                self._held = self._held.lstrip(b"\0")
            else:
                name = packing_name(self._held)
                if name is None:
                    raise UnpackError(start, f"the bytes from position {start} on belong to no compressed frame")
                yield name
                is_first = False

    def frame(self, name: str) -> Iterator[bytes]:
        """Yields the decompressed bytes of the frame at the position. Raises UnpackError after those before the damage;
        OSError."""
        decoder = new_decoder(name)
        data, self._held = self._held, b""
        while True:
            try:
                for piece in decoder.decode(data):
                    if piece:
                        yield piece
            except (zlib.error, OSError, EOFError, lzma.LZMAError, ValueError, RuntimeError) as error:
                raise UnpackError.of_library(name, self._position - len(data), error) from error
            if decoder.eof:
                self._held = decoder.unused_data
                return
            data = self._read()
            if not data:
                raise UnpackError.cut(name, self._position)
