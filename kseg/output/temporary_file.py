"""A temporary file that is removed however the process ends, short of SIGKILL."""

import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kseg.signals import ENDING_SIGNALS


@contextmanager
def temporary_file(directory: str) -> Iterator[tuple[int, str]]:
    """Descriptor and path of a new file. At the end the file is removed if it still has that name, and is closed.

    The signals that end a process raise an exception (`kseg.signals`), so they end this block too. Only the
    process that made the file removes it: a forked child has inherited the block. Raises OSError where no file can be
    made.
    """
    owner = os.getpid()
    # Between the making of the file and the block below, a signal would leave it behind.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
    try:
        descriptor, path = tempfile.mkstemp(prefix=".kseg-", suffix=".tmp", dir=directory)
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            yield descriptor, path
        finally:
            if os.getpid() == owner:
                with suppress(FileNotFoundError):
                    os.unlink(path)
            os.close(descriptor)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
