"""Worker processes of multiprocessing, each with a pipe of its own, and numbers that they share."""

import signal
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from kseg.errors import KsegError
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
        """Waits for the next message; raises it if it is an exception. Raises EOFError if the process ended and sent no
        more, or sent half of one.
        """
        try:
            message = self._receiver.recv()
        except OSError as error:
            raise EOFError from error
        if isinstance(message, BaseException):
            raise message
        return message

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


# Several processes work on numbered tasks. Their items are yielded in the order of the tasks.
#
# Each process takes the next tasks, a chunk, and sends its items through its own pipe. The parent reads one pipe at a
# time, that of the first unfinished chunk; other processes wait when their pipes are full. So memory is bounded.

SENT_AT_ONCE = 256
"""Limit of items in one message."""
CHUNKS_EACH, LARGEST_CHUNK = 32, 16
"""Chunks that each process takes if there are many tasks, so that all end at about the same time; and the limit of
tasks in one, for which a process and its parent exchange messages."""
POLL_SECONDS = 0.2
"""Interval at which a waiting parent does something else."""

Put = Callable[[Any], None]
Work = Callable[[int, Put], None]
"""Does the task with this number, and calls ``put`` with each of its items."""


def in_processes(
    count: int, tasks: int, begin: Callable[[int], Work], ended: str, meanwhile: Callable[[], None] = lambda: None
) -> Generator[Any, None, None]:
    """Yields the items of all tasks in order. Always ends its processes.

    Each of ``count`` processes calls ``begin`` with its number once, and the result for each of its tasks.
    ``meanwhile`` is called while this process waits, and at the end. Raises KsegError(``ended``) if a process ended
    early, and the error of one that failed.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()  # otherwise a forked process would write it again
    size = max(1, min(LARGEST_CHUNK, tasks // (count * CHUNKS_EACH)))
    chunks = [range(first, min(first + size, tasks)) for first in range(0, tasks, size)]
    tickets, children = Tickets(len(chunks)), list[Child]()
    try:
        for number in range(count):
            children.append(Child(partial(_take_chunks, begin, chunks, tickets, number), children))
        yield from _collected(len(chunks), children, meanwhile)
        meanwhile()
    except EOFError:
        raise KsegError(ended) from None
    finally:
        for child in children:
            child.end()


def _take_chunks(
    begin: Callable[[int], Work], chunks: list[range], tickets: Tickets, number: int, send: Callable[[Any], None]
) -> None:
    """The work of one process: for each chunk it sends the number, then pairs: a list of items, and
    whether it is the last of the chunk."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent receives it too, and ends its processes
    held: list[Any] = []

    def put(item: Any) -> None:
        held.append(item)
        if len(held) >= SENT_AT_ONCE:
            send((held, False))
            held.clear()

    with suppress(BrokenPipeError):  # the parent has ended
        try:
            work = begin(number)
            while (chunk := tickets.take()) is not None:
                send(chunk)
                for task in chunks[chunk]:
                    work(task, put)
                send((held, True))
                held.clear()
        except (Exception, MemoryError) as error:  # noqa: BLE001 - raised in the parent
            send(error)


def _collected(chunks: int, children: list[Child], meanwhile: Callable[[], None]) -> Iterator[Any]:
    """Yields the items in order. Raises EOFError if a process has ended early."""
    silent, announced = list(children), dict[int, Child]()
    for chunk in range(chunks):
        while chunk not in announced:
            if not silent:
                raise EOFError
            for child in wait_for_any(silent, POLL_SECONDS):
                silent.remove(child)
                try:
                    announced[child.receive()] = child
                except EOFError:  # no chunk was left, or the process was killed
                    if child.has_failed():
                        raise
            meanwhile()
        child, is_last = announced.pop(chunk), False
        while not is_last:
            if wait_for_any([child], POLL_SECONDS):
                items, is_last = child.receive()
                yield from items
            else:
                meanwhile()
        silent.append(child)
