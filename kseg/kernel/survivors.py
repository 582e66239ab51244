"""Decides which records of v2 batches survive a compaction, and writes the batches that come out.

The rules are those of Kafka's Cleaner.shouldRetainRecord and MemoryRecords.filterTo: a batch that keeps all of its
records is copied as it stands; one that loses some, or gets a delete horizon, is written anew; one that loses all goes,
or leaves its header behind.

``verdicts`` tell of each batch: DISCARD (its records go unread), KEEP_EMPTY (its header stays), EMPTY_TXN (the marker
of a transaction of which nothing is left), ALL (control: its records stay).

``state`` (int64[16], in and out): 0 BATCH to begin with, then the one it stopped at   1 OUT, bytes written
2 NEEDED rows or bytes   3 REASON that records make no sense (`kseg.kernel.opening`)
4 LATEST offset in the map   5 NOW ms   6 RETENTION of tombstones, ms
7 AREA: bytes of records at OUT + 61 that are to be compressed (PACK)   8 BASE_TIMESTAMP, 9 MAX_TIMESTAMP,
10 ATTRIBUTES, 11 SURVIVORS of that batch
12 LEGACY: how plain messages v0 and v1 are taken: KEEP_FORMAT, else each becomes a batch (KIP-724); KEEP_TOMBSTONES,
   of batches too where BY_FILE_TIME: there are no delete horizons (before KIP-534)
``counts`` (int64[16], added to): COUNTS.
"""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.kseg.kernel.expand import Room
    from cython.cimports.kseg.kernel.judging import has_tombstone, judge
    from cython.cimports.kseg.kernel.key_map import check
    from cython.cimports.kseg.kernel.native import (
        BATCH_ATTRIBUTES,
        BATCH_BASE_TIMESTAMP,
        BATCH_COUNT,
        BATCH_FIRST_OFFSET,
        BATCH_MAGIC,
        BATCH_MAX_TIMESTAMP,
        BATCH_POSITION,
        BATCH_SIZE,
        BATCH_WIDTH,
        ROW_CHECK,
        ROW_OFFSET,
        ROW_TIMESTAMP,
        ROW_VALUE_SIZE,
        ROW_WIDTH,
        put_bytes,
    )
    from cython.cimports.kseg.kernel.opening import open_batch, read_batch
    from cython.cimports.kseg.kernel.plain import is_legacy_plain, legacy_row
    from cython.cimports.kseg.kernel.rewriting import put_header, put_records
else:
    from kseg.kernel.expand import Room
    from kseg.kernel.judging import has_tombstone, judge
    from kseg.kernel.key_map import check
    from kseg.kernel.native import (
        BATCH_ATTRIBUTES,
        BATCH_BASE_TIMESTAMP,
        BATCH_COUNT,
        BATCH_FIRST_OFFSET,
        BATCH_MAGIC,
        BATCH_MAX_TIMESTAMP,
        BATCH_POSITION,
        BATCH_SIZE,
        BATCH_WIDTH,
        ROW_CHECK,
        ROW_OFFSET,
        ROW_TIMESTAMP,
        ROW_VALUE_SIZE,
        ROW_WIDTH,
        put_bytes,
    )
    from kseg.kernel.opening import open_batch, read_batch
    from kseg.kernel.plain import is_legacy_plain, legacy_row
    from kseg.kernel.rewriting import put_header, put_records

COMPILED = cython.compiled
BATCH, OUT, NEEDED, REASON, LATEST, NOW, RETENTION = 0, 1, 2, 3, 4, 5, 6
AREA, BASE_TIMESTAMP, MAX_TIMESTAMP, ATTRIBUTES, SURVIVORS = 7, 8, 9, 10, 11
LEGACY, KEEP_FORMAT, KEEP_TOMBSTONES, BY_FILE_TIME = 12, 1, 2, 4
DONE, FULL, ROWS, ROOM, OPEN, BAD, PACK = 0, 1, 2, 3, 4, 5, 6
"""DONE with all batches; FULL: no room for NEEDED bytes of output; ROWS: no room for NEEDED rows; ROOM to expand into
is missing; OPEN: a batch has to be opened by someone else; BAD: records make no sense; PACK: records have to be
compressed and sealed (`kseg.kernel.rewriting`) by someone else."""

DISCARD, KEEP_EMPTY, EMPTY_TXN, ALL = 1, 2, 4, 8

COUNTS = (
    "records", "kept", "superseded", "tombstones", "no_key", "discarded_records", "discarded_markers", "copied",
    "rewritten", "emptied", "dropped",
)  # fmt: skip
"""Records read, and kept; gone: superseded by a later one, as tombstones, without a key, of aborted transactions, as
markers. Batches copied as they stand, written anew, left as a header, and gone."""


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def describe(
    batches: cython.pointer[cython.const[cython.longlong]],
    batch: cython.Py_ssize_t,
    rows: cython.pointer[cython.const[cython.longlong]],
    keep: cython.pointer[cython.const[cython.uchar]],
    needs_horizon: cython.bint,
    state: cython.pointer[cython.longlong],
) -> cython.void:
    """Fills in what the header of the batch that comes out says: BASE_TIMESTAMP, MAX_TIMESTAMP, ATTRIBUTES."""
    k: cython.Py_ssize_t
    attributes: cython.longlong = batches[batch + BATCH_ATTRIBUTES] & 0x7F
    first: cython.longlong = -1
    largest: cython.longlong = -1
    for k in range(batches[batch + BATCH_COUNT]):
        if keep[k]:
            if first < 0:
                first = k
            if rows[k * ROW_WIDTH + ROW_TIMESTAMP] > largest:
                largest = rows[k * ROW_WIDTH + ROW_TIMESTAMP]
    state[8] = rows[first * ROW_WIDTH + ROW_TIMESTAMP]
    state[9] = batches[batch + BATCH_MAX_TIMESTAMP] if attributes & 8 else largest
    if needs_horizon:
        state[8] = state[5] + state[6]
        attributes |= 64
    elif attributes & 64:
        state[8] = batches[batch + BATCH_BASE_TIMESTAMP]
    state[10] = attributes


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def filter_window(
    p: cython.pointer[cython.const[cython.uchar]],
    batches: cython.pointer[cython.const[cython.longlong]],
    count: cython.Py_ssize_t,
    verdicts: cython.pointer[cython.const[cython.longlong]],
    secret: cython.pointer[cython.const[cython.longlong]],
    table: cython.pointer[cython.const[cython.longlong]],
    slots: cython.longlong,
    rows: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    hashes: cython.pointer[cython.longlong],
    keep: cython.pointer[cython.uchar],
    out: cython.pointer[cython.uchar],
    out_bytes: cython.Py_ssize_t,
    state: cython.pointer[cython.longlong],
    counts: cython.pointer[cython.longlong],
    space: cython.pointer[cython.uchar],
    space_bytes: cython.Py_ssize_t,
    zstd: cython.p_void,
    opened: cython.pointer[cython.const[cython.uchar]],
    opened_bytes: cython.Py_ssize_t,
) -> cython.int:
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t
    end: cython.Py_ssize_t
    batch: cython.Py_ssize_t
    records: cython.longlong
    kept: cython.longlong
    size: cython.longlong
    attributes: cython.longlong
    verdict: cython.longlong
    has_horizon: cython.bint
    needs_horizon: cython.bint
    status: cython.int
    k: cython.Py_ssize_t
    payload: cython.pointer[cython.const[cython.uchar]]
    span: cython.longlong[2]
    if not cython.compiled:
        span = [0, 0]
    for i in range(state[0], count):
        state[0] = i
        batch = i * BATCH_WIDTH
        verdict = verdicts[i]
        at, size = batches[batch + BATCH_POSITION], batches[batch + BATCH_SIZE]
        records, attributes = batches[batch + BATCH_COUNT], batches[batch + BATCH_ATTRIBUTES]
        if batches[batch + BATCH_MAGIC] != 2:
            if batches[batch + BATCH_MAGIC] > 1 or verdict & 2:
                return 4
            if not is_legacy_plain(p, at, size, cython.cast(cython.int, batches[batch + BATCH_MAGIC])):
                return 4
            if out_bytes - state[1] < size + 128:
                state[2] = size + 128
                return 1
            legacy_row(p, at, cython.cast(cython.int, batches[batch + BATCH_MAGIC]), rows)
            rows[ROW_CHECK] = 0  # where headers end: there are none
            counts[0] += 1
            if judge(p, rows, 1, state[12] & 2, state[4], secret, table, slots, hashes, keep, counts) == 0:
                counts[10] += 1
                continue
            counts[1] += 1
            if state[12] & 1:
                state[1] = put_bytes(out, state[1], p, at, size)
                counts[7] += 1
            else:
                put_as_batch(p, at, batches[batch + BATCH_MAGIC], rows, keep, out, state)
                counts[8] += 1
            continue
        kept = 0
        needs_horizon = False
        if out_bytes - state[1] < size:
            state[2] = size
            return 1
        payload = p
        if verdict & 1:
            counts[6 if attributes & 32 else 5] += records
            counts[0] += records
        elif records != 0:
            if opened_bytes >= 0:
                payload, span[0], span[1] = opened, 0, opened_bytes
            else:
                status = open_batch(p, at, size, space, space_bytes, zstd, span)
                if status == 2:
                    return 3
                if status == 3:
                    return 4
                if status == 1:
                    payload = space
            if records < 0 or records > (span[1] - span[0]) // 7:
                state[3] = 103
                return 5
            if records > capacity:
                state[2] = records
                return 2
            if span[1] - span[0] + 61 + 16 * records > out_bytes - state[1]:
                state[2] = span[1] - span[0] + 61 + 16 * records
                return 1
            state[3] = read_batch(p, at, payload, span, rows)
            if state[3]:
                return 5
            counts[0] += records
            has_horizon = state[12] & 4 or attributes & 64
            if verdict & 8:
                for k in range(records):
                    keep[k] = 1
                kept = records
                needs_horizon = verdict & 4 and not has_horizon
            else:
                kept = judge(
                    payload,
                    rows,
                    records,
                    state[12] & 2
                    if state[12] & 4
                    else not has_horizon or state[5] < batches[batch + BATCH_BASE_TIMESTAMP],
                    state[4],
                    secret,
                    table,
                    slots,
                    hashes,
                    keep,
                    counts,
                )
                needs_horizon = not has_horizon and has_tombstone(rows, records, keep)
            counts[1] += kept
        opened_bytes = -1
        if kept == 0:
            if verdict & 2:
                put_empty(p, at, batches, batch, out, state)
                counts[9] += 1
            else:
                counts[10] += 1
        elif kept == records and not needs_horizon:
            state[1] = put_bytes(out, state[1], p, at, size)
            counts[7] += 1
        else:
            describe(batches, batch, rows, keep, needs_horizon, state)
            end = put_records(
                payload, rows, keep, records, batches[batch + BATCH_FIRST_OFFSET], state[8], out, state[1] + 61
            )
            counts[8] += 1
            if attributes & 7:
                state[7] = end - state[1] - 61
                state[11] = kept
                return 6
            put_header(out, state[1], end, p, at, state[10], state[8], state[9], kept)
            state[1] = end
    state[0] = count
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_empty(
    p: cython.pointer[cython.const[cython.uchar]],
    at: cython.Py_ssize_t,
    batches: cython.pointer[cython.const[cython.longlong]],
    batch: cython.Py_ssize_t,
    out: cython.pointer[cython.uchar],
    state: cython.pointer[cython.longlong],
) -> cython.void:
    """Writes the header that stays of a batch without records (DefaultRecordBatch.writeEmptyHeader)."""
    end: cython.Py_ssize_t = state[1] + 61
    attributes: cython.longlong = batches[batch + BATCH_ATTRIBUTES] & 0x38
    put_header(out, state[1], end, p, at, attributes, -1, batches[batch + BATCH_MAX_TIMESTAMP], 0)
    state[1] = end


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_as_batch(
    p: cython.pointer[cython.const[cython.uchar]],
    at: cython.Py_ssize_t,
    magic: cython.longlong,
    rows: cython.pointer[cython.const[cython.longlong]],
    keep: cython.pointer[cython.const[cython.uchar]],
    out: cython.pointer[cython.uchar],
    state: cython.pointer[cython.longlong],
) -> cython.void:
    """Writes the v2 batch of the one record that a plain message v0 or v1 holds."""
    model: cython.uchar[61]
    k: cython.int
    end: cython.Py_ssize_t
    timestamp: cython.longlong = rows[ROW_TIMESTAMP]
    base: cython.longlong = timestamp
    attributes: cython.longlong = p[at + 17] & 8 if magic == 1 else 0
    if not cython.compiled:
        model = bytearray(61)
    for k in range(61):
        model[k] = p[at + k] if k < 8 else 255
    for k in range(23, 27):
        model[k] = 0
    model[16] = 2
    if rows[ROW_VALUE_SIZE] < 0:
        base = state[5] + state[6]
        attributes |= 64
    end = put_records(p, rows, keep, 1, rows[ROW_OFFSET], base, out, state[1] + 61)
    put_header(out, state[1], end, model, 0, attributes, base, timestamp, 1)
    state[1] = end


def survive(
    window: cython.const[cython.uchar][::1],
    batches: cython.const[cython.longlong][::1],
    count: cython.Py_ssize_t,
    verdicts: cython.const[cython.longlong][::1],
    secret: cython.const[cython.longlong][::1],
    table: cython.longlong[::1],
    map_state: cython.longlong[::1],
    rows: cython.longlong[::1],
    hashes: cython.longlong[::1],
    keep: cython.uchar[::1],
    out: cython.uchar[::1],
    state: cython.longlong[::1],
    counts: cython.longlong[::1],
    room: Room,
    opened: cython.const[cython.uchar][::1] = None,
) -> int:
    """Writes to ``out`` what is left of batches BATCH to ``count`` of ``window``.

    ``batches`` are rows BATCH_* with positions in the window; ``opened`` the records of the first of them where it had
    to be opened. ``table`` and ``map_state``: `kseg.kernel.key_map`. DONE, or why it stopped at BATCH.
    """
    status: cython.int
    capacity: cython.Py_ssize_t = min(len(rows) // ROW_WIDTH, len(hashes) // 2, len(keep))
    if count <= state[0]:
        return DONE
    check(table, map_state)
    if len(batches) < count * BATCH_WIDTH or len(verdicts) < count or len(secret) < 2 or len(state) < 16:
        raise ValueError("a buffer is too short")
    if len(counts) < 16 or capacity < 1 or len(out) < 1 or state[0] < 0 or state[1] < 0:
        raise ValueError("a buffer is too short")
    if cython.compiled:
        spare: cython.pointer[cython.const[cython.uchar]] = cython.NULL
        spare_bytes: cython.Py_ssize_t = -1
        if opened is not None:
            spare_bytes = opened.shape[0]
            spare = cython.address(opened[0]) if spare_bytes else cython.address(window[0])
        with cython.nogil:
            status = filter_window(
                cython.address(window[0]),
                cython.address(batches[0]),
                count,
                cython.address(verdicts[0]),
                cython.address(secret[0]),
                cython.address(table[0]),
                map_state[0],
                cython.address(rows[0]),
                capacity,
                cython.address(hashes[0]),
                cython.address(keep[0]),
                cython.address(out[0]),
                out.shape[0],
                cython.address(state[0]),
                cython.address(counts[0]),
                cython.address(room.out[0]),
                room.capacity,
                room.zstd,
                spare,
                spare_bytes,
            )
        return status
    else:
        size = -1 if opened is None else len(opened)
        return filter_window(
            window, batches, count, verdicts, secret, table, map_state[0], rows, capacity, hashes, keep, out, len(out),
            state, counts, None, 0, None, opened, size,
        )  # fmt: skip
