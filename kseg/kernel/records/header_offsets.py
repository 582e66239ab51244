"""Offsets of records by the headers of their v2 batches. The records are neither read nor decompressed.

A header gives them if its batch is intact and has as many records as offsets: a broker assigns consecutive offsets, and
only compaction makes gaps. Rows of headers: BATCH_*, see `kseg.kernel.layout.rows`. ``wanted``: as in
`kseg.kernel.records.columns`; times are ignored.
"""

import cython
from cython.cimports.kseg.kernel.layout.headers import (
    CODEC,
    CONTROL,
    HIGHEST_CODEC,
    MAGIC_V2,
    MIN_RECORD_BYTES,
    V2_HEADER_BYTES,
)
from cython.cimports.kseg.kernel.layout.pointers import int64s_in, int64s_out
from cython.cimports.kseg.kernel.layout.rows import (
    BATCH_ATTRIBUTES,
    BATCH_COUNT,
    BATCH_FIRST_OFFSET,
    BATCH_LAST_OFFSET,
    BATCH_MAGIC,
    BATCH_SIZE,
    BATCH_STATE,
    BATCH_WIDTH,
    CRC_RIGHT,
)
from cython.cimports.kseg.kernel.records.columns import WANTED_FIRST, WANTED_LAST, WANTED_WIDTH


def is_given(rows, batch, max_batch_bytes):
    """Whether the header of a batch gives the offsets of its records."""
    at: cython.Py_ssize_t = batch * BATCH_WIDTH
    first: cython.longlong = rows[at + BATCH_FIRST_OFFSET]
    last: cython.longlong = rows[at + BATCH_LAST_OFFSET]
    codec: cython.longlong = rows[at + BATCH_ATTRIBUTES] & CODEC
    record_bytes: cython.longlong = max_batch_bytes if codec else rows[at + BATCH_SIZE] - V2_HEADER_BYTES
    if not rows[at + BATCH_STATE] & CRC_RIGHT or rows[at + BATCH_MAGIC] != MAGIC_V2 or codec > HIGHEST_CODEC:
        return False
    if first < 0 or last < first or rows[at + BATCH_COUNT] != last - first + 1:
        return False
    return rows[at + BATCH_COUNT] <= record_bytes // MIN_RECORD_BYTES


class HeaderOffsets:
    """The position of a pass over headers: ``batch`` is the next one, ``delta`` its first offset that is not passed.

    No batch is taken by its header if it has more records than fit into ``max_batch_bytes``.
    """

    def __init__(self, max_batch_bytes):
        self.batch = 0
        self.delta = 0
        self.max_batch_bytes = max_batch_bytes

    def fill(
        self,
        rows: cython.const[cython.longlong][::1],
        stop: cython.Py_ssize_t,
        wanted: cython.const[cython.longlong][::1],
        out: cython.longlong[::1],
        at: cython.Py_ssize_t,
    ) -> int:
        """Writes the wanted offsets from out[at] on, and returns where they end.

        It stops where ``out`` is full, at a batch whose header does not give its offsets, and at the batch ``stop``.
        Raises ValueError if a buffer is too short.
        """
        if len(wanted) < WANTED_WIDTH:
            raise ValueError("a buffer is too short")
        if not 0 <= at <= len(out):
            raise ValueError("no such place in the column")
        check_batches(len(rows), self.batch, stop)
        if self.batch == stop or at == len(out):
            return at
        headers, asked, offsets = int64s_in(rows), int64s_in(wanted), int64s_out(out)
        capacity: cython.Py_ssize_t = len(out)
        with cython.nogil:
            at = fill_offsets(self, headers, stop, asked, offsets, capacity, at)
        return at

    def next_given(self, rows: cython.const[cython.longlong][::1], stop: cython.Py_ssize_t) -> int:
        """Returns the next batch from ``batch`` on whose header gives the offsets, or ``stop``."""
        batch: cython.Py_ssize_t = self.batch
        check_batches(len(rows), batch, stop)
        headers = int64s_in(rows)
        while batch < stop and not is_given(headers, batch, self.max_batch_bytes):
            batch += 1
        return batch


def fill_offsets(progress, rows, stop, wanted, out, capacity, at):
    row: cython.Py_ssize_t
    first: cython.longlong
    last: cython.longlong
    count: cython.longlong
    k: cython.longlong
    while progress.batch < stop and is_given(rows, progress.batch, progress.max_batch_bytes):
        row = progress.batch * BATCH_WIDTH
        first = max(rows[row + BATCH_FIRST_OFFSET] + progress.delta, wanted[WANTED_FIRST])
        last = min(rows[row + BATCH_LAST_OFFSET], wanted[WANTED_LAST])
        if not rows[row + BATCH_ATTRIBUTES] & CONTROL and first <= last:
            count = min(last - first + 1, capacity - at)
            for k in range(count):
                out[at + k] = first + k
            at += count
            if count < last - first + 1:
                progress.delta = first + count - rows[row + BATCH_FIRST_OFFSET]
                return at
        progress.batch += 1
        progress.delta = 0
    return at


def check_batches(length, first, stop):
    """Raises ValueError unless there are such batches."""
    if not 0 <= first <= stop <= length // BATCH_WIDTH:
        raise ValueError("no such batches")
