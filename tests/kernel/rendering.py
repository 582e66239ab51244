"""What the tests of the kernel share: batches, segments in frames, rows, and a caller of a renderer that flushes and
grows."""

import re
import struct
import zlib
from pathlib import Path

from crc32c import crc32c

from kernel.encoding import uvarint
from kseg.kernel.layout import rows as layout
from kseg.kernel.layout.headers import CREATE_TIME
from kseg.kernel.layout.rows import BATCH_WIDTH, FRAME_WIDTH, HEADER_WIDTH, ROW_WIDTH
from kseg.kernel.scan import headers

NOT_PLAIN = -1


def int64s(values):
    """A flat int64 buffer of these values, or of as many zeros."""
    values = [0] * values if isinstance(values, int) else values
    buffer = memoryview(bytearray(8 * len(values))).cast("q")
    for index, value in enumerate(values):
        buffer[index] = value
    return buffer


def varint(value):
    return uvarint((value << 1 ^ value >> 63) & 0xFFFFFFFFFFFFFFFF)


def sized(data):
    return varint(-1) if data is None else varint(len(data)) + data


def record(delta, timestamp_delta=0, key=None, value=None, headers=()):
    body = b"\0" + varint(timestamp_delta) + varint(delta) + sized(key) + sized(value) + varint(len(headers))
    body += b"".join(sized(name) + sized(content) for name, content in headers)
    return varint(len(body)) + body


def batch(
    records, base_offset=0, attributes=0, base_timestamp=1000, max_timestamp=9000, sequence=-1, producer=-1, **other
):
    """A v2 batch of encoded records; last_delta, epoch, leader_epoch and count can be given too."""
    header = struct.pack(
        ">hiqqqhii",
        attributes,
        other.get("last_delta", len(records) - 1),
        base_timestamp,
        max_timestamp,
        producer,
        other.get("epoch", -1),
        sequence,
        other.get("count", len(records)),
    )
    body = header + b"".join(records)
    crc = crc32c(body)
    leader_epoch = other.get("leader_epoch", 0)
    return struct.pack(">qiibI", base_offset, len(body) + 9, leader_epoch, 2, crc) + body


def message(offset, magic, key, value, timestamp=5, attributes=0):
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    for field in (key, value):
        body += struct.pack(">i", -1) if field is None else struct.pack(">i", len(field)) + field
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def frames(data):
    """The rows of frames of a segment, as long as lengths make sense."""
    rows, position = [], 0
    while len(data) - position > 17:
        size = struct.unpack_from(">i", data, position + 8)[0] + 12
        magic = struct.unpack_from(">b", data, position + 16)[0]
        if size < 26 or position + size > len(data):
            break
        if magic >= 2:
            right = struct.unpack_from(">I", data, position + 17)[0] == crc32c(data[position + 21 : position + size])
        else:
            right = struct.unpack_from(">I", data, position + 12)[0] == zlib.crc32(
                data[position + 16 : position + size]
            )
        rows += [position, size, magic, int(right)]
        position += size
    return int64s(rows)


def header_rows(data, origin=0):
    """The rows of the headers of a segment that begins at byte ``origin``, and their number."""
    found = frames(data)
    count = len(found) // FRAME_WIDTH
    rows = int64s(count * BATCH_WIDTH)
    headers.read(data, found, count, False, origin, rows)
    return rows, count


def laid_out(records):
    """(payload, rows, header rows, count) of (offset, timestamp, key, value, headers), in a payload of their own."""
    payload, rows, pairs = bytearray(b"-"), [], []

    def put(data):
        payload.extend(data or b"")
        return len(payload) - len(data or b""), -1 if data is None else len(data)

    for offset, timestamp, key, value, some in records:
        rows += [offset, timestamp, -1, *put(key), *put(value), len(pairs) // HEADER_WIDTH, len(some), 0]
        for name, content in some:
            pairs += [*put(name), *put(content)]
    return bytes(payload), int64s(rows or ROW_WIDTH), int64s(pairs or HEADER_WIDTH), len(rows) // ROW_WIDTH


def render(renderer, data, found, out_bytes=65536, row_count=64, header_count=64, finish=None):
    """Lets a renderer print batches as its contract says, until it is done.

    Returns pieces: the bytes between frames that are not plain, and for each of those its index, as (NOT_PLAIN, index).
    Nothing may be written behind the end of the buffer. ``finish(data, rows, headers, renderer)`` gives the rest of a
    line that the renderer leaves to its caller.
    """
    stop = len(found) // FRAME_WIDTH
    rows, headers = int64s(ROW_WIDTH * row_count), int64s(HEADER_WIDTH * header_count)
    whole = bytearray(b"\xa5" * (out_bytes + 256))
    pieces, piece = [], bytearray()
    while True:
        out = memoryview(whole)[:out_bytes]
        status = renderer.print_batches(data, found, stop, rows, headers, out)
        assert whole[out_bytes:] == b"\xa5" * 256
        piece += out[: renderer.written]
        if status == layout.FULL:
            assert renderer.written > 0
        elif status == layout.NOT_PLAIN:
            assert not renderer.is_open
            pieces += [bytes(piece), (NOT_PLAIN, renderer.frame)]
            piece = bytearray()
            renderer.go_to(renderer.frame + 1)
        elif status == layout.TOO_SMALL:
            assert renderer.written == 0
            assert out_bytes < renderer.needed <= max(2 * out_bytes, 2 * len(data) + 65536)
            out_bytes = renderer.needed
            whole = bytearray(b"\xa5" * (out_bytes + 256))
        elif status == layout.MORE_HEADERS:
            assert renderer.needed > len(headers) // HEADER_WIDTH
            headers = int64s(HEADER_WIDTH * renderer.needed)
        elif status == layout.NEEDS_DECODING:
            piece += finish(data, rows, headers, renderer)
        else:
            assert status == layout.DONE
            return [*pieces, bytes(piece)]
        renderer.written = 0


def printed_rows(renderer, payload, rows, magic=2, kind=CREATE_TIME, out_bytes=65536):
    """The lines of rows that have no headers."""
    out, count = bytearray(out_bytes), len(rows) // ROW_WIDTH
    assert renderer.print_records(payload, rows, int64s(0), count, magic, kind, out) == layout.DONE
    assert (renderer.record, renderer.records) == (count, count)
    return bytes(out[: renderer.written])


def real_segments(testdata: Path):
    """(segment, dump) for every dump of a .log file that Kafka's own tool made."""
    for dump in sorted(testdata.glob("kafka-*/*/truth/*/*.log.dump-4.*.txt.gz")):
        if "decoded" not in dump.name:
            yield dump.parents[2] / dump.parent.name / re.sub(r"\.dump-.*", "", dump.name), dump
