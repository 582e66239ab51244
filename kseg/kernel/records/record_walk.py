"""A walk over the records of a v2 batch, for callers in Python."""

import cython
from cython.cimports.kseg.kernel.layout.pointers import bytes_in, int64s_out
from cython.cimports.kseg.kernel.layout.rows import HEADER_WIDTH, ROW_WIDTH
from cython.cimports.kseg.kernel.records.records import (
    RecordCursor,
    RecordsHeader,
    RecordTable,
    append_records,
    begin_records,
    walk_records,
)

_LARGEST_TIMESTAMP = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)


class RecordWalk:
    """A walk over the records of one batch. The arguments are fields of its header; times in ms."""

    def __init__(
        self, count, base_offset, base_timestamp, max_timestamp, is_append_time, base_sequence, last_offset_delta,
        position=0,
    ):  # fmt: skip
        if not cython.compiled:
            self.header, self.cursor, self.table = RecordsHeader(), RecordCursor(), RecordTable()
        self.header.count = count
        self.header.base_offset = base_offset
        self.header.base_timestamp = base_timestamp
        self.header.max_timestamp = max_timestamp
        self.header.is_append_time = is_append_time
        self.header.base_sequence = base_sequence
        self.header.last_offset_delta = last_offset_delta
        begin_records(cython.address(self.cursor), position, -_LARGEST_TIMESTAMP - 1)

    @property
    def index(self):
        """The number of the next record, from 0."""
        return self.cursor.index

    @property
    def position(self):
        """The position of that record in its payload."""
        return self.cursor.position

    @property
    def row_count(self):
        """Rows written by the last `read`."""
        return self.table.row_count

    @property
    def header_count(self):
        """Rows of headers written by the last `read`."""
        return self.table.header_count

    @property
    def flags(self):
        """FLAG_* of all records so far."""
        return self.cursor.flags

    @property
    def largest_timestamp(self):
        """The largest timestamp of all records so far, in ms."""
        return self.cursor.largest_timestamp

    def read(
        self,
        payload: cython.const[cython.uchar][::1],
        rows: cython.longlong[::1],
        headers: cython.longlong[::1],
    ) -> int:
        """`append_records` for int64 buffers ``rows`` and ``headers``. Raises ValueError if no row fits."""
        status: cython.int
        if len(rows) < ROW_WIDTH:
            raise ValueError("a buffer is too short")
        self.table.rows, self.table.row_capacity, self.table.row_count = int64s_out(rows), len(rows) // ROW_WIDTH, 0
        self.table.headers, self.table.header_count = int64s_out(headers), 0
        self.table.header_capacity = len(headers) // HEADER_WIDTH
        p = bytes_in(payload)
        end: cython.Py_ssize_t = len(payload)
        with cython.nogil:
            status = append_records(
                p, end, cython.address(self.cursor), cython.address(self.header), cython.address(self.table)
            )
        return status

    def check(self, payload: cython.const[cython.uchar][::1]) -> int:
        """Checks the rest of the batch without writing rows; returns the same results."""
        status: cython.int
        p = bytes_in(payload)
        end: cython.Py_ssize_t = len(payload)
        with cython.nogil:
            status = walk_records(p, end, cython.address(self.cursor), cython.address(self.header))
        return status
