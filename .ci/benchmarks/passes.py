"""One pass over a file: ``python -m benchmarks.passes bare|runs FILE ROUNDS``.

``bare`` reads it and takes its CRC-32C with the crc32c package; ``runs`` is that of the segment reader, over any file,
intact or wrecked. Prints the processor's seconds of the best round, and how many bytes, or batches and ranges of
damage, there are.
"""

import os
import sys
from time import process_time

WINDOW_BYTES = 1 << 19


def bare(path: str) -> int:
    from crc32c import crc32c

    crc, position = 0, 0
    descriptor, window = os.open(path, os.O_RDONLY), memoryview(bytearray(WINDOW_BYTES))
    while filled := os.preadv(descriptor, [window], position):
        crc = crc32c(window[:filled], crc)
        position += filled
    os.close(descriptor)
    return position


def runs(path: str) -> int:
    from kseg.segment.items import Damage
    from kseg.segment.reader import SegmentReader
    from kseg.stores.source import open_source

    with open_source(path) as source:
        found = SegmentReader(source, is_07=path.endswith(".kafka")).runs()
        return sum(1 if isinstance(item, Damage) else item.count for item in found)


def timed_once(kind: str, path: str) -> tuple[float, int]:
    start = process_time()
    count = {"bare": bare, "runs": runs}[kind](path)
    return process_time() - start, count


if __name__ == "__main__":
    kind, file, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
    print(*min(timed_once(kind, file) for _ in range(rounds)))
