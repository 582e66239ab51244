"""Threads that run tasks: a pool whose threads have an object each, and a pipeline of small tasks."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from threading import local
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

# Runs tasks on threads and returns results in order; codecs and checksums release the GIL.

TASK_BYTES = 256 << 10
"""Tasks are collected until they process this number of bytes, then given to a thread together."""
TASKS_AHEAD = 3
"""Number of waiting groups of tasks per job, which limits memory."""

Task = Callable[[], Any]


class Pipeline:
    """Takes tasks by `submit`, which yields the lists of results that are ready; `drain` yields the rest.

    With one job, tasks run in the calling thread. Use it as a context manager.
    """

    def __init__(self, jobs: int) -> None:
        self._pool = Threads(jobs, lambda: None) if jobs > 1 else None
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
        self._pending.append(self._pool.begin(lambda _: _done(tasks)))
        while len(self._pending) > self._max_pending:
            yield self._pending.popleft().result()


def _done(tasks: list[Task]) -> list[Any]:
    return [task() for task in tasks]


def usable_cores() -> int:
    """Returns the number of cores that the scheduler gives this process: the default of ``--jobs``."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


S = TypeVar("S")
T = TypeVar("T")


class Threads(Generic[S]):
    """``count`` threads. Use it as a context manager, or call `close`.

    ``make`` creates an object for each thread. Threads start with their first tasks.
    """

    def __init__(self, count: int, make: Callable[[], S]) -> None:
        self._count, self._make, self._own = count, make, local()
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> "Threads[S]":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Waits for running tasks; drops waiting ones."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def begin(self, work: Callable[[S], T]) -> "Future[T]":
        """Queues a task. Returns its future."""
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor  # 10 ms, and few commands start threads

            self._pool = ThreadPoolExecutor(self._count)
        return self._pool.submit(self._run, work)

    def _run(self, work: Callable[[S], T]) -> T:
        if not hasattr(self._own, "made"):
            self._own.made = self._make()
        return work(self._own.made)
