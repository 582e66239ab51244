"""The record batch format v2 (0.11 and later): Kafka's DefaultRecordBatch and DefaultRecord, KIP-98, KIP-534.

    at  field                 type     at  field          type
     0  baseOffset            int64    35  maxTimestamp   int64
     8  batchLength           int32    43  producerId     int64     -1 none
    12  partitionLeaderEpoch  int32    51  producerEpoch  int16     -1 none
    16  magic                 int8     53  baseSequence   int32     -1 none
    17  crc                   uint32   57  recordsCount   int32
    21  attributes            int16    61  records, compressed as one stream
    23  lastOffsetDelta       int32
    27  baseTimestamp         int64

The CRC-32C covers byte 21 to the end: the first 21 bytes can change without breaking it. Attributes: bits 0-2 codec,
3 LogAppendTime, 4 transactional, 5 control, 6 baseTimestamp holds the delete horizon.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from kseg.formats.compression import Remarks, check_beginning, decompress_limited, leading_bytes
from kseg.formats.rows import BytesLike, Rows, Scratch, Sliceable, UndecodableError, int64s
from kseg.kernel.codecs.expand import ExpansionBuffer
from kseg.kernel.layout import headers as layout
from kseg.kernel.layout.rows import DONE, FULL, HEADER_WIDTH, INT32_MAX, MORE_HEADERS, ROW_OFFSET, be32, be64
from kseg.kernel.records.records import FLAG_NOT_RISING, FLAG_OUT_OF_RANGE, REASONS, RecordWalk, sequence_after
from kseg.kernel.scan.checksums import crc32c
from kseg.limits import MAX_HEADERS

ABORT, COMMIT, LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, KRAFT_VERSION, KRAFT_VOTERS = range(7)
"""Types of control records, by number (ControlRecordType)."""

HEADER = layout.struct_of(layout.V2_FIELDS)
HEADER_BYTES = HEADER.size
_UNCHECKED, _CHECKED = layout.struct_of(layout.V2_FIELDS[:5]), layout.struct_of(layout.V2_FIELDS[5:])


class RecordBatchHeader(NamedTuple):
    """The 61 bytes before the records, field by field; unset fields are -1, as in the file."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        return sequence_after(self.base_sequence, self.last_offset_delta)

    @property
    def codec(self) -> int:
        return self.attributes & layout.CODEC

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & layout.LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & layout.TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & layout.CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        """Wall clock in ms from which the cleaner may remove the batch's tombstones (KIP-534); None if unset."""
        return self.base_timestamp if self.attributes & layout.DELETE_HORIZON else None


def parse_header(data: Sliceable, position: int = 0) -> RecordBatchHeader:
    """Reads the header at ``position``; 61 bytes must exist."""
    return RecordBatchHeader(*HEADER.unpack(data[position : position + HEADER_BYTES]))


OFFSETS_BYTES = layout.V2_LAST_OFFSET_DELTA + 4
"""Bytes of a header up to the end of the last offset delta."""


def offsets_of(head: bytes) -> tuple[int, int]:
    """Returns first and last offset by the header of a v2 batch or an uncompressed message."""
    first, has_delta = be64(head, 0), head[layout.ENTRY_MAGIC] >= layout.MAGIC_V2
    return first, first + (be32(head, layout.V2_LAST_OFFSET_DELTA) if has_delta else 0)


def build_batch(
    base_offset: int,
    epoch: int,
    timestamp: int,
    records: Sequence[tuple[bytes | None, bytes]],
    is_control: bool = False,
) -> bytes:
    """Returns an uncompressed batch of records of one timestamp, each a key (None: none) and a value, without a
    producer. ``epoch``: the leader epoch."""
    body = bytearray()
    for delta, (key, value) in enumerate(records):
        content = b"\0\0" + _varint(delta) + (_varint(-1) if key is None else _varint(len(key)) + key)
        record = content + _varint(len(value)) + value + b"\0"
        body += _varint(len(record)) + record
    last = len(records) - 1
    fields = layout.CONTROL * is_control, last, timestamp, timestamp, -1, -1, -1, len(records)
    return packed_batch(base_offset, epoch, fields, body)


def packed_batch(base_offset: int, epoch: int, checked: Sequence[int], area: BytesLike) -> bytes:
    """Returns the batch of a record area. ``checked``: the fields that the checksum covers."""
    covered = _CHECKED.pack(*checked)
    crc = crc32c(area, crc32c(covered))
    size = HEADER_BYTES + len(area) - layout.ENTRY_OVERHEAD
    return b"".join((_UNCHECKED.pack(base_offset, size, epoch, layout.MAGIC_V2, crc), covered, area))


def _varint(number: int) -> bytes:
    """Returns a zigzag varint."""
    number, out = (number << 1) ^ (number >> 63), bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def open_records(
    data: BytesLike,
    header: RecordBatchHeader,
    max_bytes: int,
    buffer: ExpansionBuffer | None = None,
    remarks: Remarks | None = None,
    before_large: Callable[[], None] | None = None,
) -> tuple[Any, int]:
    """Returns a buffer with the decompressed records, and their position in it; ``data`` is the whole batch.

    With ``buffer`` the records may be in that buffer, and are valid until it is used again. ``remarks`` are those of
    `decompress`, ``before_large`` is that of `decompress_limited`. As in Kafka, the area of a batch with a record count
    of 0 is not read. Raises UndecodableError if the area cannot be decompressed.
    """
    area = data[HEADER_BYTES:]
    if header.record_count == 0:
        check_beginning(header.codec, area, max_bytes)  # it should be empty
        if len(area) and remarks is not None:
            remarks.append(("bytes-behind-records", f"{len(area)} bytes in a batch with a record count of 0"))
        return data, HEADER_BYTES
    if header.codec == 0:
        return data, HEADER_BYTES
    if buffer is not None:
        view = buffer.expand(header.codec, 2, area)
        if view is not None and len(view) <= max_bytes:
            return view, 0
    return decompress_limited(header.codec, area, 2, max_bytes, before_large, remarks), 0


def read_rows(payload: BytesLike, start: int, header: RecordBatchHeader, scratch: Scratch) -> Iterator[Rows]:
    """Yields rows of the records that `open_records` returned, a few thousand at a time.

    Raises UndecodableError at the first unreadable record, after yielding the rows before it.
    """
    walk, headers = RecordWalk(HEADER.pack(*header), start), scratch.headers
    while header.record_count:
        status = walk.read(payload, scratch.rows, headers)
        if walk.row_count:
            yield Rows(payload, scratch.rows, headers, walk.row_count)
        if status == DONE:
            return
        if status == MORE_HEADERS and len(headers) < MAX_HEADERS * HEADER_WIDTH:
            headers = int64s(MAX_HEADERS * HEADER_WIDTH)
        elif status != FULL:
            raise UndecodableError(_where(walk, status))


def read_before_fault(data: BytesLike, header: RecordBatchHeader, scratch: Scratch) -> Iterator[Rows]:
    """Yields rows of the records before the fault of a broken stream; ``data`` is the batch, of which bytes may be
    missing.

    Ends at the first record that does not parse, or whose offset does not rise or is outside the batch: bytes behind a
    fault can look like records.
    """
    payload = leading_bytes(header.codec, data[HEADER_BYTES:], scratch.max_batch_bytes, scratch.before_large)
    span = max(header.record_count, header.last_offset_delta + 1)  # one of them may be damaged
    last_offset = header.base_offset - 1
    with suppress(UndecodableError):
        for rows in read_rows(payload, 0, header._replace(record_count=min(max(span, 0), INT32_MAX)), scratch):
            count = rows.count
            for row, offset in enumerate(rows.column(ROW_OFFSET)):
                if not last_offset < offset < header.base_offset + span:
                    rows.count = row
                    break
                last_offset = offset
            if rows.count:
                yield rows
            if rows.count < count:
                return


def survey_records(
    payload: BytesLike, start: int, header: RecordBatchHeader
) -> tuple[list[tuple[str, str]], RecordWalk]:
    """Returns the problems of a batch's records as (problem code, sentence), and the walk at its end.

    Reads all records and keeps none.
    """
    problems: list[tuple[str, str]] = []
    walk = RecordWalk(HEADER.pack(*header), start)
    if header.record_count == 0:
        return problems, walk
    if header.record_count > header.last_offset_delta + 1:
        problems.append(("count-mismatch", f"{header.record_count} records in {header.last_offset_delta + 1} offsets"))
    status = walk.read(payload)
    if status:
        problems.append(("undecodable-records", _where(walk, status)))
    if walk.flags & FLAG_NOT_RISING:
        problems.append(("offsets-not-rising", "offset deltas do not rise"))
    if walk.flags & FLAG_OUT_OF_RANGE:
        problems.append(("offset-out-of-range", f"an offset delta is not in 0..{header.last_offset_delta}"))
    return problems, walk


def _where(walk: RecordWalk, status: int) -> str:
    return f"record {walk.index + 1}: {REASONS[status]}"
