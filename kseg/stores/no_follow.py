"""Opens files and directories without following symbolic links anywhere in their paths.

A log directory is often repaired by another user than its owner, perhaps by root. The owner can replace a name by a
link at any time. Each path component is therefore opened relative to the previous one, and a link is an error. Paths
given by the user are resolved once by `resolved`; paths below them never are.
"""

import errno
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kseg.errors import KsegError, PathError, UnsupportedError, errors_at, is_system_error
from kseg.stores.extent import Extent
from kseg.stores.place import Place, read_limited, regular_status

_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_DIRECTORY = getattr(os, "O_DIRECTORY", 0)
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)
_SEARCH = getattr(os, "O_PATH", os.O_RDONLY) | _DIRECTORY | _NOFOLLOW | _CLOEXEC
"""Flags for opening a directory to access names in it; read permission on it is not needed."""
LINKS = 40
"""Largest number of symbolic links in a chain, as in the system."""
OPEN_FILES = "/proc/self/fd/"
"""Linux lists open descriptors here: a directory with its real path."""


def resolved(path: str) -> Place:
    """Resolves a path given by the user; returns it unchanged if it contains no link, or is in a tree."""
    real = os.path.realpath(path)
    return Place(path if Place(path).tree is not None or os.path.abspath(path) == real else real)


def resolved_to_change(path: str) -> str:
    """As `resolved`, for a path below which files are changed. Afterwards its last name is no link.

    For root raises PathError if the last name is a link of another user in a directory that others can write to, as the
    system does with fs.protected_symlinks: such a link can be put there at any time, to any user's files.
    """
    at = os.path.abspath(path)
    for _ in range(LINKS):
        parent = os.path.realpath(os.path.dirname(at))
        at = os.path.join(parent, os.path.basename(at))
        try:
            status = os.lstat(at)
        except OSError:
            break  # whoever opens it reports that
        if not stat.S_ISLNK(status.st_mode):
            break
        if hasattr(os, "geteuid") and os.geteuid() == 0 and status.st_uid != 0:
            above = os.stat(parent)
            if above.st_uid != 0 or above.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise PathError(
                    f"{at}: is a link of another user, in a directory that others write to; root does not follow it: "
                    "name its target"
                )
        at = os.path.join(parent, os.readlink(at))
    return path if os.path.abspath(path) == at else os.path.abspath(at)


def open_directory(path: str, is_read: bool = False) -> int:
    """Returns a descriptor of a directory for access to its names; ``is_read``: to list or sync it.

    Raises OSError, and UnsupportedError where the system cannot do it (Windows).
    """
    if os.open not in os.supports_dir_fd:
        raise UnsupportedError(
            f"{path}: kseg only reads on this system, which cannot open a file without following links in its path"
        )
    path = os.path.abspath(path)
    flags = os.O_RDONLY | _DIRECTORY | _NOFOLLOW | _CLOEXEC if is_read else _SEARCH
    parts = [part for part in path.split(os.sep) if part]
    at = os.open(os.sep, _SEARCH if parts else flags)
    for i, part in enumerate(parts):
        try:
            inner = os.open(part, flags if i == len(parts) - 1 else _SEARCH, dir_fd=at)
        except OSError as error:
            raise _with_path(error, os.sep + os.path.join(*parts[: i + 1])) from error
        finally:
            os.close(at)
        at = inner
    return at


_MAX_HELD = 32


class _Held(threading.local):
    """The directories that a thread keeps open, by path, each opened relative to the one above it; the one that was
    used longest ago comes first.

    ``seen``: all that were open. ``statuses``: those that `directory_status` has returned.
    """

    is_on = False

    def __init__(self) -> None:
        self.open: dict[str, int] = {}
        self.seen: set[str] = set()
        self.statuses: dict[str, os.stat_result] = {}

    def at(self, directory: str) -> int:
        descriptor = self.open.pop(directory, -1)
        if descriptor < 0:
            if len(self.open) >= _MAX_HELD:  # asked before the ones above are added: those just used stay open
                os.close(self.open.pop(next(iter(self.open))))
            above, _, name = directory.rstrip(os.sep).rpartition(os.sep)
            try:
                descriptor = os.open(name or os.sep, _SEARCH, dir_fd=self.at(above) if name else None)
            except OSError as error:
                raise _with_path(error, directory) from error
            self.seen.add(directory)
        self.open[directory] = descriptor
        return descriptor

    def forget(self, path: str) -> None:
        below = path + os.sep
        for held in [held for held in self.open if held == path or held.startswith(below)]:
            os.close(self.open.pop(held))
        self.statuses.clear()


_held = _Held()


@contextmanager
def directories_held() -> Iterator[None]:
    """Within the block, the directories of this thread's paths stay open: each of their paths is resolved once.

    Whoever renames or removes a directory in the block calls `forget_directory`.
    """
    if _held.is_on:
        yield
        return
    _held.is_on = True
    try:
        yield
    finally:
        _held.is_on = False
        _held.seen.clear()
        _held.statuses.clear()
        while _held.open:
            os.close(_held.open.popitem()[1])


def forget_directory(path: str) -> None:
    """Ends the access by this path, and those below it, to a directory that was kept open."""
    if path in _held.seen:
        _held.forget(path)


@contextmanager
def parent_of(path: str) -> Iterator[tuple[int, str]]:
    """Yields a descriptor of the parent directory of ``path``, and the name in it. Raises OSError."""
    is_held = _held.is_on and path[:1] == os.sep
    folder, name = os.path.split(path if is_held else os.path.abspath(path))
    at = _held.at(folder) if is_held else open_directory(folder)
    try:
        yield at, name
    except OSError as error:
        if not is_system_error(error):
            raise
        raise _with_path(error, path) from error
    finally:
        if not is_held:
            os.close(at)


def _with_path(error: OSError, path: str) -> OSError:
    """Returns the error with the whole path; an error caused by a link says so."""
    if isinstance(error.filename, str) and os.path.isabs(error.filename):
        return error
    if error.errno == errno.ELOOP or (error.errno == errno.ENOTDIR and os.path.islink(path)):
        return OSError(errno.ELOOP, "is a symbolic link, which kseg does not follow here", path)
    return type(error)(error.errno, error.strerror or str(error), path)


def status_of(path: str) -> os.stat_result:
    """Returns the status of the file or link itself. Raises OSError."""
    if (place := Place(path)).tree is not None:
        return place.status()
    if (held := _held.open.get(path, -1)) >= 0:
        return os.fstat(held)
    with parent_of(path) as (at, name):
        return os.stat(name, dir_fd=at, follow_symlinks=False)


def directory_status(path: str) -> os.stat_result:
    """As `status_of`, for a directory; within `directories_held` it is asked for once. Raises OSError."""
    if not _held.is_on or path[:1] != os.sep:
        return status_of(path)
    if path not in _held.statuses:
        _held.statuses[path] = os.fstat(_held.at(path))
    return _held.statuses[path]


def names_in(path: str) -> list[str]:
    """Returns the names in a directory, unordered. Raises OSError."""
    if Place(path).tree is not None:
        return Place(path).names()
    with readable_directory(path) as at:
        return os.listdir(at)


@contextmanager
def readable_directory(path: str) -> Iterator[int]:
    """Yields a descriptor to list or sync a directory. Raises OSError."""
    if _held.is_on and path[:1] == os.sep != path:
        with parent_of(path) as (above, name):
            at = os.open(name, os.O_RDONLY | _DIRECTORY | _NOFOLLOW | _CLOEXEC, dir_fd=above)
    else:
        at = open_directory(path, is_read=True)
    try:
        yield at
    finally:
        os.close(at)


def is_directory(path: str) -> bool:
    """Whether ``path`` is a directory, and not a link to one."""
    try:
        return stat.S_ISDIR(status_of(path).st_mode)
    except OSError:
        return False


def open_file(path: str, flags: int = os.O_RDONLY) -> int:
    """Returns a descriptor of a regular file, without blocking. Raises OSError, also for a link or any other file."""
    with parent_of(path) as (at, name):
        found = os.stat(name, dir_fd=at, follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode) and not stat.S_ISLNK(found.st_mode):  # opening a device may have an effect
            raise OSError(errno.EINVAL, "is no regular file", path)
        descriptor = os.open(name, flags | _NOFOLLOW | _NONBLOCK | _CLOEXEC, dir_fd=at)
    regular_status(descriptor, path, "is no regular file")
    return descriptor


def open_to_copy(path: str) -> Extent:
    """Opens a regular file as `open_file` does, or a file of a tree. Raises OSError."""
    place = Place(path)
    return Extent(open_file(path)) if place.tree is None else place.open_extent()


def create_file(path: str) -> int:
    """Returns a descriptor of a new, empty, writable file. Raises FileExistsError if the name exists, else OSError."""
    with parent_of(path) as (at, name):
        return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW | _CLOEXEC, 0o600, dir_fd=at)


def read_file(path: str, max_bytes: int) -> tuple[bytes, os.stat_result]:
    """Returns the bytes and status of a regular file. Raises OSError, EFBIG if it has more than ``max_bytes`` bytes."""
    if (place := Place(path)).tree is not None:
        return place.read(max_bytes), place.status()
    descriptor = open_file(path)
    with os.fdopen(descriptor, "rb") as file:
        return read_limited(file, path, max_bytes), os.fstat(descriptor)


def read_own(path: str, max_bytes: int, directory: str) -> bytes | None:
    """Returns the bytes of a file that kseg has written for a log directory, None if there is none.

    Raises KsegError if it cannot be read, or unless it belongs to this user, to root, or to the directory's owner.
    """
    with errors_at(path, KsegError), suppress(FileNotFoundError):
        content, status = read_file(path, max_bytes)
        if hasattr(os, "geteuid") and status.st_uid not in (0, os.geteuid(), Place(directory).status().st_uid):
            raise KsegError(
                f"{path}: belongs to another user than its directory; nothing was changed: move it away to go on"
            )
        return content
    return None
