"""`kseg.writer`: partitions that hold what was written, whole or not at all."""

from pathlib import Path
from typing import Any

import pytest

import kseg
from api.consumed import TESTDATA, names_in

CODECS = ["none", "gzip", "snappy", "lz4", "zstd", "zstd:3"]
SOURCE = TESTDATA / "kafka-4.3.1/clients/librdkafka-txn-0"
MIXED = TESTDATA / "kafka-2.8.2/upgraded-from-0.8.2.2/one-mixcodec-0"
ROWS: list[dict[str, Any]] = [
    {"key": b"k", "value": b"v", "timestamp": 1_790_000_000_000, "headers": [("h", b"1"), (b"\xff", None)]},
    {"key": None, "value": None, "timestamp": None, "headers": []},
    {"key": b"", "value": b"", "timestamp": 0, "headers": [("", b"")]},
]


def put(path: Path, rows: list[dict[str, Any]], **options: Any) -> list[int]:
    with kseg.writer(path, **options) as writer:
        return [writer.append(**row) for row in rows]


def fields(path: Path) -> list[dict[str, Any]]:
    return [
        {name: getattr(record, name) for name in ("key", "value", "timestamp", "headers")}
        for record in kseg.open(path).records()
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_written(tmp_path: Path, codec: str) -> None:
    path = tmp_path / "new" / "orders-0"
    rows = ROWS * 700
    assert put(path, rows, codec=codec, segment_bytes=20_000) == list(range(len(rows)))
    assert fields(path) == rows
    verdict = kseg.verify(path, level="deep")
    assert verdict.ok
    assert [finding.code for finding in verdict.findings if finding.severity != "info"] == []
    batches = [item for item in kseg.open(path) if isinstance(item, kseg.Batch)]
    assert {batch.compression for batch in batches} == {codec.partition(":")[0]}
    assert len(kseg.open(path).files) > 1 or codec != "none"
    assert names_in(tmp_path) == ["new"]
    assert names_in(tmp_path / "new") == ["orders-0"]


def test_offsets_may_begin_anywhere_and_have_gaps(tmp_path: Path) -> None:
    path = tmp_path / "orders-0"
    with kseg.writer(path, first_offset=100) as writer:
        assert writer.append(value=b"a") == 100
        assert writer.append(value=b"b", offset=200) == 200
        assert writer.next_offset == 201
        with pytest.raises(kseg.RequestError, match="is below the next offset"):
            writer.append(offset=150)
        assert "next offset 201" in repr(writer)
    assert [record.offset for record in kseg.open(path).records()] == [100, 200]
    assert Path(kseg.open(path).files[0]).name == "00000000000000000100.log"
    assert kseg.verify(path).ok


def test_a_partition_without_records_has_an_empty_segment(tmp_path: Path) -> None:
    put(tmp_path / "orders-0", [], first_offset=7)
    assert [Path(file).name for file in kseg.open(tmp_path / "orders-0").files] == ["00000000000000000007.log"]
    assert fields(tmp_path / "orders-0") == []
    assert kseg.verify(tmp_path / "orders-0", level="deep").ok


@pytest.mark.parametrize(
    "record",
    [
        {"key": "text"},
        {"value": 5},
        {"headers": [(1, b"")]},
        {"headers": [("a", "b")]},
        {"headers": [("a",)]},
        {"headers": {"a": b"b"}},
        {"headers": 5},
        {"headers": [("\ud800", b"")]},
        {"timestamp": -2},
        {"offset": -1},
    ],
    ids=ascii,
)
def test_values_of_other_types_are_refused(tmp_path: Path, record: dict[str, Any]) -> None:
    with kseg.writer(tmp_path / "orders-0") as writer:
        with pytest.raises(kseg.RequestError):
            writer.append(**record)
        assert writer.append() == 0


def test_a_writer_writes_inside_its_block_and_once(tmp_path: Path) -> None:
    writer = kseg.writer(tmp_path / "orders-0")
    with pytest.raises(kseg.RequestError, match="with block"):
        writer.append()
    with writer:
        writer.append()
    assert (writer.next_offset, repr(writer)) == (1, "<Writer 'orders-0': next offset 1>")
    with pytest.raises(kseg.RequestError, match="with block"):
        writer.append()
    with pytest.raises(kseg.RequestError, match="once"):
        writer.__enter__()


def test_a_writer_that_did_not_begin_may_begin_again(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    writer = kseg.writer(tmp_path / "orders-0")
    with pytest.raises(kseg.RequestError, match="with block"):
        writer.__exit__(None, None, None)
    with pytest.raises(kseg.PathError, match="already exists"):
        writer.__enter__()
    (tmp_path / "orders-0").rmdir()
    with writer:
        writer.append()
    with pytest.raises(kseg.RequestError, match="with block"):
        writer.__exit__(None, None, None)
    assert len(list(kseg.open(tmp_path / "orders-0").records())) == 1


@pytest.mark.parametrize("source", [SOURCE, MIXED], ids=lambda path: path.name)
def test_a_scan_is_written_with_its_offsets(tmp_path: Path, source: Path) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / source.name
    scan = kseg.scan(source)
    with kseg.writer(path, codec="lz4") as writer:
        writer.extend(scan)
        last = scan.to_arrow().column("offset")[-1].as_py()
        assert writer.append(value=b"behind") == last + 1
    table, written = scan.to_arrow(), kseg.scan(path).to_arrow()
    kept = [name for name in table.schema.names if name not in ("timestampType", "timestamp")]
    assert written.slice(0, table.num_rows).select(kept).equals(table.select(kept))
    assert written.column("timestamp").to_pylist()[:-1] == table.column("timestamp").to_pylist()
    assert kseg.verify(path, level="deep").ok


def test_tables_of_other_types_are_written(tmp_path: Path) -> None:
    """Slices, text, large and view types, integer timestamps, more rows than a chunk has."""
    pa = pytest.importorskip("pyarrow")
    count = 40_000
    pair = pa.struct([("key", pa.large_string()), ("value", pa.large_binary())])
    headers = [[{"key": f"h{i % 3}", "value": None if i % 2 else b"x"}] * (i % 3) for i in range(count)]
    table = pa.table(
        {
            "key": pa.array([None if i % 5 == 0 else f"k{i}" for i in range(count)], pa.string_view()),
            "value": pa.array([b"v%d" % i for i in range(count)], pa.large_binary()),
            "timestamp": pa.array([1_700_000_000_000 + i for i in range(count)], pa.int64()),
            "headers": pa.array(headers, pa.large_list(pair)),
            "topic": pa.array(["other"] * count),
        }
    ).slice(1000)
    with kseg.writer(tmp_path / "orders-0", codec="zstd", segment_bytes=300_000) as writer:
        writer.append(value=b"first")
        writer.extend(table)
    records = list(kseg.open(tmp_path / "orders-0").records())[1:]
    assert [record.offset for record in records] == list(range(1, count - 999))
    for i, record in enumerate(records, start=1000):
        assert record.key == (None if i % 5 == 0 else b"k%d" % i)
        assert record.value == b"v%d" % i
        assert record.timestamp == 1_700_000_000_000 + i
        assert record.headers == [(f"h{i % 3}", None if i % 2 else b"x")] * (i % 3)


@pytest.mark.parametrize(
    "columns", [{"keys": [b"a"]}, {"key": [1]}, {"offset": [None]}, {"value": [{"a": 1}]}], ids=str
)
def test_tables_that_are_no_records_are_refused(tmp_path: Path, columns: dict[str, Any]) -> None:
    pa = pytest.importorskip("pyarrow")
    with pytest.raises(kseg.RequestError), kseg.writer(tmp_path / "orders-0") as writer:
        writer.extend(pa.table(columns))
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("topic", ["\ud800", "a\ud800b"], ids=ascii)
def test_a_topic_that_stands_for_no_bytes_is_refused(tmp_path: Path, topic: str) -> None:
    with pytest.raises(kseg.RequestError, match="the name must be that of a partition"):
        kseg.writer(f"{tmp_path}/{topic}-0")
    with kseg.log_writer(tmp_path / "new") as writer:
        with pytest.raises(kseg.RequestError, match="is no name of a topic"):
            writer.append(topic=topic, partition=0)
        assert writer.append(topic="orders", partition=0) == 0
