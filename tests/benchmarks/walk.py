"""CRC and every record of a segment on one thread or several: ``python -m tests.benchmarks.walk FILE THREADS ROUNDS``.

Prints the seconds of the best round, and how many records were walked. The counterpart of Walk.java.
"""

import mmap
import os
import sys
from itertools import pairwise
from threading import Thread
from time import perf_counter

from kseg.formats.rows import Scratch
from kseg.kernel import frames
from kseg.kernel.guard import keep_freed_memory
from kseg.kernel.native import FRAME_MAGIC, FRAME_POSITION, FRAME_SIZE, FRAME_STATE, FRAME_WIDTH
from kseg.segment.batches import RecordBatch
from kseg.segment.windows import Windows


class Range:
    """A part of the file that starts and ends between two batches."""

    def __init__(self, descriptor: int, start: int, end: int) -> None:
        self.windows = Windows(descriptor, start, end)
        self.end = end
        self.opened = 0
        self.scratch = Scratch()

    def walk(self) -> None:
        for window, rows, count, origin in self.windows:
            states = rows[FRAME_STATE : count * FRAME_WIDTH : FRAME_WIDTH].tolist()
            if states.count(frames.CRC_RIGHT | frames.RECORDS_RIGHT) == count:
                continue
            for i, state in enumerate(states):
                if not state & frames.RECORDS_RIGHT:
                    self._open(window, rows[i * FRAME_WIDTH : (i + 1) * FRAME_WIDTH], origin)

    def _open(self, window: memoryview, row: memoryview, origin: int) -> None:
        position, size = row[FRAME_POSITION], row[FRAME_SIZE]
        data = window[position : position + size]
        batch = RecordBatch(data, origin + position, size, row[FRAME_MAGIC], True, self.scratch)
        if batch.check():
            raise SystemExit(f"a batch at {origin + position} is not right: {batch.check()}")
        self.opened += batch.header.record_count

    @property
    def records(self) -> int:
        return self.windows.records + self.opened


def boundaries(descriptor: int, size: int, parts: int) -> list[int]:
    """Where batches begin that cut the file in ``parts``, and its end."""
    state, table = memoryview(bytearray(8 * frames.STATE_SIZE)).cast("q"), memoryview(bytearray(4)).cast("I")
    state[2] = -1
    with mmap.mmap(descriptor, size, access=mmap.ACCESS_READ) as mapping:
        starts = [size * k // parts for k in range(1, parts)]
        inner = [frames.find(mapping, start, size, size, False, table, table, state) for start in starts]
    return [0, *inner, size]


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
