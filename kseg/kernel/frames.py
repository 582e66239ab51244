"""Frames of a segment: from one length field to the next, with CRCs, and back onto the rails behind damage.

A frame is an entry whose header can be followed. v2 batches and v0/v1 messages start with an int64 offset and an int32
length, 0.7 messages with the length alone; it counts the bytes behind it. Rows of frames: `kseg.kernel.native`.

A frame whose CRC is wrong is a batch all the same if its length leads somewhere sound: to the end of the file, to an
intact frame, or to a header that goes on from it, with no intact frame before that. Else its length is suspect.

``state`` (int64[8], in and out; int64[22] where there is an ANCHOR or LARGEST):

    0 NEXT position to read from      1 FRAMES written          2 ANCHOR of the prefix tables, -1: not in use
    3 FILLED entries of the CRC-32C table                       4 FILLED entries of the CRC-32 table
    5 BUDGET of bytes a call, compressed ones eightfold; 0: none
    6 WALK the records too (1), believe checksums (2), count compressed bytes twice and not eightfold (4)
    7 RECORDS found right by walks
    8 LAST_OFFSET of the frame before NEXT, -1 unknown
    9 LARGEST bytes that a length may claim where the CRC is wrong; 0, or no ANCHOR: such a frame ends the scan
    10 to 17 NEAR, prefix CRCs computed last, each as a position and a CRC: of a start and of an end, CRC-32C and CRC-32
    18 to 21 SHIFT, for either CRC: of bytes shifted over last, their number / 256 + 1, and the factor for these
"""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.kseg.kernel import search_paths as native_search
    from cython.cimports.kseg.kernel.expand import Room
    from cython.cimports.kseg.kernel.frame_checksums import crc_is_right, tables_reach
    from cython.cimports.kseg.kernel.native import (
        FRAME_MAGIC,
        FRAME_POSITION,
        FRAME_SIZE,
        FRAME_STATE,
        FRAME_WIDTH,
        be32,
        be64,
        crc32c,
        native_setup,
    )
    from cython.cimports.kseg.kernel.plausibility import (
        claimed_bytes,
        compressed_end,
        goes_on,
        last_offset_at,
        last_offset_claimed,
    )
    from cython.cimports.kseg.kernel.search import could_be_frame, frame_bytes
    from cython.cimports.kseg.kernel.search_paths import next_candidate, search_from, search_state
    from cython.cimports.kseg.kernel.walk import walk_frame

    native_setup()
    native_search.search_setup()
else:
    from kseg.kernel.expand import Room
    from kseg.kernel.frame_checksums import crc_is_right, tables_reach
    from kseg.kernel.native import (
        FRAME_MAGIC,
        FRAME_POSITION,
        FRAME_SIZE,
        FRAME_STATE,
        FRAME_WIDTH,
        be32,
        be64,
        crc32c,
        indexable,
    )
    from kseg.kernel.plausibility import claimed_bytes, compressed_end, goes_on, last_offset_at, last_offset_claimed
    from kseg.kernel.search import could_be_frame, frame_bytes, next_candidate, search_from, search_state
    from kseg.kernel.walk import walk_frame

COMPILED = cython.compiled

DONE, FULL, IRREGULAR = 0, 1, 2
STATE_SIZE = 22
CRC_RIGHT, RECORDS_RIGHT, NULL_KEYS = 1, 2, 4
"""Bits of a frame's STATE. RECORDS_RIGHT, only after a WALK: nothing is wrong with any record; a frame without it has
to be opened to know (`kseg.kernel.walk`). NULL_KEYS, with it: a record has no key."""
COMPRESSED_WEIGHT = cython.declare(cython.longlong, 8)
LIGHT_WEIGHT = cython.declare(cython.longlong, 2)
LEAST_BYTES_V2 = cython.declare(cython.Py_ssize_t, 61)
SHORT_TAIL_BYTES = cython.declare(cython.Py_ssize_t, 17)
INT32_MAX = cython.declare(cython.longlong, 0x7FFFFFFF)
LOW_32_BITS = cython.declare(cython.longlong, 0xFFFFFFFF)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def is_compressed(p: cython.pointer[cython.const[cython.uchar]], i: cython.Py_ssize_t) -> cython.bint:
    return (p[i + 22] if p[i + 16] == 2 else p[i + 17]) & 7


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def follow_intact(
    p: cython.pointer[cython.const[cython.uchar]],
    i: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    rows: cython.pointer[cython.longlong],
    n: cython.Py_ssize_t,
    capacity: cython.Py_ssize_t,
    state: cython.pointer[cython.longlong],
    out: cython.pointer[cython.uchar],
    room_bytes: cython.Py_ssize_t,
    zstd: cython.p_void,
) -> cython.Py_ssize_t:
    """Rows from n on of frames of magic 2 from i on, as long as their CRCs are right and there is room to walk them;
    how many rows there are then.

    Of small frames what `scan_frames` could have to look at besides takes as long as their CRCs.
    """
    walks: cython.bint = state[6] & 1
    found: cython.int = 0
    size: cython.longlong
    row: cython.Py_ssize_t = n * FRAME_WIDTH
    while n < capacity and end - i >= LEAST_BYTES_V2 and p[i + 16] == 2:
        size = be32(p, i + 8) + 12
        if size < LEAST_BYTES_V2 or size > end - i or be32(p, i + 17) & LOW_32_BITS != crc32c(0, p, i + 21, i + size):
            break
        if walks:
            found = walk_frame(p, i, size, state, out, room_bytes, zstd)
            if found == 1:
                break
        rows[row + FRAME_POSITION] = i
        rows[row + FRAME_SIZE] = size
        rows[row + FRAME_MAGIC] = 2
        rows[row + FRAME_STATE] = 1 + found
        row += FRAME_WIDTH
        n += 1
        i += size
    return n


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
    largest: cython.longlong,
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
    magic: cython.int
    weight: cython.longlong = 0
    budget: cython.longlong = state[5]
    status: cython.int = 0
    intact: cython.Py_ssize_t = -1  # an intact frame whose last offset is not noted yet
    wrong: cython.Py_ssize_t = -1  # a frame whose CRC has been found wrong already
    if not (v07 or state[6] & 2 or budget > 0 or state[2] >= 0):
        n = follow_intact(p, i, end, rows, n, capacity, state, out, room_bytes, zstd)
        if n > first:
            intact = rows[(n - 1) * FRAME_WIDTH + FRAME_POSITION]
            i = intact + rows[(n - 1) * FRAME_WIDTH + FRAME_SIZE]
    while i < end:
        if n >= capacity or (budget > 0 and weight >= budget):
            status = 1
            break
        size = frame_bytes(p, i, end, v07)
        row = n * FRAME_WIDTH
        if size and (
            (v07 or could_be_frame(p, i, size, v07))  # an empty message of 0.7 tells nothing but its length
            if state[6] & 2
            else i != wrong and crc_is_right(p, i, i + size, v07, table_c, table_ieee, state)
        ):
            rows[row + FRAME_STATE] = 1
            if state[6] & 1 and not v07:
                found = walk_frame(p, i, size, state, out, room_bytes, zstd)
                if found == 1:
                    if i != given_up:
                        status = 3
                        break
                    found = 0
                rows[row + FRAME_STATE] += found
            intact = i
        else:
            if largest == 0 or state[2] < 0:
                status = 2
                break
            if intact >= 0 and not v07:
                state[8] = last_offset_at(p, intact, end)
            intact = -1
            size = wrong_batch_bytes(p, i, end, v07, largest, table_c, table_ieee, state)
            if size == 0:
                status = 2
                break
            if size < 0:
                size = -size
                wrong = i + size
            if not v07 and goes_on(p, i, end, state[8]):
                state[8] = last_offset_at(p, i, end)
            rows[row + FRAME_STATE] = 0
        magic = p[i + 4] if v07 else p[i + 16]
        rows[row + FRAME_POSITION] = i
        rows[row + FRAME_SIZE] = size
        rows[row + FRAME_MAGIC] = magic if magic < 128 else magic - 256
        n += 1
        if v07 or not is_compressed(p, i):
            weight += size
        else:
            weight += size * (LIGHT_WEIGHT if state[6] & 4 else COMPRESSED_WEIGHT)
        i += size
    if intact >= 0 and largest and not v07:
        state[8] = last_offset_at(p, intact, end)
    state[0] = i
    state[1] = n
    return status


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def wrong_batch_bytes(
    p: cython.pointer[cython.const[cython.uchar]],
    i: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    v07: cython.bint,
    largest: cython.longlong,
    table_c: cython.pointer[cython.uint],
    table_ieee: cython.pointer[cython.uint],
    state: cython.pointer[cython.longlong],
) -> cython.longlong:
    """Bytes of the entry at i, which is not intact, if its length leads somewhere sound; else 0. Negative where it
    leads to a frame whose CRC is not right either.
    """
    size: cython.longlong = claimed_bytes(p, i, end, v07, largest)
    after: cython.Py_ssize_t = i + size
    next_size: cython.longlong
    if size == 0 or after == end:
        return size
    next_size = frame_bytes(p, after, end, v07)
    if next_size and crc_is_right(p, after, after + next_size, v07, table_c, table_ieee, state):
        if could_be_frame(p, after, next_size, v07):
            return size
        next_size = 0
    if v07 or (end - after > SHORT_TAIL_BYTES and not goes_on(p, after, end, last_offset_claimed(p, i, end))):
        return 0
    # An intact batch before that end speaks against the length, and must not be lost to it.
    if find_behind(p, i, i + 1, after, end, v07, table_c, table_ieee, state) >= 0:
        return 0
    return -size if next_size else size


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
    search = cython.declare(search_state)
    search_from(cython.address(search), start)
    if stop > end - magic_at:
        stop = end - magic_at
    while i < stop:
        i = next_candidate(p, i, stop, end, v07, cython.address(search), table_c, table_ieee, state)
        if i >= stop:
            break
        if crc_is_right(p, i, i + frame_bytes(p, i, end, v07), v07, table_c, table_ieee, state):
            return i
        i += 1
    return -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def find_behind(
    p: cython.pointer[cython.const[cython.uchar]],
    i: cython.Py_ssize_t,
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    v07: cython.bint,
    table_c: cython.pointer[cython.uint],
    table_ieee: cython.pointer[cython.uint],
    state: cython.pointer[cython.longlong],
) -> cython.Py_ssize_t:
    """The first intact frame in [start, stop), -1 without one; not a message inside the irregular, compressed one at i
    (-1: none). NEXT of the state is where to go on from.

    lz4 and snappy leave messages readable. One of those is not compressed, and its offset (absolute in v0, relative in
    v1) does not go beyond that of the message around it; in v0 it is above the last one before that, too.
    """
    inside: cython.longlong = 0 if v07 or i < 0 else compressed_end(p, i, end, state[8])
    found: cython.Py_ssize_t = find_frame(p, start, stop, end, v07, table_c, table_ieee, state)
    ahead: cython.longlong
    state[0] = stop
    while 0 <= found < inside and p[found + 16] < 2 and p[found + 17] & 7 == 0:
        ahead = be64(p, found) - be64(p, i)
        if 0 < ahead <= INT32_MAX or (p[i + 16] == 0 and be64(p, found) <= state[8]):
            break
        start = found + frame_bytes(p, found, end, v07)
        if start > stop:
            state[0] = start
        found = find_frame(p, start, stop, end, v07, table_c, table_ieee, state)
    return found


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
    """Follows frames from NEXT, writing frame rows.

    DONE (they end exactly at ``end``), FULL (rows are full or the budget is spent: call again) or IRREGULAR (what is at
    NEXT is no intact frame, nor, where those are judged, one that is a batch all the same). Without ``room`` a WALK
    leaves out frames that are compressed.
    """
    status: cython.int = 3
    largest: cython.longlong = state[9] if len(state) >= STATE_SIZE else 0
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
                    largest,
                    first,
                    out,
                    room_bytes,
                    zstd,
                    given_up,
                )
            first = state[1]
            if status == 3 and not room.extend(buffer[state[0] + 22] & 7):
                given_up = state[0]
        return status
    else:
        buffer, capacity = indexable(buffer), len(rows) // FRAME_WIDTH
        return scan_frames(buffer, end, rows, capacity, v07, table_c, table_ieee, state, largest, 0, None, 0, None, -1)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def all_proven(rows: cython.pointer[cython.const[cython.longlong]], count: cython.Py_ssize_t) -> cython.bint:
    """Whether the records of all these frames are known to be right."""
    k: cython.Py_ssize_t
    all_right: cython.longlong = 2
    for k in range(count):
        all_right &= rows[k * FRAME_WIDTH + FRAME_STATE]
    return all_right != 0


def find(
    buffer: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    v07: cython.bint,
    table_c: cython.uint[::1],
    table_ieee: cython.uint[::1],
    state: cython.longlong[::1],
    behind: cython.Py_ssize_t = -1,
) -> int:
    """The first position in [start, stop) at which an intact frame begins (its end may lie behind stop), or -1.

    ``behind``, the position of an irregular entry: messages that lie inside of it are passed over, by LAST_OFFSET of
    the state; a search in parts goes on from NEXT.
    """
    found: cython.Py_ssize_t
    if cython.compiled:
        check_views(len(buffer), end, len(table_c), len(table_ieee), state)
        if start < 0 or start >= end:
            return -1
        if behind >= start or len(state) < STATE_SIZE:
            behind = -1
        with cython.nogil:
            found = find_behind(
                cython.address(buffer[0]),
                behind,
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
        return find_behind(buffer, behind, start, stop, end, v07, table_c, table_ieee, state)


def search_paths() -> tuple[str, ...]:
    """The ways to search that this machine has, slowest first: the last is the one used.

    ``plain``, ``avx2`` when compiled; ``expressions`` when interpreted.
    """
    if cython.compiled:
        count: cython.int = native_search.search_path_count
        return tuple([native_search.search_path_name(i).decode("ascii") for i in range(count)])
    else:
        return ("expressions",)


def search_by(path: str) -> None:
    """Searches by a named path from now on, for tests. Raises ValueError for one that is not among `search_paths`."""
    number: cython.int = search_paths().index(path)
    if cython.compiled:
        native_search.search_by(number)


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
    if state[2] >= 0 and len(state) < STATE_SIZE:
        raise ValueError("the state is too short")
    if state[2] >= 0 and not tables_reach(end - state[2], min(entries_c, entries_ieee)):
        raise ValueError("a prefix table is too short")
