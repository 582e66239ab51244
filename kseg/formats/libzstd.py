"""Where the functions of libzstd are in memory, for the kernel, which calls them with no Python between.

To decompress, the system's library is asked first, since distributions build it with the assembly that the wheels of
zstandard leave out (a tenth faster); then the one inside zstandard, which kseg depends on anyway. To compress it is the
other way round: what comes out differs by version. The functions are those that libzstd has promised to keep as they
are. What versions make of a bad stream differs where it has no checksum; so bytes go this way only where the CRC around
them is right, and a stream that is refused is judged by zstandard.
"""

import sys
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from kseg.formats.libraries import addresses_in
from kseg.kernel.expand import Room
from kseg.limits import LARGEST_ROOM_BYTES

if TYPE_CHECKING:
    from kseg.kernel.packing import Packer

LEAST_VERSION = 10400
"""zstd 1.4.0: ZSTD_findFrameCompressedSize and ZSTD_compress2 became stable."""

_READING = (
    "ZSTD_createDCtx",
    "ZSTD_freeDCtx",
    "ZSTD_decompressDCtx",
    "ZSTD_findFrameCompressedSize",
    "ZSTD_isError",
    "ZSTD_getErrorCode",
)
_WRITING = ("ZSTD_createCCtx", "ZSTD_freeCCtx", "ZSTD_CCtx_setParameter", "ZSTD_compress2", "ZSTD_isError")


def room(max_bytes: int) -> Room:
    """Room for the records of one batch after the other, of at most ``max_bytes`` each."""
    return Room(min(max_bytes, LARGEST_ROOM_BYTES), addresses)


def packer(level: int) -> "Packer | None":
    """What the kernel compresses with; None where it cannot. The bytes are those of zstandard, where that brings a
    libzstd of its own."""
    from kseg.kernel.packing import ZSTD, Packer

    found = _addresses(_WRITING, of_zstandard_first=True)
    made = None if found is None else Packer(ZSTD, level, found)
    return made if made is not None and made.is_usable else None


def addresses() -> tuple[int, ...] | None:
    """Addresses of the functions to decompress with, good as long as the process lives; None where no library is to be
    had."""
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
    return addresses_in(path, names, lambda library: bool(library.ZSTD_versionNumber() >= LEAST_VERSION))
