"""Addresses of liblz4 functions, which the kernel calls directly to compress.

They are the functions that the lz4 package calls, so the output is identical. The kernel decompresses with its own
code.
"""

from functools import cache
from typing import TYPE_CHECKING

from kseg.formats.libraries import addresses_in

if TYPE_CHECKING:
    from kseg.kernel.packing import Packer

_FRAME_VERSION = 100
"""Version of liblz4's frame interface, unchanged since 1.0."""


def packer(level: int) -> "Packer | None":
    """Returns the kernel's compressor for a liblz4 level; None if the functions are not available."""
    from kseg.kernel.packing import LZ4, Packer

    found = _addresses()
    made = None if found is None else Packer(LZ4, level, found)
    return made if made is not None and made.is_usable else None


@cache
def _addresses() -> tuple[int, ...] | None:
    from lz4.frame import _frame

    return addresses_in(
        _frame.__file__,
        ("LZ4F_compressFrame", "LZ4F_isError"),
        lambda library: bool(library.LZ4F_getVersion() == _FRAME_VERSION),
    )
