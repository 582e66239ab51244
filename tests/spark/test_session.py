"""The data source in a real session: lookup by name, reading, SQL, pushed filters."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spark.drivers import environment

TESTDATA = Path(__file__).resolve().parent.parent.parent / "testdata"
CLIENTS = TESTDATA / "kafka-4.3.1/clients"

pytestmark = pytest.mark.spark


def test_an_installed_source_is_found_by_its_name(spark: Any) -> None:
    frame = spark.read.format("kseg").load(str(CLIENTS / "librdkafka-gzip-0"))
    assert frame.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    assert frame.count() == 240


def test_register_leaves_the_session_as_it_is(spark: Any) -> None:
    import kseg.spark

    before = spark.sparkContext.pythonExec
    kseg.spark.register(spark)
    assert spark.sparkContext.pythonExec == before
    row = spark.read.format("kseg").load(str(CLIENTS / "librdkafka-gzip-0")).where("offset = 6").first()
    assert (row.key, row.value, row.partition) == (b"key-0006", b"one", 0)
    assert [(header.key, header.value) for header in row.headers] == [("trace", b"1")]


def test_sql_counts_by_key_over_a_glob_with_a_schema(spark: Any) -> None:
    spark.sql(
        f"create or replace temporary view v using kseg options (path '{CLIENTS}/librdkafka-*-0', splitBytes '2k')"
    )
    counts = spark.sql("select topic, count(*) n, count(key) k from v group by topic order by topic").collect()
    assert [row.topic for row in counts] == sorted(path.name[:-2] for path in CLIENTS.glob("librdkafka-*-0"))
    assert {row.n for row in counts if row.topic != "librdkafka-txn"} == {240}
    offsets = spark.read.format("kseg").schema("offset bigint").load(str(CLIENTS / "librdkafka-gzip-0"))
    assert sorted(row.offset for row in offsets.collect()) == list(range(240))


def test_a_table_of_the_catalog_needs_a_path(spark: Any) -> None:
    spark.sql("create table columns (offset bigint) using kseg options (path '/nowhere')")
    try:
        with pytest.raises(Exception, match="a table needs one, and no columns of its own"):
            spark.table("columns").count()
    finally:
        spark.sql("drop table columns")


def test_the_secrets_of_a_table_are_not_in_its_columns() -> None:
    from kseg.spark.source import KsegDataSource

    given = {"path": "s3://archive/orders-0", "provider": "kseg", "storage.secret_key": "s3cret", "owner": "root"}
    schema = KsegDataSource(given).schema()
    assert "s3cret" not in schema.json()
    assert "s3://archive/orders-0" in schema.json()
    del given["provider"]
    assert "orders" not in KsegDataSource(given).schema().json()


def test_pushed_filters_are_not_in_the_plan(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    import kseg.spark

    kseg.spark.register(spark)
    reading = spark.read.format("kseg").option("splitBytes", "2k")
    frame = reading.load(str(CLIENTS / "librdkafka-gzip-0")).where("offset >= 10 and offset < 13 and topic like 'l%'")
    assert sorted(row.offset for row in frame.collect()) == [10, 11, 12]
    frame.explain()
    conditions = re.findall(r"\bFilter (.*)", capsys.readouterr().out)
    assert "topic" in conditions[0]
    assert "offset" not in "".join(conditions)


def test_other_modes_are_frames_too(spark: Any) -> None:
    path = str(TESTDATA / "damaged/4.3.1-last-length-zero/dplain-0")
    reading = spark.read.format("kseg")
    assert reading.option("mode", "findings").load(path).where("code = 'bad-length'").first().position == 7129
    assert reading.option("mode", "batches").load(path).agg({"size": "sum"}).first()[0] > 0
    assert reading.option("mode", "entries").load(path).where("type = 'offsetIndexEntry'").count() >= 0


def test_an_error_has_the_message_of_kseg(spark: Any) -> None:
    with pytest.raises(Exception, match="is it startOffset") as wrong:
        spark.read.format("kseg").option("startOfset", "1").load(str(CLIENTS))
    assert "KsegError" in str(wrong.value)
    with pytest.raises(Exception, match="nowhere: no such file or directory"):
        spark.read.format("kseg").load("nowhere").count()


def test_a_stream_of_what_is_available_now(spark: Any, tmp_path: Path) -> None:
    source = TESTDATA / "kafka-0.11.0.3/txn/compact-txn-0"
    closed = [str(path) for path in sorted(source.glob("*.log"))[:-1]]
    frame = spark.readStream.format("kseg").load(str(source))
    query = (
        frame.writeStream.format("memory")
        .queryName("streamed")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination(240)
    except Exception as error:
        if "Python worker failed to connect back" in str(error):
            pytest.skip("the machine is too busy: Spark gives the Python of a stream ten seconds to start")
        raise
    expected = spark.read.format("kseg").load(closed)
    assert spark.table("streamed").select("offset").exceptAll(expected.select("offset")).count() == 0
    assert spark.table("streamed").count() == expected.count() > 0


OWN_SESSION = """
from pyspark import SparkContext
from kseg.spark.session import session

with session(cores=1) as spark:
    folder = spark.conf.get("spark.local.dir")
    print(spark.range(3).count())
print(SparkContext._active_spark_context, __import__("os").path.exists(folder))
"""


def test_a_session_of_its_own_is_stopped(tmp_path: Path, needs_java: None) -> None:
    given = environment(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", OWN_SESSION], cwd=tmp_path, env=given, capture_output=True, text=True, timeout=300
    )
    assert done.stdout.splitlines() == ["3", "None False"], done.stderr
