"""Writes records with rising offsets as the segments of a new partition: v2 batches without a producer."""

import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kseg.changes.accepted_gaps import record
from kseg.changes.disk import Disk
from kseg.conversion.grouping import BatchFields, Build, Grouper
from kseg.conversion.rewriting import MAX_GAPS, known_gaps
from kseg.errors import KsegError, errors_at
from kseg.formats.compressing import Target
from kseg.formats.rows import Rows, int64s
from kseg.kernel.layout.headers import MAGIC_V2
from kseg.kernel.layout.rows import HEADER_WIDTH, ROW_OFFSET, ROW_WIDTH
from kseg.segment.writer import LogWriter, RollLimits, WrittenSegment
from kseg.sidefiles.leader_epochs import LEADER_EPOCHS, EpochEntry, build_leader_epochs


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
        pairs = sum(len(key) + len(value or b"") for key, value in self.headers)
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
    return Rows(bytes(payload), _columns(rows, ROW_WIDTH), _columns(headers, HEADER_WIDTH), len(records))


def _columns(numbers: list[int], least: int) -> memoryview:
    found = int64s(max(len(numbers), least))
    for at, number in enumerate(numbers):
        found[at] = number
    return found


LEADER_EPOCH = 0
"""Leader epoch of all records: the first epoch of a partition."""


class PartitionRange(NamedTuple):
    """A range of a partition: its segments, and the missing offsets between its records."""

    segments: list[WrittenSegment]
    gaps: list[tuple[int, int]]


class RowsWriter:
    """Writes records as batches of format ``magic`` to segments in ``folder``, or only counts them without one.

    ``batch_bytes``: size of a batch before compression; ``hint``: added to errors. ``next_offset`` follows the last
    record; None before the first.
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
    ) -> None:
        self.name, self.folder, self._limits = name, folder, limits
        self.next_offset: int | None = None
        self._target, self._batch_bytes, self._hint = target, batch_bytes, hint
        self._grouper = Grouper(magic)
        self._writer: LogWriter | None = None
        self._gaps: list[tuple[int, int]] = []
        self._held: list[NewRecord] = []
        self._held_bytes = 0

    def hold(self, record: NewRecord) -> None:
        """Appends a record with those that follow it. Raises KsegError as `add`."""
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

    def discard(self) -> None:
        """Closes open files; the caller removes the folder."""
        if self._writer is not None:
            self._writer.discard()

    def _take(self, offsets: list[int]) -> None:
        """Records missing offsets, for example of rows that were filtered out."""
        if offsets[0] < 0:
            raise KsegError(f"{self.name}: offset {offsets[0]} is none: they begin at 0")
        following = offsets[0] if self.next_offset is None else self.next_offset
        if offsets != list(range(following, following + len(offsets))):
            for offset in offsets:
                if offset < following:
                    raise KsegError(f"{self.name}: offset {offset} comes behind offset {following - 1}{self._hint}")
                if offset > following and len(self._gaps) <= MAX_GAPS:
                    self._gaps.append((following, offset - 1))
                following = offset + 1
        self.next_offset = offsets[-1] + 1

    def finish(self, base_offset: int = 0) -> PartitionRange:
        """Ends the last segment. ``base_offset``: of the only segment if there is no record."""
        self.add_held()
        return PartitionRange(self._append(base_offset, self._grouper.flush()).finish(), self._gaps)


def write_side_files(folder: str, whole: PartitionRange) -> None:
    """Writes the leader epochs of a partition, and records the missing offsets so that `verify` knows them."""
    Disk().write_file(os.path.join(folder, LEADER_EPOCHS), first_leader_epoch(whole.segments), folder)
    record(folder, known_gaps(whole.gaps), Disk())


def first_leader_epoch(segments: Sequence[WrittenSegment]) -> bytes:
    """Returns the leader epochs of a partition of records without batches."""
    return build_leader_epochs([EpochEntry(LEADER_EPOCH, segments[0].base_offset)])
