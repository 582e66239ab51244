"""Processes the windows of a segment in several threads, with results in order; kernel and codecs release the GIL."""

from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import TypeVar

from kseg.cleaner.opening import RecordBuffers
from kseg.cleaner.reading import Window
from kseg.kernel import COMPILED
from kseg.runtime.threads import TASK_BYTES, Pipeline

OUT_BYTES = 2 << 20
LARGE_BYTES = 4 << 20
"""A window of at least this size, such as one large batch, is processed alone to bound memory."""

T = TypeVar("T")


class CleaningThreads:
    """``buffers``: the buffers of the only thread if `is_alone`; otherwise each thread has its own."""

    def __init__(self, jobs: int) -> None:
        jobs = jobs if COMPILED else 1
        self.buffers = [RecordBuffers(OUT_BYTES) for _ in range(jobs)]
        self._idle: SimpleQueue[RecordBuffers] = SimpleQueue()
        for buffers in self.buffers:
            self._idle.put(buffers)
        self._pipeline = Pipeline(jobs)

    @property
    def is_alone(self) -> bool:
        return len(self.buffers) == 1

    def submit(self, window: Window, work: Callable[[RecordBuffers, Window], T]) -> Iterator[T]:
        """Yields results that are ready, in window order. The caller may overwrite the window afterwards."""
        if window.size >= LARGE_BYTES:
            yield from self.drain()
            yield self._done(window, work)
            return
        kept = window.copy()
        for results in self._pipeline.submit(lambda: self._done(kept, work), TASK_BYTES):
            yield from results

    def drain(self) -> Iterator[T]:
        """Yields all remaining results."""
        for results in self._pipeline.drain():
            yield from results

    def _done(self, window: Window, work: Callable[[RecordBuffers, Window], T]) -> T:
        buffers = self._idle.get()
        try:
            return work(buffers, window)
        finally:
            self._idle.put(buffers)

    def close(self) -> None:
        """Waits for running work; cancels the rest."""
        self._pipeline.__exit__()
