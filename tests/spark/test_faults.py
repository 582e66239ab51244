"""Drivers and executors that are killed, and full disks: each record once, or one readable line and nothing torn."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytest.importorskip("pyarrow", reason="pyarrow is not installed")

import kseg.spark
from spark.reading import rows_of
from spark.test_local_cluster import spark_home

pytestmark = pytest.mark.spark
TESTDATA = Path(__file__).resolve().parents[2] / "testdata"
MANY = TESTDATA / "kafka-0.11.0.3/txn/compact-txn-0"
LOGS = sorted(MANY.glob("*.log"))
CLIENTS = TESTDATA / "kafka-4.3.1/clients"

SESSION = """
import json
import os
import signal
import sys
from pyspark.sql import SparkSession
import kseg.spark

spark = (
    SparkSession.builder.master(sys.argv[1])
    .config("spark.driver.memory", "512m")
    .config("spark.executor.memory", "512m")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)
kseg.spark.register(spark)
"""
STREAM = (
    SESSION
    + """
logs, out, checkpoint = sys.argv[2:]
frame = spark.readStream.format("kseg").option("maxFilesPerTrigger", "1").load(logs)
writing = frame.writeStream.format("parquet").option("path", out).option("checkpointLocation", checkpoint)
writing.trigger(availableNow=True).start().awaitTermination()
print(json.dumps([list(row) for row in spark.read.parquet(out).select("topic", "offset").collect()]))
"""
)
LOST_EXECUTOR = (
    SESSION
    + """
source, target, parquet, killed = sys.argv[2:]

def kill_one(batches):
    for batch in batches:
        yield batch
        try:
            os.close(os.open(killed, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        with open(f"/proc/{os.getppid()}/stat") as status:
            executor = int(status.read().rpartition(")")[2].split()[1])
        os.kill(executor, signal.SIGKILL)

frame = spark.read.format("kseg").option("splitBytes", "2k").load(source)
lossy = frame.mapInArrow(kill_one, frame.schema)
lossy.drop("topic", "partition").write.format("kseg").mode("append").save(target)
os.unlink(killed)
lossy.write.parquet(parquet)
print(json.dumps([row.offset for row in spark.read.parquet(parquet).select("offset").collect()]))
"""
)


def started(folder: Path, program: str, *arguments: object, **environment: str) -> "subprocess.Popen[str]":
    """Starts a driver, with its JVM, as a process group."""
    (folder / "program.py").write_text(program, "utf-8")
    given = {"PATH": os.environ["PATH"], "HOME": str(folder), "SPARK_LOCAL_IP": "127.0.0.1"}
    with (folder / "errors").open("a") as errors:
        return subprocess.Popen(
            [sys.executable, "-P", str(folder / "program.py"), *map(str, arguments)],
            cwd=folder, env=given | {"PYSPARK_PYTHON": sys.executable} | environment, text=True, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
        )  # fmt: skip


def output_of(process: "subprocess.Popen[str]", folder: Path) -> Any:
    """Returns the last line of a driver that ends well, which is JSON."""
    output, _ = process.communicate(timeout=280)
    assert process.returncode == 0, (folder / "errors").read_text()[-2000:]
    return json.loads(output.splitlines()[-1])


def batches_begun(checkpoint: Path) -> int:
    offsets = checkpoint / "offsets"
    return sum(name.isdigit() for name in os.listdir(offsets)) if offsets.is_dir() else 0


@pytest.fixture
def needs_java() -> None:
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java on PATH")


@pytest.mark.slow
def test_a_stream_killed_at_random_moments_writes_each_record_once(tmp_path: Path, needs_java: None) -> None:
    pytest.importorskip("pyspark.sql.streaming.datasource", reason="PySpark before 4.2 has no limits of streams")
    logs, checkpoint = tmp_path / "logs", tmp_path / "checkpoint"
    expected = []
    for name in ("a", "b"):
        shutil.copytree(MANY, logs / f"{name}-0")
        expected += [[name, row["offset"]] for log in LOGS[:-1] for row in rows_of(log)]
    arguments = (STREAM, "local[1]", logs, tmp_path / "out", checkpoint)
    moments, kills = random.Random(27), 0
    for _ in range(3):
        before, delay = batches_begun(checkpoint), moments.uniform(0, 0.8)
        process = started(tmp_path, *arguments)
        while batches_begun(checkpoint) == before and process.poll() is None:
            time.sleep(0.01)
        time.sleep(delay)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            kills += 1
        process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), (tmp_path / "errors").read_text()[-2000:]
    assert kills, "there is more to read than a driver can before its first kill"
    assert sorted(output_of(started(tmp_path, *arguments), tmp_path)) == sorted(expected)
    assert batches_begun(checkpoint) == 6


@pytest.mark.slow
def test_jobs_survive_a_killed_executor(tmp_path: Path, needs_java: None) -> None:
    source, target = CLIENTS / "librdkafka-gzip-0", tmp_path / "copy-0"
    home = spark_home(tmp_path / "spark")
    process = started(
        tmp_path, LOST_EXECUTOR, "local-cluster[2,1,512]", source, target, tmp_path / "parquet", tmp_path / "killed",
        SPARK_HOME=str(home),
    )  # fmt: skip
    offsets = output_of(process, tmp_path)
    expected = rows_of(source)
    assert sorted(offsets) == [row["offset"] for row in expected]
    for row in expected:
        row["topic"] = "copy"
    assert rows_of(target) == expected
    assert (tmp_path / "killed").exists()
    assert not list(tmp_path.glob(".kseg-*"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 160 KiB."""
    place = tmp_path / "small"
    place.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=160k", "none", str(place)]
    if shutil.which("mount") is None or subprocess.run(mounting, capture_output=True, check=False).returncode:
        pytest.skip("this user cannot mount a small file system")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_ends_a_job_with_one_line(spark: Any, tmp_path: Path, small_disk: Path) -> None:
    frame = spark.range(20000).selectExpr("id as offset", "cast(uuid() as binary) as value").coalesce(1)
    with pytest.raises(Exception, match="No space left on device") as raised:
        frame.write.format("kseg").mode("append").save(str(small_disk / "orders-0"))
    assert kseg.spark.reason(raised.value) == f"{small_disk}: nothing was written: No space left on device"
    assert os.listdir(small_disk) == []

    (small_disk / "filled").write_bytes(bytes(150_000))
    reading = spark.readStream.format("kseg").option("includeLast", "true").load(str(CLIENTS / "librdkafka-gzip-0"))
    writing = reading.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(Exception, match="TASK_WRITE_FAILED") as raised:
        writing.trigger(availableNow=True).start(str(small_disk / "out"), "parquet").awaitTermination(240)
    assert kseg.spark.reason(raised.value).endswith(f"{small_disk}/out.: No space left on device")
    (small_disk / "filled").unlink()
    writing.trigger(availableNow=True).start(str(small_disk / "out"), "parquet").awaitTermination(240)
    assert spark.read.parquet(str(small_disk / "out")).count() == 240


def test_errors_in_streams_have_one_readable_line(spark: Any, tmp_path: Path) -> None:
    partition = tmp_path / "orders-0"
    shutil.copytree(MANY, partition)
    damaged = partition / LOGS[1].name
    data = bytearray(damaged.read_bytes())
    data[70] ^= 1
    damaged.write_bytes(data)

    def reason(where: Path, **options: str) -> str:
        writing = spark.readStream.format("kseg").options(**options).load(str(where)).writeStream
        query = writing.option("checkpointLocation", str(tmp_path / "checkpoint")).format("noop")
        with pytest.raises(Exception, match="STREAM_FAILED") as raised:
            query.trigger(availableNow=True).start().awaitTermination(240)
        return kseg.spark.reason(raised.value)

    assert reason(partition, onDamage="fail").startswith(f"{damaged}: position 0: crc-mismatch: ")
    assert reason(tmp_path / "nowhere") == f"{tmp_path}/nowhere: no such file or directory"
