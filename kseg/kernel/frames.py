"""Frames of a segment: from one length field to the next, with CRCs, and back onto the rails behind damage.

A frame is an entry whose header can be followed. v2 batches and v0/v1 messages start with an int64 offset and an int32
length, 0.7 messages with the length alone; it counts the bytes behind it. Rows of frames: `kseg.kernel.native`.

CRCs of frames that nothing vouches for come out of prefix CRCs: one table entry for each 256 bytes from an anchor on,
filled as far as it is asked for. Any claimed range then costs the same, so that reading stays linear in the file even
where every byte opens a header that claims the rest of it.

``state`` (int64[8], in and out):

    0 NEXT position to read from      1 FRAMES written          2 ANCHOR of the prefix tables, -1: not in use
    3 FILLED entries of the CRC-32C table                       4 FILLED entries of the CRC-32 table
    5 BUDGET of bytes a call, compressed ones eightfold         6 WALK the records (1), believe checksums (2)
    7 RECORDS found right by walks
"""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.kseg.kernel.expand import Room
    from cython.cimports.kseg.kernel.native import (
        FRAME_MAGIC,
        FRAME_POSITION,
        FRAME_SIZE,
        FRAME_STATE,
        FRAME_WIDTH,
        be32,
        be64,
        crc32,
        crc32_range,
        crc32c,
        crc32c_range,
        native_setup,
    )
    from cython.cimports.kseg.kernel.walk import walk_frame

    native_setup()
else:
    from kseg.kernel.expand import Room
    from kseg.kernel.native import (
        FRAME_MAGIC,
        FRAME_POSITION,
        FRAME_SIZE,
        FRAME_STATE,
        FRAME_WIDTH,
        be32,
        be64,
        crc32,
        crc32_range,
        crc32c,
        crc32c_range,
    )
    from kseg.kernel.search import next_candidate
    from kseg.kernel.walk import walk_frame

COMPILED = cython.compiled

DONE, FULL, IRREGULAR = 0, 1, 2
CRC_RIGHT, RECORDS_RIGHT, NULL_KEYS = 1, 2, 4
"""Bits of a frame's STATE. RECORDS_RIGHT, only after a WALK: nothing is wrong with any record; a frame without it has
to be opened to know (`kseg.kernel.walk`). NULL_KEYS, with it: a record has no key."""
COMPRESSED_WEIGHT = cython.declare(cython.longlong, 8)
BLOCK_BYTES = cython.declare(cython.Py_ssize_t, 256)
DIRECT_BYTES_MAX = cython.declare(cython.Py_ssize_t, 1024)
LOW_32_BITS = cython.declare(cython.longlong, 0xFFFFFFFF)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def frame_bytes(
    p: cython.pointer[cython.const[cython.uchar]], i: cython.Py_ssize_t, end: cython.Py_ssize_t, v07: cython.bint
) -> cython.longlong:
    """Bytes of the frame at i if its magic is known and its length holds a header and fits before end; else 0."""
    size: cython.longlong
    magic: cython.int
    if v07:
        if end - i < 9:
            return 0
        magic = p[i + 4]
        size = be32(p, i)
        if magic > 1 or size < 5 + magic or size > end - i - 4:
            return 0
        return size + 4
    if end - i < 26:
        return 0
    magic = p[i + 16]
    if magic > 2:
        return 0
    size = be32(p, i + 8)
    if size > end - i - 12:
        return 0
    if magic == 2:
        return size + 12 if size >= 49 else 0
    return size + 12 if size >= 14 + 8 * magic else 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def prefix_c(
    p: cython.pointer[cython.const[cython.uchar]],
    x: cython.Py_ssize_t,
    table: cython.pointer[cython.uint],
    state: cython.pointer[cython.longlong],
) -> cython.uint:
    """CRC-32C of the bytes from the anchor to x."""
    anchor: cython.Py_ssize_t = state[2]
    k: cython.Py_ssize_t = (x - anchor) // BLOCK_BYTES
    n: cython.Py_ssize_t = state[3]
    while n <= k:
        table[n] = crc32c(table[n - 1], p, anchor + (n - 1) * BLOCK_BYTES, anchor + n * BLOCK_BYTES) if n else 0
        n += 1
    state[3] = n
    return crc32c(table[k], p, anchor + k * BLOCK_BYTES, x)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def prefix_ieee(
    p: cython.pointer[cython.const[cython.uchar]],
    x: cython.Py_ssize_t,
    table: cython.pointer[cython.uint],
    state: cython.pointer[cython.longlong],
) -> cython.uint:
    """CRC-32 of the bytes from the anchor to x."""
    anchor: cython.Py_ssize_t = state[2]
    k: cython.Py_ssize_t = (x - anchor) // BLOCK_BYTES
    n: cython.Py_ssize_t = state[4]
    while n <= k:
        table[n] = crc32(table[n - 1], p, anchor + (n - 1) * BLOCK_BYTES, anchor + n * BLOCK_BYTES) if n else 0
        n += 1
    state[4] = n
    return crc32(table[k], p, anchor + k * BLOCK_BYTES, x)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def crc_is_right(
    p: cython.pointer[cython.const[cython.uchar]],
    i: cython.Py_ssize_t,
    after: cython.Py_ssize_t,
    v07: cython.bint,
    table_c: cython.pointer[cython.uint],
    table_ieee: cython.pointer[cython.uint],
    state: cython.pointer[cython.longlong],
) -> cython.bint:
    """Whether the CRC stored in the frame at i is that of its bytes up to after; its magic is known."""
    stored: cython.longlong
    start: cython.Py_ssize_t
    anchored: cython.bint = state[2] >= 0 and i >= state[2]
    if not v07 and p[i + 16] == 2:
        stored = be32(p, i + 17) & LOW_32_BITS
        start = i + 21
        if anchored and after - start > DIRECT_BYTES_MAX:
            return stored == crc32c_range(
                prefix_c(p, start, table_c, state), prefix_c(p, after, table_c, state), after - start
            )
        return stored == crc32c(0, p, start, after)
    if v07:
        start = i + 9 + p[i + 4]
        stored = be32(p, start - 4) & LOW_32_BITS
    else:
        start = i + 16
        stored = be32(p, i + 12) & LOW_32_BITS
    if anchored and after - start > DIRECT_BYTES_MAX:
        return stored == crc32_range(
            prefix_ieee(p, start, table_ieee, state), prefix_ieee(p, after, table_ieee, state), after - start
        )
    return stored == crc32(0, p, start, after)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def is_compressed(p: cython.pointer[cython.const[cython.uchar]], i: cython.Py_ssize_t) -> cython.bint:
    return (p[i + 22] if p[i + 16] == 2 else p[i + 17]) & 7


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def scan_frames(
    p: cython.pointer[cython.const[cython.uchar]],
    end: cython.Py_ssize_t,
    rows: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    v07: cython.bint,
    table_c: cython.pointer[cython.uint],
    table_ieee: cython.pointer[cython.uint],
    state: cython.pointer[cython.longlong],
    first: cython.Py_ssize_t,
    out: cython.pointer[cython.uchar],
    room_bytes: cython.Py_ssize_t,
    zstd: cython.p_void,
    given_up: cython.Py_ssize_t,
) -> cython.int:
    i: cython.Py_ssize_t = state[0]
    n: cython.Py_ssize_t = first
    found: cython.int
    size: cython.longlong
    row: cython.Py_ssize_t
    weight: cython.longlong = 0
    budget: cython.longlong = state[5]
    status: cython.int = 0
    while i < end:
        if n >= capacity or (budget > 0 and weight >= budget):
            status = 1
            break
        size = frame_bytes(p, i, end, v07)
        if size == 0 or not (
            could_be_frame(p, i, size, v07)
            if state[6] & 2
            else crc_is_right(p, i, i + size, v07, table_c, table_ieee, state)
        ):
            status = 2
            break
        row = n * FRAME_WIDTH
        rows[row + FRAME_POSITION] = i
        rows[row + FRAME_SIZE] = size
        rows[row + FRAME_MAGIC] = p[i + 4] if v07 else p[i + 16]
        rows[row + FRAME_STATE] = 1
        if state[6] & 1 and not v07:
            found = walk_frame(p, i, size, state, out, room_bytes, zstd)
            if found == 1:
                if i != given_up:
                    status = 3
                    break
                found = 0
            rows[row + FRAME_STATE] += found
        n += 1
        weight += size if v07 or not is_compressed(p, i) else size * COMPRESSED_WEIGHT
        i += size
    state[0] = i
    state[1] = n
    return status


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def could_be_frame(
    p: cython.pointer[cython.const[cython.uchar]], i: cython.Py_ssize_t, size: cython.longlong, v07: cython.bint
) -> cython.bint:
    """What is cheap to tell of a frame found by search: fields that no writer ever filled so."""
    fields: cython.Py_ssize_t
    key_size: cython.longlong
    value_size: cython.longlong
    if v07:
        return size > 9 + p[i + 4]
    if be64(p, i) < 0:
        return False
    if p[i + 16] == 2:
        return (
            (p[i + 22] & 7) <= 4
            and be32(p, i + 23) >= 0
            and be64(p, i + 43) >= -1
            and be32(p, i + 53) >= -1
            and be32(p, i + 57) >= 0
        )
    fields = i + 18 + 8 * p[i + 16]
    key_size = be32(p, fields)
    if key_size < 0:
        key_size = 0
    if key_size > i + size - fields - 8:
        return False
    value_size = be32(p, fields + 4 + key_size)
    if value_size < 0:
        value_size = 0
    return fields + 8 + key_size + value_size == i + size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def find_frame(
    p: cython.pointer[cython.const[cython.uchar]],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    v07: cython.bint,
    table_c: cython.pointer[cython.uint],
    table_ieee: cython.pointer[cython.uint],
    state: cython.pointer[cython.longlong],
) -> cython.Py_ssize_t:
    i: cython.Py_ssize_t = start
    magic_at: cython.Py_ssize_t = 4 if v07 else 16
    size: cython.longlong
    if stop > end - magic_at:
        stop = end - magic_at
    while i < stop:
        if cython.compiled:
            if p[i + magic_at] > 2:
                i += 1
                continue
        else:
            i = next_candidate(p, i, stop, v07)
            if i >= stop:
                break
        size = frame_bytes(p, i, end, v07)
        if size and could_be_frame(p, i, size, v07) and crc_is_right(p, i, i + size, v07, table_c, table_ieee, state):
            return i
        i += 1
    return -1


def scan(
    buffer: cython.const[cython.uchar][::1],
    end: cython.Py_ssize_t,
    rows: cython.longlong[::1],
    v07: cython.bint,
    table_c: cython.uint[::1],
    table_ieee: cython.uint[::1],
    state: cython.longlong[::1],
    room: Room = None,
) -> int:
    """Follows intact frames from NEXT, writing frame rows.

    DONE (they end exactly at ``end``), FULL (rows are full or the budget is spent: call again) or IRREGULAR (what is at
    NEXT is no intact frame). Without ``room`` a WALK leaves out frames that are compressed.
    """
    status: cython.int = 3
    first: cython.Py_ssize_t = 0
    given_up: cython.Py_ssize_t = -1
    out: cython.pointer[cython.uchar] = cython.NULL
    room_bytes: cython.Py_ssize_t = 0
    zstd: cython.p_void = cython.NULL
    if cython.compiled:
        check_views(len(buffer), end, len(table_c), len(table_ieee), state)
        if state[0] >= end:
            state[1] = 0
            return 0
        while status == 3:
            if room is not None:
                out, room_bytes, zstd = cython.address(room.out[0]), room.capacity, room.zstd
            with cython.nogil:
                status = scan_frames(
                    cython.address(buffer[0]),
                    end,
                    cython.address(rows[0]),
                    rows.shape[0] // FRAME_WIDTH,
                    v07,
                    cython.address(table_c[0]),
                    cython.address(table_ieee[0]),
                    cython.address(state[0]),
                    first,
                    out,
                    room_bytes,
                    zstd,
                    given_up,
                )
            first = state[1]
            if status == 3 and not room.extend(buffer[state[0] + 22] & 7):
                given_up = state[0]
        if room is not None:
            room.left = count_unproven(rows, state[1])
        return status
    else:
        capacity = len(rows) // FRAME_WIDTH
        status = scan_frames(buffer, end, rows, capacity, v07, table_c, table_ieee, state, 0, None, 0, None, -1)
        if room is not None:
            room.left = count_unproven(rows, state[1])
        return status


@cython.cfunc
@cython.exceptval(check=False)
def count_unproven(rows: cython.longlong[::1], count: cython.Py_ssize_t) -> cython.Py_ssize_t:
    k: cython.Py_ssize_t
    left: cython.Py_ssize_t = 0
    for k in range(count):
        left += not rows[k * FRAME_WIDTH + FRAME_STATE] & 2
    return left


def find(
    buffer: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    v07: cython.bint,
    table_c: cython.uint[::1],
    table_ieee: cython.uint[::1],
    state: cython.longlong[::1],
) -> int:
    """The first position in [start, stop) at which an intact frame begins (its end may lie behind stop), or -1."""
    found: cython.Py_ssize_t
    if cython.compiled:
        check_views(len(buffer), end, len(table_c), len(table_ieee), state)
        if start < 0 or start >= end:
            return -1
        with cython.nogil:
            found = find_frame(
                cython.address(buffer[0]),
                start,
                stop,
                end,
                v07,
                cython.address(table_c[0]),
                cython.address(table_ieee[0]),
                cython.address(state[0]),
            )
        return found
    else:
        return find_frame(buffer, start, stop, end, v07, table_c, table_ieee, state)


@cython.cfunc
def check_views(
    length: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    entries_c: cython.Py_ssize_t,
    entries_ieee: cython.Py_ssize_t,
    state: cython.longlong[::1],
) -> cython.void:
    if end > length or len(state) < 8 or state[0] < 0 or entries_c < 1 or entries_ieee < 1:
        raise ValueError("a buffer is too short")
    if state[2] >= 0 and (end - state[2]) // BLOCK_BYTES >= min(entries_c, entries_ieee):
        raise ValueError("a prefix table is too short")
