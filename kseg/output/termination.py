"""A temporary file that does not outlive a process which is told to end."""

import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import current_thread, main_thread
from types import FrameType
from typing import Any

_ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def temporary_file(directory: str) -> Iterator[tuple[int, str]]:
    """A new file's descriptor and path; it is removed at the end if it still has that name, and the descriptor closed.

    Signals that end a process remove it too, and end the process as they would have. Those that somebody ignores or
    handles are left to them. Raises OSError where no file can be made.
    """
    made: list[str] = []
    before: dict[signal.Signals, Any] = {}

    def end(number: int, _frame: FrameType | None) -> None:
        for path in made:
            with suppress(OSError):
                os.unlink(path)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    # Until its name is known here, no signal may end the process: nobody else would remove the file.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        if current_thread() is main_thread():
            before = {number: signal.getsignal(number) for number in _ENDING}
            for number, handler in before.items():
                if handler is signal.SIG_DFL:
                    signal.signal(number, end)
        descriptor, path = tempfile.mkstemp(prefix=".kseg-", suffix=".tmp", dir=directory)
        made.append(path)
    except OSError:
        _restore(before)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    try:
        yield descriptor, path
    finally:
        with suppress(FileNotFoundError):
            os.unlink(path)
        os.close(descriptor)
        _restore(before)


def _restore(handlers: dict[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        if handler is signal.SIG_DFL:
            signal.signal(number, handler)
