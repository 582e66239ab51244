"""The lines of batches and of their records: as kafka-dump-log (4.4) prints them, byte for byte, and as JSON Lines."""

import cython
from cython import Py_ssize_t, bint, longlong, pointer
from cython.cimports.kseg.kernel.native import escape
from cython.cimports.kseg.kernel.native.escape import (
    put,
    put_base64,
    put_field,
    put_int,
    put_java,
    put_json,
    put_number,
    put_raw,
    put_visible,
)
from cython.cimports.kseg.kernel.records.messages import kind_in, kind_of, time_of
from cython.cimports.kseg.kernel.records.records import sequence_after

if not cython.compiled:  # kseg._build declares these constants for C
    # What is printed. DEEP: the records of each batch; CONTENTS: their keys and values, in JSON those of headers too;
    # LINE_ONLY: the line of a batch, whatever the frame holds.
    DEEP = 1
    CONTENTS = 2
    LINE_ONLY = 16
    # In text. SKIP_METADATA: nothing but keys and values; ESCAPE: control characters as \n, \r, \t or \xNN.
    SKIP_METADATA = 4
    ESCAPE = 8
    # In JSON: the object form, whatever the bytes are.
    BASE64_KEYS = 32
    BASE64_VALUES = 64

    Context = cython.struct()
    Line = cython.struct(context=Context)

# Records as JSON Lines: one object per line, keys in the order that ``kseg dump --format json`` promises.
#
# Only mandatory escapes are used. Bytes are a string if they are strict UTF-8 (no surrogates, no over-long forms),
# else ``{"base64":"..."}``; a missing key or value is null. A field that the format lacks is absent, an unset field
# is null.

escape.shuffle_setup()


def put_json_bytes(
    line: pointer[Line], start: Py_ssize_t, size: Py_ssize_t, as_base64: bint, o: Py_ssize_t
) -> Py_ssize_t:
    """Writes null, a string or the object form. Negative if the output is full."""
    if size < 0:
        return put(line.out, o, b"null")
    after = NOT_UTF8
    if not as_base64:
        after = put_json(line.out, o, line.limit, line.p, start, size)
    if after == NOT_UTF8:
        o = put(line.out, o, b'{"base64":"')
        after = put_base64(line.out, o, line.limit, line.p, start, size)
        if after >= 0:
            after = put(line.out, after, b'"}')
    return after


def put_headers(line: pointer[Line], row: Py_ssize_t, o: Py_ssize_t) -> Py_ssize_t:
    headers: Columns = line.headers
    h: Py_ssize_t = line.rows[row + ROW_HEADERS] * HEADER_WIDTH
    o = put(line.out, o, b',"headers":[')
    for k in range(line.rows[row + ROW_HEADER_COUNT]):
        if k:
            o = put(line.out, o, b",")
        o = put(line.out, o, b'{"key":')
        o = put_json_bytes(line, headers[h + HEADER_KEY], headers[h + HEADER_KEY_SIZE], False, o)
        if o < 0:
            return o
        if line.flags & CONTENTS:
            o = put(line.out, o, b',"value":')
            o = put_json_bytes(line, headers[h + HEADER_VALUE], headers[h + HEADER_VALUE_SIZE], False, o)
            if o < 0:
                return o
        o = put(line.out, o, b"}")
        h += HEADER_WIDTH
    return put(line.out, o, b"]")


def put_fields(line: pointer[Line], row: Py_ssize_t, o: Py_ssize_t) -> Py_ssize_t:
    """Writes the object of a record without its end; ``row``: its first column. Negative if the output is full."""
    out: OutBytes = line.out
    rows: Columns = line.rows
    kind: cython.int = line.kind
    o = put_raw(out, o, line.context.record, line.context.record_size)
    o = put_int(out, o, line.position)
    o = put_raw(out, o, line.context.place, line.context.place_size)
    o = put_int(out, o, rows[row + ROW_OFFSET])
    if line.magic < MAGIC_V2:
        kind = kind_in(rows[row + ROW_CHECK])
    if kind:
        o = put_number(out, o, b',"timestamp":', rows[row + ROW_TIMESTAMP])
        o = put_json_kind(out, o, kind)
    if line.magic >= MAGIC_V2:
        o = put(out, o, b',"sequence":')
        if rows[row + ROW_SEQUENCE] == -1:
            o = put(out, o, b"null")
        else:
            o = put_int(out, o, rows[row + ROW_SEQUENCE])
    o = put_number(out, o, b',"keySize":', rows[row + ROW_KEY_SIZE])
    o = put_number(out, o, b',"valueSize":', rows[row + ROW_VALUE_SIZE])
    if line.magic >= MAGIC_V2:
        o = put_headers(line, row, o)
        if o < 0:
            return o
    if line.flags & CONTENTS:
        o = put(out, o, b',"key":')
        o = put_json_bytes(line, rows[row + ROW_KEY], rows[row + ROW_KEY_SIZE], line.flags & BASE64_KEYS, o)
        if o < 0:
            return o
        o = put(out, o, b',"value":')
        o = put_json_bytes(line, rows[row + ROW_VALUE], rows[row + ROW_VALUE_SIZE], line.flags & BASE64_VALUES, o)
    return o


# The line of a batch, as kafka-dump-log prints it (Kafka's DumpLogSegments.printBatchLevel) and as a JSON object.
#
# As in Kafka, a frame of magic 2 or above is read by the v2 header, any other (negative magic included) by the header
# of v0 and v1.

# The format of record lines is that of Kafka's DumpLogSegments.printRecordMetadata and printRecordContents. Keys,
# values and header keys appear as Java's ``new String(bytes, UTF_8)`` shows them: U+FFFD for malformed UTF-8.


def put_text(line: pointer[Line], start: Py_ssize_t, size: Py_ssize_t, o: Py_ssize_t) -> Py_ssize_t:
    """Writes ``size`` bytes from ``start`` on. Negative if the output is full."""
    if line.flags & ESCAPE:
        return put_visible(line.out, o, line.limit, line.p, start, size)
    return put_java(line.out, o, line.limit, line.p, start, size)


def put_metadata(line: pointer[Line], row: Py_ssize_t, o: Py_ssize_t) -> Py_ssize_t:
    """Writes the line of a record up to its key; ``row``: its first column. Negative if the output is full."""
    out: OutBytes = line.out
    rows: Columns = line.rows
    if line.flags & SKIP_METADATA:
        return o
    o = put_number(out, o, b"| offset: ", rows[row + ROW_OFFSET])
    o = put_text_kind(out, o, line.kind)
    o = put_int(out, o, rows[row + ROW_TIMESTAMP])
    o = put_number(out, o, b" keySize: ", rows[row + ROW_KEY_SIZE])
    o = put_number(out, o, b" valueSize: ", rows[row + ROW_VALUE_SIZE])
    if line.magic < MAGIC_V2:
        o = put(out, o, b" isValid: ")
        o = put_bool(out, o, (rows[row + ROW_CHECK] >> CHECK_VALID_SHIFT) & 1)
        return put_number(out, o, b" crc: ", cython.cast(cython.uint, rows[row + ROW_CHECK]))
    o = put_number(out, o, b" sequence: ", rows[row + ROW_SEQUENCE])
    o = put(out, o, b" headerKeys: [")
    h = rows[row + ROW_HEADERS] * HEADER_WIDTH
    for k in range(rows[row + ROW_HEADER_COUNT]):
        if k:
            o = put(out, o, b",")
        o = put_text(line, line.headers[h + HEADER_KEY], line.headers[h + HEADER_KEY_SIZE], o)
        if o < 0:
            return o
        h += HEADER_WIDTH
    return put(out, o, b"]")


def put_contents(line: pointer[Line], row: Py_ssize_t, o: Py_ssize_t) -> Py_ssize_t:
    """Writes the key and the value of a record, unless they are null. Negative if the output is full."""
    out: OutBytes = line.out
    rows: Columns = line.rows
    is_first: bint = line.flags & SKIP_METADATA
    if not line.flags & CONTENTS:
        return o
    if rows[row + ROW_KEY_SIZE] >= 0:
        o = put(out, o, b"| key: ") if is_first else put(out, o, b" key: ")
        is_first = False
        o = put_text(line, rows[row + ROW_KEY], rows[row + ROW_KEY_SIZE], o)
        if o < 0:
            return o
    if rows[row + ROW_VALUE_SIZE] >= 0:
        o = put(out, o, b"| payload: ") if is_first else put(out, o, b" payload: ")
        o = put_text(line, rows[row + ROW_VALUE], rows[row + ROW_VALUE_SIZE], o)
    return o


def use_loops(level: cython.int) -> int:
    """For tests: 0 disables the loops of shuffle.h, 1 enables them if available. Returns the available level."""
    escape.shuffle_setup()
    best: cython.int = escape.can_shuffle
    escape.can_shuffle = min(best, level)
    return best


def put_bool(out: OutBytes, o: Py_ssize_t, value: bint) -> Py_ssize_t:
    return put(out, o, b"true") if value else put(out, o, b"false")


def put_codec(out: OutBytes, o: Py_ssize_t, codec: cython.int) -> Py_ssize_t:
    if codec == 0:
        return put(out, o, b"none")
    if codec == GZIP:
        return put(out, o, b"gzip")
    if codec == SNAPPY:
        return put(out, o, b"snappy")
    if codec == LZ4:
        return put(out, o, b"lz4")
    if codec == ZSTD:
        return put(out, o, b"zstd")
    o = put(out, o, b"unknown(")
    return put(out, put_int(out, o, codec), b")")


def put_text_kind(out: OutBytes, o: Py_ssize_t, kind: cython.int) -> Py_ssize_t:
    if kind == CREATE_TIME:
        return put(out, o, b" CreateTime: ")
    if kind == APPEND_TIME:
        return put(out, o, b" LogAppendTime: ")
    return put(out, o, b" NoTimestampType: ")


def put_v2(line: pointer[Line], o: Py_ssize_t, p: Bytes, at: Py_ssize_t) -> Py_ssize_t:
    """Writes the fields of a v2 batch from its base offset to its delete horizon."""
    out: OutBytes = line.out
    is_json: bint = line.is_json
    attributes: cython.int = p[at + V2_FLAGS]
    base: longlong = be64(p, at + V2_BASE_OFFSET)
    sequence: longlong = be32(p, at + V2_BASE_SEQUENCE)
    delta: longlong = be32(p, at + V2_LAST_OFFSET_DELTA)
    o = put_field(out, o, is_json, b"baseOffset: ", b',"baseOffset":', base, False)
    o = put_field(out, o, is_json, b" lastOffset: ", b',"lastOffset":', sum_of(base, delta), False)
    o = put_field(out, o, is_json, b" count: ", b',"count":', be32(p, at + V2_COUNT), False)
    o = put_field(out, o, is_json, b" baseSequence: ", b',"baseSequence":', sequence, True)
    o = put_field(out, o, is_json, b" lastSequence: ", b',"lastSequence":', sequence_after(sequence, delta), True)
    o = put_field(out, o, is_json, b" producerId: ", b',"producerId":', be64(p, at + V2_PRODUCER_ID), True)
    o = put_field(out, o, is_json, b" producerEpoch: ", b',"producerEpoch":', be16(p, at + V2_PRODUCER_EPOCH), True)
    o = put_field(
        out, o, is_json, b" partitionLeaderEpoch: ", b',"partitionLeaderEpoch":', be32(p, at + V2_LEADER_EPOCH), True
    )
    o = put(out, o, b',"isTransactional":' if is_json else b" isTransactional: ")
    o = put_bool(out, o, attributes & TRANSACTIONAL)
    o = put(out, o, b',"isControl":' if is_json else b" isControl: ")
    o = put_bool(out, o, attributes & CONTROL)
    o = put(out, o, b',"deleteHorizonMs":' if is_json else b" deleteHorizonMs: OptionalLong")
    if not attributes & DELETE_HORIZON:
        return put(out, o, b"null" if is_json else b".empty")
    if is_json:
        return put_int(out, o, be64(p, at + V2_BASE_TIMESTAMP))
    return put(out, put_number(out, o, b"[", be64(p, at + V2_BASE_TIMESTAMP)), b"]")


def put_text_batch(
    line: pointer[Line], o: Py_ssize_t, p: Bytes, at: Py_ssize_t, frames: Columns, frame: Py_ssize_t, origin: longlong
) -> Py_ssize_t:
    """Writes the line of the frame with columns from ``frame`` on; its header of 61 bytes is at p[at].

    The line is shorter than the margin. ``origin`` is added to the frame's position.
    """
    out: OutBytes = line.out
    magic: longlong = frames[frame + FRAME_MAGIC]
    is_valid: bint = frames[frame + FRAME_STATE] & CRC_RIGHT and 0 <= magic <= MAGIC_V2
    attributes: cython.int = p[at + V2_FLAGS] if magic >= MAGIC_V2 else p[at + LEGACY_FLAGS]
    if magic >= MAGIC_V2:
        o = put_v2(line, o, p, at)
    else:
        o = put_number(out, o, b"offset: ", be64(p, at + ENTRY_OFFSET))
    o = put_number(out, o, b" position: ", frames[frame + FRAME_POSITION] + origin)
    o = put_text_kind(out, o, kind_of(p, at, magic))
    o = put_int(out, o, time_of(p, at, magic))
    o = put_number(out, o, b" size: ", frames[frame + FRAME_SIZE])
    o = put_number(out, o, b" magic: ", magic)
    o = put(out, o, b" compresscodec: ")
    o = put_codec(out, o, attributes & CODEC)
    o = put_number(out, o, b" crc: ", stored_crc(p, at + (V2_CRC if magic >= MAGIC_V2 else LEGACY_CRC)))
    o = put(out, o, b" isvalid: ")
    o = put_bool(out, o, is_valid)
    return put(out, o, b"\n")


def put_json_codec(out: OutBytes, o: Py_ssize_t, codec: cython.int) -> Py_ssize_t:
    o = put(out, o, b',"compression":"')
    o = put_codec(out, o, codec)
    return put(out, o, b'"')


def put_json_kind(out: OutBytes, o: Py_ssize_t, kind: cython.int) -> Py_ssize_t:
    if kind == APPEND_TIME:
        return put(out, o, b',"timestampType":"LogAppendTime"')
    return put(out, o, b',"timestampType":"CreateTime"')


def put_json_batch(
    line: pointer[Line], o: Py_ssize_t, p: Bytes, frames: Columns, frame: Py_ssize_t, origin: longlong
) -> Py_ssize_t:
    """Writes the object of a plain batch, whose columns begin at ``frame``; fewer bytes than the line's margin."""
    out: OutBytes = line.out
    at: Py_ssize_t = frames[frame + FRAME_POSITION]
    magic: longlong = frames[frame + FRAME_MAGIC]
    o = put_raw(out, o, line.context.batch, line.context.batch_size)
    o = put_int(out, o, at + origin)
    o = put_number(out, o, b',"size":', frames[frame + FRAME_SIZE])
    o = put_number(out, o, b',"magic":', magic)
    if magic == MAGIC_V2:
        o = put_json_codec(out, put_v2(line, o, p, at), p[at + V2_FLAGS] & CODEC)
    else:
        o = put_number(out, o, b',"baseOffset":', be64(p, at + ENTRY_OFFSET))
        o = put_number(out, o, b',"lastOffset":', be64(p, at + ENTRY_OFFSET))
        o = put_json_codec(out, put(out, o, b',"count":1'), 0)
    if magic:
        o = put_json_kind(out, o, kind_of(p, at, magic))
        if magic == MAGIC_V2 and p[at + V2_FLAGS] & DELETE_HORIZON:
            o = put(out, o, b',"baseTimestamp":null')
        elif magic == MAGIC_V2:
            o = put_number(out, o, b',"baseTimestamp":', be64(p, at + V2_BASE_TIMESTAMP))
        o = put_number(out, o, b',"maxTimestamp":', time_of(p, at, magic))
    o = put_number(out, o, b',"crc":', stored_crc(p, at + (V2_CRC if magic == MAGIC_V2 else LEGACY_CRC)))
    return put(out, o, b',"isValid":true,"problems":[]}\n')
