"""The items of a segment: batches, one class per format version, and `Damage`; their `Problem`s and `Record`s.

`Batch` is the common interface; `RecordBatch` is v2, `Message` v0 and v1, `Message07` an entry of a 0.7 file.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from operator import lt
from typing import Any, NamedTuple

from kseg.formats import compression, message_set, record_batch, v07
from kseg.formats.compression import Remarks, codec_name
from kseg.formats.rows import BytesLike, Rows, Scratch, UndecodableError
from kseg.kernel.codecs.expand import ExpansionBuffer
from kseg.kernel.layout import rows as layout
from kseg.kernel.records import messages
from kseg.kernel.records.records import FLAG_ATTRIBUTES, FLAG_NULL_KEY

# A `Damage` has one of DAMAGE_CODES; a `Batch` with errors lists codes of PROBLEM_CODES. The findings table
# explains them.

DAMAGE_CODES = frozenset(
    {"truncated-batch", "nonsense-block", "zero-block", "bad-length", "bad-magic", "unreadable-bytes"}
)

PROBLEM_CODES = frozenset(
    (
        "crc-mismatch bad-magic undecodable-records decompression-limit count-mismatch offsets-not-rising "
        "offset-out-of-range cut-message-set compressed-twice refused-compression bytes-behind-records "
        "inner-crc-mismatch"
    ).split()
)

HARMLESS_CODES = {"bytes-behind-records"}
"""Problems of a batch that do not affect its records."""

REFUSED_CODES = {message_set.COMPRESSED_TWICE, compression.REFUSED}
"""Problems of a batch at which Kafka's readers stop, though kseg reads all records."""

READABLE_CODES = HARMLESS_CODES | REFUSED_CODES
"""Problems of a batch of which kseg reads all records."""

TIMESTAMP_TYPES = ("NoTimestampType", "CreateTime", "LogAppendTime")


class Header(NamedTuple):
    """A header of a v2 record; ``key`` is bytes, because it may be invalid UTF-8."""

    key: bytes
    value: bytes | None


class Record(NamedTuple):
    """A record as a consumer sees it. ``timestamp`` is in ms, None if the format has none, -1 if it is unset.

    ``timestamp_type`` is "CreateTime", "LogAppendTime" or None. ``sequence`` is None without an idempotent producer.
    ``next_offset`` (0.7 only) is the offset at which a consumer continues. ``is_valid`` is False for an inner message
    of a compressed v0, v1 or 0.7 message whose own CRC is wrong.
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
    """One problem of a batch: a code of `kseg.segment.items` and a sentence.

    >>> [problem.code for item in kseg.open("crashed-0") for problem in item.problems]
    ['crc-mismatch']
    """

    code: str
    message: str


class Damage(NamedTuple):
    """Bytes ``[position, position + length)`` of a file that belong to no batch; ``code`` is one of DAMAGE_CODES.

    Readers of records use it also for a batch whose records, or some of them, cannot be read: ``code`` is its problem.
    """

    code: str
    position: int
    length: int
    message: str

    @property
    def end(self) -> int:
        return self.position + self.length


def records_of(rows: Rows, timestamp_kind: int | None = None) -> Iterator[Record]:
    """Yields rows as Records; ``timestamp_kind`` (an index of TIMESTAMP_TYPES) applies to all; None: it is per row."""
    columns, payload = rows.rows, rows.payload
    for at in range(0, rows.count * layout.ROW_WIDTH, layout.ROW_WIDTH):
        check = columns[at + layout.ROW_CHECK]
        kind = check >> layout.CHECK_KIND_SHIFT & layout.CHECK_KIND_BITS if timestamp_kind is None else timestamp_kind
        key, key_size = columns[at + layout.ROW_KEY], columns[at + layout.ROW_KEY_SIZE]
        value, value_size = columns[at + layout.ROW_VALUE], columns[at + layout.ROW_VALUE_SIZE]
        sequence = columns[at + layout.ROW_SEQUENCE]
        yield Record(
            columns[at + layout.ROW_OFFSET],
            columns[at + layout.ROW_TIMESTAMP] if kind else None,
            TIMESTAMP_TYPES[kind] if kind else None,
            bytes(payload[key : key + key_size]) if key_size >= 0 else None,
            bytes(payload[value : value + value_size]) if value_size >= 0 else None,
            headers_of(rows, at) if columns[at + layout.ROW_HEADER_COUNT] else (),
            sequence if sequence >= 0 else None,
            timestamp_kind is not None or bool(check >> layout.CHECK_VALID_SHIFT & 1),
        )


def headers_of(rows: Rows, at: int) -> tuple[Header, ...]:
    """Returns the headers of the record whose row begins at column ``at``."""
    first = rows.rows[at + layout.ROW_HEADERS] * layout.HEADER_WIDTH
    found = []
    for h in range(first, first + rows.rows[at + layout.ROW_HEADER_COUNT] * layout.HEADER_WIDTH, layout.HEADER_WIDTH):
        key, key_size, value, value_size = rows.headers[h : h + layout.HEADER_WIDTH]
        found_value = bytes(rows.payload[value : value + value_size]) if value_size >= 0 else None
        found.append(Header(bytes(rows.payload[key : key + key_size]), found_value))
    return tuple(found)


RowSpan = tuple[int, int]
"""Rows from first to stop, stop excluded."""
Spans = Callable[[Rows], list[RowSpan]]
"""Selects rows of a batch."""


def all_rows(rows: Rows) -> list[RowSpan]:
    return [(0, rows.count)]


@dataclass(slots=True)
class Batch:
    """Bytes ``[position, position + size)`` of a file that form a record batch (v2) or a message (v0, v1, 0.7).

    ``is_valid``: the CRC is right and the magic is known. `problems` lists the errors of the frame; `check` also reads
    all records. Iterating yields the readable records. With a ``records_buffer`` the records may be there: finish
    with the batch before another batch with the same buffer is opened. ``remarks`` are problems that reading the rows
    found and skipped.
    """

    data: BytesLike
    position: int
    size: int
    magic: int
    is_valid: bool
    scratch: Scratch = field(default_factory=Scratch, repr=False)
    records_buffer: ExpansionBuffer | None = field(default=None, repr=False)
    remarks: Remarks = field(default_factory=list, repr=False)

    is_control = False
    is_transactional = False
    largest_magic = 2

    @property
    def end(self) -> int:
        return self.position + self.size

    @property
    def header(self) -> Any:
        """The header's fields as stored in the file: a NamedTuple of the format's module in `kseg.formats`."""
        raise NotImplementedError

    @property
    def base_offset(self) -> int | None:
        """Offset of the first record; None for a compressed v0 or v1 message, which does not store it."""
        raise NotImplementedError

    def first_offset(self) -> int | None:
        """Returns the offset of the first record, for which a compressed v0 or v1 message is read; None if it is
        unreadable."""
        return self.base_offset

    @property
    def last_offset(self) -> int:
        raise NotImplementedError

    @property
    def next_offset(self) -> int:
        """The offset after the batch (0.7: the byte position in the whole log)."""
        return self.last_offset + 1

    @property
    def compression(self) -> str:
        return codec_name(self.header.codec)

    @property
    def timestamp_type(self) -> str:
        """One of TIMESTAMP_TYPES."""
        return TIMESTAMP_TYPES[0]

    @property
    def timestamp_kind(self) -> int | None:
        """The ``timestamp_kind`` of `records_of`: an index of TIMESTAMP_TYPES for all records, None if each has its
        own."""
        return None

    @property
    def max_timestamp(self) -> int:
        """Largest timestamp in ms according to the header; -1 if there is none."""
        return -1

    @property
    def has_known_magic(self) -> bool:
        return 0 <= self.magic <= self.largest_magic

    @property
    def problems(self) -> list[Problem]:
        """The problems of the frame: CRC and magic."""
        if self.is_valid:
            return []
        if not self.has_known_magic:
            return [Problem("bad-magic", f"magic {self.magic} names no format")]
        return [Problem("crc-mismatch", "the stored checksum is not that of the bytes")]

    def check(self) -> list[Problem]:
        """Returns all problems of the batch, including those of its records."""
        found = self.survey().problems if self.has_known_magic else []
        return self.problems + [problem for problem in found if problem.code in PROBLEM_CODES]

    def survey(self) -> "Survey":
        """Decompresses the batch and reads all its records in one walk. Never raises for malformed records."""
        seen = Survey()
        try:
            for rows in self.rows():
                seen.add(rows)
        except UndecodableError as error:
            seen.problems.append(Problem(error.problem, str(error)))
        seen.problems += self.passed()
        if seen.wrong_crcs and self.header.codec:
            seen.problems.append(
                Problem("inner-crc-mismatch", f"{seen.wrong_crcs} messages inside have a wrong checksum")
            )
        return seen

    def passed(self) -> list[Problem]:
        """Returns the problems that reading all rows found and skipped."""
        return [Problem(*remark) for remark in self.remarks]

    def rows(self) -> Iterator[Rows]:
        """Yields the records as kernel rows; raises UndecodableError at the first unreadable record."""
        raise NotImplementedError

    def rows_before_fault(self) -> Iterator[Rows]:
        """Like `rows`, but of a stream that cannot be decompressed also yields the records before its fault.

        They are unproven, like all records of a batch with a wrong CRC or the problem ``"undecodable-records"``.
        """
        return self.rows()

    def __iter__(self) -> Iterator[Record]:
        """Yields the readable records in order; `check` explains why they end early."""
        try:
            for rows in self.rows():
                yield from records_of(rows, self.timestamp_kind)
        except UndecodableError:
            return


class RecordBatch(Batch):
    """A v2 batch. A magic above 2 is read as v2 too, as in kafka-dump-log."""

    __slots__ = ("_header", "_opened")
    _header: record_batch.RecordBatchHeader
    _opened: tuple[Any, int]

    @property
    def header(self) -> record_batch.RecordBatchHeader:
        if not hasattr(self, "_header"):
            self._header = record_batch.parse_header(self.data)
        return self._header

    @property
    def base_offset(self) -> int:
        return self.header.base_offset

    @property
    def last_offset(self) -> int:
        return self.header.last_offset

    @property
    def timestamp_type(self) -> str:
        return TIMESTAMP_TYPES[self.timestamp_kind]

    @property
    def timestamp_kind(self) -> int:
        return 1 + self.header.is_log_append_time

    @property
    def max_timestamp(self) -> int:
        return self.header.max_timestamp

    @property
    def is_control(self) -> bool:  # type: ignore[override]
        return self.header.is_control

    @property
    def is_transactional(self) -> bool:  # type: ignore[override]
        return self.header.is_transactional

    def check(self) -> list[Problem]:
        """As `Batch.check`; what reading passed over comes before the problems of the records."""
        found = super().check()
        leading = self.problems + self.passed()
        return sorted(found, key=lambda problem: problem not in leading)

    def survey(self) -> "Survey":
        """As `Batch.survey`; ``last_offset`` is None."""
        header = self.header
        try:
            payload, start = self._open()
        except UndecodableError as error:
            return Survey(problems=[Problem(error.problem, str(error))])
        found, walk = record_batch.survey_records(payload, start, header)
        problems = [Problem(*problem) for problem in found]
        if walk.flags & FLAG_ATTRIBUTES:
            problems.append(Problem("record-attributes", "a record has attributes, which no release sets"))
        largest, claimed = walk.largest_timestamp, header.max_timestamp
        if not problems and header.record_count and largest != claimed:
            text = f"the largest timestamp of the records is {largest}, the header says {claimed}"
            problems.append(Problem("max-timestamp-mismatch", text))
        has_null_key = bool(walk.flags & FLAG_NULL_KEY)
        return Survey(header.base_offset, walk.index, None, has_null_key, problems + self.passed())

    def rows(self) -> Iterator[Rows]:
        return record_batch.read_rows(*self._open(), self.header, self.scratch)

    def rows_before_fault(self) -> Iterator[Rows]:
        try:
            self._open()
        except UndecodableError as error:
            if error.problem == "undecodable-records":
                yield from record_batch.read_before_fault(self.data, self.header, self.scratch)
            raise
        yield from self.rows()

    def _open(self) -> tuple[Any, int]:
        if not hasattr(self, "_opened"):
            scratch = self.scratch
            self._opened = record_batch.open_records(
                self.data, self.header, scratch.max_batch_bytes, self.records_buffer, self.remarks, scratch.before_large
            )
        return self._opened


class Message(Batch):
    """A v0 or v1 message; a compressed one holds a message set. A negative magic is read as v1.

    ``offset_before`` returns the last offset before the message, or UNKNOWN_OFFSET.
    """

    __slots__ = ("_header", "_seen", "offset_before")
    offset_before: Callable[[], int]
    _header: message_set.MessageHeader
    _seen: "Survey"

    @property
    def header(self) -> message_set.MessageHeader:
        if not hasattr(self, "_header"):
            self._header = message_set.parse_header(self.data)
        return self._header

    @property
    def base_offset(self) -> int | None:
        return None if self.header.codec else self.header.offset

    @property
    def last_offset(self) -> int:
        return self.header.offset

    @property
    def timestamp_type(self) -> str:
        return TIMESTAMP_TYPES[0 if self.magic == 0 else 1 + self.header.is_log_append_time]

    @property
    def max_timestamp(self) -> int:
        return self.header.timestamp

    def first_offset(self) -> int | None:
        return self.extent()[0] if self.base_offset is None else self.base_offset

    def extent(self) -> tuple[int | None, int]:
        """Returns the offset of the first record and the number of readable records; decompresses the message."""
        seen = self._seen if hasattr(self, "_seen") else self.survey()
        return seen.first_offset, seen.count

    def survey(self) -> "Survey":
        """As `Batch.survey`. The inner offsets of a compressed v0 message are absolute and covered by its checksum: the
        last one is compared with the message's own."""
        seen = self._seen = super().survey()
        if not seen.is_rising:
            seen.problems.append(Problem("offsets-not-rising", "offsets inside a compressed message do not rise"))
        is_absolute = self.magic == 0 and self.header.codec and not seen.problems
        if is_absolute and seen.last_offset != self.last_offset:
            text = f"its offset is {self.last_offset}, that of the last message in it {seen.last_offset}"
            seen.problems.append(Problem("wrong-base-offset", text))
        return seen

    def rows(self) -> Iterator[Rows]:
        self.remarks.clear()
        return message_set.read_rows(self.data, self.header, self.scratch, remarks=self.remarks)

    def rows_before_fault(self, mode: int = messages.STRICT) -> Iterator[Rows]:
        """As `Batch.rows_before_fault`. ``mode`` is that of `kseg.formats.message_set.read_rows`."""
        self.remarks.clear()
        return message_set.read_rows(self.data, self.header, self.scratch, mode, self.remarks, self.offset_before())


class Message07(Batch):
    """An entry of a 0.6 or 0.7 file; offsets are byte positions, counted from ``file_base``, the file's name."""

    __slots__ = ("_header", "file_base")
    _header: v07.V07Header
    file_base: int

    largest_magic = 1

    @property
    def header(self) -> v07.V07Header:
        if not hasattr(self, "_header"):
            self._header = v07.parse_header(self.data)
        return self._header

    @property
    def base_offset(self) -> int:
        return self.file_base + self.position

    @property
    def last_offset(self) -> int:
        return self.file_base + self.position

    @property
    def next_offset(self) -> int:
        return self.file_base + self.end

    def rows(self) -> Iterator[Rows]:
        self.remarks.clear()
        return v07.read_rows(self.data, self.base_offset, self.scratch, self.remarks)

    def __iter__(self) -> Iterator[Record]:
        with suppress(UndecodableError):  # `check` reports the error; records before it are kept
            for record, _ in self.entries(all_rows):
                yield record

    def entries(self, spans: Spans) -> Iterator[tuple[Record, int]]:
        """Yields the messages and their CRCs. All but the last have the batch's own offset as next offset.

        Raises UndecodableError behind the readable ones.
        """
        held: tuple[Record, int] | None = None
        fault: UndecodableError | None = None
        try:
            for rows in self.rows():
                for part in (rows.part(*span) for span in spans(rows)):
                    crcs = part.rows[layout.ROW_CHECK :: layout.ROW_WIDTH].tolist()
                    for record, check in zip(records_of(part), crcs, strict=True):
                        if held is not None:
                            yield held
                        held = record._replace(next_offset=self.base_offset), check & 0xFFFFFFFF
        except UndecodableError as error:
            fault = error
        if held is not None:
            yield held if fault else (held[0]._replace(next_offset=self.next_offset), held[1])
        if fault is not None:
            raise fault


@dataclass(slots=True)
class Survey:
    """Facts about a batch that only its records give: the first and last offset and the number of the readable ones,
    and what is wrong with them. ``problems`` also holds those that only `kseg verify` reports; those of a v2 batch end
    with what reading passed over. ``wrong_crcs``: number of messages with a wrong checksum."""

    first_offset: int | None = None
    count: int = 0
    last_offset: int | None = None
    has_null_key: bool = False
    problems: list[Problem] = field(default_factory=list)
    is_rising: bool = True
    wrong_crcs: int = 0

    def add(self, rows: Rows) -> None:
        """Adds records of v0, v1 or 0.7."""
        offsets = rows.column(layout.ROW_OFFSET)
        if self.last_offset is None:
            self.first_offset = offsets[0]
        else:
            self.is_rising &= self.last_offset < offsets[0]
        self.is_rising &= all(map(lt, offsets, offsets[1:]))
        self.count += rows.count
        self.has_null_key |= min(rows.column(layout.ROW_KEY_SIZE)) < 0
        self.wrong_crcs += sum(not check >> layout.CHECK_VALID_SHIFT & 1 for check in rows.column(layout.ROW_CHECK))
        self.last_offset = offsets[-1]
