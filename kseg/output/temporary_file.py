"""A temporary file that is removed when the process ends in any way except SIGKILL."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kseg.signals import ENDING_SIGNALS, mask


@contextmanager
def temporary_file(directory: str) -> Iterator[tuple[int, str]]:
    """Yields descriptor and path of a new file. At the end the file is closed, and removed if it still has that name.

    Signals that end a process raise an exception (`kseg.signals`), so they end this block, too. Only the process that
    created the file removes it, not a forked child. Raises OSError if the file cannot be created.
    """
    owner = os.getpid()
    # A signal between creating the file and entering the block below would leave the file behind.
    blocked = mask("SIG_BLOCK", ENDING_SIGNALS)
    try:
        descriptor, path = tempfile.mkstemp(prefix=".kseg-", suffix=".tmp", dir=directory)
        try:
            mask("SIG_SETMASK", blocked)
            yield descriptor, path
        finally:
            if os.getpid() == owner:
                with suppress(FileNotFoundError):
                    os.unlink(path)
            os.close(descriptor)
    finally:
        mask("SIG_SETMASK", blocked)
