"""Reading on Spark beside ``spark.read.parquet`` of the same rows: ``python -m tests.benchmarks.spark``.

Each case is a process of its own, and its time is the CPU time of the whole tree: driver, JVM, Python workers. That of
a session that reads an empty source with as many tasks is taken off.
"""

import argparse
import ctypes
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.benchmarks.segments import SEEDS, grown

ROOT = Path(__file__).resolve().parent.parent.parent
CASES = ("empty", "all columns", "offset", "parquet")


def session() -> Any:
    """A session on one core."""
    from pyspark.sql import SparkSession

    import kseg.spark

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    for key in ("spark.driver.host", "spark.driver.bindAddress"):
        builder = builder.config(key, "127.0.0.1")
    spark = builder.config("spark.driver.memory", "2g").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    kseg.spark.register(spark)
    return spark


def ended(spark: Any) -> None:
    """Waits for the JVM, else its time would not be counted."""
    from pyspark import SparkContext

    spark.stop()
    gateway = SparkContext._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


def empty_source(spark: Any, folder: Path, tasks: int) -> None:
    """Reads as many empty segments, each in a task."""
    for i in range(tasks):
        path = folder / f"empty-{i}/{0:020}.log"
        path.parent.mkdir(exist_ok=True)
        path.touch()
    paths = [str(folder / f"empty-{i}") for i in range(tasks)]
    frame = spark.read.format("kseg").option("splitBytes", "1").load(paths)
    frame.write.format("noop").mode("overwrite").save()


def case(name: str, folder: Path, tasks: int, rounds: int) -> None:
    """Runs in a process of its own."""
    spark = session()
    logs = str(folder / "bench-0")
    reading = spark.read.format("kseg")
    if name == "write parquet":
        reading.load(logs).write.option("compression", "none").mode("overwrite").parquet(str(folder / "parquet"))
    for _ in range(0 if name == "write parquet" else rounds):
        if name == "empty":
            empty_source(spark, folder, tasks)
            continue
        if name == "parquet":
            frame = spark.read.parquet(str(folder / "parquet"))
        else:
            frame = (reading.schema("offset bigint") if name == "offset" else reading).load(logs)
        frame.write.format("noop").mode("overwrite").save()
    ended(spark)


_PR_SET_CHILD_SUBREAPER = 36


def cpu_seconds(arguments: list[str], environment: dict[str, str]) -> float:
    """Of a process and all that it starts, also of a JVM that it does not wait for."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(arguments, env=environment, check=False, capture_output=True)
    if done.returncode:
        raise SystemExit(f"{arguments} ended with {done.returncode}: {done.stderr[-500:].decode()}")
    with suppress(ChildProcessError):
        while True:
            os.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--segments", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mib", type=int, default=128)
    parser.add_argument("--case")
    parser.add_argument("--folder", type=Path)
    found = parser.parse_args()
    tasks = found.segments * max(1, found.mib // 64)
    if found.case:
        case(found.case, found.folder, tasks, found.rounds)
        return
    with tempfile.TemporaryDirectory(prefix="kseg-bench-") as name:
        folder = Path(name)
        (folder / "bench-0").mkdir()
        segment = grown(SEEDS, "100b", found.mib, folder)
        for i in range(found.segments):
            shutil.copy(segment, folder / f"bench-0/{i * 10_000_000:020}.log")
        environment = os.environ | {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
        own = [sys.executable, "-m", "tests.benchmarks.spark", "--segments", str(found.segments), "--mib"]
        own += [str(found.mib), "--rounds", str(found.rounds), "--folder", name, "--case"]
        cpu_seconds([*own, "write parquet"], environment)
        seconds: dict[str, float] = {}
        for each in CASES:
            seconds[each] = cpu_seconds([*own, each], environment)
            beyond = (seconds[each] - seconds["empty"]) / found.rounds
            print(f"{each:>12}: {seconds[each]:6.1f} s in all, {beyond:6.2f} s a reading more", flush=True)
        base = seconds["empty"]
        # Parquet starts no Python workers, so beyond the empty source it may take next to nothing, or less.
        print(f"all columns : parquet, whole processes  {seconds['all columns'] / seconds['parquet']:.2f}")
        offset, everything = seconds["offset"] - base, seconds["all columns"] - base
        print(f"offset : all columns, beyond the empty  {offset / everything:.2f}")


if __name__ == "__main__":
    main()
