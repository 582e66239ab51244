"""The items of a segment other than batches (`Damage`, `Problem`), their codes, and the `Record`s of a batch."""

from collections.abc import Iterator
from typing import NamedTuple

from kseg.formats.rows import Rows
from kseg.kernel.layout import rows as layout

# A `Damage` has one of DAMAGE_CODES; a `Batch` with errors lists codes of PROBLEM_CODES. The findings table
# explains them.

DAMAGE_CODES = frozenset(
    {"truncated-batch", "nonsense-block", "zero-block", "bad-length", "bad-magic", "unreadable-bytes"}
)

PROBLEM_CODES = frozenset(
    (
        "crc-mismatch bad-magic undecodable-records decompression-limit count-mismatch offsets-not-rising "
        "offset-out-of-range cut-message-set compressed-twice bytes-behind-records inner-crc-mismatch"
    ).split()
)

HARMLESS_CODES = {"bytes-behind-records"}
"""Problems of a batch that do not affect its records."""

READABLE_CODES = HARMLESS_CODES | {"compressed-twice"}
"""Problems of a batch of which kseg reads all records, though Kafka may not."""

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
