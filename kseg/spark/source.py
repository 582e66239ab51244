"""The data source ``kseg`` for PySpark's Python Data Source API: `spark.read.format("kseg")`.

The module of a mode plans and reads tasks; this module connects it to Spark. PySpark requires Arrow record batches
whose schema is exactly the one derived from the DataFrame's schema.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from kseg.spark.filters import Narrowed
from kseg.spark.modes import module_of
from kseg.spark.options import Options, parse_options, parse_write_options
from kseg.spark.schemas import check_schema, schema_of

if TYPE_CHECKING:
    import pyarrow

    from kseg.spark.streams import KsegStreamReader
    from kseg.spark.writing import KsegWriter


class KsegDataSource(DataSource):
    """Reads segments, partitions and log directories as rows, and writes rows as segments."""

    @property
    def _parsed(self) -> Options:
        """Returns the options. Raises KsegError for invalid ones."""
        return parse_options(self.options)

    @classmethod
    def name(cls) -> str:
        return "kseg"

    def schema(self) -> StructType:
        return schema_of(self._parsed.mode)

    def writer(self, schema: StructType, overwrite: bool) -> "KsegWriter":
        from kseg.spark.writing import KsegWriter

        return KsegWriter(parse_write_options(self.options), schema, overwrite)

    def reader(self, schema: StructType) -> "KsegReader":
        check_schema(self._parsed.mode, schema)
        kind = KsegPushingReader if self._parsed.pushes_filters else KsegReader
        return kind(self._parsed, schema)

    def streamReader(self, schema: StructType) -> "KsegStreamReader":
        from kseg.spark.streams import KsegStreamReader

        check_schema(self._parsed.mode, schema)
        return KsegStreamReader(self._parsed, schema)


class Part(InputPartition):
    """One task of a mode."""


class KsegReader(DataSourceReader):
    """Reads only the columns of ``schema``."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self.narrowed = Narrowed(options)
        self._schema = schema

    @property
    def _mode(self) -> Any:
        return module_of(self.narrowed.options.mode)

    def partitions(self) -> list[InputPartition]:
        """Returns the tasks. Raises KsegError for paths that do not exist or are not Kafka's."""
        tasks = self._mode.plan(self.narrowed.options, self.narrowed.places.keep)
        return [Part(task) for task in tasks] or [Part(())]

    def read(self, partition: InputPartition) -> Iterator["pyarrow.RecordBatch"]:
        """Yields the Arrow record batches of one task."""
        from pyspark.sql.pandas.types import to_arrow_schema

        wanted = to_arrow_schema(self._schema, timezone="UTC")
        return iter(self._mode.read(partition.value, self.narrowed.options, wanted))


class KsegPushingReader(KsegReader):
    """The reader with option ``pushFilters``.

    It is a separate class, because Spark rejects a reader with pushFilters in sessions without
    ``spark.sql.python.filterPushdown.enabled``.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Accepts comparisons of offset and timestamp, topics and partitions, in mode records."""
        if self.narrowed.options.mode != "records":
            return filters
        return self.narrowed.take(filters)
