"""Counts batches and records for the summary of a segment, in bounded memory.

The caller provides an int64 buffer, ``tally``, of TALLY_WIDTH columns:

    0.. COUNTERS, one column each    FORMS, FORM_WIDTH columns for each format and codec    SIZES, DISTRIBUTIONS
    LARGEST_KEYS, LARGEST_RECORDS: sizes and offsets of the LARGEST_SHOWN largest
    NAMES, a hash table of header keys: NAME_SLOTS rows of NAME_WIDTH columns, of which at most NAME_CAP are used

A row of NAMES has the first NAME_SHOWN bytes of the key as big-endian words, zeros behind them. The headers with other
keys than the first NAME_CAP are only counted.

The columns of a distribution are SIZE_COUNT, SIZE_SUM, SIZE_LEAST, SIZE_LARGEST and its buckets. Each size below 64 has
a bucket of its own. Above, a bucket covers 1/32 of a power of two, so the error of a quantile is at most 1/64.
The functions raise ValueError if a buffer is too short.
"""

import cython
from cython import Py_ssize_t, bint, longlong, ulonglong, void
from cython.cimports.kseg.kernel.records.cursor import FrameCursor, leave, read_rows, use_frames, use_rows

if not cython.compiled:  # kseg._build declares these constants for C
    COUNT, CAP, OVERFLOWED, TABLE_MASK = range(4)
    REGISTERS = 8
    TABLE = 16392
    REGISTER_BITS = 14

    (
        BATCHES, RECORDS, CONTROL_RECORDS, NULL_KEY_RECORDS, NULL_VALUES, TOMBSTONES, WITH_HEADERS, HEADERS,
        WITH_TIMESTAMP, LEAST_TIMESTAMP, LARGEST_TIMESTAMP, HAS_OFFSET, FIRST_OFFSET, LAST_OFFSET, GAPS,
        MISSING_OFFSETS, STEPS_BACK, TRANSACTIONAL_BATCHES, CONTROL_BATCHES, HEADER_ONLY, WITH_PRODUCER,
        APPEND_TIME_BATCHES, WITH_DELETE_HORIZON, ABORTS, COMMITS, OTHER_CONTROL, EMPTY_KEYS, EMPTY_VALUES,
        HEADER_BYTES, WITH_BASE_TIMESTAMP, LEAST_BASE_TIMESTAMP, OTHER_HEADERS, OTHER_HEADER_BYTES, HEADER_KEYS_HELD
    ) = range(34)  # fmt: skip
    # Formats v0, v1, v2 and 0.7. A count of forms has batches and bytes for each codec of each format.
    FORMATS = 4
    CODECS = 8
    FORMS_WIDTH = 64
    FORM_ROW = 40
    FORM_WIDTH = 5
    FORM_BATCHES, FORM_RECORDS, FORM_BYTES, FORM_PACKED, FORM_UNPACKED = range(5)
    BATCH_SIZES, RECORD_COUNTS, KEY_SIZES, VALUE_SIZES = range(4)
    SIZE_COUNT, SIZE_SUM, SIZE_LEAST, SIZE_LARGEST, SIZE_BUCKETS = range(5)
    SIZE_WIDTH = 2048
    LARGEST_SHOWN = 5
    LARGEST_WIDTH = 2
    LARGEST_SIZE = 0
    LARGEST_OFFSET = 1
    NAME_HASH, NAME_COUNT, NAME_BYTES, NAME_SIZE, NAME_WORDS = range(5)
    NAME_WIDTH = 12
    NAME_SLOTS = 2048
    NAME_CAP = 1024
    NAME_SHOWN = 64
    FORMS = 40
    SIZES = 200
    LARGEST_KEYS = 8392
    LARGEST_RECORDS = 8402
    NAMES = 8412
    TALLY_WIDTH = 32988

# Distinct keys and producer ids are counted by their 64-bit hashes. ``distinct`` (int64) is exact as long as at most
# CAP hashes were met; beyond, the 16384 registers of a HyperLogLog estimate (Flajolet and others, 2007; standard error
# 0.8 %). Columns: COUNT of hashes held, CAP, OVERFLOWED, TABLE_MASK, from REGISTERS on the registers, then the table.

MIX_A = cython.declare(ulonglong, 0x9E3779B97F4A7C15)
MIX_B = cython.declare(ulonglong, 0xD6E8FEB86659FD93)


def add(distinct: Int64sOut, value: BytesIn) -> None:
    """Counts one value."""
    add_hash(distinct_out(distinct), hash_of(bytes_in(value), 0, len(value)))


def mixed(h: ulonglong) -> ulonglong:
    """Spreads 64 bits over 64 bits, one to one."""
    h ^= h >> 32
    h = cython.cast(ulonglong, h * MIX_B)
    h ^= h >> 29
    h = cython.cast(ulonglong, h * MIX_A)
    return h ^ (h >> 32)


def hash_of(p: Bytes, i: Py_ssize_t, size: longlong) -> ulonglong:
    h: ulonglong = cython.cast(ulonglong, size)
    tail: ulonglong = 0
    end: Py_ssize_t = i + size
    while end - i >= 8:
        h = cython.cast(ulonglong, mixed(h ^ cython.cast(ulonglong, be64(p, i))) + MIX_A)
        i += 8
    while i < end:
        tail = tail << 8 | p[i]
        i += 1
    return mixed(h ^ tail)


def add_hash(distinct: OutColumns, h: ulonglong) -> void:
    rank: longlong = 1
    register: Py_ssize_t = cython.cast(Py_ssize_t, h >> (64 - REGISTER_BITS)) + REGISTERS
    rest: ulonglong = h
    while rank <= 64 - REGISTER_BITS and not (rest >> (64 - REGISTER_BITS - rank)) & 1:
        rank += 1
    if rank > distinct[register]:
        distinct[register] = rank
    if distinct[OVERFLOWED]:
        return
    if h == 0:
        h = 1
    signed = cython.cast(longlong, h)
    at = signed & distinct[TABLE_MASK]
    while True:
        held = distinct[TABLE + at]
        if held == signed:
            return
        if held == 0:
            break
        at = (at + 1) & distinct[TABLE_MASK]
    if distinct[COUNT] >= distinct[CAP]:
        distinct[OVERFLOWED] = 1
        return
    distinct[TABLE + at] = signed
    distinct[COUNT] += 1


def distinct_out(distinct):
    """Raises ValueError if hashes could be written outside the buffer, or if no slot would stay free."""
    if len(distinct) < TABLE or distinct[TABLE_MASK] < 0 or distinct[CAP] > distinct[TABLE_MASK]:
        raise ValueError("a table has too few slots")
    return int64s_out(distinct, TABLE + distinct[TABLE_MASK] + 1)


COUNTERS = (
    "batches", "records", "control_records", "null_keys", "null_values", "tombstones", "with_headers", "headers",
    "with_timestamp", "least_timestamp", "largest_timestamp", "has_offset", "first_offset", "last_offset", "gaps",
    "missing_offsets", "steps_back", "transactional", "control", "header_only", "with_producer", "log_append_time",
    "with_delete_horizon", "aborts", "commits", "other_control", "empty_keys", "empty_values", "header_bytes",
    "with_base_timestamp", "least_base_timestamp", "other_headers", "other_header_bytes", "header_keys_held",
)  # fmt: skip
"""Names of the first columns of a tally. ``header_bytes``: of keys and values. ``least_base_timestamp``: of the headers
of v1 and v2, but delete horizons. ``other_headers``: those without a row in NAMES. ``gaps``: ranges of missing offsets
(none is counted after a negative offset); ``steps_back``: records whose offset is not larger than the previous one."""

FORM_COLUMNS = ("batches", "records", "bytes", "packed", "unpacked")
"""Columns for each format (v0, v1, v2, 0.7) and codec. ``bytes``: size of the batches in the file; ``packed``: size of
their records there; ``unpacked``: size of the decompressed records."""

DISTRIBUTIONS = ("batch_sizes", "record_counts", "key_sizes", "value_sizes")

# The magic that represents format 0.7, and the row of this format in FORMS.
MAGIC_07 = cython.declare(cython.int, -7)
FORM_07 = cython.declare(Py_ssize_t, 3)


def largest_of(tally: Int64sOut, of_records: bool) -> list[tuple[int, int]]:
    """Returns size and offset of the largest records or keys, the largest first; the offset is -1 in format 0.7.

    The size of a record is that of its key, value and headers. Raises ValueError if the buffer is too short.
    """
    check_length(len(tally), TALLY_WIDTH)
    first = LARGEST_RECORDS if of_records else LARGEST_KEYS
    columns = range(first, first + LARGEST_SHOWN * LARGEST_WIDTH, LARGEST_WIDTH)
    return [(tally[at], tally[at + LARGEST_OFFSET]) for at in columns if tally[at]]


def header_keys(tally: Int64sOut) -> list[tuple[bytes, int, int, int]]:
    """Returns the first 64 bytes of each header key, its size, the number of its headers, and the bytes of these.

    Raises ValueError if the buffer is too short.
    """
    found = []
    check_length(len(tally), TALLY_WIDTH)
    for slot in range(NAME_SLOTS):
        at = NAMES + slot * NAME_WIDTH
        if tally[at + NAME_COUNT]:
            words = [tally[at + NAME_WORDS + i] & 0xFFFFFFFFFFFFFFFF for i in range(NAME_SHOWN // 8)]
            shown = b"".join([word.to_bytes(8, "big") for word in words])
            size = tally[at + NAME_SIZE]
            found.append((shown[:size], size, tally[at + NAME_COUNT], tally[at + NAME_BYTES]))
    return found


def count_size(tally: OutColumns, which: Py_ssize_t, size: longlong) -> void:
    at: Py_ssize_t = SIZES + which * SIZE_WIDTH
    e: cython.int = 0
    size = max(size, 0)
    if tally[at + SIZE_COUNT] == 0 or size < tally[at + SIZE_LEAST]:
        tally[at + SIZE_LEAST] = size
    if size > tally[at + SIZE_LARGEST]:
        tally[at + SIZE_LARGEST] = size
    tally[at + SIZE_COUNT] += 1
    tally[at + SIZE_SUM] += size
    while size >> e >= 64:
        e += 1
    tally[at + SIZE_BUCKETS + 32 * e + (size >> e)] += 1


def count_offset(tally: OutColumns, offset: longlong) -> void:
    last: longlong = tally[LAST_OFFSET]
    if not tally[HAS_OFFSET]:
        tally[HAS_OFFSET] = 1
        tally[FIRST_OFFSET] = offset
    elif offset <= last:
        tally[STEPS_BACK] += 1
    elif offset - 1 != last and last >= 0:
        tally[GAPS] += 1
        if offset - last <= INT64_MAX - tally[MISSING_OFFSETS]:
            tally[MISSING_OFFSETS] += offset - last - 1
        else:
            tally[MISSING_OFFSETS] = INT64_MAX
    tally[LAST_OFFSET] = offset


def put_largest(tally: OutColumns, at: Py_ssize_t, size: longlong, offset: longlong) -> void:
    """Inserts a size that is larger than the last of the sizes at column ``at``."""
    end: Py_ssize_t = at + (LARGEST_SHOWN - 1) * LARGEST_WIDTH
    while end > at and tally[end - LARGEST_WIDTH] < size:
        tally[end] = tally[end - LARGEST_WIDTH]
        tally[end + LARGEST_OFFSET] = tally[end - LARGEST_WIDTH + LARGEST_OFFSET]
        end -= LARGEST_WIDTH
    tally[end] = size
    tally[end + LARGEST_OFFSET] = offset


def count_record(
    p: Bytes, tally: OutColumns, keys: OutColumns, key: Py_ssize_t, key_size: longlong, value_size: longlong,
    header_bytes: longlong, offset: longlong,
) -> void:  # fmt: skip
    """Counts a record that is not a control record; the size of a null key or value is -1."""
    size: longlong = header_bytes
    tally[RECORDS] += 1
    if key_size < 0:
        tally[NULL_KEY_RECORDS] += 1
    else:
        size += key_size
        count_size(tally, KEY_SIZES, key_size)
        add_hash(keys, hash_of(p, key, key_size))
        tally[EMPTY_KEYS] += key_size == 0
        if key_size > tally[LARGEST_KEYS + (LARGEST_SHOWN - 1) * LARGEST_WIDTH]:
            put_largest(tally, LARGEST_KEYS, key_size, offset)
    if value_size < 0:
        tally[NULL_VALUES] += 1
        tally[TOMBSTONES] += key_size >= 0
    else:
        size += value_size
        count_size(tally, VALUE_SIZES, value_size)
        tally[EMPTY_VALUES] += value_size == 0
    if size > tally[LARGEST_RECORDS + (LARGEST_SHOWN - 1) * LARGEST_WIDTH]:
        put_largest(tally, LARGEST_RECORDS, size, offset)


def word_at(p: Bytes, i: Py_ssize_t, left: longlong) -> longlong:
    """The next 8 of ``left`` bytes as one big-endian word; zeros follow the last byte."""
    word: ulonglong = 0
    if left >= 8:
        return be64(p, i)
    for k in range(left):
        word |= cython.cast(ulonglong, p[i + k]) << (56 - 8 * k)
    return cython.cast(longlong, word)


def is_name(p: Bytes, key: Py_ssize_t, size: longlong, tally: Columns, at: Py_ssize_t) -> bint:
    """Whether the row of NAMES at column ``at`` has this size and these first bytes."""
    if tally[at + NAME_SIZE] != size:
        return False
    for k in range(0, min(size, NAME_SHOWN), 8):
        if tally[at + NAME_WORDS + (k >> 3)] != word_at(p, key + k, size - k):
            return False
    return True


def count_name(p: Bytes, key: Py_ssize_t, size: longlong, total: longlong, tally: OutColumns) -> void:
    """Counts a header of ``total`` bytes by its key."""
    h: ulonglong = hash_of(p, key, size)
    hashed: longlong = cython.cast(longlong, h >> 1)
    slot: Py_ssize_t = cython.cast(Py_ssize_t, h & (NAME_SLOTS - 1))
    at: Py_ssize_t = NAMES + slot * NAME_WIDTH
    while tally[at + NAME_COUNT]:
        if tally[at + NAME_HASH] == hashed and is_name(p, key, size, tally, at):
            tally[at + NAME_COUNT] += 1
            tally[at + NAME_BYTES] += total
            return
        slot = (slot + 1) & (NAME_SLOTS - 1)
        at = NAMES + slot * NAME_WIDTH
    if tally[HEADER_KEYS_HELD] >= NAME_CAP:
        tally[OTHER_HEADERS] += 1
        tally[OTHER_HEADER_BYTES] += total
        return
    tally[HEADER_KEYS_HELD] += 1
    tally[at + NAME_HASH] = hashed
    tally[at + NAME_COUNT] = 1
    tally[at + NAME_BYTES] = total
    tally[at + NAME_SIZE] = size
    for k in range(0, min(size, NAME_SHOWN), 8):
        tally[at + NAME_WORDS + (k >> 3)] = word_at(p, key + k, size - k)


def count_headers(p: Bytes, headers: Columns, first: Py_ssize_t, count: longlong, tally: OutColumns) -> longlong:
    """Counts ``count`` headers of a record from row ``first`` on. Returns the bytes of their keys and values."""
    at: Py_ssize_t = first * HEADER_WIDTH
    total: longlong = 0
    for _ in range(count):
        size = headers[at + HEADER_KEY_SIZE] + max(headers[at + HEADER_VALUE_SIZE], 0)
        count_name(p, headers[at + HEADER_KEY], headers[at + HEADER_KEY_SIZE], size, tally)
        total += size
        at += HEADER_WIDTH
    tally[WITH_HEADERS] += 1
    tally[HEADERS] += count
    tally[HEADER_BYTES] += total
    return total


def count_timestamp(tally: OutColumns, count: Py_ssize_t, timestamp: longlong) -> void:
    """Counts a timestamp in column ``count``; the next one has the least."""
    if timestamp < 0:
        return
    if tally[count] == 0 or timestamp < tally[count + 1]:
        tally[count + 1] = timestamp
    tally[count] += 1


def count_rows(
    p: Bytes, rows: Columns, headers: Columns, count: longlong, tally: OutColumns, keys: OutColumns, is_control: bint,
    has_offsets: bint,
) -> void:  # fmt: skip
    for i in range(count):
        row = i * ROW_WIDTH
        if has_offsets:
            count_offset(tally, rows[row + ROW_OFFSET])
        count_timestamp(tally, WITH_TIMESTAMP, rows[row + ROW_TIMESTAMP])
        tally[LARGEST_TIMESTAMP] = max(tally[LARGEST_TIMESTAMP], rows[row + ROW_TIMESTAMP])
        if not is_control:
            in_headers = 0
            if rows[row + ROW_HEADER_COUNT] > 0:
                in_headers = count_headers(p, headers, rows[row + ROW_HEADERS], rows[row + ROW_HEADER_COUNT], tally)
            count_record(
                p, tally, keys, rows[row + ROW_KEY], rows[row + ROW_KEY_SIZE], rows[row + ROW_VALUE_SIZE], in_headers,
                rows[row + ROW_OFFSET] if has_offsets else -1,
            )  # fmt: skip
            continue
        tally[CONTROL_RECORDS] += 1
        kind = be16(p, rows[row + ROW_KEY] + 2) if rows[row + ROW_KEY_SIZE] >= 4 else -1
        tally[ABORTS + kind if kind == 0 or kind == 1 else OTHER_CONTROL] += 1


def count_batch(
    p: Bytes, at: Py_ssize_t, size: longlong, magic: cython.int, tally: OutColumns, producers: OutColumns
) -> void:
    """Counts the header of the batch at p[at]; ``magic`` is MAGIC_07 for format 0.7."""
    form: Py_ssize_t = FORM_07
    tally[BATCHES] += 1
    count_size(tally, BATCH_SIZES, size)
    if magic == MAGIC_07:
        codec = p[at + V07_ATTRIBUTES] & V07_CODEC if p[at + V07_MAGIC] else 0
    elif magic < MAGIC_V2:
        codec = p[at + LEGACY_FLAGS] & CODEC
        form = magic
        if magic == 1:
            tally[APPEND_TIME_BATCHES] += (p[at + LEGACY_FLAGS] & LOG_APPEND_TIME) != 0
            count_timestamp(tally, WITH_BASE_TIMESTAMP, be64(p, at + V1_TIMESTAMP))
    else:
        form = 2
        attributes = p[at + V2_FLAGS]
        codec = attributes & CODEC
        tally[APPEND_TIME_BATCHES] += (attributes & LOG_APPEND_TIME) != 0
        tally[TRANSACTIONAL_BATCHES] += (attributes & TRANSACTIONAL) != 0
        tally[CONTROL_BATCHES] += (attributes & CONTROL) != 0
        tally[WITH_DELETE_HORIZON] += (attributes & DELETE_HORIZON) != 0
        tally[HEADER_ONLY] += be32(p, at + V2_COUNT) == 0
        if be32(p, at + V2_COUNT) > 0 and not attributes & DELETE_HORIZON:
            count_timestamp(tally, WITH_BASE_TIMESTAMP, be64(p, at + V2_BASE_TIMESTAMP))
        producer = be64(p, at + V2_PRODUCER_ID)
        if producer >= 0:
            tally[WITH_PRODUCER] += 1
            add_hash(producers, mixed(cython.cast(ulonglong, producer)))
    form = FORMS + form * FORM_ROW + codec * FORM_WIDTH
    tally[form + FORM_BATCHES] += 1
    tally[form + FORM_BYTES] += size


def count_area(tally: OutColumns, form: Py_ssize_t, records: longlong, size: longlong) -> void:
    """Counts the records of an uncompressed batch and their bytes."""
    form = FORMS + form * FORM_ROW
    tally[form + FORM_RECORDS] += records
    tally[form + FORM_PACKED] += size
    tally[form + FORM_UNPACKED] += size
    count_size(tally, RECORD_COUNTS, records)


def count_frame(
    cursor: FrameCursor, v07: bint, tally: OutColumns, producers: OutColumns, keys: OutColumns
) -> cython.int:
    """Counts the next batch. Returns DONE or NOT_PLAIN."""
    p: Bytes = cursor.p
    row: Py_ssize_t = cursor.frame * FRAME_WIDTH
    at: Py_ssize_t = cursor.frames[row + FRAME_POSITION]
    size: longlong = cursor.frames[row + FRAME_SIZE]
    magic: cython.int = cython.cast(cython.int, cursor.frames[row + FRAME_MAGIC])
    if v07:
        if not cursor.frames[row + FRAME_STATE] & CRC_RIGHT or (magic and p[at + V07_ATTRIBUTES] & V07_CODEC):
            return NOT_PLAIN
        count_batch(p, at, size, MAGIC_07, tally, producers)
        count_record(p, tally, keys, 0, -1, size - V07_MIN_BYTES - magic, 0, -1)
        count_area(tally, FORM_07, 1, size)
        cursor.frame += 1
        return DONE
    cursor.table.row_count = cursor.table.header_count = 0
    if read_rows(cursor) != DONE:
        return NOT_PLAIN
    count = cursor.table.row_count
    if count < cursor.area.header.count:
        cursor.is_open = False
        return NOT_PLAIN
    count_batch(p, at, size, magic, tally, producers)
    count_rows(
        cursor.area.payload, cursor.table.rows, cursor.table.headers, count, tally, keys,
        magic == MAGIC_V2 and (p[at + V2_FLAGS] & CONTROL) != 0, True,
    )  # fmt: skip
    if magic == MAGIC_V2:
        size -= V2_HEADER_BYTES
    count_area(tally, magic, count, size)
    leave(cursor, count)
    return DONE


def add_frames(
    buffer: BytesIn,
    frames: Int64sIn,
    first: Py_ssize_t,
    stop: Py_ssize_t,
    v07: bint,
    tally: Int64sOut,
    producers: Int64sOut,
    keys: Int64sOut,
    rows: Int64sOut,
    headers: Int64sOut,
) -> int:
    """Counts frames [first, stop) and their records. Returns the first frame that is not plain, or ``stop``.

    A batch is not plain, and not counted, if `kseg.kernel.records.cursor` says so or its records do not fit into
    ``rows``.
    """
    status: cython.int = DONE
    cursor: FrameCursor = FrameCursor(first)
    counted, seen, known = int64s_out(tally, TALLY_WIDTH), distinct_out(producers), distinct_out(keys)
    check_length(len(headers), HEADER_WIDTH)
    use_rows(cursor, rows, headers)
    use_frames(cursor, buffer, frames, stop, FRAME_WIDTH, None, None)
    with cython.nogil:
        while cursor.frame < stop and status == DONE:
            status = count_frame(cursor, v07, counted, seen, known)
    return cursor.frame


def add_batch(data: BytesIn, magic: cython.int, tally: Int64sOut, producers: Int64sOut) -> None:
    """Counts one batch without its records. ``data`` begins with its header; ``magic``: 0, 1, 2, or -7 for 0.7."""
    least: Py_ssize_t = V0_HEADER_BYTES + 8
    if magic == MAGIC_V2 or magic == MAGIC_07:
        least = V2_HEADER_BYTES if magic == MAGIC_V2 else V07_MIN_BYTES
    if len(data) < least or magic > MAGIC_V2 or (magic < 0 and magic != MAGIC_07):
        raise ValueError("no batch of this magic")
    count_batch(bytes_in(data), 0, len(data), magic, int64s_out(tally, TALLY_WIDTH), distinct_out(producers))


def add_rows(
    payload: BytesIn,
    rows: Int64sIn,
    headers: Int64sIn,
    count: Py_ssize_t,
    tally: Int64sOut,
    keys: Int64sOut,
    is_control: bint,
    has_offsets: bint,
) -> None:
    """Counts records from their rows over ``payload``; offsets are counted only if ``has_offsets`` (not in 0.7).

    Raises ValueError if a buffer is too short.
    """
    p, row, header = bytes_in(payload), int64s_in(rows, count * ROW_WIDTH), int64s_in(headers, 1)
    counted, known = int64s_out(tally, TALLY_WIDTH), distinct_out(keys)
    with cython.nogil:
        count_rows(p, row, header, count, counted, known, is_control, has_offsets)


def add_size(tally: Int64sOut, which: Py_ssize_t, size: longlong) -> None:
    """Adds a number to one of the distributions BATCH_SIZES, RECORD_COUNTS, KEY_SIZES, VALUE_SIZES."""
    if which < 0 or which > 3:
        raise ValueError("no such distribution")
    count_size(int64s_out(tally, TALLY_WIDTH), which, size)


# Counts batches by format and codec from their header rows (BATCH_*).


def count_forms(rows: Int64sIn, count: Py_ssize_t, is_07: bint, found: Int64sOut) -> None:
    """Adds the valid batches of ``count`` rows to ``found``, FORMS_WIDTH columns.

    Raises ValueError if a buffer is too short.
    """
    check_length(len(rows), count * BATCH_WIDTH)
    check_length(len(found), FORMS_WIDTH)
    for i in range(count):
        at = i * BATCH_WIDTH
        magic = rows[at + BATCH_MAGIC]
        if rows[at + BATCH_STATE] & CRC_RIGHT and 0 <= magic <= MAGIC_V2:
            to = ((FORM_07 if is_07 else magic) * CODECS + (rows[at + BATCH_ATTRIBUTES] & CODEC)) * 2
            found[to] += 1
            found[to + 1] += rows[at + BATCH_SIZE]
