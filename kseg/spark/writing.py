"""Writes rows as partitions: ``df.write.format("kseg")``. Each task writes the segments of a range of offsets.

A partition appears completely or not at all: tasks write beside it, each attempt to its own folder, and the driver
assembles the reported results. Existing files are not changed.
"""

import os
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StringType, StructType

from kseg.changes.disk import Disk
from kseg.changes.new_directories import NewDirectories, new_directories
from kseg.conversion.grouping import BatchFields, Grouper
from kseg.conversion.rewriting import MOST_GAPS, note_gaps
from kseg.conversion.side_files import EPOCH_FILE
from kseg.errors import KsegError, PathError
from kseg.export.arrow_rows import batchable_rows
from kseg.formats.areas import NONE
from kseg.formats.compressing import parse_target
from kseg.kernel.layout.rows import ROW_OFFSET, ROW_WIDTH
from kseg.segment.files import parse_partition_name
from kseg.segment.writer import LogWriter, RollLimits, WrittenSegment
from kseg.sidefiles.leader_epochs import EpochEntry, build_leader_epochs
from kseg.spark.options import WriteOptions
from kseg.spark.paths import local_only, without_scheme
from kseg.spark.schemas import RECORDS
from kseg.stores.no_follow import resolved

if TYPE_CHECKING:
    import pyarrow

_HOW = "write df.repartitionByRange(n, 'offset').sortWithinPartitions('offset')"
_LEADER_EPOCH = 0
"""Leader epoch of all records: the first epoch of a partition."""


class OffsetRange(NamedTuple):
    """A range of a partition: its segments, and the missing offsets between its records."""

    segments: list[WrittenSegment]
    gaps: list[tuple[int, int]]


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
        local_only(options.paths, "writing")
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
        ranges: dict[str, _Range] = {}
        try:
            for batch in iterator:
                for name, part in self._by_partition(batch):
                    if name not in ranges:
                        inner = os.path.join(folder, name)
                        Disk().make_directory(inner)
                        ranges[name] = _Range(name, inner, self._options)
                    ranges[name].add(part)
            return Written({name: some.finish() for name, some in ranges.items()})
        except BaseException:
            for some in ranges.values():
                some.discard()
            if os.path.isdir(folder):
                Disk().remove_tree(folder)
            raise

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
    epochs = build_leader_epochs([EpochEntry(_LEADER_EPOCH, segments[0].base_offset)])
    disk.write_file(os.path.join(folder, EPOCH_FILE), epochs, folder)
    if whole.gaps:
        note_gaps(folder, whole.gaps, "write")


class _Range:
    """The records of one partition in one task, with rising offsets."""

    def __init__(self, name: str, folder: str, options: WriteOptions) -> None:
        self._name, self._folder = name, folder
        self._limits = RollLimits(options.segment_bytes, interval_bytes=options.interval_bytes)
        self._batch_bytes = options.batch_bytes
        self._target = NONE if options.codec == "none" else parse_target(options.codec)
        self._grouper = Grouper(2)
        self._writer: LogWriter | None = None
        self._last_offset: int | None = None
        self._gaps: list[tuple[int, int]] = []

    def add(self, batch: "pyarrow.RecordBatch") -> None:
        """Raises KsegError for offsets that do not rise, and for rows that are not records."""
        try:
            for rows, append_time in batchable_rows(batch):
                self._take(rows.rows[ROW_OFFSET::ROW_WIDTH].tolist())
                if self._writer is None:
                    self._writer = LogWriter(self._folder, rows.rows[ROW_OFFSET], self._limits)
                fields = BatchFields(self._target, append_time=append_time, leader_epoch=_LEADER_EPOCH)
                for build, _ in self._grouper.add(fields, iter([rows]), self._batch_bytes):
                    self._writer.append(build())
        except ValueError as error:
            raise KsegError(f"{self._name}: {error}") from error

    def _take(self, offsets: list[int]) -> None:
        """Records missing offsets, for example of rows that were filtered out."""
        if offsets[0] < 0:
            raise KsegError(f"{self._name}: offset {offsets[0]} is none: they begin at 0")
        last = offsets[0] - 1 if self._last_offset is None else self._last_offset
        if offsets[-1] - last != len(offsets) or offsets != list(range(last + 1, last + 1 + len(offsets))):
            for offset in offsets:
                if offset <= last:
                    raise KsegError(f"{self._name}: offset {offset} comes behind offset {last} in a task: {_HOW}")
                if offset > last + 1 and len(self._gaps) <= MOST_GAPS:
                    self._gaps.append((last + 1, offset - 1))
                last = offset
        self._last_offset = offsets[-1]

    def finish(self) -> OffsetRange:
        """Ends the range, which has at least one record."""
        if self._writer is None:
            raise ValueError("a range without records")
        try:
            for build, _ in self._grouper.flush():
                self._writer.append(build())
        except ValueError as error:
            raise KsegError(f"{self._name}: {error}") from error
        return OffsetRange(self._writer.finish(), self._gaps)

    def discard(self) -> None:
        """Closes open files."""
        if self._writer is not None:
            self._writer.discard()
