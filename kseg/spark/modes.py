"""The modes of the data source: records and counts as a consumer sees them, and the modes of `kseg.scan`.

Each has its columns, which a schema given by the user may select, its tasks and their rows.

The driver plans tasks by names and sizes, several directories at a time, and for records, counts and batches by the
indexes of at most `MAX_INDEXED_SEGMENTS` segments. Indexes only decide where segments are divided: the parts cover each
segment, and a task verifies where its records begin. So a wrong index costs time, but no rows.
"""

import gc
import inspect
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import chain, groupby
from threading import Lock
from typing import Any, NamedTuple

from pyspark.sql import types

from kseg.api.modes import mode_of, rows_of_part
from kseg.errors import DamageError, KsegError, PathError
from kseg.export import arrow, pa, pc, scanning
from kseg.export.chunk import OFFSET, Chunk, Chunks
from kseg.export.decoded import DecodedColumns
from kseg.export.pushdown import Bounds
from kseg.formats.rows import Scratch
from kseg.formats.suffixes import INDEX, LOG, SNAPSHOT
from kseg.node.log_starts import LogStarts
from kseg.node.remote_partitions import LiveSegment
from kseg.segment.files import LAST_OFFSET, SegmentFile, file_names, segment_file
from kseg.segment.isolation import Transactions
from kseg.segment.items import Batch, Damage
from kseg.segment.reader import Run, SegmentReader, open_segment
from kseg.segment.seek import ByteSpan, index_path, indexed_span, offset_extent, seek_time, span_of_bytes
from kseg.segment.slices import Slice, runs_of
from kseg.sidefiles.producer_state import ProducerSnapshot
from kseg.spark.options import EARLIEST, FIRST_OFFSET, LATEST, TASKS, Options, Positions, TopicPartition
from kseg.spark.stores import forget_listing, is_stored, places, readable, readable_parts
from kseg.stores.place import Place, in_trees, size_of
from kseg.stores.source import Source, open_source

_MICROSECONDS = 1000
_log = logging.getLogger("kseg.spark")


_TABLE_OPTIONS = "kseg.options"
"""Name in the metadata of a column."""


def columns_of(options: Options) -> dict[str, types.DataType]:
    """Returns the columns of a read with their types; those decoded with schemas are JSON text."""
    from pyspark.sql.pandas.types import from_arrow_schema

    names = [*arrow.types_of(options.mode, options.includes_broken)]
    found = options.decoding.schema(arrow.schema(names, mode=options.mode))
    return {field.name: field.dataType for field in from_arrow_schema(found)}


def schema_of(options: Options) -> types.StructType:
    """Returns all columns of a read."""
    columns = columns_of(options).items()
    return types.StructType(
        [types.StructField(name, kind) for name, kind in columns if options.includes_headers or name != "headers"]
    )


def with_table_options(schema: types.StructType, options: Mapping[str, str]) -> types.StructType:
    """Returns the columns of a table in a catalog, the first one with the table's options in its metadata.

    Spark stores the columns, but passes none of the options when the table is read (PySpark 4.3). Options of storage
    are omitted: they may be secrets, and metadata is copied to columns derived from this one.
    """
    kept = {name: value for name, value in options.items() if not name.startswith(("storage.", "option."))}
    first, *others = schema
    return types.StructType([types.StructField(first.name, first.dataType, True, {_TABLE_OPTIONS: kept}), *others])


def table_options(schema: types.StructType) -> dict[str, str]:
    """Returns the options of a table in a catalog, none for other schemas."""
    return dict(next((field.metadata[_TABLE_OPTIONS] for field in schema if _TABLE_OPTIONS in field.metadata), {}))


def check_schema(options: Options, schema: types.StructType) -> None:
    """Raises KsegError unless each column belongs to the mode, has its type, and is nullable, and there is one."""
    mode, known = options.mode, columns_of(options)
    if not schema.names:
        raise KsegError(f"a schema of format kseg needs a column; mode {mode} has {', '.join(known)}")
    for field in schema:
        if field.name not in known:
            raise KsegError(f"mode {mode} of format kseg has no column {field.name!r}; it has {', '.join(known)}")
        if field.dataType != known[field.name]:
            wanted, given = known[field.name].simpleString(), field.dataType.simpleString()
            raise KsegError(f"column {field.name} of mode {mode} is {wanted}, not {given}")
        if not field.nullable:
            raise KsegError(f"column {field.name} of mode {mode} may be null: leave out NOT NULL")


def arrow_schema_of(schema: types.StructType) -> "pa.Schema":
    """Returns the Arrow schema that Spark expects of a reader, with timestamps in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # Before 4.2 there was no time zone to give: timestamps were in UTC.
    named: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **named)


# Finds the batches that a read_committed consumer skips: aborted ones, and all from the last stable offset on.
#
# A transaction ends with the next marker of its producer. A task reads its part, and then later batches while there
# are open transactions with batches in the part. The tail of a log, from the newest producer snapshot at the start of
# a segment on, is read in one pass; so it is not divided between tasks.


class Tail(NamedTuple):
    """The end of a partition's log: from offset ``first`` on, where a segment begins and ``snapshot`` was taken.

    Without a snapshot it is the whole log.
    """

    place: str
    first: int = -1
    snapshot: str | None = None

    def has(self, file: SegmentFile) -> bool:
        """Whether a segment belongs to the tail."""
        return self.snapshot is None or file.base_offset is None or file.base_offset >= self.first


def tail_of(place: str, logs: list[SegmentFile]) -> Tail:
    """Returns the tail of the partition with these segments. Raises PathError if its directory cannot be read."""
    directory = Place(logs[0].path).parent
    bases = {log.base_offset for log in logs}
    stems = [name.removesuffix(SNAPSHOT) for name in file_names(directory) if name.endswith(SNAPSHOT)]
    newest = max((stem for stem in stems if stem.isdigit() and len(stem) == 20 and int(stem) in bases), default=None)
    return Tail(place) if newest is None else Tail(place, int(newest), directory / (newest + SNAPSHOT))


class Committed:
    """Finds the transactions of parts, one after the other; the tail of a log is read once."""

    def __init__(self, max_batch_bytes: int) -> None:
        self._scratch = Scratch(max_batch_bytes)
        self._tail: tuple[Tail, Transactions] | None = None

    def transactions(self, file: SegmentFile, part: Slice, tail: Tail, source: Source) -> Transactions:
        """Returns the transactions that hide records of a part of a segment. ``source``: the segment.

        Raises PathError.
        """
        open_before = _open_at(tail)
        if open_before is None:
            return self._at_end(tail._replace(first=-1, snapshot=None), {})
        if tail.has(file):
            return self._at_end(tail, open_before)
        found, last = self._followed(file, part, tail, source)
        if min(open_before.values(), default=last) < last:
            found.add_open(self._at_end(tail, open_before))
        return found

    def _at_end(self, tail: Tail, open_before: dict[int, int]) -> Transactions:
        """Returns the transactions of the tail."""
        if self._tail is None or self._tail[0] != tail:
            found = Transactions(open_before)
            for log in filter(tail.has, scanning.logs_around(tail.place)):
                with open_segment(log, self._scratch) as reader:
                    found.read(reader)
            self._tail = tail, found
        return self._tail[1]

    def _followed(self, file: SegmentFile, part: Slice, tail: Tail, source: Source) -> tuple[Transactions, int]:
        """Returns the transactions with batches in a part, and the last offset of the part."""
        found, last = Transactions(), -1
        reader = open_segment(file, self._scratch, source=source)
        for item in runs_of(reader, file, part):
            if isinstance(item, Run):
                found.read_run(reader, item)
                last = max(last, reader.batch(item, item.count - 1, keep=False).last_offset)
        if found.has_open():
            for later, run in self._runs_after(file, part, tail, source):
                found.read_run(later, run, only_markers=True)
                if not found.has_open():
                    break
        return found, last

    def _runs_after(
        self, file: SegmentFile, part: Slice, tail: Tail, source: Source
    ) -> Iterator[tuple[SegmentReader, Run]]:
        if part.end is not None:
            reader = open_segment(file, self._scratch, source=source)
            rest = runs_of(reader, file, Slice(part.end, None))
            yield from ((reader, item) for item in rest if isinstance(item, Run))
        for log in scanning.logs_around(tail.place):
            if (log.base_offset or 0) > (file.base_offset or 0):
                with open_segment(log, self._scratch) as reader:
                    yield from ((reader, item) for item in reader.runs() if isinstance(item, Run))


def _open_at(tail: Tail) -> dict[int, int] | None:
    """Returns the first offsets of the transactions that are open where the tail begins, by producer id.

    Returns None if the snapshot cannot be used.
    """
    if tail.snapshot is None:
        return {}
    try:
        with open_source(tail.snapshot) as source:
            snapshot = ProducerSnapshot(source.buffer[:])
            if snapshot.kafka_refusal() is not None:
                return None
            entries = list(snapshot)
    except PathError:
        return None
    return {each.producer_id: first for each in entries if (first := each.current_txn_first_offset) >= 0}


PLANNING_THREADS = 32
"""Directories and indexes read at the same time: most of the time is spent waiting for a store."""
MAX_INDEXED_SEGMENTS = 4096


class TaskPart(NamedTuple):
    """A part of a segment, and the offsets to read of it.

    ``tail``: that of its partition, if only committed records are requested. ``remote``: its segment in remote storage.
    """

    file: SegmentFile
    slice: Slice
    offsets: Bounds
    tail: Tail | None = None
    remote: LiveSegment | None = None


class Whole(NamedTuple):
    """A whole segment. ``is_edge``: only some records are requested, so its indexes can reduce the bytes to read.

    ``is_divisible``: a part can be read without the bytes before it; in a store this needs an index. ``block_bytes``:
    parts begin at multiples of it, because a store restores such blocks as a whole.
    """

    part: TaskPart
    size: int
    is_edge: bool
    is_divisible: bool
    block_bytes: int = 1


def cut_into_tasks(wholes: list[Whole], options: Options) -> list[Sequence[TaskPart]]:
    """Returns the tasks that read these segments."""
    total = sum({whole.part.file.path: whole.size for whole in wholes}.values())
    limit = options.task_bytes(total)
    edges = [i for i, whole in enumerate(wholes) if whole.is_edge and whole.is_divisible and whole.size > limit]
    spans: dict[int, ByteSpan] = {}

    def span_of(i: int) -> ByteSpan:
        part = wholes[i].part
        return indexed_span(part.file, wholes[i].size, *part.offsets[:2], options.wanted.earliest_ms)

    if len(edges) <= MAX_INDEXED_SEGMENTS:
        with ThreadPoolExecutor(PLANNING_THREADS) as threads:
            spans = dict(zip(edges, threads.map(span_of, edges), strict=True))
    pieces = [piece for i, whole in enumerate(wholes) for piece in _pieces(whole, spans.get(i), limit)]
    together = 0 if options.max_task_offsets else options.task_bytes(total + len(pieces) * scanning.TASK_BYTES)
    return [list(chain.from_iterable(task)) for task in scanning.grouped(_inseparable(pieces), together)]


def _inseparable(pieces: list[tuple[int, TaskPart]]) -> Iterator[tuple[int, list[TaskPart]]]:
    """Yields the parts of a tail as one, because each task would have to read all of it; others alone."""

    def tail_with(piece: tuple[int, TaskPart]) -> Tail | None:
        tail, file = piece[1].tail, piece[1].file
        return tail if tail is not None and tail.has(file) else None

    for tail, some in groupby(pieces, tail_with):
        if tail is None:
            yield from ((size, [part]) for size, part in some)
        else:
            parts = list(some)
            yield sum(size for size, _ in parts), [part for _, part in parts]


def _pieces(whole: Whole, span: ByteSpan | None, limit: int) -> Iterator[tuple[int, TaskPart]]:
    """Yields the parts of a segment, each with the number of bytes to read of it. They are cut in the span."""
    start, end = (0, whole.size) if span is None else span[:2]
    part, wanted = whole.part, max(end - start, 0)
    count = max(1, round(wanted / limit)) if whole.is_divisible else 1
    block = whole.block_bytes
    cuts = sorted({(start + wanted * i // count) // block * block for i in range(1, count)} - {0})
    for begin, stop in zip([0, *cuts], [*cuts, None], strict=True):
        yield wanted // (len(cuts) + 1), part._replace(slice=Slice(begin, stop))


class SegmentSelector:
    """Chooses the segments of partitions, and the offsets to read of them. Threads may share it.

    ``is_stream``: retention may have removed segments that were read before.
    """

    def __init__(self, options: Options, is_stream: bool = False) -> None:
        self._options, self._is_stream = options, is_stream
        self._log_starts = LogStarts(options.paths)
        self._lock = Lock()

    def at(self, place: str) -> list[Whole]:
        """Returns the segments of a file or partition directory."""
        try:
            is_directory = Place(place).is_dir()
            if is_directory and not self._options.keeps(segment_file(Place(place) / "0.log")):
                return []
            return list(self.wholes(place, scanning.readable_segments_at(place), is_directory))
        finally:
            forget_listing(place)

    def wholes(
        self, place: str, files: list[SegmentFile], is_directory: bool, since: int = FIRST_OFFSET
    ) -> Iterator[Whole]:
        """Yields the segments of a file or directory with wanted offsets, from ``since`` on. Raises KsegError if one no
        longer exists.
        """
        options = self._options
        files = [file for file in files if options.keeps(file)]
        if not files:
            return
        first, last = self._offsets(files[0], place)
        first = max(first, since)
        chosen = scanning.matching(files, Bounds(first, last), is_directory and options.mode != "batches")
        if first > last or not chosen:
            return
        is_in_store = is_stored(chosen[0].path)
        logs = scanning.logs_around(place) if options.is_committed else []
        tail = tail_of(place, logs) if logs else None
        for i, file in enumerate(chosen):
            is_last = i + 1 == len(chosen) and last < LAST_OFFSET
            is_edge = is_last or first > (file.base_offset or 0) or options.wanted.earliest_ms > 0
            is_divisible = file.kind == LOG and (not is_in_store or Place(index_path(file, INDEX)).exists())
            part = TaskPart(file, Slice(), Bounds(first, last), tail)
            whole = Whole(part, size_of(file.path), is_edge, is_divisible)
            if (remote := scanning.live_segment_of(file)) is not None:
                since = first if options.ignores_log_start else max(first, remote.log_start)
                part = part._replace(offsets=Bounds(since, last), remote=remote)
                whole = Whole(part, whole.size, is_edge, remote.is_whole, remote.chunk_bytes)
            yield from self._limited(whole, chosen[i + 1] if i + 1 < len(chosen) else None)

    def _limited(self, whole: Whole, following: SegmentFile | None) -> Iterator[Whole]:
        """Yields a segment as parts of at most ``maxRecordsPerPartition`` offsets. ``following``: the next segment.

        The first and last part also have offsets that a damaged segment may hold outside of its range.
        """
        limit, part = self._options.max_task_offsets, whole.part
        if limit is None or self._options.mode == "batches" or part.file.base_offset is None:
            yield whole
            return
        end = end_of(part.file) if following is None else following.base_offset or 0
        lowest, highest = part.offsets[:2]
        first, stop = max(lowest, part.file.base_offset), min(highest, end - 1) + 1
        if stop - first > limit * TASKS:
            raise KsegError(f"{part.file.path}: maxRecordsPerPartition {limit} makes more than {TASKS} tasks of it")
        starts = range(first + limit, stop, limit)
        for offsets in map(Bounds, [lowest, *starts], [*(start - 1 for start in starts), highest]):
            yield whole._replace(part=part._replace(offsets=offsets), is_edge=True)

    def _offsets(self, file: SegmentFile, place: str) -> tuple[int, int]:
        """Returns the first and last offset to read in the partition of a segment."""
        options = self._options
        first, last = options.wanted.first_offset, options.wanted.last_offset
        if file.topic is None or file.partition is None:
            return first, last
        partition = (file.topic, file.partition)
        log_start = 0
        if not options.ignores_log_start:
            with self._lock:
                log_start = self._log_starts.of_file(file)
            first = max(first, log_start) if log_start else first
        if options.start != Positions() or options.end != Positions():
            logs = [file for file in scanning.logs_around(place) if not file.leftover]
            if not self._is_stream and logs:
                self._check_start(partition, max(log_start, logs[0].base_offset or 0))
            first = max(first, self._start_of(partition, logs))
            last = min(last, self._end_of(partition, logs))
        return first, last

    def _start_of(self, partition: TopicPartition, logs: Sequence[SegmentFile]) -> int:
        """Returns the first offset by option ``start``. ``logs``: the segments of the partition in order.

        Raises KsegError if no record has the timestamp, unless nothing of the partition is to be read then.
        """
        start = self._options.start
        timestamp = start.timestamp_of(partition)
        if timestamp is None:
            return start.number_of(partition, FIRST_OFFSET)
        found = self._offset_at(logs, timestamp)
        if found is None and self._options.fails_without_timestamp:
            raise KsegError(
                f"{partition[0]}-{partition[1]} has no record from timestamp {timestamp} on: "
                "startingOffsetsByTimestampStrategy latest reads nothing of it"
            )
        return LAST_OFFSET if found is None else found

    def _end_of(self, partition: TopicPartition, logs: Sequence[SegmentFile]) -> int:
        """Returns the last offset by option ``end``, inclusive."""
        end = self._options.end
        timestamp = end.timestamp_of(partition)
        stop = end.offsets.get(partition, LATEST) if timestamp is None else self._offset_at(logs, timestamp)
        return LAST_OFFSET if stop is None or stop == LATEST else stop - 1

    def _offset_at(self, logs: Sequence[SegmentFile], timestamp: int) -> int | None:
        """Returns the offset of the first record with this timestamp or a later one; None if there is none."""
        scratch = Scratch(self._options.max_batch_bytes)
        for file in logs:
            with open_segment(file, scratch) as reader:
                reader.begin_at(seek_time(reader, file, timestamp).position)
                for item in reader:
                    if not isinstance(item, Batch) or not item.is_valid or item.max_timestamp < timestamp:
                        continue
                    for record in item:
                        if record.timestamp is not None and record.timestamp >= timestamp:
                            return record.offset
        return None

    def _check_start(self, partition: TopicPartition, earliest: int) -> None:
        """Raises KsegError if startingOffsets names an offset that the log no longer has, as failOnDataLoss asks."""
        start = self._options.start
        wanted = start.number_of(partition, EARLIEST)
        if not 0 <= wanted < earliest or start.timestamp_of(partition) is not None:
            return
        text = f"{partition[0]}-{partition[1]}: startingOffsets begins at {wanted}, and the log at {earliest}"
        if self._options.fails_on_data_loss:
            raise KsegError(f"{text}. With option failOnDataLoss false the read begins there")
        _log.warning("%s", text)


def end_of(log: SegmentFile) -> int:
    """Returns the offset after the last intact batch of a segment. Raises PathError if it cannot be read."""
    with open_segment(log, Scratch()) as reader:
        found = offset_extent(reader, log)
    return log.base_offset or 0 if found is None else found[1] + 1


# Tasks and their rows


def plan(options: Options) -> list[Sequence[Any]]:
    """Returns the tasks: parts of segments, partitions, or side files.

    Raises PathError for paths that do not exist, UnsupportedError for a file that the mode does not read.
    """
    if options.mode in ("records", "counts", "batches"):
        with readable(options, with_remote_storage=True) as options, ThreadPoolExecutor(PLANNING_THREADS) as threads:
            found = threads.map(SegmentSelector(options).at, places(options.paths))
            return [*cut_into_tasks(list(chain.from_iterable(found)), options)]
    with readable(options) as options:
        works = list(mode_of(options.mode).works(options))
        return scanning.grouped(works, options.task_bytes(sum(size for size, _ in works)))


def record_batches(task: Any, options: Options, schema: types.StructType) -> Iterator["pa.RecordBatch"]:
    """Yields the Arrow record batches of a task of the options' mode."""
    from pyspark import TaskContext

    columns = arrow_schema_of(schema)
    if TaskContext.get() is not None:
        _exempt_modules()
    if options.mode not in ("records", "counts", "batches"):
        with readable(options) as options:
            works = in_trees(task, options.paths)
            yield from arrow.record_batches(mode_of(options.mode).rows(works, options, _report_of(options)), columns)
        return
    remote = [(part.file.path, part.remote) for part in task if part.remote is not None]
    with readable_parts(task, remote, options) as parts:
        if options.mode == "records":
            yield from _records(parts, options, columns)
        else:
            rows = _counts if options.mode == "counts" else _batches
            yield from arrow.record_batches(rows(parts, options), columns)


@cache
def _exempt_modules() -> None:
    """Exempts the imported modules from garbage collection, once in each worker.

    Spark collects garbage after each task. With pandas and pyarrow imported this takes longer than many tasks.
    """
    gc.collect()
    gc.freeze()


def _records(parts: Sequence[TaskPart], options: Options, schema: "pa.Schema") -> Iterator["pa.RecordBatch"]:
    """Yields the records that a consumer sees, in the schema of Spark's Kafka source, or some of its columns."""
    decoded = DecodedColumns(options.decoding, _log.warning, options.fails_on_damage)
    for part, chunk in _chunks_of(parts, options, options.decoding.read_columns(schema.names)):
        place = {"topic": part.file.topic, "partition": part.file.partition, arrow.PROVEN: chunk.is_proven}
        yield arrow.record_batch(chunk, schema, place, decoded.arrays(chunk, part.file, schema))


def _batches(parts: Sequence[TaskPart], options: Options) -> Iterator[dict[str, Any]]:
    scratch, report = Scratch(options.max_batch_bytes), _report_of(options)
    for part, source in _opened_parts(parts, options):
        yield from rows_of_part(part, source, scratch, options, report)


def _counts(parts: Sequence[TaskPart], options: Options) -> Iterator[dict[str, Any]]:
    """Yields a row for each segment in a task that has records, mostly from batch headers. No record leaves a task."""
    for file, found in groupby(_chunks_of(parts, options, [OFFSET]), lambda each: each[0].file):
        count, first, last = 0, (1 << 63) - 1, -1
        for _, chunk in found:
            count += chunk.count
            offsets = pa.Array.from_buffers(pa.int64(), chunk.count, [None, pa.py_buffer(chunk.numbers[OFFSET])])
            ends = pc.min_max(offsets)  # they need not rise where a log is damaged
            first, last = min(first, ends["min"].as_py()), max(last, ends["max"].as_py())
        location = arrow.location_columns(file.path, file.topic, file.partition)
        yield location | {"count": count, "firstOffset": first, "lastOffset": last}


def _report_of(options: Options) -> scanning.ReportDamage:
    """Returns what happens at damage: the read fails, or a warning is logged."""

    def fail(file: SegmentFile, left_out: Damage) -> None:
        raise DamageError(scanning.damage_text(file, left_out))

    return fail if options.fails_on_damage else scanning.DamageLog(_log)


def _chunks_of(
    parts: Sequence[TaskPart], options: Options, columns: Collection[str]
) -> Iterator[tuple[scanning.ScanPart, Chunk]]:
    """Yields the records of parts as chunks with these columns. Raises PathError, KsegError."""
    reader = scanning.PartReader(options, Chunks(columns, _MICROSECONDS), _report_of(options))
    for part, source in _opened_parts(parts, options):
        overflows = 0
        for chunk in reader.chunks(part, source):
            overflows += chunk.overflows
            yield part, chunk
        if overflows:
            _log.warning("%s: %s", part.file.path, scanning.overflow_text(overflows))


def _opened_parts(parts: Sequence[TaskPart], options: Options) -> Iterator[tuple[scanning.ScanPart, Source]]:
    """Opens the segments of parts, one after the other. In a store, the bytes that indexes lead to are fetched at once.

    Raises PathError.
    """
    committed = Committed(options.max_batch_bytes)
    for part in parts:
        file, cut, hidden = part.file, part.slice, None
        with open_source(file.path) as source:
            if source.is_in_place:
                size = source.size
                owned = span_of_bytes(file, size, cut.start, size if cut.end is None else cut.end)
                wanted = indexed_span(file, size, *part.offsets[:2], options.wanted.earliest_ms)
                before = wanted.before if wanted.start > cut.start else owned.before
                source.need(before, min(owned.end, wanted.end))
            if part.tail is not None and options.mode != "batches":
                hidden = committed.transactions(file, cut, part.tail, source)
            yield scanning.ScanPart(file, cut, hidden, part.offsets), source
