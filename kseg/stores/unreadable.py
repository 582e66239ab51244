"""Reads around bytes that a failing disk cannot read, and lists their ranges.

A disk fails by sectors, Linux by pages of its cache: a failed read is repeated page by page. A page counts as
unreadable after two failed reads.
"""

import errno
from bisect import bisect_right
from collections.abc import Iterator
from operator import itemgetter

from kseg.errors import UnreadableError
from kseg.stores.extent import Extent, next_data

PAGE_BYTES = 4096
_PIECE_BYTES = 1 << 20
_RANGES_NAMED = 4

_DISK_ERRORS = {
    getattr(errno, name)
    for name in ("EIO", "EBADMSG", "EUCLEAN", "ENODATA", "EREMOTEIO", "EILSEQ", "ENOLINK", "ETIMEDOUT")
    if hasattr(errno, name)
}
"""Errors of file systems and block devices for lost bytes (Linux: blk_errors; EBADMSG and EUCLEAN for a failed checksum
of their own)."""

UnreadableRange = tuple[int, int]
"""First byte, and the byte after the last."""


def is_disk_error(error: OSError) -> bool:
    """Whether the error means lost bytes, and not, for example, a missing permission."""
    return error.errno in _DISK_ERRORS


def unreadable_ranges(extent: Extent, size: int) -> list[UnreadableRange]:
    """Returns the unreadable ranges of the first ``size`` bytes, in order. Reads all but holes.

    Raises OSError for any failure other than the disk's.
    """
    found: list[UnreadableRange] = []
    start = 0
    while start < size:
        data = next_data(extent, start, size)
        if data - start >= _PIECE_BYTES:
            start = data // PAGE_BYTES * PAGE_BYTES
            continue
        _note(found, _read_piece(extent, start, min(start + _PIECE_BYTES, size))[1])
        start += _PIECE_BYTES
    return found


def unreadable_error(path: str, ranges: list[UnreadableRange]) -> UnreadableError:
    """Returns an error that lists the ranges and names the commands that help."""
    return UnreadableError(
        f"{path}: {named(ranges)}; kseg recover --mode salvage keeps what can be read, --from-replica fills the rest"
    )


def read_around(extent: Extent, start: int, stop: int) -> bytes:
    """Returns the bytes of a range, with zeros for unreadable or truncated bytes. Raises OSError as
    `unreadable_ranges`."""
    pieces = []
    for at in range(start, stop, _PIECE_BYTES):
        end = min(at + _PIECE_BYTES, stop)
        pieces.append(_read_piece(extent, at, end)[0].ljust(end - at, b"\0"))
    return b"".join(pieces)


def overlapping(ranges: list[UnreadableRange], start: int, stop: int) -> list[UnreadableRange]:
    """Returns the parts of the sorted ranges that are in ``[start, stop)``."""
    found = []
    for i in range(bisect_right(ranges, start, key=itemgetter(1)), len(ranges)):
        first, behind = ranges[i]
        if first >= stop:
            break
        found.append((max(first, start), min(behind, stop)))
    return found


def read_all(extent: Extent, start: int, stop: int) -> bytes:
    """Returns the bytes of a range, fewer only at the end of the file. Raises OSError.

    A short read is continued until the end of the file or an error.
    """
    found = extent.pread(stop - start, start) if start < stop else b""
    if not found or len(found) == stop - start:
        return found  # without a copy
    pieces = bytearray(found)
    while len(pieces) < stop - start and (piece := extent.pread(stop - start - len(pieces), start + len(pieces))):
        pieces += piece
    return bytes(pieces)


def named(ranges: list[UnreadableRange]) -> str:
    """Returns a sentence about unreadable ranges."""
    count = sum(behind - first for first, behind in ranges)
    places = ", ".join(f"{first} to {behind - 1}" for first, behind in ranges[:_RANGES_NAMED])
    more = f" and {len(ranges) - _RANGES_NAMED} more ranges" if len(ranges) > _RANGES_NAMED else ""
    return f"{count} bytes could not be read (bytes {places}{more})"


def _read_piece(extent: Extent, start: int, stop: int) -> tuple[bytes, list[UnreadableRange]]:
    """Returns the bytes up to the end of the file, and the unreadable ranges, which are zeros."""
    try:
        return read_all(extent, start, stop), []
    except OSError as error:
        if not is_disk_error(error):
            raise
    data, lost = bytearray(), list[UnreadableRange]()
    for first, behind in _pages(start, stop):
        page = _read_twice(extent, first, behind)
        if page is None:
            _note(lost, [(first, behind)])
            page = bytes(behind - first)
        data += page
        if len(page) < behind - first:
            break
    return bytes(data), lost


def _pages(start: int, stop: int) -> Iterator[UnreadableRange]:
    while start < stop:
        behind = min(start - start % PAGE_BYTES + PAGE_BYTES, stop)
        yield start, behind
        start = behind


def _read_twice(extent: Extent, start: int, stop: int) -> bytes | None:
    for _ in range(2):
        try:
            return read_all(extent, start, stop)
        except OSError as error:
            if not is_disk_error(error):
                raise
    return None


def _note(found: list[UnreadableRange], more: list[UnreadableRange]) -> None:
    """Appends ranges to the found ones, merging adjacent ones."""
    for first, behind in more:
        if found and found[-1][1] == first:
            found[-1] = (found[-1][0], behind)
        else:
            found.append((first, behind))
