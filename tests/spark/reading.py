"""Runs the data source's readers without a JVM: the rows that Spark would get, as a list."""

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.cloudpickle import dumps
from pyspark.sql.types import StructType

import kseg.spark
from kseg.spark.hadoop import hadoop_settings
from kseg.spark.modes import arrow_schema_of, columns_of
from kseg.spark.options import MODES, Options
from kseg.spark.source import KsegReader, configured


def reader_of(paths: list[object], columns: list[str] | None = None, **options: str) -> KsegReader:
    import json

    given = {"paths": json.dumps([str(path) for path in paths])} | options
    source = configured((), plans_apart=True)({name.lower(): value for name, value in given.items()})
    schema = source.schema()
    if columns is not None:
        schema = StructType([schema[name] for name in columns])
    return source.reader(schema=schema)


def read(reader: KsegReader) -> list[dict[str, Any]]:
    """Returns the rows of all tasks in order; tasks and reader are pickled as for another process."""
    rows: list[dict[str, Any]] = []
    for task in reader.partitions():
        there, part = pickle.loads(dumps((reader, task)))
        for batch in there.read(part):
            batch.validate(full=True)
            assert batch.schema.equals(arrow_schema_of(reader._schema))
            rows += batch.to_pylist()
    return rows


def rows_of(*paths: object, columns: list[str] | None = None, **options: str) -> list[dict[str, Any]]:
    return read(reader_of(list(paths), columns, **options))


ALL = {mode: list(columns_of(Options(mode=mode))) for mode in MODES}


@contextmanager
def hadoop_properties(spark: Any, given: dict[str, str]) -> Iterator[None]:
    """The session has properties of Hadoop, and the source is registered with them, inside the block."""
    configuration, before = spark.sparkContext._jsc.hadoopConfiguration(), hadoop_settings(spark)
    old = {name: configuration.get(name) for name in given}
    for name, value in given.items():
        configuration.set(name, value)
    try:
        kseg.spark.register(spark)
        yield
    finally:
        for name, value in old.items():
            configuration.unset(name) if value is None else configuration.set(name, value)
        kseg.spark.register(spark)
    assert hadoop_settings(spark) == before
