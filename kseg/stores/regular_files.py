"""Opens files in directories of other users: never waits for a FIFO, opens a device or follows a link.

A FIFO or link that the user has named is opened.
"""

import errno
import os
import stat
from contextlib import closing, suppress
from io import BufferedReader
from typing import BinaryIO

from kseg.stores import trees
from kseg.stores.extent import Extent, ExtentStream

_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)

LINK = "a symbolic link, which is not followed in a directory: name the file itself"

_pipes: set[str] = set()
_links: set[str] = set()
_others: set[str] = set()


def expect_named(path: str) -> None:
    """Allows waiting for a FIFO and following a link that the user has named; those in directories are rejected."""
    with suppress(OSError):
        if stat.S_ISLNK(os.lstat(path).st_mode):
            _links.add(path)
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            (_pipes if stat.S_ISFIFO(mode) else _others).add(path)


def is_expected_pipe(path: str) -> bool:
    return path in _pipes


def open_with_status(path: str) -> tuple[int, os.stat_result]:
    """Returns a descriptor of a regular file, and its status; follows a link only if the user has named it.

    Raises OSError, also for any other file.
    """
    if path in _others:  # merely opening a device may have an effect
        raise OSError(errno.EINVAL, "not a regular file", path)
    is_followed = path in _links
    if not is_followed and not _NOFOLLOW and os.path.islink(path):  # on Windows
        raise OSError(errno.ELOOP, LINK, path)
    try:
        descriptor = os.open(path, _FLAGS if is_followed else _FLAGS | _NOFOLLOW)
    except OSError as error:
        if error.errno == errno.ELOOP and not is_followed and os.path.islink(path):
            raise OSError(errno.ELOOP, LINK, path) from error
        raise
    return descriptor, regular_status(descriptor, path, "not a regular file")


def regular_status(descriptor: int, path: str, refusal: str) -> os.stat_result:
    """Returns the status of an open file. Closes it and raises OSError if it is no regular one."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, refusal, path)
    return status


def open_extent(path: str) -> Extent:
    """Opens a file of a tree, or a regular file as `open_with_status` does. Raises OSError."""
    place = trees.find(path)
    return Extent(open_with_status(path)[0]) if place is None else place.open()


def first_bytes(path: str, max_bytes: int) -> bytes:
    """Returns at most ``max_bytes`` bytes from the start of a file, opened as by `open_extent`. Raises OSError."""
    with closing(open_extent(path)) as extent:
        return extent.pread(max_bytes, 0)


def open_regular(path: str) -> BufferedReader:
    """Opens a regular file as `open_extent` does. Raises OSError."""
    place = trees.find(path)
    return os.fdopen(open_with_status(path)[0], "rb") if place is None else BufferedReader(ExtentStream(place.open()))


def read_regular(path: str, max_bytes: int) -> bytes:
    """Returns the bytes of a small file. Raises OSError, EFBIG if it has more than ``max_bytes`` bytes."""
    with open_regular(path) as file:
        return read_limited(file, path, max_bytes)


def read_limited(file: BinaryIO, path: str, max_bytes: int) -> bytes:
    """Returns the bytes of an open file. Raises OSError with EFBIG if it has more than ``max_bytes`` bytes."""
    content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(errno.EFBIG, f"has more than {max_bytes} bytes", path)
    return content
