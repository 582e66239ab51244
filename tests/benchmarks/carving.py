"""Carving beside a loop that reads an image and takes its CRC32C: ``python -m benchmarks.carving`` in tests/.

The image has segments of one kind, each followed by random blocks, and a fifth of foreign bytes in all.
"""

import argparse
import random
import sys
import tempfile
from pathlib import Path

from benchmarks.process import spent
from benchmarks.segments import KINDS, SEEDS, grown

BLOCK = 4096
PIECE = 8 << 20


def image_of(segment: Path, image: Path, size: int) -> None:
    rng, data = random.Random(7), segment.read_bytes()
    with open(image, "wb") as out:
        while out.tell() < size:
            for start in range(0, len(data), PIECE):
                out.write(data[start : start + PIECE])
                out.write(bytes(-out.tell() % BLOCK))
                out.write(rng.randbytes(PIECE // 4))


def loop(image: str) -> None:
    from crc32c import crc32c

    crc = 0
    with open(image, "rb") as stream:
        while piece := stream.read(1 << 20):
            crc = crc32c(piece, crc)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.carving", description=__doc__)
    parser.add_argument("--mib", type=int, default=1024, help="size of the image (default: 1024)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds, of which the best counts (default: 5)")
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"out of {','.join(KINDS)}")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for kind in options.kinds.split(","):
            image = Path(folder, "disk.img")
            image_of(grown(SEEDS, kind, 64, Path(folder)), image, options.mib << 20)
            carve = [sys.executable, "-m", "kseg", "recover", "-q", "--carve", "-n", "--output", f"{folder}/out"]
            commands = {"kseg": carve, "loop": [sys.executable, "-m", "benchmarks.carving", "--loop"]}
            best = dict.fromkeys(commands, float("inf"))
            for _ in range(options.rounds):
                for name, command in commands.items():
                    best[name] = min(best[name], spent([*command, str(image)], int(name == "kseg"))[0])
            ratio = best["kseg"] / best["loop"]
            print(f"{kind}: kseg {best['kseg']:.2f} s, loop {best['loop']:.2f} s: {ratio:.2f} times", flush=True)


if __name__ == "__main__":
    loop(sys.argv[2]) if sys.argv[1:2] == ["--loop"] else main()
