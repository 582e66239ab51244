"""The lock that keeps a broker and kseg apart: the broker's own, a POSIX lock on `.lock` in the log directory.

Rule: Kafka's FileLock (java.nio's FileChannel.tryLock is fcntl on the whole file). That the file exists means nothing.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from kseg.errors import BrokerRunningError, KsegError

LOCK_NAME = ".lock"


@contextmanager
def locked(log_directory: str, is_wanted: bool = True) -> Iterator[None]:
    """Holds the lock of a log directory. Raises BrokerRunningError where another process does.

    The file is made if it is missing and stays, as a broker's does. Without ``is_wanted`` nothing is locked.
    """
    if not is_wanted:
        yield
        return
    path = os.path.join(log_directory, LOCK_NAME)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
    except OSError as error:
        raise KsegError(f"{path}: cannot be locked: {error.strerror} (--no-lock goes on without)") from error
    try:
        _lock(descriptor, path)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: str) -> None:
    import fcntl

    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            raise BrokerRunningError(
                f"{path}: a running broker, or another kseg, holds the log directory; nothing was changed"
            ) from error
        raise KsegError(f"{path}: cannot be locked: {error.strerror} (--no-lock goes on without)") from error
