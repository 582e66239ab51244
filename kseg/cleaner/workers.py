"""Windows of a segment worked on by several threads, as kernel and codecs run without the GIL; results keep order."""

from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import TypeVar

from kseg.cleaner.opening import RecordRooms
from kseg.cleaner.reading import Window
from kseg.kernel.keys import COMPILED
from kseg.segment.pipeline import TASK_BYTES, Pipeline

OUT_BYTES = 2 << 20
LARGE_BYTES = 4 << 20
"""A window of so many bytes, such as one large batch, is worked on alone: memory holds one of them."""

T = TypeVar("T")


class Workers:
    """``rooms``: those of the only thread where `is_alone`, else one for each."""

    def __init__(self, jobs: int) -> None:
        jobs = jobs if COMPILED else 1
        self.rooms = [RecordRooms(OUT_BYTES) for _ in range(jobs)]
        self._idle: SimpleQueue[RecordRooms] = SimpleQueue()
        for rooms in self.rooms:
            self._idle.put(rooms)
        self._pipeline = Pipeline(jobs)

    @property
    def is_alone(self) -> bool:
        return len(self.rooms) == 1

    def submit(self, window: Window, work: Callable[[RecordRooms, Window], T]) -> Iterator[T]:
        """Results that are ready, in the order of windows. The window may be written over afterwards."""
        if window.size >= LARGE_BYTES:
            yield from self.drain()
            yield self._done(window, work)
            return
        kept = window.copy()
        for results in self._pipeline.submit(lambda: self._done(kept, work), TASK_BYTES):
            yield from results

    def drain(self) -> Iterator[T]:
        """All results that are left."""
        for results in self._pipeline.drain():
            yield from results

    def _done(self, window: Window, work: Callable[[RecordRooms, Window], T]) -> T:
        rooms = self._idle.get()
        try:
            return work(rooms, window)
        finally:
            self._idle.put(rooms)

    def close(self) -> None:
        """Waits for what is running; the rest is given up."""
        self._pipeline.__exit__()
