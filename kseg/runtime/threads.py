"""A small thread pool in which the thread that waits for a result also runs tasks.

An extra thread beyond the number of processors would only compete for the processors and Python's lock. Importing
`concurrent.futures` would take a tenth of kseg's start-up time.
"""

import os
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar


def usable_cores() -> int:
    """Returns the number of cores that the scheduler gives this process: the default of ``--jobs``."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


S = TypeVar("S")
T = TypeVar("T")


class Future(Generic[T]):
    """The result of a task, once it has run. ``work_meanwhile`` runs another waiting task and returns whether there was
    one."""

    def __init__(self, work_meanwhile: Callable[[], bool]) -> None:
        from queue import SimpleQueue  # few commands start threads

        self._work_meanwhile = work_meanwhile
        self._outcome: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()

    def work(self, work: Callable[[S], T], own: S) -> BaseException | None:
        """Runs the task. Returns its exception, which `result` raises; None if there was none."""
        try:
            self._outcome.put((work(own), None))
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


class Threads(Generic[S]):
    """``count`` threads, including the one that asks for results. Use it as a context manager, or call `close`.

    ``make`` creates an object for each thread. Threads start with the first task.
    """

    def __init__(self, count: int, make: Callable[[], S]) -> None:
        from queue import SimpleQueue

        self._count, self._make = count, make
        self._waiting: SimpleQueue[tuple[Future[Any], Callable[[S], Any]] | None] = SimpleQueue()
        self._is_over = False
        self._threads: list[threading.Thread] = []
        self._own: list[S] = []

    def __enter__(self) -> "Threads[S]":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Waits for running tasks; drops waiting ones."""
        self._is_over = True
        for _thread in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def begin(self, work: Callable[[S], T]) -> Future[T]:
        """Queues a task. Returns its future."""
        if not self._own:
            self._own.append(self._make())
            self._threads = [
                threading.Thread(target=self._run, args=(self._make(),), daemon=True) for _ in range(self._count - 1)
            ]
            for thread in self._threads:
                thread.start()
        future: Future[T] = Future(self._work_meanwhile)
        self._waiting.put((future, work))
        return future

    def _work_meanwhile(self) -> bool:
        from queue import Empty

        try:
            waiting = self._waiting.get_nowait()
        except Empty:
            return False
        if waiting is None:
            return False
        future, work = waiting
        error = future.work(work, self._own[0])
        if error is not None and not isinstance(error, Exception):
            raise error  # Ctrl-C is not an error of the task
        return True

    def _run(self, own: S) -> None:
        while (waiting := self._waiting.get()) is not None:
            future, work = waiting
            if not self._is_over:
                future.work(work, own)
