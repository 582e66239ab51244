"""A temporary file that is removed when the process ends in any way except SIGKILL."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kseg.signals import ENDING_SIGNALS, mask


class TemporaryFile:
    """``descriptor`` is -1 once the file is closed: Windows renames and removes only closed files."""

    def __init__(self, descriptor: int, path: str) -> None:
        self.descriptor = descriptor
        self.path = path

    def close(self) -> None:
        """Closes the file if it is open. Raises OSError."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


@contextmanager
def temporary_file(directory: str) -> Iterator[TemporaryFile]:
    """Yields a new file. At the end the file is closed, and removed if it still has that name.

    Signals that end a process raise an exception (`kseg.signals`), so they end this block, too. Only the process that
    created the file removes it, not a forked child. Raises OSError if the file cannot be created.
    """
    owner = os.getpid()
    # A signal between creating the file and entering the block below would leave the file behind.
    blocked = mask("SIG_BLOCK", ENDING_SIGNALS)
    try:
        made = TemporaryFile(*tempfile.mkstemp(prefix=".kseg-", suffix=".tmp", dir=directory))
        try:
            mask("SIG_SETMASK", blocked)
            yield made
        finally:
            try:
                made.close()
            finally:
                if os.getpid() == owner:
                    with suppress(FileNotFoundError):
                        os.unlink(made.path)
    finally:
        mask("SIG_SETMASK", blocked)
