"""Chunks as Arrow record batches: every buffer is as Arrow's own validation wants it, and the values are the rows'."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from export.chunk_rows import read_chunks, read_rows
from kernel.rendering import batch, record
from kseg.export.chunk import NAMES

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

TESTDATA = Path(__file__).resolve().parent.parent.parent / "testdata"
SOURCES = [
    "kafka-4.3.1/clients/librdkafka-gzip-0/00000000000000000000.log",
    "kafka-4.3.1/codecs/codec-mix-0/00000000000000000000.log",
    "kafka-2.8.2/upgraded-from-0.8.2.2/one-mixcodec-0/00000000000000000000.log",
]
pytestmark = pytest.mark.spark  # whose extra brings pyarrow
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def tables(path: Path, names: tuple[str, ...] = NAMES, **sizes: int) -> list["pa.RecordBatch"]:
    from kseg.export.arrow import record_batch, schema

    wanted = schema([*names, "topic", "partition"])
    constants = {"topic": "orders", "partition": None}
    chunks = read_chunks(path, names=names, timestamp_scale=1000, **sizes)
    found = [record_batch(chunk, wanted, constants) for chunk in chunks]
    for each in found:
        each.validate(full=True)
        assert each.schema.equals(wanted)
    return found


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("rows", [7, 5000])
def test_values_are_those_of_the_rows(source: str, rows: int) -> None:
    found = [row for table in tables(TESTDATA / source, rows=rows) for row in table.to_pylist()]
    expected = [
        {
            "key": key,
            "value": value,
            "offset": offset,
            "timestamp": None if time is None else EPOCH + timedelta(milliseconds=time),
            "timestampType": kind,
            "headers": [{"key": name.decode(), "value": content} for name, content in headers],
            "topic": "orders",
            "partition": None,
        }
        for offset, time, kind, key, value, headers in read_rows(TESTDATA / source)
    ]
    assert found == expected


def test_one_column_alone() -> None:
    (table,) = tables(TESTDATA / SOURCES[0], ("offset",))
    assert table.schema.names == ["offset", "topic", "partition"]
    assert table.column("offset").to_pylist() == list(range(240))


def test_a_header_key_that_is_no_utf_8_is_shown_as_java_shows_it(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(batch([record(0, headers=[(b"a\xff\xc3b", b"\xff"), ("é".encode(), None)]), record(1)]))
    (table,) = tables(path)
    assert table.column("headers").to_pylist() == [
        [{"key": "a\ufffd\ufffdb", "value": b"\xff"}, {"key": "é", "value": None}],
        [],
    ]
