"""Writes the batches of a compacted segment with the records that survive.

The rules are those of Kafka's Cleaner.shouldRetainRecord and MemoryRecords.filterTo. A batch that keeps all records is
copied unchanged. A batch that loses records or gets a delete horizon is rewritten. A batch that loses all records is
dropped, or reduced to its header.
"""

import cython
from cython import Py_ssize_t, bint, longlong, pointer
from cython.cimports.kseg.kernel.codecs.expand import ExpansionBuffer
from cython.cimports.kseg.kernel.compact.key_map import KeyHash, KeyMap, hash_key, last_offset, prefetch_slot
from cython.cimports.kseg.kernel.records.building import put_header, put_records, put_single_header
from cython.cimports.kseg.kernel.records.cursor import FrameCursor, extend, open_frame, read_rows, use_frames, use_rows

if not cython.compiled:  # kseg._build declares these constants for C
    # Records that are hashed before the first of them is looked up: their slots arrive meanwhile.
    GROUP = 64

    # Verdicts on a batch. DISCARD: drop its records unread. KEEP_EMPTY: keep at least its header. EMPTY_TXN: it is the
    # marker of a transaction without retained records. ALL: keep all records (control batches). COPY: copy the batch
    # unread.
    DISCARD = 1
    KEEP_EMPTY = 2
    EMPTY_TXN = 4
    ALL = 8
    COPY = 16

# Decides which records a compaction retains (Cleaner.shouldRetainRecord), by their rows (ROW_*) and the key map.

COUNTS = (
    "records", "kept", "superseded", "tombstones", "no_key", "discarded_records", "discarded_markers", "copied",
    "rewritten", "emptied", "dropped",
)  # fmt: skip


class Counts:
    """Numbers of records read, kept and removed: superseded by a later record, tombstones, without a key, of aborted
    transactions, markers. Numbers of batches copied unchanged, rewritten, reduced to a header, and dropped.
    """

    def __init__(self):
        for name in COUNTS:
            setattr(self, name, 0)

    def add(self, other) -> None:
        """Adds the counts of ``other``."""
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def as_dict(self) -> dict[str, int]:
        """Returns the counts by name."""
        return {name: getattr(self, name) for name in COUNTS}


def judge(
    key_map: KeyMap, payload: Bytes, rows: Columns, count: longlong, is_protected: bint, keep: OutBytes, counts: Counts
) -> longlong:
    """Marks the records to keep. Returns their number. ``is_protected``: tombstones of the batch must stay for now."""
    keys = cython.declare(KeyHash[GROUP])
    key: pointer[KeyHash]
    first: Py_ssize_t = 0
    kept: longlong = 0
    latest: longlong = key_map.latest_offset
    while first < count:
        stop = min(first + GROUP, count)
        for k in range(first, stop):
            row = k * ROW_WIDTH
            if rows[row + ROW_KEY_SIZE] >= 0 and rows[row + ROW_OFFSET] <= latest:
                key = cython.address(keys[k - first])
                hash_key(payload, rows[row + ROW_KEY], rows[row + ROW_KEY_SIZE], key_map.secret, key)
                prefetch_slot(key_map, key.high)
        for k in range(first, stop):
            row = k * ROW_WIDTH
            keep[k] = 0
            if rows[row + ROW_OFFSET] > latest:
                keep[k] = 1
            elif rows[row + ROW_KEY_SIZE] < 0:
                counts.no_key += 1
            else:
                found = last_offset(key_map, cython.address(keys[k - first]))
                if rows[row + ROW_OFFSET] < found:
                    counts.superseded += 1
                elif rows[row + ROW_VALUE_SIZE] < 0 and not is_protected:
                    counts.tombstones += 1
                else:
                    keep[k] = 1
            kept += keep[k]
        first = stop
    return kept


def mark_outside(ranges: Columns, count: Py_ssize_t, rows: Columns, records: longlong, keep: OutBytes) -> longlong:
    """Marks the records whose offsets are in none of ``count`` ranges. Returns their number."""
    kept: longlong = 0
    for k in range(records):
        offset: longlong = rows[k * ROW_WIDTH + ROW_OFFSET]
        low: Py_ssize_t = 0
        high: Py_ssize_t = count
        while low < high:  # the first range that ends at the offset or above
            middle = (low + high) // 2
            if ranges[2 * middle + 1] < offset:
                low = middle + 1
            else:
                high = middle
        keep[k] = not (low < count and ranges[2 * low] <= offset)
        kept += keep[k]
    return kept


# Upper bound of the growth of a plain message that becomes a batch, in bytes.
_BATCH_GROWTH = cython.declare(longlong, 128)
# Upper bound of the growth of a rewritten record, in bytes: a longer timestamp delta and a longer length.
_RECORD_GROWTH = cython.declare(longlong, 16)
_ATTRIBUTES = cython.declare(longlong, 0x7F)


class Survivors(FrameCursor):
    """Writes the surviving batches of one window after the other. ``counts``: Counts, added to.

    ``now_ms`` and ``retention_ms`` make the delete horizon of tombstones. ``keeps_format``: plain messages v0 and v1
    are copied, else each becomes a batch (KIP-724). ``keeps_tombstones``: tombstones of v0 and v1, and without
    ``has_horizons`` (before KIP-534) of all batches, are retained.

    ``erased``: the first and last offset of each range whose records go, in ascending order, as int64; then nothing
    else decides, and the map is not used.

    ``size``: bytes written so far; the caller resets it, and the position for each window. If a batch NEEDS_PACKING,
    its records are ``area_size`` bytes behind the space for a header at ``size``, and ``base_timestamp``,
    ``max_timestamp``, ``attributes`` and ``kept`` (the number of records) are for that header
    (`kseg.kernel.records.building`).
    """

    def __init__(self, key_map, counts, erased=None):
        FrameCursor.__init__(self)
        key_map.check()
        self.erased = erased
        self.range_count = 0
        if erased is not None:
            self.ranges, self.range_count = int64s_in(erased), len(erased) // 2
        self.key_map = key_map
        self.counts = counts
        self.now_ms = self.retention_ms = 0
        self.keeps_format = self.keeps_tombstones = False
        self.has_horizons = True
        self.size = self.area_size = 0
        self.base_timestamp = self.max_timestamp = self.attributes = self.kept = 0

    def write(
        self,
        data: BytesIn,
        batches: Int64sIn,
        count: Py_ssize_t,
        verdicts: Int64sIn,
        rows: Int64sOut,
        keep: BytesOut,
        out: BytesOut,
        expansion: ExpansionBuffer,
        opened: BytesIn = None,
    ) -> int:
        """Writes the survivors of the batches from ``frame`` up to ``count``; their rows BATCH_* have positions in
        ``data``.

        ``verdicts``: DISCARD and others, combined by or, for each batch. ``opened``: the records of the next batch, if
        the caller had to decompress it. Returns DONE, FULL (the output has less than ``needed`` free bytes), MORE_ROWS
        (``needed`` for ``rows`` and ``keep``), NEEDS_PACKING or NOT_PLAIN. Raises ValueError if a buffer is too short,
        or if the map has no table.
        """
        status: cython.int = NEEDS_BUFFER
        if self.size < 0 or len(keep) < 1 or len(out) < 1 or len(verdicts) < count:
            raise ValueError("a buffer is too short")
        self.key_map.check()
        use_frames(self, data, batches, count, BATCH_WIDTH, expansion, opened)
        self.table.row_count = 0
        use_rows(self, rows, rows[:0])
        self.table.header_capacity = -1
        self.table.row_capacity = min(self.table.row_capacity, len(keep))
        self.verdicts = int64s_in(verdicts)
        self.out, self.limit, self.keep = bytes_out(out), len(out), bytes_out(keep)
        while status == NEEDS_BUFFER:
            with cython.nogil:
                status = DONE
                while self.frame < self.stop and status == DONE:
                    at = self.frame * BATCH_WIDTH
                    if self.frames[at + BATCH_MAGIC] == MAGIC_V2:
                        status = write_batch(self, at)
                    else:
                        status = write_message(self, at)
                    self.is_open = False
                    self.frame += status == DONE
            if status == NEEDS_BUFFER:
                status = extend(self, expansion)
        return status

    def mark(self, payload: BytesIn, rows: Int64sIn, count: Py_ssize_t, keep: BytesOut) -> None:
        """Marks in ``keep`` which of ``count`` rows v0 or v1 survive; their positions are in ``payload``.

        Raises ValueError if a buffer is too short, or if the map has no table.
        """
        self.key_map.check()
        self.counts.records += count
        records, marks = int64s_in(rows, count * ROW_WIDTH), bytes_out(keep, count)
        retain(self, bytes_in(payload), records, count, self.keeps_tombstones, marks)


def retain(
    survivors: Survivors, payload: Bytes, rows: Columns, count: longlong, is_protected: bint, keep: OutBytes
) -> longlong:
    """Marks the records to keep. Returns their number."""
    if survivors.range_count > 0:
        return mark_outside(survivors.ranges, survivors.range_count, rows, count, keep)
    return judge(survivors.key_map, payload, rows, count, is_protected, keep, survivors.counts)


def copy(survivors: Survivors, at: Py_ssize_t) -> cython.int:
    """Copies the next batch unread."""
    survivors.counts.copied += 1
    survivors.size = put_bytes(
        survivors.out, survivors.size, survivors.p, survivors.frames[at + BATCH_POSITION],
        survivors.frames[at + BATCH_SIZE],
    )  # fmt: skip
    return DONE


def has_room(survivors: Survivors, size: longlong) -> bint:
    """Whether so many bytes fit into the output; else they are ``needed``."""
    survivors.needed = size
    return size <= survivors.limit - survivors.size


def open_records(survivors: Survivors, at: Py_ssize_t) -> cython.int:
    """Reads all rows of the next batch. FULL: the rewritten batch might not fit into the output."""
    records: longlong = survivors.frames[at + BATCH_COUNT]
    survivors.table.row_count = 0
    status = open_frame(survivors)
    if status != DONE:
        return status
    survivors.is_open = True
    if records > survivors.table.row_capacity:
        survivors.needed = records
        return MORE_ROWS
    if not has_room(survivors, V2_HEADER_BYTES + survivors.area.end - survivors.area.first + _RECORD_GROWTH * records):
        return FULL
    return read_rows(survivors)


def write_message(survivors: Survivors, at: Py_ssize_t) -> cython.int:
    """Writes a plain message v0 or v1, unchanged or as a v2 batch."""
    position: Py_ssize_t = survivors.frames[at + BATCH_POSITION]
    size: Py_ssize_t = survivors.frames[at + BATCH_SIZE]
    if survivors.verdicts[survivors.frame] & COPY:
        return copy(survivors, at) if has_room(survivors, size) else FULL
    if survivors.verdicts[survivors.frame] & KEEP_EMPTY:
        return NOT_PLAIN
    survivors.table.row_count = 0
    status = read_rows(survivors)
    if status != DONE:
        return status
    if not has_room(survivors, size + _BATCH_GROWTH):
        return FULL
    survivors.counts.records += 1
    kept = retain(survivors, survivors.p, survivors.table.rows, 1, survivors.keeps_tombstones, survivors.keep)
    if kept == 0:
        survivors.counts.dropped += 1
        return DONE
    survivors.counts.kept += 1
    if survivors.keeps_format:
        return copy(survivors, at)
    # As a v2 batch of one record.
    rows: OutColumns = survivors.table.rows
    base: longlong = rows[ROW_TIMESTAMP]
    attributes: longlong = survivors.p[position + LEGACY_FLAGS] & LOG_APPEND_TIME
    if survivors.message.magic == 0:
        attributes = 0
    if rows[ROW_VALUE_SIZE] < 0:
        base = survivors.now_ms + survivors.retention_ms
        attributes |= DELETE_HORIZON
    end = put_records(
        survivors.p, rows, survivors.keep, 1, rows[ROW_OFFSET], base, survivors.out, survivors.size + V2_HEADER_BYTES
    )
    put_single_header(survivors.out, survivors.size, end, rows[ROW_OFFSET], attributes, base, rows[ROW_TIMESTAMP])
    survivors.size = end
    survivors.counts.rewritten += 1
    return DONE


def write_batch(survivors: Survivors, at: Py_ssize_t) -> cython.int:
    """Writes the survivors of a v2 batch."""
    verdict: longlong = survivors.verdicts[survivors.frame]
    size: Py_ssize_t = survivors.frames[at + BATCH_SIZE]
    records: longlong = survivors.frames[at + BATCH_COUNT]
    attributes: longlong = survivors.frames[at + BATCH_ATTRIBUTES]
    rows: OutColumns = survivors.table.rows
    kept: longlong = 0
    has_horizon: bint = not survivors.has_horizons or (attributes & DELETE_HORIZON) != 0
    is_protected: bint = survivors.keeps_tombstones
    needs_horizon: bint = False
    if not has_room(survivors, size):
        return FULL
    if verdict & COPY:
        return copy(survivors, at)
    if verdict & DISCARD:
        survivors.counts.records += records
        if attributes & CONTROL:
            survivors.counts.discarded_markers += records
        else:
            survivors.counts.discarded_records += records
    elif records != 0:
        status = open_records(survivors, at)
        if status != DONE:
            return status
        survivors.counts.records += records
        if verdict & ALL:
            for k in range(records):
                survivors.keep[k] = 1
            kept = records
            needs_horizon = (verdict & EMPTY_TXN) != 0 and not has_horizon
        else:
            if survivors.has_horizons:  # tombstones stay without a delete horizon, or until it is reached
                is_protected = not has_horizon or survivors.now_ms < survivors.frames[at + BATCH_BASE_TIMESTAMP]
            kept = retain(survivors, survivors.area.payload, rows, records, is_protected, survivors.keep)
            if not has_horizon:  # kept tombstones need one
                for k in range(records):
                    needs_horizon |= survivors.keep[k] != 0 and rows[k * ROW_WIDTH + ROW_VALUE_SIZE] < 0
        survivors.counts.kept += kept
    if kept == 0:
        if verdict & KEEP_EMPTY:
            # As DefaultRecordBatch.writeEmptyHeader.
            put_header(
                survivors.out, survivors.size, survivors.size + V2_HEADER_BYTES, survivors.p,
                survivors.frames[at + BATCH_POSITION], attributes & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL), -1,
                survivors.frames[at + BATCH_MAX_TIMESTAMP], 0,
            )  # fmt: skip
            survivors.size += V2_HEADER_BYTES
            survivors.counts.emptied += 1
        else:
            survivors.counts.dropped += 1
    elif kept == records and not needs_horizon:
        return copy(survivors, at)
    else:
        survivors.counts.rewritten += 1
        return rewrite(survivors, at, kept, needs_horizon)
    return DONE


def rewrite(survivors: Survivors, at: Py_ssize_t, kept: longlong, needs_horizon: bint) -> cython.int:
    """Rewrites a batch. Returns DONE, or NEEDS_PACKING if its records must be compressed."""
    position: Py_ssize_t = survivors.frames[at + BATCH_POSITION]
    rows: OutColumns = survivors.table.rows
    attributes: longlong = survivors.frames[at + BATCH_ATTRIBUTES] & _ATTRIBUTES
    first: longlong = -1
    largest: longlong = -1
    for k in range(survivors.frames[at + BATCH_COUNT]):
        if survivors.keep[k]:
            if first < 0:
                first = k
            largest = max(largest, rows[k * ROW_WIDTH + ROW_TIMESTAMP])
    survivors.base_timestamp = rows[first * ROW_WIDTH + ROW_TIMESTAMP]
    survivors.max_timestamp = survivors.frames[at + BATCH_MAX_TIMESTAMP] if attributes & LOG_APPEND_TIME else largest
    if needs_horizon:
        survivors.base_timestamp = survivors.now_ms + survivors.retention_ms
        attributes |= DELETE_HORIZON
    elif attributes & DELETE_HORIZON:
        survivors.base_timestamp = survivors.frames[at + BATCH_BASE_TIMESTAMP]
    survivors.attributes = attributes
    end = put_records(
        survivors.area.payload, rows, survivors.keep, survivors.frames[at + BATCH_COUNT],
        survivors.frames[at + BATCH_FIRST_OFFSET], survivors.base_timestamp, survivors.out,
        survivors.size + V2_HEADER_BYTES,
    )  # fmt: skip
    survivors.kept = kept
    if survivors.frames[at + BATCH_ATTRIBUTES] & CODEC:
        survivors.area_size = end - survivors.size - V2_HEADER_BYTES
        return NEEDS_PACKING
    put_header(
        survivors.out, survivors.size, end, survivors.p, position, survivors.attributes, survivors.base_timestamp,
        survivors.max_timestamp, kept,
    )  # fmt: skip
    survivors.size = end
    return DONE
