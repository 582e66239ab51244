"""The modes of the data source: records and counts as a consumer sees them, and the modes of `kseg.scan`.

Each has its columns, which a schema given by the user may select, its tasks and their rows.
"""

import gc
import inspect
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kseg.api.modes import mode_of, rows_of_part
from kseg.errors import DamageError, KsegError
from kseg.export import arrow, pa, pc
from kseg.export.chunk import OFFSET, Chunk
from kseg.export.decoded import DecodedColumns
from kseg.export.scanning import DamageLog, LeftOut, PartReader, ReportDamage, ScanPart, damage_text, grouped
from kseg.formats.rows import Scratch
from kseg.segment.files import SegmentFile
from kseg.segment.seek import indexed_span, span_of_bytes
from kseg.spark.options import Options
from kseg.spark.planning import Committed, TaskPart, parts_of_read
from kseg.spark.stores import expanded_paths, remote_segments_at, stores_at
from kseg.stores.source import Source, open_source

_MICROSECONDS = 1000
_log = logging.getLogger("kseg.spark")


_TABLE_OPTIONS = "kseg.options"
"""Name in the metadata of a column."""

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_TYPES: Mapping[str, DataType] = {
    "binary": BinaryType(), "string": StringType(), "int": IntegerType(), "bigint": LongType(),
    "boolean": BooleanType(), "timestamp": TimestampType(), "headers": ArrayType(_HEADER),
}  # fmt: skip


def columns_of(mode: str, decoded: Collection[str] = ()) -> dict[str, DataType]:
    """Returns the columns of a mode with their types; those of names in ``decoded`` are JSON text."""
    return {name: StringType() if name in decoded else _TYPES[kind] for name, kind in arrow.types_of(mode).items()}


def schema_of(mode: str, includes_headers: bool = True, decoded: Collection[str] = ()) -> StructType:
    """Returns all columns of a mode; ``includes_headers`` false: without that of the headers."""
    columns = columns_of(mode, decoded).items()
    return StructType([StructField(name, kind) for name, kind in columns if includes_headers or name != "headers"])


def with_table_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Returns the columns of a table in a catalog, the first one with the table's options in its metadata.

    Spark stores the columns, but passes none of the options when the table is read (PySpark 4.3). Options of storage
    are omitted: they may be secrets, and metadata is copied to columns derived from this one.
    """
    kept = {name: value for name, value in options.items() if not name.startswith(("storage.", "option."))}
    first, *others = schema
    return StructType([StructField(first.name, first.dataType, True, {_TABLE_OPTIONS: kept}), *others])


def table_options(schema: StructType) -> dict[str, str]:
    """Returns the options of a table in a catalog, none for other schemas."""
    return dict(next((field.metadata[_TABLE_OPTIONS] for field in schema if _TABLE_OPTIONS in field.metadata), {}))


def check_schema(mode: str, schema: StructType, decoded: Collection[str] = ()) -> None:
    """Raises KsegError unless each column belongs to the mode, has its type, and is nullable, and there is one."""
    known = columns_of(mode, decoded)
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


def needs_only_offsets(mode: str, schema: StructType) -> bool:
    """Whether the columns need nothing of records but their offsets, most of which are in batch headers."""
    return mode == "counts" or (mode == "records" and {"topic", "partition", "offset"}.issuperset(schema.names))


def arrow_schema_of(schema: StructType) -> "pa.Schema":
    """Returns the Arrow schema that Spark expects of a reader, with timestamps in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # Before 4.2 there was no time zone to give: timestamps were in UTC.
    named: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **named)


def plan(options: Options) -> list[Sequence[Any]]:
    """Returns the tasks: parts of segments, partitions, or side files.

    Raises PathError for paths that do not exist, UnsupportedError for a file that the mode does not read.
    """
    if options.mode in ("records", "counts", "batches"):
        return list(parts_of_read(options))
    works = list(mode_of(options.mode).works(_expanded(options)))
    return grouped(works, options.task_bytes(sum(size for size, _ in works)))


def record_batches(task: Any, options: Options, schema: StructType) -> Iterator["pa.RecordBatch"]:
    """Yields the Arrow record batches of a task of the options' mode."""
    from pyspark import TaskContext

    columns = arrow_schema_of(schema)
    if TaskContext.get() is not None:
        _exempt_modules()
    remote = [(part.file.path, part.remote) for part in task if getattr(part, "remote", None) is not None]
    with stores_at(options.paths, options.storage), remote_segments_at(remote, options):
        if options.mode == "records":
            yield from _records(task, options, columns)
        else:
            yield from arrow.record_batches(_rows(task, options), columns)


@cache
def _exempt_modules() -> None:
    """Exempts the imported modules from garbage collection, once in each worker.

    Spark collects garbage after each task. With pandas and pyarrow imported this takes longer than many tasks.
    """
    gc.collect()
    gc.freeze()


def _records(parts: Sequence[TaskPart], options: Options, schema: "pa.Schema") -> Iterator["pa.RecordBatch"]:
    """Yields the records that a consumer sees, in the schema of Spark's Kafka source, or some of its columns."""
    decoded = DecodedColumns(options.decoding, _log.warning)
    for part, chunk in _chunks_of(parts, options, options.decoding.read_columns(schema.names)):
        place = {"topic": part.file.topic, "partition": part.file.partition}
        yield arrow.record_batch(chunk, schema, place, decoded.arrays(chunk, part.file, schema))


def _rows(task: Sequence[Any], options: Options) -> Iterator[dict[str, Any]]:
    if options.mode == "counts":
        return _counts(task, options)
    if options.mode == "batches":
        return _batches(task, options)
    return mode_of(options.mode).rows(task, _expanded(options), _report_of(options))


def _counts(parts: Sequence[TaskPart], options: Options) -> Iterator[dict[str, Any]]:
    """Yields a row for each segment in a task that has records, mostly from batch headers. No record leaves a task."""
    for file, found in groupby(_chunks_of(parts, options, [OFFSET]), lambda each: each[0].file):
        count, first, last = 0, (1 << 63) - 1, -1
        for _, chunk in found:
            count += chunk.count
            low, high = _range(chunk)
            first, last = min(first, low), max(last, high)
        location = arrow.location_columns(file.path, file.topic, file.partition)
        yield location | {"count": count, "firstOffset": first, "lastOffset": last}


def _range(chunk: Chunk) -> tuple[int, int]:
    """Returns the lowest and the highest offset. They need not rise where a log is damaged."""
    found = pc.min_max(pa.Array.from_buffers(pa.int64(), chunk.count, [None, pa.py_buffer(chunk.numbers[OFFSET])]))
    return found["min"].as_py(), found["max"].as_py()


def _batches(parts: Sequence[TaskPart], options: Options) -> Iterator[dict[str, Any]]:
    scratch, report = Scratch(options.max_batch_bytes), _report_of(options)
    for part, source in _opened_parts(parts, options):
        yield from rows_of_part(part, source, scratch, options, report)


def _expanded(options: Options) -> Options:
    return replace(options, paths=tuple(expanded_paths(options.paths)))


def _report_of(options: Options) -> ReportDamage:
    """Returns what happens at damage: the read fails, or a warning is logged."""
    return _fail if options.fails_on_damage else DamageLog(_log)


def _fail(file: SegmentFile, left_out: LeftOut) -> None:
    raise DamageError(damage_text(file, left_out))


def _chunks_of(
    parts: Sequence[TaskPart], options: Options, columns: Collection[str]
) -> Iterator[tuple[ScanPart, Chunk]]:
    """Yields the records of parts as chunks with these columns. Raises PathError, KsegError."""
    reader = PartReader(options, columns, _MICROSECONDS, _report_of(options))
    for part, source in _opened_parts(parts, options):
        for chunk in reader.chunks(part, source):
            yield part, chunk


def _opened_parts(parts: Sequence[TaskPart], options: Options) -> Iterator[tuple[ScanPart, Source]]:
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
                wanted = indexed_span(file, size, *part.offsets, options.wanted.earliest_ms)
                before = wanted.before if wanted.start > cut.start else owned.before
                source.need(before, min(owned.end, wanted.end))
            if part.tail is not None and options.mode != "batches":
                hidden = committed.transactions(file, cut, part.tail, source)
            yield ScanPart(file, cut, hidden, part.offsets), source
