"""Writes rows as partitions: ``df.write.format("kseg")``. Each task writes the segments of a range of offsets.

A partition appears completely or not at all: tasks write beside it, each attempt to its own folder, and the driver
assembles the reported results. Existing files are not changed.
"""

import os
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StringType, StructType

from kseg.changes.disk import Disk
from kseg.changes.new_directories import NewDirectories, new_directories
from kseg.conversion.options import codec_target
from kseg.conversion.rows_writer import OffsetRange, RowsWriter, write_side_files
from kseg.errors import KsegError, PathError, UnsupportedError
from kseg.export.arrow_rows import batchable_rows
from kseg.segment.files import parse_partition_name
from kseg.segment.writer import RollLimits
from kseg.spark.options import WriteOptions
from kseg.spark.paths import without_scheme
from kseg.spark.schemas import RECORDS
from kseg.stores.no_follow import resolved
from kseg.stores.stored_object import is_url, shown

if TYPE_CHECKING:
    import pyarrow

_HOW = "write df.repartitionByRange(n, 'offset').sortWithinPartitions('offset')"


@dataclass(slots=True)
class Written(WriterCommitMessage):
    """The output of a task, by partition name."""

    partitions: dict[str, OffsetRange] = field(default_factory=dict)


REMOVALS, REMOVAL_SECONDS = 20, 0.1


class KsegWriter(DataSourceArrowWriter):
    """Writes rows with the columns of mode records. Raises KsegError for rows that cannot form a partition."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise KsegError("format kseg removes nothing: mode('append') writes partitions that are not there yet")
        if len(options.paths) != 1:
            raise KsegError("format kseg writes to one path: save('orders-0')")
        if is_url(options.paths[0]):
            raise UnsupportedError(f"{shown(options.paths[0])}: writing takes local paths")
        self._options = options
        self._names = _checked(schema)
        path = os.path.abspath(without_scheme(options.paths[0]))
        self._partition: str | None = None
        self._output = path = resolved(path)
        if "topic" not in self._names:
            self._output, self._partition = os.path.split(path)
            if parse_partition_name(self._partition) is None:
                raise KsegError(
                    f"{path}: is named like no partition, such as orders-0; or give columns topic, partition"
                )
            if os.path.lexists(path):
                raise PathError(f"{path}: already exists; nothing was written")
        self._folder = os.path.join(self._output, f".kseg-{uuid4().hex}.rows")
        os.makedirs(self._folder)  # not in tasks: a late task must not recreate a folder that `abort` has removed

    def write(self, iterator: Iterator["pyarrow.RecordBatch"]) -> Written:
        """Runs one task."""
        folder = os.path.join(self._folder, uuid4().hex)
        try:
            Disk().make_directory(folder)
        except FileNotFoundError as error:
            raise PathError(
                f"{self._folder}: is not there: the job was given up, or this machine has no such disk"
            ) from error
        ranges: dict[str, RowsWriter] = {}
        try:
            for batch in iterator:
                for name, part in self._by_partition(batch):
                    if name not in ranges:
                        inner = os.path.join(folder, name)
                        Disk().make_directory(inner)
                        ranges[name] = self._writer(name, inner)
                    _add(ranges[name], name, part)
            return Written({name: some.finish() for name, some in ranges.items()})
        except BaseException:
            for some in ranges.values():
                some.discard()
            if os.path.isdir(folder):
                Disk().remove_tree(folder)
            raise

    def _writer(self, name: str, folder: str) -> RowsWriter:
        options = self._options
        limits = RollLimits(options.segment_bytes, interval_bytes=options.interval_bytes)
        hint = f" in a task: {_HOW}"
        return RowsWriter(name, folder, codec_target(options.codec), options.batch_bytes, limits, hint)

    def _by_partition(self, batch: "pyarrow.RecordBatch") -> Iterator[tuple[str, "pyarrow.RecordBatch"]]:
        import pyarrow.compute as pc

        if not batch.num_rows:
            return
        if self._partition is not None:
            yield self._partition, batch
            return
        topics, numbers = batch.column("topic"), batch.column("partition")
        if topics.null_count or numbers.null_count:
            raise KsegError("a row has no topic or partition")
        for topic in topics.unique().to_pylist():
            of_topic = pc.equal(topics, topic)
            for number in numbers.filter(of_topic).unique().to_pylist():
                name = f"{topic}-{number}"
                if parse_partition_name(name) != (topic, number) or "/" in name:
                    raise KsegError(f"{topic!r}, {number}: is no topic and partition")
                chosen = pc.and_(of_topic, pc.equal(numbers, number))
                yield name, batch if pc.all(chosen).as_py() else batch.filter(chosen)

    def commit(self, messages: list[Any]) -> None:
        """Moves everything into place. Raises KsegError if several tasks have written the same offsets."""
        try:
            found: dict[str, list[OffsetRange]] = defaultdict(list)
            for message in messages:
                for name, each in message.partitions.items() if message is not None else ():
                    found[name].append(each)
            whole = {name: _joined(name, found[name]) for name in sorted(found)}
            if whole:
                with new_directories(self._output, takes_lock=True) as made:
                    for name, each in whole.items():
                        _put(made, name, each)
        finally:
            self._remove()

    def abort(self, messages: list[Any]) -> None:
        """Removes the output of all tasks."""
        self._remove()

    def _remove(self) -> None:
        for left in reversed(range(REMOVALS)):
            try:
                if os.path.isdir(self._folder):
                    Disk().remove_tree(self._folder)
                return
            except OSError:
                if not left:
                    raise
                time.sleep(REMOVAL_SECONDS)  # a task that is still running has created or removed a file


def _add(writer: RowsWriter, name: str, batch: "pyarrow.RecordBatch") -> None:
    """Raises KsegError for rows that are not records."""
    try:
        for rows, append_time in batchable_rows(batch):
            writer.add(rows, append_time)
    except ValueError as error:
        raise KsegError(f"{name}: {error}") from error


def _checked(schema: StructType) -> list[str]:
    """Returns the names of the columns. Raises KsegError for one that records do not have."""
    for column in schema:
        wanted = RECORDS.get(column.name)
        if wanted is None:
            raise KsegError(f"a record has no column {column.name!r}; it has {', '.join(RECORDS)}")
        is_text = column.name in ("key", "value") and isinstance(column.dataType, StringType)
        if column.dataType.simpleString() != wanted.simpleString() and not is_text:
            shown, given = wanted.simpleString(), column.dataType.simpleString()
            raise KsegError(f"column {column.name} is {shown}, not {given}")
    names = [column.name for column in schema]
    if "offset" not in names:
        raise KsegError("format kseg writes records with a column offset: each keeps its own")
    if ("topic" in names) != ("partition" in names):
        raise KsegError("columns topic and partition go together: without both, the path is a partition")
    return names


def _joined(name: str, ranges: list[OffsetRange]) -> OffsetRange:
    """Raises KsegError if ranges overlap."""
    whole = OffsetRange([], [])
    for segments, gaps in sorted(ranges, key=lambda each: each.segments[0].base_offset):
        base_offset = segments[0].base_offset
        next_offset = whole.segments[-1].next_offset if whole.segments else base_offset
        if next_offset > base_offset:
            raise KsegError(f"{name}: several tasks have offsets around {base_offset}, nothing was written: {_HOW}")
        if next_offset < base_offset:
            whole.gaps.append((next_offset, base_offset - 1))
        whole.segments.extend(segments)
        whole.gaps.extend(gaps)
    return whole


def _put(made: NewDirectories, name: str, whole: OffsetRange) -> None:
    folder, disk, segments = made.add(name), Disk(), whole.segments
    for segment in segments:
        for suffix, path in segment.paths.items():
            disk.rename(path, os.path.join(folder, segment.name(suffix)))
    write_side_files(folder, whole)
