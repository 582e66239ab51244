"""Spark beside what it is compared with: ``python -m benchmarks.spark``.

All cases take turns in one session; the first rounds, in which the JVM compiles most, are printed and left out, and of
the others the median counts. The processor's time is that of driver, JVM and Python workers; what a read of an empty
source with as many tasks takes is also taken off. A read of record batches that lie ready shows what Spark takes for
itself.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.process import adopt_orphans, peaks, spent_so_far
from benchmarks.segments import SEEDS, grown

ROOT = Path(__file__).resolve().parents[2]
VALUE_BYTES = 190
ROWS = 20_000
WARM_UP = 2
PAIRS = (
    ("all_columns", "parquet"), ("ready_batches", "parquet"), ("all_columns", "ready_batches"),
    ("offset", "all_columns"), ("offset", "parquet_offset"), ("value", "parquet_value"),
    ("value_without_schema", "parquet_value"), ("count", "parquet_count"), ("count_mode", "parquet_count"),
    ("verify_on_spark", "verify"), ("compact_on_spark", "plan_b"), ("compact_on_spark", "compact"),
)  # fmt: skip


def session(cores: int = 1, **settings: str) -> Any:
    """A session on so many cores."""
    from pyspark.sql import SparkSession

    import kseg.spark
    from benchmarks.ready_source import ReadySource

    os.environ |= {
        "PYTHONPATH": os.pathsep.join(str(ROOT / each) for each in (".", "tests", ".ci")),
        "PYSPARK_PYTHON": sys.executable,
    }
    builder = SparkSession.builder.master(f"local[{cores}]")
    for key in ("spark.driver.host", "spark.driver.bindAddress"):
        builder = builder.config(key, "127.0.0.1")
    for key in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
        builder = builder.config(key, "false")
    for key, value in {"spark.driver.memory": "2g", **settings}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    kseg.spark.register(spark)
    spark.dataSource.register(ReadySource)
    return spark


class Cases:
    """Segments of 100-byte records to be read, and as many in which ``share`` of the keys survive."""

    def __init__(self, spark: Any, folder: Path, segments: int, mib: int, share: float) -> None:
        self._spark, self._folder = spark, folder
        self._rows, self._keyed = folder / "rows-0", folder / "source/keyed-0"
        self._grow(segments, mib, share)
        self._tasks = self._write_ready()
        self.write_parquet()

    def _grow(self, segments: int, mib: int, share: float) -> None:
        from pyspark.sql.types import BinaryType, LongType, StructField, StructType

        from kseg.spark.options import WriteOptions
        from kseg.spark.writing import KsegWriter

        self._rows.mkdir()
        segment = grown(SEEDS, "100b", mib, self._folder)
        for k in range(segments):
            shutil.copy(segment, self._rows / f"{k * 10_000_000:020}.log")
        kinds = {"offset": LongType(), "key": BinaryType(), "value": BinaryType()}
        schema = StructType([StructField(name, kind) for name, kind in kinds.items()])
        self._keyed.parent.mkdir()
        writer = KsegWriter(WriteOptions((str(self._keyed),), segment_bytes=mib << 20), schema, False)
        writer.commit([writer.write(keyed(segments * (mib << 20) // (VALUE_BYTES + 18), share))])

    def _write_ready(self) -> int:
        """The record batches of each task in a file; how many tasks there are."""
        import pyarrow as pa

        from kseg.spark.source import KsegDataSource

        source = KsegDataSource({"path": str(self._rows)})
        reader = source.reader(source.schema())
        (self._folder / "ready").mkdir()
        tasks = reader.partitions()
        for k, task in enumerate(tasks):
            batches = reader.read(task)
            first = next(batches)
            with pa.OSFile(str(self._folder / f"ready/{k:04}.arrow"), "wb") as out:
                with pa.ipc.new_file(out, first.schema) as writer:
                    writer.write_batch(first)
                    for batch in batches:
                        writer.write_batch(batch)
        return len(tasks)

    def _read(self, columns: str = "", **options: str) -> Any:
        reader = self._spark.read.format("kseg").options(**options)
        return (reader.schema(columns) if columns else reader).load(str(self._rows))

    def _parquet(self) -> Any:
        return self._spark.read.parquet(str(self._folder / "parquet"))

    def write_parquet(self) -> None:
        # The segments repeat their records, which a dictionary would make small.
        plain = {"compression": "none", "parquet.enable.dictionary": "false"}
        self._read().write.mode("overwrite").options(**plain).parquet(str(self._folder / "parquet"))

    def empty(self) -> None:
        """A source with as many tasks and nothing in them."""
        paths = [self._folder / f"empty-{k}" for k in range(self._tasks)]
        for path in paths:
            path.mkdir(exist_ok=True)
            (path / f"{0:020}.log").touch()
        drain(self._spark.read.format("kseg").option("splitBytes", "1").load([str(path) for path in paths]))

    def all_columns(self) -> None:
        drain(self._read())

    def offset(self) -> None:
        drain(self._read("offset bigint"))

    def value(self) -> None:
        drain(self._read("value binary"))

    def value_without_schema(self) -> None:
        drain(self._read().select("value"))

    def count(self) -> None:
        self._read().count()

    def count_mode(self) -> None:
        self._read(mode="counts").agg({"count": "sum"}).first()

    def ready_batches(self) -> None:
        drain(self._spark.read.format("ready").load(str(self._folder / "ready")))

    def parquet(self) -> None:
        drain(self._parquet())

    def parquet_offset(self) -> None:
        drain(self._parquet().select("offset"))

    def parquet_value(self) -> None:
        drain(self._parquet().select("value"))

    def parquet_count(self) -> None:
        self._parquet().count()

    def verify(self) -> None:
        kseg("verify", "--jobs", "1", self._keyed)

    def verify_on_spark(self) -> None:
        kseg("verify", "--engine", "spark", self._keyed)

    def compact(self) -> None:
        self._compact("--memory", "1G", "--jobs", "1")

    def compact_on_spark(self) -> None:
        self._compact("--engine", "spark")

    def _compact(self, *options: str) -> None:
        work = self._folder / "work"
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(self._keyed.parent, work, copy_function=os.link)
        rules = ("--include-active", "--min-cleanable-ratio", "0", "--now", "2000000000000", "--no-quarantine")
        kseg("compact", *rules, *options, work / "keyed-0")

    def plan_b(self) -> None:
        from benchmarks.plan_b import compact

        target = self._folder / "plan-b"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        compact(self._spark, self._keyed, target)


def drain(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def kseg(*arguments: object) -> None:
    """A command in this process, which on Spark takes the session that is there."""
    from kseg.cli.main import main as command

    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        status = command.main([*map(str, arguments), "--quiet"], standalone_mode=False)
    if status:
        raise SystemExit(f"kseg {' '.join(map(str, arguments))}: exit status {status}")


def keyed(count: int, share: float) -> Iterator[Any]:
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


def taken(case: Callable[[], object]) -> tuple[float, float]:
    """(wall seconds, processor's seconds) of a case, with those of the JVM and the workers."""
    used, begun = spent_so_far(os.getpid()), time.monotonic()
    case()
    return time.monotonic() - begun, spent_so_far(os.getpid()) - used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--segments", type=int, default=8)
    parser.add_argument("--mib", type=int, default=128)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5, help=f"of which the first {WARM_UP} are left out")
    parser.add_argument("--share", type=float, default=0.085, help="of the records that survive a compaction")
    parser.add_argument("--only", metavar="NAME,NAME", help="cases beside the empty source; no ratios of others then")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark")
    found = parser.parse_args()
    adopt_orphans()
    names = found.only.split(",") if found.only else [name for pair in PAIRS for name in pair]
    rounds: dict[str, list[tuple[float, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="kseg-bench-") as name:
        folders = dict.fromkeys(("spark.local.dir", "spark.sql.warehouse.dir"), name)
        spark = session(found.cores, **folders, **dict(setting.split("=", 1) for setting in found.conf))
        cases = Cases(spark, Path(name), found.segments, found.mib, found.share)
        for turn in range(max(found.rounds, WARM_UP + 1)):
            for case in dict.fromkeys(("empty", "write_parquet", *names)):
                seconds, used = taken(getattr(cases, case))
                if turn >= WARM_UP:
                    rounds[case].append((seconds, used))
                print(f"{case:>20} {seconds:6.2f} s {used:6.2f} s of the processor", flush=True)
        print("most memory of one process, MiB:", peaks(os.getpid()))
        spark.stop()
    tell({case: tuple(map(median, zip(*times, strict=True))) for case, times in rounds.items()})


def tell(middle: dict[str, tuple[float, ...]]) -> None:
    """The ratios of what was measured; a local command has nothing taken off."""
    for case, other in PAIRS:
        if case in middle and other in middle:
            wall, used = (mine / theirs for mine, theirs in zip(middle[case], middle[other], strict=True))
            less = 0 if other in ("verify", "compact") else middle["empty"][1]
            rest = (middle[case][1] - middle["empty"][1]) / (middle[other][1] - less)
            line = f"{case:>20} : {other:<15} {wall:5.2f} {used:5.2f} of the processor, {rest:5.2f} without the empty"
            if other.startswith("parquet"):
                line += f"; pays after {middle['write_parquet'][1] / (middle[case][1] - middle[other][1]):.1f} queries"
            print(line)


if __name__ == "__main__":
    main()
