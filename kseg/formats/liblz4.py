"""Where the functions of liblz4 are in memory, for the kernel, which calls them with no Python between.

They are those that the package lz4 calls, so that the bytes are its own. To decompress, the kernel has code of its own.
"""

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kseg.kernel.packing import Packer

_FRAME_VERSION = 100
"""Of liblz4's interface for frames, ever since 1.0."""
_kept: list[Any] = []


def packer(level: int) -> "Packer | None":
    """What the kernel compresses with, at a level of liblz4; None where it cannot."""
    from kseg.kernel.packing import LZ4, Packer

    found = _addresses()
    made = None if found is None else Packer(LZ4, level, found)
    return made if made is not None and made.is_usable else None


@cache
def _addresses() -> tuple[int, ...] | None:
    import ctypes

    import lz4.frame._frame

    try:
        library = ctypes.CDLL(lz4.frame._frame.__file__)
        if library.LZ4F_getVersion() != _FRAME_VERSION:
            return None
        functions = (library.LZ4F_compressFrame, library.LZ4F_isError)
    except (OSError, AttributeError):  # a library that hides its functions
        return None
    _kept.append(library)
    return tuple(ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions)
