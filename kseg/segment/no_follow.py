"""Opens files and directories without following a symbolic link in any part of their paths.

A log directory belongs to another user than the one who repairs it, often root: a name in it may be swapped for a link
at any time. So each part of a path is opened relative to the directory before it, and a link ends the walk. Paths come
from `resolved`, once, where the user names them; what lies below is never resolved again.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from kseg.errors import KsegError

_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_DIRECTORY = getattr(os, "O_DIRECTORY", 0)
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)
_SEARCH = getattr(os, "O_PATH", os.O_RDONLY) | _DIRECTORY | _NOFOLLOW | _CLOEXEC
"""Opens a directory to look names up in it, which takes no right to list it."""
_OPEN_FILES = "/proc/self/fd/"
"""Where Linux tells what is open: a directory by its real path."""


def resolved(path: str) -> str:
    """A path that the user names, as it is if no link leads there, else the real one."""
    real = os.path.realpath(path)
    return path if os.path.abspath(path) == real else real


def open_directory(path: str, is_read: bool = False) -> int:
    """Descriptor of a directory, to look names up in it; ``is_read``: to list or sync it. Raises OSError."""
    path = os.path.abspath(path)
    flags = os.O_RDONLY | _DIRECTORY | _NOFOLLOW | _CLOEXEC if is_read else _SEARCH
    descriptor = _opened_at_once(path, flags)
    return _opened_part_by_part(path, flags) if descriptor < 0 else descriptor


def _opened_at_once(path: str, flags: int) -> int:
    """The descriptor where the system tells that no link led there, else -1: a tenth of what the parts cost."""
    try:
        descriptor = os.open(path, flags)
    except OSError:
        return -1
    try:
        if os.readlink(f"{_OPEN_FILES}{descriptor}") == path:
            return descriptor
    except OSError:
        os.close(descriptor)
        return -1
    os.close(descriptor)
    return -1


def _opened_part_by_part(path: str, flags: int) -> int:
    parts = [part for part in path.split(os.sep) if part]
    at = os.open(os.sep, _SEARCH if parts else flags)
    for i, part in enumerate(parts):
        try:
            inner = os.open(part, flags if i == len(parts) - 1 else _SEARCH, dir_fd=at)
        except OSError as error:
            raise _named(error, os.sep + os.path.join(*parts[: i + 1])) from error
        finally:
            os.close(at)
        at = inner
    return at


@contextmanager
def parent_of(path: str) -> Iterator[tuple[int, str]]:
    """Descriptor of the directory that a path lies in, and its name there. Raises OSError."""
    folder, name = os.path.split(os.path.abspath(path))
    at = open_directory(folder)
    try:
        yield at, name
    except OSError as error:
        raise _named(error, path) from error
    finally:
        os.close(at)


def _named(error: OSError, path: str) -> OSError:
    """The error with the whole path; links are told as what they are."""
    if isinstance(error.filename, str) and os.path.isabs(error.filename):
        return error
    if error.errno == errno.ELOOP or (error.errno == errno.ENOTDIR and os.path.islink(path)):
        return OSError(errno.ELOOP, "is a symbolic link, which kseg does not follow here", path)
    return type(error)(error.errno, error.strerror or str(error), path)


def status_of(path: str) -> os.stat_result:
    """Of the file itself, or the link. Raises OSError."""
    with parent_of(path) as (at, name):
        return os.stat(name, dir_fd=at, follow_symlinks=False)


def names_in(path: str) -> list[str]:
    """The names in a directory, in no order. Raises OSError."""
    at = open_directory(path, is_read=True)
    try:
        return os.listdir(at)
    finally:
        os.close(at)


def is_directory(path: str) -> bool:
    """Whether a directory itself, no link to one, lies there."""
    try:
        return stat.S_ISDIR(status_of(path).st_mode)
    except OSError:
        return False


def open_file(path: str, flags: int = os.O_RDONLY) -> int:
    """Descriptor of a regular file. Raises OSError, also where a link or no regular file lies there; never waits."""
    with parent_of(path) as (at, name):
        found = os.stat(name, dir_fd=at, follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode) and not stat.S_ISLNK(found.st_mode):
            raise OSError(errno.EINVAL, "is no regular file", path)  # even to open a device may do something
        descriptor = os.open(name, flags | _NOFOLLOW | _NONBLOCK | _CLOEXEC, dir_fd=at)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is no regular file", path)
    return descriptor


def create_file(path: str, mode: int = 0o600) -> int:
    """Descriptor of a new, empty file, to be written. Raises FileExistsError where something is there, else OSError."""
    with parent_of(path) as (at, name):
        return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW | _CLOEXEC, mode, dir_fd=at)


def read_file(path: str, most: int) -> tuple[bytes, os.stat_result]:
    """The bytes of a regular file, and what the system tells of it. Raises OSError, EFBIG where there are more."""
    descriptor = open_file(path)
    with os.fdopen(descriptor, "rb") as file:
        content = file.read(most + 1)
        if len(content) > most:
            raise OSError(errno.EFBIG, f"has more than {most} bytes", path)
        return content, os.fstat(descriptor)


def check_owner(path: str, status: os.stat_result, directory: str) -> None:
    """Raises KsegError where a file belongs neither to this user or root, nor to the owner of its log directory."""
    if hasattr(os, "geteuid") and status.st_uid not in (0, os.geteuid(), os.stat(directory).st_uid):
        raise KsegError(
            f"{path}: belongs to another user than its directory; nothing was changed: move it away to go on"
        )
