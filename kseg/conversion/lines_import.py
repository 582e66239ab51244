"""Builds new partitions from JSON Lines: all that the lines describe, or none.

The lines are the output of ``kseg dump --format json --print-data-log``, or bare objects with key, value, timestamp and
headers, all optional. A key or value other than a string, null or ``{"base64": …}`` is stored as its JSON text. Unknown
fields are errors. A record of Kafka 0.7 has no offset, only a byte position.
"""

import json
import os
import sys
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, BinaryIO, NamedTuple

from kseg.changes.accepted_gaps import record
from kseg.changes.disk import Disk
from kseg.conversion.options import ConvertOptions
from kseg.conversion.rows_writer import (
    GROUP_BYTES,
    RECORD_BYTES,
    BatchFields,
    Build,
    Grouper,
    NewRecord,
    PartitionWriters,
    RowsWriter,
    known_gaps,
    make_side_files,
    rows_of,
)
from kseg.errors import DamageError, KsegError, PathError, StoppedHalfwayError, errors_at
from kseg.export import pa
from kseg.formats.areas import NONE, Area, build_batch
from kseg.formats.compressing import target_of
from kseg.formats.compression import CODEC_NAMES
from kseg.formats.record_batch import RecordBatchHeader
from kseg.formats.rows import Rows
from kseg.formats.suffixes import LOG
from kseg.kernel.layout.headers import CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, MAGIC_V2, TRANSACTIONAL
from kseg.kernel.layout.rows import ROW_HEADER_COUNT, ROW_WIDTH
from kseg.segment.files import SegmentFile, is_new_partition, own_name, parse_partition_name, segment_file
from kseg.segment.writer import LARGEST_SEGMENT_BYTES, RollLimits, WrittenSegment
from kseg.stores.source import STANDARD_INPUT

_RECORD_FIELDS = frozenset(
    {
        "type", "file", "position", "topic", "partition", "offset", "nextOffset", "timestamp", "timestampType",
        "sequence", "keySize", "valueSize", "headers", "isValid", "proven", "key", "value", "control", "keyFormat",
        "keySchema", "valueFormat", "valueSchema",
    }
)  # fmt: skip
_BATCH_FIELDS = frozenset(
    {
        "type", "file", "position", "size", "magic", "baseOffset", "lastOffset", "nextOffset", "count", "baseSequence",
        "lastSequence", "producerId", "producerEpoch", "partitionLeaderEpoch", "isTransactional", "isControl",
        "deleteHorizonMs", "compression", "timestampType", "baseTimestamp", "maxTimestamp", "crc", "isValid",
        "problems",
    }
)  # fmt: skip
"""All fields that a dump writes, including derived ones that are ignored here."""
_HEADER_FIELDS = frozenset({"key", "value"})
_TIMESTAMP_TYPES = (None, "CreateTime", "LogAppendTime", "NoTimestampType")
_INTEGER_ENDS = {"int16": 1 << 15, "int32": 1 << 31, "int64": 1 << 63}
_NO_HEADER = RecordBatchHeader(*[0] * len(RecordBatchHeader._fields))


class BadLineError(KsegError):
    """A line that is not valid input."""


class RecordLine(NamedTuple):
    """One record. ``offset`` None: the next free one, whatever ``record`` has; ``partition``: name of its directory,
    None if unknown. ``problem``: of a record that a dump marks as unproven."""

    offset: int | None
    record: NewRecord
    partition: str | None
    position: int | None = None
    problem: str | None = None

    @property
    def size(self) -> int:
        return len(self.record.key or b"") + len(self.record.value or b"") + RECORD_BYTES


@dataclass(slots=True)
class BatchLine:
    """The header of a batch, with the ``records`` that follow it.

    ``header``: of v2; for an older message only codec, timestamp type and largest timestamp are used.
    """

    magic: int
    header: RecordBatchHeader
    file: SegmentFile
    position: int
    problem: str | None
    records: list[RecordLine] = field(default_factory=list)


@dataclass(slots=True)
class DamageLine:
    """The place of damage in a dump."""

    text: str


Line = BatchLine | RecordLine | DamageLine


class JsonLines:
    """Iterates over the batches with their records, and the records without a batch, of a stream of lines, each with
    the number of its first line. Raises BadLineError with the line number.
    """

    def __init__(self, stream: BinaryIO, name: str, max_line_bytes: int) -> None:
        self._stream, self._name, self._max = stream, name, max_line_bytes
        self._number = 0

    def __iter__(self) -> Iterator[tuple[int, Line]]:
        batch: BatchLine | None = None
        begins = 0
        while line := self._stream.readline(self._max + 1):
            self._number += 1
            if len(line) > self._max:
                raise self._bad(f"has more than {self._max} bytes")
            if not line.strip():
                continue
            found = self._line(line)
            if isinstance(found, RecordLine) and batch is not None and found.position == batch.position:
                batch.records.append(found)
                batch.problem = batch.problem or found.problem
                continue
            if batch is not None:
                yield begins, batch
            batch, begins = found if isinstance(found, BatchLine) else None, self._number
            if found is not None and batch is None:
                yield begins, found
        if batch is not None:
            yield begins, batch

    def _bad(self, why: str) -> BadLineError:
        return BadLineError(f"{self._name}: line {self._number} {why}; nothing was written")

    def _line(self, line: bytes) -> Line | None:
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise self._bad(f"is no JSON: {error.msg} at character {error.colno}") from error
        except (ValueError, RecursionError) as error:
            raise self._bad(f"is no JSON: {error}") from error
        if not isinstance(row, dict):
            raise self._bad("is no JSON object")
        kind = row.get("type")
        if kind is None or kind == "record":
            return self._record(row, is_bare=kind is None)
        if kind == "batch":
            return None if "nextOffset" in row else self._batch(row)
        if kind == "damage":
            return DamageLine(f"{row.get('code')} at position {row.get('position')} of {self._text(row, 'file')}")
        raise self._bad(f"is of the type {kind!r}: only batches and records make a log")

    def _check_fields(self, row: dict[str, Any], known: frozenset[str], what: str) -> None:
        if row.keys() <= known:
            return
        unknown = next(name for name in row if name not in known)
        near = get_close_matches(unknown, sorted(known), 1)
        hint = f"is {near[0]!r} meant?" if near else f"known are {', '.join(sorted(known))}"
        raise self._bad(f"has the field {unknown!r}, which no {what} has: {hint}")

    def _is_append_time(self, row: dict[str, Any]) -> bool:
        kind = row.get("timestampType")
        if kind not in _TIMESTAMP_TYPES:
            raise self._bad(f"has {json.dumps(kind)[:40]} for timestampType: CreateTime or LogAppendTime")
        return bool(kind == "LogAppendTime")

    def _record(self, row: dict[str, Any], is_bare: bool) -> RecordLine:
        self._check_fields(row, _RECORD_FIELDS, "record")
        if form := row.get("keyFormat") or row.get("valueFormat"):
            raise self._bad(f"has a key or value that was decoded as {form}: convert the log without formats")
        if not is_bare and "value" not in row:
            raise self._bad("has no value: kseg dump writes it with --print-data-log")
        is_07 = "nextOffset" in row
        position = None if is_07 or "position" not in row else self._number_of(row, "position", "int64")
        offset = None if is_07 or row.get("offset") is None else self._number_of(row, "offset", "int64", least=0)
        timestamp = self._optional(row, "timestamp", "int64")
        append_time = timestamp if self._is_append_time(row) else None
        key, value = (self._bytes(row.get(name), name, is_bare) for name in ("key", "value"))
        headers = self._headers(row.get("headers"), is_bare)
        record = NewRecord(offset or 0, timestamp, key, value, headers, append_time)
        return RecordLine(offset, record, self._partition(row), None if is_bare else position, self._unproven(row))

    def _unproven(self, row: dict[str, Any]) -> str | None:
        proven = row.get("proven", True)
        if not isinstance(proven, bool):
            raise self._bad(f"has {json.dumps(proven)[:40]} for proven: true or false")
        return None if proven else f"unproven records at position {row.get('position')} of {self._text(row, 'file')}"

    def _headers(self, found: Any, is_bare: bool) -> list[tuple[bytes, bytes | None]]:
        if isinstance(found, dict) and is_bare:
            found = [{"key": key, "value": value} for key, value in found.items()]
        if not isinstance(found or [], list):
            raise self._bad("has headers that are no list")
        headers = []
        for pair in found or []:
            key = self._bytes(pair.get("key"), "header key", False) if isinstance(pair, dict) else None
            if key is None:
                raise self._bad('has a header that is not {"key": …, "value": …}')
            self._check_fields(pair, _HEADER_FIELDS, "header")
            headers.append((key, self._bytes(pair.get("value"), "header", is_bare)))
        return headers

    def _bytes(self, value: Any, what: str, is_bare: bool) -> bytes | None:
        if value is None:
            return None
        try:
            if isinstance(value, str):
                return value.encode()
            if isinstance(value, dict) and list(value) == ["base64"] and isinstance(value["base64"], str):
                return b64decode(value["base64"], validate=True)
            if is_bare:
                return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        except (Base64Error, ValueError) as error:
            raise self._bad(f"has a {what} that stands for no bytes: {error}") from error
        raise self._bad(f'has a {what} that is no string, null or {{"base64": …}}: it was decoded')

    def _number_of(self, row: dict[str, Any], name: str, kind: str, least: int | None = None) -> int:
        value, end = row.get(name), _INTEGER_ENDS[kind]
        if type(value) is not int or not (-end if least is None else least) <= value < end:
            raise self._bad(f"has {json.dumps(value)[:40]} for {name}")
        return value

    def _optional(self, row: dict[str, Any], name: str, kind: str) -> int:
        """Returns a number, -1 for null."""
        return -1 if row.get(name) is None else self._number_of(row, name, kind)

    def _text(self, row: dict[str, Any], name: str) -> str:
        """Returns the name of a file or topic. Names on disk are bytes."""
        return os.fsdecode(self._bytes(row.get(name), name, False) or b"")

    def _partition(self, row: dict[str, Any]) -> str | None:
        """Returns the name of the directory: a partition that a broker was moving or deleting keeps its suffix."""
        missing = [name for name in ("topic", "partition") if row.get(name) is None]
        if len(missing) == 1:
            raise self._bad(f"has no {missing[0]}: a record says both topic and partition, or neither")
        if missing:
            return None
        name = f"{self._text(row, 'topic')}-{self._number_of(row, 'partition', 'int32', least=0)}"
        if not is_new_partition(name):
            raise self._bad("has a topic that no directory can be called after")
        folder = os.path.basename(os.path.dirname(self._text(row, "file")))
        return folder if folder.startswith(f"{name}.") and own_name(folder) == name else name

    def _batch(self, row: dict[str, Any]) -> BatchLine:
        self._check_fields(row, _BATCH_FIELDS, "batch")
        file, problems = segment_file(self._text(row, "file")), row.get("problems") or []
        if problems or not row.get("isValid", True):
            position = self._number_of(row, "position", "int64")
            return BatchLine(MAGIC_V2, _NO_HEADER, file, position, f"{problems} at position {position} of {file.path}")
        magic = self._number_of(row, "magic", "int16")
        if magic not in (0, 1, 2):
            raise self._bad(f"has the magic {magic}, which names no format")
        if row.get("compression") not in CODEC_NAMES:
            raise self._bad(f"has {json.dumps(row.get('compression'))[:40]} for compression")
        base = -1 if magic < MAGIC_V2 else self._number_of(row, "baseOffset", "int64", least=0)
        last = self._number_of(row, "lastOffset", "int64", least=0)
        horizon = row.get("deleteHorizonMs") if magic == MAGIC_V2 else None
        attributes = CODEC_NAMES.index(row["compression"]) | LOG_APPEND_TIME * self._is_append_time(row)
        attributes |= (
            TRANSACTIONAL * bool(row.get("isTransactional"))
            | CONTROL * bool(row.get("isControl"))
            | DELETE_HORIZON * (horizon is not None)
        )
        if magic == MAGIC_V2 and not 0 <= last - base < 1 << 31:
            raise self._bad("has a last offset that is not in reach of its base offset")
        started = "deleteHorizonMs" if horizon is not None else "baseTimestamp"
        header = RecordBatchHeader(
            base, 0, self._optional(row, "partitionLeaderEpoch", "int32"), magic, 0, attributes,
            last - base if magic == MAGIC_V2 else 0, self._optional(row, started, "int64"),
            self._optional(row, "maxTimestamp", "int64"), self._optional(row, "producerId", "int64"),
            self._optional(row, "producerEpoch", "int16"), self._optional(row, "baseSequence", "int32"), 0,
        )  # fmt: skip
        return BatchLine(magic, header, file, self._number_of(row, "position", "int64"), None)


NAMELESS = "records-0"
"""The partition of records without a partition field."""


class Import:
    """Partitions by name. ``folder(name)``: the folder for a partition, None to count only."""

    def __init__(self, request: ConvertOptions, folder: Callable[[str], str | None]) -> None:
        self._request = request
        self._writers = PartitionWriters(lambda name: NewPartition(name, request, folder(name)))
        self.partitions = self._writers.by_name
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
            self._writers.use(line.partition or NAMELESS, line.size).add_record(line)

    def add_table(self, name: str, rows: "pa.RecordBatch") -> None:
        """Adds rows of one partition with columns of `record_columns`. Raises KsegError, ValueError."""
        self._writers.use(name, rows.nbytes).add_table(rows)

    def _add_batch(self, line: BatchLine) -> None:
        """Adds a batch. One without records has no partition field, so it goes to the partition of its folder."""
        names = {record.partition or NAMELESS for record in line.records}
        if len(names) > 1:
            raise KsegError(f"a batch holds records of several partitions: {', '.join(sorted(names))}")
        folder = os.path.dirname(line.file.path)
        if names:
            self._names[folder] = names.pop()
        name = self._names.get(folder)
        if name is None:
            self._nameless.setdefault(folder, []).append(line)
            return
        for batch in [*self._nameless.pop(folder, ()), line]:
            self._writers.use(name, 0).add_batch(batch)

    def finish(self) -> None:
        """Completes all partitions."""
        for folder, batches in self._nameless.items():
            name = os.path.basename(folder)
            for batch in batches:
                self._writers.use(name if parse_partition_name(name) else NAMELESS, 0).add_batch(batch)
        for partition in self.partitions.values():
            partition.complete()

    def close(self) -> None:
        self._writers.close()


class NewPartition(RowsWriter):
    """One partition. ``files``: names and sizes of the files, after `complete`."""

    def __init__(self, name: str, request: ConvertOptions, folder: str | None) -> None:
        self._magic = 2 if request.magic is None else request.magic
        limits = RollLimits(request.segment_bytes or LARGEST_SEGMENT_BYTES, interval_bytes=request.index_interval)
        batch_bytes = request.batch_bytes or GROUP_BYTES
        super().__init__(
            name, folder, request.target or NONE, batch_bytes, limits, "", self._magic, request.first_offset
        )
        self.files: dict[str, int] = {}
        self.records = 0
        self._request = request
        self._segments: list[WrittenSegment] = []
        self._segment: int | None = None

    def add_record(self, line: RecordLine) -> None:
        """Adds a record without a batch."""
        self.hold(self._record(line))

    def _record(self, line: RecordLine) -> NewRecord:
        return line.record._replace(offset=self.numbered(line.offset))

    def add(self, rows: Rows, append_time: int | None = None) -> None:
        self._check_headers(self._magic, rows)
        self.records += rows.count
        super().add(rows, append_time)

    def _check_headers(self, magic: int, rows: Rows) -> None:
        if magic < MAGIC_V2 and not self._request.is_lossy and any(rows.rows[ROW_HEADER_COUNT::ROW_WIDTH]):
            raise KsegError(f"{self.name}: message format v{magic} has no headers; --lossy leaves them out")

    def add_batch(self, line: BatchLine) -> None:
        """Adds a batch with its original header, in its original segment or snapshot."""
        if line.file.epoch is not None and line.magic == MAGIC_V2:
            self._add_to_snapshot(line)
            return
        self.flush()
        segment = line.file.base_offset if line.file.kind == LOG and not line.file.leftover else None
        if self._request.segment_bytes is None and segment not in (None, self._segment):
            self._end_segment()
            self._segment = segment
        if self._request.magic not in (None, line.magic) or self._request.batch_bytes is not None:
            raise KsegError("batches keep their format and size when they are read: convert the result")
        header = line.header
        records = [self._record(record) for record in line.records]
        self.records += len(records)
        if line.magic == MAGIC_V2:
            first = records[0].offset if records else header.base_offset
            if not header.base_offset <= first or self.next_offset - 1 > header.last_offset:
                raise KsegError(f"{self.name}: records lie outside the batch at offset {header.base_offset}")
            self.next_offset = header.last_offset + 1
            base, data = header.base_offset, self._batch(line, records)
            builds: Iterable[Build] = [(lambda: data, len(data))]
        else:
            base = records[0].offset if records else self.next_offset
            builds = self._messages(line, records)
        self._append(base if self._segment is None else min(base, self._segment), builds)

    def _add_to_snapshot(self, line: BatchLine) -> None:
        """Adds a batch to a snapshot of the cluster metadata, whose offsets are its own."""
        records = [each.record for each in line.records]
        data, name = self._batch(line, records), line.file.name
        self.files[name] = self.files.get(name, 0) + len(data)
        self.records += len(records)
        if self.folder is not None:
            with open(os.path.join(self.folder, name), "ab") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())

    def _batch(self, line: BatchLine, records: list[NewRecord]) -> bytes:
        header, area = line.header, Area(2)
        base_timestamp = header.base_timestamp
        if header.is_log_append_time:  # the producer's timestamps are lost
            records = [record._replace(timestamp=base_timestamp) for record in records]
        area.begin(header.base_offset, base_timestamp=base_timestamp)
        rows = rows_of(records)
        if area.add(rows, 0, rows.count) != rows.count:
            raise KsegError(f"{self.name}: the batch at offset {header.base_offset} is too large")
        target = NONE if header.is_control or not records else self._request.target or target_of(header.codec)
        return build_batch(header._replace(record_count=area.count), area.take(), target)

    def _messages(self, line: BatchLine, records: list[NewRecord]) -> Iterator[Build]:
        """Yields a compressed message of these, or each by itself."""
        header, rows, grouper = line.header, rows_of(records), Grouper(line.magic)
        self._check_headers(line.magic, rows)
        target = self._request.target or target_of(header.codec)
        append_time = header.max_timestamp if header.is_log_append_time else None
        yield from grouper.add(BatchFields(target, append_time=append_time), iter([rows]), None)
        yield from grouper.flush()

    # The end

    def _end_segment(self) -> None:
        if self._writer is not None:
            self._segments += self._writer.finish()
            self._writer = None

    def complete(self) -> None:
        """Writes the buffered records and the side files."""
        self.flush()
        self._end_segment()
        for segment in self._segments:
            self.files.update({segment.name(suffix): size for suffix, size in segment.sizes.items()})
        if self.folder is not None and self._segments and self._magic == MAGIC_V2:
            for name, content in make_side_files(self._segments, None):
                Disk().write_file(f"{self.folder}/{name}", content, self.folder)
                self.files[name] = len(content)
        if self.folder is not None:
            record(self.folder, known_gaps(self._gaps), Disk())


def add_lines(work: Import, paths: Sequence[str], request: ConvertOptions) -> None:
    """Adds the records of files of JSON Lines."""
    for path in paths:
        with ExitStack() as opened:
            name = "standard input" if path == STANDARD_INPUT else path
            lines = JsonLines(open_input(path, opened), name, 4 * request.max_batch_bytes)
            for number, line in lines:
                try:
                    work.add(line)
                except StoppedHalfwayError:
                    raise
                except KsegError as error:
                    raise nothing_written(f"{name}: line {number}", error) from error


def nothing_written(place: str, error: Exception) -> KsegError:
    """Returns the error with its place in the input, and that nothing was written."""
    kind, end = type(error) if isinstance(error, KsegError) else KsegError, "; nothing was written"
    return kind(f"{place}: {str(error).removesuffix(end)}{end}")


def open_input(path: str, opened: ExitStack) -> BinaryIO:
    """Opens a file, or standard input for ``-``. Raises PathError."""
    if path == STANDARD_INPUT:
        if sys.stdin is None:
            raise PathError("standard input is closed")
        return sys.stdin.buffer
    with errors_at(path):
        return opened.enter_context(open(path, "rb"))
