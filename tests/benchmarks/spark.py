"""Reading on Spark beside ``spark.read.parquet`` of the same rows: ``python -m tests.benchmarks.spark``.

Each case is a process of its own, and its time is the CPU time of the whole tree: driver, JVM, Python workers. That of
a session that reads an empty source with as many tasks is taken off.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.segments import SEEDS, grown

ROOT = Path(__file__).resolve().parent.parent.parent
CASES = ("empty", "all columns", "offset", "parquet")


def case(name: str, folder: Path, tasks: int, rounds: int) -> None:
    """Runs in a process of its own."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    import kseg.spark

    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    for key in ("spark.driver.host", "spark.driver.bindAddress"):
        session = session.config(key, "127.0.0.1")
    spark = session.config("spark.driver.memory", "2g").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    kseg.spark.register(spark)
    logs = str(folder / "bench-0")
    reading = spark.read.format("kseg")
    if name == "write parquet":
        reading.load(logs).write.option("compression", "none").mode("overwrite").parquet(str(folder / "parquet"))
    for _ in range(0 if name == "write parquet" else rounds):
        if name == "empty":
            empty = [str(folder / f"empty-{i}") for i in range(tasks)]
            frame = reading.option("splitBytes", "1").load(empty)
        elif name == "parquet":
            frame = spark.read.parquet(str(folder / "parquet"))
        else:
            frame = (reading.schema("offset bigint") if name == "offset" else reading).load(logs)
        frame.write.format("noop").mode("overwrite").save()
    spark.stop()
    gateway = SparkContext._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()  # else its time would not be counted


def cpu_seconds(arguments: list[str], environment: dict[str, str]) -> float:
    """Of a process and all that it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(arguments, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
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
        for i in range(tasks):
            (folder / f"empty-{i}").mkdir()
            (folder / f"empty-{i}/{0:020}.log").touch()
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
