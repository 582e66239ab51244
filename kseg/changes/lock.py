"""The lock that keeps a broker and kseg apart: the broker's own, a POSIX lock on `.lock` in the log directory.

Rule: Kafka's FileLock (java.nio's FileChannel.tryLock is fcntl on the whole file). That the file exists means nothing.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kseg.errors import BrokerRunningError, KsegError

LOCK_NAME = ".lock"
_WITHOUT = "--no-lock goes on without"


def log_directory_of(partition: str) -> str:
    """The directory whose lock keeps brokers from a partition: where its name stands, not where a link leads."""
    return os.path.dirname(os.path.abspath(partition))


@contextmanager
def locked(log_directory: str, is_wanted: bool = True) -> Iterator[None]:
    """Holds the lock of a log directory. Raises BrokerRunningError where another process does.

    The file is made if it is missing, for the owner of the directory, and stays, as a broker's does. Without
    ``is_wanted`` nothing is locked. No other part of the process may open that file: closing it would end the lock.
    """
    if not is_wanted:
        yield
        return
    path = os.path.join(log_directory, LOCK_NAME)
    try:
        descriptor = _open(path, log_directory)
    except OSError as error:
        raise KsegError(f"{path}: cannot be locked: {error.strerror} ({_WITHOUT})") from error
    try:
        _lock(descriptor, path)
        yield
    finally:
        os.close(descriptor)


def _open(path: str, log_directory: str) -> int:
    flags = os.O_RDWR | getattr(os, "O_CLOEXEC", 0)
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        descriptor = os.open(path, flags | os.O_CREAT, 0o644)
    owner, own = os.stat(log_directory), os.fstat(descriptor)
    if (owner.st_uid, owner.st_gid) != (own.st_uid, own.st_gid):
        with suppress(PermissionError):  # a broker could not open a file of root's; others cannot give files away
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
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
        raise KsegError(f"{path}: cannot be locked: {error.strerror} ({_WITHOUT})") from error
