"""Commands on Spark beside the local engine, compaction beside `plan_b` too.

``python -m tests.benchmarks.spark_commands`` from the repository's root.

Processor's seconds of all processes, beyond those of a session that reads an empty source with as many tasks.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.spark import ROOT, cpu_seconds, empty_source, ended, session

VALUE_BYTES = 190
ROWS = 20_000


def record_batches(count: int, share: float) -> Iterator[Any]:
    """Records of which nearly this share survives: so many keys there are."""
    import numpy as np
    import pyarrow as pa

    chosen = np.random.default_rng(7)
    value = pa.scalar(chosen.bytes(VALUE_BYTES), pa.binary())
    for first in range(0, count, ROWS):
        offsets = np.arange(first, first + ROWS)
        names = chosen.integers(0, int(count * share), ROWS)
        keys = pa.array(names).cast(pa.string()).cast(pa.binary())
        yield pa.RecordBatch.from_arrays([pa.array(offsets), keys, pa.repeat(value, ROWS)], ["offset", "key", "value"])


def grown(partition: Path, segments: int, mib: int, share: float) -> None:
    from pyspark.sql.types import BinaryType, LongType, StructField, StructType

    from kseg.spark.options import WriteOptions
    from kseg.spark.writing import KsegWriter

    kinds = {"offset": LongType(), "key": BinaryType(), "value": BinaryType()}
    schema = StructType([StructField(name, kind) for name, kind in kinds.items()])
    writer = KsegWriter(WriteOptions((str(partition),), segment_bytes=mib << 20), schema, False)
    writer.commit([writer.write(record_batches(segments * (mib << 20) // (VALUE_BYTES + 18), share))])


def case(name: str, folder: Path, tasks: int) -> None:
    """Runs in a process of its own."""
    from tests.benchmarks.plan_b import compact

    spark = session()
    if name == "empty":
        empty_source(spark, folder, tasks)
    else:
        (folder / "plan-b").mkdir()
        print(compact(spark, folder / "source/bench-0", folder / "plan-b"))
    ended(spark)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--segments", type=int, default=8)
    parser.add_argument("--mib", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=2, help="of which the best counts")
    parser.add_argument("--share", type=float, default=0.085, help="of the records that survive")
    parser.add_argument("--only", metavar="NAME,NAME", help="of what is measured; no ratios then")
    parser.add_argument("--case")
    parser.add_argument("--folder", type=Path)
    found = parser.parse_args()
    if found.case:
        case(found.case, found.folder, found.segments)
        return
    with tempfile.TemporaryDirectory(prefix="kseg-bench-") as name:
        folder = Path(name)
        (folder / "source").mkdir()
        grown(folder / "source/bench-0", found.segments, found.mib, found.share)
        environment = os.environ | {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
        own = [sys.executable, "-m", "tests.benchmarks.spark_commands", "--folder", name, "--segments"]
        kseg = [sys.executable, "-m", "kseg", "compact", "--quiet", "--include-active", "--min-cleanable-ratio", "0"]
        kseg += ["--now", "2000000000000", "--no-quarantine", str(folder / "work/bench-0")]
        verify = [sys.executable, "-m", "kseg", "verify", "--quiet", "--jobs", "1", str(folder / "source/bench-0")]
        commands = {
            "verify": verify,
            "verify on Spark": [*verify, "--engine", "spark", "--master", "local[1]"],
            "empty": [*own, str(found.segments), "--case", "empty"],
            "local": [*kseg, "--memory", "1G"],
            "spark": [*kseg, "--engine", "spark", "--master", "local[1]"],
            "plan b": [*own, str(found.segments), "--case", "plan b"],
        }
        if found.only:
            commands = {each: commands[each] for each in found.only.split(",")}
        seconds: dict[str, float] = {}
        sizes: dict[str, int] = {}
        for _ in range(found.rounds):
            for each, command in commands.items():
                shutil.rmtree(folder / "work", ignore_errors=True)
                shutil.rmtree(folder / "plan-b", ignore_errors=True)
                shutil.copytree(folder / "source", folder / "work")
                seconds[each] = min(seconds.get(each, 1e9), cpu_seconds(command, environment))
                place = folder / ("plan-b" if each == "plan b" else "work/bench-0")
                sizes[each] = sum(path.stat().st_size for path in place.glob("*.log"))
                print(
                    f"{each:>16}: {seconds[each]:6.1f} s, {sizes[each] / (1 << 20):.0f} MiB, load",
                    os.getloadavg(),
                    flush=True,
                )
        if found.only:
            return
        assert sizes["local"] == sizes["spark"]
        beyond = {each: seconds[each] - seconds["empty"] for each in ("spark", "plan b", "verify on Spark")}
        print(f"verify on Spark : local engine   {beyond['verify on Spark'] / seconds['verify']:.2f}")
        print(f"kseg : plan b, beyond the empty  {beyond['spark'] / beyond['plan b']:.2f}")
        print(f"kseg on Spark : local engine     {beyond['spark'] / seconds['local']:.2f}")


if __name__ == "__main__":
    main()
