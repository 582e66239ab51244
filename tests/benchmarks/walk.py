"""CRC and every record of a segment on one thread or several: ``python -m tests.benchmarks.walk FILE THREADS ROUNDS``.

Prints the seconds of the best round, and how many records were walked. The counterpart of Walk.java.
"""

import os
import sys
from itertools import pairwise
from threading import Thread
from time import perf_counter

from kseg.formats.rows import Scratch
from kseg.kernel import frames
from kseg.kernel.guard import keep_freed_memory
from kseg.kernel.native import FRAME_POSITION, FRAME_SIZE, FRAME_STATE, FRAME_WIDTH
from kseg.segment.batches import RecordBatch
from kseg.segment.windows import Windows, next_frame


class Range:
    """A part of the file that starts and ends between two batches."""

    def __init__(self, descriptor: int, start: int, end: int) -> None:
        self.windows = Windows(descriptor, start, end)
        self.end = end
        self._opened = 0
        self._scratch = Scratch()

    def walk(self) -> None:
        for window, rows, count, origin in self.windows:
            for i in range(count) if self.windows.left else ():
                row = rows[i * FRAME_WIDTH : (i + 1) * FRAME_WIDTH]
                if not row[FRAME_STATE] & frames.RECORDS_RIGHT:
                    self._open(window[row[FRAME_POSITION] : row[FRAME_POSITION] + row[FRAME_SIZE]], origin)

    def _open(self, data: memoryview, origin: int) -> None:
        batch = RecordBatch(data, origin, len(data), data[16], True, self._scratch)
        if batch.check():
            raise SystemExit(f"a batch behind {origin} is not right: {batch.check()}")
        self._opened += batch.header.record_count

    @property
    def records(self) -> int:
        return self.windows.records + self._opened


def boundaries(descriptor: int, size: int, parts: int) -> list[int]:
    """Where batches begin that cut the file in ``parts``, and its end."""
    return [0, *(next_frame(descriptor, size * k // parts, size) for k in range(1, parts)), size]


def one_round(path: str, threads: int) -> tuple[float, int]:
    start = perf_counter()
    descriptor = os.open(path, os.O_RDONLY)
    ends = boundaries(descriptor, os.fstat(descriptor).st_size, threads)
    ranges = [Range(descriptor, *pair) for pair in pairwise(ends)]
    others = [Thread(target=part.walk) for part in ranges[1:]]
    for thread in others:
        thread.start()
    ranges[0].walk()
    for thread in others:
        thread.join()
    os.close(descriptor)
    seconds = perf_counter() - start
    if any(part.windows.position != part.end for part in ranges):
        raise SystemExit(f"{path}: not all of it is intact")
    return seconds, sum(part.records for part in ranges)


if __name__ == "__main__":
    keep_freed_memory()
    file, thread_count, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    best, walked = min(one_round(file, thread_count) for _ in range(rounds))
    print(best, walked)
