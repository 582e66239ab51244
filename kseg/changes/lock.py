"""The lock of a log directory, shared with brokers: a POSIX lock on the file `.lock`.

Source: Kafka's FileLock (java.nio's FileChannel.tryLock is fcntl on the whole file). The existence of the file means
nothing.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from kseg.errors import BrokerRunningError, KsegError
from kseg.stores.no_follow import open_directory, open_file

LOCK_NAME = ".lock"
_LINKS = 40
"""Largest number of symbolic links in a chain, as in the system."""
_WITHOUT = "--no-lock goes on without"
_HINTS = {
    errno.EROFS: "nothing can be changed there: mount it for writing, or write the result elsewhere with --output",
    errno.ENOSPC: "free some space there first",
    errno.EACCES: f"run kseg as the owner of the directory; {_WITHOUT}",
}
"""Advice by errno if the lock cannot be opened."""


def log_directory_of(partition: str) -> str:
    """Returns the directory whose lock protects a partition, given by its `resolved` path."""
    return os.path.dirname(os.path.abspath(partition))


def directories_to_lock(path: str, real: str, is_partition: bool) -> list[str]:
    """Returns the log directory of a PATH with the `resolved` form ``real``, then those of symbolic links to a
    partition.

    A broker that reaches a partition through a symbolic link holds the lock next to the link. If there is no lock file
    next to the link, no broker uses it.
    """
    found = [log_directory_of(real) if is_partition else os.path.abspath(real)]
    at = os.path.abspath(path)
    for _ in range(_LINKS * is_partition):
        parent = os.path.realpath(os.path.dirname(at))
        if parent not in found and os.path.lexists(os.path.join(parent, LOCK_NAME)):
            found.append(parent)
        if not os.path.islink(at):
            break
        at = os.path.join(parent, os.readlink(at))
    return found


@contextmanager
def all_locked(log_directories: list[str]) -> Iterator[None]:
    """Holds several locks, each as `locked` does."""
    with ExitStack() as held:
        for log_directory in log_directories:
            held.enter_context(locked(log_directory))
        yield


@contextmanager
def locked(log_directory: str, is_wanted: bool = True) -> Iterator[None]:
    """Holds the lock of a log directory. Raises BrokerRunningError if another process holds it.

    A missing file is created with the owner and permissions of the directory, and stays, as a broker's does. Without
    ``is_wanted`` nothing is locked. No other part of the process may open that file: closing it would release the lock.
    """
    if not is_wanted:
        yield
        return
    path = os.path.join(log_directory, LOCK_NAME)
    try:
        descriptor = _open(path, log_directory)
    except OSError as error:
        raise _not_locked(path, error) from error
    try:
        _lock(descriptor, path)
        yield
    finally:
        os.close(descriptor)


def _open(path: str, log_directory: str) -> int:
    """Opens the lock file. Raises OSError, also for a symbolic link or another kind of file; KsegError as `_create`."""
    try:
        return open_file(path, os.O_RDWR)
    except FileNotFoundError:
        pass
    directory = open_directory(log_directory)
    try:
        return _create(directory, path)
    except FileExistsError:
        return open_file(path, os.O_RDWR)  # created by another process in the meantime
    finally:
        os.close(directory)


def _create(directory: int, path: str) -> int:
    """Creates the lock file in an open directory, with the directory's owner and permissions. Raises OSError.

    Raises KsegError before creating anything if a broker could not open the file.
    """
    owner = os.fstat(directory)
    if hasattr(os, "geteuid") and os.geteuid() not in (0, owner.st_uid):
        raise KsegError(
            f"{path}: is missing, and a broker could not open one of yours: run kseg as the owner of the directory "
            f"({_WITHOUT})"
        )
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(LOCK_NAME, flags, 0o600, dir_fd=directory)
    own = os.fstat(descriptor)
    if (owner.st_uid, owner.st_gid) != (own.st_uid, own.st_gid):
        try:
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
        except PermissionError:  # this user is not in the group; the owner can still open the file
            os.fchown(descriptor, owner.st_uid, -1)
    os.fchmod(descriptor, stat.S_IMODE(owner.st_mode) & 0o666)
    return descriptor


def _lock(descriptor: int, path: str) -> None:
    import fcntl

    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            raise BrokerRunningError(
                f"{path}: a running broker, or another kseg, holds the log directory; nothing was changed"
            ) from error
        raise _not_locked(path, error) from error


def _not_locked(path: str, error: OSError) -> KsegError:
    return KsegError(f"{path}: cannot be locked: {error.strerror} ({_HINTS.get(error.errno or 0, _WITHOUT)})")
