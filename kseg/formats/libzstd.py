"""Where the functions of libzstd are in memory, for the kernel, which calls them with no Python between.

The system's library is asked first, since distributions build it with the assembly that the wheels of zstandard leave
out (a tenth faster); then the one inside zstandard, which kseg depends on anyway. The functions are those that
libzstd has promised to keep as they are. What versions make of a bad stream differs where it has no checksum; so bytes
go this way only where the CRC around them is right, and a stream that is refused is judged by zstandard.
"""

import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

from kseg.kernel.expand import Room
from kseg.limits import LARGEST_ROOM_BYTES

LEAST_VERSION = 10400
"""zstd 1.4.0: ZSTD_findFrameCompressedSize became stable."""

_FUNCTIONS = (
    "ZSTD_createDCtx",
    "ZSTD_freeDCtx",
    "ZSTD_decompressDCtx",
    "ZSTD_findFrameCompressedSize",
    "ZSTD_isError",
    "ZSTD_getErrorCode",
)
_kept: list[Any] = []


def room(max_bytes: int) -> Room:
    """Room for the records of one batch after the other, of at most ``max_bytes`` each."""
    return Room(min(max_bytes, LARGEST_ROOM_BYTES), addresses)


@cache
def addresses() -> tuple[int, ...] | None:
    """Addresses of _FUNCTIONS, good as long as the process lives; None where no library is to be had."""
    for path in _candidates():
        found = _addresses_in(path)
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


def _addresses_in(path: str) -> tuple[int, ...] | None:
    import ctypes

    try:
        library = ctypes.CDLL(path)
        if library.ZSTD_versionNumber() < LEAST_VERSION:
            return None
        found = tuple(ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in _FUNCTIONS)
    except (OSError, AttributeError):  # no such library, or one that hides its functions
        return None
    _kept.append(library)
    return found if all(found) else None
