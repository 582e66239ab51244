"""The lock of a log directory, shared with brokers: a POSIX lock on the file `.lock`.

Source: Kafka's FileLock (java.nio's FileChannel.tryLock is fcntl on the whole file). The existence of the file means
nothing. A change of existing files locks the whole file, as a broker does. Writers of new directories share its first
byte, which excludes brokers and changes, and lock the second one while they move their directories into place.

Such locks belong to a process: closing any descriptor of the file releases them. The threads of a process therefore
share one descriptor, and exclude each other here.
"""

import errno
import os
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Lock

from kseg.changes.disk import give
from kseg.errors import BrokerRunningError, KsegError
from kseg.segment.files import LOCK_NAME
from kseg.stores.no_follow import LINKS, open_directory, open_file, status_of
from kseg.stores.place import Place

_FLOCK = "hhqqi0q"
"""The system's struct flock: kind, whence, start, length, process."""
_WITHOUT = "--no-lock goes on without"
_HINTS = {
    errno.EROFS: "nothing can be changed there: mount it for writing, or write the result elsewhere with --output",
    errno.ENOSPC: "free some space there first",
    errno.EACCES: f"run kseg as the owner of the directory; {_WITHOUT}",
}
"""Advice by errno if the lock cannot be opened."""


def log_directory_of(partition: str) -> str:
    """Returns the directory whose lock protects a partition, given by its `resolved` path."""
    return Place(partition).absolute.parent


def directories_to_lock(path: str, real: str, is_partition: bool) -> list[str]:
    """Returns the log directory of a PATH with the `resolved` form ``real``, then those of symbolic links to a
    partition.

    A broker that reaches a partition through a symbolic link holds the lock next to the link. If there is no lock file
    next to the link, no broker uses it.
    """
    found = [log_directory_of(real) if is_partition else Place(real).absolute]
    at = Place(path).absolute
    for _ in range(LINKS * is_partition):
        parent = os.path.realpath(at.parent)
        if parent not in found and (Place(parent) / LOCK_NAME).lexists():
            found.append(parent)
        if not at.is_link():
            break
        at = Place(parent) / os.readlink(at)
    return found


@dataclass(slots=True)
class HeldLock:
    """A lock that this process holds, ``holders`` times if it is shared. ``descriptor``: -1 with --no-lock; ``key``:
    device and inode of the lock file."""

    descriptor: int = -1
    key: tuple[int, int] = (0, 0)
    is_shared: bool = False
    holders: int = 1
    _moving: Lock = field(default_factory=Lock)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Waits until no other holder of the shared lock, of any process, is in such a block."""
        import fcntl

        with self._moving:
            if self.descriptor >= 0:
                fcntl.lockf(self.descriptor, fcntl.LOCK_EX, 1, 1)
            try:
                yield
            finally:
                if self.descriptor >= 0:
                    fcntl.lockf(self.descriptor, fcntl.LOCK_UN, 1, 1)


_UNLOCKED = HeldLock()
_held = dict[tuple[int, int], HeldLock]()
"""The locks of this process, whose files stay open, by their keys."""
_mutex = Lock()


def _forget_after_fork() -> None:
    """A child process inherits no locks."""
    global _mutex, _UNLOCKED
    _mutex, _UNLOCKED = Lock(), HeldLock()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


@contextmanager
def locked(log_directory: str, is_wanted: bool = True, is_shared: bool = False) -> Iterator[HeldLock]:
    """Holds the lock of a log directory. Raises BrokerRunningError if another process or thread holds it, unless both
    share it.

    A missing file is created with the owner and permissions of the directory, and stays, as a broker's does. Without
    ``is_wanted`` nothing is locked. No other part of the process may open that file: closing it would release the lock.
    """
    if not is_wanted:
        yield _UNLOCKED
        return
    path = Place(log_directory) / LOCK_NAME
    try:
        with _mutex:
            held = _take(path, log_directory, is_shared)
    except OSError as error:
        hint = _HINTS.get(error.errno or 0, _WITHOUT)
        raise KsegError(f"{path}: cannot be locked: {error.strerror} ({hint})") from error
    try:
        yield held
    finally:
        with _mutex:
            held.holders -= 1
            if not held.holders:
                _held.pop(held.key, None)
                os.close(held.descriptor)


def is_locked(log_directory: str) -> bool:
    """Whether this or another process holds the lock of a directory, which is not taken. Only Linux tells of other
    processes."""
    path = Place(log_directory) / LOCK_NAME
    try:
        status = status_of(path)
        with _mutex:  # closing the file would release a lock of this process
            if (status.st_dev, status.st_ino) in _held:
                return True
            descriptor = open_file(path)
            try:
                if not sys.platform.startswith("linux"):
                    return False
                import fcntl

                asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
                kind: int = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))[0]
                return kind != fcntl.F_UNLCK
            finally:
                os.close(descriptor)
    except OSError:
        return False


def _take(path: str, log_directory: str, is_shared: bool) -> HeldLock:
    """Takes a lock, or shares one that this process holds. Raises OSError, BrokerRunningError."""
    held = None
    with suppress(FileNotFoundError):
        status = status_of(path)
        held = _held.get((status.st_dev, status.st_ino))
    if held is not None:
        if not (is_shared and held.is_shared):
            raise BrokerRunningError(f"{path}: this process is changing the log directory already; nothing was changed")
        held.holders += 1
        return held
    descriptor = _open(path, log_directory)
    try:
        import fcntl

        try:
            if is_shared:
                fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB, 1)
            else:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
            raise BrokerRunningError(
                f"{path}: a running broker, or another kseg, holds the log directory; nothing was changed"
            ) from error
        own, now = os.fstat(descriptor), status_of(path)
        if not os.path.samestat(own, now):
            raise OSError(errno.ESTALE, "was replaced by another program")
    except BaseException:
        os.close(descriptor)
        raise
    held = _held[own.st_dev, own.st_ino] = HeldLock(descriptor, (own.st_dev, own.st_ino), is_shared)
    return held


def _open(path: str, log_directory: str) -> int:
    """Opens the lock file, or creates it with the owner and permissions of its directory.

    Raises OSError, also for a symbolic link or another kind of file; KsegError before creating anything if a broker
    could not open the file.
    """
    with suppress(FileNotFoundError):
        return open_file(path, os.O_RDWR)
    directory = open_directory(log_directory)
    try:
        owner = os.fstat(directory)
        if hasattr(os, "geteuid") and os.geteuid() not in (0, owner.st_uid):
            raise KsegError(
                f"{path}: is missing, and a broker could not open one of yours: run kseg as the owner of the directory "
                f"({_WITHOUT})"
            )
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        descriptor = os.open(LOCK_NAME, flags, 0o600, dir_fd=directory)
        give(descriptor, owner, stat.S_IMODE(owner.st_mode) & 0o666)
        return descriptor
    except FileExistsError:
        return open_file(path, os.O_RDWR)  # created by another process in the meantime
    finally:
        os.close(directory)
