"""Counts records by the chunk, for a picture of a segment: nothing is kept of them but numbers, in bounded room.

Everything lies in int64 buffers that the caller holds. A ``tally``: TALLY_WIDTH columns,

    0.. COUNTERS, one each    FORMS, a few columns for each format and codec    SIZES, a distribution for each quantity

A distribution: COUNT, SUM, LEAST, LARGEST, then buckets. Below 64 each size has its own; above, a bucket is 1/32 of the
power of two that its sizes lie in, so that a quantile read from it is at most 1/64 off.

Different keys and producer ids are counted by `kseg.kernel.distinct`.
"""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.kseg.kernel.distinct import check_distinct, hash_of, mixed, note_hash
    from cython.cimports.kseg.kernel.native import (
        FRAME_MAGIC,
        FRAME_POSITION,
        FRAME_SIZE,
        FRAME_STATE,
        FRAME_WIDTH,
        HEADER_WIDTH,
        ROW_HEADER_COUNT,
        ROW_KEY,
        ROW_KEY_SIZE,
        ROW_OFFSET,
        ROW_TIMESTAMP,
        ROW_VALUE_SIZE,
        ROW_WIDTH,
        be16,
        be32,
        be64,
    )
    from cython.cimports.kseg.kernel.records import read_records
else:
    from kseg.kernel.distinct import check_distinct, hash_of, mixed, note_hash
    from kseg.kernel.native import (
        FRAME_MAGIC,
        FRAME_POSITION,
        FRAME_SIZE,
        FRAME_STATE,
        FRAME_WIDTH,
        HEADER_WIDTH,
        ROW_HEADER_COUNT,
        ROW_KEY,
        ROW_KEY_SIZE,
        ROW_OFFSET,
        ROW_TIMESTAMP,
        ROW_VALUE_SIZE,
        ROW_WIDTH,
        be16,
        be32,
        be64,
    )
    from kseg.kernel.records import read_records

COMPILED = cython.compiled

DONE, NOT_PLAIN = 0, 1

COUNTERS = (
    "batches", "records", "control_records", "null_keys", "null_values", "tombstones", "with_headers", "headers",
    "with_timestamp", "least_timestamp", "largest_timestamp", "has_offset", "first_offset", "last_offset", "gaps",
    "missing_offsets", "steps_back", "transactional", "control", "header_only", "with_producer", "log_append_time",
    "with_delete_horizon", "aborts", "commits", "other_control",
)  # fmt: skip
"""Names of the first columns of a tally. ``gaps`` are runs of offsets that no record has (none behind a negative one),
``steps_back`` records whose offset is not above the one before."""

FORM_COLUMNS = ("batches", "records", "bytes", "packed", "unpacked")
"""Of each format (v0, v1, v2, 0.7) and codec: bytes in the file, those of the records there, and of them unpacked."""

DISTRIBUTIONS = ("batch_sizes", "record_counts", "key_sizes", "value_sizes")

FORMATS, CODECS = 4, 8

# Compiled, these are an enum of tally.pxd.
if not cython.compiled:
    BATCHES, RECORDS, CONTROL_RECORDS, NULL_KEYS, NULL_VALUES, TOMBSTONES = 0, 1, 2, 3, 4, 5
    WITH_HEADERS, HEADERS, WITH_TIMESTAMP, LEAST_TIMESTAMP, LARGEST_TIMESTAMP = 6, 7, 8, 9, 10
    HAS_OFFSET, FIRST_OFFSET, LAST_OFFSET, GAPS, MISSING_OFFSETS, STEPS_BACK = 11, 12, 13, 14, 15, 16
    TRANSACTIONAL, CONTROL, HEADER_ONLY, WITH_PRODUCER, LOG_APPEND_TIME, WITH_DELETE_HORIZON = 17, 18, 19, 20, 21, 22
    ABORTS, COMMITS, OTHER_CONTROL = 23, 24, 25
    FORM_ROW, FORM_WIDTH, FORM_BATCHES, FORM_RECORDS, FORM_BYTES, FORM_PACKED, FORM_UNPACKED = 40, 5, 0, 1, 2, 3, 4
    BATCH_SIZES, RECORD_COUNTS, KEY_SIZES, VALUE_SIZES = 0, 1, 2, 3
    SIZE_COUNT, SIZE_SUM, SIZE_LEAST, SIZE_LARGEST, SIZE_BUCKETS, SIZE_WIDTH = 0, 1, 2, 3, 4, 2048
    FORMS, SIZES, TALLY_WIDTH = 32, 192, 8384

LARGEST = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)


def layout() -> tuple[int, int, int, int]:
    """Columns of a tally: where FORMS and SIZES begin, how wide one distribution is, and the whole."""
    return FORMS, SIZES, SIZE_WIDTH, TALLY_WIDTH


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def note_size(tally: cython.pointer[cython.longlong], which: cython.Py_ssize_t, size: cython.longlong) -> cython.void:
    at: cython.Py_ssize_t = SIZES + which * SIZE_WIDTH
    e: cython.int = 0
    if size < 0:
        size = 0
    if tally[at + SIZE_COUNT] == 0 or size < tally[at + SIZE_LEAST]:
        tally[at + SIZE_LEAST] = size
    if size > tally[at + SIZE_LARGEST]:
        tally[at + SIZE_LARGEST] = size
    tally[at + SIZE_COUNT] += 1
    tally[at + SIZE_SUM] += size
    while size >> e >= 64:
        e += 1
    tally[at + SIZE_BUCKETS + 32 * e + (size >> e)] += 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def note_offset(tally: cython.pointer[cython.longlong], offset: cython.longlong) -> cython.void:
    last: cython.longlong = tally[LAST_OFFSET]
    if not tally[HAS_OFFSET]:
        tally[HAS_OFFSET] = 1
        tally[FIRST_OFFSET] = offset
    elif offset <= last:
        tally[STEPS_BACK] += 1
    elif offset - 1 != last and last >= 0:
        tally[GAPS] += 1
        if offset - last <= LARGEST - tally[MISSING_OFFSETS]:
            tally[MISSING_OFFSETS] += offset - last - 1
        else:
            tally[MISSING_OFFSETS] = LARGEST
    tally[LAST_OFFSET] = offset


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def note_record(
    p: cython.pointer[cython.const[cython.uchar]],
    tally: cython.pointer[cython.longlong],
    keys: cython.pointer[cython.longlong],
    key: cython.Py_ssize_t,
    key_size: cython.longlong,
    value_size: cython.longlong,
    headers: cython.longlong,
) -> cython.void:
    """What a record that is no control record holds; sizes are -1 for null."""
    tally[RECORDS] += 1
    if key_size < 0:
        tally[NULL_KEYS] += 1
    else:
        note_size(tally, KEY_SIZES, key_size)
        note_hash(keys, hash_of(p, key, key_size))
    if value_size < 0:
        tally[NULL_VALUES] += 1
        if key_size >= 0:
            tally[TOMBSTONES] += 1
    else:
        note_size(tally, VALUE_SIZES, value_size)
    if headers > 0:
        tally[WITH_HEADERS] += 1
        tally[HEADERS] += headers


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def note_timestamp(tally: cython.pointer[cython.longlong], timestamp: cython.longlong) -> cython.void:
    if timestamp < 0:
        return
    if tally[WITH_TIMESTAMP] == 0 or timestamp < tally[LEAST_TIMESTAMP]:
        tally[LEAST_TIMESTAMP] = timestamp
    if timestamp > tally[LARGEST_TIMESTAMP]:
        tally[LARGEST_TIMESTAMP] = timestamp
    tally[WITH_TIMESTAMP] += 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def note_rows(
    p: cython.pointer[cython.const[cython.uchar]],
    rows: cython.pointer[cython.const[cython.longlong]],
    count: cython.longlong,
    tally: cython.pointer[cython.longlong],
    keys: cython.pointer[cython.longlong],
    is_control: cython.bint,
    has_offsets: cython.bint,
) -> cython.void:
    i: cython.longlong
    row: cython.Py_ssize_t
    kind: cython.int
    for i in range(count):
        row = i * ROW_WIDTH
        if has_offsets:
            note_offset(tally, rows[row + ROW_OFFSET])
        note_timestamp(tally, rows[row + ROW_TIMESTAMP])
        if not is_control:
            note_record(
                p,
                tally,
                keys,
                rows[row + ROW_KEY],
                rows[row + ROW_KEY_SIZE],
                rows[row + ROW_VALUE_SIZE],
                rows[row + ROW_HEADER_COUNT],
            )
            continue
        tally[CONTROL_RECORDS] += 1
        kind = be16(p, rows[row + ROW_KEY] + 2) if rows[row + ROW_KEY_SIZE] >= 4 else -1
        tally[ABORTS + kind if kind == 0 or kind == 1 else OTHER_CONTROL] += 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def note_batch(
    p: cython.pointer[cython.const[cython.uchar]],
    at: cython.Py_ssize_t,
    size: cython.longlong,
    magic: cython.int,
    tally: cython.pointer[cython.longlong],
    producers: cython.pointer[cython.longlong],
) -> cython.void:
    """What the frame at p[at] tells without its records; ``magic`` -7 stands for 0.7."""
    attributes: cython.int
    producer: cython.longlong
    form: cython.Py_ssize_t = 3
    codec: cython.int
    tally[BATCHES] += 1
    note_size(tally, BATCH_SIZES, size)
    if magic == -7:
        codec = p[at + 5] & 3 if p[at + 4] else 0
    elif magic < 2:
        codec = p[at + 17] & 7
        form = magic
        if magic == 1 and p[at + 17] & 8:
            tally[LOG_APPEND_TIME] += 1
    else:
        form = 2
        attributes = p[at + 22]
        codec = attributes & 7
        if attributes & 8:
            tally[LOG_APPEND_TIME] += 1
        if attributes & 16:
            tally[TRANSACTIONAL] += 1
        if attributes & 32:
            tally[CONTROL] += 1
        if attributes & 64:
            tally[WITH_DELETE_HORIZON] += 1
        if be32(p, at + 57) == 0:
            tally[HEADER_ONLY] += 1
        producer = be64(p, at + 43)
        if producer >= 0:
            tally[WITH_PRODUCER] += 1
            note_hash(producers, mixed(cython.cast(cython.ulonglong, producer)))
    form = FORMS + form * FORM_ROW + codec * FORM_WIDTH
    tally[form + FORM_BATCHES] += 1
    tally[form + FORM_BYTES] += size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def note_plain(
    tally: cython.pointer[cython.longlong], form: cython.Py_ssize_t, records: cython.longlong, size: cython.longlong
) -> cython.void:
    """Records of a batch that is not compressed, and the bytes they take."""
    form = FORMS + form * FORM_ROW
    tally[form + FORM_RECORDS] += records
    tally[form + FORM_PACKED] += size
    tally[form + FORM_UNPACKED] += size
    note_size(tally, RECORD_COUNTS, records)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def note_message(
    p: cython.pointer[cython.const[cython.uchar]],
    at: cython.Py_ssize_t,
    size: cython.longlong,
    magic: cython.int,
    tally: cython.pointer[cython.longlong],
    producers: cython.pointer[cython.longlong],
    keys: cython.pointer[cython.longlong],
) -> cython.int:
    """A v0 or v1 message that is not compressed."""
    key: cython.Py_ssize_t = 18 + 8 * magic
    key_size: cython.longlong
    value: cython.Py_ssize_t
    value_size: cython.longlong
    if p[at + 17] & 7 or size < key + 8:
        return 1
    key_size = be32(p, at + key)
    key += 4
    if key_size > size - key - 4:
        return 1
    value = key + (key_size if key_size > 0 else 0)
    value_size = be32(p, at + value)
    value += 4
    if value_size > size - value:
        return 1
    note_batch(p, at, size, magic, tally, producers)
    note_offset(tally, be64(p, at))
    if magic == 1:
        note_timestamp(tally, be64(p, at + 18))
    note_record(p, tally, keys, at + key, key_size, value_size, 0)
    note_plain(tally, magic, 1, size)
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def note_frame(
    p: cython.pointer[cython.const[cython.uchar]],
    frame: cython.pointer[cython.const[cython.longlong]],
    v07: cython.bint,
    tally: cython.pointer[cython.longlong],
    producers: cython.pointer[cython.longlong],
    keys: cython.pointer[cython.longlong],
    rows: cython.pointer[cython.longlong],
    row_capacity: cython.Py_ssize_t,
    headers: cython.pointer[cython.longlong],
    header_capacity: cython.Py_ssize_t,
) -> cython.int:
    batch: cython.longlong[8]
    cursor: cython.longlong[8]
    at: cython.Py_ssize_t = frame[FRAME_POSITION]
    size: cython.longlong = frame[FRAME_SIZE]
    magic: cython.int = frame[FRAME_MAGIC]
    if not frame[FRAME_STATE] & 1:
        return 1
    if v07:
        if magic and p[at + 5] & 3:
            return 1
        note_batch(p, at, size, -7, tally, producers)
        note_record(p, tally, keys, 0, -1, size - 9 - magic, 0)
        note_plain(tally, 3, 1, size)
        return 0
    if magic < 2:
        return note_message(p, at, size, magic, tally, producers, keys)
    if magic > 2 or p[at + 22] & 7 or be32(p, at + 57) > row_capacity or (size != 61 and be32(p, at + 57) == 0):
        return 1
    if not cython.compiled:
        batch, cursor = [0] * 8, [0] * 8
    batch[0] = be32(p, at + 57)
    batch[1] = be64(p, at)
    batch[2] = be64(p, at + 27)
    batch[3] = be64(p, at + 35)
    batch[4] = (p[at + 22] >> 3) & 1
    batch[5] = be32(p, at + 53)
    batch[6] = be32(p, at + 23)
    cursor[0] = 0
    cursor[1] = at + 61
    cursor[2] = 0
    cursor[3] = 0
    cursor[4] = 0
    cursor[5] = -1
    cursor[6] = 0
    if read_records(p, at + size, cursor, batch, rows, row_capacity, headers, header_capacity):
        return 1
    note_batch(p, at, size, magic, tally, producers)
    if batch[0] > 0:
        note_rows(p, rows, cursor[2], tally, keys, p[at + 22] & 32, True)
    note_plain(tally, 2, cursor[2], size - 61)
    return 0


def add_frames(
    buffer: cython.const[cython.uchar][::1],
    frames: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    v07: cython.bint,
    tally: cython.longlong[::1],
    producers: cython.longlong[::1],
    keys: cython.longlong[::1],
    rows: cython.longlong[::1],
    headers: cython.longlong[::1],
) -> int:
    """Counts frames [first, stop) and the records in them; the number of the first that is not plain, or ``stop``.

    Not plain, and not counted: compressed, a wrong CRC, records that do not decode or are more than ``rows`` has room
    for, bytes behind a header that counts no records.
    """
    i: cython.Py_ssize_t = first
    if cython.compiled:
        check_buffers(tally, producers)
        check_buffers(tally, keys)
        if len(rows) < ROW_WIDTH or len(headers) < HEADER_WIDTH or stop * FRAME_WIDTH > len(frames):
            raise ValueError("a buffer is too short")
        if first < 0 or first >= stop:
            return stop
        if not frames_fit(len(buffer), frames, first, stop):
            raise ValueError("a frame is not in the buffer")
        with cython.nogil:
            while i < stop and not note_frame(
                cython.address(buffer[0]),
                cython.address(frames[i * FRAME_WIDTH]),
                v07,
                cython.address(tally[0]),
                cython.address(producers[0]),
                cython.address(keys[0]),
                cython.address(rows[0]),
                rows.shape[0] // ROW_WIDTH,
                cython.address(headers[0]),
                headers.shape[0] // HEADER_WIDTH,
            ):
                i += 1
        return i
    else:
        while i < stop and not note_frame(
            buffer, frames[i * FRAME_WIDTH : (i + 1) * FRAME_WIDTH], v07, tally, producers, keys,
            rows, len(rows) // ROW_WIDTH, headers, len(headers) // HEADER_WIDTH,
        ):  # fmt: skip
            i += 1
        return i


def add_batch(
    data: cython.const[cython.uchar][::1],
    magic: cython.int,
    tally: cython.longlong[::1],
    producers: cython.longlong[::1],
) -> None:
    """Counts one batch without its records; ``data`` begins with its header, ``magic`` is 0, 1, 2 or -7 for 0.7."""
    if len(data) < (61 if magic == 2 else 9 if magic == -7 else 26) or magic > 2 or (magic < 0 and magic != -7):
        raise ValueError("no batch of this magic")
    if cython.compiled:
        check_buffers(tally, producers)
        note_batch(cython.address(data[0]), 0, len(data), magic, cython.address(tally[0]), cython.address(producers[0]))
    else:
        note_batch(data, 0, len(data), magic, tally, producers)


def add_rows(
    payload: cython.const[cython.uchar][::1],
    rows: cython.const[cython.longlong][::1],
    count: cython.Py_ssize_t,
    tally: cython.longlong[::1],
    keys: cython.longlong[::1],
    is_control: cython.bint,
    has_offsets: cython.bint,
) -> None:
    """Counts records by their rows over ``payload``; without ``has_offsets`` (0.7) their offsets are left out."""
    if count <= 0 or len(payload) == 0:
        return
    if cython.compiled:
        check_buffers(tally, keys)
        if count * ROW_WIDTH > len(rows):
            raise ValueError("a buffer is too short")
        with cython.nogil:
            note_rows(
                cython.address(payload[0]),
                cython.address(rows[0]),
                count,
                cython.address(tally[0]),
                cython.address(keys[0]),
                is_control,
                has_offsets,
            )
    else:
        note_rows(payload, rows, count, tally, keys, is_control, has_offsets)


def add_size(tally: cython.longlong[::1], which: cython.Py_ssize_t, size: cython.longlong) -> None:
    """Adds a number to one of the distributions BATCH_SIZES, RECORD_COUNTS, KEY_SIZES, VALUE_SIZES."""
    if len(tally) < TALLY_WIDTH or which < 0 or which > 3:
        raise ValueError("no such distribution")
    note_size(cython.address(tally[0]) if cython.compiled else tally, which, size)


@cython.cfunc
def check_buffers(tally: cython.longlong[::1], distinct: cython.longlong[::1]) -> cython.void:
    if len(tally) < TALLY_WIDTH:
        raise ValueError("a buffer is too short")
    check_distinct(distinct)


@cython.cfunc
def frames_fit(
    length: cython.Py_ssize_t,
    frames: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
) -> cython.bint:
    last: cython.Py_ssize_t = (stop - 1) * FRAME_WIDTH
    return frames[first * FRAME_WIDTH + FRAME_POSITION] >= 0 and (
        frames[last + FRAME_POSITION] + frames[last + FRAME_SIZE] <= length
    )
