"""A few threads that work on what they are given, in its order.

Those of `concurrent.futures` take a tenth of kseg's start to import.
"""

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

S = TypeVar("S")
T = TypeVar("T")


class Outcome(Generic[T]):
    """What comes of a piece of work."""

    def __init__(self) -> None:
        self._outcome: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()

    def work(self, work: Callable[[S], T], own: S) -> None:
        try:
            self._outcome.put((work(own), None))
        except BaseException as error:  # noqa: BLE001 - raised again by who waits for the result
            self._outcome.put((None, error))

    def result(self) -> T:
        """Waits for it, once. Raises what the work raised."""
        found, error = self._outcome.get()
        if error is not None:
            raise error
        return found  # type: ignore[return-value]


class Threads(Generic[S]):
    """``count`` threads, each with something of its own that ``make`` gives, until `close` or as long as the context
    lasts. They start with the first piece of work."""

    def __init__(self, count: int, make: Callable[[], S]) -> None:
        self._count, self._make = count, make
        self._waiting: SimpleQueue[tuple[Outcome[Any], Callable[[S], Any]] | None] = SimpleQueue()
        self._is_over = False
        self._threads: list[threading.Thread] = []

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
        if not self._threads:
            self._threads = [
                threading.Thread(target=self._run, args=(self._make(),), daemon=True) for _ in range(self._count)
            ]
            for thread in self._threads:
                thread.start()
        outcome: Outcome[T] = Outcome()
        self._waiting.put((outcome, work))
        return outcome

    def _run(self, own: S) -> None:
        while (waiting := self._waiting.get()) is not None:
            outcome, work = waiting
            if not self._is_over:
                outcome.work(work, own)
