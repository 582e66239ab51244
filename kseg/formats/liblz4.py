"""Addresses of liblz4 functions, which the kernel calls directly.

They are the functions that the lz4 package calls: what the kernel decompresses, refuses and writes is identical.
"""

from functools import cache
from typing import TYPE_CHECKING

from kseg.formats.libraries import addresses_in

if TYPE_CHECKING:
    from kseg.kernel.codecs.packing import Packer

_FRAME_VERSION = 100
"""Version of liblz4's frame interface, unchanged since 1.0."""

_READING = (
    "LZ4F_createDecompressionContext",
    "LZ4F_freeDecompressionContext",
    "LZ4F_getFrameInfo",
    "LZ4F_decompress",
    "LZ4F_isError",
)
_WRITING = ("LZ4F_compressFrame", "LZ4F_isError")


def packer(level: int) -> "Packer | None":
    """Returns the kernel's compressor for a liblz4 level; None if the functions are not available."""
    from kseg.kernel.codecs.packing import LZ4, Packer

    found = _addresses(_WRITING)
    made = None if found is None else Packer(LZ4, level, found)
    return made if made is not None and made.is_usable else None


def addresses() -> tuple[int, ...] | None:
    """Returns the addresses for decompression, valid for the life of the process; None if the package hides them."""
    return _addresses(_READING)


@cache
def _addresses(names: tuple[str, ...]) -> tuple[int, ...] | None:
    from lz4.frame import _frame

    return addresses_in(_frame.__file__, names, lambda library: bool(library.LZ4F_getVersion() == _FRAME_VERSION))
