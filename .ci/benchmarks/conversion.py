"""Conversions beside what they cannot do without: ``python -m benchmarks.conversion``.

Recompression against the bare codecs, tables against a loop of Python. Whole processes, which take turns: processor's
seconds for a recompression on one core; the seconds of a clock on all cores for tables, and where two threads are
compared with one. There it is also told what is left without the start of every process, of kseg's and of the other's
alike: each is also run on a segment without a byte, and that time taken off.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from benchmarks.process import KSEG, best_spent, parser_of
from benchmarks.segments import SEEDS, grown

RECOMPRESSIONS = (
    ("1k", "zstd"),
    ("100b", "lz4"),
    ("tiny", "zstd"),
    ("lz4", "zstd"),
    ("zstd", "lz4"),
    ("zstd", "zstd:9"),
)
TABLES = ("1k", "100b", "tiny", "lz4", "zstd")

Spent = tuple[float, float]
"""Seconds, and the processor's seconds."""
Commands = Callable[[str], dict[str, list[str]]]
"""By their names, for a segment at that path."""


def ratio(
    found: dict[str, Spent], starts: dict[str, Spent], one: str, other: str, column: int = 0, more: int = 1
) -> str:
    """``more`` times what one took for each second of the other, by the clock or (column 1) the processor's; and
    without their starts."""
    whole = more * found[one][column] / found[other][column]
    rest = [found[name][column] - starts[name][column] for name in (one, other)]
    return f"{whole:.2f} ({more * rest[0] / rest[1]:.2f} without start)"


def main() -> None:
    parser = parser_of(__doc__, 128)
    parser.add_argument("--kinds", help="of segments (default: all of each part)")
    parser.add_argument("--only", default="recompress,table", help="parts (default: all)")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    out = chosen.folder / "converted"

    def prepare(_: str = "") -> None:
        shutil.rmtree(out, ignore_errors=True)
        out.unlink(missing_ok=True)

    empty = chosen.folder / "empty" / f"{0:020}.log"
    empty.parent.mkdir(exist_ok=True)
    empty.write_bytes(b"")

    def measure(path: Path, commands: Commands) -> tuple[dict[str, Spent], dict[str, Spent]]:
        """What they take for a segment, and for none."""
        found = best_spent(commands(str(path)), chosen.rounds, prepare)
        return found, best_spent(commands(str(empty)), chosen.rounds, prepare)

    def compare(title: str, found: dict[str, Spent], starts: dict[str, Spent]) -> None:
        line = f"{title}: kseg {found['kseg'][1]:.2f} s, peer {found['peer'][1]:.2f} s, "
        line += f"kseg : peer {found['kseg'][1] / found['peer'][1]:.2f}"
        line += f", clock 1 : 2 threads {ratio(found, starts, 'kseg', 'two')}"
        line += f", the peer's {ratio(found, starts, 'peer', 'peers', more=2)}"
        print(line, flush=True)

    def compare_tables(title: str, found: dict[str, Spent], starts: dict[str, Spent]) -> None:
        line = f"{title}: kseg {found['kseg'][0]:.2f} s, a loop {found['peer'][0]:.2f} s, "
        line += f"loop : kseg {ratio(found, starts, 'peer', 'kseg')} by the clock, "
        line += f"{ratio(found, starts, 'peer', 'kseg', 1)} in processor's time"
        if "bare" in found:
            line += f", loop : pyarrow alone {ratio(found, starts, 'peer', 'bare')}"
        print(line, flush=True)

    def is_wanted(kind: str) -> bool:
        return chosen.kinds is None or kind in chosen.kinds.split(",")

    parts = chosen.only.split(",")
    for kind, codec in RECOMPRESSIONS if "recompress" in parts else ():
        if not is_wanted(kind):
            continue

        def recompressions(path: str, codec: str = codec) -> dict[str, list[str]]:
            convert = [*KSEG, "convert", "--quiet", "--codec", codec, "--output", str(out), path, "--jobs"]
            bare = [sys.executable, "-m", "benchmarks.codecs", path, codec, str(out)]
            return {"kseg": [*convert, "1"], "peer": bare, "two": [*convert, "2"], "peers": [*bare, "2"]}

        compare(f"{kind} to {codec}", *measure(grown(SEEDS, kind, chosen.mib, chosen.folder), recompressions))
    has_peers = find_spec("aiokafka") is not None and find_spec("pyarrow") is not None
    for kind in filter(is_wanted, TABLES if "table" in parts and has_peers else ()):
        for form in ("parquet", "arrow"):

            def tables(path: str, form: str = form) -> dict[str, list[str]]:
                loop = [sys.executable, "-m", "benchmarks.row_loop", path, form, str(out)]
                convert = [*KSEG, "convert", "--quiet", "--to", form, "--output"]
                commands = {"kseg": [*convert, str(out), path], "peer": loop}
                if form == "parquet":
                    rows = str(chosen.folder / "rows.arrow")
                    subprocess.run([*KSEG, "convert", "--quiet", "--to", "arrow", "--output", rows, path], check=True)
                    commands["bare"] = [sys.executable, "-m", "benchmarks.bare_table", rows, str(out)]
                return commands

            path = grown(SEEDS, kind, chosen.mib, chosen.folder)
            compare_tables(f"{kind} to {form}", *measure(path, tables))
    (chosen.folder / "rows.arrow").unlink(missing_ok=True)
    prepare()


if __name__ == "__main__":
    main()
