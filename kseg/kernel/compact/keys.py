"""Hashes the keys of v2 batches and of plain messages v0 and v1 for `kseg.kernel.compact.key_map`."""

import cython
from cython.cimports.kseg.kernel.codecs.expand import ExpansionBuffer
from cython.cimports.kseg.kernel.compact.key_map import KeyHash, hash_key
from cython.cimports.kseg.kernel.records.opening import (
    DONE,
    NEEDS_OPENING,
    OUTPUT_FULL,
    ROWS_FULL,
    BatchWindow,
    fill_window,
    open_batch,
    read_batch,
)
from cython.cimports.kseg.kernel.records.plain import is_legacy_plain, legacy_row


class KeyReader:
    """Reads the keys of records whose offset is ``least`` or above, window by window.

    ``batch``: the next batch of the window; ``keys``: the number written so far; the caller resets both. ``needed``:
    number of records that the buffers must hold. ``reason``: why records are malformed (REASONS of opening and
    record_fields).
    """

    def __init__(self, secret, least):
        self.secret = secret
        self.least = least
        self.batch = self.keys = 0
        self.needed = self.reason = 0

    def read(
        self,
        data: cython.const[cython.uchar][::1],
        batches: cython.const[cython.longlong][::1],
        count: cython.Py_ssize_t,
        verdicts: cython.const[cython.longlong][::1],
        rows: cython.longlong[::1],
        hashes: cython.longlong[::1],
        offsets: cython.longlong[::1],
        expansion: ExpansionBuffer,
        opened: cython.const[cython.uchar][::1] = None,
    ) -> int:
        """Hashes the keys of batches ``batch`` to ``count``; their rows BATCH_* have positions in ``data``.

        ``verdicts``: SKIP or 0 for each batch. ``opened``: the records of the next batch, if the caller had to
        decompress it. Returns DONE, or why it stopped at ``batch`` (`kseg.kernel.records.opening`); OUTPUT_FULL:
        ``hashes`` or ``offsets`` is full. Raises ValueError if ``batches``, ``verdicts`` or ``rows`` is too short.
        """
        status: cython.int
        window = cython.declare(BatchWindow)
        if count <= self.batch:
            return DONE
        if self.batch < 0 or self.keys < 0:
            raise ValueError("there are no such batches")
        fill_window(cython.address(window), data, batches, count, verdicts, rows, expansion, opened)
        with cython.nogil:
            status = hash_window(self, cython.address(window), hashes, offsets)
        self.reason = window.reason
        return status

    def read_rows(
        self,
        payload: cython.const[cython.uchar][::1],
        rows: cython.const[cython.longlong][::1],
        count: cython.Py_ssize_t,
        hashes: cython.longlong[::1],
        offsets: cython.longlong[::1],
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
    k: cython.Py_ssize_t
    row: cython.Py_ssize_t
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


def hash_window(reader, window, hashes, offsets):
    i: cython.Py_ssize_t
    status: cython.int
    capacity: cython.Py_ssize_t = min(len(offsets), len(hashes) // 2)
    for i in range(reader.batch, window.count):
        reader.batch = i
        if window.batches[i * BATCH_WIDTH + BATCH_MAGIC] == MAGIC_V2:
            status = hash_batch(reader, window, i, capacity, hashes, offsets)
        else:
            status = hash_message(reader, window, i, capacity, hashes, offsets)
        if status != DONE:
            return status
    reader.batch = window.count
    return DONE


def hash_message(reader, window, i, capacity, hashes, offsets):
    """Adds the key of a plain message v0 or v1."""
    at: cython.Py_ssize_t = i * BATCH_WIDTH
    position: cython.Py_ssize_t = window.batches[at + BATCH_POSITION]
    magic: cython.int = window.batches[at + BATCH_MAGIC]
    if magic > 1 or not is_legacy_plain(window.p, position, window.batches[at + BATCH_SIZE], magic):
        return NEEDS_OPENING
    if reader.keys >= capacity:
        reader.needed = 1
        return OUTPUT_FULL
    legacy_row(window.p, position, magic, window.rows, 0)
    hash_rows(reader, window.p, window.rows, 1, hashes, offsets)
    return DONE


def hash_batch(reader, window, i, capacity, hashes, offsets):
    """Adds the keys of a v2 batch."""
    at: cython.Py_ssize_t = i * BATCH_WIDTH
    records: cython.longlong = window.batches[at + BATCH_COUNT]
    status: cython.int
    if (
        window.verdicts[i] & SKIP
        or window.batches[at + BATCH_ATTRIBUTES] & CONTROL
        or records == 0
        or window.batches[at + BATCH_LAST_OFFSET] < reader.least
    ):
        return DONE
    status = open_batch(window, at)
    if status != DONE:
        return status
    if records > capacity - reader.keys or records > window.row_capacity:
        reader.needed = records
        return OUTPUT_FULL if reader.keys else ROWS_FULL
    status = read_batch(window, at)
    if status == DONE:
        hash_rows(reader, window.payload, window.rows, records, hashes, offsets)
    return status
