"""Addresses of libzstd functions, which the kernel calls directly.

To decompress, the system's library is tried first: distributions build it with assembly that the zstandard wheels lack
(10 % faster). Then the library inside zstandard is tried, on which kseg depends anyway. To compress, the order is
reversed, because the output differs by version. All functions are part of libzstd's stable interface. Versions treat a
malformed stream without checksum differently. Only data with a valid CRC is therefore decompressed this way, and a
rejected stream is decompressed again by zstandard.
"""

import sys
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from kseg.formats.libraries import addresses_in

if TYPE_CHECKING:
    from kseg.kernel.codecs.packing import Packer

MIN_VERSION = 10400
"""zstd 1.4.0, in which ZSTD_findFrameCompressedSize and ZSTD_compress2 became stable."""

_READING = (
    "ZSTD_createDCtx",
    "ZSTD_freeDCtx",
    "ZSTD_decompressDCtx",
    "ZSTD_findFrameCompressedSize",
    "ZSTD_isError",
    "ZSTD_getErrorCode",
)
_WRITING = ("ZSTD_createCCtx", "ZSTD_freeCCtx", "ZSTD_CCtx_setParameter", "ZSTD_compress2", "ZSTD_isError")


def packer(level: int) -> "Packer | None":
    """Returns the kernel's compressor, None if libzstd is not available.

    The output is that of zstandard, if zstandard brings its own libzstd.
    """
    from kseg.kernel.codecs.packing import ZSTD, Packer

    found = _addresses(_WRITING, of_zstandard_first=True)
    made = None if found is None else Packer(ZSTD, level, found)
    return made if made is not None and made.is_usable else None


def addresses() -> tuple[int, ...] | None:
    """Returns the addresses for decompression, valid for the life of the process; None if there is no library."""
    return _addresses(_READING)


@cache
def _addresses(names: tuple[str, ...], of_zstandard_first: bool = False) -> tuple[int, ...] | None:
    candidates = list(_candidates())
    for path in reversed(candidates) if of_zstandard_first else candidates:
        found = _addresses_in(path, names)
        if found is not None:
            return found
    return None


def _candidates() -> Iterator[str]:
    yield "libzstd.1.dylib" if sys.platform == "darwin" else "libzstd.so.1"
    from importlib.util import find_spec
    from pathlib import Path

    package = find_spec("zstandard")
    for folder in (package.submodule_search_locations or []) if package else []:
        yield from map(str, Path(folder).glob("_cffi*.so"))


def _addresses_in(path: str, names: tuple[str, ...]) -> tuple[int, ...] | None:
    return addresses_in(path, names, lambda library: bool(library.ZSTD_versionNumber() >= MIN_VERSION))
