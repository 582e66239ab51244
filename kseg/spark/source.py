"""The data source ``kseg`` for PySpark's Python Data Source API: `spark.read.format("kseg")`.

The module of a mode plans and reads tasks; this module connects it to Spark. PySpark requires Arrow record batches
whose schema is exactly the one derived from the DataFrame's schema.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from kseg.errors import KsegError
from kseg.segment.files import SegmentFile
from kseg.spark.modes import module_of, record_batches
from kseg.spark.options import Options, parse_options, parse_write_options
from kseg.spark.schemas import check_schema, needs_only_offsets, schema_of, table_options, with_table_options
from kseg.spark.storage import Settings
from kseg.spark.stores import stores_at

if TYPE_CHECKING:
    import pyarrow

    from kseg.spark.streams import KsegStreamReader
    from kseg.spark.writing import KsegWriter


# Pushed-down filters: those that a reader applies exactly, so that Spark need not evaluate them again.

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017 - as Spark's own
_MICROSECOND, _MILLISECOND = timedelta(microseconds=1), 1000
_LAST_MS = ((1 << 63) - 1) // _MILLISECOND
"""Later timestamps overflow a DataFrame's microseconds and are null, so no comparison is true for them."""


@dataclass(frozen=True, slots=True)
class WantedPartitions:
    """Requested topics and partitions; None: all. Files without a topic are in no set."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None

    def keep(self, file: SegmentFile) -> bool:
        """Whether a file is in a requested topic and partition."""
        return (self.topics is None or file.topic in self.topics) and (
            self.partitions is None or file.partition in self.partitions
        )


@dataclass(slots=True)
class Narrowed:
    """The options of a read after `take`."""

    options: Options
    partitions: WantedPartitions = field(default_factory=WantedPartitions)

    def take(self, filters: Iterable[Filter]) -> list[Filter]:
        """Applies each filter that can be applied exactly. Returns the others."""
        return [each for each in filters if not self._take(each)]

    def _take(self, each: Filter) -> bool:
        column = getattr(each, "attribute", None)
        if isinstance(each, IsNotNull):
            return column == ("offset",)
        value: Any = getattr(each, "value", None)
        if column == ("offset",):
            return isinstance(value, int) and self._narrow("offset", each, value, value)
        if column == ("timestamp",) and isinstance(value, datetime):
            micros = (value if value.tzinfo else value.astimezone()) - _EPOCH
            below, rest = divmod(micros // _MICROSECOND, _MILLISECOND)
            return self._narrow("timestamp", each, below, below + bool(rest))
        if column in (("topic",), ("partition",)) and isinstance(each, EqualTo | In):
            values = frozenset(each.value if isinstance(each, In) else (value,))
            name = "topics" if column == ("topic",) else "partitions"
            before = getattr(self.partitions, name)
            self.partitions = replace(self.partitions, **{name: values if before is None else before & values})
            return True
        return False

    def _narrow(self, column: str, each: Filter, floor: int, ceiling: int) -> bool:
        """Applies a comparison with a value between the integers ``floor`` and ``ceiling``, which are equal for an
        integer.
        """
        first: int | None = None
        last: int | None = None
        if isinstance(each, EqualTo):
            first, last = ceiling, floor
        elif isinstance(each, GreaterThan):
            first = floor + 1
        elif isinstance(each, GreaterThanOrEqual):
            first = ceiling
        elif isinstance(each, LessThan):
            last = ceiling - 1
        elif isinstance(each, LessThanOrEqual):
            last = floor
        else:
            return False
        options = self.options
        if column == "offset":
            low, high = options.first_offset, options.last_offset
            self.options = replace(
                options, first_offset=low if first is None else max(low, first),
                last_offset=high if last is None else min(high, last),
            )  # fmt: skip
        else:
            low, high = max(options.earliest_ms, -_LAST_MS), min(options.latest_ms, _LAST_MS)
            self.options = replace(
                options, earliest_ms=low if first is None else max(low, first),
                latest_ms=high if last is None else min(high, last),
            )  # fmt: skip
        return True


_IN_A_CATALOG = "provider"
"""An option that only the creation of a table in a catalog has."""


class KsegDataSource(DataSource):
    """Reads segments, partitions and log directories as rows, and writes rows as segments.

    Of a registered source (`configured`): ``hadoop``, properties of Spark's Hadoop configuration; ``plans_apart``,
    whether queries of one DataFrame are planned apart (`kseg.spark.session`).
    """

    hadoop: ClassVar[Settings] = ()
    plans_apart: ClassVar[bool] = False

    @classmethod
    def name(cls) -> str:
        return "kseg"

    def schema(self) -> StructType:
        """Returns the columns. Raises KsegError for invalid options."""
        options = parse_options(self.options, self.hadoop)
        found = schema_of(options.mode, options.includes_headers)
        return with_table_options(found, self.options) if _IN_A_CATALOG in self.options else found

    def writer(self, schema: StructType, overwrite: bool) -> "KsegWriter":
        from kseg.spark.writing import KsegWriter

        return KsegWriter(parse_write_options(self.options, self.hadoop), schema, overwrite)

    def reader(self, schema: StructType) -> "KsegReader":
        """Raises KsegError for invalid options or columns."""
        options = self._options_for(schema)
        if options.pushes_filters and not self.plans_apart:
            # The JVM keeps the plan of a read with its filters for all later queries of the DataFrame, and for others
            # of the same query, which then lack rows (PySpark 4.1 to 4.3).
            raise KsegError("pushFilters needs kseg.spark.register(spark), and a session that is not of Spark Connect")
        kind = KsegPushingReader if options.pushes_filters else KsegReader
        return kind(options, schema)

    def streamReader(self, schema: StructType) -> "KsegStreamReader":
        options = self._options_for(schema)
        if find_spec("pyspark.sql.streaming.datasource") is not None:
            from kseg.spark.limited_streams import LimitedStreamReader

            return LimitedStreamReader(options, schema)
        from kseg.spark.streams import KsegStreamReader

        if options.stream.max_files is not None or options.stream.max_bytes is not None:
            raise KsegError("maxFilesPerTrigger and maxBytesPerTrigger need PySpark 4.2 or later")
        return KsegStreamReader(options, schema)

    def _options_for(self, schema: StructType) -> Options:
        options = parse_options(table_options(schema) | dict(self.options), self.hadoop)
        check_schema(options.mode, schema)
        return replace(options, reads_offsets=needs_only_offsets(options.mode, schema))


def configured(settings: Settings, plans_apart: bool) -> type[KsegDataSource]:
    """Returns the source with these attributes. It is pickled with them, as no module has it."""
    if not settings and not plans_apart:
        return KsegDataSource
    return type("ConfiguredDataSource", (KsegDataSource,), {"hadoop": settings, "plans_apart": plans_apart})


class KsegReader(DataSourceReader):
    """Reads only the columns of ``schema``."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self.narrowed = Narrowed(options)
        self._schema = schema

    @property
    def _mode(self) -> Any:
        return module_of(self.narrowed.options.mode)

    def partitions(self) -> list[InputPartition]:
        """Returns the tasks of the mode. Raises KsegError for paths that do not exist or are not Kafka's."""
        options = self.narrowed.options
        with stores_at(options.paths, options.storage):
            tasks = self._mode.plan(options, self.narrowed.partitions.keep)
        return [InputPartition(task) for task in tasks] or [InputPartition(())]

    def read(self, partition: InputPartition) -> Iterator["pyarrow.RecordBatch"]:
        """Yields the Arrow record batches of one task."""
        return record_batches(partition.value, self.narrowed.options, self._schema)


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
