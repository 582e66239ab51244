"""Forked processes that send messages to this one: what `multiprocessing` would do, whose import takes longer than they
need for a hundred small partitions.
"""

import os
import pickle
import select
import signal
from collections.abc import Callable
from mmap import mmap
from typing import Any

from kseg.signals import ENDING_SIGNALS, restore_defaults

_SIZE_BYTES = 8
_TICKET_BYTES = 4
MOST_TICKETS = select.PIPE_BUF // _TICKET_BYTES
"""So many fit in any pipe, and one process takes a whole one at a time."""


class Tickets:
    """The numbers 0 to ``count``, at most MOST_TICKETS, each of which one process takes, whichever comes first."""

    def __init__(self, count: int) -> None:
        self._source, target = os.pipe()
        os.write(target, b"".join(number.to_bytes(_TICKET_BYTES, "little") for number in range(count)))
        os.close(target)

    def take(self) -> int | None:
        """The next number, None once all are taken."""
        ticket = os.read(self._source, _TICKET_BYTES)
        return int.from_bytes(ticket, "little") if ticket else None

    def close(self) -> None:
        os.close(self._source)


class Child:
    """A process that runs ``work(send)`` and ends, beside the one that made it, which receives what it sends.

    ``before`` are those forked earlier, whose messages it has nothing to do with.
    """

    def __init__(self, work: Callable[[Callable[[Any], None]], None], before: "list[Child]") -> None:
        self._source, target = os.pipe()
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)  # no handler of the parent runs in the child
        try:
            self.process_id = os.fork()
            if not self.process_id:
                restore_defaults()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        if self.process_id:
            os.close(target)
            return
        status = 1
        try:
            for descriptor in (self._source, *(child._source for child in before)):
                os.close(descriptor)  # so that one whose messages nobody reads is told
            work(lambda message: _write(target, message))
            status = 0
        finally:
            os._exit(status)  # nothing of the process that it is a copy of ends with it

    def fileno(self) -> int:
        return self._source

    def receive(self) -> Any:
        """The next message, waited for. Raises EOFError where none comes any more."""
        size = int.from_bytes(self._read(_SIZE_BYTES), "little")
        return pickle.loads(self._read(size))

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = os.read(self._source, size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)

    def end(self) -> None:
        """Ends the process if it still runs."""
        os.kill(self.process_id, signal.SIGTERM)
        os.waitpid(self.process_id, 0)
        os.close(self._source)


def _write(target: int, message: Any) -> None:
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    data = len(data).to_bytes(_SIZE_BYTES, "little") + data
    while data:
        data = data[os.write(target, data) :]


def shared_numbers(count: int) -> memoryview:
    """``count`` int64 that processes forked later have in common with this one."""
    return memoryview(mmap(-1, max(8 * count, 1))).cast("q")
