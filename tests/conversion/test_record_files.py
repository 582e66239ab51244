"""Parquet and Arrow files hold the rows added, in order, in row groups of the promised size, with right statistics."""

import csv
import io
import json
import random
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.conversion import record_files
from kseg.conversion.record_files import ARROW, CSV_COLUMNS, GROUP_BYTES, PARQUET, TableWriter, csv_lines
from kseg.export import chunk
from kseg.export.arrow import schema
from kseg.formats.json_values import bytes_value
from kseg.output.notices import on_one_line
from output.feeding import MemorySink

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
MIB = 1 << 20
TABLE_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


def batch(first: int, size: int, rows: int = 8) -> Any:
    """Rows whose offsets begin at ``first``, of so many bytes in all."""
    values = [bytes([first % 251]) * (size // rows - 12)] * rows
    return pa.record_batch({"offset": pa.array(range(first, first + rows), pa.int64()), "value": pa.array(values)})


def written(batches: Iterable[Any], wanted: Any, form: str = PARQUET, codec: str | None = None) -> Any:
    """The file that they become, opened again by pyarrow."""
    import pyarrow.parquet as pq

    output = MemorySink()
    with TableWriter(output, form, wanted, codec, None) as writer:
        for each in batches:
            writer.add(each)
    source = pa.BufferReader(bytes(output.written))
    return pq.ParquetFile(source) if form == PARQUET else pa.ipc.open_file(source)


def rows_of(file: Any) -> Any:
    """``ParquetFile.read`` of pyarrow below 19.0.1 fails without a row group."""
    return file.read() if file.num_row_groups else file.schema_arrow.empty_table()


def group_rows(file: Any) -> list[int]:
    return [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]


@pytest.mark.parametrize(("sizes", "groups"), [
    ([], []),
    ([100], [8]),
    ([MIB] * 9, [32, 32, 8]),
    ([MIB] * 4 + [MIB // 4], [40]),
    ([MIB] * 4 + [MIB // 4, MIB, MIB // 4], [40, 16]),
    ([10 * MIB] * 2, [8, 8]),
    ([MIB // 4] * 24, [160, 32]),
])  # fmt: skip
def test_a_small_batch_joins_the_group_before_it(sizes: list[int], groups: list[int]) -> None:
    assert GROUP_BYTES == 4 * MIB
    file = written((batch(8 * i, size) for i, size in enumerate(sizes)), batch(0, 1000).schema)
    assert group_rows(file) == groups
    assert rows_of(file)["offset"].to_pylist() == list(range(8 * len(sizes)))


def records(first: int, count: int) -> Any:
    """Records in all columns, offsets from ``first`` on; other columns rise, fall, repeat and are null at times."""
    offsets = range(first, first + count)
    return pa.record_batch(
        {
            "key": [b"%d" % (i % 7) if i % 5 else None for i in offsets],
            "value": [b"%06d" % i * 100 for i in offsets],
            "topic": ["orders" if i % 4000 < 2000 else "payments" for i in offsets],
            "partition": [i % 3 for i in offsets],
            "offset": offsets,
            "timestamp": [None if i % 11 == 0 else datetime.fromtimestamp(9999 - i * i % 999, UTC) for i in offsets],
            "timestampType": [i % 3 - 1 for i in offsets],
            "headers": [[{"key": "h", "value": b"%d" % i}] * (i % 3) for i in offsets],
        },
        schema=schema(TABLE_COLUMNS),
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("codec", [None, "none", "zstd"])
def test_statistics_are_those_of_the_rows(codec: str | None) -> None:
    batches = [records(i, 1500) for i in range(0, 30_000, 1500)]
    file = written(batches, schema(TABLE_COLUMNS), codec=codec)
    assert file.schema_arrow.equals(schema(TABLE_COLUMNS), check_metadata=True)
    assert file.read().equals(pa.Table.from_batches(batches))
    assert file.num_row_groups > 2
    with_statistics = set()
    for g in range(file.num_row_groups):
        rows = file.read_row_group(g)
        for c in range(file.metadata.num_columns):
            column = file.metadata.row_group(g).column(c)
            assert column.compression == {None: "SNAPPY", "none": "UNCOMPRESSED", "zstd": "ZSTD"}[codec]
            if column.statistics is None:
                continue
            with_statistics.add(column.path_in_schema)
            values = rows[column.path_in_schema].to_pylist()
            present = [value for value in values if value is not None]
            assert (column.statistics.min, column.statistics.max) == (min(present), max(present))
            assert column.statistics.null_count == len(values) - len(present)
    assert with_statistics == {"topic", "partition", "offset", "timestamp", "timestampType"}


def test_repeated_values_are_stored_once() -> None:
    """Those of keys, of values and in headers; offsets, which never repeat, have no dictionary."""
    file = written([records(0, 3000)], schema(TABLE_COLUMNS), codec="none")
    columns = [file.metadata.row_group(0).column(c) for c in range(file.metadata.num_columns)]
    has_dictionary = {column.path_in_schema for column in columns if "RLE_DICTIONARY" in column.encodings}
    assert {"key", "headers.list.element.key"} <= has_dictionary
    assert "offset" not in has_dictionary
    metadata = written([batch(0, MIB, 1024)], batch(0, 8000).schema, codec="none").metadata
    assert metadata.row_group(0).column(1).total_compressed_size < 10_000


@pytest.mark.parametrize("form", [PARQUET, ARROW])
def test_no_rows_at_all(form: str) -> None:
    wanted = schema(TABLE_COLUMNS)
    file = written([], wanted, form)
    assert (file.schema_arrow if form == PARQUET else file.schema).equals(wanted)
    assert (file.metadata.num_rows if form == PARQUET else file.read_all().num_rows) == 0


@pytest.mark.parametrize("form", [PARQUET, ARROW])
def test_a_file_is_not_ended_after_an_error(form: str) -> None:
    """What was written must not look like a whole file, nor may anything be written afterwards."""
    output = MemorySink()

    with suppress(KeyboardInterrupt), TableWriter(output, form, batch(0, 1000).schema, None, None) as writer:
        for i in range(3):
            writer.add(batch(8 * i, 5 * MIB))
        raise KeyboardInterrupt
    assert output.written[:4] in (b"PAR1", b"ARRO")
    assert output.written[-4:] != b"PAR1"
    assert not output.written.endswith(b"ARROW1")


@pytest.mark.parametrize("form", [PARQUET, ARROW])
def test_an_output_that_fails_says_why(form: str) -> None:
    class Full(MemorySink):
        def write_view(self, view: Any) -> None:
            raise BrokenPipeError("nobody reads")

    noise = [random.Random(i).randbytes(MIB) for i in range(6)]  # no dictionary makes it fewer
    rows = pa.record_batch({"offset": pa.array(range(6), pa.int64()), "value": pa.array(noise)})

    def fail() -> None:
        with TableWriter(Full(), form, rows.schema, "none", None) as writer:
            for _ in range(3):
                writer.add(rows)

    with pytest.raises(BrokenPipeError, match="nobody reads"):
        fail()


def test_a_row_group_is_full_at_its_limit_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_files, "GROUP_ROWS", 4)
    monkeypatch.setattr(record_files, "_SMALL_BYTES", 0)
    batches = [pa.record_batch([pa.array(range(count), pa.int64())], names=["a"]) for count in (3, 1, 3, 2, 4, 1)]
    found = written(batches, batches[0].schema).metadata
    assert [found.row_group(at).num_rows for at in range(found.num_row_groups)] == [4, 5, 4, 1]


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


def fill(column: chunk.Bytes, values: list[bytes | None]) -> None:
    for i, value in enumerate(values):
        column.ends[i + 1] = column.ends[i] + len(value or b"")
        column.data[column.ends[i] : column.ends[i + 1]] = value or b""
        column.valid[i >> 3] |= (value is not None) << (i & 7)


def chunk_of(records: list[Record]) -> chunk.Chunk:
    found: chunk.Chunk = chunk.Chunks(chunk.NAMES, rows=max(len(records), 1))._chunk
    found.count = len(records)
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    assert found.valid is not None
    for i, (offset, time, kind, _, _, headers) in enumerate(records):
        found.numbers[chunk.OFFSET][i], found.numbers[chunk.TIMESTAMP][i] = offset, time or 0
        found.numbers[chunk.TIMESTAMP_TYPE][i] = kind
        found.valid[i >> 3] |= (time is not None) << (i & 7)
        keys += [key for key, _ in headers]
        values += [value for _, value in headers]
        found.numbers[chunk.HEADER_ENDS][i + 1] = len(keys)
    for name, column in ((chunk.KEY, 3), (chunk.VALUE, 4)):
        texts: list[Any] = [record[column] for record in records]
        found.bytes[name] = chunk.Bytes(max(len(records), 1), sum(len(text or b"") for text in texts) + 1)
        fill(found.bytes[name], texts)
    for name, texts in ((chunk.HEADER_KEYS, keys), (chunk.HEADER_VALUES, values)):
        found.bytes[name] = chunk.Bytes(len(texts) + 1, sum(len(text or b"") for text in texts) + 1)
        fill(found.bytes[name], texts)
    return found


def text(data: bytes | None) -> str:
    found = bytes_value(data)
    return "" if found is None else found if isinstance(found, str) else json.dumps(found, separators=(",", ":"))


@given(st.lists(st.one_of(PLAIN, PLAIN, WITH_HEADERS), max_size=30), st.sampled_from([None, "t", 'a"b,\udcff']))
def test_lines_are_those_of_each_record_and_can_be_read(records: list[Record], topic: str | None) -> None:
    found = bytes(csv_lines(chunk_of(records), topic, 7))
    rows = list(csv.reader(io.StringIO(found.decode(), newline="")))
    place = text(None if topic is None else topic.encode("utf-8", "surrogateescape"))
    assert len(rows) == len(records)
    for row, (offset, time, kind, key, value, headers) in zip(rows, records, strict=True):
        assert dict(zip(CSV_COLUMNS, row, strict=True)) == {
            "topic": place, "partition": "7", "offset": str(offset), "timestamp": "" if time is None else str(time),
            "timestampType": {-1: "", 0: "CreateTime", 1: "LogAppendTime"}[kind], "key": text(key),
            "value": text(value), "headers": row[7],
        }  # fmt: skip
        assert json.loads(row[7]) == [{"key": bytes_value(name), "value": bytes_value(of)} for name, of in headers]


def test_null_is_nothing_and_no_bytes_are_quotes() -> None:
    found = bytes(csv_lines(chunk_of([(0, 5, 0, None, b"", []), (1, 5, 0, b"", None, [])]), "t", 7))
    assert found == b'"t",7,0,5,"CreateTime",,"","[]"\r\n"t",7,1,5,"CreateTime","",,"[]"\r\n'


@pytest.mark.parametrize("text", [b"=1+1", b"+1", b"-1", b"@A1", b"\t=1", b"\r=1"])
def test_a_safe_csv_has_no_text_that_a_spreadsheet_runs(text: bytes) -> None:
    records = [(0, 5, 0, text, text, [])]
    assert b",\"'" + text + b'",' in csv_lines(chunk_of(records), "t", 7, is_safe=True)
    assert b',"' + text + b'",' in csv_lines(chunk_of(records), "t", 7)
    assert b'"=t",7' not in csv_lines(chunk_of(records), "=t", 7, is_safe=True)


def test_csv_on_a_terminal_has_no_control_characters() -> None:
    attack = b"\x1b]52;c;ZWNobyBoaQo=\x07 \xc2\x9b31m"
    records = [(0, 5, 0, attack, b"a\nb", [(b"h", attack)])]
    line = csv_lines(chunk_of(records), "t", 7, escaped=on_one_line)
    assert line.endswith(b"\r\n")
    assert not any(byte < 32 or byte == 127 for byte in line[:-2])
    assert "\x9b" not in line.decode()
    assert attack in csv_lines(chunk_of(records), "t", 7)
