"""Worker processes of multiprocessing, each with a pipe of its own, and numbers that they share."""

import sys
from collections.abc import Callable
from typing import Any

from kseg.signals import ENDING_SIGNALS, mask, restore_defaults

START_METHOD = "fork" if sys.platform == "linux" else "spawn"
"""Linux's libraries survive a fork, which is the faster start."""


def _context() -> Any:
    import multiprocessing  # 10 ms, and few commands start processes

    return multiprocessing.get_context(START_METHOD)


class Tickets:
    """The numbers below ``count``. Each is taken once, by whichever process asks first."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._taken: Any = _context().Value("q", 0)

    def take(self) -> int | None:
        """Returns the next number, None once all are taken."""
        with self._taken.get_lock():
            number = int(self._taken.value)
            self._taken.value = number + 1
        return number if number < self._count else None


class Child:
    """A process that runs ``work(send)`` and ends. This process receives what it sends.

    ``before``: the children started earlier. A forked child closes its copies of their pipes, so that a child whose
    messages are no longer read gets an error on writing.
    """

    def __init__(self, work: Callable[[Callable[[Any], None]], None], before: "list[Child]") -> None:
        context = _context()
        self._receiver, sender = context.Pipe(duplex=False)
        is_forked = START_METHOD == "fork"
        inherited = [self._receiver, *(child._receiver for child in before)] if is_forked else []
        self._process = context.Process(target=_run, args=(work, sender, inherited), daemon=True)
        # Blocked until the child has its own handlers: none of this process's runs in a forked child.
        blocked = mask("SIG_BLOCK", ENDING_SIGNALS if is_forked else ())
        try:
            self._process.start()
        finally:
            mask("SIG_SETMASK", blocked)
        self.process_id: int = self._process.pid
        sender.close()

    def fileno(self) -> int:
        """The descriptor to wait for, with `wait_for_any`."""
        return int(self._receiver.fileno())

    def receive(self) -> Any:
        """Waits for the next message. Raises EOFError if the process ended and sent no more, or sent half of one."""
        try:
            return self._receiver.recv()
        except OSError as error:
            raise EOFError from error

    def has_failed(self) -> bool:
        """Waits for the end of a process that closed its pipe. Returns whether a signal or an error ended it."""
        self._process.join()
        return bool(self._process.exitcode)

    def end(self) -> None:
        """Ends the process if it still runs."""
        self._process.terminate()
        self._process.join()
        self._receiver.close()


def wait_for_any(children: list[Child], seconds: float) -> list[Child]:
    """Returns the children that sent something or ended; none if that takes longer."""
    from multiprocessing import connection

    wait: Any = connection.wait  # documented for any object with fileno(), typed for less
    return list(wait(children, seconds))


def shared_numbers(count: int) -> Any:
    """``count`` int64 that processes started later share with this one."""
    return _context().RawArray("q", count)


def _run(work: Callable[[Callable[[Any], None]], None], sender: Any, inherited: list[Any]) -> None:
    restore_defaults()
    mask("SIG_UNBLOCK", ENDING_SIGNALS)
    for receiver in inherited:
        receiver.close()
    work(sender.send)
