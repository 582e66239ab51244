"""Checks every record of a frame without keeping it: the main work of a full verification.

Compressed v2 batches are decompressed into an `ExpansionBuffer` (`kseg.kernel.codecs.expand`), which the caller extends
if necessary. A frame without RECORDS_RIGHT may still be valid: the caller must open gzip, snappy, compressed v0 and v1
messages, and malformed records.
"""

import cython
from cython.cimports.kseg.kernel.codecs.expand import BUFFER_FULL, expand_batch
from cython.cimports.kseg.kernel.layout.headers import (
    CODEC,
    ENTRY_MAGIC,
    MAGIC_V2,
    V0_HEADER_BYTES,
    V1_HEADER_BYTES,
    V2_FLAGS,
    V2_HEADER_BYTES,
)
from cython.cimports.kseg.kernel.layout.rows import NULL_KEYS, RECORDS_RIGHT, be32
from cython.cimports.kseg.kernel.records.plain import is_legacy_plain
from cython.cimports.kseg.kernel.records.record_fields import COMPLETE
from cython.cimports.kseg.kernel.records.records import (
    FLAG_ATTRIBUTES,
    FLAG_NOT_RISING,
    FLAG_NULL_KEY,
    FLAG_OUT_OF_RANGE,
    RecordCursor,
    RecordsHeader,
    begin_records,
    read_records_header,
    walk_records,
)


def walk_message(scan, p, i, size):
    """`walk_frame` of a v0 or v1 message."""
    magic: cython.int = p[i + ENTRY_MAGIC]
    if not is_legacy_plain(p, i, size, magic):
        return 0
    scan.records += 1
    if be32(p, i + (V1_HEADER_BYTES if magic else V0_HEADER_BYTES)) < 0:
        return RECORDS_RIGHT | NULL_KEYS
    return RECORDS_RIGHT


def walk_frame(scan, p, i, size):
    """Checks the records of the frame at i, whose CRC is right. Returns bits of STATE: 0, RECORDS_RIGHT and NULL_KEYS.

    BUFFER_FULL: the caller must extend the expansion buffer and call again, or treat the result as 0.
    """
    header: RecordsHeader
    cursor: RecordCursor
    codec: cython.int
    held: cython.Py_ssize_t
    status: cython.int
    if p[i + ENTRY_MAGIC] < MAGIC_V2:
        return walk_message(scan, p, i, size)
    if size < V2_HEADER_BYTES:
        return 0
    if not cython.compiled:
        header, cursor = RecordsHeader(), RecordCursor()
    read_records_header(p, i, cython.address(header))
    codec = p[i + V2_FLAGS] & CODEC
    if header.count > header.last_offset_delta + 1:  # more records than offsets
        return 0
    if header.count == 0:
        return RECORDS_RIGHT if size == V2_HEADER_BYTES and not codec else 0
    if codec == 0:
        begin_records(cython.address(cursor), i + V2_HEADER_BYTES, -1)
        status = walk_records(p, i + size, cython.address(cursor), cython.address(header))
    elif cython.compiled and scan.out != cython.NULL:
        held = expand_batch(p, i, size, scan.out, scan.out_bytes, scan.zstd)
        if held < 0:
            return BUFFER_FULL if held == BUFFER_FULL else 0
        begin_records(cython.address(cursor), 0, -1)
        status = walk_records(scan.out, held, cython.address(cursor), cython.address(header))
    else:
        return 0
    if status != COMPLETE or cursor.flags & (FLAG_NOT_RISING | FLAG_OUT_OF_RANGE | FLAG_ATTRIBUTES):
        return 0
    if cursor.largest_timestamp != header.max_timestamp:
        return 0
    scan.records += header.count
    return RECORDS_RIGHT | NULL_KEYS if cursor.flags & FLAG_NULL_KEY else RECORDS_RIGHT
