"""A cluster of executors in separate processes, which can import kseg only from its installation."""

import os
import shutil
from pathlib import Path

import pytest

from cleaner.partitions import PAIRS, files
from spark.drivers import ROOT, output_of, spark_home, started

pytestmark = [pytest.mark.spark, pytest.mark.slow]
CLIENTS = ROOT / "testdata/kafka-4.3.1/clients"

PROGRAM = """
import json
import os
import sys
import pyspark_kseg
from pyspark.sql import SparkSession
from kseg.cli.main import run

logs, partition, target = sys.argv[1:4]
spark = (
    SparkSession.builder.master("local-cluster[2,1,512]")
    .config("spark.executor.memory", "512m")
    .config("spark.driver.memory", "512m")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .getOrCreate()
)
relative = os.path.relpath(logs)
frame = spark.read.format("kseg").option("splitBytes", "2k").load(relative)
here = spark.sparkContext.parallelize(range(4), 4).map(lambda _: __import__("kseg").__file__).distinct().collect()
found = {"records": frame.count(), "kseg": here}
ranged = frame.drop("topic", "partition").repartitionByRange(2, "offset").sortWithinPartitions("offset")
ranged.write.format("kseg").mode("append").save(target)
try:
    run(["dump", "--engine", "spark", "--format", "json", "-o", "dumped", relative])
except SystemExit as end:
    print(json.dumps(found | {"dump": end.code}), flush=True)
run(["compact", "--engine", "spark", "--quiet", *sys.argv[4:], partition])
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """kseg and pyspark_kseg as installed files, without the rest of the source tree."""
    target = tmp_path / "site"
    shutil.copytree(ROOT / "kseg", target / "kseg", ignore=shutil.ignore_patterns("__pycache__", "by_name"))
    shutil.copytree(ROOT / "kseg/spark/by_name/pyspark_kseg", target / "pyspark_kseg")
    return target


def test_executors_read_write_and_compact(tmp_path: Path, installed: Path, needs_java: None) -> None:
    pair = PAIRS[2]
    partition, home = pair.copy(tmp_path), spark_home(tmp_path / "spark")
    options = [option for option in pair.options if option not in ("--memory", "1M")]
    source = CLIENTS / "librdkafka-gzip-0"
    arguments, given = (source, partition, tmp_path / "copy-0", *options), {"PYTHONPATH": str(installed)}
    found = output_of(started(tmp_path, PROGRAM, *arguments, **given, SPARK_HOME=str(home)), tmp_path)
    assert found == {"records": 240, "kseg": [str(installed / "kseg/__init__.py")], "dump": 0}
    assert f'"file":"{os.path.relpath(source, tmp_path)}/' in (tmp_path / "dumped").read_text("utf-8")
    assert files(partition, ".log", ".index", ".timeindex", ".txnindex") == files(
        pair.after, ".log", ".index", ".timeindex", ".txnindex"
    )
    assert len(list((tmp_path / "copy-0").glob("*.log"))) == 2
    assert any((home / "work").glob("app-*/*")), "where executors of their own have worked"
