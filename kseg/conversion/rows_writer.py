"""Writes records with rising offsets as the segments of new partitions: v2 batches without a producer."""

import os
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from kseg.changes.accepted_gaps import record
from kseg.changes.disk import Disk
from kseg.conversion.grouping import BatchFields, Build, Grouper
from kseg.conversion.rewriting import MAX_GAPS, known_gaps
from kseg.errors import KsegError, errors_at
from kseg.export import pa
from kseg.formats.compressing import Target
from kseg.formats.rows import Rows
from kseg.kernel.layout.headers import MAGIC_V2
from kseg.kernel.layout.rows import HEADER_WIDTH, ROW_OFFSET, ROW_WIDTH
from kseg.segment.files import LAST_OFFSET
from kseg.segment.writer import LogWriter, RollLimits, WrittenSegment
from kseg.sidefiles.checkpoints import LEADER_EPOCHS, EpochEntry, build_leader_epochs
from kseg.sidefiles.text_files import PARTITION_METADATA, PartitionMetadata, build_partition_metadata


class NewRecord(NamedTuple):
    """``timestamp`` in ms, -1 for none; ``append_time``: the same for LogAppendTime, otherwise None."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[bytes, bytes | None]] = ()
    append_time: int | None = None

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        pairs = sum(len(key) + len(value or b"") for key, value in self.headers) if self.headers else 0
        return 32 + len(self.key or b"") + len(self.value or b"") + pairs


def rows_of(records: Sequence[NewRecord]) -> Rows:
    """Returns records as new rows."""
    payload = bytearray()
    rows: list[int] = []
    headers: list[int] = []

    def put(data: bytes | None) -> tuple[int, int]:
        if data is None:
            return len(payload), -1
        at = len(payload)
        payload.extend(data)
        return at, len(data)

    for new in records:
        first = len(headers) // HEADER_WIDTH
        for key, value in new.headers:
            headers += [*put(key), *put(value)]
        rows += [new.offset, new.timestamp, -1, *put(new.key), *put(new.value), first]
        rows += [len(new.headers), 0]
    row_table, header_table = (memoryview(array("q", each or [0] * ROW_WIDTH)) for each in (rows, headers))
    return Rows(bytes(payload), row_table, header_table, len(records))


OPEN_FILES = 128
BUFFER_BYTES = 32 << 20
RECORD_BYTES = 250
"""Memory of a `NewRecord` in addition to key and value."""
LEADER_EPOCH = 0
"""Leader epoch of all records: the first epoch of a partition."""


class PartitionRange(NamedTuple):
    """A range of a partition: its segments, and the missing offsets between its records."""

    segments: list[WrittenSegment]
    gaps: list[tuple[int, int]]


class RowsWriter:
    """Writes records as batches of format ``magic`` to segments in ``folder``, or only counts them without one.

    ``batch_bytes``: size of a batch before compression; ``hint``: added to errors. ``next_offset``: of the next record,
    unless one is given.
    """

    def __init__(
        self,
        name: str,
        folder: str | None,
        target: Target,
        batch_bytes: int,
        limits: RollLimits,
        hint: str = "",
        magic: int = MAGIC_V2,
        first_offset: int = 0,
    ) -> None:
        self.name, self.folder, self._limits = name, folder, limits
        self.next_offset = self._first_offset = first_offset
        self._added: int | None = None
        """The last offset of `add`."""
        self._target, self._batch_bytes, self._hint = target, batch_bytes, hint
        self._grouper = Grouper(magic)
        self._writer: LogWriter | None = None
        self._gaps: list[tuple[int, int]] = []
        self._held: list[NewRecord] = []
        self._held_bytes = 0

    def numbered(self, offset: int | None) -> int:
        """Returns the offset of the next record, a given one as it is. Raises KsegError if it does not rise, or none is
        left.
        """
        found = self.next_offset if offset is None else offset
        if found < self.next_offset:
            raise KsegError(f"{self.name}: offset {found} comes behind offset {self.next_offset - 1}{self._hint}")
        if found > LAST_OFFSET:
            raise KsegError(f"{self.name}: there is no offset after {LAST_OFFSET}")
        self.next_offset = found + 1
        return found

    def hold(self, record: NewRecord) -> None:
        """Appends a record, whose offset is `numbered`, with those that follow it. Raises KsegError as `add`."""
        if self._held and record.append_time != self._held[0].append_time:
            self.add_held()
        self._held.append(record)
        self._held_bytes += record.size
        if self._held_bytes >= self._batch_bytes:
            self.add_held()

    def add_held(self) -> None:
        """Appends the records that `hold` has taken."""
        records, self._held, self._held_bytes = self._held, [], 0
        if records:
            self.add(rows_of(records), records[0].append_time)

    def add_table(self, batch: "pa.RecordBatch") -> None:
        """Appends the rows of a record batch with columns of `record_columns`; without offsets they get the next ones.

        Raises KsegError as `add`, ValueError as `batchable_rows`.
        """
        from kseg.export.arrow import batchable_rows, with_offsets

        self.add_held()
        for rows, append_time in batchable_rows(with_offsets(batch, self.next_offset)):
            self.add(rows, append_time)

    def add(self, rows: Rows, append_time: int | None = None) -> None:
        """Appends records. ``append_time``: their LogAppendTime in ms, None for CreateTime.

        Raises KsegError for offsets that do not rise, and for records that no batch can hold.
        """
        if not rows.count:
            return
        self._take(rows.rows[ROW_OFFSET : rows.count * ROW_WIDTH : ROW_WIDTH].tolist())
        fields = BatchFields(self._target, append_time=append_time, leader_epoch=LEADER_EPOCH)
        self._append(rows.rows[ROW_OFFSET], self._grouper.add(fields, iter([rows]), self._batch_bytes))

    def _append(self, base_offset: int, builds: Iterable[Build]) -> LogWriter:
        """Appends batches, to a segment from this offset on if none is open. Raises KsegError if none can hold them."""
        with errors_at(self.name, KsegError, of=ValueError):
            if self._writer is None:
                self._writer = LogWriter(self.folder, base_offset, self._limits)
            for build, _ in builds:
                self._writer.append(build())
        return self._writer

    def flush(self) -> None:
        """Writes the records that are in memory as a batch."""
        self.add_held()
        if self._writer is not None:
            self._append(self.next_offset, self._grouper.flush())

    def trim(self) -> None:
        """Writes the records that are in memory, and gives back the memory and the open file."""
        self.flush()
        self._grouper.trim()
        self.close()

    def close(self) -> None:
        """Closes the open file, unfinished; it is opened again for more records."""
        if self._writer is not None:
            self._writer.close()

    def _take(self, offsets: list[int]) -> None:
        """Records missing offsets, for example of rows that were filtered out."""
        if offsets[0] < 0:
            raise KsegError(f"{self.name}: offset {offsets[0]} is invalid: offsets start at 0")
        following = offsets[0] if self._added is None else self._added + 1
        if offsets != list(range(following, following + len(offsets))):
            for offset in offsets:
                if offset < following:
                    raise KsegError(f"{self.name}: offset {offset} comes behind offset {following - 1}{self._hint}")
                if offset > following and len(self._gaps) <= MAX_GAPS:
                    self._gaps.append((following, offset - 1))
                following = offset + 1
        self._added = offsets[-1]
        self.next_offset = max(self.next_offset, self._added + 1)

    def finish(self) -> PartitionRange:
        """Ends the last segment. Without a record it is empty."""
        self.add_held()
        return PartitionRange(self._append(self._first_offset, self._grouper.flush()).finish(), self._gaps)


def write_side_files(folder: str, whole: PartitionRange, topic_ids: Mapping[str, str] | None = None) -> None:
    """Writes the leader epochs of a partition, and records the missing offsets so that `verify` knows them.

    ``topic_ids``: a broker that knows the topic by another id, or finds none, takes the partition for a stray one.
    """
    topic_id = (topic_ids or {}).get(os.path.basename(folder).rpartition("-")[0])
    if topic_id is not None:
        metadata = build_partition_metadata(PartitionMetadata(0, topic_id))
        Disk().write_file(os.path.join(folder, PARTITION_METADATA), metadata, folder)
    Disk().write_file(os.path.join(folder, LEADER_EPOCHS), first_leader_epoch(whole.segments), folder)
    record(folder, known_gaps(whole.gaps), Disk())


def first_leader_epoch(segments: Sequence[WrittenSegment]) -> bytes:
    """Returns the leader epochs of a partition of records without batches."""
    return build_leader_epochs([EpochEntry(LEADER_EPOCH, segments[0].base_offset)])


Partition = TypeVar("Partition", bound=RowsWriter)


class PartitionWriters(Generic[Partition]):
    """The writers of any number of new partitions by name, made on first use.

    At most OPEN_FILES of them keep a file open. They hold about BUFFER_BYTES of records in memory, all together.
    """

    def __init__(self, make: Callable[[str], Partition]) -> None:
        self.by_name: dict[str, Partition] = {}
        self._make = make
        self._open: dict[str, Partition] = {}
        self._used: dict[str, Partition] = {}
        """Since all were trimmed."""
        self._used_bytes = 0

    def use(self, name: str, size: int) -> Partition:
        """Returns the writer of a partition, to which about ``size`` bytes will be added before the next use of any."""
        self._used_bytes += size
        if self._used_bytes > BUFFER_BYTES and len(self._used) > OPEN_FILES:
            for each in self._used.values():
                each.trim()
            self._open, self._used, self._used_bytes = {}, {}, size
        found = self._open.pop(name, None) or self.by_name.get(name)
        if found is None:
            found = self.by_name[name] = self._make(name)
        self._open[name] = self._used[name] = found
        if len(self._open) > OPEN_FILES:
            self._open.pop(next(iter(self._open))).close()
        return found

    def close(self) -> None:
        """Closes open files; the caller removes the folders."""
        for each in self._open.values():
            each.close()
