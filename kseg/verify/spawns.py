"""What `kseg.verify.forks` does, by way of multiprocessing: for systems whose libraries do not bear a fork."""

import multiprocessing
from collections.abc import Callable
from typing import Any

MOST_TICKETS = 1 << 30
_context = multiprocessing.get_context("spawn")


class Tickets:
    """The numbers 0 to ``count``, each of which one process takes, whichever comes first."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._taken: Any = _context.Value("q", 0)

    def take(self) -> int | None:
        """The next number, None once all are taken."""
        with self._taken.get_lock():
            number = int(self._taken.value)
            self._taken.value = number + 1
        return number if number < self._count else None

    def close(self) -> None:
        """Nothing is held open."""


class Child:
    """A process that runs ``work(send)`` and ends, beside the one that made it, which receives what it sends."""

    def __init__(self, work: Callable[[Callable[[Any], None]], None], _before: "list[Child]") -> None:
        self._receiver, sender = _context.Pipe(duplex=False)
        self._process = _context.Process(target=_run, args=(work, sender), daemon=True)
        self._process.start()
        self.process_id = self._process.pid
        sender.close()

    def fileno(self) -> int:
        return self._receiver.fileno()

    def receive(self) -> Any:
        """The next message, waited for. Raises EOFError where none comes any more."""
        return self._receiver.recv()

    def end(self) -> None:
        """Ends the process if it still runs."""
        self._process.terminate()
        self._process.join()
        self._receiver.close()


def _run(work: Callable[[Callable[[Any], None]], None], sender: Any) -> None:
    work(sender.send)


def shared_numbers(count: int) -> Any:
    """``count`` int64 that processes made later have in common with this one."""
    return _context.RawArray("q", count)
