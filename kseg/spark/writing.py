"""Writes rows as partitions: ``df.write.format("kseg")``. Each task writes the segments of a range of offsets.

A partition appears completely or not at all (`kseg.spark.outputs`). Existing files are not changed.
"""

import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StringType, StructType

from kseg.changes.disk import Disk
from kseg.conversion.options import codec_target
from kseg.conversion.rows_writer import PartitionRange, RowsWriter
from kseg.errors import KsegError, text_of
from kseg.export.arrow_rows import batchable_rows
from kseg.segment.files import parse_partition_name
from kseg.segment.writer import RollLimits
from kseg.spark.options import WriteOptions
from kseg.spark.outputs import output_at
from kseg.spark.schemas import RECORDS
from kseg.stores.stored_object import is_url, local_path, shown

if TYPE_CHECKING:
    import pyarrow

_SORT_HINT = "write df.repartitionByRange(n, 'offset').sortWithinPartitions('offset')"


@dataclass(slots=True)
class Written(WriterCommitMessage):
    """The output of a task, by partition name."""

    partitions: dict[str, PartitionRange] = field(default_factory=dict)


class KsegWriter(DataSourceArrowWriter):
    """Writes rows with the columns of mode records. Raises KsegError for rows that cannot form a partition."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise KsegError("format kseg removes nothing: mode('append') writes partitions that are not there yet")
        if len(options.paths) != 1:
            raise KsegError("format kseg writes to one path: save('orders-0')")
        self._options = options
        self._names = _checked_names(schema)
        path = options.paths[0].rstrip("/")
        if not is_url(path):
            path = os.path.abspath(local_path(path))
        self._partition: str | None = None
        if "topic" not in self._names:
            path, self._partition = os.path.split(path)
            if parse_partition_name(self._partition) is None:
                raise KsegError(
                    f"{shown(path)}/{self._partition}: is named like no partition, such as orders-0; or give columns "
                    "topic, partition"
                )
        self._output = output_at(path, options.storage)
        self._output.begin(self._partition)

    def write(self, iterator: Iterator["pyarrow.RecordBatch"]) -> Written:
        """Runs one task."""
        attempt = self._output.new_attempt()
        writers: dict[str, RowsWriter] = {}
        try:
            return Written(attempt.staged(self._written(iterator, attempt.folder, writers)))
        except BaseException as error:
            for writer in writers.values():
                writer.discard()
            attempt.discard()
            if isinstance(error, OSError):
                raise KsegError(f"{self._output.root}: nothing was written: {text_of(error)}") from error
            raise

    def _written(
        self, iterator: Iterator["pyarrow.RecordBatch"], folder: str, writers: dict[str, RowsWriter]
    ) -> dict[str, PartitionRange]:
        for batch in iterator:
            for name, part in self._by_partition(batch):
                if name not in writers:
                    inner = os.path.join(folder, name)
                    Disk().make_directory(inner)
                    writers[name] = self._writer(name, inner)
                _add(writers[name], name, part)
        return {name: writer.finish() for name, writer in writers.items()}

    def _writer(self, name: str, folder: str) -> RowsWriter:
        options = self._options
        limits = RollLimits(options.segment_bytes, interval_bytes=options.interval_bytes)
        hint = f" in a task: {_SORT_HINT}"
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
            found: dict[str, list[PartitionRange]] = defaultdict(list)
            for message in messages:
                for name, each in message.partitions.items() if message is not None else ():
                    found[name].append(each)
            whole = {name: _joined(name, found[name]) for name in sorted(found)}
            if whole:
                self._output.put(whole)
        finally:
            self._output.remove()

    def abort(self, messages: list[Any]) -> None:
        """Removes the output of all tasks."""
        self._output.remove()


def _add(writer: RowsWriter, name: str, batch: "pyarrow.RecordBatch") -> None:
    """Writes the rows of a batch. Raises KsegError for rows that are not records."""
    try:
        for rows, append_time in batchable_rows(batch):
            writer.add(rows, append_time)
    except ValueError as error:
        raise KsegError(f"{name}: {error}") from error


def _checked_names(schema: StructType) -> list[str]:
    """Returns the names of the columns. Raises KsegError for one that records do not have."""
    for column in schema:
        wanted = RECORDS.get(column.name)
        if wanted is None:
            raise KsegError(f"a record has no column {column.name!r}; it has {', '.join(RECORDS)}")
        is_text = column.name in ("key", "value") and isinstance(column.dataType, StringType)
        if column.dataType.simpleString() != wanted.simpleString() and not is_text:
            expected, given = wanted.simpleString(), column.dataType.simpleString()
            raise KsegError(f"column {column.name} is {expected}, not {given}")
    names = [column.name for column in schema]
    if "offset" not in names:
        raise KsegError("format kseg writes records with a column offset: each keeps its own")
    if ("topic" in names) != ("partition" in names):
        raise KsegError("columns topic and partition go together: without both, the path is a partition")
    return names


def _joined(name: str, ranges: list[PartitionRange]) -> PartitionRange:
    """Returns the ranges of a partition as one. Raises KsegError if they overlap."""
    whole = PartitionRange([], [])
    for segments, gaps in sorted(ranges, key=lambda each: each.segments[0].base_offset):
        base_offset = segments[0].base_offset
        next_offset = whole.segments[-1].next_offset if whole.segments else base_offset
        if next_offset > base_offset:
            raise KsegError(
                f"{name}: several tasks have offsets around {base_offset}, nothing was written: {_SORT_HINT}"
            )
        if next_offset < base_offset:
            whole.gaps.append((next_offset, base_offset - 1))
        whole.segments.extend(segments)
        whole.gaps.extend(gaps)
    return whole
