"""The extra of workers: what tasks need beside the PySpark that Spark itself brings."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.spark

PROGRAM = """
import sys
for name in ("pandas", "numpy"):
    sys.modules[name] = None  # an import raises ModuleNotFoundError
from kseg.spark.source import KsegDataSource

source = KsegDataSource({"path": sys.argv[1]})
reader = source.reader(source.schema())
batches = [batch for task in reader.partitions() for batch in reader.read(task)]
print(sum(batch.num_rows for batch in batches))
writer = KsegDataSource({"path": sys.argv[2]}).writer(source.schema(), False)
writer.commit([writer.write(iter(batches))])
"""


def test_the_extra_has_no_pyspark() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert set(extras["spark-worker"]) < set(extras["spark"])
    assert not [name for name in extras["spark-worker"] if name.startswith(("pyspark", "pandas"))]


def test_tasks_read_and_write_without_pandas(tmp_path: Path) -> None:
    source = ROOT / "testdata/kafka-4.3.1/clients/librdkafka-gzip-0"
    command = [sys.executable, "-c", PROGRAM, str(source), str(tmp_path / "copy")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "240\n"), done.stderr
    assert len(list((tmp_path / "copy/librdkafka-gzip-0").glob("*.log"))) == 1
