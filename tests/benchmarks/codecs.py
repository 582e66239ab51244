"""What a recompression costs at the least: ``python -m tests.benchmarks.codecs FILE CODEC OUTPUT``.

Reads a v2 segment, hands each record area to the codec's library and back to another, and writes what comes out. No
checksum is computed or compared and no header made.
"""

import sys
from pathlib import Path

from kseg.formats.compressing import compress, parse_target
from kseg.formats.compression import decompress
from tests.benchmarks.segments import batches

HEADER_BYTES = 61
LARGEST = 1 << 28


def recompress(path: Path, codec: str, output: Path) -> None:
    data = path.read_bytes()
    view = memoryview(data)
    target = parse_target(codec)
    with output.open("wb") as out:
        for position, size, _ in batches(data):
            area = view[position + HEADER_BYTES : position + size]
            records = decompress(data[position + 22] & 7, area, 2, LARGEST)
            out.write(view[position : position + HEADER_BYTES])
            out.write(compress(target, records))


if __name__ == "__main__":
    recompress(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
