"""Rows of batch headers (BATCH_*, see `kseg.kernel.layout.rows`): reads them from frames, checks that each batch
continues the preceding one, and packs fingerprints.

The rows include the marker of a control batch: type and coordinator epoch of its first record, which is never
compressed. Source: Kafka's ControlRecordType and EndTransactionMarker; key: int16 version, int16 type; value: int16
version, int32 coordinator epoch.
"""

import cython
from cython import Py_ssize_t, bint, longlong, ulonglong, void
from cython.cimports.kseg.kernel.records.records import RecordFields, read_fields, read_headers

if not cython.compiled:  # kseg._build declares these constants for C
    # Columns of an event, which `EventLog` explains.
    EVENT_WIDTH = 5

    # Kinds of events. The checksum or the magic is wrong. A: last trusted offset before it, or -1.
    INVALID = 1
    # A: the offset expected, B: the first one found, C: 1 if the bytes before the batch are damaged.
    GAP = 2
    # A: last offset before, B: offset of the batch.
    NOT_RISING = 3
    # Only the base offset is wrong: the next batch continues the expected offsets. A: expected, B: found. For a
    # compressed v0 or v1 message, B is the last offset, and A the expected last offset or, if C is 1, its minimum.
    WRONG_OFFSET = 4
    # A: an offset outside the range of the segment.
    OUTSIDE = 5
    # A: attributes with bits that no release sets.
    ATTRIBUTES = 6
    # A: records counted, B: offsets of the batch.
    COUNT = 7
    # A: leader epoch before, B: that of the batch.
    EPOCH_FALLS = 8
    # A: a timestamp later than ``latest_ms``.
    LATE = 9
    KINDS = 10

native_setup()


def claimed_bytes(p: Bytes, i: Py_ssize_t, end: Py_ssize_t, v07: bint, largest: longlong) -> longlong:
    """Returns the size of the entry at i of any magic; 0 unless its length fits a header, ``largest`` and the end."""
    if v07:
        if end - i < V07_MIN_BYTES:
            return 0
        size = be32(p, i)
        least = V07_MIN_BYTES - V07_SIZE_BYTES + (1 if p[i + V07_MAGIC] else 0)
        return size + V07_SIZE_BYTES if least <= size <= largest and size <= end - i - V07_SIZE_BYTES else 0
    if end - i <= SHORT_TAIL_BYTES:
        return 0
    size = be32(p, i + ENTRY_SIZE)
    magic = p[i + ENTRY_MAGIC]
    if MAGIC_V2 <= magic < 128:
        least = V2_HEADER_BYTES - ENTRY_OVERHEAD
    else:
        least = (V1_HEADER_BYTES + SIZES_BYTES if magic else MIN_MESSAGE_BYTES) - ENTRY_OVERHEAD
    return size + ENTRY_OVERHEAD if least <= size <= largest and size <= end - i - ENTRY_OVERHEAD else 0


def frame_bytes(p: Bytes, i: Py_ssize_t, end: Py_ssize_t, v07: bint) -> longlong:
    """Returns the size of the frame at i; 0 if its magic is unknown or its length fits no header or exceeds ``end``."""
    size: longlong = claimed_bytes(p, i, end, v07, INT32_MAX)
    return size if size and p[i + (V07_MAGIC if v07 else ENTRY_MAGIC)] <= (1 if v07 else MAGIC_V2) else 0


def could_be_frame(p: Bytes, i: Py_ssize_t, size: longlong, v07: bint) -> bint:
    """A cheap check of a frame found by search: whether its fields hold values that a writer can have set."""
    if v07:
        return size > V07_MIN_BYTES + p[i + V07_MAGIC]
    if p[i] >= 128:
        return False
    if p[i + ENTRY_MAGIC] == MAGIC_V2:
        return (
            (p[i + V2_FLAGS] & CODEC) <= HIGHEST_CODEC
            and p[i + V2_LAST_OFFSET_DELTA] < 128
            and be64(p, i + V2_PRODUCER_ID) >= -1
            and be32(p, i + V2_BASE_SEQUENCE) >= -1
            and p[i + V2_COUNT] < 128
        )
    fields: Py_ssize_t = i + V0_HEADER_BYTES + V1_TIMESTAMP_BYTES * p[i + ENTRY_MAGIC]
    rest: longlong = i + size - fields - SIZES_BYTES
    key_size: longlong = max(be32(p, fields), 0)
    return key_size <= rest and key_size + max(be32(p, fields + SIZES_BYTES // 2 + key_size), 0) == rest


def read_marker(p: Bytes, at: Py_ssize_t, size: longlong, out: OutColumns, row: Py_ssize_t) -> void:
    """Fills MARKER and COORDINATOR_EPOCH from the first record of the control batch at p[at]."""
    fields = cython.declare(RecordFields)
    if p[at + V2_FLAGS] & CODEC or be32(p, at + V2_COUNT) < 1:
        return
    if read_fields(p, at + V2_HEADER_BYTES, at + size, cython.address(fields)) != DONE:
        return
    behind = read_headers(p, fields.headers, fields.after, fields.header_count, cython.NULL, 0, False)
    if behind != fields.after or fields.key_size < MARKER_KEY_BYTES:
        return
    out[row + BATCH_MARKER] = be16(p, fields.key + VERSION_BYTES)
    if fields.value_size >= MARKER_VALUE_BYTES:
        out[row + BATCH_COORDINATOR_EPOCH] = be32(p, fields.value + VERSION_BYTES)


def read_frames(
    p: Bytes, frames: Columns, count: Py_ssize_t, v07: bint, origin: longlong, out: OutColumns, row: Py_ssize_t
) -> void:
    """Writes the rows of the headers from column ``row`` of ``out`` on."""
    row -= BATCH_WIDTH
    for i in range(count):
        at = frames[i * FRAME_WIDTH + FRAME_POSITION]
        size = frames[i * FRAME_WIDTH + FRAME_SIZE]
        magic = frames[i * FRAME_WIDTH + FRAME_MAGIC]
        row += BATCH_WIDTH
        out[row + BATCH_POSITION] = origin + at
        out[row + BATCH_SIZE] = size
        out[row + BATCH_MAGIC] = magic
        out[row + BATCH_STATE] = frames[i * FRAME_WIDTH + FRAME_STATE]
        if magic >= MAGIC_V2 and not v07:
            out[row + BATCH_FIRST_OFFSET] = be64(p, at + V2_BASE_OFFSET)
            out[row + BATCH_LAST_OFFSET] = sum_of(be64(p, at + V2_BASE_OFFSET), be32(p, at + V2_LAST_OFFSET_DELTA))
            out[row + BATCH_ATTRIBUTES] = be16(p, at + V2_ATTRIBUTES) & 0xFFFF
            out[row + BATCH_LEADER_EPOCH] = be32(p, at + V2_LEADER_EPOCH)
            out[row + BATCH_BASE_TIMESTAMP] = be64(p, at + V2_BASE_TIMESTAMP)
            out[row + BATCH_MAX_TIMESTAMP] = be64(p, at + V2_MAX_TIMESTAMP)
            out[row + BATCH_PRODUCER_ID] = be64(p, at + V2_PRODUCER_ID)
            out[row + BATCH_PRODUCER_EPOCH] = be16(p, at + V2_PRODUCER_EPOCH)
            out[row + BATCH_BASE_SEQUENCE] = be32(p, at + V2_BASE_SEQUENCE)
            out[row + BATCH_COUNT] = be32(p, at + V2_COUNT)
            out[row + BATCH_MARKER] = -1
            out[row + BATCH_COORDINATOR_EPOCH] = -1
            if p[at + V2_FLAGS] & CONTROL:
                read_marker(p, at, size, out, row)
            continue
        for k in range(BATCH_FIRST_OFFSET, BATCH_WIDTH):
            out[row + k] = -1
        if v07:
            out[row + BATCH_ATTRIBUTES] = p[at + V07_ATTRIBUTES] if magic == 1 else 0
            if not out[row + BATCH_ATTRIBUTES] & V07_CODEC:
                out[row + BATCH_COUNT] = 1
        else:
            out[row + BATCH_ATTRIBUTES] = p[at + LEGACY_FLAGS]
            out[row + BATCH_LAST_OFFSET] = be64(p, at)
            if magic != 0:
                out[row + BATCH_MAX_TIMESTAMP] = be64(p, at + V1_TIMESTAMP)
            if not p[at + LEGACY_FLAGS] & CODEC:
                out[row + BATCH_FIRST_OFFSET] = be64(p, at)
                out[row + BATCH_COUNT] = 1


def read(buffer: BytesIn, frames: Int64sIn, count: Py_ssize_t, v07: bint, origin: longlong, out: Int64sOut) -> None:
    """Writes the headers of the first ``count`` frames to ``out``, rows BATCH_*. ``origin`` is added to positions.

    Each frame must be a result of `kseg.kernel.scan.frames`, or have a complete header of its magic in the buffer.
    Raises ValueError if a buffer is too short.
    """
    if count <= 0:
        return
    last = (count - 1) * FRAME_WIDTH
    p, found, rows = bytes_in(buffer), int64s_in(frames, last + FRAME_WIDTH), int64s_out(out, count * BATCH_WIDTH)
    if found[FRAME_POSITION] < 0 or found[last + FRAME_POSITION] + found[last + FRAME_SIZE] > len(buffer):
        raise ValueError("frames lie outside the buffer")
    with cython.nogil:
        read_frames(p, found, count, v07, origin, rows, 0)


# Packs fingerprints of batches for a manifest: a few bytes that identify a batch and its place.
#
# The fingerprint of a batch: its size (varint), the difference of its last offset from the previous batch's (zigzag
# varint, modulo 2^64; from 0 for the first batch), and the CRC-32C of all its bytes with the header (4 bytes,
# little-endian).

MAX_FINGERPRINT_BYTES = 24
"""Largest size of the fingerprint of one batch."""


def pack_fingerprints(buffer: BytesIn, rows: Int64sIn, count: Py_ssize_t, origin: longlong, out: BytesOut) -> int:
    """Writes the fingerprints of ``count`` contiguous batches (rows BATCH_*). Returns the number of bytes written.

    ``buffer`` has the bytes of the file from ``origin`` on. Raises ValueError if a buffer is too short.
    """
    at: Py_ssize_t = 0
    before: longlong = 0
    if count <= 0:
        return 0
    last = (count - 1) * BATCH_WIDTH
    p, batches = bytes_in(buffer), int64s_in(rows, last + BATCH_WIDTH)
    to = bytes_out(out, count * MAX_FINGERPRINT_BYTES)
    if rows[BATCH_POSITION] < origin or rows[last + BATCH_POSITION] + rows[last + BATCH_SIZE] - origin > len(buffer):
        raise ValueError("batches lie outside the buffer")
    with cython.nogil:
        for i in range(count):
            row = i * BATCH_WIDTH
            start = batches[row + BATCH_POSITION] - origin
            size = cython.cast(ulonglong, batches[row + BATCH_SIZE])
            while size > 127:
                to[at] = (size & 127) | 128
                at += 1
                size >>= 7
            to[at] = size
            at += 1
            at = put_varint(to, at, difference(batches[row + BATCH_LAST_OFFSET], before))
            before = batches[row + BATCH_LAST_OFFSET]
            crc = crc32c(0, p, start, start + batches[row + BATCH_SIZE])
            for k in range(4):
                to[at + k] = crc >> (8 * k) & 255
            at += 4
    return at


# Checks that each batch continues the preceding one: offsets, epochs, timestamps, counts. `EventLog` is the log of
# events of such passes over rows.


def int64s(count):
    return memoryview(bytearray(8 * count)).cast("q")


class EventLog:
    """The events of one call of a kernel loop. Columns of an event: KIND, ABOUT (a row or entry number), A, B and C.

    Kinds are numbered from 1 to ``kinds`` - 1. Events are written to ``rows`` (EVENT_WIDTH int64 each), at most
    ``limit`` of each kind; without ``rows`` and beyond the limit they are only counted. By kind: ``totals``, the number
    of events since the log was created or cleared, written or not; ``last_about``, ABOUT of the last one.
    """

    def __init__(self, kinds, limit=0, rows=None):
        self.limit = limit
        self.events = 0
        self._buffer = self._rows = int64s(0) if rows is None else rows
        self.totals, self.last_about = int64s(kinds), int64s(kinds)

    def written(self) -> list:
        """Returns the events of the last call as tuples."""
        values = iter(self._buffer[: self.events * EVENT_WIDTH].tolist())
        return list(zip(*[values] * EVENT_WIDTH, strict=True))

    def clear(self) -> None:
        """Resets all events."""
        self.events = 0
        for kind in range(len(self.totals)):
            self.totals[kind] = self.last_about[kind] = 0


def report(log: EventLog, kind: longlong, about: longlong, a: longlong, b: longlong, c: longlong) -> void:
    """Logs an event; only counts it if the limit or the end of the rows is reached."""
    at: Py_ssize_t = log.events * EVENT_WIDTH
    log.totals[kind] += 1
    log.last_about[kind] = about
    if log.totals[kind] > log.limit or at + EVENT_WIDTH > log._rows.shape[0]:
        return
    log._rows[at] = kind
    log._rows[at + 1] = about
    log._rows[at + 2] = a
    log._rows[at + 3] = b
    log._rows[at + 4] = c
    log.events += 1


NO_TIME_LIMIT = (1 << 63) - 1

# Bits of attributes that no release sets.
_UNUSED_V2 = cython.declare(longlong, 0xFF80)
_UNUSED_V1 = cython.declare(longlong, 0xF0)
_LARGEST_SPAN = cython.declare(longlong, 0x7FFFFFFF)


class Chain(EventLog):
    """The state of a check of the batches of one segment, kept between calls.

    ``base_offset`` of the segment, None if unknown. A timestamp above ``latest_ms`` is an event. ``limit`` and ``rows``
    as in `EventLog`. Offsets, epochs and timestamps (ms) are -1 until known.

    ``first_offset`` of the first trusted batch (its last offset if the first is unknown); ``last_offset`` of the last
    trusted batch; ``last_epoch``; ``is_after_damage``: batches since then are not trusted; ``misplaced``: number of
    offsets of a preceding batch whose own offsets are wrong, so a gap of that size is not reported. Counts of valid
    batches: ``v0``, ``v1``, ``v2``, ``transactional``, ``control``, ``with_producer``, ``compressed``, ``with_horizon``
    (a delete horizon), ``sparse`` (fewer records than offsets; compressed v0 and v1 messages count only if they were
    opened). ``records``: in those batches, without control records; such a message that was not opened counts as one.
    ``batches`` counts all batches, ``missing`` the offsets in all gaps. ``largest_timestamp_offset`` is the last offset
    of the batch that has the ``largest_timestamp``. ``least_timestamp``: of base timestamps that are no delete
    horizons, and of v1 messages.
    """

    def __init__(self, base_offset=None, latest_ms=NO_TIME_LIMIT, limit=0, rows=None):
        EventLog.__init__(self, KINDS, limit, rows)
        self.base = -1 if base_offset is None else base_offset
        self.latest_ms = latest_ms
        self.last_offset = self.last_epoch = self.first_offset = -1
        self.largest_timestamp = self.largest_timestamp_offset = self.least_timestamp = -1
        self.is_after_damage = False
        self.misplaced = self.missing = 0
        self.batches = self.records = self.v0 = self.v1 = self.v2 = 0
        self.transactional = self.control = self.with_producer = self.compressed = self.with_horizon = self.sparse = 0


def count_batch(row: Columns, at: Py_ssize_t, chain: Chain) -> void:
    """Adds one valid batch to the counts."""
    magic: longlong = row[at + BATCH_MAGIC]
    attributes: longlong = row[at + BATCH_ATTRIBUTES]
    count: longlong = row[at + BATCH_COUNT]
    largest: longlong = row[at + BATCH_MAX_TIMESTAMP]
    if count > 0:
        if magic != MAGIC_V2 or not attributes & CONTROL:
            chain.records += count
    elif count < 0 and magic != MAGIC_V2:  # a compressed message that was not opened
        chain.records += 1
    chain.v0 += magic == 0
    chain.v1 += magic == 1
    chain.v2 += magic == MAGIC_V2
    chain.compressed += (attributes & CODEC) != 0
    if magic == MAGIC_V2:
        chain.transactional += (attributes & TRANSACTIONAL) != 0
        chain.control += (attributes & CONTROL) != 0
        chain.with_horizon += (attributes & DELETE_HORIZON) != 0
        chain.with_producer += row[at + BATCH_PRODUCER_ID] >= 0
        chain.sparse += count <= difference(row[at + BATCH_LAST_OFFSET], row[at + BATCH_FIRST_OFFSET])
        if not attributes & DELETE_HORIZON and count > 0:
            least(chain, row[at + BATCH_BASE_TIMESTAMP])
    elif row[at + BATCH_STATE] & RECORDS_RIGHT and count > 0:
        # A message, or a compressed message set that was opened and has no problem.
        chain.sparse += count <= difference(row[at + BATCH_LAST_OFFSET], row[at + BATCH_FIRST_OFFSET])
    if magic == 1:
        least(chain, largest)
    if largest > chain.largest_timestamp:
        chain.largest_timestamp = largest
        chain.largest_timestamp_offset = row[at + BATCH_LAST_OFFSET]


def least(chain: Chain, timestamp: longlong) -> void:
    if timestamp >= 0 and (chain.least_timestamp < 0 or timestamp < chain.least_timestamp):
        chain.least_timestamp = timestamp


def next_begins_at(rows: Columns, i: Py_ssize_t, count: Py_ssize_t, after: longlong) -> bint:
    """Whether the batch of row i + 1 is valid and begins at offset ``after``."""
    at: Py_ssize_t = (i + 1) * BATCH_WIDTH
    return i + 1 < count and (rows[at + BATCH_STATE] & CRC_RIGHT) and rows[at + BATCH_FIRST_OFFSET] == after


def least_offset(rows: Columns, i: Py_ssize_t, count: Py_ssize_t) -> longlong:
    """Returns the first offset of row i, the last one if that is unknown, -1 if the row is missing or invalid."""
    at: Py_ssize_t = i * BATCH_WIDTH
    if i >= count or not rows[at + BATCH_STATE] & CRC_RIGHT:
        return -1
    if rows[at + BATCH_MAGIC] >= MAGIC_V2 or rows[at + BATCH_FIRST_OFFSET] >= 0:
        return rows[at + BATCH_FIRST_OFFSET]
    return rows[at + BATCH_LAST_OFFSET]


def span_of(rows: Columns, i: Py_ssize_t) -> longlong:
    """Returns the number of offsets that the batch of row i occupies; a minimum for a compressed v0 or v1 message."""
    at: Py_ssize_t = i * BATCH_WIDTH
    count: longlong = rows[at + BATCH_COUNT]
    if rows[at + BATCH_MAGIC] >= MAGIC_V2:
        count = sum_of(difference(rows[at + BATCH_LAST_OFFSET], rows[at + BATCH_FIRST_OFFSET]), 1)
    return count if count > 1 else 1


def is_astray(rows: Columns, i: Py_ssize_t, count: Py_ssize_t, before: longlong) -> bint:
    """Whether the v0 or v1 message of row i has a too large offset: the next two continue the preceding ones."""
    if rows[i * BATCH_WIDTH + BATCH_MAGIC] >= MAGIC_V2 or before < 0:
        return False
    one = least_offset(rows, i + 1, count)
    two = least_offset(rows, i + 2, count)
    return before < one < two and two < rows[i * BATCH_WIDTH + BATCH_LAST_OFFSET]


def follow_offsets(rows: Columns, i: Py_ssize_t, count: Py_ssize_t, chain: Chain) -> void:
    at: Py_ssize_t = i * BATCH_WIDTH
    first: longlong = rows[at + BATCH_FIRST_OFFSET]
    last: longlong = rows[at + BATCH_LAST_OFFSET]
    before: longlong = chain.last_offset
    expected: longlong = expected_offset(chain)
    is_known: bint = first >= 0 or rows[at + BATCH_MAGIC] >= MAGIC_V2
    # Offset behind the batch if its base offset were the expected one.
    after = sum_of(sum_of(expected, difference(last, first)), 1)
    if chain.base >= 0 and (
        last < chain.base or last - chain.base > _LARGEST_SPAN or (is_known and first < chain.base)
    ):
        if before >= 0 and is_known and next_begins_at(rows, i, count, after):
            report(chain, WRONG_OFFSET, i, expected, first, 0)
            chain.last_offset = sum_of(after, -1)
            return
        report(chain, OUTSIDE, i, first if is_known and first < chain.base else last, 0, 0)
        if last < chain.base or last - chain.base > _LARGEST_SPAN:
            chain.misplaced = span_of(rows, i)
            return
    if is_known and (before >= 0 or chain.base >= 0) and first != expected:
        if (before >= 0 or expected > first) and next_begins_at(rows, i, count, after):
            report(chain, WRONG_OFFSET, i, expected, first, 0)
            chain.last_offset = sum_of(after, -1)
            chain.is_after_damage = False
            return
    if is_astray(rows, i, count, before):
        report(chain, WRONG_OFFSET, i, expected, last, 1)
        chain.misplaced = span_of(rows, i)
        return
    if is_known and (before >= 0 or chain.base >= 0) and first > expected:
        if difference(first, expected) > chain.misplaced:
            report(chain, GAP, i, expected, first, chain.is_after_damage)
            chain.missing = sum_of(chain.missing, difference(first, expected))
    elif before >= 0 and (first if is_known else last) <= before:
        report(chain, NOT_RISING, i, before, first if is_known else last, 0)
        # Continue from this row if the next one does not continue the preceding rows either.
        chain.misplaced = span_of(rows, i)
        if not 0 <= least_offset(rows, i + 1, count) <= chain.last_offset:
            return
    if chain.first_offset < 0:
        chain.first_offset = first if is_known else last
    chain.last_offset = last
    chain.is_after_damage = False
    chain.misplaced = 0


def expected_offset(chain: Chain) -> longlong:
    return chain.base if chain.last_offset < 0 and chain.base >= 0 else sum_of(chain.last_offset, 1)


def is_believable(rows: Columns, i: Py_ssize_t, count: Py_ssize_t, expected: longlong) -> bint:
    """Whether the invalid batch of row i has right offsets: it continues the preceding one, the next continues it."""
    at: Py_ssize_t = i * BATCH_WIDTH
    last: longlong = rows[at + BATCH_LAST_OFFSET]
    if rows[at + BATCH_FIRST_OFFSET] != expected and (
        rows[at + BATCH_FIRST_OFFSET] >= 0 or rows[at + BATCH_MAGIC] >= MAGIC_V2
    ):
        return False
    return last >= expected and next_begins_at(rows, i, count, sum_of(last, 1))


def follow(rows: Int64sIn, count: Py_ssize_t, chain: Chain) -> int:
    """Checks the first ``count`` rows (BATCH_*). Returns the number of events written; others are only counted.

    Raises ValueError if the buffer is too short.
    """
    p = int64s_in(rows, count * BATCH_WIDTH)
    chain.events = 0
    with cython.nogil:
        for i in range(count):
            at = i * BATCH_WIDTH
            chain.batches += 1
            if not p[at + BATCH_STATE] & CRC_RIGHT:
                report(chain, INVALID, i, chain.last_offset, 0, 0)
                if is_believable(p, i, count, expected_offset(chain)):
                    chain.last_offset = p[at + BATCH_LAST_OFFSET]
                else:
                    chain.is_after_damage = True
                continue
            count_batch(p, at, chain)
            if p[at + BATCH_MAGIC] == MAGIC_V2:
                span = sum_of(difference(p[at + BATCH_LAST_OFFSET], p[at + BATCH_FIRST_OFFSET]), 1)
                if p[at + BATCH_COUNT] > span or p[at + BATCH_COUNT] < 0 or span < 1:
                    report(chain, COUNT, i, p[at + BATCH_COUNT], span, 0)
                epoch = p[at + BATCH_LEADER_EPOCH]
                if epoch < chain.last_epoch:
                    report(chain, EPOCH_FALLS, i, chain.last_epoch, epoch, 0)
                if epoch >= 0:
                    chain.last_epoch = epoch
            if p[at + BATCH_ATTRIBUTES] & (_UNUSED_V2 if p[at + BATCH_MAGIC] == MAGIC_V2 else _UNUSED_V1):
                report(chain, ATTRIBUTES, i, p[at + BATCH_ATTRIBUTES], 0, 0)
            if p[at + BATCH_MAX_TIMESTAMP] > chain.latest_ms:
                report(chain, LATE, i, p[at + BATCH_MAX_TIMESTAMP], 0, 0)
            follow_offsets(p, i, count, chain)
    return chain.events
