"""A pass of the segment reader over any file, intact or wrecked: ``python -m benchmarks.runs FILE ROUNDS``.

Prints the processor's seconds of the best round, and how many batches and ranges of damage there are.
"""

import sys
from time import process_time

from kseg.segment.items import Damage
from kseg.segment.reader import SegmentReader
from kseg.stores.source import open_source


def one_round(path: str) -> tuple[float, int]:
    start = process_time()
    with open_source(path) as source:
        runs = SegmentReader(source, is_07=path.endswith(".kafka")).runs()
        items = sum(1 if isinstance(item, Damage) else item.count for item in runs)
    return process_time() - start, items


if __name__ == "__main__":
    file, rounds = sys.argv[1], int(sys.argv[2])
    print(*min(one_round(file) for _ in range(rounds)))
