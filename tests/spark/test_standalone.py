"""A standalone cluster, to which kseg is submitted in the words of kseg-spark(7)."""

import re
import shutil
from pathlib import Path

import pytest

from spark.drivers import ROOT, output_of, run
from spark.reading import rows_of
from spark.standalone import processes_of, standalone_cluster
from test_install import built_wheel

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


def test_a_cluster_ends_with_a_failed_test(tmp_path: Path, needs_java: None) -> None:
    def fail() -> None:
        with standalone_cluster(tmp_path):
            assert len(processes_of(tmp_path / "spark")) == 2
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert processes_of(tmp_path / "spark") == []
