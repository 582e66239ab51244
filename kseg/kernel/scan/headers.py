"""Reads the headers of frames into rows of int64 (BATCH_*, see `kseg.kernel.layout.rows`).

The rows include the marker of a control batch: type and coordinator epoch of its first record, which is never
compressed. Source: Kafka's ControlRecordType and EndTransactionMarker; key: int16 version, int16 type; value: int16
version, int32 coordinator epoch.
"""

import cython
from cython.cimports.kseg.kernel.records.records import (
    RecordCursor,
    RecordsHeader,
    RecordTable,
    append_records,
    begin_records,
    read_records_header,
)


def read_marker(p, at, size, out, row):
    """Fills MARKER and COORDINATOR_EPOCH from the first record of the control batch at p[at]."""
    header = cython.declare(RecordsHeader)
    cursor = cython.declare(RecordCursor)
    table = cython.declare(RecordTable)
    record = cython.declare(cython.longlong[ROW_WIDTH])
    headers = cython.declare(cython.longlong[HEADER_WIDTH])
    if p[at + V2_FLAGS] & CODEC or be32(p, at + V2_COUNT) < 1:
        return
    read_records_header(p, at, cython.address(header))
    begin_records(cython.address(cursor), at + V2_HEADER_BYTES, 0)
    table.rows = record
    table.row_capacity = table.header_capacity = 1
    table.headers = headers
    table.row_count = table.header_count = 0
    append_records(p, at + size, cython.address(cursor), cython.address(header), cython.address(table))
    if table.row_count != 1 or record[ROW_KEY_SIZE] < MARKER_KEY_BYTES:
        return
    out[row + BATCH_MARKER] = be16(p, record[ROW_KEY] + VERSION_BYTES)
    if record[ROW_VALUE_SIZE] >= MARKER_VALUE_BYTES:
        out[row + BATCH_COORDINATOR_EPOCH] = be32(p, record[ROW_VALUE] + VERSION_BYTES)


def read_v2(p, at, size, out, row):
    out[row + BATCH_FIRST_OFFSET] = be64(p, at + V2_BASE_OFFSET)
    out[row + BATCH_LAST_OFFSET] = sum_of(be64(p, at + V2_BASE_OFFSET), be32(p, at + V2_LAST_OFFSET_DELTA))
    out[row + BATCH_ATTRIBUTES] = be16(p, at + V2_ATTRIBUTES) & 0xFFFF
    out[row + BATCH_LEADER_EPOCH] = be32(p, at + V2_LEADER_EPOCH)
    out[row + BATCH_BASE_TIMESTAMP] = be64(p, at + V2_BASE_TIMESTAMP)
    out[row + BATCH_MAX_TIMESTAMP] = be64(p, at + V2_MAX_TIMESTAMP)
    out[row + BATCH_PRODUCER_ID] = be64(p, at + V2_PRODUCER_ID)
    out[row + BATCH_PRODUCER_EPOCH] = be16(p, at + V2_PRODUCER_EPOCH)
    out[row + BATCH_BASE_SEQUENCE] = be32(p, at + V2_BASE_SEQUENCE)
    out[row + BATCH_COUNT] = be32(p, at + V2_COUNT)
    out[row + BATCH_MARKER] = -1
    out[row + BATCH_COORDINATOR_EPOCH] = -1
    if p[at + V2_FLAGS] & CONTROL:
        read_marker(p, at, size, out, row)


def read_frames(p, frames, count, v07, origin, out, row):
    """Writes the rows of the headers from column ``row`` of ``out`` on."""
    row -= BATCH_WIDTH
    for i in range(count):
        at = frames[i * FRAME_WIDTH + FRAME_POSITION]
        size = frames[i * FRAME_WIDTH + FRAME_SIZE]
        magic = frames[i * FRAME_WIDTH + FRAME_MAGIC]
        row += BATCH_WIDTH
        out[row + BATCH_POSITION] = origin + at
        out[row + BATCH_SIZE] = size
        out[row + BATCH_MAGIC] = magic
        out[row + BATCH_STATE] = frames[i * FRAME_WIDTH + FRAME_STATE]
        if magic >= MAGIC_V2 and not v07:
            read_v2(p, at, size, out, row)
            continue
        for k in range(BATCH_FIRST_OFFSET, BATCH_WIDTH):
            out[row + k] = -1
        if v07:
            out[row + BATCH_ATTRIBUTES] = p[at + V07_ATTRIBUTES] if magic == 1 else 0
            if not out[row + BATCH_ATTRIBUTES] & V07_CODEC:
                out[row + BATCH_COUNT] = 1
        else:
            out[row + BATCH_ATTRIBUTES] = p[at + LEGACY_FLAGS]
            out[row + BATCH_LAST_OFFSET] = be64(p, at)
            if magic != 0:
                out[row + BATCH_MAX_TIMESTAMP] = be64(p, at + V1_TIMESTAMP)
            if not p[at + LEGACY_FLAGS] & CODEC:
                out[row + BATCH_FIRST_OFFSET] = be64(p, at)
                out[row + BATCH_COUNT] = 1


def read(
    buffer: BytesIn,
    frames: Int64sIn,
    count: cython.Py_ssize_t,
    v07: cython.bint,
    origin: cython.longlong,
    out: Int64sOut,
) -> None:
    """Writes the headers of the first ``count`` frames to ``out``, rows BATCH_*. ``origin`` is added to positions.

    Each frame must be a result of `kseg.kernel.scan.frames`, or have a complete header of its magic in the buffer.
    Raises ValueError if a buffer is too short.
    """
    if count <= 0:
        return
    last = (count - 1) * FRAME_WIDTH
    if len(frames) < count * FRAME_WIDTH or len(out) < count * BATCH_WIDTH or frames[FRAME_POSITION] < 0:
        raise ValueError("a buffer is too short")
    if frames[last + FRAME_POSITION] + frames[last + FRAME_SIZE] > len(buffer):
        raise ValueError("frames lie outside the buffer")
    p, found, rows = bytes_in(buffer), int64s_in(frames), int64s_out(out)
    with cython.nogil:
        read_frames(p, found, count, v07, origin, rows, 0)
