"""A session of Spark Connect, whose client has no JVM."""

import shutil
from pathlib import Path

import pytest

pytest.importorskip("grpc_status", reason="pyspark[connect] is not installed")

from spark.drivers import ROOT, output_of, session, started
from spark.reading import rows_of

pytestmark = [pytest.mark.spark, pytest.mark.slow]
SOURCE = ROOT / "testdata/kafka-4.3.1/clients/librdkafka-gzip-0"

PROGRAM = """
folder = sys.argv[1]
reading = spark.read.format("kseg")

def reason(work):
    try:
        return work()
    except Exception as error:
        return kseg.spark.reason(error)

def stream():
    frame = spark.readStream.format("kseg").option("includeLast", "true").load(f"{folder}/orders-0")
    writing = frame.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
    writing.trigger(availableNow=True).start(f"{folder}/streamed").awaitTermination()
    return spark.read.parquet(f"{folder}/streamed").count()

frame = reading.load(f"{folder}/orders-0")
ranged = frame.drop("topic", "partition").repartitionByRange(2, "offset").sortWithinPartitions("offset")
ranged.write.format("kseg").mode("append").save(f"{folder}/copy-0")
spark.sql(f"create temporary view orders using kseg options (path '{folder}/orders-0', endOffset '7')")
print(json.dumps({
    "module": type(spark).__module__,
    "frame": frame.count(),
    "schema": reading.schema("offset bigint").load(f"{folder}/orders-0").agg({"offset": "max"}).first()[0],
    "view": spark.sql("select count(*) from orders").first()[0],
    "stream": reason(stream),
    "missing": reason(lambda: reading.load(f"{folder}/nowhere").count()),
    "pushed": reason(lambda: reading.option("pushFilters", "true").load(f"{folder}/orders-0").count()),
}))
spark.stop()
"""


def test_a_connect_session_reads_writes_and_streams(tmp_path: Path, needs_java: None) -> None:
    shutil.copytree(SOURCE, tmp_path / "orders-0")
    program = session("local[1]", {"spark.sql.python.filterPushdown.enabled": "true"}) + PROGRAM
    program = program.replace(".master('local[1]')", ".remote('local[1]')")
    found = output_of(started(tmp_path, program, tmp_path), tmp_path)
    assert found == {
        "module": "pyspark.sql.connect.session",
        "frame": 240,
        "schema": 239,
        "view": 8,
        "stream": 240,
        "missing": f"{tmp_path}/nowhere: no such file or directory",
        "pushed": "pushFilters needs kseg.spark.register(spark), and a session that is not of Spark Connect",
    }
    assert rows_of(tmp_path / "copy-0") == [row | {"topic": "copy"} for row in rows_of(SOURCE)]
