"""A few threads that work on what they are given, in its order. Who waits for a result works with them meanwhile: one
thread more than processors would take turns with the others, and wait for Python's lock behind them.

Those of `concurrent.futures` take a tenth of kseg's start to import.
"""

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

S = TypeVar("S")
T = TypeVar("T")


class Outcome(Generic[T]):
    """What comes of a piece of work. ``work_meanwhile`` does another piece that nobody has begun: was there one?"""

    def __init__(self, work_meanwhile: Callable[[], bool]) -> None:
        self._work_meanwhile = work_meanwhile
        self._outcome: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()

    def work(self, work: Callable[[S], T], own: S) -> BaseException | None:
        """Does it; what it raised, which waits for who asks for the result."""
        try:
            self._outcome.put((work(own), None))
        except BaseException as error:  # noqa: BLE001 - raised again by who waits for the result
            self._outcome.put((None, error))
            return error
        return None

    def result(self) -> T:
        """Waits for it, once. Raises what the work raised."""
        while self._outcome.empty() and self._work_meanwhile():
            pass
        found, error = self._outcome.get()
        if error is not None:
            raise error
        return found  # type: ignore[return-value]


class Threads(Generic[S]):
    """``count`` threads, the one that asks for results among them, until `close` or as long as the context lasts.

    Each has something of its own that ``make`` gives. They start with the first piece of work.
    """

    def __init__(self, count: int, make: Callable[[], S]) -> None:
        self._count, self._make = count, make
        self._waiting: SimpleQueue[tuple[Outcome[Any], Callable[[S], Any]] | None] = SimpleQueue()
        self._is_over = False
        self._threads: list[threading.Thread] = []
        self._own: list[S] = []

    def __enter__(self) -> "Threads[S]":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Waits for what is worked on. What was not begun is dropped."""
        self._is_over = True
        for _thread in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def begin(self, work: Callable[[S], T]) -> Outcome[T]:
        """Has it done when a thread is free."""
        if not self._own:
            self._own.append(self._make())
            self._threads = [
                threading.Thread(target=self._run, args=(self._make(),), daemon=True) for _ in range(self._count - 1)
            ]
            for thread in self._threads:
                thread.start()
        outcome: Outcome[T] = Outcome(self._work_meanwhile)
        self._waiting.put((outcome, work))
        return outcome

    def _work_meanwhile(self) -> bool:
        try:
            waiting = self._waiting.get_nowait()
        except Empty:
            return False
        if waiting is None:
            return False
        outcome, work = waiting
        error = outcome.work(work, self._own[0])
        if error is not None and not isinstance(error, Exception):
            raise error  # Ctrl-C is not the work's
        return True

    def _run(self, own: S) -> None:
        while (waiting := self._waiting.get()) is not None:
            outcome, work = waiting
            if not self._is_over:
                outcome.work(work, own)
