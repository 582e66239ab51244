"""What a recompression costs at the least: ``python -m benchmarks.codecs FILE CODEC OUTPUT [THREADS]``.

Reads a v2 segment, hands each record area to the codec's library and back to another, and writes what comes out. No
checksum is computed or compared and no header made. Of several threads each does all of it for itself: twice the time
of one, divided by that of two, is what the machine has to give where nobody waits for anybody.
"""

import sys
from pathlib import Path
from threading import Thread

from kseg.formats.compressing import compress, parse_target
from kseg.formats.compression import decompress

HEADER_BYTES = 61
LARGEST = 1 << 28


def recompress(path: Path, codec: str, output: Path) -> None:
    """A batch at a time, so that no page of memory is touched for the first time but by the codecs."""
    target = parse_target(codec)
    with path.open("rb", buffering=1 << 20) as source, output.open("wb", buffering=1 << 20) as out:
        while header := source.read(HEADER_BYTES):
            area = source.read(int.from_bytes(header[8:12], "big") + 12 - HEADER_BYTES)
            out.write(header)
            out.write(compress(target, decompress(header[22] & 7, area, 2, LARGEST)))


def main(path: str, codec: str, output: str, threads: int = 1) -> None:
    outputs = [Path(f"{output}.{i}" if i else output) for i in range(threads)]
    running = [Thread(target=recompress, args=(Path(path), codec, each)) for each in outputs]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    for each in outputs[1:]:
        each.unlink()


if __name__ == "__main__":
    main(*sys.argv[1:4], *map(int, sys.argv[4:]))
