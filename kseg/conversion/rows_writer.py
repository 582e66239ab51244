"""Groups records into new batches, and writes those of new partitions as segments with their side files.

Offsets stay the same, including gaps. If a v2 batch is split, the parts cover the same range of offsets and sequences;
batches are joined only if neither offsets nor sequences have a gap between them. Records without batches get v2 batches
without a producer, if no older format is wanted.
"""

import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from kseg.changes.accepted_gaps import record
from kseg.changes.disk import Disk
from kseg.errors import KsegError, errors_at
from kseg.export import pa
from kseg.formats.compressing import Target, build_batch, build_wrapper
from kseg.formats.record_batch import HEADER_BYTES, RecordBatchHeader
from kseg.formats.rows import Rows
from kseg.formats.suffixes import LOG, SNAPSHOT, TRANSACTION_INDEX
from kseg.kernel.layout import rows as layout
from kseg.kernel.layout.headers import LOG_APPEND_TIME, MAGIC_V2, TRANSACTIONAL
from kseg.kernel.records.building import MAX_AREA_BYTES, Area
from kseg.segment.files import LAST_OFFSET, segment_stem
from kseg.segment.writer import LARGEST_DELTA, LogWriter, RollLimits, WrittenSegment, batch_rows
from kseg.sidefiles.checkpoints import LEADER_EPOCHS, EpochEntry, build_leader_epochs
from kseg.sidefiles.hash_order import hash_map_order
from kseg.sidefiles.indexes import build_transaction_index
from kseg.sidefiles.problems import entries_of, problems_of
from kseg.sidefiles.producer_state import ProducerStates, build_producer_snapshot, read_producer_snapshot
from kseg.sidefiles.text_files import PARTITION_METADATA, PartitionMetadata, build_partition_metadata
from kseg.stores.place import Place
from kseg.stores.source import open_source

GROUP_BYTES = 16 << 10
"""Uncompressed messages and records without a batch are grouped up to this size: batch.size of Kafka's producer."""

_INITIAL_BYTES = 4 << 10
_LARGEST_SEQUENCE = (1 << 31) - 1

Build = tuple[Callable[[], bytes], int]
"""A function that builds a batch, and the number of its input bytes."""


@dataclass(frozen=True, slots=True)
class BatchFields:
    """Header fields of the batches that records go into. Records with different fields never share a batch.

    ``base_offset`` and ``last_offset``: None if only the records contain them (v0, v1). ``append_time`` in ms, None for
    CreateTime. ``sequence``: that of the record at ``base_offset``, -1 without a producer.
    """

    target: Target
    base_offset: int | None = None
    last_offset: int | None = None
    append_time: int | None = None
    is_transactional: bool = False
    leader_epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    sequence: int = -1

    def is_followed_by(self, other: "BatchFields") -> bool:
        """Whether the next records can share a batch: equal fields, and sequences continue as offsets do."""
        rest = replace(other, base_offset=self.base_offset, last_offset=self.last_offset, sequence=self.sequence)
        if rest != self or (self.sequence < 0) != (other.sequence < 0):
            return False
        if self.base_offset is not None and (other.last_offset or 0) - self.base_offset > LARGEST_DELTA:
            return False
        if self.sequence < 0 or self.base_offset is None or other.base_offset is None:
            return True
        is_next = self.last_offset is not None and other.base_offset == self.last_offset + 1
        return is_next and other.sequence == self.sequence_at(other.base_offset)

    def sequence_at(self, offset: int) -> int:
        """Returns the sequence at an offset. Sequences wrap around after 2^31 - 1."""
        if self.sequence < 0 or self.base_offset is None:
            return self.sequence
        return (self.sequence + offset - self.base_offset) & _LARGEST_SEQUENCE


class Grouper:
    """Builds batches of format ``magic``."""

    def __init__(self, magic: int) -> None:
        self._magic = magic
        self._fields: BatchFields | None = None
        self.trim()

    def trim(self) -> None:
        """Shrinks the buffer, which is empty after `flush`."""
        self._area = Area(self._magic, initial_bytes=_INITIAL_BYTES)

    def add(self, fields: BatchFields, batches: Iterator[Rows], limit: int | None) -> Iterator[Build]:
        """Adds the records of one batch, or of several. Yields complete batches.

        ``limit``: largest size of a new batch before compression, in bytes; None: unlimited. Raises ValueError for a
        record that fits no batch, and UndecodableError as the rows do.
        """
        if self._fields is not None and not self._fields.is_followed_by(fields):
            yield from self.flush()
        elif self._fields is not None and fields.last_offset is not None:
            self._fields = replace(self._fields, last_offset=fields.last_offset)
        max_bytes = MAX_AREA_BYTES if limit is None else max(limit - HEADER_BYTES * (self._magic == MAGIC_V2), 1)
        is_first = True
        for rows in batches:
            first = 0
            while first < rows.count:
                offset = rows.rows[first * layout.ROW_WIDTH + layout.ROW_OFFSET]
                if self._fields is None:
                    base = fields.base_offset if is_first and fields.base_offset is not None else offset
                    self._fields = replace(fields, base_offset=base, sequence=fields.sequence_at(base))
                    has_append_time = fields.append_time is not None and self._magic == 1
                    self._area.attributes = LOG_APPEND_TIME if has_append_time else 0
                    self._area.is_relative = self._magic == 1 and fields.target.codec != 0
                    self._area.begin(base if self._magic == MAGIC_V2 else offset, max_bytes)
                is_first = False
                done = self._area.add(rows, first, rows.count)
                if done < rows.count:
                    if not self._area.count:
                        raise ValueError(f"the record at offset {offset} fits no batch")
                    reached = rows.rows[done * layout.ROW_WIDTH + layout.ROW_OFFSET] - 1
                    is_known = fields.last_offset is not None
                    yield from self.flush(min(reached, self._area.base_offset + LARGEST_DELTA) if is_known else None)
                first = done

    def flush(self, last_offset: int | None = None) -> Iterator[Build]:
        """Yields the incomplete batch. ``last_offset``: its end, if more records of the same batch follow."""
        fields, area = self._fields, self._area
        self._fields = None
        if fields is None or not area.count:
            return
        target, size = fields.target, area.end
        if self._magic == MAGIC_V2:
            last = area.last_offset if fields.last_offset is None else fields.last_offset
            last = min(last, area.base_offset + LARGEST_DELTA)
            header = RecordBatchHeader(
                area.base_offset, 0, fields.leader_epoch, 2, 0,
                LOG_APPEND_TIME * (fields.append_time is not None) | TRANSACTIONAL * fields.is_transactional,
                (last if last_offset is None else last_offset) - area.base_offset, area.base_timestamp,
                area.largest_timestamp if fields.append_time is None else fields.append_time,
                fields.producer_id, fields.producer_epoch, fields.sequence, area.count,
            )  # fmt: skip
            yield partial(build_batch, header, area.take(), target), size
        elif target.codec == 0:
            yield partial(bytes, area.take()), size
        else:
            wrapper = (self._magic, area.last_offset, area.largest_timestamp, area.attributes)
            yield partial(build_wrapper, *wrapper, area.take(), target), size


class NewRecord(NamedTuple):
    """``timestamp`` in ms, -1 for none; ``append_time``: the same for LogAppendTime, otherwise None."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[bytes, bytes | None]] = ()
    append_time: int | None = None


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
        first = len(headers) // layout.HEADER_WIDTH
        for key, value in new.headers:
            headers += [*put(key), *put(value)]
        rows += [new.offset, new.timestamp, -1, *put(new.key), *put(new.value), first]
        rows += [len(new.headers), 0]
    row_table, header_table = (memoryview(array("q", each or [0] * layout.ROW_WIDTH)) for each in (rows, headers))
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
        pairs = sum(len(key) + len(value or b"") for key, value in record.headers) if record.headers else 0
        self._held_bytes += 32 + len(record.key or b"") + len(record.value or b"") + pairs  # approximately
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
        offsets = rows.column(layout.ROW_OFFSET)
        if offsets[0] < 0:
            raise KsegError(f"{self.name}: offset {offsets[0]} is invalid: offsets start at 0")
        following = offsets[0] if self._added is None else self._added + 1
        if offsets != list(range(following, following + len(offsets))):
            for offset in offsets:
                if offset < following:
                    raise KsegError(f"{self.name}: offset {offset} comes behind offset {following - 1}{self._hint}")
                # Offsets are missing, for example of rows that were filtered out.
                if offset > following and len(self._gaps) <= MAX_GAPS:
                    self._gaps.append((following, offset - 1))
                following = offset + 1
        self._added = offsets[-1]
        self.next_offset = max(self.next_offset, self._added + 1)
        fields = BatchFields(self._target, append_time=append_time, leader_epoch=LEADER_EPOCH)
        self._append(offsets[0], self._grouper.add(fields, iter([rows]), self._batch_bytes))

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

    def finish(self) -> PartitionRange:
        """Ends the last segment. Without a record it is empty."""
        self.add_held()
        return PartitionRange(self._append(self._first_offset, self._grouper.flush()).finish(), self._gaps)


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


def make_side_files(segments: list[WrittenSegment], seed: bytes | None) -> Iterator[tuple[str, bytes]]:
    """Yields names and contents of side files of the written segments. ``seed``: the producer snapshot at the first
    one.
    """
    items = [] if seed is None else list(read_producer_snapshot(seed))
    states, epochs, last = ProducerStates([] if problems_of(items) else entries_of(items)), [], -1

    def snapshot() -> bytes:
        return build_producer_snapshot(states.entries(), hash_map_order)

    has_producers = len(states) > 0
    for number, segment in enumerate(segments):
        if number and has_producers:
            yield segment.name(SNAPSHOT), snapshot()
        states.state.clear()
        aborted = []
        with open_source(segment.paths[LOG]) as source:
            for rows, count in batch_rows(source.buffer, 0):
                columns = count * layout.BATCH_WIDTH
                has_producers |= max(rows[layout.BATCH_PRODUCER_ID : columns : layout.BATCH_WIDTH].tolist()) >= 0
                if has_producers:
                    aborted += [abort.entry for abort in states.replay(rows, count)[2] if abort.entry is not None]
                for at in range(0, columns, layout.BATCH_WIDTH):
                    if rows[at + layout.BATCH_MAGIC] == MAGIC_V2 and rows[at + layout.BATCH_LEADER_EPOCH] > last:
                        last = rows[at + layout.BATCH_LEADER_EPOCH]
                        epochs.append(EpochEntry(last, rows[at + layout.BATCH_FIRST_OFFSET]))
        if aborted:
            yield segment.name(TRANSACTION_INDEX), build_transaction_index(aborted)
    # An empty last segment ends at its base offset, where a snapshot was taken.
    is_made = len(segments) > 1 and segments[-1].next_offset == segments[-1].base_offset
    if has_producers and not is_made:
        yield segment_stem(segments[-1].next_offset) + SNAPSHOT, snapshot()
    yield LEADER_EPOCHS, build_leader_epochs(epochs)


def write_side_files(folder: str, whole: PartitionRange, topic_ids: Mapping[str, str] | None = None) -> None:
    """Writes the leader epochs of a partition, and records the missing offsets so that `verify` knows them.

    ``topic_ids``: a broker that knows the topic by another id, or finds none, takes the partition for a stray one.
    """
    topic_id = (topic_ids or {}).get(os.path.basename(folder).rpartition("-")[0])
    if topic_id is not None:
        metadata = build_partition_metadata(PartitionMetadata(0, topic_id))
        Disk().write_file(Place(folder) / PARTITION_METADATA, metadata, folder)
    epochs = build_leader_epochs([EpochEntry(LEADER_EPOCH, whole.segments[0].base_offset)])
    Disk().write_file(Place(folder) / LEADER_EPOCHS, epochs, folder)
    record(folder, known_gaps(whole.gaps), Disk())


MAX_GAPS = 10_000


def known_gaps(gaps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the gaps that kseg records as its own: none if there are too many."""
    return gaps if len(gaps) <= MAX_GAPS else []
