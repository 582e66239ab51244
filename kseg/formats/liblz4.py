"""Where the functions of liblz4 are in memory, for the kernel, which calls them with no Python between.

They are those that the package lz4 calls, so that the bytes are its own. To decompress, the kernel has code of its own.
"""

from functools import cache
from typing import TYPE_CHECKING

from kseg.formats.libraries import addresses_in

if TYPE_CHECKING:
    from kseg.kernel.packing import Packer

_FRAME_VERSION = 100
"""Of liblz4's interface for frames, ever since 1.0."""


def packer(level: int) -> "Packer | None":
    """What the kernel compresses with, at a level of liblz4; None where it cannot."""
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
