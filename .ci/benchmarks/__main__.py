"""Speed of kseg beside Kafka's own tools: ``python -m benchmarks``.

Every number is the best of some rounds, in which all programs take turns; only the ratios mean something elsewhere.
"""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.peers import PeerError, Peers
from benchmarks.process import KSEG, best, parser_of, printed, spent, timed
from benchmarks.recoveries import Recoveries, Taken
from benchmarks.segments import FLAGS, KINDS, SEEDS, grown
from benchmarks.small import directory
from benchmarks.wreckage import WRECKS, wrecked

DUMP = [*KSEG, "dump", "--deep-iteration", "--print-data-log"]
VERIFY = [*KSEG, "verify", "--quiet"]
LOOP = [sys.executable, "-m", "benchmarks.small"]
SMALL = ((1, 2000, "1k", 2), (100, 20, "1k", 2), (2000, 1, "1k", 2), (1, 2000, "tiny", 20))
"""Partitions, segments in each, and the kind and number of their batches."""
WALK = [sys.executable, "-m", "benchmarks.walk"]
PASSES = [sys.executable, "-m", "benchmarks.passes"]
FULL = [*VERIFY, "--level", "full", "--jobs", "1"]
WRECK_KINDS = ("1k", "tiny")
PARTS = ("walk", "dump", "verify", "recover", "start", "wreck")
WALK_ROUNDS, WARM_ROUNDS = 8, 8

Measure = Callable[[], float]


def arguments() -> argparse.Namespace:
    parser = parser_of(__doc__, 256, kinds=KINDS)
    parser.add_argument("--only", default=",".join(PARTS), help="parts (default: all)")
    parser.add_argument("--seeds", type=Path, default=SEEDS, help="folder of the batches to grow from")
    return parser.parse_args()


def row(*cells: object) -> None:
    shown = [f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in cells]
    print(f"| {' | '.join(shown)} |", flush=True)


def head(*cells: str) -> None:
    print()
    row(*cells)
    row(*["---"] * len(cells))


def walks(files: dict[str, Path], peers: Peers | None, rounds: int) -> None:
    """CRC and walk of every record, process start taken off."""
    print("\nCRC and all records, warm (kseg / Kafka's MemoryRecords over a mapping)")
    head(
        "input",
        "1 thread, GB/s",
        "Java, GB/s",
        "1 thread : Java",
        "2 threads : 1",
        "2 processes : 1",
    )
    for kind, path in files.items():
        one, two, java, forked = float("inf"), float("inf"), float("inf" if peers else "nan"), 0.0
        for _ in range(rounds):
            alone, both, processes, records = printed([*WALK, str(path), str(WALK_ROUNDS), "1", "2"])
            one, two = min(one, alone), min(two, both)
            forked = max(forked, processes)
            if peers:
                seconds, walked = printed(peers.walk(path, WARM_ROUNDS))
                java = min(java, seconds)
                if walked != records:
                    raise SystemExit(f"{path}: kseg walks {records} records, Kafka {walked}")
        size = path.stat().st_size / 1e9
        row(kind, size / one, size / java, java / one, one / two, forked)


def dumps(files: dict[str, Path], peers: Peers | None, rounds: int) -> None:
    """Whole processes that print all records to nowhere, those of internal topics decoded."""
    print("\ndump --deep-iteration --print-data-log, whole process (kafka-dump-log's class : kseg)")
    head("input", "text, s", "JSON, s", "Kafka, s", "Kafka : text", "Kafka : JSON", "anonymous MiB")
    for kind, path in files.items():
        peaks, flags = [0], FLAGS.get(kind, [])

        def seconds(command: list[str], peaks: list[int] = peaks) -> float:
            taken, peak = timed(command)
            peaks.append(peak)
            return taken

        measures: dict[str, Measure] = {
            "text": lambda path=path, flags=flags: seconds([*DUMP, *flags, str(path)]),
            "json": lambda path=path, flags=flags: seconds([*DUMP, *flags, "--format", "json", str(path)]),
        }
        if peers:
            measures["java"] = lambda path=path, flags=flags: timed(peers.dump(path, *flags))[0]
        found = best(measures, rounds)
        java = found.get("java", float("nan"))
        row(kind, found["text"], found["json"], java, java / found["text"], java / found["json"], max(peaks) >> 20)


def verifies(folder: Path, seeds: Path, rounds: int) -> None:
    """Whole processes over 2,000 segments of 32 or 3 KiB, which are in memory."""
    print("\nverify of small segments, whole process (kseg : a Python loop that reads and checks each)")
    head("partitions x segments x batches", "loop, s", "kseg, s", "kseg : loop", "kseg with one process : loop")
    for partitions, segments, kind, batches_each in SMALL:
        root = str(directory(seeds, partitions, segments, folder, kind, batches_each))
        found = best(
            {
                "loop": lambda root=root: timed([*LOOP, root])[0],
                "kseg": lambda root=root: timed([*VERIFY, root])[0],
                "one": lambda root=root: timed([*VERIFY, "--jobs", "1", root])[0],
            },
            3 * rounds,
        )
        one, ratio = found["one"] / found["loop"], found["kseg"] / found["loop"]
        row(f"{partitions} x {segments} x {batches_each}", found["loop"], found["kseg"], ratio, one)


def recoveries(files: dict[str, Path], peers: Peers | None, rounds: int) -> None:
    """Whole processes, and Kafka's method in a JVM that is warm: the second recovery of the segment and later ones."""
    print("\nrecover and reindex, planned (seconds and, behind the slash, the processor's)")
    head("input", "verify", "recover", "reindex", "Kafka, warm", "Kafka, process", "recover : verify",
         "reindex : verify", "warm : recover", "process : recover")  # fmt: skip
    for kind, path in files.items():
        runs = Recoveries(path, KSEG, peers)
        measures = [runs.verify, runs.recover, runs.reindex, runs.kafka_warm, runs.kafka]
        found: list[Taken] = [(float("inf"), float("inf"))] * len(measures)
        for _ in range(rounds):
            found = [_least(known, measure()) for known, measure in zip(found, measures, strict=True)]
        verify, recover, reindex, warm, process = found
        pairs = ((recover, verify), (reindex, verify), (warm, recover), (process, recover))
        ratios = ["/".join(f"{a / b:.2f}" for a, b in zip(left, right, strict=True)) for left, right in pairs]
        row(kind, *("/".join(f"{seconds:.2f}" for seconds in taken) for taken in found), *ratios)


def _least(one: Taken, other: Taken) -> Taken:
    return min(one[0], other[0]), min(one[1], other[1])


def full_passes(files: dict[str, Path], folder: Path, rounds: int) -> None:
    """Level full does no less than read a file and take its CRCs; its start is that over the first batch alone."""
    print("\nverify --level full of one segment (processor time, start taken off), beside a bare pread and CRC pass")
    head("input", "bare, crc32c, s", "full, s", "crc32c : full")
    first = folder / "first" / f"{0:020}.log"
    first.parent.mkdir(parents=True, exist_ok=True)
    for kind, path in files.items():
        with path.open("rb") as file:
            size = 12 + int.from_bytes(file.read(12)[8:], "big")
            file.seek(0)
            first.write_bytes(file.read(size))
        found = best(
            {
                "bare": lambda path=path: printed([*PASSES, "bare", str(path), "1"])[0],
                "start": lambda: spent([*FULL, str(first)])[1],
                "full": lambda path=path: spent([*FULL, str(path)])[1],
            },
            2 * rounds,
        )
        full = found["full"] - found["start"]
        row(kind, found["bare"], full, found["bare"] / full)


def starts(folder: Path, seeds: Path, rounds: int) -> None:
    small = folder / "small" / f"{0:020}.log"
    small.parent.mkdir(parents=True, exist_ok=True)
    small.write_bytes((seeds / "tiny.log").read_bytes()[:340])
    found = best(
        {
            "click": lambda: timed([sys.executable, "-c", "import click"])[0],
            "help": lambda: timed([*KSEG, "--help"])[0],
            "small": lambda: timed([*DUMP, str(small)])[0],
        },
        5 * rounds,
    )
    head("start", "ms", ": python -c 'import click'")
    row("python -c 'import click'", 1000 * found["click"], 1.0)
    row("kseg --help", 1000 * found["help"], found["help"] / found["click"])
    row("kseg dump of 340 bytes", 1000 * found["small"], found["small"] / found["click"])


def wrecks(folder: Path, seeds: Path, files: dict[str, Path], mib: int, rounds: int) -> None:
    """The processor's time that the reader takes over wreckage; an input is made, read and removed.

    Each takes turns with the intact segment: others who use the machine's memory slow both of them down.
    """
    print("\nthe reader over wrecked segments (processor time : that of the intact segment)")
    head("input", "wreck", "intact, s", "wreck, s", "wreck : intact")
    for kind in [kind for kind in WRECK_KINDS if kind in files]:
        for wreck in WRECKS:
            path = wrecked(seeds, kind, wreck, mib, folder)
            found = best(
                {
                    "intact": lambda path=files[kind]: printed([*PASSES, "runs", str(path), str(rounds)])[0],
                    "wreck": lambda path=path: printed([*PASSES, "runs", str(path), str(rounds)])[0],
                },
                rounds,
            )
            path.unlink()
            row(kind, wreck, found["intact"], found["wreck"], found["wreck"] / found["intact"])


def main() -> None:
    chosen = arguments()
    kinds, parts = chosen.kinds.split(","), chosen.only.split(",")
    peers = None
    try:
        peers = Peers(chosen.folder)
    except PeerError as error:
        print(f"without Kafka's own tools: {error}", file=sys.stderr)
    files = {kind: grown(chosen.seeds, kind, chosen.mib, chosen.folder) for kind in kinds}
    for path in files.values():
        with path.open("rb") as file:
            while file.read(1 << 20):
                continue  # so that every program finds it in memory
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}, segments of {chosen.mib} MiB")
    if "walk" in parts:
        walks(files, peers, chosen.rounds)
    if "dump" in parts:
        dumps(files, peers, chosen.rounds)
    if "verify" in parts:
        verifies(chosen.folder, chosen.seeds, chosen.rounds)
        full_passes(files, chosen.folder, chosen.rounds)
    if "recover" in parts:
        recoveries(files, peers, chosen.rounds)
    if "start" in parts:
        starts(chosen.folder, chosen.seeds, chosen.rounds)
    if "wreck" in parts:
        wrecks(chosen.folder, chosen.seeds, files, chosen.mib, chosen.rounds)


if __name__ == "__main__":
    main()
