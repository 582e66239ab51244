"""The modes of the data source: modules with ``plan`` and ``read``, imported when Spark asks for a mode.

Those that read parts of segments have the plan of `kseg.spark.planning`.
"""

import gc
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kseg.api.modes import ROW_MODES
from kseg.spark.options import Options
from kseg.spark.schemas import arrow_schema_of
from kseg.spark.stores import stores_at

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType


def module_of(mode: str) -> Any:
    """Returns the module of a mode. It is imported on demand, because Spark plans in a new process each time."""
    return import_module(f"kseg.spark.modes.{'rows' if mode in ROW_MODES else mode}")


def record_batches(task: Any, options: Options, schema: "StructType") -> Iterator["pyarrow.RecordBatch"]:
    """Yields the Arrow record batches of a task of the options' mode."""
    from pyspark import TaskContext

    mode, columns = module_of(options.mode), arrow_schema_of(schema)
    if TaskContext.get() is not None:
        _exempt_modules()
    with stores_at(options.paths, options.storage), _remote_segments(task, options):
        yield from mode.read(task, options, columns)


def _remote_segments(task: Any, options: Options) -> AbstractContextManager[None]:
    found = [(part.file.path, part.remote) for part in task if getattr(part, "remote", None) is not None]
    if not found:
        return nullcontext()
    from kseg.spark.stores import remote_segments_at

    return remote_segments_at(found, options)


@cache
def _exempt_modules() -> None:
    """Exempts the imported modules from garbage collection, once in each worker.

    Spark collects garbage after each task. With pandas and pyarrow imported this takes longer than many tasks.
    """
    gc.collect()
    gc.freeze()
