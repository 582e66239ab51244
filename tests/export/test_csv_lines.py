"""CSV lines written by the kernel equal those written one by one, and the csv module can read them."""

import csv
import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.export import record_files as csv_lines_module
from kseg.export.chunk import HEADERS, KEY, NAMES, OFFSET, TIMESTAMP, TIMESTAMP_TYPE, VALUE, Bytes, Chunk, Chunks
from kseg.export.record_files import CSV_COLUMNS, csv_lines
from kseg.formats.json_values import bytes_value
from kseg.kernel import COMPILED
from kseg.kernel.render import csv_lines as kernel

Record = tuple[int, int | None, int, bytes | None, bytes | None, list[tuple[bytes, bytes | None]]]

VALUES = st.one_of(
    st.none(),
    st.binary(max_size=40),
    st.text(alphabet='"a,\r\n\\{}é中😀\x00\x1f', max_size=40).map(str.encode),
    st.text(max_size=300).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.sampled_from([b'"' * 100, b"x" * 1000, b"12345678" * 3 + b"\xff", b"1234567\xc3\xa98", b"\xed\xa0\x80"]),
)
NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)
KINDS = st.sampled_from([-1, 0, 1])
PLAIN = st.tuples(NUMBERS, st.one_of(st.none(), NUMBERS), KINDS, VALUES, VALUES, st.just([]))
WITH_HEADERS = st.tuples(
    NUMBERS, st.none(), KINDS, VALUES, VALUES, st.lists(st.tuples(st.binary(max_size=9), VALUES), max_size=3)
)


def fill(column: Bytes, values: list[bytes | None]) -> None:
    for i, value in enumerate(values):
        column.ends[i + 1] = column.ends[i] + len(value or b"")
        column.data[column.ends[i] : column.ends[i + 1]] = value or b""
        column.valid[i >> 3] |= (value is not None) << (i & 7)


def chunk_of(records: list[Record]) -> Chunk:
    chunk: Chunk = Chunks(NAMES, rows=max(len(records), 1))._chunk
    chunk.count = len(records)
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    assert chunk.valid is not None
    assert chunk.header_ends is not None
    for i, (offset, time, kind, _, _, headers) in enumerate(records):
        chunk.numbers[OFFSET][i], chunk.numbers[TIMESTAMP][i] = offset, time or 0
        chunk.numbers[TIMESTAMP_TYPE][i] = kind
        chunk.valid[i >> 3] |= (time is not None) << (i & 7)
        keys += [key for key, _ in headers]
        values += [value for _, value in headers]
        chunk.header_ends[i + 1] = len(keys)
    for name, column in ((KEY, 3), (VALUE, 4)):
        texts: list[Any] = [record[column] for record in records]
        chunk.bytes[name] = Bytes(max(len(records), 1), sum(len(text or b"") for text in texts) + 1)
        fill(chunk.bytes[name], texts)
    for name, texts in (("header_keys", keys), ("header_values", values)):
        made = Bytes(len(texts) + 1, sum(len(text or b"") for text in texts) + 1)
        fill(made, texts)
        setattr(chunk, name, made)
    return chunk


def one_by_one(records: list[Record], topic: str | None, partition: int | None) -> bytes:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_lines_module.kernel, "CsvLines", NoLines)
        return bytes(csv_lines(chunk_of(records), topic, partition))


class NoLines:
    """Leaves all lines to its caller."""

    def __init__(self, *_columns: Any) -> None:
        self.written = self.needed = 0

    def put(self, first: int, _out: bytearray) -> int:
        return first


def text(data: bytes | None) -> str:
    found = bytes_value(data)
    return "" if found is None else found if isinstance(found, str) else json.dumps(found, separators=(",", ":"))


@given(st.lists(st.one_of(PLAIN, PLAIN, WITH_HEADERS), max_size=30), st.sampled_from([None, "t", 'a"b,\udcff']))
def test_lines_are_those_of_each_record_and_can_be_read(records: list[Record], topic: str | None) -> None:
    found = bytes(csv_lines(chunk_of(records), topic, 7))
    assert found == one_by_one(records, topic, 7)
    rows = list(csv.reader(io.StringIO(found.decode(), newline="")))
    place = text(None if topic is None else topic.encode("utf-8", "surrogateescape"))
    assert len(rows) == len(records)
    for row, (offset, time, kind, key, value, headers) in zip(rows, records, strict=True):
        assert dict(zip(CSV_COLUMNS, row, strict=True)) == {
            "topic": place, "partition": "7", OFFSET: str(offset), TIMESTAMP: "" if time is None else str(time),
            TIMESTAMP_TYPE: {-1: "", 0: "CreateTime", 1: "LogAppendTime"}[kind], KEY: text(key), VALUE: text(value),
            HEADERS: row[7],
        }  # fmt: skip
        assert json.loads(row[7]) == [{"key": bytes_value(name), "value": bytes_value(of)} for name, of in headers]


@pytest.mark.parametrize("text", [b'"' * 5000, b"\xff" * 5000, "é".encode() * 5000, b""])
def test_the_buffer_grows_for_long_lines(text: bytes) -> None:
    records: list[Record] = [(i, i, 0, None, text, [(b"h", None)] if i == 5 else []) for i in range(20)]
    assert bytes(csv_lines(chunk_of(records), "t", 0)) == one_by_one(records, "t", 0)


def columns(count: int) -> list[Any]:
    """The columns of three records, for ``count`` of them."""
    chunk = chunk_of([(i, None, 0, b"key", b"value", []) for i in range(3)])
    numbers, key, value = chunk.numbers, chunk.bytes[KEY], chunk.bytes[VALUE]
    return [
        b"t,0", count, numbers[OFFSET], numbers[TIMESTAMP], chunk.valid, numbers[TIMESTAMP_TYPE],
        kernel.TextColumn(key.data, key.ends, key.valid, 3), kernel.TextColumn(value.data, value.ends, value.valid, 3),
        chunk.header_ends,
    ]  # fmt: skip


def test_buffer_sizes_are_checked() -> None:
    for count in (4, -1, 100):
        with pytest.raises(ValueError):
            kernel.CsvLines(*columns(count))
    for at in (2, 3, 4, 5, 8):
        some = columns(3)
        some[at] = some[at][:0]
        with pytest.raises(ValueError):
            kernel.CsvLines(*some)
    key = chunk_of([(i, None, 0, b"key", b"value", []) for i in range(3)]).bytes[KEY]
    for parts in ((key.data[:8], key.ends, key.valid), (key.data, key.ends[:3], key.valid)):
        with pytest.raises(ValueError):
            kernel.TextColumn(*parts, 3)
    with pytest.raises(ValueError):
        kernel.TextColumn(key.data, key.ends, key.valid[:0], 3)
    lines = kernel.CsvLines(*columns(3))
    for first, written in ((4, 0), (-1, 0), (0, 10), (0, -1)):
        lines.written = written
        with pytest.raises(ValueError):
            lines.put(first, bytearray(9))


@pytest.mark.skipif(not COMPILED, reason="an interpreted kernel leaves all")
def test_the_kernel_says_how_many_bytes_it_needs() -> None:
    lines = kernel.CsvLines(*columns(3))
    assert lines.put(0, bytearray(100)) == 0
    assert lines.needed > 100
    assert lines.put(0, bytearray(lines.needed)) in (1, 2, 3)
