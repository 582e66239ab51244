"""Messages of the eras before v2: one walk over a message set that writes rows (layout: `kseg.kernel.layout.rows`).

An entry of a v0 or v1 set (Kafka's LegacyRecord; 0.8 to 0.10):

    offset int64 | size int32 | crc uint32 | magic int8 | attributes int8 | (v1: timestamp int64) | key | value
    (key and value: int32 size, -1 null, then the bytes; the CRC-32 covers magic to the end)

An entry of a 0.7 set (kafka.message.Message @0.7):

    size int32 | magic int8 | (magic 1: attributes int8) | crc uint32 | payload          (the CRC-32 covers the payload)

v0 and v1 are read in one of three modes. STRICT; AS_DUMPED, as kafka-dump-log reads (Kafka's LegacyRecord and
AbstractLegacyRecordBatch): negative sizes stay as they are written, and a message whose magic is not 0 is laid out as
v1; SIZES_ONLY, the same, and a key or value need not fit its message either: its size goes to the row, which counts as
a misfit. Positions of misfits must not be followed.
"""

import cython

native_setup()

REASONS = {
    TOO_SMALL: "the size of a message is smaller than its header",
    MISFIT: "a key or value does not fit its message",
    UNKNOWN_MAGIC: "the magic of a message is unknown",
}
SIZE_BYTES = cython.declare(cython.Py_ssize_t, 4)  # before a key, a value or an entry of 0.7
# The smallest value of the size field: CRC, magic, attributes, the timestamp of v1, and the sizes of key and value.
MIN_V0_BYTES = cython.declare(cython.longlong, 14)
MIN_V1_BYTES = cython.declare(cython.longlong, 22)


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

    def read(
        self,
        payload: cython.const[cython.uchar][::1],
        end: cython.Py_ssize_t,
        rows: cython.longlong[::1],
        is_07: cython.bint = False,
    ) -> int:
        """Walks entries up to ``end``, writing rows. Returns END, MORE, COMPRESSED, CUT or a key of REASONS.

        Raises ValueError if a buffer is too short.
        """
        status: cython.int
        capacity: cython.Py_ssize_t = len(rows) // ROW_WIDTH
        if end > len(payload) or self.position < 0 or capacity < 1:
            raise ValueError("a buffer is too short")
        p = bytes_in(payload)
        out = int64s_out(rows)
        with cython.nogil:
            if is_07:
                status = walk_v07(self, p, end, out, capacity)
            else:
                status = walk_set(self, p, end, out, capacity)
        return status

    def survey(self, payload: cython.const[cython.uchar][::1]) -> int:
        """Walks a v0 or v1 set without rows, for ``count`` and ``last_offset``, which offsets of v1 depend on."""
        status: cython.int
        end: cython.Py_ssize_t = len(payload)
        p = bytes_in(payload)
        with cython.nogil:
            status = walk_set(self, p, end, cython.NULL, 0)
        return status


def read_frame(walk, p, end, message):
    """Sets the end and the magic of the entry at the position. Returns END on success, CUT or a key of REASONS."""
    size: cython.longlong
    if end - walk.position < ENTRY_OVERHEAD:
        return CUT
    size = be32(p, walk.position + ENTRY_SIZE)
    if size < MIN_V0_BYTES:
        return TOO_SMALL
    if size > end - walk.position - ENTRY_OVERHEAD:
        return CUT
    message.magic = p[walk.position + ENTRY_MAGIC]
    if message.magic > 1 and walk.mode == STRICT:
        return UNKNOWN_MAGIC
    if message.magic and size < MIN_V1_BYTES:
        return TOO_SMALL
    message.after = walk.position + ENTRY_OVERHEAD + size
    return END


def read_fields(walk, p, message):
    """Sets positions and sizes of key and value of that entry. Returns END on success, COMPRESSED or MISFIT."""
    at: cython.Py_ssize_t = walk.position + (V1_HEADER_BYTES if message.magic else V0_HEADER_BYTES)
    if p[walk.position + LEGACY_FLAGS] & CODEC:
        return COMPRESSED
    message.key_size = be32(p, at)
    at += SIZE_BYTES
    if message.after - at < SIZE_BYTES or message.key_size > message.after - at - SIZE_BYTES:
        return MISFIT
    message.key = at
    if message.key_size > 0:
        at += message.key_size
    message.value_size = be32(p, at)
    message.value = at + SIZE_BYTES
    if message.value_size > message.after - message.value:
        if walk.mode != SIZES_ONLY:
            return MISFIT
        walk.misfits += 1
    return END


def row_check(crc, is_right, kind):
    """Returns ROW_CHECK: a stored CRC, whether it is right, and the timestamp type."""
    return crc | (is_right << CHECK_VALID_SHIFT) | (kind << CHECK_KIND_SHIFT)


def check_of(p, crc_at, start, after, kind):
    """Returns ROW_CHECK of the CRC at ``crc_at``, which covers the bytes from ``start`` up to ``after``."""
    stored: cython.longlong = stored_crc(p, crc_at)
    return row_check(stored, crc32(0, p, start, after) == stored, kind)


def put_row(walk, p, message, rows):
    """Appends the row of the entry at the position, whose fields are read."""
    at: cython.Py_ssize_t = walk.position
    row: cython.Py_ssize_t = walk.row_count * ROW_WIDTH
    kind: cython.longlong = NO_TIME
    timestamp: cython.longlong = -1
    if message.magic:
        kind = walk.kind
        if kind == OWN:
            kind = APPEND_TIME if p[at + LEGACY_FLAGS] & LOG_APPEND_TIME else CREATE_TIME
        timestamp = be64(p, at + V1_TIMESTAMP)
        if walk.kind == APPEND_TIME and message.magic == 1:
            timestamp = walk.timestamp
    rows[row + ROW_OFFSET] = sum_of(be64(p, at + ENTRY_OFFSET), walk.base)
    rows[row + ROW_TIMESTAMP] = timestamp
    rows[row + ROW_SEQUENCE] = -1
    rows[row + ROW_KEY] = message.key
    rows[row + ROW_KEY_SIZE] = -1 if message.key_size < 0 and walk.mode == STRICT else message.key_size
    rows[row + ROW_VALUE] = message.value
    rows[row + ROW_VALUE_SIZE] = -1 if message.value_size < 0 and walk.mode == STRICT else message.value_size
    rows[row + ROW_HEADERS] = 0
    rows[row + ROW_HEADER_COUNT] = 0
    rows[row + ROW_CHECK] = check_of(p, at + LEGACY_CRC, at + ENTRY_MAGIC, message.after, kind)
    walk.row_count += 1


def walk_set(walk, p, end, rows, capacity):
    """Walks a message set of v0 or v1. With a ``capacity`` of 0 it writes no rows, and reads no fields for them."""
    message = cython.declare(Message)
    status: cython.int
    walk.row_count = 0
    while walk.position < end:
        if walk.row_count >= capacity > 0:
            return MORE
        status = read_frame(walk, p, end, cython.address(message))
        if status != END:
            return status
        walk.last_offset = be64(p, walk.position + ENTRY_OFFSET)
        if capacity > 0:
            status = read_fields(walk, p, cython.address(message))
            if status != END:
                return status
            put_row(walk, p, cython.address(message), rows)
        walk.count += 1
        walk.position = message.after
    return END


def walk_v07(walk, p, end, rows, capacity):
    after: cython.Py_ssize_t
    payload: cython.Py_ssize_t
    size: cython.longlong
    magic: cython.int
    row: cython.Py_ssize_t
    walk.row_count = 0
    while walk.position < end:
        if walk.row_count >= capacity:
            return MORE
        if end - walk.position < SIZE_BYTES:
            return CUT
        size = be32(p, walk.position)
        if size < V07_MIN_BYTES - SIZE_BYTES:
            return TOO_SMALL
        if size > end - walk.position - SIZE_BYTES:
            return CUT
        magic = p[walk.position + V07_MAGIC]
        if magic > 1:
            return UNKNOWN_MAGIC
        if size < V07_MIN_BYTES - SIZE_BYTES + magic:
            return TOO_SMALL
        after = walk.position + SIZE_BYTES + size
        walk.last_offset = walk.position
        if magic == 1 and p[walk.position + V07_ATTRIBUTES] & V07_CODEC:
            return COMPRESSED
        payload = walk.position + V07_MIN_BYTES + magic
        row = walk.row_count * ROW_WIDTH
        rows[row + ROW_OFFSET] = walk.base
        rows[row + ROW_TIMESTAMP] = -1
        rows[row + ROW_SEQUENCE] = -1
        rows[row + ROW_KEY] = 0
        rows[row + ROW_KEY_SIZE] = -1
        rows[row + ROW_VALUE] = payload
        rows[row + ROW_VALUE_SIZE] = after - payload
        rows[row + ROW_HEADERS] = 0
        rows[row + ROW_HEADER_COUNT] = 0
        rows[row + ROW_CHECK] = check_of(p, payload - CRC_BYTES, payload, after, NO_TIME)
        walk.row_count += 1
        walk.count += 1
        walk.position = after
    return END
