"""Functions of liblz4 and libzstd that the kernel calls directly, by their addresses.

liblz4's are those that the lz4 package calls: what the kernel decompresses, refuses and writes is identical.

To decompress zstd, the system's library is tried first: distributions build it with assembly that the zstandard wheels
lack (10 % faster). Then the library inside zstandard is tried, on which kseg depends anyway. To compress, the order is
reversed, because the output differs by version. All functions are part of libzstd's stable interface. Versions treat a
malformed stream without checksum differently. Only data with a valid CRC is therefore decompressed this way, and a
rejected stream is decompressed again by zstandard.
"""

import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from kseg.kernel.codecs.expand import ExpansionBuffer
from kseg.kernel.layout.headers import LZ4, ZSTD
from kseg.limits import LARGEST_BUFFER_BYTES

if TYPE_CHECKING:
    from kseg.kernel.codecs.recoding import Packer

LZ4_FRAME_VERSION = 100
"""Version of liblz4's frame interface, unchanged since 1.0."""
MIN_ZSTD_VERSION = 10400
"""zstd 1.4.0, in which ZSTD_findFrameCompressedSize and ZSTD_compress2 became stable."""

LZ4_READING = (
    "LZ4F_createDecompressionContext",
    "LZ4F_freeDecompressionContext",
    "LZ4F_getFrameInfo",
    "LZ4F_decompress",
    "LZ4F_isError",
)
LZ4_WRITING = ("LZ4F_compressFrame", "LZ4F_isError")
ZSTD_READING = (
    "ZSTD_createDCtx",
    "ZSTD_freeDCtx",
    "ZSTD_decompressDCtx",
    "ZSTD_findFrameCompressedSize",
    "ZSTD_isError",
    "ZSTD_getErrorCode",
)
ZSTD_WRITING = ("ZSTD_createCCtx", "ZSTD_freeCCtx", "ZSTD_CCtx_setParameter", "ZSTD_compress2", "ZSTD_isError")

_kept: list[Any] = []
"""Keeps libraries loaded so that their addresses stay valid."""


def expansion_buffer(max_bytes: int) -> ExpansionBuffer:
    """Allocates a reusable decompression buffer for the records of one batch, at most ``max_bytes``."""
    return ExpansionBuffer(min(max_bytes, LARGEST_BUFFER_BYTES), addresses)


def addresses(codec: int) -> tuple[int, ...] | None:
    """Returns the addresses of the functions that decompress a codec, None if its library is not available."""
    return lz4_addresses(LZ4_READING) if codec == LZ4 else zstd_addresses(ZSTD_READING)


def lz4_packer(level: int) -> "Packer | None":
    """Returns the kernel's compressor for a liblz4 level; None if the functions are not available."""
    return _packer(LZ4, level, lz4_addresses(LZ4_WRITING))


def zstd_packer(level: int) -> "Packer | None":
    """Returns the kernel's compressor, None if libzstd is not available.

    The output is that of zstandard, if zstandard brings its own libzstd.
    """
    return _packer(ZSTD, level, zstd_addresses(ZSTD_WRITING, of_zstandard_first=True))


def _packer(codec: int, level: int, functions: tuple[int, ...] | None) -> "Packer | None":
    from kseg.kernel.codecs.recoding import Packer

    made = None if functions is None else Packer(codec, level, functions)
    return made if made is not None and made.is_usable else None


@cache
def lz4_addresses(names: tuple[str, ...]) -> tuple[int, ...] | None:
    from lz4.frame import _frame

    return addresses_in(_frame.__file__, names, lambda library: bool(library.LZ4F_getVersion() == LZ4_FRAME_VERSION))


@cache
def zstd_addresses(names: tuple[str, ...], of_zstandard_first: bool = False) -> tuple[int, ...] | None:
    candidates = list(zstd_candidates())
    for path in reversed(candidates) if of_zstandard_first else candidates:
        found = addresses_in_zstd(path, names)
        if found is not None:
            return found
    return None


def zstd_candidates() -> Iterator[str]:
    """Yields paths of libzstd: the system's, then that of zstandard."""
    yield "libzstd.1.dylib" if sys.platform == "darwin" else "libzstd.so.1"
    from importlib.util import find_spec
    from pathlib import Path

    package = find_spec("zstandard")
    for folder in (package.submodule_search_locations or []) if package else []:
        yield from map(str, Path(folder).glob("_cffi*.so"))


def addresses_in_zstd(path: str, names: tuple[str, ...]) -> tuple[int, ...] | None:
    return addresses_in(path, names, lambda library: bool(library.ZSTD_versionNumber() >= MIN_ZSTD_VERSION))


def addresses_in(path: str, names: tuple[str, ...], is_right: Callable[[Any], bool]) -> tuple[int, ...] | None:
    """Returns addresses, valid for the life of the process; ``is_right`` checks the ctypes library.

    None if the library does not exist or does not export the functions.
    """
    import ctypes

    try:
        library = ctypes.CDLL(path)
        if not is_right(library):
            return None
        found = tuple(ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in names)
    except (OSError, AttributeError):
        return None
    _kept.append(library)
    return found if all(found) else None
