"""Decompresses gzip, bzip2, xz, zstd and lz4 files of any number of frames, in bounded memory.

Sources: RFC 1952 and 8878, the .xz file format 1.1, the LZ4 frame format 1.6. The libraries release Python's lock.
"""

import lzma
import sys
import zlib
from collections.abc import Iterator
from typing import IO, Any, cast

from kseg.formats.compression import BLOCK_HEADER_BYTES, CHECKSUM_BYTES, block_header, header_widths
from kseg.stores.archives.forms import GZIP, LZ4, XZ, ZSTD, UnpackError, is_skippable, packing_name
from kseg.stores.extent import Extent

_INPUT_BYTES = 256 << 10
OUTPUT_BYTES = 256 << 10
LARGEST_DICTIONARY_BYTES = 256 << 20
"""Most memory for a dictionary of xz or LZMA; xz -9 needs 65 MiB."""
_LARGEST_ZSTD_WINDOW = (1 << 27) + (1 << 10)
"""Most memory for a window of zstd: 128 MiB, as for the command zstd without --long."""
_DESCRIPTOR_END = 5
"""End of the descriptor in the header of a frame of zstd."""


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


def new_decoder(name: str) -> FrameDecoder:
    """Returns the decoder of a frame of any compression but zstd (`CompressedFrames.zstd_frame`)."""
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
        yield from frames.zstd_frame() if name == ZSTD else frames.frame(name)


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
        self.held = b""
        """The next bytes, as far as they were read ahead."""
        self._position = start
        """The position after the held bytes."""

    @property
    def position(self) -> int:
        """The position of the held bytes, or of the next ones."""
        return self._position - len(self.held)

    def read(self) -> bytes:
        """Returns the next bytes of the file, none at its end."""
        data = self._extent.pread(min(_INPUT_BYTES, self._end - self._position), self._position)
        self._position += len(data)
        return data

    def _fill(self, least: int) -> bool:
        """Reads until at least ``least`` bytes are held. Returns False if the file ends before."""
        while len(self.held) < least and (data := self.read()):
            self.held += data
        return len(self.held) >= least

    def names(self) -> Iterator[str]:
        """Yields the compression of each frame with data; the caller reads the whole frame before the next."""
        is_first = True
        while self._fill(1):
            self._fill(8)
            start = self.position
            if is_skippable(self.held):
                size = 8 + int.from_bytes(self.held[4:8], "little")
                if size > len(self.held) and start + size > self._extent.current_size():
                    raise UnpackError(start, "it ends in a skippable frame")
                self._position, self.held = max(self._position, start + size), self.held[size:]
            elif not is_first and self.held[0] == 0:
                self.held = self.held.lstrip(b"\0")
            else:
                name = packing_name(self.held)
                if name is None:
                    raise UnpackError(start, f"the bytes from position {start} on belong to no compressed frame")
                yield name
                is_first = False

    def frame(self, name: str) -> Iterator[bytes]:
        """Yields the decompressed bytes of the frame at the position, of zstd aside. Raises UnpackError, OSError."""
        decoder = new_decoder(name)
        data, self.held = self.held, b""
        while True:
            try:
                for piece in decoder.decode(data):
                    if piece:
                        yield piece
            except (zlib.error, OSError, EOFError, lzma.LZMAError, ValueError, RuntimeError) as error:
                raise UnpackError.of_library(name, self._position - len(data), error) from error
            if decoder.eof:
                self.held = decoder.unused_data
                return
            data = self.read()
            if not data:
                raise UnpackError.cut(name, self._position)

    def zstd_frame(self) -> Iterator[bytes]:
        """Yields the decompressed bytes of the frame of zstd at the position. Raises UnpackError after those before the
        damage; OSError.

        The library does not say whether the input ended too early: a frame is complete by the headers of its blocks.
        """
        import zstandard

        packed = _ZstdInput(self)
        decompressor = zstandard.ZstdDecompressor(max_window_size=_LARGEST_ZSTD_WINDOW)
        library = decompressor.stream_reader(cast("IO[bytes]", packed), read_across_frames=False)
        buffer = bytearray(OUTPUT_BYTES)
        view = memoryview(buffer)
        try:
            while got := library.readinto(buffer):
                yield bytes(view[:got])
        except zstandard.ZstdError as error:
            raise UnpackError.of_library(ZSTD, packed.position, error) from error
        if not packed.is_complete:
            raise UnpackError.cut(ZSTD, self.position)


class _ZstdInput:
    """The packed bytes of the frame, as a file for the library. ``position``: start of the last piece."""

    def __init__(self, frames: CompressedFrames) -> None:
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
        data = self._frames.held or self._frames.read()
        end = self._walk(data)
        self._frames.held = data[end:]
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
