"""Signals that end the process: they raise an exception, as Ctrl-C does, so that every block that is open is left.

Python's own default for SIGTERM and SIGHUP ends the process at once, and temporary and staged files stay behind.
"""

import signal
from types import FrameType

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _raise)


def restore_defaults() -> None:
    """For a forked child: signals end it at once. The blocks that its parent has open are not the child's to leave."""
    for number in ENDING_SIGNALS:
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)


def _raise(number: int, _frame: FrameType | None) -> None:
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.SIG_IGN)  # a second signal must not stop the cleaning up
    raise Terminated(number)
