"""``kseg verify`` of archives against the plain files and the bare decompressors: ``python -m benchmarks.archives``.

All take turns in one run; the best processor time of each counts. Values are random text, which halves by compression.
"""

import gzip
import random
import sys
import tarfile
import tempfile
from pathlib import Path

import zstandard

from benchmarks.process import KSEG, best_spent
from benchmarks.segments import texts

ROUNDS = 3
PARTITIONS, RECORDS, VALUE_BYTES = 4, 80_000, 2000
COPIES = 4
"""So many times as large is the other .tar.zst: the start of kseg counts less there."""

BARE_ZSTD = """
import sys, zstandard
into = bytearray(1 << 20)
with open(sys.argv[1], "rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as reader:
    while reader.readinto(into):
        pass
"""
BARE_GZIP = """
import gzip, sys
with gzip.open(sys.argv[1]) as file:
    while file.read(1 << 20):
        pass
"""


def build(folder: Path) -> None:
    """A log directory, as a tar file, as .tar.zst, and one of its segments as .log.gz."""
    chosen = random.Random(1)
    (folder / "logs").mkdir()
    for number in range(PARTITIONS):
        texts(chosen, RECORDS, VALUE_BYTES, folder / "logs" / f"t-{number}")
    with tarfile.open(folder / "logs.tar", "w") as tar:
        tar.add(folder / "logs", "logs")
    packer = zstandard.ZstdCompressor(level=3)
    with (folder / "logs.tar").open("rb") as plain, (folder / "logs.tar.zst").open("wb") as packed:
        packer.copy_stream(plain, packed)
    with (
        (folder / "large.tar.zst").open("wb") as packed,
        packer.stream_writer(packed) as stream,
        tarfile.open(fileobj=stream, mode="w|") as tar,
    ):
        for number in range(PARTITIONS * COPIES):
            tar.add(folder / "logs" / f"t-{number % PARTITIONS}", f"logs/t-{number}")
    (segment,) = (folder / "logs" / "t-0").glob("*.log")
    (folder / f"{segment.name}.gz").write_bytes(gzip.compress(segment.read_bytes(), 1))


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder)
        (packed,) = folder.glob("*.log.gz")
        verify = [*KSEG, "verify", "--quiet"]
        commands = {
            "start": [sys.executable, "-c", "pass"],
            "start of kseg": [*verify, str(next((folder / "logs" / "t-0").glob("*.index")))],
            "plain segment": [*verify, str(next((folder / "logs" / "t-0").glob("*.log")))],
            "plain files": [*verify, str(folder / "logs")],
            "tar": [*verify, str(folder / "logs.tar")],
            "bare zstd": [sys.executable, "-c", BARE_ZSTD, str(folder / "logs.tar.zst")],
            "tar.zst": [*verify, str(folder / "logs.tar.zst")],
            "bare large zstd": [sys.executable, "-c", BARE_ZSTD, str(folder / "large.tar.zst")],
            "large tar.zst": [*verify, str(folder / "large.tar.zst")],
            "bare gzip": [sys.executable, "-c", BARE_GZIP, str(packed)],
            "log.gz": [*verify, str(packed)],
        }
        best = {what: processor for what, (_, processor) in best_spent(commands, ROUNDS).items()}
        for what, seconds in best.items():
            print(f"{what:15} {seconds:6.2f} s of a processor")
        for what, base in (
            ("tar", "plain files"),
            ("tar.zst", "bare zstd"),
            ("large tar.zst", "bare large zstd"),
            ("log.gz", "bare gzip"),
        ):
            print(f"{what} is {best[what] / best[base]:.2f} times {base}")
        per_byte = (best["large tar.zst"] - best["tar.zst"]) / (best["bare large zstd"] - best["bare zstd"])
        print(f"each byte more of a tar.zst takes {per_byte:.2f} times bare zstd")
        for base, plain in (("bare zstd", "plain files"), ("bare gzip", "plain segment")):
            apart = best[base] - best["start"] + best[plain]
            print(f"{base} and verify of {plain}, one after the other, are {apart / best[base]:.2f} times {base}")


if __name__ == "__main__":
    main()
