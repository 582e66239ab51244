"""What the tests of the renderers share: building batches, framing segments, and a caller that flushes and grows."""

import re
import struct
import zlib
from pathlib import Path

from crc32c import crc32c

DEEP, CONTENTS, SKIP_METADATA, ESCAPE, LINE_ONLY, BASE64_KEYS, BASE64_VALUES = 1, 2, 4, 8, 16, 32, 64
NOT_PLAIN = -1


def int64s(values):
    """A flat int64 buffer of these values, or of as many zeros."""
    values = [0] * values if isinstance(values, int) else values
    buffer = memoryview(bytearray(8 * len(values))).cast("q")
    for index, value in enumerate(values):
        buffer[index] = value
    return buffer


def varint(value):
    value = (value << 1 ^ value >> 63) & 0xFFFFFFFFFFFFFFFF
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes([*encoded, value])


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


def render(call, data, found, out_bytes=65536, row_count=64, header_count=64, finish=None):
    """Calls a renderer of batches as its contract says, until it is done.

    ``call(data, frames, start, stop, rows, headers, out, state)``. Returns pieces: the bytes between frames that are
    not plain, and for each of those its index, as (NOT_PLAIN, index); and the state at the end. Nothing may be written
    behind the room that was given. ``finish(data, rows, headers, state)`` gives the rest of a line that the renderer
    leaves to its caller.
    """
    stop = len(found) // 4
    rows, headers, state = int64s(10 * row_count), int64s(4 * header_count), int64s(10)
    whole = bytearray(b"\xa5" * (out_bytes + 256))
    pieces, piece = [], bytearray()
    while True:
        out = memoryview(whole)[:out_bytes]
        status = call(data, found, 0, stop, rows, headers, out, state)
        assert whole[out_bytes:] == b"\xa5" * 256
        piece += out[: state[3]]
        if status == 1:
            assert state[3] > 0
        elif status == 2:
            assert state[2] == 0
            pieces += [bytes(piece), (NOT_PLAIN, state[0])]
            piece = bytearray()
            state[0] += 1
        elif status == 3:
            assert state[3] == 0
            assert out_bytes < state[6] <= max(2 * out_bytes, 2 * len(data) + 65536)
            out_bytes = state[6]
            whole = bytearray(b"\xa5" * (out_bytes + 256))
        elif status == 4:
            assert state[6] > len(headers) // 4
            headers = int64s(4 * state[6])
        elif status == 5:
            piece += finish(data, rows, headers, state)
        else:
            assert status == 0
            return [*pieces, bytes(piece)], state
        state[3] = 0


def real_segments(testdata: Path):
    """(segment, dump) for every dump of a .log file that Kafka 4.3.1's own tool made."""
    for dump in sorted(testdata.glob("kafka-*/*/truth/*/*.log.dump-4.3.1*.txt.gz")):
        if "decoded" not in dump.name:
            yield dump.parents[2] / dump.parent.name / re.sub(r"\.dump-.*", "", dump.name), dump
