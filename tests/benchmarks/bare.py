"""A pass that only reads a file and takes its CRC-32C: ``python -m benchmarks.bare FILE WHOSE ROUNDS``.

WHOSE is ``kseg`` or ``package``, the crc32c package. Prints the processor's seconds of the best round, and bytes.
"""

import os
import sys
from time import process_time

WINDOW_BYTES = 1 << 19


def one_round(path: str, whose: str) -> tuple[float, int]:
    if whose == "kseg":
        from kseg.kernel.scan.checksums import crc32c
    else:
        from crc32c import crc32c
    start, crc, position = process_time(), 0, 0
    descriptor, window = os.open(path, os.O_RDONLY), memoryview(bytearray(WINDOW_BYTES))
    while filled := os.preadv(descriptor, [window], position):
        crc = crc32c(window[:filled], crc)
        position += filled
    os.close(descriptor)
    return process_time() - start, position


if __name__ == "__main__":
    file, checksum, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
    print(*min(one_round(file, checksum) for _ in range(rounds)))
