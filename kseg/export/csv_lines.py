"""Prints records as CSV (RFC 4180): a line of column names, then one line for each record.

Every text is quoted, so that an empty field means null and ``""`` an empty value. Bytes that are not UTF-8 are written
as in JSON Lines, as ``{"base64": …}``; headers are a JSON list.
"""

from collections.abc import Iterator
from typing import Any

from kseg.export.chunk import HEADERS, KEY, OFFSET, TIMESTAMP, TIMESTAMP_TYPE, VALUE, Bytes, Chunk
from kseg.formats.json_values import bytes_value, encode
from kseg.kernel.codecs.uninitialized import lengthen
from kseg.kernel.render import csv_lines as kernel

COLUMNS = ("topic", "partition", OFFSET, TIMESTAMP, TIMESTAMP_TYPE, KEY, VALUE, HEADERS)
FIRST_LINE = ",".join(COLUMNS).encode() + b"\r\n"
_LINE_BYTES = 48
"""Approximate size of a line without its texts."""
_TYPES = {-1: b"", 0: b'"CreateTime"', 1: b'"LogAppendTime"'}


def csv_lines(chunk: Chunk, topic: str | None, partition: int | None) -> memoryview:
    """Returns the records of a chunk that has all columns; timestamps are in ms."""
    place = _text(None if topic is None else topic.encode("utf-8", "surrogateescape")) + b","
    place += b"" if partition is None else b"%d" % partition
    headers, times = chunk.header_ends, chunk.valid
    if headers is None or times is None:
        raise KeyError(HEADERS if headers is None else TIMESTAMP)
    numbers, keys, values = chunk.numbers, chunk.bytes[KEY], chunk.bytes[VALUE]
    lines = kernel.CsvLines(
        place, chunk.count, numbers[OFFSET], numbers[TIMESTAMP], times, numbers[TIMESTAMP_TYPE],
        _texts(keys, chunk.count), _texts(values, chunk.count), headers,
    )  # fmt: skip
    out, i = bytearray(), 0
    lengthen(out, chunk.size + (len(place) + _LINE_BYTES) * chunk.count)
    while i < chunk.count:
        i = lines.put(i, out)
        end = lines.written
        if lines.needed:
            lengthen(out, max(end + lines.needed - len(out), len(out) // 8))
        elif i < chunk.count:
            line = _line(chunk, place, i)
            lengthen(out, max(end + len(line) - len(out), 0))
            out[end : end + len(line)] = line
            lines.written = end + len(line)
            i += 1
    return memoryview(out)[: lines.written]


def _texts(column: Bytes, count: int) -> kernel.TextColumn:
    return kernel.TextColumn(column.data, column.ends, column.valid, count)


def _line(chunk: Chunk, place: bytes, i: int) -> bytes:
    is_timed = chunk.valid is not None and chunk.valid[i >> 3] >> (i & 7) & 1
    return b"%b,%d,%b,%b,%b,%b,%b\r\n" % (
        place, chunk.numbers[OFFSET][i], b"%d" % chunk.numbers[TIMESTAMP][i] if is_timed else b"",
        _TYPES[chunk.numbers[TIMESTAMP_TYPE][i]], _text(_entry(chunk.bytes[KEY], i)),
        _text(_entry(chunk.bytes[VALUE], i)), _quoted(encode(list(_headers(chunk, i)))),
    )  # fmt: skip


def _entry(column: Bytes, i: int) -> bytes | None:
    if not column.valid[i >> 3] >> (i & 7) & 1:
        return None
    return bytes(column.data[column.ends[i] : column.ends[i + 1]])


def _headers(chunk: Chunk, i: int) -> Iterator[dict[str, Any]]:
    ends, keys, values = chunk.header_ends, chunk.header_keys, chunk.header_values
    if ends is None or keys is None or values is None:
        return
    for h in range(ends[i], ends[i + 1]):
        yield {"key": bytes_value(_entry(keys, h)), "value": bytes_value(_entry(values, h))}


def _text(data: bytes | None) -> bytes:
    if data is None:
        return b""
    shown = bytes_value(data)
    return _quoted(data if isinstance(shown, str) else encode(shown))


def _quoted(text: bytes) -> bytes:
    return b'"' + text.replace(b'"', b'""') + b'"'
