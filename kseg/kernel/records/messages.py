"""Messages of the eras before v2: one walk over a message set that writes rows (layout: `kseg.kernel.layout.rows`).

An entry of a v0 or v1 set (Kafka's LegacyRecord; 0.8 to 0.10):

    offset int64 | size int32 | crc uint32 | magic int8 | attributes int8 | (v1: timestamp int64) | key | value
    (key and value: int32 size, -1 null, then the bytes; the CRC-32 covers magic to the end)

An entry of a 0.7 set (kafka.message.Message @0.7):

    size int32 | magic int8 | (magic 1: attributes int8) | crc uint32 | payload          (the CRC-32 covers the payload)

v0 and v1 are read in one of three modes. STRICT; AS_DUMPED, as kafka-dump-log reads (Kafka's LegacyRecord and
AbstractLegacyRecordBatch): negative sizes stay as they are written, a message whose magic is not 0 is laid out as v1,
and all of a set have the timestamp type of its wrapper; SIZES_ONLY, the same, and a key or value need not fit its
message either: its size goes to the row, which counts as a misfit. Positions of misfits must not be followed. Inside of
a wrapper, any magic but 0 is laid out as v1 in all modes, and in STRICT a v1 message in a v0 wrapper has the timestamp
type of its own.
"""

import cython
from cython import Py_ssize_t, bint, longlong, pointer, void

if not cython.compiled:  # kseg._build declares these constants for C
    # Modes of reading v0 and v1.
    STRICT, AS_DUMPED, SIZES_ONLY = 0, 1, 2

    # In place of a timestamp type: each message has its own.
    OWN = -1

    Message = cython.struct()

native_setup()

REASONS = {
    TOO_SHORT: "the size of a message is smaller than its header",
    MISFIT: "a key or value does not fit its message",
    UNKNOWN_MAGIC: "the magic of a message is unknown",
}
SIZE_BYTES = cython.declare(Py_ssize_t, 4)  # before a key, a value or an entry of 0.7
# The smallest value of the size field of v0: CRC, magic, attributes, and the sizes of key and value.
MIN_V0_BYTES = cython.declare(longlong, 14)


class MessageWalk:
    """A walk over one message set, from byte ``position`` on.

    ``base`` is added to offsets; in 0.7, whose messages all have the offset of the set, it is that offset. ``kind`` and
    ``timestamp`` (ms) are those of the wrapper; kind OWN: there is none.

    ``row_count``: rows written by the last call. Of all calls, ``count``: number of entries; ``last_offset``: stored
    offset of the last entry (0.7: its position); ``misfits``: number of misfit rows.
    """

    def __init__(self, base=0, kind=OWN, timestamp=-1, mode=STRICT):
        self.position = self.row_count = self.count = self.last_offset = self.misfits = 0
        self.base = base
        self.kind = kind
        self.timestamp = timestamp
        self.mode = mode

    def read(self, payload: BytesIn, rows: Int64sOut = None, is_07: bint = False) -> int:
        """Walks entries, writing rows. Returns DONE, FULL, COMPRESSED, CUT or a key of REASONS.

        Without rows it walks a v0 or v1 set for ``count`` and ``last_offset``, which offsets of v1 depend on. Raises
        ValueError if a buffer is too short.
        """
        capacity: Py_ssize_t = 0 if rows is None else len(rows) // ROW_WIDTH
        end: Py_ssize_t = len(payload)
        if self.position < 0 or (capacity < 1 and rows is not None):
            raise ValueError("a buffer is too short")
        p = bytes_in(payload)
        out: OutColumns = int64s_out(rows) if capacity else cython.NULL
        with cython.nogil:
            status = walk_set(self, p, end, out, capacity, is_07)
        return status


def row_check(crc: longlong, is_right: longlong, kind: longlong) -> longlong:
    """Returns ROW_CHECK: a stored CRC, whether it is right, and the timestamp type."""
    return crc | (is_right << CHECK_VALID_SHIFT) | (kind << CHECK_KIND_SHIFT)


def kind_in(check: longlong) -> longlong:
    """Returns the timestamp type in ROW_CHECK."""
    return (check >> CHECK_KIND_SHIFT) & CHECK_KIND_BITS


def time_of(p: Bytes, at: Py_ssize_t, magic: cython.int) -> longlong:
    """Returns the timestamp of the entry at p[at], the largest one of a batch; -1 for v0."""
    if magic == 0:
        return -1
    return be64(p, at + (V2_MAX_TIMESTAMP if magic >= MAGIC_V2 else V1_TIMESTAMP))


def kind_of(p: Bytes, at: Py_ssize_t, magic: cython.int) -> cython.int:
    """Returns the timestamp type of the entry at p[at]."""
    if magic == 0:
        return NO_TIME
    return APPEND_TIME if p[at + (V2_FLAGS if magic >= MAGIC_V2 else LEGACY_FLAGS)] & LOG_APPEND_TIME else CREATE_TIME


def read_sizes(p: Bytes, at: Py_ssize_t, message: pointer[Message]) -> bint:
    """Reads positions and sizes of key and value of the v0 or v1 entry at p[at]. False if the key does not fit."""
    field: Py_ssize_t = at + (V1_HEADER_BYTES if message.magic else V0_HEADER_BYTES)
    message.key_size = be32(p, field)
    field += SIZE_BYTES
    if message.after - field < SIZE_BYTES or message.key_size > message.after - field - SIZE_BYTES:
        return False
    message.key = field
    if message.key_size > 0:
        field += message.key_size
    message.value_size = be32(p, field)
    message.value = field + SIZE_BYTES
    return True


def is_plain(p: Bytes, at: Py_ssize_t, size: Py_ssize_t, magic: cython.int, message: pointer[Message]) -> bint:
    """Whether the v0 or v1 entry at p[at] is uncompressed, and its key and value, which are read, fill it exactly."""
    message.magic = magic
    message.after = at + size
    if size < (V1_HEADER_BYTES if magic else V0_HEADER_BYTES) + SIZES_BYTES or p[at + LEGACY_FLAGS] & CODEC:
        return False
    if not read_sizes(p, at, message) or message.key_size < -1 or message.value_size < -1:
        return False
    return message.value + (message.value_size if message.value_size > 0 else 0) == message.after


def put_row(
    message: pointer[Message], offset: longlong, timestamp: longlong, check: longlong, rows: OutColumns,
    number: Py_ssize_t,
) -> void:  # fmt: skip
    """Writes a row for an entry whose fields are read."""
    row: Py_ssize_t = number * ROW_WIDTH
    rows[row + ROW_OFFSET] = offset
    rows[row + ROW_TIMESTAMP] = timestamp
    rows[row + ROW_SEQUENCE] = -1
    rows[row + ROW_KEY] = message.key
    rows[row + ROW_KEY_SIZE] = message.key_size
    rows[row + ROW_VALUE] = message.value
    rows[row + ROW_VALUE_SIZE] = message.value_size
    rows[row + ROW_HEADERS] = 0
    rows[row + ROW_HEADER_COUNT] = 0
    rows[row + ROW_CHECK] = check


def read_frame(walk: MessageWalk, p: Bytes, end: Py_ssize_t, is_07: bint, message: pointer[Message]) -> cython.int:
    """Sets the end and the magic of the entry at the position. Returns DONE on success, CUT or a key of REASONS."""
    overhead: Py_ssize_t = V07_SIZE_BYTES if is_07 else ENTRY_OVERHEAD
    least: longlong = V07_MIN_BYTES - V07_SIZE_BYTES if is_07 else MIN_V0_BYTES
    if end - walk.position < overhead:
        return CUT
    size = be32(p, walk.position + overhead - SIZE_BYTES)
    if size < least:
        return TOO_SHORT
    if size > end - walk.position - overhead:
        return CUT
    message.magic = p[walk.position + (V07_MAGIC if is_07 else ENTRY_MAGIC)]
    if message.magic > 1 and (is_07 or (walk.mode == STRICT and walk.kind == OWN)):
        return UNKNOWN_MAGIC
    if message.magic and size < least + (1 if is_07 else V1_TIMESTAMP_BYTES):
        return TOO_SHORT
    message.after = walk.position + overhead + size
    return DONE


def read_fields(walk: MessageWalk, p: Bytes, is_07: bint, message: pointer[Message]) -> cython.int:
    """Sets positions and sizes of key and value of that entry. Returns DONE on success, COMPRESSED or MISFIT."""
    if is_07:
        message.key, message.key_size = 0, -1
        message.value = walk.position + V07_MIN_BYTES + message.magic
        message.value_size = message.after - message.value
        return COMPRESSED if message.magic and p[walk.position + V07_ATTRIBUTES] & V07_CODEC else DONE
    if p[walk.position + LEGACY_FLAGS] & CODEC:
        return COMPRESSED
    if not read_sizes(p, walk.position, message):
        return MISFIT
    if message.value_size > message.after - message.value:
        if walk.mode != SIZES_ONLY:
            return MISFIT
        walk.misfits += 1
    if walk.mode == STRICT:
        message.key_size = max(message.key_size, -1)
        message.value_size = max(message.value_size, -1)
    return DONE


def walk_set(
    walk: MessageWalk, p: Bytes, end: Py_ssize_t, rows: OutColumns, capacity: Py_ssize_t, is_07: bint
) -> cython.int:
    """Walks a message set. With a ``capacity`` of 0 it writes no rows, and reads no fields for them."""
    message = cython.declare(Message)
    kind: longlong
    timestamp: longlong
    stored: longlong
    walk.row_count = 0
    while walk.position < end:
        if walk.row_count >= capacity > 0:
            return FULL
        status = read_frame(walk, p, end, is_07, cython.address(message))
        if status != DONE:
            return status
        walk.last_offset = walk.position if is_07 else be64(p, walk.position + ENTRY_OFFSET)
        if capacity > 0:
            status = read_fields(walk, p, is_07, cython.address(message))
            if status != DONE:
                return status
            if is_07:
                crc_at, covered = message.value - CRC_BYTES, message.value
                offset, kind, timestamp = walk.base, NO_TIME, -1
            else:
                crc_at, covered = walk.position + LEGACY_CRC, walk.position + ENTRY_MAGIC
                offset = sum_of(walk.last_offset, walk.base)
                kind = kind_of(p, walk.position, message.magic != 0)
                timestamp = time_of(p, walk.position, message.magic != 0)
                if message.magic and (walk.kind > NO_TIME or (walk.kind == NO_TIME and walk.mode != STRICT)):
                    kind = walk.kind
                    if kind == APPEND_TIME and message.magic == 1:
                        timestamp = walk.timestamp
            stored = stored_crc(p, crc_at)
            check = row_check(stored, crc32(0, p, covered, message.after) == stored, kind)
            put_row(cython.address(message), offset, timestamp, check, rows, walk.row_count)
            walk.row_count += 1
        walk.count += 1
        walk.position = message.after
    return DONE
