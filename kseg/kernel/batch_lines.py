"""The line of a batch, as kafka-dump-log prints it (Kafka's DumpLogSegments.printBatchLevel) and as a JSON object.

A frame is looked at as Kafka looks at it: from magic 2 on by the v2 header, below (negative ones too) by that of v0 and
v1.
"""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.kseg.kernel.escape import Context, put, put_int
    from cython.cimports.kseg.kernel.native import (
        FRAME_MAGIC,
        FRAME_POSITION,
        FRAME_SIZE,
        FRAME_STATE,
        be16,
        be32,
        be64,
    )
    from cython.cimports.kseg.kernel.plain import offset_after, sequence_after
else:
    from kseg.kernel.escape import put, put_int
    from kseg.kernel.native import FRAME_MAGIC, FRAME_POSITION, FRAME_SIZE, FRAME_STATE, be16, be32, be64
    from kseg.kernel.plain import offset_after, sequence_after

    Context = None

COMPILED = cython.compiled

LOW_32_BITS = cython.declare(cython.longlong, 0xFFFFFFFF)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_bool(out: cython.pointer[cython.uchar], o: cython.Py_ssize_t, value: cython.bint) -> cython.Py_ssize_t:
    return put(out, o, b"true", 4) if value else put(out, o, b"false", 5)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_codec(out: cython.pointer[cython.uchar], o: cython.Py_ssize_t, codec: cython.int) -> cython.Py_ssize_t:
    if codec == 0:
        return put(out, o, b"none", 4)
    if codec == 1:
        return put(out, o, b"gzip", 4)
    if codec == 2:
        return put(out, o, b"snappy", 6)
    if codec == 3:
        return put(out, o, b"lz4", 3)
    if codec == 4:
        return put(out, o, b"zstd", 4)
    o = put(out, o, b"unknown(", 8)
    return put(out, put_int(out, o, codec), b")", 1)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_text_kind(out: cython.pointer[cython.uchar], o: cython.Py_ssize_t, kind: cython.int) -> cython.Py_ssize_t:
    if kind == 1:
        return put(out, o, b" CreateTime: ", 13)
    if kind == 2:
        return put(out, o, b" LogAppendTime: ", 16)
    return put(out, o, b" NoTimestampType: ", 18)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_text_v2(
    out: cython.pointer[cython.uchar],
    o: cython.Py_ssize_t,
    p: cython.pointer[cython.const[cython.uchar]],
    at: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """What the line of a v2 batch has before its position."""
    attributes: cython.int = p[at + 22]
    base: cython.longlong = be64(p, at)
    sequence: cython.longlong = be32(p, at + 53)
    delta: cython.longlong = be32(p, at + 23)
    o = put(out, o, b"baseOffset: ", 12)
    o = put_int(out, o, base)
    o = put(out, o, b" lastOffset: ", 13)
    o = put_int(out, o, offset_after(base, delta))
    o = put(out, o, b" count: ", 8)
    o = put_int(out, o, be32(p, at + 57))
    o = put(out, o, b" baseSequence: ", 15)
    o = put_int(out, o, sequence)
    o = put(out, o, b" lastSequence: ", 15)
    o = put_int(out, o, sequence_after(sequence, delta))
    o = put(out, o, b" producerId: ", 13)
    o = put_int(out, o, be64(p, at + 43))
    o = put(out, o, b" producerEpoch: ", 16)
    o = put_int(out, o, be16(p, at + 51))
    o = put(out, o, b" partitionLeaderEpoch: ", 23)
    o = put_int(out, o, be32(p, at + 12))
    o = put(out, o, b" isTransactional: ", 18)
    o = put_bool(out, o, attributes & 0x10)
    o = put(out, o, b" isControl: ", 12)
    o = put_bool(out, o, attributes & 0x20)
    if attributes & 0x40:
        o = put(out, o, b" deleteHorizonMs: OptionalLong[", 31)
        o = put_int(out, o, be64(p, at + 27))
        return put(out, o, b"]", 1)
    return put(out, o, b" deleteHorizonMs: OptionalLong.empty", 36)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_text_batch(
    out: cython.pointer[cython.uchar],
    o: cython.Py_ssize_t,
    p: cython.pointer[cython.const[cython.uchar]],
    at: cython.Py_ssize_t,
    frame: cython.pointer[cython.const[cython.longlong]],
    base: cython.longlong,
) -> cython.Py_ssize_t:
    """The line of a batch whose header, 61 bytes, lies at p[at]; fewer than MARGIN bytes."""
    magic: cython.longlong = frame[FRAME_MAGIC]
    valid: cython.bint = frame[FRAME_STATE] & 1 and 0 <= magic <= 2
    attributes: cython.int = p[at + 22] if magic >= 2 else p[at + 17]
    kind: cython.int = 0 if magic == 0 else 1 + ((attributes >> 3) & 1)
    timestamp: cython.longlong = -1 if magic == 0 else be64(p, at + (35 if magic >= 2 else 18))
    crc: cython.longlong = be32(p, at + (17 if magic >= 2 else 12))
    crc &= LOW_32_BITS
    if magic >= 2:
        o = put_text_v2(out, o, p, at)
    else:
        o = put(out, o, b"offset: ", 8)
        o = put_int(out, o, be64(p, at))
    o = put(out, o, b" position: ", 11)
    o = put_int(out, o, frame[FRAME_POSITION] + base)
    o = put_text_kind(out, o, kind)
    o = put_int(out, o, timestamp)
    o = put(out, o, b" size: ", 7)
    o = put_int(out, o, frame[FRAME_SIZE])
    o = put(out, o, b" magic: ", 8)
    o = put_int(out, o, magic)
    o = put(out, o, b" compresscodec: ", 16)
    o = put_codec(out, o, attributes & 7)
    o = put(out, o, b" crc: ", 6)
    o = put_int(out, o, crc)
    o = put(out, o, b" isvalid: ", 10)
    o = put_bool(out, o, valid)
    return put(out, o, b"\n", 1)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def put_known(out: cython.pointer[cython.uchar], o: cython.Py_ssize_t, value: cython.longlong) -> cython.Py_ssize_t:
    """A number that is null when it is -1."""
    return put(out, o, b"null", 4) if value == -1 else put_int(out, o, value)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def put_json_codec(out: cython.pointer[cython.uchar], o: cython.Py_ssize_t, codec: cython.int) -> cython.Py_ssize_t:
    o = put(out, o, b',"compression":"', 16)
    o = put_codec(out, o, codec)
    return put(out, o, b'"', 1)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def put_json_kind(out: cython.pointer[cython.uchar], o: cython.Py_ssize_t, kind: cython.int) -> cython.Py_ssize_t:
    if kind == 2:
        return put(out, o, b',"timestampType":"LogAppendTime"', 32)
    return put(out, o, b',"timestampType":"CreateTime"', 29)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_json_v2(
    out: cython.pointer[cython.uchar],
    o: cython.Py_ssize_t,
    p: cython.pointer[cython.const[cython.uchar]],
    at: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """The fields of a v2 batch from baseOffset to maxTimestamp."""
    attributes: cython.int = p[at + 22]
    base: cython.longlong = be64(p, at)
    sequence: cython.longlong = be32(p, at + 53)
    delta: cython.longlong = be32(p, at + 23)
    o = put(out, o, b',"baseOffset":', 14)
    o = put_int(out, o, base)
    o = put(out, o, b',"lastOffset":', 14)
    o = put_int(out, o, offset_after(base, delta))
    o = put(out, o, b',"count":', 9)
    o = put_int(out, o, be32(p, at + 57))
    o = put(out, o, b',"baseSequence":', 16)
    o = put_known(out, o, sequence)
    o = put(out, o, b',"lastSequence":', 16)
    o = put_known(out, o, sequence_after(sequence, delta))
    o = put(out, o, b',"producerId":', 14)
    o = put_known(out, o, be64(p, at + 43))
    o = put(out, o, b',"producerEpoch":', 17)
    o = put_known(out, o, be16(p, at + 51))
    o = put(out, o, b',"partitionLeaderEpoch":', 24)
    o = put_known(out, o, be32(p, at + 12))
    o = put(out, o, b',"isTransactional":', 19)
    o = put_bool(out, o, attributes & 0x10)
    o = put(out, o, b',"isControl":', 13)
    o = put_bool(out, o, attributes & 0x20)
    o = put(out, o, b',"deleteHorizonMs":', 19)
    o = put_int(out, o, be64(p, at + 27)) if attributes & 0x40 else put(out, o, b"null", 4)
    o = put_json_codec(out, o, attributes & 7)
    o = put_json_kind(out, o, 1 + ((attributes >> 3) & 1))
    o = put(out, o, b',"baseTimestamp":', 17)
    o = put(out, o, b"null", 4) if attributes & 0x40 else put_int(out, o, be64(p, at + 27))
    o = put(out, o, b',"maxTimestamp":', 16)
    return put_int(out, o, be64(p, at + 35))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_json_legacy(
    out: cython.pointer[cython.uchar],
    o: cython.Py_ssize_t,
    p: cython.pointer[cython.const[cython.uchar]],
    at: cython.Py_ssize_t,
    magic: cython.longlong,
) -> cython.Py_ssize_t:
    o = put(out, o, b',"baseOffset":', 14)
    o = put_int(out, o, be64(p, at))
    o = put(out, o, b',"lastOffset":', 14)
    o = put_int(out, o, be64(p, at))
    o = put(out, o, b',"count":1', 10)
    o = put_json_codec(out, o, 0)
    if magic == 0:
        return o
    o = put_json_kind(out, o, 1 + ((p[at + 17] >> 3) & 1))
    o = put(out, o, b',"maxTimestamp":', 16)
    return put_int(out, o, be64(p, at + 18))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_json_batch(
    out: cython.pointer[cython.uchar],
    o: cython.Py_ssize_t,
    p: cython.pointer[cython.const[cython.uchar]],
    frame: cython.pointer[cython.const[cython.longlong]],
    base: cython.longlong,
    context: cython.pointer[cython.const[Context]],
) -> cython.Py_ssize_t:
    """The object of a batch that is plain; fewer bytes than its context has, and MARGIN."""
    at: cython.Py_ssize_t = frame[FRAME_POSITION]
    magic: cython.longlong = frame[FRAME_MAGIC]
    crc: cython.longlong = be32(p, at + (17 if magic == 2 else 12))
    crc &= LOW_32_BITS
    if cython.compiled:
        o = put(out, o, context.batch, context.batch_size)
    else:
        o = put(out, o, context[0], len(context[0]))
    o = put_int(out, o, at + base)
    o = put(out, o, b',"size":', 8)
    o = put_int(out, o, frame[FRAME_SIZE])
    o = put(out, o, b',"magic":', 9)
    o = put_int(out, o, magic)
    o = put_json_v2(out, o, p, at) if magic == 2 else put_json_legacy(out, o, p, at, magic)
    o = put(out, o, b',"crc":', 7)
    o = put_int(out, o, crc)
    return put(out, o, b',"isValid":true,"problems":[]}\n', 31)


@cython.cfunc
def take_context(pieces: cython.pointer[Context], context: tuple):
    """Points the pieces at the context's bytes, which the caller must hold on to; TypeError unless they are bytes."""
    batch: bytes = context[0]
    record: bytes = context[1]
    partition: bytes = context[2]
    pieces.batch = batch
    pieces.batch_size = len(batch)
    pieces.record = record
    pieces.record_size = len(record)
    pieces.partition = partition
    pieces.partition_size = len(partition)
