"""Finds holes of sparse files: ranges that were never written and read as zeros."""

import errno
import os
from typing import Final

from kseg.stores.extent import Extent

NEAR_BYTES: Final = 1 << 20


def end_of_data(extent: Extent, low: int, size: int) -> int:
    """Returns the start of the hole at the end of a file, or up to NEAR_BYTES after it; at least ``low``.

    A part of a file counts as having no hole.
    """
    if extent.size is not None:
        return size
    high = size
    if _is_hole(extent.descriptor, low):
        return low
    while high - low > NEAR_BYTES:
        middle = (low + high) // 2
        low, high = (low, middle) if _is_hole(extent.descriptor, middle) else (middle, high)
    return high


def next_data(extent: Extent, start: int, end: int) -> int:
    """Returns the position of the first written byte from ``start`` on, at most ``end``; ``start`` if the file system
    cannot answer."""
    if not hasattr(os, "SEEK_DATA") or extent.descriptor < 0:
        return start
    try:
        return min(os.lseek(extent.descriptor, extent.start + start, os.SEEK_DATA) - extent.start, end)
    except OSError as error:
        return end if error.errno == errno.ENXIO else start


def _is_hole(descriptor: int, start: int) -> bool:
    """Whether nothing was ever written from ``start`` to the end; False if the file system cannot answer."""
    if not hasattr(os, "SEEK_DATA"):
        return False
    try:
        os.lseek(descriptor, start, os.SEEK_DATA)
    except OSError as error:
        return error.errno == errno.ENXIO
    return False
