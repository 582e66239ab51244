"""Recovery of many small partitions of a killed broker: ``python -m benchmarks.killed``.

Prints the seconds of ``kseg recover`` beside those of a loop in Python that reads each segment, takes its CRC and
replaces its indexes, and the system calls for each segment, where strace is installed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.process import KSEG, best_spent, parser_of
from benchmarks.segments import SEEDS
from benchmarks.small import INTERVAL_BYTES, directory, logs

RECOVER = [*KSEG, "recover", "-q", "--no-quarantine", "--index-interval-bytes", str(INTERVAL_BYTES)]
INDEXES = {".index": 10 << 20, ".timeindex": (10 << 20) // 12 * 12}
"""The sizes that a broker preallocates."""
CALLS = ("newfstatat", "openat", "readlink", "fsync", "syncfs", "futex", "total")


def killed(root: Path, folder: Path) -> Path:
    """A copy of a log directory, killed: the indexes of each last segment are preallocated, the others empty."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(root, folder, ignore=shutil.ignore_patterns("done"))
    for partition in folder.iterdir():
        last = max(partition.glob("*.log")).stem
        for suffix, size in INDEXES.items():
            for path in partition.glob(f"*{suffix}"):
                os.truncate(path, size if path.stem == last else 0)
    os.sync()
    return folder


def loop(root: str) -> None:
    from crc32c import crc32c

    for path in list(logs(root)):
        with open(path, "rb") as stream:
            crc32c(stream.read())
        for suffix in INDEXES:
            name = path.removesuffix(".log") + suffix
            with open(f"{name}.new", "wb") as stream:
                stream.write(bytes(12))
            os.replace(f"{name}.new", name)
    os.sync()


def calls_of(command: list[str]) -> dict[str, int]:
    """System calls by name, of all threads and processes."""
    with tempfile.NamedTemporaryFile("r") as table:
        subprocess.run(["strace", "-f", "-c", "-o", table.name, *command], stdout=subprocess.DEVNULL, check=False)
        rows = [line.split() for line in table]
    return {row[-1]: int(row[3]) for row in rows if len(row) >= 5 and row[3].isdigit()}


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--partitions", type=int, default=200, help="partitions (default: 200)")
    parser.add_argument("--segments", type=int, default=25, help="segments in each (default: 25)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        root, copy = directory(SEEDS, options.partitions, options.segments, Path(place)), Path(place) / "killed"
        loop = [sys.executable, "-m", "benchmarks.killed", "--loop", str(copy)]
        best = best_spent({"kseg": [*RECOVER, str(copy)], "loop": loop}, options.rounds, lambda _: killed(root, copy))
        ours, others = best["kseg"][0], best["loop"][0]
        print(f"kseg recover {ours:.2f} s, loop {others:.2f} s: {ours / others:.2f} times")
        if shutil.which("strace"):
            found, segments = calls_of([*RECOVER, str(killed(root, copy))]), options.partitions * options.segments
            print("calls for each segment:", *(f"{name} {found.get(name, 0) / segments:.2f}" for name in CALLS))


if __name__ == "__main__":
    loop(sys.argv[2]) if sys.argv[1:2] == ["--loop"] else main()
