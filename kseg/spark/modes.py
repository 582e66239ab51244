"""The modules of the modes of the data source."""

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from kseg.spark.options import Options
from kseg.spark.schemas import arrow_schema_of
from kseg.spark.stores import stores_at

if TYPE_CHECKING:
    import pyarrow


def module_of(mode: str) -> Any:
    """Returns the module of a mode. It is imported on demand, because Spark plans in a new process each time."""
    return import_module(f"kseg.spark.{mode}")


def record_batches(task: Any, options: Options, schema: StructType) -> Iterator["pyarrow.RecordBatch"]:
    """Yields the Arrow record batches of a task of the options' mode."""
    with stores_at(options.paths, options.storage):
        yield from module_of(options.mode).read(task, options, arrow_schema_of(schema))
