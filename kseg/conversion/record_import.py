"""Builds new partitions from the records of JSON Lines, Parquet or Arrow files: all records, or none.

The lines are the output of ``kseg dump --format json --print-data-log``, or bare objects with key, value, timestamp and
headers, all optional. A key or value other than a string, null or ``{"base64": …}`` is stored as its JSON text. Unknown
fields are errors. A record of Kafka 0.7 has no offset, only a byte position.

The columns of tables are those of `kseg.export.arrow.record_columns`; names of directories such as ``topic=orders``
stand for columns that files lack. Files whose rows have offsets are merged by topic, partition and offset.
"""

import json
import os
import re
from base64 import b64decode
from binascii import Error as Base64Error
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from heapq import heappop, heappush
from io import BufferedReader
from itertools import chain
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast
from urllib.parse import unquote

from kseg.changes.accepted_gaps import record
from kseg.changes.disk import Disk
from kseg.changes.driver.command import ChangeOptions, Messages
from kseg.changes.new_directories import new_directories
from kseg.changes.plan import Plan
from kseg.conversion import rows_writer
from kseg.conversion.options import ConvertOptions
from kseg.conversion.planner import plan_of_new
from kseg.conversion.record_files import NULL_DIRECTORY
from kseg.errors import DamageError, KsegError, PathError, StoppedHalfwayError, UnsupportedError, errors_at
from kseg.export import pa, pc, pq
from kseg.export.arrow import COLUMNS, by_partition, int64_column, record_columns
from kseg.export.chunk import OFFSET
from kseg.formats.compressing import NONE, build_batch, target_of
from kseg.formats.compression import CODEC_NAMES
from kseg.formats.json_values import BATCHES, RECORD, names_in
from kseg.formats.record_batch import RecordBatchHeader
from kseg.formats.rows import Rows
from kseg.formats.suffixes import LOG
from kseg.kernel.layout.headers import CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, MAGIC_V2, TRANSACTIONAL
from kseg.kernel.layout.rows import ROW_HEADER_COUNT, ROW_WIDTH
from kseg.kernel.records.building import Area
from kseg.limits import CHUNK_ROWS, MAX_BATCH_BYTES
from kseg.segment.files import LAST_OFFSET, SegmentFile, is_new_partition, own_name, parse_partition_name, segment_file
from kseg.segment.writer import WrittenSegment
from kseg.stores.place import Place
from kseg.stores.source import STANDARD_INPUT, standard_input

if TYPE_CHECKING:
    Reader = Callable[[str, BinaryIO, Sequence[str]], Iterator[pa.RecordBatch]]


def import_records(
    paths: Sequence[str], output: str, request: ConvertOptions, change: ChangeOptions, messages: Messages
) -> list[Plan]:
    """Writes partitions below ``output``, or in a dry run only counts. Returns a plan for each. Raises KsegError."""
    is_dry = change.is_dry
    with new_directories(output, change.takes_lock, is_dry) as made:

        def folder(name: str) -> str | None:
            path = made.add(name, is_dry)
            return None if is_dry else path

        with closing(Import(request, folder)) as work:
            (_add_tables if request.source in _READERS else add_lines)(work, paths, request)
            work.finish()
    for skipped in work.skipped:
        messages.warning(f"left out: {skipped}")
    for name, partition in work.partitions.items():
        messages.detail(f"{name}: {partition.records} records")
    return [plan_of_new(Place(output) / name, partition.files, "") for name, partition in work.partitions.items()]


_RECORD_FIELDS, _BATCH_FIELDS = names_in(RECORD) | {"proven"}, names_in(BATCHES)
"""All fields that a dump writes, including derived ones that are ignored here."""
_HEADER_FIELDS = frozenset({"key", "value"})
_TIMESTAMP_TYPES = (None, "CreateTime", "LogAppendTime", "NoTimestampType")
_INTEGER_ENDS = {"int16": 1 << 15, "int32": 1 << 31, "int64": 1 << 63}
_NO_HEADER = RecordBatchHeader(*[0] * len(RecordBatchHeader._fields))


class RecordLine(NamedTuple):
    """One record. ``offset`` None: the next free one, whatever ``record`` has; ``partition``: name of its directory,
    None if unknown. ``problem``: of a record that a dump marks as unproven."""

    offset: int | None
    record: rows_writer.NewRecord
    partition: str | None
    position: int | None = None
    problem: str | None = None

    @property
    def size(self) -> int:
        return len(self.record.key or b"") + len(self.record.value or b"") + rows_writer.RECORD_BYTES


@dataclass(slots=True)
class BatchLine:
    """The header of a batch, with the ``records`` that follow it.

    ``header``: of v2; for an older message only magic, codec, timestamp type and largest timestamp are used.
    """

    header: RecordBatchHeader
    file: SegmentFile
    position: int
    problem: str | None
    records: list[RecordLine] = field(default_factory=list)


Line = BatchLine | RecordLine | str
"""A text is the place of damage in a dump."""


class JsonLines:
    """Iterates over the batches with their records, and the records without a batch, of a stream of lines, each with
    the number of its first line. Raises KsegError with the line number.
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

    def _bad(self, why: str) -> KsegError:
        return KsegError(f"{self._name}: line {self._number} {why}; nothing was written")

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
            return f"{row.get('code')} at position {row.get('position')} of {self._text(row, 'file')}"
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
        timestamp = self._number_of(row, "timestamp", "int64", null=-1)
        append_time = timestamp if self._is_append_time(row) else None
        key, value = (self._bytes(row.get(name), name, is_bare) for name in ("key", "value"))
        headers = self._headers(row.get("headers"), is_bare)
        record = rows_writer.NewRecord(offset or 0, timestamp, key, value, headers, append_time)
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

    def _number_of(
        self, row: dict[str, Any], name: str, kind: str, least: int | None = None, null: int | None = None
    ) -> int:
        """Returns a number, ``null`` for null or a missing field if that is given."""
        value, end = row.get(name), _INTEGER_ENDS[kind]
        if value is None and null is not None:
            return null
        if type(value) is not int or not (-end if least is None else least) <= value < end:
            raise self._bad(f"has {json.dumps(value)[:40]} for {name}")
        return value

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
            return BatchLine(_NO_HEADER, file, position, f"{problems} at position {position} of {file.path}")
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
        numbered = {
            "partitionLeaderEpoch": "int32", started: "int64", "maxTimestamp": "int64", "producerId": "int64",
            "producerEpoch": "int16", "baseSequence": "int32",
        }  # fmt: skip
        found = (self._number_of(row, name, kind, null=-1) for name, kind in numbered.items())
        epoch, base_ms, max_ms, producer, producer_epoch, sequence = found
        header = RecordBatchHeader(
            base, 0, epoch, magic, 0, attributes, last - base if magic == MAGIC_V2 else 0, base_ms, max_ms,
            producer, producer_epoch, sequence, self._number_of(row, "count", "int32", null=0),
        )  # fmt: skip
        return BatchLine(header, file, self._number_of(row, "position", "int64"), None)


NAMELESS = "records-0"
"""The partition of records without a partition field."""


class Import:
    """Partitions by name. ``folder(name)``: the folder for a partition, None to count only."""

    def __init__(self, request: ConvertOptions, folder: Callable[[str], str | None]) -> None:
        self._request = request
        self._writers = rows_writer.PartitionWriters(lambda name: NewPartition(name, request, folder(name)))
        self.partitions = self._writers.by_name
        self.skipped: list[str] = []
        self._names: dict[str, str] = {}
        self._nameless: dict[str, list[BatchLine]] = {}
        """By folder: the partition of its records, and empty batches that precede the first record."""

    def add(self, line: Line) -> None:
        """Adds a batch or record. Raises DamageError, KsegError."""
        problem = line if isinstance(line, str) else line.problem
        if problem is not None:
            if not self._request.skips_damage:
                raise DamageError(f"the lines report damage: {problem}; --skip-damage leaves it out")
            if problem not in self.skipped[-1:]:
                self.skipped.append(problem)
        elif isinstance(line, BatchLine):
            self._add_batch(line)
        elif isinstance(line, RecordLine):
            partition = self._writers.use(line.partition or NAMELESS, line.size)
            partition.hold(line.record._replace(offset=partition.numbered(line.offset)))

    def add_table(self, name: str, rows: "pa.RecordBatch") -> None:
        """Adds rows of one partition with columns of `record_columns`. Raises KsegError, ValueError."""
        self._writers.use(name, rows.nbytes).add_table(rows)

    def _add_batch(self, line: BatchLine) -> None:
        """Adds a batch. One without records has no partition field, so it goes to the partition of its folder."""
        names = {record.partition or NAMELESS for record in line.records}
        if len(names) > 1:
            raise KsegError(f"a batch holds records of several partitions: {', '.join(sorted(names))}")
        folder = Place(line.file.path).parent
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


class NewPartition(rows_writer.RowsWriter):
    """One partition. ``files``: names and sizes of the files, after `complete`."""

    def __init__(self, name: str, request: ConvertOptions, folder: str | None) -> None:
        self._magic = 2 if request.magic is None else request.magic
        batch_bytes = request.batch_bytes or rows_writer.GROUP_BYTES
        super().__init__(
            name, folder, request.target or NONE, batch_bytes, request.roll_limits, "", self._magic,
            request.first_offset,
        )  # fmt: skip
        self.files: dict[str, int] = {}
        self.records = 0
        self._request = request
        self._segments: list[WrittenSegment] = []
        self._segment: int | None = None

    def add(self, rows: Rows, append_time: int | None = None) -> None:
        self._check_headers(self._magic, rows)
        self.records += rows.count
        super().add(rows, append_time)

    def _check_headers(self, magic: int, rows: Rows) -> None:
        if magic < MAGIC_V2 and not self._request.is_lossy and any(rows.rows[ROW_HEADER_COUNT::ROW_WIDTH]):
            raise KsegError(f"{self.name}: message format v{magic} has no headers; --lossy leaves them out")

    def add_batch(self, line: BatchLine) -> None:
        """Adds a batch with its original header, in its original segment or snapshot."""
        header = line.header
        if line.file.epoch is not None and header.magic == MAGIC_V2:
            self._add_to_snapshot(line)
            return
        self.flush()
        segment = line.file.base_offset if line.file.kind == LOG and not line.file.leftover else None
        if self._request.segment_bytes is None and segment not in (None, self._segment):
            self._end_segment()
            self._segment = segment
        if self._request.magic not in (None, header.magic) or self._request.batch_bytes is not None:
            raise KsegError("batches keep their format and size when they are read: convert the result")
        records = [each.record._replace(offset=self.numbered(each.offset)) for each in line.records]
        self.records += len(records)
        if header.magic == MAGIC_V2:
            first = records[0].offset if records else header.base_offset
            if not header.base_offset <= first or self.next_offset - 1 > header.last_offset:
                raise KsegError(f"{self.name}: records lie outside the batch at offset {header.base_offset}")
            self.next_offset = header.last_offset + 1
            base, data = header.base_offset, self._batch(line, records)
            builds: Iterable[rows_writer.Build] = [(lambda: data, len(data))]
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
            with open(Place(self.folder) / name, "ab") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())

    def _batch(self, line: BatchLine, records: list[rows_writer.NewRecord]) -> bytes:
        header, area = line.header, Area(2)
        base_timestamp = header.base_timestamp
        if header.is_log_append_time:  # the producer's timestamps are lost
            records = [record._replace(timestamp=base_timestamp) for record in records]
        elif records and len(records) != header.record_count:  # a part of the batch: another record may be the latest
            header = header._replace(max_timestamp=max(record.timestamp for record in records))
        area.begin(header.base_offset, base_timestamp=base_timestamp)
        rows = rows_writer.rows_of(records)
        if area.add(rows, 0, rows.count) != rows.count:
            raise KsegError(f"{self.name}: the batch at offset {header.base_offset} is too large")
        target = NONE if header.is_control or not records else self._request.target or target_of(header.codec)
        return build_batch(header._replace(record_count=area.count), area.take(), target)

    def _messages(self, line: BatchLine, records: list[rows_writer.NewRecord]) -> Iterator[rows_writer.Build]:
        """Yields a compressed message of these, or each by itself."""
        header, rows = line.header, rows_writer.rows_of(records)
        grouper = rows_writer.Grouper(header.magic)
        self._check_headers(header.magic, rows)
        target = self._request.target or target_of(header.codec)
        append_time = header.max_timestamp if header.is_log_append_time else None
        yield from grouper.add(rows_writer.BatchFields(target, append_time=append_time), iter([rows]), None)
        yield from grouper.flush()

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
            for name, content in rows_writer.make_side_files(self._segments, None):
                Disk().write_file(f"{self.folder}/{name}", content, self.folder)
                self.files[name] = len(content)
        if self.folder is not None:
            record(self.folder, rows_writer.known_gaps(self._gaps), Disk())


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
        return standard_input()
    with errors_at(path):
        return opened.enter_context(open(path, "rb"))


# Tables

_STEP_BYTES = 16 << 20
"""Size of the rows that are decoded at once, and a row more."""
_ERROR_CHARACTERS = 300


def _add_tables(work: Import, paths: Sequence[str], request: ConvertOptions) -> None:
    read = _READERS[str(request.source)]
    files = [_TableFile(path, read, at) for at, path in enumerate(chain.from_iterable(map(_files_at, paths)))]
    with ExitStack() as spilled:
        for rows, path in _merged([each for file in files for each in file.streams(len(files) > 1, spilled)]):
            try:
                work.add_table(rows.name, rows.batch)
            except (KsegError, ValueError) as error:
                raise nothing_written(path, error) from error


_FOREIGN = {
    "_delta_log": "a Delta table: give the files that deltalake names",
    "metadata": "an Iceberg table: give the files that pyiceberg names",
}
"""Directories of tables whose files may hold rows that were deleted."""


def _files_at(path: str) -> Iterator[str]:
    """Yields the files below a directory in order of their names, without hidden ones; or the path itself.

    Links to files are followed. Raises PathError for one to a directory, and for what is no file.
    """
    if not Place(path).is_dir():
        yield _file(path)
        return
    found = False
    for folder, folders, names in os.walk(path, onerror=_refuse):
        for name in _FOREIGN.keys() & {*folders}:
            inside = os.listdir(Place(folder) / name)
            if name != "metadata" or any(each.endswith(".metadata.json") for each in inside):
                raise UnsupportedError(f"{folder}: is {_FOREIGN[name]} (kseg-python-recipes(7))")
        folders[:] = sorted(each for each in folders if not each.startswith(("_", ".")))
        for each in (Place(folder) / name for name in folders):
            if each.is_link():
                raise PathError(f"{each}: is a symbolic link to a directory: give its path")
        for name in sorted(names):
            if not name.startswith(("_", ".")):
                found = True
                yield _file(Place(folder) / name)
    if not found:
        raise PathError(f"{path}: holds no files of a table")


def _file(path: str) -> str:
    if Place(path).exists() and not Place(path).is_file():  # opening a FIFO would wait for its writer
        raise PathError(f"{path}: is no file")
    return path


def _refuse(error: OSError) -> None:
    raise PathError(f"{error.filename}: {error.strerror}") from error


_PLACE_COLUMNS = ("topic", "partition", OFFSET)
_SORT_BYTES, _RUN_BYTES = 32 << 20, 256 << 10
"""Size of the rows that are sorted at once, and of a batch of them: each sorted run has one in memory."""

RowOrder = tuple[str, int, int]
"""Topic, partition and offset of a row. Rows without offsets have the number of their file, and keep their order."""


class _Rows(NamedTuple):
    """Rows of one partition. ``place``: of the first."""

    name: str
    place: RowOrder
    batch: "pa.RecordBatch"

    @property
    def offsets(self) -> Sequence[int]:
        return int64_column(self.batch.column(OFFSET)) if OFFSET in self.batch.schema.names else ()


class _Stream(NamedTuple):
    """Rows in the order of their places, the least of which is ``first``."""

    first: RowOrder
    rows: Callable[[], Iterator[_Rows]]
    path: str


class _TableFile:
    """Reads a file. Errors of pyarrow, and ValueError, become KsegError. ``number``: of the file among all."""

    def __init__(self, path: str, read: "Reader", number: int) -> None:
        self._path, self._read = path, read
        self._no_offset: RowOrder = ("", -2, number)
        self._constants = {
            key: unquote(value)
            for key, is_set, value in (part.partition("=") for part in Place(path).parent.split(os.sep))
            if is_set and key in ("topic", "partition") and value != NULL_DIRECTORY
        }

    def streams(self, is_merged: bool, spilled: ExitStack) -> Iterator[_Stream]:
        """Yields the file as one stream, or as sorted runs in a temporary file if its rows have another order.

        ``is_merged``: there are other files, so that the partitions must be in order, too.
        """
        first, is_in_order = self._no_offset, True
        if self._path != STANDARD_INPUT:
            first, is_in_order = self._survey(is_merged)
        if is_in_order:
            yield _Stream(first, self._rows, self._path)
        else:
            yield from self._sorted_runs(spilled)

    def _survey(self, is_merged: bool) -> tuple[RowOrder, bool]:
        """Returns the place of the first row, and whether all rows, or those of each partition, are in order."""
        first, last = self._no_offset, dict[str, RowOrder]()
        for name, place, rows in self._rows(_PLACE_COLUMNS, is_split=not is_merged):
            if OFFSET not in rows.schema.names:
                break
            first, name = first if last else place, "" if is_merged else name
            keys = [(each, "ascending") for each in _PLACE_COLUMNS if each in rows.schema.names]
            if place <= last.get(name, ("",)) or not rows.equals(rows.sort_by(keys)):
                return first, False
            last[name] = self._place(rows, rows.num_rows - 1)
        return first, True

    def _sorted_runs(self, spilled: ExitStack) -> Iterator[_Stream]:
        file, writer, runs = spilled.enter_context(TemporaryFile()), None, list[list[RowOrder]]()
        for held in self._held():
            runs.append([])
            for place in sorted(held):
                table = pa.Table.from_batches(held.pop(place)).combine_chunks().sort_by(OFFSET)
                for batch in table.to_batches(max(table.num_rows * _RUN_BYTES // max(table.nbytes, 1), 1)):
                    with errors_at("temporary file", KsegError, "; nothing was written"):
                        writer = writer or pa.ipc.new_file(file, batch.schema)
                        writer.write_batch(batch)
                    runs[-1].append(self._place(batch))
        if writer is not None:
            writer.close()
            reader, count = pa.ipc.open_file(file), 0
            for run in runs:
                found = range(count, count + len(run))
                count = found.stop
                rows = partial(map, lambda at: self._placed(reader.get_batch(at)), found)
                yield _Stream(run[0], rows, self._path)

    def _held(self) -> "Iterator[dict[tuple[str, int], list[pa.RecordBatch]]]":
        """Yields the rows by topic and partition, some ten MB at a time."""
        held, size = defaultdict(list), 0
        for _, place, batch in self._rows():
            held[place[:2]].append(batch)
            size += batch.nbytes
            if size >= _SORT_BYTES:
                yield held
                held, size = defaultdict(list), 0
        if held:
            yield held

    def _rows(self, names: Sequence[str] = COLUMNS, is_split: bool = True) -> Iterator[_Rows]:
        """Yields the rows with the columns of records that are among the names; ``is_split``: by partition."""
        with ExitStack() as opened:
            stream = open_input(self._path, opened)
            place = "standard input" if self._path == STANDARD_INPUT else self._path
            try:
                for batch in chain.from_iterable(map(_in_steps, self._read(self._path, stream, names))):
                    for name in self._constants.keys() - {*batch.schema.names}:
                        batch = batch.append_column(name, pa.repeat(self._constants[name], batch.num_rows))
                    columns = record_columns(batch)
                    has_place = {"topic", "partition"} & {*columns.schema.names}
                    found = [rows for _, rows in by_partition(columns)] if has_place else [columns]
                    for rows in found if is_split else (columns,):
                        if OFFSET in rows.schema.names and rows.column(OFFSET).null_count:
                            raise ValueError("column offset: a record has none")
                        if rows.num_rows:
                            yield self._placed(rows)
            except KsegError as error:
                raise nothing_written(place, error) from error
            except (pa.ArrowException, OSError, MemoryError, ValueError, OverflowError) as error:
                text = str(error.strerror or error) if isinstance(error, OSError) else str(error)
                reason = re.sub(r"\s+", " ", text)[:_ERROR_CHARACTERS] or type(error).__name__
                raise PathError(f"{place}: {reason}; nothing was written") from error

    def _placed(self, batch: "pa.RecordBatch") -> _Rows:
        place, has_name = self._place(batch), "topic" in batch.schema.names
        name = f"{batch.column('topic')[0]}-{batch.column('partition')[0]}" if has_name else NAMELESS
        return _Rows(name, place, batch)

    def _place(self, batch: "pa.RecordBatch", at: int = 0) -> RowOrder:
        names = batch.schema.names
        if OFFSET not in names:
            return self._no_offset
        row = {name: batch.column(name)[at].as_py() for name in names if name in _PLACE_COLUMNS}
        return row.get("topic", ""), row.get("partition", -1), row[OFFSET]


def _merged(streams: Sequence[_Stream]) -> Iterator[tuple[_Rows, str]]:
    """Yields all rows in the order of their places, with the path of a file that has them.

    A stream is opened at its turn. Of those that overlap, rows are joined up to the first end of what has been read.
    """
    heads: list[tuple[RowOrder, int, _Rows | None, Iterator[_Rows]]] = []

    def push(at: int, head: _Rows | None, rest: Iterator[_Rows]) -> None:
        if head is not None:
            heappush(heads, (head.place, at, head, rest))

    for at, stream in enumerate(streams):
        heappush(heads, (stream.first, at, None, iter(())))
    while heads:
        partition, end, taken = heads[0][0][:2], LAST_OFFSET, []
        while heads and heads[0][0][:2] == partition and heads[0][0][2] <= end:
            place, at, head, rest = heappop(heads)
            if head is None:
                rest = streams[at].rows()
                push(at, next(rest, None), rest)
                continue
            taken.append((at, head, rest))
            end = min(end, head.offsets[-1] if head.offsets else place[2])
        parts = []
        for at, head, rest in taken:
            count = max(bisect_right(head.offsets, end), 1) if head.offsets else len(head.batch)
            parts.append(pa.Table.from_batches([head.batch[:count]]))
            if count < len(head.batch):
                push(at, _Rows(head.name, (*head.place[:2], head.offsets[count]), head.batch[count:]), rest)
            else:
                push(at, next(rest, None), rest)
        joined = pa.concat_tables(parts or [pa.table({})], promote_options="default")
        for batch in (joined.sort_by(OFFSET).combine_chunks() if len(parts) > 1 else joined).to_batches():
            yield _Rows(taken[0][1].name, taken[0][1].place, batch), streams[taken[0][0]].path


def _parquet(path: str, opened: BinaryIO, names: Sequence[str] = COLUMNS) -> "Iterator[pa.RecordBatch]":
    if path == STANDARD_INPUT:
        raise UnsupportedError("a Parquet file is read from its end: give its path")
    with pq.ParquetFile(opened) as file:
        columns = [file.schema.column(at) for at in range(len(file.schema))]
    # Values that repeat stay so until `_in_steps`: a page of a few bytes can hold gigabytes of them.
    repeated = [each.path for each in columns if each.physical_type == "BYTE_ARRAY"]
    read = None if names == COLUMNS else [*names]
    with pq.ParquetFile(opened, read_dictionary=repeated, page_checksum_verification=True) as file:
        for group in range(file.num_row_groups):
            found = file.metadata.row_group(group)
            rows = _STEP_BYTES * found.num_rows // max(found.total_byte_size, 1)
            yield from file.iter_batches(min(max(rows, 1), CHUNK_ROWS), [group], read, use_threads=False)


def _arrow(path: str, opened: BinaryIO, names: Sequence[str] = COLUMNS) -> "Iterator[pa.RecordBatch]":
    """Reads a stream or a file. On standard input a file is its magic, a stream, and its footer."""
    is_file = cast(BufferedReader, opened).peek(len(_ARROW_MAGIC)).startswith(_ARROW_MAGIC)
    if is_file and path != STANDARD_INPUT:
        reader = pa.ipc.open_file(opened)
        batches = map(reader.get_batch, range(reader.num_record_batches))
    else:
        opened.read(8 * is_file)
        batches = iter(pa.ipc.open_stream(opened))
    for batch in batches:
        if names != COLUMNS:
            batch = batch.select([name for name in batch.schema.names if name in names])
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            with errors_at(f"column {name}", KsegError, of=pa.ArrowInvalid):
                column.validate(full=True)  # pyarrow takes the lengths of a file on trust
        yield batch
    end = b""
    while path == STANDARD_INPUT and (block := opened.read(1 << 16)):
        end = (end + block)[-len(_ARROW_MAGIC) :]
    if is_file and path == STANDARD_INPUT and end != _ARROW_MAGIC:
        raise ValueError("is cut off")


_ARROW_MAGIC = b"ARROW1"
_READERS: "dict[str, Reader]" = {"parquet": _parquet, "arrow": _arrow}


def _in_steps(batch: "pa.RecordBatch") -> "Iterator[pa.RecordBatch]":
    """Yields the rows in parts that are small also when values that repeat are written out."""
    size = sum(map(_written_out, batch.columns))
    if batch.num_rows <= (CHUNK_ROWS if size <= _STEP_BYTES else 1):
        if size > MAX_BATCH_BYTES:
            raise ValueError(f"a row has {size} bytes")
        yield batch
        return
    half = batch.num_rows // 2
    yield from _in_steps(batch.slice(0, half))
    yield from _in_steps(batch.slice(half))


def _written_out(column: "pa.Array") -> int:
    """Returns the size of the values of a column without dictionaries."""
    kind = column.type
    if pa.types.is_map(kind):
        pair = pa.struct([pa.field("key", kind.key_type), pa.field("value", kind.item_type)])
        column = column.cast(pa.list_(pair))
    if pa.types.is_struct(kind):
        return sum(map(_written_out, column.flatten()))
    if pa.types.is_nested(kind):
        return 4 * len(column) + _written_out(column.flatten())
    if pa.types.is_dictionary(kind) and not pa.types.is_primitive(kind.value_type):
        lengths = pc.binary_length(column.dictionary)
        return 4 * len(column) + (pc.sum(lengths.take(column.indices)).as_py() or 0)
    return int(column.nbytes)
