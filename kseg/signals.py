"""Signals that end the process: they raise an exception, as Ctrl-C does, so that every block that is open is left.

Python's own default for SIGTERM and SIGHUP ends the process at once, and temporary and staged files stay behind.
"""

import signal
from collections.abc import Iterable
from types import FrameType

_OF_TERMINALS = [signal.SIGHUP] if hasattr(signal, "SIGHUP") else []  # Windows has none
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, *_OF_TERMINALS)


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP was received; whatever handles Ctrl-C handles it too. ``number``: the signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    @property
    def exit_status(self) -> int:
        """What a shell reports of a process that a signal ended."""
        return 128 + self.number


def raise_on_signals() -> None:
    """Lets SIGTERM and SIGHUP raise `Terminated` in the main thread. One that is ignored (nohup) stays ignored."""
    for number in ENDING_SIGNALS[1:]:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _raise)


def restore_defaults() -> None:
    """For a forked child: signals end it at once. The blocks that its parent has open are not the child's to leave."""
    for number in ENDING_SIGNALS:
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)


def _raise(number: int, _frame: FrameType | None) -> None:
    for ending in ENDING_SIGNALS[1:]:
        signal.signal(ending, signal.SIG_IGN)  # a second signal must not stop the cleaning up
    raise Terminated(number)


def mask(how: str, signals: Iterable[int]) -> set[int]:
    """Changes the set of signals that are blocked in this thread: ``how`` is the name of pthread_sigmask's constant.

    Returns those that were blocked before. Without effect on Windows, which has no such mask.
    """
    if not hasattr(signal, "pthread_sigmask"):
        return set()
    return set(signal.pthread_sigmask(getattr(signal, how), signals))
