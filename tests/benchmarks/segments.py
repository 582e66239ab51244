"""Segments of any size, grown from the real batches of testdata/speed and, where those are more telling, others."""

import json
import random
import subprocess
from pathlib import Path

from benchmarks.process import KSEG

KINDS = ("1k", "100b", "tiny", "lz4", "zstd", "offsets")
TESTDATA = Path(__file__).resolve().parent.parent.parent / "testdata"
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
    seed = bytearray(b"".join(part.read_bytes() for part in SEGMENTS.get(kind, [seeds / f"{kind}.log"])))
    places = batches(seed)
    next_offset = 0
    with path.open("wb") as out:
        while out.tell() < mib << 20:
            for position, _, offsets in places:
                seed[position : position + 8] = next_offset.to_bytes(8, "big")
                next_offset += offsets
            out.write(seed)
    return path


def batches(data: bytes | bytearray) -> list[tuple[int, int, int]]:
    """Position and bytes of each batch, and how many offsets it takes."""
    found, position = [], 0
    while position < len(data):
        size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        found.append((position, size, 1 + int.from_bytes(data[position + 23 : position + 27], "big")))
        position += size
    return found


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
