"""The data source ``kseg`` for PySpark's Python Data Source API: `spark.read.format("kseg")`, and ``readStream``.

The module of a mode plans and reads tasks; this module connects it to Spark. PySpark requires Arrow record batches
whose schema is exactly the one derived from the DataFrame's schema.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial, reduce
from itertools import chain, pairwise, zip_longest
from operator import or_
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import datasource
from pyspark.sql.types import StructType

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxFiles,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # of PySpark 4.1
    SupportsTriggerAvailableNow = object  # type: ignore[assignment, misc, unused-ignore]

from kseg.errors import KsegError, PathError
from kseg.export import pa
from kseg.export.pushdown import EQUAL, GREATER, GREATER_EQUAL, LESS, LESS_EQUAL, NO_ROWS, Bounds, bounds_of
from kseg.formats.suffixes import LOG
from kseg.segment.files import SegmentFile, list_segments, own_name, parse_partition_name
from kseg.spark.hadoop import Settings
from kseg.spark.modes import (
    SegmentSelector,
    Whole,
    check_schema,
    cut_into_tasks,
    end_of,
    plan,
    record_batches,
    schema_of,
    table_options,
    with_table_options,
)
from kseg.spark.options import (
    EARLIEST,
    EVERY_PARTITION,
    FIRST_OFFSET,
    LATEST,
    WITHOUT_EFFECT,
    Options,
    Positions,
    parse_options,
    parse_write_options,
)
from kseg.spark.session import ForWorkers, for_workers
from kseg.spark.stores import places, readable
from kseg.stores.place import Place, place_in, size_of

if TYPE_CHECKING:
    from kseg.spark.writing import KsegWriter

_log = logging.getLogger("kseg.spark")

# Pushed-down filters. Spark evaluates those again that a reader does not apply exactly.

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017 - as Spark's own
_MICROSECOND, _MILLISECOND = timedelta(microseconds=1), 1000
_LAST_MS = ((1 << 63) - 1) // _MILLISECOND
"""Later timestamps overflow a DataFrame's microseconds and are null, so no comparison is true for them."""


_COMPARISONS: dict[type, str] = {
    datasource.EqualTo: EQUAL, datasource.In: EQUAL,
    datasource.LessThan: LESS, datasource.LessThanOrEqual: LESS_EQUAL,
    datasource.GreaterThan: GREATER, datasource.GreaterThanOrEqual: GREATER_EQUAL,
}  # fmt: skip


def narrowed(options: Options, each: datasource.Filter) -> tuple[Options, bool]:
    """Returns the options of a read that leaves out rows for which a filter is not true, and whether it leaves out all
    of them.
    """
    column: Any = ".".join(getattr(each, "attribute", ()))
    if isinstance(each, datasource.IsNotNull):
        return options, column == "offset"
    comparison = _COMPARISONS.get(type(each))
    if comparison is None or column not in ("offset", "timestamp", "topic", "partition"):
        return options, False
    given: Any = each
    values = given.value if isinstance(each, datasource.In) else [given.value]
    every = [bounds_of(column, comparison, _milliseconds(value)) for value in values if value is not None]
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


class KsegDataSource(ForWorkers, datasource.DataSource):
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
        found = schema_of(options)
        is_new_table = "provider" in self.options  # Spark gives it only to create a table in a catalog
        return with_table_options(found, self.options) if is_new_table else found

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
        check_schema(options, schema)
        # Most offsets are in batch headers: then the columns need nothing else of records.
        has_only_offsets = options.mode == "records" and {"topic", "partition", "offset"}.issuperset(schema.names)
        return replace(options, reads_offsets=options.mode == "counts" or has_only_offsets)


def configured(settings: Settings, plans_apart: bool, pushes_filters: bool = False) -> type[datasource.DataSource]:
    """Returns a class whose constructor returns the source with these attributes. Spark pickles it by value."""
    source = for_workers(
        partial(KsegDataSource, hadoop=settings, plans_apart=plans_apart, pushes_filters=pushes_filters)
    )

    class ConfiguredDataSource(datasource.DataSource):
        def __new__(cls, options: dict[str, str]) -> Any:
            return source(options)

        @classmethod
        def name(cls) -> str:
            return "kseg"

    return ConfiguredDataSource


class KsegReader(ForWorkers, datasource.DataSourceReader):
    """Reads only the columns of ``schema``."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self.options = options
        self._schema = schema

    def partitions(self) -> list[datasource.InputPartition]:
        """Returns the tasks of the mode. Raises KsegError for paths that do not exist or are not Kafka's."""
        tasks = plan(self.options)
        return [datasource.InputPartition(task) for task in tasks] or [datasource.InputPartition(())]

    def read(self, partition: datasource.InputPartition) -> Iterator["pa.RecordBatch"]:
        """Yields the Arrow record batches of one task."""
        return record_batches(partition.value, self.options, self._schema)


class KsegPushingReader(KsegReader):
    """The reader to which Spark pushes filters.

    It is a separate class, because Spark rejects a reader with pushFilters in sessions without
    ``spark.sql.python.filterPushdown.enabled``.
    """

    def pushFilters(self, filters: list[datasource.Filter]) -> Iterable[datasource.Filter]:
        """Accepts comparisons of offset and timestamp, topics and partitions, in mode records."""
        left = []
        for each in filters:
            is_exact = False
            if self.options.mode == "records":
                self.options, is_exact = narrowed(self.options, each)
            if not is_exact:
                left.append(each)
        return left


# Segments as a stream: each closed segment once, as it appears in the directories.
#
# A segment is closed when its partition has a later one, because the broker (or a copying program) has moved on to
# that. The stream's offset is a JSON object of this version; that of version 0 was the inner object with numbers only:
#
#     {"version": 1, "partitions": {"/archive/orders-0": {"next": 4711, "segments": 12}}}
#
# ``next`` is the base offset of the first unread segment, ``segments`` the number of segments of the directory that the
# stream has passed: with both, the loss of an unread segment is noticed. A stream that began at the end of a log also
# has ``start``, its first offset, until that segment is read.
#
# A limit of a micro-batch is reached segment by segment, in turns over the partition directories; a micro-batch has at
# least one segment. Limits need PySpark 4.2 or later.

HAS_LIMITS = SupportsTriggerAvailableNow is not object
STREAM_MODES = ("records", "batches")
VERSION = 1

_UNKNOWN = -1
"""Number of segments in an offset of version 0."""


class DirectoryProgress(NamedTuple):
    """How far a partition directory has been read."""

    next: int = -1
    segments: int = 0
    start: int = FIRST_OFFSET


class ClosedSegment(NamedTuple):
    """A segment to which nothing is added. ``next``: the base offset of the segment after it."""

    file: SegmentFile
    next: int


StreamProgress = dict[str, DirectoryProgress]
"""By the paths of the directories."""
Offset = dict[str, Any]
"""The JSON object of `StreamProgress`."""


class KsegStreamReader(ForWorkers, datasource.DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the columns of ``schema``, with ``maxFilesPerTrigger``, ``maxBytesPerTrigger`` and
    ``maxOffsetsPerTrigger``. Raises KsegError for options that streams do not support.
    """

    _target: StreamProgress | None = None

    def __init__(self, options: Options, schema: StructType) -> None:
        if options.mode not in STREAM_MODES:
            raise KsegError(f"mode {options.mode} of format kseg is no stream; {' and '.join(STREAM_MODES)} are")
        if options.is_committed:
            raise KsegError("isolation read_committed is for batches: a stream does not know how transactions will end")
        if options.end != Positions():
            raise KsegError("a stream of format kseg has no end: endingOffsets and endingTimestamp are for batches")
        self._options = options
        self._schema = schema

    def initialOffset(self) -> Offset:
        """Returns the offset before the first segment; with startingOffsets latest, at the end of the present logs."""
        found, start, is_last_read = StreamProgress(), self._options.start, self._options.includes_last
        if not start.is_latest:
            return offset_of(found)
        with self._readable() as options:
            for path in self._directories(options):
                partition = parse_partition_name(own_name(path)) or EVERY_PARTITION
                is_latest = start.timestamp_of(partition) is None and start.number_of(partition, EARLIEST) == LATEST
                if is_latest and (logs := _logs(path)):
                    base, passed = _base(logs[-1]) + is_last_read, len(logs) - 1 + is_last_read
                    found[path] = DirectoryProgress(base, passed, end_of(logs[-1]))
        return offset_of(found)

    def getDefaultReadLimit(self) -> "ReadLimit":
        """Returns a limit of the options; if there are several, `latestOffset` respects all."""
        given = self._options
        kinds = ((ReadMaxFiles, given.max_files), (ReadMaxBytes, given.max_bytes), (ReadMaxRows, given.max_offsets))
        return next((kind(limit) for kind, limit in kinds if limit is not None), ReadAllAvailable())

    def prepareForTriggerAvailableNow(self) -> None:
        """Ends the query after the segments that are closed now."""
        self._target = self.closed()

    def latestOffset(self, start: Offset | None = None, limit: "ReadLimit | None" = None) -> Offset:
        """Returns the offset after the next micro-batch; without ``start`` after all closed segments, as PySpark 4.1
        asks for it.

        Raises PathError if a path does not exist, KsegError if a segment that was there before is gone unread.
        """
        if start is None:
            return offset_of(self.closed())
        given, files, size, offsets = self._options, 0, 0, 0
        with self._readable() as options:
            progress = progress_of(start)
            unread = self._unread(progress, self._directories(options))
            by_directory = ([(path, closed) for closed in found] for path, found in unread.items())
            # In turns: the first segment of each directory, then the second ones, and so on.
            for directory, closed in filter(None, chain.from_iterable(zip_longest(*by_directory))):
                if self._target is not None and closed.next > self._target.get(directory, DirectoryProgress()).next:
                    continue
                files, size = files + 1, size + size_of(closed.file.path)
                offsets += self._end_of(closed) - _base(closed.file)
                limits = ((files, given.max_files), (size, given.max_bytes), (offsets, given.max_offsets))
                is_above = any(most is not None and number > most for number, most in limits)
                if is_above and files > 1 and not isinstance(limit, ReadAllAvailable):
                    break
                segments = progress.get(directory, DirectoryProgress()).segments
                progress[directory] = DirectoryProgress(closed.next, segments + 1)
        return offset_of(progress)

    def _end_of(self, closed: ClosedSegment) -> int:
        """Returns the offset after a segment. Only the last one is opened for it, and only if offsets are limited."""
        is_last = closed.next == _base(closed.file) + 1 and self._options.includes_last
        return end_of(closed.file) if is_last and self._options.max_offsets else closed.next

    def closed(self) -> StreamProgress:
        """Returns how far the closed segments reach. Raises PathError if a path does not exist."""
        with self._readable() as options:
            listed = {directory: self._closed(directory) for directory in self._directories(options)}
        return {
            directory: DirectoryProgress(files[-1].next, len(files)) for directory, files in listed.items() if files
        }

    def _unread(self, start: StreamProgress, directories: list[str]) -> dict[str, list[ClosedSegment]]:
        """Returns the closed segments of each directory after an offset, in order.

        Raises PathError if a path does not exist, KsegError if a segment that was there before is gone unread.
        """
        for directory in sorted(start.keys() - set(directories)):
            self._report_loss(f"{directory} is gone; it was read up to offset {start[directory].next}")
        found = {}
        for directory in directories:
            begin = start.get(directory, DirectoryProgress()).next
            files = [each for each in self._closed(directory) if _base(each.file) >= begin]
            # Without includeLast an open segment began at this offset, and has not been read.
            is_gone = not self._options.includes_last and all(_base(log) != begin for log in _logs(directory))
            if begin >= 0 and is_gone:
                self._report_loss(f"{directory}: the segment at offset {begin} is gone; it was not read yet")
            if files:
                found[directory] = files
        return found

    def partitions(self, start: Offset, end: Offset) -> list[datasource.InputPartition]:
        """Returns the tasks for the segments between two offsets. Raises KsegError if some of them are gone."""
        before, after = progress_of(start), progress_of(end)
        wholes: list[Whole] = []
        with self._readable() as options:
            planner = SegmentSelector(options, is_stream=True)
            for directory in map(partial(place_in, roots=options.paths), sorted(after)):
                begin = before.get(directory, DirectoryProgress())
                files = self._between(directory, begin, after[directory])
                wholes += planner.wholes(directory, files, is_directory=True, since=begin.start)
            return [datasource.InputPartition(task) for task in cut_into_tasks(wholes, self._options)]

    def read(self, partition: datasource.InputPartition) -> Iterator["pa.RecordBatch"]:
        """Yields the Arrow record batches of one task."""
        return record_batches(partition.value, self._options, self._schema)

    def _readable(self) -> AbstractContextManager[Options]:
        return readable(self._options, with_remote_storage=True)

    def _report_loss(self, what: str) -> None:
        """Raises KsegError, or with failOnDataLoss false logs a warning."""
        if self._options.fails_on_data_loss:
            raise KsegError(f"{what}. With option failOnDataLoss false the stream goes on without it")
        _log.warning("%s", what)

    def _directories(self, options: Options) -> list[str]:
        found = places(options.paths)
        return [path for path in found if options.has(*(parse_partition_name(own_name(path)) or (None, None)))]

    def _closed(self, directory: str) -> list[ClosedSegment]:
        logs = _logs(directory)
        closed = [ClosedSegment(log, _base(after)) for log, after in pairwise(logs)]
        if logs and self._options.includes_last:
            closed.append(ClosedSegment(logs[-1], _base(logs[-1]) + 1))
        return closed

    def _between(self, directory: str, start: DirectoryProgress, end: DirectoryProgress) -> list[SegmentFile]:
        """Returns the segments between two offsets of a directory. Raises KsegError if some of them are gone."""
        try:
            files = [log for log in _logs(directory) if start.next <= _base(log) < end.next]
        except PathError as error:
            if start != end:
                self._report_loss(str(error))
            return []
        missing = end.segments - start.segments - len(files)
        if missing > 0 and min(start.segments, end.segments) >= 0:
            self._report_loss(
                f"{directory}: {missing} segments from offset {start.next} to {end.next} are gone, not read yet"
            )
        return files


def offset_of(progress: StreamProgress) -> Offset:
    """Returns the JSON object of an offset."""
    found = {directory: each._asdict() for directory, each in progress.items()}
    for each in found.values():
        if each["start"] == FIRST_OFFSET:
            del each["start"]
    return {"version": VERSION, "partitions": found}


def progress_of(offset: Offset) -> StreamProgress:
    """Returns the progress in a JSON object. Raises KsegError if a newer kseg has written it."""
    version = offset.get("version", 0)
    if version not in (0, VERSION):
        raise KsegError(f"the checkpoint of this stream has version {version}; this kseg knows those up to {VERSION}")
    if not version:
        return {Place(directory).absolute: DirectoryProgress(number, _UNKNOWN) for directory, number in offset.items()}
    return {directory: DirectoryProgress(**each) for directory, each in offset["partitions"].items()}


def _logs(directory: str) -> list[SegmentFile]:
    """Returns the .log files of a partition directory by base offset. Raises PathError if it cannot be read."""
    return [file for file in list_segments(directory) if file.kind == LOG and file.base_offset is not None]


def _base(file: SegmentFile) -> int:
    return file.base_offset or 0
