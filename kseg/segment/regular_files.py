"""Opens the files of a directory that somebody else has written: a FIFO is not waited for, a device not touched."""

import errno
import os
import stat
from contextlib import suppress
from io import BufferedReader

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


_pipes: set[str] = set()


def expect_pipe(path: str) -> None:
    """Lets a command wait for a FIFO that the user has named; in a directory none is waited for."""
    with suppress(OSError):
        if stat.S_ISFIFO(os.stat(path).st_mode):
            _pipes.add(path)


def is_expected_pipe(path: str) -> bool:
    return path in _pipes


def open_descriptor(path: str) -> int:
    """Of a regular file, or one that a link leads to. Raises OSError, also for anything else."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # to open a device may do something
        raise OSError(errno.EINVAL, "not a regular file", path)
    descriptor = os.open(path, _FLAGS)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return descriptor


def open_regular(path: str) -> BufferedReader:
    """A regular file. Raises OSError, also for anything else."""
    return os.fdopen(open_descriptor(path), "rb")


def read_regular(path: str, most: int) -> bytes:
    """The bytes of a small file. Raises OSError, EFBIG where there are more than ``most``."""
    with open_regular(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"has more than {most} bytes", path)
    return content
