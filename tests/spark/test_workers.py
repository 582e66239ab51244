"""Workers of Spark, which read tasks with `kseg.spark.modes`, and need only the extra of workers beside its PySpark."""

import gc
import pickle
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.cloudpickle import dumps
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from kseg.spark import modes
from kseg.spark.session import for_workers
from kseg.spark.source import KsegDataSource, configured
from spark.reading import rows_of

ROOT = Path(__file__).resolve().parents[2]
PARTITION = ROOT / "testdata/kafka-4.3.1/clients/librdkafka-gzip-0"
pytestmark = pytest.mark.spark


def test_only_a_worker_exempts_modules_from_collection() -> None:
    modes._exempt_modules.cache_clear()  # a second call of it exempts nothing
    before = gc.get_freeze_count()
    try:
        assert len(rows_of(PARTITION, columns=["offset"])) == 240
        assert gc.get_freeze_count() == before
    finally:
        gc.unfreeze()


def test_a_worker_of_a_session_exempts_its_modules(spark: Any) -> None:
    class Frozen(DataSource):
        """How many objects are exempt in the worker of its task, which has read another source before."""

        @classmethod
        def name(cls) -> str:
            return "frozen"

        def schema(self) -> str:
            return "count bigint"

        def reader(self, schema: Any) -> DataSourceReader:
            return FrozenReader()

    class FrozenReader(DataSourceReader):
        def read(self, partition: Any) -> Iterator[tuple[int]]:
            yield (gc.get_freeze_count(),)

    import kseg.spark

    kseg.spark.register(spark)  # sources found by name have workers of their own
    spark.dataSource.register(Frozen)
    assert spark.read.format("kseg").load(str(PARTITION)).count() == 240
    assert spark.read.format("frozen").load().first()["count"] > 0


LOADING = """
import pickle
import sys

sys.modules["kseg"] = None  # an import raises ModuleNotFoundError
for pickled in pickle.load(sys.stdin.buffer):
    try:
        found = pickle.loads(pickled)
        found({}) if isinstance(found, type) else found(iter([]))
    except Exception as error:
        print(type(error).__module__, error, sep=": ")
"""


def test_all_that_workers_load_names_a_python_without_kseg(tmp_path: Path) -> None:
    source = KsegDataSource({"path": str(PARTITION)})
    schema = source.schema()
    writer = KsegDataSource({"path": str(tmp_path / "new-0")}).writer(StructType(schema.fields[:5]), False)
    work = for_workers(modes.plan)
    sent = [source, source.reader(schema), source.streamReader(schema), writer, configured((), True), work]
    given = pickle.dumps([dumps(each) for each in sent])
    done = subprocess.run([sys.executable, "-c", LOADING], input=given, capture_output=True, check=True)
    (line,) = set(done.stdout.decode().splitlines())
    assert line.startswith(f"kseg.errors: {sys.executable} on {socket.gethostname()}, the Python of Spark's workers, ")
    assert f"has no module kseg: {sys.executable} -m pip install 'kseg[spark-worker]', or set PYSPARK_PYTHON" in line


def test_an_error_names_pythons_without_kseg(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import kseg.spark

    bare = tmp_path / "python"
    path = "$(echo $PYTHONPATH | tr : '\\n' | grep '/lib/py.*[.]zip$' | paste -sd :)"
    bare.write_text(f'#!/bin/sh\nPYTHONPATH={path} exec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setattr(spark.sparkContext, "pythonExec", str(bare))
        kseg.spark.register(spark)
    try:
        with pytest.raises(Exception, match="has no module kseg") as wrong:
            spark.read.format("kseg").load(str(PARTITION))
        last = str(wrong.value).splitlines()[-1]
        assert last.startswith(f"kseg: {sys.executable} on ")
        assert kseg.spark.reason(wrong.value) == last.removeprefix("kseg: ")
    finally:
        kseg.spark.register(spark)


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
    command = [sys.executable, "-c", PROGRAM, str(PARTITION), str(tmp_path / "copy")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "240\n"), done.stderr
    assert len(list((tmp_path / "copy/librdkafka-gzip-0").glob("*.log"))) == 1
