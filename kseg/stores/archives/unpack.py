"""Decompresses gzip, bzip2, xz, zstd and lz4 files of any number of frames, in bounded memory.

Sources: RFC 1952 and 8878, the .xz file format 1.1, the LZ4 frame format 1.6. The libraries release Python's lock.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from kseg.stores.archives.forms import BZIP2, GZIP, LZ4, XZ, ZSTD, is_skippable, packing_name
from kseg.stores.extent import Extent

_INPUT_BYTES = 256 << 10
OUTPUT_BYTES = 256 << 10
LARGEST_DICTIONARY_BYTES = 256 << 20
"""Most memory for a dictionary of xz or LZMA; xz -9 needs 65 MiB."""
LARGEST_WINDOW_BYTES = (1 << 27) + (1 << 10)
"""Most memory for a window of zstd: 128 MiB, as for the command zstd without --long."""
_ZSTD_BLOCK_BYTES = 128 << 10
ZSTD_DESCRIPTOR_END, ZSTD_BLOCK_HEADER_BYTES = 5, 3
"""End of the descriptor in the header of a frame of zstd, and the size of a block's header."""


class UnpackError(Exception):
    """The packed bytes end or are not valid at ``position`` of the packed file."""

    def __init__(self, position: int, message: str) -> None:
        super().__init__(message)
        self.position = position


class _Decoder(Protocol):
    """Decodes one frame: ``decode`` yields bounded output for more input; ``eof`` is set at the end of the frame."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decode(self, data: bytes) -> Iterator[bytes]: ...


class _Pull:
    """A decoder with the interface of bz2, lzma and lz4: bounded output, ``needs_input``."""

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


class _Gzip:
    def __init__(self) -> None:
        self._library = zlib.decompressobj(31)

    @property
    def eof(self) -> bool:
        return self._library.eof

    @property
    def unused_data(self) -> bytes:
        return self._library.unused_data

    def decode(self, data: bytes) -> Iterator[bytes]:
        while data and not self._library.eof:
            yield self._library.decompress(data, OUTPUT_BYTES)
            data = self._library.unconsumed_tail


class _Zstd:
    """A frame of zstd, given to the library some blocks at a time: each expands to 128 KiB at most."""

    def __init__(self) -> None:
        import zstandard

        self._library = zstandard.ZstdDecompressor(max_window_size=LARGEST_WINDOW_BYTES).decompressobj()
        self._held = b""
        self._is_in_blocks = self._is_last = self._has_checksum = False
        self.eof = False
        self.unused_data = b""

    def decode(self, data: bytes) -> Iterator[bytes]:
        self._held += data
        position = 0
        while not self.eof:
            stop, expands_to = self._whole_blocks(position)
            if stop == position:
                break
            if expands_to or self._is_last:
                yield self._library.decompress(self._held[position:stop])
            else:
                self._library.decompress(self._held[position:stop])
            position = stop
        if self.eof:
            self.unused_data = self._held[position:]
        self._held = self._held[position:]

    def _whole_blocks(self, position: int) -> tuple[int, int]:
        """Returns the end of the complete blocks from a position on, up to about OUTPUT_BYTES of output, and the limit
        of that output."""
        held, expands_to = self._held, 0
        if not self._is_in_blocks:
            size = self._header_bytes()
            if not size or len(held) < size:
                return position, 0
            self._is_in_blocks = True
            position = size
        while not self._is_last and expands_to < OUTPUT_BYTES and position + ZSTD_BLOCK_HEADER_BYTES <= len(held):
            is_last, stored = zstd_block(held[position : position + ZSTD_BLOCK_HEADER_BYTES])
            if position + ZSTD_BLOCK_HEADER_BYTES + stored > len(held):
                break
            position += ZSTD_BLOCK_HEADER_BYTES + stored
            expands_to += _ZSTD_BLOCK_BYTES
            self._is_last = is_last
        if self._is_last and len(held) >= position + 4 * self._has_checksum:
            position += 4 * self._has_checksum
            self.eof = True
        return position, expands_to

    def _header_bytes(self) -> int:
        """Returns the size of the frame's header, 0 if more input is needed for it."""
        if len(self._held) < ZSTD_DESCRIPTOR_END:
            return 0
        self._has_checksum, size = zstd_header(self._held[ZSTD_DESCRIPTOR_END - 1])
        return size


def zstd_header(descriptor: int) -> tuple[bool, int]:
    """Returns whether a frame of zstd ends with a checksum, and the size of its header."""
    is_single, code = bool(descriptor & 0x20), descriptor >> 6
    content_bytes = 1 if is_single and not code else (0, 2, 4, 8)[code]
    size = ZSTD_DESCRIPTOR_END + (not is_single) + (0, 1, 2, 4)[descriptor & 3] + content_bytes
    return bool(descriptor & 4), size


def zstd_block(header: bytes) -> tuple[bool, int]:
    """Returns whether a block of zstd is the last of its frame, and its size behind the header."""
    fields = int.from_bytes(header, "little")
    return bool(fields & 1), 1 if fields >> 1 & 3 == 1 else fields >> 3


def _lz4() -> _Decoder:
    from lz4.frame import LZ4FrameDecompressor

    return _Pull(LZ4FrameDecompressor())


def _xz() -> _Decoder:
    import lzma

    return _Pull(lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=LARGEST_DICTIONARY_BYTES))


def _bzip2() -> _Decoder:
    import bz2

    return _Pull(bz2.BZ2Decompressor())


_DECODERS: dict[str, Callable[[], _Decoder]] = {GZIP: _Gzip, ZSTD: _Zstd, LZ4: _lz4, XZ: _xz, BZIP2: _bzip2}


def unpacked(extent: Extent) -> Iterator[bytes]:
    """Yields the decompressed bytes of all frames. Raises UnpackError after all bytes before the damage; OSError."""
    return Frames(extent).read()


def frame(name: str, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the decompressed bytes of one frame in pieces of packed bytes. Raises UnpackError without a position."""
    decoder = _DECODERS[name]()
    for piece in pieces:
        try:
            yield from decoder.decode(piece)
        except library_errors() as error:
            raise UnpackError(0, f"{name}: {reason(error)}") from error
        if decoder.eof:
            return


def unpacked_bytes(head: bytes) -> Iterator[bytes]:
    """As `unpacked`, for bytes in memory."""
    return Frames(_Bytes(head)).read()


class _Bytes(Extent):
    """Bytes in memory."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        super().__init__(-1, 0, len(data))
        self._data = data

    def pread(self, length: int, position: int) -> bytes:
        return self._data[position : position + length]

    def current_size(self) -> int:
        return len(self._data)


class Frames:
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

    def read(self) -> Iterator[bytes]:
        for name in self.names():
            yield from self.frame(name)

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
        """Yields the decompressed bytes of the frame at the position. Raises UnpackError, OSError."""
        decoder = _DECODERS[name]()
        data, self._held = self._held, b""
        while True:
            try:
                for piece in decoder.decode(data):
                    if piece:
                        yield piece
            except library_errors() as error:
                raise UnpackError(self._position - len(data), f"{name}: {reason(error)}") from error
            if decoder.eof:
                self._held = decoder.unused_data
                return
            data = self._read()
            if not data:
                raise self.cut(name)

    def cut(self, name: str) -> UnpackError:
        """Returns the error of a frame that the file's end cuts."""
        return UnpackError(self._position, f"{name}: it ends in the middle of a compressed frame")


def library_errors() -> tuple[type[Exception], ...]:
    import lzma

    import zstandard

    return (zlib.error, OSError, EOFError, lzma.LZMAError, ValueError, RuntimeError, zstandard.ZstdError)


def reason(error: Exception) -> str:
    return str(error) or type(error).__name__
