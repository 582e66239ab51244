"""Carving beside a loop that reads an image and takes its CRC32C: ``python -m benchmarks.carving``.

The image has a log of one kind in pieces of 8 MiB, each followed by random blocks, a fifth of the image in all. With a
smaller ``--log-mib``, the log is there several times: copies are compared byte for byte, as well.
"""

import random
import sys
import tempfile
from pathlib import Path

from benchmarks.process import KSEG, best_spent, parser_of
from benchmarks.segments import KINDS, SEEDS, grown

BLOCK = 4096
PIECE = 8 << 20
LOOP = """
import sys
from crc32c import crc32c
crc = 0
with open(sys.argv[1], "rb") as stream:
    while piece := stream.read(1 << 20):
        crc = crc32c(piece, crc)
"""


def image_of(segment: Path, image: Path, size: int) -> None:
    rng, data = random.Random(7), segment.read_bytes()
    with open(image, "wb") as out:
        while out.tell() < size:
            for start in range(0, len(data), PIECE):
                out.write(data[start : start + PIECE])
                out.write(bytes(-out.tell() % BLOCK))
                out.write(rng.randbytes(PIECE // 4))


def main() -> None:
    parser = parser_of(__doc__, 1024, 5, KINDS)
    parser.add_argument("--log-mib", type=int, default=0, help="size of the log (default: that of the image)")
    options = parser.parse_args()
    log_mib = options.log_mib or options.mib * 4 // 5
    with tempfile.TemporaryDirectory() as folder:
        image = f"{folder}/disk.img"
        for kind in options.kinds.split(","):
            image_of(grown(SEEDS, kind, log_mib, Path(folder)), Path(image), options.mib << 20)
            carve = [*KSEG, "carve", "-q", "-n", "--output", f"{folder}/out", image]
            commands = {"kseg": carve, "loop": [sys.executable, "-c", LOOP, image]}
            best = best_spent(commands, options.rounds, statuses={"kseg": 1})
            for what, ours, others in zip(("", " of the processor"), best["kseg"], best["loop"], strict=True):
                print(f"{kind}: kseg {ours:.2f} s{what}, loop {others:.2f} s: {ours / others:.2f} times", flush=True)


if __name__ == "__main__":
    main()
