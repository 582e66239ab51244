"""A standalone cluster, a Master and a Worker of PySpark, to which kseg is submitted in the words of kseg-spark(7)."""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spark.drivers import ROOT, environment, killed, output_of, run, spark_home
from spark.reading import rows_of
from test_install import built_wheel

CONFIGURATION = """
spark.cores.max 2
spark.driver.bindAddress 127.0.0.1
spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.driver.host 127.0.0.1
spark.driver.memory 512m
spark.executor.cores 1
spark.executor.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.executor.memory 512m
spark.ui.enabled false
"""


def processes_of(home: Path) -> list[int]:
    """The processes that have this SPARK_HOME, and so the cluster's and those of its applications."""
    found, wanted = [], f"SPARK_HOME={home}".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if wanted in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # it has ended, or it is another user's
    return found


def announced(process: "subprocess.Popen[str]", log: Path, pattern: str) -> str:
    """Waits for a line of a log, and returns the part of it that the pattern groups."""
    deadline = time.monotonic() + 280
    while process.poll() is None and time.monotonic() < deadline:
        if found := re.search(pattern, log.read_text("utf-8")):
            return found[1]
        time.sleep(0.05)
    raise AssertionError(f"{pattern} is not in {log}: {log.read_text('utf-8')[-2000:]}")


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields the URL of a master with two executors for an application, and the environment for ``spark-submit``.

    No process outlives the context, however it is left.
    """
    home, configuration = spark_home(folder / "spark"), folder / "conf"
    configuration.mkdir()
    (configuration / "spark-defaults.conf").write_text(CONFIGURATION, "utf-8")
    given = environment(folder) | {"SPARK_HOME": str(home), "SPARK_CONF_DIR": str(configuration)}
    given.pop("PYTHONPATH", None)  # what is submitted is all that a cluster has of kseg, unless it is installed
    given["PATH"] = f"{home / 'bin'}:{given['PATH']}"
    daemons: list[subprocess.Popen[str]] = []

    def daemon(kind: str, *arguments: str) -> Path:
        name = f"org.apache.spark.deploy.{kind.lower()}.{kind}"
        command = ["spark-class", name, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *arguments]
        java = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
        log = folder / f"{kind}.log"
        with log.open("w") as out:
            daemons.append(subprocess.Popen(
                command, env=given | java, cwd=folder, text=True, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            ))  # fmt: skip
        return log

    try:
        log = daemon("Master")
        url = announced(daemons[-1], log, r"Starting Spark master at (spark://127\.0\.0\.1:\d+)\s")
        log = daemon("Worker", "--cores", "2", "--memory", "1g", "--work-dir", str(folder / "work"), url)
        announced(daemons[-1], log, r"(Successfully registered with master)")
        yield url, given
    finally:
        for process in reversed(daemons):
            killed(process)
        while remaining := processes_of(home):  # workers of Python are not in the groups of their JVMs
            for number in remaining:
                try:
                    os.kill(number, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(0.05)


pytestmark = [pytest.mark.spark, pytest.mark.slow]
SOURCE = ROOT / "testdata/kafka-4.3.1/clients/librdkafka-gzip-0"
PAGE = (ROOT / "man/kseg-spark.7").read_text("utf-8")
COMMANDS = re.findall(r"^\.Bd -literal -offset indent\n(cp .*?)^\.Ed$", PAGE, re.MULTILINE | re.DOTALL)

COUNT = """
import json
import os
import kseg.spark
from pyspark.sql import SparkSession

def place(_):
    from kseg.kernel import description
    return [[os.getcwd(), os.path.abspath(kseg.__file__), description()]]

spark = SparkSession.builder.getOrCreate()
kseg.spark.register(spark)
context = spark.sparkContext
places = context.parallelize(range(2), 2).barrier().mapPartitions(place).collect()  # both at once
frame = spark.read.format("kseg").option("splitBytes", "8k").load("orders-0")
ranged = frame.drop("topic", "partition").repartitionByRange(2, "offset").sortWithinPartitions("offset")
ranged.write.format("kseg").mode("append").save("copy-0")
print(json.dumps([context.master, kseg.__file__, places, frame.count()]))
"""


def test_the_wheel_submitted_as_a_zip_file_reads_and_writes(tmp_path: Path, needs_java: None) -> None:
    (commands,) = COMMANDS
    wheel = built_wheel(tmp_path, "python")
    shutil.copytree(SOURCE, tmp_path / "orders-0")
    (tmp_path / "count.py").write_text(COUNT, "utf-8")
    with standalone_cluster(tmp_path) as (url, environment):
        script = commands.replace("spark://host:7077", url).replace("\\e", "\\")
        process = run(tmp_path, ["bash", "-ec", script], environment)
        master, driver, places, count = output_of(process, tmp_path)
    assert wheel.exists()
    assert processes_of(tmp_path / "spark") == []
    assert (master, count) == (url, 240)
    assert driver.endswith("/kseg.zip/kseg/__init__.py")
    folders, files, kernels = zip(*places, strict=True)
    assert len(set(folders)) == 2, "executors"
    assert files == tuple(f"{folder}/kseg.zip/kseg/__init__.py" for folder in folders)
    assert set(kernels) == {"interpreted"}
    assert rows_of(tmp_path / "copy-0") == [row | {"topic": "copy"} for row in rows_of(SOURCE)]
