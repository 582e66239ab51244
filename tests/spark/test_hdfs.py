"""A real HDFS of two name nodes: read and written without libhdfs, with the settings of the JVM, through a failover."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from broker.jars import class_path

pytest.importorskip("requests", reason="requests is not installed")

from spark.reading import hadoop_properties, rows_of

RELEASE = "3.5.0"
"""Of Hadoop, whatever client PySpark contains: the name nodes in this package of 3.4.2 answer WebHDFS with 404."""
SERVICE = "archive"
"""The name service."""


class MiniHdfs:
    """``properties``: those by which clients find the name nodes."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.properties = dict(line.split("=", 1) for line in self._lines())

    def _lines(self) -> Iterator[str]:
        """Yields the lines until the next empty one."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line == "\n":
                return
            yield line.strip()
        raise AssertionError("the cluster has ended")

    def fail_over(self) -> None:
        """Makes the other name node active."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        assert list(self._lines()) == []


@contextmanager
def mini_hdfs(folder: Path) -> Iterator[MiniHdfs]:
    """Starts a cluster with its files in a folder. Skips the test, with the reason, without Hadoop's jars."""
    jars = class_path("hadoop-client-minicluster", RELEASE, group="org.apache.hadoop")
    program = str(Path(__file__).with_name("MiniHdfs.java"))
    command = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", jars, program, str(folder)]
    with (folder / "errors").open("w") as errors, started(command, errors) as process:
        yield MiniHdfs(process)


@contextmanager
def started(command: list[str], errors: IO[str]) -> "Iterator[subprocess.Popen[str]]":
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, text=True) as process:
        try:
            yield process
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()


CLIENTS = Path(__file__).resolve().parents[2] / "testdata/kafka-4.3.1/clients"
PARTITIONS = ("librdkafka-gzip-0", "librdkafka-txn-0")
PROVIDER = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
NOW = "2000000000000"
pytestmark = [pytest.mark.spark, pytest.mark.broker]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, needs_java: None) -> Iterator[MiniHdfs]:
    with mini_hdfs(tmp_path_factory.mktemp("hdfs")) as found:
        yield found


@pytest.fixture
def hadoop(cluster: MiniHdfs, spark: Any) -> Iterator[Any]:
    """Hadoop's own client of the cluster, which the session can find, too."""
    given = cluster.properties | {
        f"dfs.client.failover.proxy.provider.{SERVICE}": PROVIDER,
        "fs.viewfs.mounttable.tables.link./old": f"hdfs://{SERVICE}/logs",
    }
    with hadoop_properties(spark, given):
        place = spark._jvm.java.net.URI(f"hdfs://{SERVICE}")
        configuration = spark.sparkContext._jsc.hadoopConfiguration()
        yield spark._jvm.org.apache.hadoop.fs.FileSystem.newInstance(place, configuration)


def path(spark: Any, name: object) -> Any:
    return spark._jvm.org.apache.hadoop.fs.Path(str(name))


def copy_in(spark: Any, hadoop: Any, target: str, *names: str) -> None:
    hadoop.delete(path(spark, target), True)
    for name in names:
        hadoop.copyFromLocalFile(path(spark, CLIENTS / name), path(spark, f"{target}/{name}"))


def rows(spark: Any, mode: str, *places: object) -> list[dict[str, Any]]:
    """The rows of partitions, which name no place."""
    frame = spark.read.format("kseg").options(mode=mode, now=NOW).load(list(map(str, places)))
    found = (row.asDict(recursive=True) for row in frame.drop("file", "repair").collect())
    return sorted((row for row in found if row["topic"]), key=str)


@pytest.mark.parametrize("mode", ["records", "counts", "batches", "findings", "entries"])
def test_rows_stay_the_same_after_a_failover(cluster: MiniHdfs, spark: Any, hadoop: Any, mode: str) -> None:
    copy_in(spark, hadoop, "/logs", *PARTITIONS)
    expected = rows(spark, mode, *(CLIENTS / name for name in PARTITIONS))
    for place in (f"hdfs://{SERVICE}/logs/*-0", "viewfs://tables/old", f"hdfs://{SERVICE}/logs/librdkafka-[gt]*"):
        assert rows(spark, mode, place) == expected
        cluster.fail_over()
    assert expected or mode == "findings"


def test_the_default_file_system(spark: Any, hadoop: Any) -> None:
    copy_in(spark, hadoop, "/logs", *PARTITIONS)
    with hadoop_properties(spark, {"fs.defaultFS": f"hdfs://{SERVICE}"}):
        assert rows(spark, "batches", "hdfs:///logs") == rows(spark, "batches", f"hdfs://{SERVICE}/logs")


def test_a_stream_reads_closed_segments(spark: Any, hadoop: Any, tmp_path: Path) -> None:
    copy_in(spark, hadoop, "/stream", "librdkafka-gzip-0")
    query = (
        spark.readStream.format("kseg").option("includeLast", "true").load(f"hdfs://{SERVICE}/stream")
        .writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True).start(str(tmp_path / "rows"))
    )  # fmt: skip
    query.awaitTermination()
    assert spark.read.parquet(str(tmp_path / "rows")).count() == len(rows_of(CLIENTS / "librdkafka-gzip-0"))


def test_written_partitions_are_those_of_a_disk(cluster: MiniHdfs, spark: Any, hadoop: Any, tmp_path: Path) -> None:
    frame = spark.read.format("kseg").load(str(CLIENTS / "librdkafka-gzip-0")).drop("topic", "partition").coalesce(1)
    for place in (f"hdfs://{SERVICE}/new/logs/copy-0", str(tmp_path / "copy-0")):
        frame.write.format("kseg").option("segmentBytes", "8k").mode("append").save(place)
    hadoop.copyToLocalFile(path(spark, "/new/logs/copy-0"), path(spark, tmp_path / "back-0"))
    found, expected = (
        {file.name: file.read_bytes() for file in (tmp_path / name).iterdir()} for name in ("back-0", "copy-0")
    )
    found = {name: data for name, data in found.items() if not name.endswith(".crc")}
    assert sum(name.endswith(".log") for name in found) > 1
    assert found == {name: data for name, data in expected.items() if not name.startswith(".kseg-")}
    left = [status.getPath().getName() for status in hadoop.listStatus(path(spark, "/new/logs"))]
    assert left == ["copy-0"]
    with pytest.raises(Exception, match="hdfs://archive/new/logs/copy-0: already exists"):
        frame.write.format("kseg").mode("append").save(f"hdfs://{SERVICE}/new/logs/copy-0")


def test_errors_are_those_of_hdfs(spark: Any, hadoop: Any) -> None:
    copy_in(spark, hadoop, "/closed", "librdkafka-gzip-0")
    hadoop.setPermission(path(spark, "/closed"), spark._jvm.org.apache.hadoop.fs.permission.FsPermission("700"))
    read = spark.read.format("kseg").option("storage.user", "nobody")
    with pytest.raises(Exception, match=r"hdfs://archive/closed/librdkafka-gzip-0: Permission denied: user=nobody"):
        read.load(f"hdfs://{SERVICE}/closed/librdkafka-gzip-0").count()
    with pytest.raises(Exception, match=r"hdfs://archive/nowhere: no such file"):
        spark.read.format("kseg").load(f"hdfs://{SERVICE}/nowhere").count()
