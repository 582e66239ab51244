"""Hashes the keys of v2 batches and of plain messages v0 and v1 for `kseg.kernel.compact.key_map`."""

import cython
from cython.cimports.kseg.kernel.codecs.expand import ExpansionBuffer
from cython.cimports.kseg.kernel.compact.key_map import KeyHash, hash_key
from cython.cimports.kseg.kernel.records.cursor import FrameCursor, extend, leave, read_rows, use_frames, use_rows


class KeyReader(FrameCursor):
    """Reads the keys of records whose offset is ``least`` or above, window by window.

    ``keys``: the number written so far; the caller resets it, and the position for each window.
    """

    def __init__(self, secret, least):
        FrameCursor.__init__(self)
        self.secret = secret
        self.least = least
        self.keys = 0

    def read(
        self,
        data: BytesIn,
        batches: Int64sIn,
        count: cython.Py_ssize_t,
        verdicts: Int64sIn,
        rows: Int64sOut,
        hashes: Int64sOut,
        offsets: Int64sOut,
        expansion: ExpansionBuffer,
        opened: BytesIn = None,
    ) -> int:
        """Hashes the keys of the batches from ``frame`` up to ``count``; their rows BATCH_* have positions in ``data``.

        ``verdicts``: SKIP or 0 for each batch. ``opened``: the records of the next batch, if the caller had to
        decompress it. Returns DONE, FULL (``hashes`` or ``offsets``) or NOT_PLAIN. Raises ValueError if a buffer is too
        short.
        """
        status: cython.int = NEEDS_BUFFER
        capacity: cython.Py_ssize_t = min(len(offsets), len(hashes) // 2)
        if count <= self.frame:
            return DONE
        if self.keys < 0 or len(verdicts) < count:
            raise ValueError("a buffer is too short")
        use_frames(self, data, batches, count, BATCH_WIDTH, expansion, opened)
        self.table.row_count = 0
        use_rows(self, rows, rows[:0])
        self.table.header_capacity = -1
        row_capacity: cython.Py_ssize_t = self.table.row_capacity
        self.verdicts = int64s_in(verdicts)
        while status == NEEDS_BUFFER:
            with cython.nogil:
                status = DONE
                while self.frame < self.stop and status == DONE:
                    if not self.is_open and has_no_keys(self):
                        self.frame += 1
                    elif self.keys >= capacity:
                        status = FULL
                    else:
                        self.table.row_count = 0
                        self.table.row_capacity = min(row_capacity, capacity - self.keys)
                        status = read_rows(self)
                        if status == DONE:
                            count = self.table.row_count
                            hash_rows(self, self.area.payload, self.table.rows, count, hashes, offsets)
                            leave(self, count)
            if status == NEEDS_BUFFER:
                status = extend(self, expansion)
        return status

    def read_rows(
        self, payload: BytesIn, rows: Int64sIn, count: cython.Py_ssize_t, hashes: Int64sOut, offsets: Int64sOut
    ) -> int:
        """Hashes the keys of ``count`` rows (ROW_*), written from the start. Returns the number of keys.

        Raises ValueError if a buffer is too short.
        """
        if count <= 0 or len(payload) == 0:
            return 0
        if len(rows) < count * ROW_WIDTH or len(hashes) < 2 * count or len(offsets) < count:
            raise ValueError("a buffer is too short")
        self.keys = 0
        hash_rows(self, bytes_in(payload), int64s_in(rows), count, hashes, offsets)
        count, self.keys = self.keys, 0
        return count


def hash_rows(reader, payload, rows, count, hashes, offsets):
    """Adds the records of a batch that have a key and an offset of ``least`` or above."""
    keys: cython.Py_ssize_t = reader.keys
    key = cython.declare(KeyHash)
    for k in range(count):
        row = k * ROW_WIDTH
        if rows[row + ROW_KEY_SIZE] >= 0 and rows[row + ROW_OFFSET] >= reader.least:
            hash_key(payload, rows[row + ROW_KEY], rows[row + ROW_KEY_SIZE], reader.secret, cython.address(key))
            hashes[2 * keys] = key.high
            hashes[2 * keys + 1] = key.low
            offsets[keys] = rows[row + ROW_OFFSET]
            keys += 1
    reader.keys = keys


def has_no_keys(reader):
    """Whether the header of the next batch shows that no key of it is wanted."""
    at: cython.Py_ssize_t = reader.frame * BATCH_WIDTH
    return reader.frames[at + BATCH_MAGIC] == MAGIC_V2 and (
        reader.verdicts[reader.frame] & SKIP
        or reader.frames[at + BATCH_ATTRIBUTES] & CONTROL
        or reader.frames[at + BATCH_COUNT] == 0
        or reader.frames[at + BATCH_LAST_OFFSET] < reader.least
    )
