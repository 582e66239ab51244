"""Hashes the keys of v2 batches, and of plain messages v0 and v1, for the map of a compaction (`kseg.kernel.key_map`).

``state`` (int64[8], in and out): 0 BATCH to begin with, then the one it stopped at   1 KEYS written so far
2 NEEDED records that there is no room for   3 REASON that records make no sense (`kseg.kernel.opening`)
"""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.kseg.kernel.expand import Room
    from cython.cimports.kseg.kernel.key_hash import hash_key
    from cython.cimports.kseg.kernel.native import (
        BATCH_ATTRIBUTES,
        BATCH_COUNT,
        BATCH_LAST_OFFSET,
        BATCH_MAGIC,
        BATCH_POSITION,
        BATCH_SIZE,
        BATCH_WIDTH,
        ROW_KEY,
        ROW_KEY_SIZE,
        ROW_OFFSET,
        ROW_WIDTH,
    )
    from cython.cimports.kseg.kernel.opening import open_batch, read_batch
    from cython.cimports.kseg.kernel.plain import is_legacy_plain, legacy_row
else:
    from kseg.kernel.expand import Room
    from kseg.kernel.key_hash import hash_key
    from kseg.kernel.native import (
        BATCH_ATTRIBUTES,
        BATCH_COUNT,
        BATCH_LAST_OFFSET,
        BATCH_MAGIC,
        BATCH_POSITION,
        BATCH_SIZE,
        BATCH_WIDTH,
        ROW_KEY,
        ROW_KEY_SIZE,
        ROW_OFFSET,
        ROW_WIDTH,
    )
    from kseg.kernel.opening import open_batch, read_batch
    from kseg.kernel.plain import is_legacy_plain, legacy_row

COMPILED = cython.compiled
BATCH, KEYS, NEEDED, REASON = 0, 1, 2, 3
DONE, FULL, ROWS, ROOM, OPEN, BAD = 0, 1, 2, 3, 4, 5
"""DONE with all batches; FULL: no room for more keys; ROWS: no room for NEEDED rows; ROOM to expand into is missing;
OPEN: a batch has to be opened by someone else; BAD: records make no sense, REASON tells."""

SKIP = 1
"""Of a verdict: the batch's keys do not count (it is aborted)."""


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def hash_rows(
    payload: cython.pointer[cython.const[cython.uchar]],
    rows: cython.pointer[cython.const[cython.longlong]],
    count: cython.longlong,
    least: cython.longlong,
    secret: cython.pointer[cython.const[cython.longlong]],
    hashes: cython.pointer[cython.longlong],
    offsets: cython.pointer[cython.longlong],
    keys: cython.longlong,
) -> cython.longlong:
    """Adds the records of a batch that have a key and an offset of ``least`` or above; how many keys there are then."""
    k: cython.Py_ssize_t
    row: cython.Py_ssize_t
    for k in range(count):
        row = k * ROW_WIDTH
        if rows[row + ROW_KEY_SIZE] >= 0 and rows[row + ROW_OFFSET] >= least:
            hash_key(payload, rows[row + ROW_KEY], rows[row + ROW_KEY_SIZE], secret, hashes, 2 * keys)
            offsets[keys] = rows[row + ROW_OFFSET]
            keys += 1
    return keys


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def hash_window(
    p: cython.pointer[cython.const[cython.uchar]],
    batches: cython.pointer[cython.const[cython.longlong]],
    count: cython.Py_ssize_t,
    verdicts: cython.pointer[cython.const[cython.longlong]],
    least: cython.longlong,
    secret: cython.pointer[cython.const[cython.longlong]],
    rows: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    hashes: cython.pointer[cython.longlong],
    offsets: cython.pointer[cython.longlong],
    key_capacity: cython.Py_ssize_t,
    state: cython.pointer[cython.longlong],
    out: cython.pointer[cython.uchar],
    room_bytes: cython.Py_ssize_t,
    zstd: cython.p_void,
    opened: cython.pointer[cython.const[cython.uchar]],
    opened_bytes: cython.Py_ssize_t,
) -> cython.int:
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t
    batch: cython.Py_ssize_t
    magic: cython.longlong
    records: cython.longlong
    status: cython.int
    payload: cython.pointer[cython.const[cython.uchar]]
    span: cython.longlong[2]
    if not cython.compiled:
        span = [0, 0]
    for i in range(state[0], count):
        state[0] = i
        batch = i * BATCH_WIDTH
        records = batches[batch + BATCH_COUNT]
        at = batches[batch + BATCH_POSITION]
        magic = batches[batch + BATCH_MAGIC]
        if magic != 2:
            if magic > 1 or not is_legacy_plain(p, at, batches[batch + BATCH_SIZE], cython.cast(cython.int, magic)):
                return 4
            if state[1] >= key_capacity:
                state[2] = 1
                return 1
            legacy_row(p, at, cython.cast(cython.int, magic), rows)
            state[1] = hash_rows(p, rows, 1, least, secret, hashes, offsets, state[1])
            continue
        if (
            verdicts[i] & 1
            or batches[batch + BATCH_ATTRIBUTES] & 32
            or records == 0
            or batches[batch + BATCH_LAST_OFFSET] < least
        ):
            continue
        payload = p
        if opened_bytes >= 0:
            payload, span[0], span[1] = opened, 0, opened_bytes
        else:
            status = open_batch(p, at, batches[batch + BATCH_SIZE], out, room_bytes, zstd, span)
            if status == 2:
                return 3
            if status == 3:
                return 4
            if status == 1:
                payload = out
        if records < 0 or records > (span[1] - span[0]) // 7:
            state[3] = 103
            return 5
        if records > key_capacity - state[1] or records > capacity:
            state[2] = records
            return 1 if state[1] else 2
        state[3] = read_batch(p, at, payload, span, rows)
        if state[3]:
            return 5
        state[1] = hash_rows(payload, rows, records, least, secret, hashes, offsets, state[1])
        opened_bytes = -1
    state[0] = count
    return 0


def read(
    window: cython.const[cython.uchar][::1],
    batches: cython.const[cython.longlong][::1],
    count: cython.Py_ssize_t,
    verdicts: cython.const[cython.longlong][::1],
    least: cython.longlong,
    secret: cython.const[cython.longlong][::1],
    rows: cython.longlong[::1],
    hashes: cython.longlong[::1],
    offsets: cython.longlong[::1],
    state: cython.longlong[::1],
    room: Room,
    opened: cython.const[cython.uchar][::1] = None,
) -> int:
    """Hashes the keys of batches BATCH to ``count`` of ``window`` whose offsets are ``least`` or above.

    ``batches`` are rows BATCH_* with positions in the window, ``opened`` the records of the first of them where it had
    to be opened. DONE, or why it stopped at BATCH.
    """
    status: cython.int
    if count <= state[0]:
        return DONE
    if len(batches) < count * BATCH_WIDTH or len(verdicts) < count or len(secret) < 2 or len(state) < 8 or state[0] < 0:
        raise ValueError("a buffer is too short")
    if len(rows) < ROW_WIDTH or len(hashes) < 2 or len(offsets) < 1:
        raise ValueError("a buffer is too short")
    if cython.compiled:
        status = DONE
        spare: cython.pointer[cython.const[cython.uchar]] = cython.NULL
        spare_bytes: cython.Py_ssize_t = -1
        if opened is not None:
            spare_bytes = opened.shape[0]
            spare = cython.address(opened[0]) if spare_bytes else cython.address(window[0])
        with cython.nogil:
            status = hash_window(
                cython.address(window[0]),
                cython.address(batches[0]),
                count,
                cython.address(verdicts[0]),
                least,
                cython.address(secret[0]),
                cython.address(rows[0]),
                rows.shape[0] // ROW_WIDTH,
                cython.address(hashes[0]),
                cython.address(offsets[0]),
                min(offsets.shape[0], hashes.shape[0] // 2),
                cython.address(state[0]),
                cython.address(room.out[0]),
                room.capacity,
                room.zstd,
                spare,
                spare_bytes,
            )
        return status
    else:
        size = -1 if opened is None else len(opened)
        most = min(len(offsets), len(hashes) // 2)
        return hash_window(
            window, batches, count, verdicts, least, secret, rows, len(rows) // ROW_WIDTH, hashes, offsets, most,
            state, None, 0, None, opened, size,
        )  # fmt: skip


def of_rows(
    payload: cython.const[cython.uchar][::1],
    rows: cython.const[cython.longlong][::1],
    count: cython.Py_ssize_t,
    least: cython.longlong,
    secret: cython.const[cython.longlong][::1],
    hashes: cython.longlong[::1],
    offsets: cython.longlong[::1],
) -> int:
    """As `read`, of ``count`` records in rows (ROW_*); how many keys there are."""
    if count <= 0 or len(payload) == 0:
        return 0
    if len(rows) < count * ROW_WIDTH or len(hashes) < 2 * count or len(offsets) < count or len(secret) < 2:
        raise ValueError("a buffer is too short")
    if cython.compiled:
        with cython.nogil:
            count = hash_rows(
                cython.address(payload[0]),
                cython.address(rows[0]),
                count,
                least,
                cython.address(secret[0]),
                cython.address(hashes[0]),
                cython.address(offsets[0]),
                0,
            )
        return count
    else:
        return hash_rows(payload, rows, count, least, secret, hashes, offsets, 0)
