"""Functions of liblz4 and libzstd that the kernel calls directly, by their addresses.

liblz4's are those that the lz4 package calls: what the kernel decompresses and refuses is identical. So are
libzstd's if zstandard brings its own library; else the system's is used. All functions are part of libzstd's stable
interface. Versions treat a malformed stream without checksum differently. Only data with a valid CRC is therefore
decompressed this way, and a rejected stream is decompressed again by zstandard.
"""

import sys
from collections.abc import Callable, Iterator
from typing import Any

from kseg.kernel.codecs.expand import ExpansionBuffer
from kseg.kernel.layout.headers import LZ4
from kseg.limits import LARGEST_BUFFER_BYTES

_LZ4_FRAMES = 100
"""Version of liblz4's frame interface, unchanged since 1.0."""
MIN_ZSTD_VERSION = 10505
"""zstd 1.5.5, since which the reserved bits of blocks are checked, as in Kafka's version."""

LZ4_FUNCTIONS = (
    "LZ4F_createDecompressionContext",
    "LZ4F_freeDecompressionContext",
    "LZ4F_getFrameInfo",
    "LZ4F_decompress",
    "LZ4F_isError",
)
ZSTD_FUNCTIONS = (
    "ZSTD_createDCtx",
    "ZSTD_freeDCtx",
    "ZSTD_decompressDCtx",
    "ZSTD_findFrameCompressedSize",
    "ZSTD_isError",
    "ZSTD_getErrorCode",
)
"""In the order of kernel/native/codecs.h."""

_kept: list[Any] = []
"""Keeps libraries loaded so that their addresses stay valid."""


def expansion_buffer(max_bytes: int) -> ExpansionBuffer:
    """Allocates a reusable decompression buffer for the records of one batch, at most ``max_bytes``."""
    return ExpansionBuffer(min(max_bytes, LARGEST_BUFFER_BYTES), addresses)


def addresses(codec: int) -> tuple[int, ...] | None:
    """Returns the addresses of a codec's functions, None if its library is not available."""
    if codec == LZ4:
        from lz4.frame import _frame

        return addresses_in(_frame.__file__, LZ4_FUNCTIONS, lambda found: bool(found.LZ4F_getVersion() == _LZ4_FRAMES))
    return next(filter(None, map(addresses_in_zstd, zstd_candidates())), None)


def zstd_candidates() -> Iterator[str]:
    """Yields paths of libzstd: that of zstandard, then the system's."""
    from importlib.util import find_spec
    from pathlib import Path

    package = find_spec("zstandard")
    for folder in (package.submodule_search_locations or []) if package else []:
        yield from map(str, Path(folder).glob("_cffi*.so"))
    yield "libzstd.1.dylib" if sys.platform == "darwin" else "libzstd.so.1"


def addresses_in_zstd(path: str) -> tuple[int, ...] | None:
    return addresses_in(path, ZSTD_FUNCTIONS, lambda library: bool(library.ZSTD_versionNumber() >= MIN_ZSTD_VERSION))


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
