"""One session for all tests that need a JVM. There are few, because each query takes seconds."""

import shutil
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="session")
def needs_java() -> None:
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java on PATH")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, needs_java: None) -> Iterator[Any]:
    pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")
    assert pyspark.__version__ >= "4.1"
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("spark")
    by_name = ROOT / "kseg/spark/by_name"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        if find_spec("pyspark_kseg") is None:  # kseg is not installed: workers import it from here
            patch.setenv("PYTHONPATH", f"{ROOT}:{by_name}")
        patch.chdir(folder)
        session = (
            SparkSession.builder.master("local[1]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.memory", "1g")
            .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.warehouse.dir", str(folder))
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.python.filterPushdown.enabled", "true")
            .config("spark.ui.showConsoleProgress", "false")
            .getOrCreate()
        )
        yield session
        session.stop()
