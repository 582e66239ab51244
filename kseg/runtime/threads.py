"""A small thread pool in which the thread that waits for a result also runs tasks.

An extra thread beyond the number of processors would only compete for the processors and Python's lock. Importing
`concurrent.futures` would take a tenth of kseg's start-up time.
"""

import atexit
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kseg.errors import KsegError

if TYPE_CHECKING:
    from queue import SimpleQueue

# Runs tasks on threads and returns results in order; codecs and checksums release the GIL.

TASK_BYTES = 256 << 10
"""Tasks are collected until they process this number of bytes, then given to a thread together."""
TASKS_AHEAD = 3
"""Number of waiting groups of tasks per job, which limits memory."""

Task = Callable[[], Any]
T = TypeVar("T")


class Pipeline:
    """Takes tasks by `submit`, which yields the lists of results that are ready; `drain` yields the rest.

    With one job, tasks run in the calling thread. Use it as a context manager.
    """

    def __init__(self, jobs: int) -> None:
        self._pool = Threads(jobs) if jobs > 1 else None
        self._max_pending = jobs * TASKS_AHEAD
        self._pending: deque[Future[list[Any]]] = deque()
        self._tasks: list[Task] = []
        self._weight = 0

    def __enter__(self) -> "Pipeline":
        return self

    def __exit__(self, *_error: object) -> None:
        if self._pool is not None:
            self._pool.close()

    def submit(self, task: Task, weight: int) -> Iterator[list[Any]]:
        """``weight``: number of bytes that the task processes."""
        self._tasks.append(task)
        self._weight += weight
        if self._weight >= TASK_BYTES:
            yield from self._begin()

    def drain(self) -> Iterator[list[Any]]:
        """Yields all remaining results."""
        if self._tasks:
            yield from self._begin()
        while self._pending:
            yield self._pending.popleft().result()

    def discard(self) -> None:
        """Waits for the running tasks, whose results and errors do not matter any more."""
        self._tasks, self._weight = [], 0
        while self._pending:
            with suppress(KsegError):
                self._pending.popleft().result()

    def each(self, tasks: Iterable[Task]) -> Iterator[Any]:
        """Yields the result of each task; for large tasks."""
        for task in tasks:
            for results in self.submit(task, TASK_BYTES):
                yield from results
        for results in self.drain():
            yield from results

    def _begin(self) -> Iterator[list[Any]]:
        tasks, self._tasks, self._weight = self._tasks, [], 0
        if self._pool is None:
            yield _done(tasks)
            return
        self._pending.append(self._pool.begin(partial(_done, tasks)))
        while len(self._pending) > self._max_pending:
            yield self._pending.popleft().result()


def _done(tasks: list[Task]) -> list[Any]:
    return [task() for task in tasks]


# Threads of other libraries, and daemons, that read while the interpreter ends: one that wants the GIL later on, with
# C++ below Python on its stack, would abort the process (Python up to 3.13).

_WAIT_SECONDS = 0.25
_reading: set[object] = set()
"""Iterators that other threads than the main one have not read to the end."""
_ended = threading.Event()


def until_exit(items: Iterable[T]) -> Iterator[T]:
    """Yields the items. Other threads than the main one get none when the interpreter ends: they sleep instead."""
    reader = object()
    try:
        _stop_at_exit(reader)
        for item in items:
            _stop_at_exit(reader)
            yield item
            _stop_at_exit(reader)
    finally:
        _reading.discard(reader)


def _stop_at_exit(reader: object) -> None:
    if threading.get_ident() == threading.main_thread().ident:
        return
    if _ended.is_set():
        _reading.discard(reader)
        threading.Event().wait()
    _reading.add(reader)


@atexit.register
def _wait_for_readers() -> None:
    _ended.set()
    until = time.monotonic() + _WAIT_SECONDS * bool(_reading)
    while _reading and time.monotonic() < until:
        time.sleep(0.01)


def usable_cores() -> int:
    """Returns the number of cores that the scheduler gives this process: the default of ``--jobs``."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Future(Generic[T]):
    """The result of a task, once it has run. ``work_meanwhile`` runs another waiting task and returns whether there was
    one."""

    def __init__(self, task: Callable[[], T], work_meanwhile: Callable[[], bool]) -> None:
        from queue import SimpleQueue  # few commands start threads

        self._task, self._work_meanwhile = task, work_meanwhile
        self._outcome: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()

    def run(self) -> BaseException | None:
        """Runs the task. Returns its exception, which `result` raises; None if there was none."""
        try:
            self._outcome.put((self._task(), None))
        except BaseException as error:  # noqa: BLE001 - raised again by who waits for the result
            self._outcome.put((None, error))
            return error
        return None

    def result(self) -> T:
        """Waits for the result; call it once. Raises the task's exception."""
        while self._outcome.empty() and self._work_meanwhile():
            pass
        found, error = self._outcome.get()
        if error is not None:
            raise error
        return found  # type: ignore[return-value]


class Threads:
    """``count`` threads, including the one that asks for results. They start with the first task; `close` ends them."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._waiting: SimpleQueue[Future[Any] | None]
        self._is_over = False
        self._threads: list[threading.Thread] = []

    def close(self) -> None:
        """Waits for running tasks; drops waiting ones."""
        self._is_over = True
        for _thread in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def begin(self, task: Callable[[], T]) -> Future[T]:
        """Queues a task. Returns its future."""
        if not hasattr(self, "_waiting"):
            from queue import SimpleQueue

            self._waiting = SimpleQueue()
            self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(self._count - 1)]
            for thread in self._threads:
                thread.start()
        future = Future(task, self._work_meanwhile)
        self._waiting.put(future)
        return future

    def _work_meanwhile(self) -> bool:
        from queue import Empty

        try:
            waiting = self._waiting.get_nowait()
        except Empty:
            return False
        if waiting is None:
            return False
        error = waiting.run()
        if error is not None and not isinstance(error, Exception):
            raise error  # Ctrl-C is not an error of the task
        return True

    def _run(self) -> None:
        while (waiting := self._waiting.get()) is not None:
            if not self._is_over:
                waiting.run()
