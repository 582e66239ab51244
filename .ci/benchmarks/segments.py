"""Segments of any size, grown from the real batches of testdata/speed and, where those are more telling, others."""

import json
import random
import subprocess
from pathlib import Path

from benchmarks.process import KSEG
from segment.long_log import repeated
from segment.segments import spans

KINDS = ("1k", "100b", "tiny", "lz4", "zstd", "offsets")
TESTDATA = Path(__file__).resolve().parents[2] / "testdata"
SEEDS = TESTDATA / "speed"
SEGMENTS = {"offsets": sorted(TESTDATA.glob("kafka-4.3.1/internal/__consumer_offsets-*/*.log"))}
"""Kinds that are grown from whole segments."""
FLAGS = {"offsets": ["--offsets-decoder"]}
"""What a dump of the kind is asked for besides keys and values; kafka-dump-log knows it by the same name."""


def grown(seeds: Path, kind: str, mib: int, folder: Path) -> Path:
    """A segment of at least ``mib`` MiB: the batches of one kind over and over, their base offsets rising."""
    path = folder / f"{kind}-{mib}" / f"{0:020}.log"
    if path.exists() and path.stat().st_size >= mib << 20:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    seed = b"".join(part.read_bytes() for part in SEGMENTS.get(kind, [seeds / f"{kind}.log"]))
    return repeated(seed, mib << 20, path)


def batches(data: bytes | bytearray) -> list[tuple[int, int, int]]:
    """Position and bytes of each batch, and how many offsets it takes."""
    return [(at, size, 1 + int.from_bytes(data[at + 23 : at + 27], "big")) for at, size in spans(data)]


def texts(chosen: random.Random, records: int, value_bytes: int, partition: Path, *options: str) -> None:
    """Makes a partition of topic t with values of random text, which halves by compression."""
    lines, made, number = partition.with_suffix(".jsonl"), partition.with_suffix(".made"), int(partition.name[2:])
    with lines.open("w", encoding="ascii") as file:
        for offset in range(records):
            row = {"type": "record", "topic": "t", "partition": number, "offset": offset, "timestamp": offset}
            value = chosen.randbytes(value_bytes // 2).hex()
            file.write(json.dumps({**row, "key": None, "value": value, "headers": []}) + "\n")
    command = [*KSEG, "convert", "--from", "jsonl", "--quiet", *options, "--output", str(made), str(lines)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    lines.unlink()
    (made / partition.name).rename(partition)
