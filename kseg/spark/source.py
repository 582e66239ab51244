"""The data source ``kseg`` for PySpark's Python Data Source API: `spark.read.format("kseg")`.

The module of a mode plans and reads tasks; this module connects it to Spark. PySpark requires Arrow record batches
whose schema is exactly the one derived from the DataFrame's schema.
"""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from importlib.util import find_spec
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
from kseg.segment.files import LAST_OFFSET
from kseg.spark.modes import module_of, record_batches
from kseg.spark.options import FIRST_OFFSET, WITHOUT_EFFECT, Options, parse_options, parse_write_options
from kseg.spark.schemas import check_schema, needs_only_offsets, schema_of, table_options, with_table_options
from kseg.spark.session import ForWorkers, for_workers
from kseg.spark.storage import Settings
from kseg.spark.stores import stores_at

if TYPE_CHECKING:
    import pyarrow

    from kseg.spark.streams import KsegStreamReader
    from kseg.spark.writing import KsegWriter

_log = logging.getLogger("kseg.spark")

# Pushed-down filters: those that a reader applies exactly, so that Spark need not evaluate them again.

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017 - as Spark's own
_MICROSECOND, _MILLISECOND = timedelta(microseconds=1), 1000
_LAST_MS = ((1 << 63) - 1) // _MILLISECOND
"""Later timestamps overflow a DataFrame's microseconds and are null, so no comparison is true for them."""


def narrowed(options: Options, each: Filter) -> Options | None:
    """Returns the options with which a read applies a filter exactly; None if it cannot."""
    column: Any = getattr(each, "attribute", None)
    value: Any = getattr(each, "value", None)
    if column == ("offset",) and isinstance(each, IsNotNull):
        return options
    if column == ("offset",) and isinstance(value, int) and (ends := _ends(each, value, value)):
        first, last = max(options.first_offset, ends[0]), min(options.last_offset, ends[1])
        return replace(options, first_offset=first, last_offset=last)
    if column == ("timestamp",) and isinstance(value, datetime):
        micros = (value if value.tzinfo else value.astimezone()) - _EPOCH
        below, rest = divmod(micros // _MICROSECOND, _MILLISECOND)
        if ends := _ends(each, below, below + bool(rest)):
            earliest, latest = max(options.earliest_ms, ends[0], -_LAST_MS), min(options.latest_ms, ends[1], _LAST_MS)
            return replace(options, earliest_ms=earliest, latest_ms=latest)
    if column in (("topic",), ("partition",)) and isinstance(each, EqualTo | In):
        values, before = frozenset(each.value if isinstance(each, In) else (value,)), options.subscription
        if column == ("topic",):
            wanted = replace(before, topics=values if before.topics is None else before.topics & values)
        else:
            wanted = replace(before, numbers=values if before.numbers is None else before.numbers & values)
        return replace(options, subscription=wanted)
    return None


def _ends(each: Filter, floor: int, ceiling: int) -> tuple[int, int] | None:
    """Returns the first and last integer for which a comparison is true; None for another filter. Its value is between
    ``floor`` and ``ceiling``, which are equal for an integer.
    """
    if isinstance(each, EqualTo):
        return ceiling, floor
    if isinstance(each, GreaterThan | GreaterThanOrEqual):
        return floor + 1 if isinstance(each, GreaterThan) else ceiling, LAST_OFFSET
    if isinstance(each, LessThan | LessThanOrEqual):
        return FIRST_OFFSET, ceiling - 1 if isinstance(each, LessThan) else floor
    return None


_IN_A_CATALOG = "provider"
"""An option that only the creation of a table in a catalog has."""


class KsegDataSource(ForWorkers, DataSource):
    """Reads segments, partitions and log directories as rows, and writes rows as segments.

    Of a registered source (`configured`): ``hadoop``, properties of Spark's Hadoop configuration; ``plans_apart``,
    whether queries of one DataFrame are planned apart (`kseg.spark.session`).
    """

    def __init__(self, options: dict[str, str], hadoop: Settings = (), plans_apart: bool = False) -> None:
        super().__init__(options)
        self.hadoop, self.plans_apart = hadoop, plans_apart

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
        kind = KsegPushingReader if options.pushes_filters else KsegReader
        return kind(options, schema)

    def streamReader(self, schema: StructType) -> "KsegStreamReader":
        options = self._options_for(schema)
        if find_spec("pyspark.sql.streaming.datasource") is not None:
            from kseg.spark.limited_streams import LimitedStreamReader

            return LimitedStreamReader(options, schema)
        from kseg.spark.streams import KsegStreamReader

        limits = options.stream.max_files, options.stream.max_bytes, options.stream.max_offsets
        if any(limits) or options.start.is_latest:
            raise KsegError("limits of micro-batches, and startingOffsets latest, need PySpark 4.2 or later")
        return KsegStreamReader(options, schema)

    def _options_for(self, schema: StructType) -> Options:
        given = table_options(schema) | dict(self.options)
        options = parse_options(given, self.hadoop)
        for name in WITHOUT_EFFECT.keys() & map(str.lower, given):
            _log.warning("format kseg: option %s", WITHOUT_EFFECT[name])
        check_schema(options.mode, schema, options.decoding.columns)
        return replace(options, reads_offsets=needs_only_offsets(options.mode, schema))


def configured(settings: Settings, plans_apart: bool) -> type[DataSource]:
    """Returns a class whose constructor returns the source with these attributes. Spark pickles it by value."""
    source = for_workers(partial(KsegDataSource, hadoop=settings, plans_apart=plans_apart))

    class ConfiguredDataSource(DataSource):
        def __new__(cls, options: dict[str, str]) -> DataSource:  # type: ignore[misc]
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
            tasks = module_of(self.options.mode).plan(self.options)
        return [InputPartition(task) for task in tasks] or [InputPartition(())]

    def read(self, partition: InputPartition) -> Iterator["pyarrow.RecordBatch"]:
        """Yields the Arrow record batches of one task."""
        return record_batches(partition.value, self.options, self._schema)


class KsegPushingReader(KsegReader):
    """The reader with option ``pushFilters``.

    It is a separate class, because Spark rejects a reader with pushFilters in sessions without
    ``spark.sql.python.filterPushdown.enabled``.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Accepts comparisons of offset and timestamp, topics and partitions, in mode records."""
        left = []
        for each in filters:
            found = narrowed(self.options, each) if self.options.mode == "records" else None
            if found is None:
                left.append(each)
            else:
                self.options = found
        return left
