"""Drivers and executors that are killed, and full disks: each record once, or one readable line and nothing torn."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kseg.spark
from cli.command import flip
from spark.drivers import output_of, session, spark_home, started
from spark.reading import rows_of

pytestmark = pytest.mark.spark
TESTDATA = Path(__file__).resolve().parents[2] / "testdata"
MANY = TESTDATA / "kafka-0.11.0.3/txn/compact-txn-0"
LOGS = sorted(MANY.glob("*.log"))
CLIENTS = TESTDATA / "kafka-4.3.1/clients"

LOST_EXECUTOR = """
import os
import signal

source, target, parquet, killed = sys.argv[1:]

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


@pytest.mark.slow
def test_jobs_survive_a_killed_executor(tmp_path: Path, needs_java: None) -> None:
    source, target = CLIENTS / "librdkafka-gzip-0", tmp_path / "copy-0"
    home = spark_home(tmp_path / "spark")
    program = session("local-cluster[2,1,512]", {}) + LOST_EXECUTOR
    arguments = (source, target, tmp_path / "parquet", tmp_path / "killed")
    process = started(tmp_path, program, *arguments, SPARK_HOME=str(home))
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
    flip(damaged, 70)
    kseg.spark.register(spark)

    def reason(where: Path, **options: str) -> str:
        writing = spark.readStream.format("kseg").options(**options).load(str(where)).writeStream
        query = writing.option("checkpointLocation", str(tmp_path / f"of-{where.name}")).format("noop")
        with pytest.raises(Exception, match="STREAM_FAILED") as raised:
            query.trigger(availableNow=True).start().awaitTermination(240)
        found = kseg.spark.reason(raised.value)
        assert str(raised.value).splitlines()[-1] == f"kseg: {found}"
        return found

    assert reason(partition, onDamage="fail").startswith(f"{damaged}: position 0: crc-mismatch: ")
    assert reason(tmp_path / "nowhere") == f"{tmp_path}/nowhere: no such file or directory"
