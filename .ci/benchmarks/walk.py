"""CRC and every record of a segment: ``python -m benchmarks.walk FILE ROUNDS THREADS...``.

Counts of threads take turns in one process. Prints the seconds of the best round of each, then how much as many forked
processes gain that have nothing in common, and how many records were walked. The counterpart of Walk.java.
"""

import os
import sys
from collections.abc import Callable
from functools import partial
from time import perf_counter

from kseg.kernel.files.system import keep_freed_memory
from kseg.kernel.layout.rows import (
    BATCH_COUNT,
    BATCH_WIDTH,
    FRAME_POSITION,
    FRAME_SIZE,
    FRAME_STATE,
    FRAME_WIDTH,
    RECORDS_RIGHT,
)
from kseg.segment.items import RecordBatch
from kseg.segment.slices import in_parts
from kseg.stores.extent import Extent
from kseg.stores.windows import Buffers, Windows, next_frame


class Walker:
    """What one thread needs for any number of parts of a file."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffers = Buffers()

    def walk(self, start: int, end: int) -> tuple[int, int]:
        """Where the batches from ``start`` on that are intact end, and how many records they hold."""
        windows, records = Windows(Extent(self._descriptor), start, end, buffers=self._buffers), 0
        for headers, batches, unproven in windows.headers(partial(self._buffers.int64s, "headers")):
            records += sum(headers[BATCH_COUNT : batches * BATCH_WIDTH : BATCH_WIDTH])
            if unproven is None:
                continue
            window, rows, count, origin = unproven
            for i in range(count):
                row = rows[i * FRAME_WIDTH : (i + 1) * FRAME_WIDTH]
                if not row[FRAME_STATE] & RECORDS_RIGHT:
                    self._open(window[row[FRAME_POSITION] : row[FRAME_POSITION] + row[FRAME_SIZE]], origin)
        return windows.position, records

    def _open(self, data: memoryview, origin: int) -> None:
        batch = RecordBatch(data, origin, len(data), data[16], True, self._buffers.scratch)
        if batch.check():
            raise SystemExit(f"a batch behind {origin} is not right: {batch.check()}")


class Walks:
    """A file, walked again and again by up to so many threads, whose buffers stay."""

    def __init__(self, path: str, most_threads: int) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)
        self._size = os.fstat(self._descriptor).st_size
        self._walkers = [Walker(self._descriptor) for _ in range(most_threads)]

    def once(self, threads: int) -> tuple[float, int]:
        """(seconds, records) of one round."""
        start = perf_counter()
        if threads == 1:
            ends, counts = zip(self._walkers[0].walk(0, self._size), strict=True)
        else:
            free = list(self._walkers)

            def next_walk() -> Callable[[int, int], tuple[int, int]]:
                return free.pop().walk

            ends, counts = zip(*in_parts(Extent(self._descriptor), 0, self._size, threads, next_walk), strict=True)
        seconds = perf_counter() - start
        if ends[-1] != self._size:
            raise SystemExit(f"not intact from {ends[-1]} on")
        return seconds, sum(counts)


class Shares:
    """Forked processes, each with a share of the file that begins with a batch: no lock of Python's is between them."""

    def __init__(self, path: str, count: int) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        size = os.fstat(descriptor).st_size
        cuts = [next_frame(Extent(descriptor), size * k // count, size) for k in range(1, count)]
        ends = [0, *cuts, size]
        self._pipes = [self._fork(descriptor, ends[k], ends[k + 1]) for k in range(count)]

    def _fork(self, descriptor: int, start: int, end: int) -> tuple[int, int]:
        orders, order = os.pipe()
        done, answer = os.pipe()
        if os.fork():
            os.close(orders)
            return order, done
        os.close(order)
        walker = Walker(descriptor)
        while os.read(orders, 1):
            walker.walk(start, end)
            os.write(answer, b".")
        os._exit(0)

    def once(self) -> float:
        """Seconds of one round."""
        start = perf_counter()
        for order, _ in self._pipes:
            os.write(order, b".")
        for _, done in self._pipes:
            os.read(done, 1)
        return perf_counter() - start


def main(path: str, rounds: int, threads: list[int]) -> None:
    keep_freed_memory()
    most = max(threads)
    shares, walks = Shares(path, most), Walks(path, most)
    found, shared = [], []
    for _ in range(rounds):
        found.append([walks.once(count) for count in threads])
        if most > 1:
            shared.append(shares.once())
    (records,) = {records for turn in found for _, records in turn}
    best = [min(seconds for seconds, _ in turns) for turns in zip(*found, strict=True)]
    print(*best, best[0] / min(shared) if most > 1 else 1, records)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), [int(count) for count in sys.argv[3:]])
