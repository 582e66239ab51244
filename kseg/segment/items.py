"""What a segment's bytes turn into: `Batch` and `Damage` items, and the `Record`s of a batch."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kseg.formats import message_set, record_batch, v07
from kseg.formats.rows import Rows, Scratch, UndecodableError
from kseg.kernel.native import (
    HEADER_KEY,
    HEADER_KEY_SIZE,
    HEADER_VALUE,
    HEADER_VALUE_SIZE,
    HEADER_WIDTH,
    ROW_CHECK,
    ROW_HEADER_COUNT,
    ROW_HEADERS,
    ROW_KEY,
    ROW_KEY_SIZE,
    ROW_OFFSET,
    ROW_SEQUENCE,
    ROW_TIMESTAMP,
    ROW_VALUE,
    ROW_VALUE_SIZE,
    ROW_WIDTH,
)

TIMESTAMP_TYPES = ("NoTimestampType", "CreateTime", "LogAppendTime")


class Header(NamedTuple):
    """A header of a v2 record; ``key`` is bytes, as bytes that are no UTF-8 occur."""

    key: bytes
    value: bytes | None


class Record(NamedTuple):
    """A record as a consumer sees it. ``timestamp`` is in ms, None where the format has none, -1 where it is unset.

    ``timestamp_type`` is "CreateTime", "LogAppendTime" or None; ``sequence`` None unless an idempotent producer set it;
    ``next_offset`` (0.7 only) is the offset that a consumer goes on from. ``is_valid`` is False for a message inside a
    compressed v0, v1 or 0.7 message whose own CRC is wrong.
    """

    offset: int
    timestamp: int | None
    timestamp_type: str | None
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    sequence: int | None = None
    is_valid: bool = True
    next_offset: int | None = None


class Problem(NamedTuple):
    """One thing that is wrong with a batch: a code of `kseg.segment.problems` and a sentence."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes ``[position, position + length)`` of a file that no batch claims; ``code`` is a key of DAMAGE_CODES."""

    code: str
    position: int
    length: int
    message: str

    @property
    def end(self) -> int:
        return self.position + self.length


@dataclass(slots=True)
class Batch:
    """Bytes ``[position, position + size)`` of a file that make a record batch (v2) or a message (v0, v1, 0.7).

    ``is_valid``: the CRC is right and the magic names a format. ``problems`` is what is wrong so far as the bytes have been
    looked at; `check` looks at every record. Iterating yields the records that decode.
    """

    data: Any
    position: int
    size: int
    magic: int
    is_valid: bool
    era_07: bool = False
    file_base: int = 0
    scratch: Scratch = field(default_factory=Scratch, repr=False)
    _header: Any = field(default=None, repr=False)
    _opened: Any = field(default=None, repr=False)
    _first_offset: int | None = field(default=None, repr=False)
    _count: int | None = field(default=None, repr=False)

    @property
    def end(self) -> int:
        return self.position + self.size

    @property
    def header(self) -> "record_batch.RecordBatchHeader | message_set.MessageHeader | v07.MessageHeader":
        """The header's fields as they stand in the file, by era. A magic that names no format is read as v2, or as v1
        if negative, as kafka-dump-log does."""
        if self._header is None:
            era = v07 if self.era_07 else record_batch if self.magic >= 2 else message_set
            self._header = era.parse_header(self.data)
        return self._header

    @property
    def base_offset(self) -> int | None:
        """Offset of the first record; None for a compressed v0 or v1 message, which does not tell without opening it."""
        if self.era_07:
            return self.file_base + self.position
        if self.magic >= 2:
            return self.header.base_offset
        return None if self.header.codec else self.header.offset

    @property
    def last_offset(self) -> int:
        if self.era_07:
            return self.file_base + self.position
        return self.header.last_offset if self.magic >= 2 else self.header.offset

    @property
    def next_offset(self) -> int:
        """The offset behind the batch (0.7: the byte position in the whole log)."""
        return self.file_base + self.end if self.era_07 else self.last_offset + 1

    @property
    def compression(self) -> str:
        return record_batch.codec_name(self.header.codec)

    @property
    def timestamp_type(self) -> str:
        if self.era_07 or self.magic == 0:
            return TIMESTAMP_TYPES[0]
        return TIMESTAMP_TYPES[1 + self.header.is_log_append_time]

    @property
    def max_timestamp(self) -> int:
        """Largest timestamp in ms as the header tells it; -1 where there is none."""
        if self.era_07:
            return -1
        return self.header.max_timestamp if self.magic >= 2 else self.header.timestamp

    @property
    def is_control(self) -> bool:
        return not self.era_07 and self.magic >= 2 and self.header.is_control

    @property
    def is_transactional(self) -> bool:
        return not self.era_07 and self.magic >= 2 and self.header.is_transactional

    @property
    def has_known_magic(self) -> bool:
        return 0 <= self.magic <= (1 if self.era_07 else 2)

    @property
    def problems(self) -> list[Problem]:
        """What the frame alone tells: CRC and magic."""
        if self.is_valid:
            return []
        if not self.has_known_magic:
            return [Problem("bad-magic", f"magic {self.magic} names no format")]
        return [Problem("crc-mismatch", "the stored checksum is not that of the bytes")]

    def check(self) -> list[Problem]:
        """Everything that is wrong with the batch, its records included."""
        found = list(self.problems)
        if not self.has_known_magic:
            return found
        if not self.era_07 and self.magic >= 2:
            try:
                payload, start = self._open()
            except UndecodableError as error:
                return [*found, Problem(error.problem, str(error))]
            return found + [Problem(*problem) for problem in record_batch.check_records(payload, start, self.header)]
        last, count, wrong_crcs, rising = -1, 0, 0, True
        try:
            for rows in self.rows():
                if count == 0:
                    self._first_offset = rows.rows[ROW_OFFSET]
                count += rows.count
                for at in range(0, rows.count * ROW_WIDTH, ROW_WIDTH):
                    wrong_crcs += not rows.rows[at + ROW_CHECK] >> 32 & 1
                    offset = rows.rows[at + ROW_OFFSET]
                    rising = rising and (self.era_07 or offset > last)
                    last = offset
        except UndecodableError as error:
            found.append(Problem(error.problem, str(error)))
        if wrong_crcs and self.header.codec:
            found.append(Problem("inner-crc-mismatch", f"{wrong_crcs} messages inside have a wrong checksum"))
        if not rising:
            found.append(Problem("offsets-not-rising", "offsets inside a compressed message do not rise"))
        self._count = count
        return found

    def extent(self) -> tuple[int | None, int | None]:
        """Offset of the first record and number of records that decode, of a v0 or v1 message: both are told by opening it."""
        if self._count is None:
            self.check()
        return self._first_offset, self._count

    def rows(self) -> Iterator[Rows]:
        """The records as the kernel's rows; raises UndecodableError where they stop making sense."""
        if self.era_07:
            return v07.read_rows(self.data, self.header, self.file_base + self.position, self.scratch)
        if self.magic >= 2:
            return record_batch.read_rows(*self._open(), self.header, self.scratch)
        return message_set.read_rows(self.data, self.header, self.scratch)

    def _open(self) -> tuple[Any, int]:
        if self._opened is None:
            self._opened = record_batch.open_records(self.data, self.header, self.scratch.max_batch_bytes)
        return self._opened

    def __iter__(self) -> Iterator[Record]:
        """The records that decode, in order; where they stop, `check` says why."""
        timestamp_type = TIMESTAMP_TYPES.index(self.timestamp_type)
        try:
            pending: Record | None = None
            for rows in self.rows():
                for record in records_of(rows, None if self.magic < 2 or self.era_07 else timestamp_type):
                    if pending is not None:
                        yield pending
                    pending = record
                    if self.era_07:
                        pending = record._replace(next_offset=record.offset)
            if pending is not None:
                yield pending._replace(next_offset=self.next_offset) if self.era_07 else pending
        except UndecodableError:
            if pending is not None:
                yield pending


def records_of(rows: Rows, timestamp_kind: int | None = None) -> Iterator[Record]:
    """Rows as Records; ``timestamp_kind`` (an index of TIMESTAMP_TYPES) holds for all, None: each row tells its own."""
    columns, payload = rows.rows, rows.payload
    for at in range(0, rows.count * ROW_WIDTH, ROW_WIDTH):
        kind = columns[at + ROW_CHECK] >> 33 & 3 if timestamp_kind is None else timestamp_kind
        key, key_size = columns[at + ROW_KEY], columns[at + ROW_KEY_SIZE]
        value, value_size = columns[at + ROW_VALUE], columns[at + ROW_VALUE_SIZE]
        sequence = columns[at + ROW_SEQUENCE]
        yield Record(
            columns[at + ROW_OFFSET],
            columns[at + ROW_TIMESTAMP] if kind else None,
            TIMESTAMP_TYPES[kind] if kind else None,
            bytes(payload[key : key + key_size]) if key_size >= 0 else None,
            bytes(payload[value : value + value_size]) if value_size >= 0 else None,
            headers_of(rows, at) if columns[at + ROW_HEADER_COUNT] else (),
            sequence if sequence >= 0 else None,
            timestamp_kind is not None or bool(columns[at + ROW_CHECK] >> 32 & 1),
        )


def headers_of(rows: Rows, at: int) -> tuple[Header, ...]:
    """The headers of the record whose row begins at column ``at``."""
    first = rows.rows[at + ROW_HEADERS] * HEADER_WIDTH
    found = []
    for h in range(first, first + rows.rows[at + ROW_HEADER_COUNT] * HEADER_WIDTH, HEADER_WIDTH):
        key, value, size = rows.headers[h + HEADER_KEY], rows.headers[h + HEADER_VALUE], rows.headers[h + HEADER_VALUE_SIZE]
        found.append(
            Header(
                bytes(rows.payload[key : key + rows.headers[h + HEADER_KEY_SIZE]]),
                bytes(rows.payload[value : value + size]) if size >= 0 else None,
            )
        )
    return tuple(found)
