"""Which records survive a compaction (Cleaner.shouldRetainRecord), by rows of them (ROW_*) and the offset map.

``counts`` (int64[16], added to): COUNTS of `kseg.kernel.survivors`.
"""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.kseg.kernel.key_hash import hash_key
    from cython.cimports.kseg.kernel.key_map import ask_for, check, find_entry
    from cython.cimports.kseg.kernel.native import ROW_KEY, ROW_KEY_SIZE, ROW_OFFSET, ROW_VALUE_SIZE, ROW_WIDTH
else:
    from kseg.kernel.key_hash import hash_key
    from kseg.kernel.key_map import ask_for, check, find_entry
    from kseg.kernel.native import ROW_KEY, ROW_KEY_SIZE, ROW_OFFSET, ROW_VALUE_SIZE, ROW_WIDTH

COMPILED = cython.compiled


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def judge(
    payload: cython.pointer[cython.const[cython.uchar]],
    rows: cython.pointer[cython.const[cython.longlong]],
    count: cython.longlong,
    is_protected: cython.bint,
    latest: cython.longlong,
    secret: cython.pointer[cython.const[cython.longlong]],
    table: cython.pointer[cython.const[cython.longlong]],
    slots: cython.longlong,
    hashes: cython.pointer[cython.longlong],
    keep: cython.pointer[cython.uchar],
    counts: cython.pointer[cython.longlong],
) -> cython.longlong:
    """Marks the records to keep; how many. ``is_protected``: tombstones of the batch may not go yet."""
    k: cython.Py_ssize_t
    row: cython.Py_ssize_t
    kept: cython.longlong = 0
    found: cython.longlong
    for k in range(count):
        row = k * ROW_WIDTH
        if rows[row + ROW_KEY_SIZE] >= 0 and rows[row + ROW_OFFSET] <= latest:
            hash_key(payload, rows[row + ROW_KEY], rows[row + ROW_KEY_SIZE], secret, hashes, 2 * k)
            ask_for(table, slots, hashes[2 * k])
    for k in range(count):
        row = k * ROW_WIDTH
        keep[k] = 0
        if rows[row + ROW_OFFSET] > latest:
            keep[k] = 1
        elif rows[row + ROW_KEY_SIZE] < 0:
            counts[4] += 1
        else:
            found = table[find_entry(table, slots, hashes[2 * k], hashes[2 * k + 1]) + 2] - 1
            if rows[row + ROW_OFFSET] < found:
                counts[2] += 1
            elif rows[row + ROW_VALUE_SIZE] < 0 and not is_protected:
                counts[3] += 1
            else:
                keep[k] = 1
        kept += keep[k]
    return kept


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def has_tombstone(
    rows: cython.pointer[cython.const[cython.longlong]],
    count: cython.longlong,
    keep: cython.pointer[cython.const[cython.uchar]],
) -> cython.bint:
    """Whether a record that is kept has no value."""
    k: cython.Py_ssize_t
    for k in range(count):
        if keep[k] and rows[k * ROW_WIDTH + ROW_VALUE_SIZE] < 0:
            return True
    return False


def judge_rows(
    payload: cython.const[cython.uchar][::1],
    rows: cython.const[cython.longlong][::1],
    count: cython.Py_ssize_t,
    is_protected: cython.bint,
    latest: cython.longlong,
    secret: cython.const[cython.longlong][::1],
    table: cython.longlong[::1],
    map_state: cython.longlong[::1],
    hashes: cython.longlong[::1],
    keep: cython.uchar[::1],
    counts: cython.longlong[::1],
) -> int:
    """`judge` for ``count`` rows whose bytes are in ``payload``, which are counted as read."""
    check(table, map_state)
    if len(rows) < count * ROW_WIDTH or len(hashes) < 2 * count or len(keep) < count or len(secret) < 2:
        raise ValueError("a buffer is too short")
    if len(counts) < 16:
        raise ValueError("a buffer is too short")
    if count <= 0 or len(payload) == 0:
        return 0
    counts[0] += count
    if cython.compiled:
        return judge(
            cython.address(payload[0]),
            cython.address(rows[0]),
            count,
            is_protected,
            latest,
            cython.address(secret[0]),
            cython.address(table[0]),
            map_state[0],
            cython.address(hashes[0]),
            cython.address(keep[0]),
            cython.address(counts[0]),
        )
    else:
        return judge(payload, rows, count, is_protected, latest, secret, table, map_state[0], hashes, keep, counts)
