"""Opens the files of a directory that somebody else has written: a FIFO is not waited for, a device not touched, a link
not followed. What the user has named is opened whatever it is."""

import errno
import os
import stat
from contextlib import suppress
from io import BufferedReader

_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


LINK = "a symbolic link, which is not followed in a directory: name the file itself"

_pipes: set[str] = set()
_links: set[str] = set()


def expect_named(path: str) -> None:
    """Lets a command wait for a FIFO, and follow a link, that the user has named; in a directory it does neither."""
    with suppress(OSError):
        if stat.S_ISLNK(os.lstat(path).st_mode):
            _links.add(path)
        if stat.S_ISFIFO(os.stat(path).st_mode):
            _pipes.add(path)


def is_expected_pipe(path: str) -> bool:
    return path in _pipes


def open_descriptor(path: str) -> int:
    """Of a regular file, no link to one unless the user has named it. Raises OSError, also for anything else."""
    is_followed = path in _links
    status = os.stat(path, follow_symlinks=is_followed)
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, LINK, path)
    if not stat.S_ISREG(status.st_mode):  # to open a device may do something
        raise OSError(errno.EINVAL, "not a regular file", path)
    descriptor = os.open(path, _FLAGS if is_followed else _FLAGS | _NOFOLLOW)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return descriptor


def open_at_once(path: str) -> int:
    """Descriptor of a file, opened without a look at it before: the caller refuses what is no regular file. A link is
    followed where `open_descriptor` follows it. Raises OSError."""
    try:
        return os.open(path, _FLAGS if path in _links else _FLAGS | _NOFOLLOW)
    except OSError as error:
        if error.errno == errno.ELOOP and os.path.islink(path):
            raise OSError(errno.ELOOP, LINK, path) from error
        raise


def open_regular(path: str) -> BufferedReader:
    """A regular file, as `open_descriptor` opens it. Raises OSError."""
    return os.fdopen(open_descriptor(path), "rb")


def read_regular(path: str, most: int) -> bytes:
    """The bytes of a small file. Raises OSError, EFBIG where there are more than ``most``."""
    with open_regular(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"has more than {most} bytes", path)
    return content
