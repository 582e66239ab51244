"""The data source ``kseg`` for PySpark's Python Data Source API: `spark.read.format("kseg")`.

The module of a mode plans and reads tasks; this module connects it to Spark. PySpark requires Arrow record batches
whose schema is exactly the one derived from the DataFrame's schema.
"""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING, Any

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
from kseg.export import pa
from kseg.export.pushdown import EQUAL, GREATER, GREATER_EQUAL, LESS, LESS_EQUAL, NO_ROWS, Bounds, bounds_of
from kseg.spark.modes import (
    check_schema,
    needs_only_offsets,
    plan,
    record_batches,
    schema_of,
    table_options,
    with_table_options,
)
from kseg.spark.options import WITHOUT_EFFECT, Options, parse_options, parse_write_options
from kseg.spark.session import ForWorkers, for_workers
from kseg.spark.storage import Settings
from kseg.spark.stores import stores_at

if TYPE_CHECKING:
    from kseg.spark.streams import KsegStreamReader
    from kseg.spark.writing import KsegWriter

_log = logging.getLogger("kseg.spark")

# Pushed-down filters. Spark evaluates those again that a reader does not apply exactly.

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017 - as Spark's own
_MICROSECOND, _MILLISECOND = timedelta(microseconds=1), 1000
_LAST_MS = ((1 << 63) - 1) // _MILLISECOND
"""Later timestamps overflow a DataFrame's microseconds and are null, so no comparison is true for them."""


_COMPARISONS: dict[type, str] = {
    EqualTo: EQUAL, In: EQUAL, LessThan: LESS, LessThanOrEqual: LESS_EQUAL, GreaterThan: GREATER,
    GreaterThanOrEqual: GREATER_EQUAL,
}  # fmt: skip


def narrowed(options: Options, each: Filter) -> tuple[Options, bool]:
    """Returns the options of a read that leaves out rows for which a filter is not true, and whether it leaves out all
    of them.
    """
    column: Any = ".".join(getattr(each, "attribute", ()))
    if isinstance(each, IsNotNull):
        return options, column == "offset"
    comparison = _COMPARISONS.get(type(each))
    if comparison is None or column not in ("offset", "timestamp", "topic", "partition"):
        return options, False
    given: Any = each
    values = [value for value in (given.value if isinstance(each, In) else [given.value]) if value is not None]
    every = [bounds_of(column, comparison, _milliseconds(value)) for value in values]
    kept = [bounds for bounds in every if bounds is not None]
    if len(kept) < len(every):
        return options, False
    found = reduce(or_, kept, NO_ROWS)
    if column == "timestamp":
        found &= Bounds(earliest_ms=-_LAST_MS, latest_ms=_LAST_MS)
    return options.within(found), len(kept) < 2 or column in ("topic", "partition")


def _milliseconds(value: Any) -> Any:
    """Returns the ms before and after a time; other values as they are."""
    if not isinstance(value, datetime):
        return value
    micros = (value if value.tzinfo else value.astimezone()) - _EPOCH
    below, rest = divmod(micros // _MICROSECOND, _MILLISECOND)
    return below, below + bool(rest)


_IN_A_CATALOG = "provider"
"""An option that only the creation of a table in a catalog has."""


class KsegDataSource(ForWorkers, DataSource):
    """Reads segments, partitions and log directories as rows, and writes rows as segments.

    Of a registered source (`configured`): ``hadoop``, properties of Spark's Hadoop configuration; ``plans_apart``,
    whether queries of one DataFrame are planned apart (`kseg.spark.session`); ``pushes_filters``, the default of the
    option.
    """

    def __init__(
        self, options: dict[str, str], hadoop: Settings = (), plans_apart: bool = False, pushes_filters: bool = False
    ) -> None:
        super().__init__(options)
        self.hadoop, self.plans_apart, self.pushes_filters = hadoop, plans_apart, pushes_filters

    @classmethod
    def name(cls) -> str:
        return "kseg"

    def schema(self) -> StructType:
        """Returns the columns. Raises KsegError for invalid options."""
        options = parse_options(self.options, self.hadoop)
        found = schema_of(options.mode, options.includes_headers, options.decoding.columns)
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
        if options.start.is_latest:
            raise KsegError("startingOffsets latest of format kseg is for streams: a batch has no later records")
        pushes_filters = self.pushes_filters if options.pushes_filters is None else options.pushes_filters
        kind = KsegPushingReader if pushes_filters else KsegReader
        return kind(options, schema)

    def streamReader(self, schema: StructType) -> "KsegStreamReader":
        from kseg.spark.streams import HAS_LIMITS, KsegStreamReader

        options = self._options_for(schema)
        limits = options.max_files, options.max_bytes, options.max_offsets
        if not HAS_LIMITS and (any(limits) or options.start.is_latest):
            raise KsegError("limits of micro-batches, and startingOffsets latest, need PySpark 4.2 or later")
        return KsegStreamReader(options, schema)

    def _options_for(self, schema: StructType) -> Options:
        given = table_options(schema) | dict(self.options)
        options = parse_options(given, self.hadoop)
        for name in WITHOUT_EFFECT.keys() & map(str.lower, given):
            _log.warning("format kseg: option %s", WITHOUT_EFFECT[name])
        check_schema(options.mode, schema, options.decoding.columns)
        return replace(options, reads_offsets=needs_only_offsets(options.mode, schema))


def configured(settings: Settings, plans_apart: bool, pushes_filters: bool = False) -> type[DataSource]:
    """Returns a class whose constructor returns the source with these attributes. Spark pickles it by value."""
    source = for_workers(
        partial(KsegDataSource, hadoop=settings, plans_apart=plans_apart, pushes_filters=pushes_filters)
    )

    class ConfiguredDataSource(DataSource):
        def __new__(cls, options: dict[str, str]) -> Any:
            return source(options)

        @classmethod
        def name(cls) -> str:
            return "kseg"

    return ConfiguredDataSource


class KsegReader(ForWorkers, DataSourceReader):
    """Reads only the columns of ``schema``."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self.options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Returns the tasks of the mode. Raises KsegError for paths that do not exist or are not Kafka's."""
        with stores_at(self.options.paths, self.options.storage):
            tasks = plan(self.options)
        return [InputPartition(task) for task in tasks] or [InputPartition(())]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Yields the Arrow record batches of one task."""
        return record_batches(partition.value, self.options, self._schema)


class KsegPushingReader(KsegReader):
    """The reader to which Spark pushes filters.

    It is a separate class, because Spark rejects a reader with pushFilters in sessions without
    ``spark.sql.python.filterPushdown.enabled``.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Accepts comparisons of offset and timestamp, topics and partitions, in mode records."""
        left = []
        for each in filters:
            is_exact = False
            if self.options.mode == "records":
                self.options, is_exact = narrowed(self.options, each)
            if not is_exact:
                left.append(each)
        return left
