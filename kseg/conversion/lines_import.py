"""Builds new partitions from JSON Lines: all that the lines describe, or none."""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import BinaryIO

from kseg.changes.disk import Disk
from kseg.changes.driver.planner import ChangeOptions
from kseg.changes.driver.reporter import Messages
from kseg.changes.new_directories import new_directories
from kseg.changes.plan import Plan
from kseg.conversion.grouping import GROUP_BYTES, BatchFields
from kseg.conversion.options import ConvertOptions
from kseg.conversion.planner import plan_of_new
from kseg.conversion.rewriting import make_side_files
from kseg.conversion.rows_writer import LEADER_EPOCH, BatchWriter, NewRecord, rows_of
from kseg.errors import DamageError, KsegError, PathError, StoppedHalfwayError
from kseg.export.json_lines import BatchLine, DamageLine, JsonLines, Line, RecordLine
from kseg.formats.areas import NONE, Area, build_batch, build_wrapper
from kseg.formats.compressing import Target, target_of
from kseg.kernel.layout.headers import LOG_APPEND_TIME, MAGIC_V2
from kseg.segment.files import parse_partition_name
from kseg.segment.writer import LARGEST_SEGMENT_BYTES, RollLimits, WrittenSegment
from kseg.stores.source import STANDARD_INPUT

# Builds partitions from batches and records that were read as text.

NAMELESS = "records-0"
"""The partition of records without a partition field."""


class Import:
    """Partitions by name. ``folder(name)``: the folder for a partition, None to count only."""

    def __init__(self, request: ConvertOptions, folder: Callable[[str], str | None]) -> None:
        self._request, self._folder = request, folder
        self.partitions: dict[str, NewPartition] = {}
        self.skipped: list[str] = []
        self._names: dict[str, str] = {}
        self._nameless: dict[str, list[BatchLine]] = {}
        """By folder: the partition of its records, and empty batches that precede the first record."""

    def add(self, line: Line) -> None:
        """Adds a batch or record. Raises DamageError, KsegError."""
        problem = line.text if isinstance(line, DamageLine) else line.problem
        if problem is not None:
            if not self._request.skips_damage:
                raise DamageError(f"the lines report damage: {problem}; --skip-damage leaves it out")
            if problem not in self.skipped[-1:]:
                self.skipped.append(problem)
        elif isinstance(line, BatchLine):
            self._add_batch(line)
        elif isinstance(line, RecordLine):
            self._of(line.partition or NAMELESS).add_record(line)

    def _add_batch(self, line: BatchLine) -> None:
        """Adds a batch. One without records has no partition field, so it goes to the partition of its folder."""
        names = {record.partition or NAMELESS for record in line.records}
        if len(names) > 1:
            raise KsegError(f"a batch holds records of several partitions: {', '.join(sorted(names))}")
        if names:
            self._names[line.folder] = names.pop()
        name = self._names.get(line.folder)
        if name is None:
            self._nameless.setdefault(line.folder, []).append(line)
            return
        for batch in [*self._nameless.pop(line.folder, ()), line]:
            self._of(name).add_batch(batch)

    def _of(self, name: str) -> "NewPartition":
        if name not in self.partitions:
            self.partitions[name] = NewPartition(name, self._request, self._folder(name))
        return self.partitions[name]

    def finish(self) -> None:
        """Completes all partitions."""
        for folder, batches in self._nameless.items():
            name = os.path.basename(folder)
            for batch in batches:
                self._of(name if parse_partition_name(name) else NAMELESS).add_batch(batch)
        for partition in self.partitions.values():
            partition.finish()

    def discard(self) -> None:
        for partition in self.partitions.values():
            partition.discard()


class NewPartition(BatchWriter):
    """One partition. ``files``: names and sizes of the files, after `finish`."""

    def __init__(self, name: str, request: ConvertOptions, folder: str | None) -> None:
        self._magic = 2 if request.magic is None else request.magic
        segment_bytes = request.segment_bytes or LARGEST_SEGMENT_BYTES
        super().__init__(name, folder, self._magic, RollLimits(segment_bytes, interval_bytes=request.index_interval))
        self.files: dict[str, int] = {}
        self.records = 0
        self._request = request
        self._segments: list[WrittenSegment] = []
        self._segment: int | None = None
        self._held: list[NewRecord] = []
        self._held_bytes = 0
        self._next_offset = request.first_offset

    # Bare records

    def add_record(self, line: RecordLine) -> None:
        """Adds a record without a batch."""
        record = self._record(line, line.timestamp if line.is_append_time else None)
        if self._held and record.append_time != self._held[0].append_time:
            self._group()
        self._begun(record.offset)
        self._held.append(record)
        self._held_bytes += record.size
        if self._held_bytes >= (self._request.batch_bytes or GROUP_BYTES):
            self._group()

    def _record(self, line: RecordLine, append_time: int | None) -> NewRecord:
        offset = self._next_offset if line.offset is None else line.offset
        if offset < self._next_offset:
            raise KsegError(f"{self.name}: offset {offset} comes behind offset {self._next_offset - 1}")
        self._next_offset = offset + 1
        if line.headers and self._magic < MAGIC_V2 and not self._request.is_lossy:
            raise KsegError(f"{self.name}: message format v{self._magic} has no headers; --lossy leaves them out")
        self.records += 1
        return NewRecord(offset, line.timestamp, line.key, line.value, line.headers, append_time)

    def _group(self) -> None:
        """Writes the buffered records as batches."""
        if not self._held:
            return
        records, self._held, self._held_bytes = self._held, [], 0
        target, append_time = self._request.target or NONE, records[0].append_time
        fields = BatchFields(target, append_time=append_time, leader_epoch=LEADER_EPOCH)
        limit = self._request.batch_bytes or GROUP_BYTES
        self._append(self._next_offset, self._grouper.add(fields, iter([rows_of(records)]), limit))

    def _flush(self) -> None:
        self._group()
        if self._writer is not None:
            self._append(self._next_offset, self._grouper.flush())

    # Batches

    def add_batch(self, line: BatchLine) -> None:
        """Adds a batch with its original header, in its original segment."""
        self._flush()
        if self._request.segment_bytes is None and line.segment is not None and line.segment != self._segment:
            self._end_segment()
            self._segment = line.segment
        if self._request.magic not in (None, line.magic) or self._request.batch_bytes is not None:
            raise KsegError("batches keep their format and size when they are read: convert the result")
        header = line.header
        records = [self._record(record, None) for record in line.records]
        if line.magic == MAGIC_V2:
            first = records[0].offset if records else header.base_offset
            if not header.base_offset <= first or self._next_offset - 1 > header.last_offset:
                raise KsegError(f"{self.name}: records lie outside the batch at offset {header.base_offset}")
            self._next_offset = header.last_offset + 1
            data = self._batch(line, records)
        else:
            data = self._messages(line, records)
        base = header.base_offset if line.magic == MAGIC_V2 else records[0].offset if records else self._next_offset
        if self._segment is not None:
            base = min(base, self._segment)
        self._append(base, [(lambda: data, len(data))])

    def _target(self, header_codec: int) -> Target:
        if self._request.target is not None:
            return self._request.target
        return target_of(header_codec)

    def _batch(self, line: BatchLine, records: list[NewRecord]) -> bytes:
        header, area = line.header, Area(2)
        base_timestamp = header.base_timestamp
        if header.is_log_append_time:  # the producer's timestamps are lost
            records = [record._replace(timestamp=base_timestamp) for record in records]
        area.begin(header.base_offset, base_timestamp=base_timestamp)
        rows = rows_of(records)
        if area.add(rows, 0, rows.count) != rows.count:
            raise KsegError(f"{self.name}: the batch at offset {header.base_offset} is too large")
        target = NONE if header.is_control or not records else self._target(header.codec)
        return build_batch(header._replace(record_count=area.count), area.take(), target)

    def _messages(self, line: BatchLine, records: list[NewRecord]) -> bytes:
        header = line.header
        attributes = LOG_APPEND_TIME * header.is_log_append_time
        area = Area(line.magic, bool(header.codec), attributes)
        if not records:
            return b""
        area.begin(records[0].offset)
        rows = rows_of(records)
        if area.add(rows, 0, rows.count) != rows.count:
            raise KsegError(f"{self.name}: the message at offset {records[0].offset} is too large")
        target = self._target(header.codec)
        if target.codec == 0:
            return area.take()
        return build_wrapper(line.magic, area.last_offset, area.largest_timestamp, attributes, area.take(), target)

    # The end

    def _end_segment(self) -> None:
        if self._writer is not None:
            self._segments += self._writer.finish()
            self._writer = None

    def finish(self) -> None:
        """Writes the buffered records and the side files."""
        self._flush()
        self._end_segment()
        for segment in self._segments:
            self.files.update({segment.name(suffix): size for suffix, size in segment.sizes.items()})
        if self.folder is not None and self._segments and self._magic == MAGIC_V2:
            for name, content in make_side_files(self._segments, None):
                Disk().write_file(f"{self.folder}/{name}", content, self.folder)
                self.files[name] = len(content)


def import_lines(
    paths: Sequence[str], output: str, request: ConvertOptions, change: ChangeOptions, messages: Messages
) -> list[Plan]:
    """Writes partitions below ``output``, or in a dry run only counts. Returns a plan for each. Raises KsegError."""
    is_dry = change.is_dry
    with new_directories(output, change.takes_lock, is_dry) as made:

        def folder(name: str) -> str | None:
            path = made.add(name, is_dry)
            return None if is_dry else path

        work = Import(request, folder)
        try:
            for path in paths:
                with ExitStack() as opened:
                    name = "standard input" if path == STANDARD_INPUT else path
                    _add_lines(work, JsonLines(_open(path, opened), name, 4 * request.max_batch_bytes), name)
            work.finish()
        except BaseException:
            work.discard()
            raise
    for skipped in work.skipped:
        messages.warning(f"left out: {skipped}")
    for name, partition in work.partitions.items():
        messages.detail(f"{name}: {partition.records} records")
    return [plan_of_new(os.path.join(output, name), partition.files, "") for name, partition in work.partitions.items()]


def _add_lines(work: Import, lines: JsonLines, path: str) -> None:
    for line in lines:
        try:
            work.add(line)
        except StoppedHalfwayError:
            raise
        except KsegError as error:
            raise KsegError(f"{path}: line {lines.first_line}: {error}; nothing was written") from error


def _open(path: str, opened: ExitStack) -> BinaryIO:
    if path == STANDARD_INPUT:
        if sys.stdin is None:
            raise PathError("standard input is closed")
        return sys.stdin.buffer
    try:
        return opened.enter_context(open(path, "rb"))
    except OSError as error:
        raise PathError(f"{path}: {error.strerror}") from error
