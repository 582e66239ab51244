"""Erasing beside a compaction, and redacting beside a copy with its checksum: ``python -m benchmarks.privacy``.

Whole processes, which take turns; both sides also in processor's seconds, those of redact on one core. Redacted are a
log directory of several codecs, each of its partitions alone, and records of __consumer_offsets, which Python replaces
one by one: a tenth as many bytes.
"""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.compaction import grown as keyed
from benchmarks.process import KSEG, best_spent, parser_of, timed
from benchmarks.segments import SEEDS, grown

KINDS = ("1k", "100b", "tiny", "lz4", "zstd")
LOGS = (("none", 0.8), ("lz4", 0.8), ("zstd", 0.8))
COPY = """
import os, sys, shutil
from benchmarks.passes import bare
shutil.copytree(sys.argv[1], sys.argv[2])
for folder, _, names in os.walk(sys.argv[2]):
    for name in names:
        bare(os.path.join(folder, name))
"""


def table(*names: str) -> None:
    print(f"\n| {' | '.join(names)} |\n| {' | '.join(['---'] * len(names))} |", flush=True)


def row(*cells: object) -> None:
    shown = [f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in cells]
    print(f"| {' | '.join(shown)} |", flush=True)


def erasures(folder: Path, mib: int, rounds: int) -> None:
    """A key that nobody has is searched; one that somebody has makes the one segment be written anew."""
    table("log", "compact, s", "search, s", "erase, s", "search : compact", "erase : compact")
    for codec, share in LOGS:
        log, work = folder / f"compact-{codec}-{share}-{mib}" / "t-0", folder / "work" / "t-0"
        keyed(log, mib, share, codec)

        def prepare(_: str, log: Path = log, work: Path = work) -> None:
            shutil.rmtree(work.parent, ignore_errors=True)
            shutil.copytree(log, work)

        options = ["--quiet", "--jobs", "1", str(work)]
        commands = {
            "compact": [*KSEG, "compact", "--no-quarantine", "--min-cleanable-ratio", "0", *options],
            "search": [*KSEG, "erase", "--key", "nobody", *options],
            "erase": [*KSEG, "erase", "--key", "key-000000000005", *options],
        }
        found = {name: processor for name, (_, processor) in best_spent(commands, rounds, prepare).items()}
        row(codec, *found.values(), found["search"] / found["compact"], found["erase"] / found["compact"])
        shutil.rmtree(work.parent)


def redactions(folder: Path, mib: int, rounds: int) -> None:
    table("log", "copy, s", "redact, s", "redact : copy, clock", "the same, processor's", "memory, MiB")
    logs, out = folder / f"redact-{mib}", folder / "out"
    shares = {kind: mib // len(KINDS) for kind in KINDS}
    for kind, size in shares.items():
        _placed(kind, size, folder, logs / f"{kind}-0")
    internal = folder / f"redact-offsets-{mib // 10}" / "__consumer_offsets-0"
    _placed("offsets", mib // 10, folder, internal)

    def prepare(_: str) -> None:
        shutil.rmtree(out, ignore_errors=True)

    for path in (logs, *(logs / f"{kind}-0" for kind in KINDS), internal):
        redact = [*KSEG, "redact", "--quiet", "--output", str(out), str(path)]
        commands = {"copy": [sys.executable, "-c", COPY, str(path), str(out)], "redact": redact}
        found = best_spent(commands | {"one": [*redact, "--jobs", "1"]}, rounds, prepare)
        prepare("")
        memory = timed(redact)[1] >> 20
        copy, many, one = found["copy"], found["redact"], found["one"]
        row(path.name, copy[0], many[0], many[0] / copy[0], one[1] / copy[1], memory)
    prepare("")


def _placed(kind: str, mib: int, folder: Path, partition: Path) -> None:
    if not partition.exists():
        path = grown(SEEDS, kind, mib, folder)
        partition.mkdir(parents=True)
        path.rename(partition / path.name)


def main() -> None:
    parser = parser_of(__doc__, 1024)
    parser.add_argument("--only", default="erase,redact", help="parts (default: all)")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    parts: dict[str, Callable[[Path, int, int], None]] = {"erase": erasures, "redact": redactions}
    for name in chosen.only.split(","):
        parts[name](chosen.folder, chosen.mib, chosen.rounds)


if __name__ == "__main__":
    main()
