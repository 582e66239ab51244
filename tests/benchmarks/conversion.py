"""Conversions beside what they cannot do without: ``python -m tests.benchmarks.conversion`` from the repository's root.

Recompression against the bare codecs, tables against a loop of Python, JSON Lines against a dump. Whole processes,
which take turns: processor's seconds for a recompression on one core and for lines; the seconds of a clock on all cores
for tables, and where two threads are compared with one.
"""

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from tests.benchmarks.segments import SEEDS, grown

KSEG = [sys.executable, "-m", "kseg"]
RECOMPRESSIONS = (
    ("1k", "zstd"),
    ("100b", "lz4"),
    ("tiny", "zstd"),
    ("lz4", "zstd"),
    ("zstd", "lz4"),
    ("zstd", "zstd:9"),
)
TABLES = ("1k", "100b", "tiny", "lz4", "zstd")
LINES = ("1k", "100b", "zstd")

Spent = tuple[float, float]


def spent(command: list[str], prepare: Callable[[], None]) -> Spent:
    """Processor's and clock's seconds of a command that must end with 0."""
    prepare()
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - start
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, seconds


def best(commands: dict[str, list[str]], rounds: int, prepare: Callable[[], None]) -> dict[str, Spent]:
    found = dict.fromkeys(commands, (float("inf"), float("inf")))
    for _ in range(rounds):
        for name, command in commands.items():
            some = spent(command, prepare)
            found[name] = (min(found[name][0], some[0]), min(found[name][1], some[1]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.conversion", description=__doc__)
    parser.add_argument("--mib", type=int, default=128, help="size of each segment (default: 128)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which the best counts (default: 3)")
    parser.add_argument("--only", default="recompress,table,lines", help="parts (default: all)")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir(), "kseg-benchmarks"))
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    out = chosen.folder / "converted"

    def prepare() -> None:
        shutil.rmtree(out, ignore_errors=True)
        out.unlink(missing_ok=True)

    def measure(own: list[str], peer: list[str], more: dict[str, list[str]] | None = None) -> dict[str, Spent]:
        return best({"kseg": own, "peer": peer, **(more or {})}, chosen.rounds, prepare)

    def compare(title: str, found: dict[str, Spent]) -> None:
        line = f"{title}: kseg {found['kseg'][0]:.2f} s, peer {found['peer'][0]:.2f} s, "
        line += f"kseg : peer {found['kseg'][0] / found['peer'][0]:.2f}"
        if "two" in found:
            line += f", clock 1 : 2 threads {found['kseg'][1] / found['two'][1]:.2f}"
            line += f", the peer's {2 * found['peer'][1] / found['peers'][1]:.2f}"
        print(line, flush=True)

    def compare_tables(title: str, found: dict[str, Spent]) -> None:
        line = f"{title}: kseg {found['kseg'][1]:.2f} s, a loop {found['peer'][1]:.2f} s, "
        line += f"loop : kseg {found['peer'][1] / found['kseg'][1]:.1f} by the clock, "
        line += f"{found['peer'][0] / found['kseg'][0]:.1f} in processor's time"
        if "bare" in found:
            line += f", loop : pyarrow alone {found['peer'][1] / found['bare'][1]:.1f}"
        print(line, flush=True)

    parts = chosen.only.split(",")
    for kind, codec in RECOMPRESSIONS if "recompress" in parts else ():
        path = str(grown(SEEDS, kind, chosen.mib, chosen.folder))
        convert = [*KSEG, "convert", "--quiet", "--codec", codec, "--output", str(out), path, "--jobs"]
        bare = [sys.executable, "-m", "tests.benchmarks.codecs", path, codec, str(out)]
        more = {"two": [*convert, "2"], "peers": [*bare, "2"]}
        compare(f"{kind} to {codec}", measure([*convert, "1"], bare, more))
    has_peers = find_spec("aiokafka") is not None and find_spec("pyarrow") is not None
    for kind in TABLES if "table" in parts and has_peers else ():
        path = str(grown(SEEDS, kind, chosen.mib, chosen.folder))
        rows = chosen.folder / "rows.arrow"
        rows.unlink(missing_ok=True)
        subprocess.run([*KSEG, "convert", "--quiet", "--to", "arrow", "--output", str(rows), path], check=True)
        bare = {"bare": [sys.executable, "-m", "tests.benchmarks.bare_table", str(rows), str(out)]}
        for form, more in (("parquet", bare), ("arrow", None)):
            loop = [sys.executable, "-m", "tests.benchmarks.row_loop", path, form, str(out)]
            convert = [*KSEG, "convert", "--to", form, "--output", str(out), path]
            compare_tables(f"{kind} to {form}", measure(convert, loop, more))
        rows.unlink()
    for kind in LINES if "lines" in parts else ():
        path = str(grown(SEEDS, kind, chosen.mib, chosen.folder))
        dump = [*KSEG, "dump", "--print-data-log", "--format", "json", "-o", str(out), path]
        compare(f"{kind} to jsonl", measure([*KSEG, "convert", "--to", "jsonl", "--output", str(out), path], dump))
    prepare()


if __name__ == "__main__":
    main()
