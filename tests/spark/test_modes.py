"""Workers of Spark, which read tasks with `kseg.spark.modes`."""

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import DataSource, DataSourceReader

from kseg.spark import modes
from spark.reading import rows_of

PARTITION = Path(__file__).resolve().parent.parent.parent / "testdata/kafka-4.3.1/clients/librdkafka-gzip-0"
pytestmark = pytest.mark.spark


@pytest.mark.parametrize("is_worker", [True, False])
def test_only_a_worker_exempts_modules_from_garbage_collection(
    is_worker: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Context:
        @staticmethod
        def get() -> object:
            return object() if is_worker else None

    monkeypatch.setattr("pyspark.TaskContext", Context)
    modes._exempt_modules.cache_clear()
    gc.unfreeze()
    try:
        assert len(rows_of(PARTITION, columns=["offset"])) == 240
        assert (gc.get_freeze_count() > 0) is is_worker
    finally:
        gc.unfreeze()
        modes._exempt_modules.cache_clear()


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
