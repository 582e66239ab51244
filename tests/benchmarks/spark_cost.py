"""What the source costs on Spark beside Parquet of the same records: ``python -m benchmarks.spark_cost`` in tests/.

Five million records of 100 bytes, a warm session, local[2], each case in turn. The median of the rounds counts.
"""

import argparse
import os
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.process import adopt_orphans, spent_so_far
from benchmarks.segments import SEEDS, grown
from benchmarks.spark import drain, session

SEGMENT_MIB = 64
WARM_UP = 2
"""Rounds in which the JVM still compiles."""


class Cases:
    """The same records as segments and as Parquet."""

    def __init__(self, spark: Any, folder: Path, millions: float) -> None:
        self._spark, self._log, self._parquet = spark, str(folder / "rows-0"), str(folder / "parquet")
        segment = grown(SEEDS, "100b", SEGMENT_MIB, folder)
        each = self._read("offset bigint", path=str(segment)).count()
        Path(self._log).mkdir()
        for k in range(round(millions * 1e6 / each)):
            shutil.copy(segment, Path(self._log) / f"{k * 10_000_000:020}.log")
        self.write_parquet()
        size = sum(file.stat().st_size for file in Path(self._parquet).glob("*.parquet"))
        print(f"records {self.count_offsets()}, segments of {segment.stat().st_size} bytes, Parquet {size}", flush=True)

    def _read(self, columns: str = "", path: str = "", **options: str) -> Any:
        reader = self._spark.read.format("kseg").options(**options)
        return (reader.schema(columns) if columns else reader).load(path or self._log)

    def write_parquet(self) -> None:
        # The segments repeat their records, which a dictionary would make small.
        plain = {"compression": "none", "parquet.enable.dictionary": "false"}
        self._read().write.mode("overwrite").options(**plain).parquet(self._parquet)

    def parquet_all(self) -> None:
        drain(self._spark.read.parquet(self._parquet))

    def all(self) -> None:
        drain(self._read())

    def parquet_offset(self) -> None:
        drain(self._spark.read.parquet(self._parquet).select("offset"))

    def offset(self) -> None:
        drain(self._read("offset bigint"))

    def parquet_value(self) -> None:
        drain(self._spark.read.parquet(self._parquet).select("value"))

    def value(self) -> None:
        drain(self._read("value binary"))

    def value_without_schema(self) -> None:
        drain(self._read().select("value"))

    def parquet_count(self) -> int:
        return int(self._spark.read.parquet(self._parquet).count())

    def count(self) -> int:
        return int(self._read().count())

    def count_mode(self) -> int:
        return int(self._read(mode="counts").agg({"count": "sum"}).first()[0])

    def count_offsets(self) -> int:
        return int(self._read("offset bigint").count())


PAIRS = (
    ("all", "parquet_all"), ("offset", "parquet_offset"), ("value", "parquet_value"),
    ("value_without_schema", "parquet_value"), ("count", "parquet_count"), ("count_offsets", "parquet_count"),
    ("count_mode", "parquet_count"),
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", type=float, default=5, help="of records")
    parser.add_argument("--rounds", type=int, default=9, help="of which the first two are left out")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark")
    given = parser.parse_args()
    adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="kseg-bench-") as name:
        folders = dict.fromkeys(("spark.local.dir", "spark.sql.warehouse.dir"), name)
        spark = session(2, **folders, **dict(setting.split("=", 1) for setting in given.conf))
        cases = Cases(spark, Path(name), given.millions)
        rounds: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for turn in range(max(given.rounds, WARM_UP + 1)):
            for case in ("write_parquet", *dict.fromkeys(name for pair in PAIRS for name in pair)):
                seconds, used = taken(getattr(cases, case))
                if turn >= WARM_UP:
                    rounds[case].append((seconds, used))
                print(f"{case:>20} {seconds:6.2f} s {used:6.2f} s of the processor", flush=True)
        spark.stop()
    middle = {case: tuple(map(median, zip(*times, strict=True))) for case, times in rounds.items()}
    for case, other in PAIRS:
        wall, used = (mine / theirs for mine, theirs in zip(middle[case], middle[other], strict=True))
        print(f"{case:>20} : {other:<15} {wall:5.2f} {used:5.2f} of the processor")
    for case, other in PAIRS:
        saved = middle[case][1] - middle[other][1]
        print(f"{case:>20} : Parquet pays after {middle['write_parquet'][1] / saved:.1f} queries")


def taken(case: Callable[[], object]) -> tuple[float, float]:
    """(wall seconds, processor's seconds) of a case, with those of the JVM and the workers."""
    used, begun = spent_so_far(os.getpid()), time.monotonic()
    case()
    return time.monotonic() - begun, spent_so_far(os.getpid()) - used


if __name__ == "__main__":
    main()
