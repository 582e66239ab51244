"""`kseg.writer` and `kseg.log_writer`: partitions that hold what was written, whole or not at all."""

import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import kseg
from api.consumed import TESTDATA, names_in
from kseg.conversion import rows_writer

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


def records(path: Path) -> list[kseg.Record]:
    return list(kseg.open(path).records())


def fields(path: Path) -> list[dict[str, Any]]:
    return [
        {name: getattr(record, name) for name in ("key", "value", "timestamp", "headers")} for record in records(path)
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


OF_NO_WRITER = [{"keys": [b"a"]}, {"key": [1]}, {"offset": [None]}, {"value": [{"a": 1}]}]
OF_NO_LOG = [{"value": [b""]}, {"topic": ["a"], "partition": [-1]}, {"topic": [None]}]


@pytest.mark.parametrize("columns", [*OF_NO_WRITER, *OF_NO_LOG], ids=str)
def test_tables_that_are_no_records_are_refused(tmp_path: Path, columns: dict[str, Any]) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    with pytest.raises(kseg.RequestError):
        write(tmp_path / "new", pa.table(columns))
    if columns in OF_NO_WRITER:
        with pytest.raises(kseg.RequestError), kseg.writer(tmp_path / "orders-0") as writer:
            writer.extend(pa.table(columns))
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("topic", ["\ud800", "a\ud800b"], ids=ascii)
def test_a_topic_that_stands_for_no_bytes_is_refused(tmp_path: Path, topic: str) -> None:
    with pytest.raises(kseg.RequestError, match="is no path"):
        kseg.writer(f"{tmp_path}/{topic}-0")
    with kseg.log_writer(tmp_path / "new") as writer:
        with pytest.raises(kseg.RequestError, match="is no name of a topic"):
            writer.append(topic=topic, partition=0)
        assert writer.append(topic="orders", partition=0) == 0


LOGS = [
    TESTDATA / name
    for name in ("kafka-4.3.1/clients", "kafka-0.10.2.2/codecs", "kafka-0.8.2.2/codecs", "kafka-0.11.0.3/txn")
]
DAMAGED = TESTDATA / "damaged/4.3.1-last-flip-body/dplain-0"
TIME = 1_790_000_000_000
HEADERS = [("h", b"1"), (b"\xff\xfe", None), ("", b""), ('{"base64":"//4="}', b"2")]
OF_PARTITIONS: list[dict[str, Any]] = [
    {"topic": "a", "partition": 0, "key": b"k", "value": b"v", "timestamp": TIME, "headers": HEADERS},
    {"topic": "b", "partition": 3},
    {"topic": "a", "partition": 0, "offset": 7, "timestamp": datetime(2026, 9, 21, 14, 13, 20, 1000, tzinfo=UTC)},
    {"topic": "a", "partition": 1, "timestamp": TIME, "timestampType": 1, "key": None, "value": b"", "headers": None},
    {"topic": "a", "partition": 1, "timestamp": TIME, "timestampType": "CreateTime"},
]


def write(path: Path, given: Any, **options: Any) -> None:
    with kseg.log_writer(path, **options) as writer:
        writer.extend(given)


def known(record: kseg.Record) -> kseg.Record:
    """The record as v2 keeps it, which has no "no type" of timestamps."""
    return record._replace(timestamp_type=record.timestamp_type or "CreateTime")


def test_records_go_to_their_partitions(tmp_path: Path) -> None:
    with kseg.log_writer(tmp_path / "new", codec="zstd") as writer:
        writer.extend(OF_PARTITIONS)
        assert writer.append(topic="b", partition=3, key=b"last", headers=[("h", None)]) == 1
        assert writer.append(topic="é-1", partition=0) == 0
        assert "4 partitions" in repr(writer)
    assert names_in(tmp_path / "new") == ["a-0", "a-1", "b-3", "é-1-0"]
    create, append, none = "CreateTime", "LogAppendTime", None
    assert [tuple(record) for record in records(tmp_path / "new")] == [
        ("a", 0, 0, TIME, create, b"k", b"v", HEADERS, True),
        ("a", 0, 7, TIME + 1, create, none, none, [], True),
        ("a", 1, 0, TIME, append, none, b"", [], True),
        ("a", 1, 1, TIME, create, none, none, [], True),
        ("b", 3, 0, none, create, none, none, [], True),
        ("b", 3, 1, none, create, b"last", none, [("h", None)], True),
        ("é-1", 0, 0, none, create, none, none, [], True),
    ]
    assert kseg.verify(tmp_path / "new", level="deep").ok


@pytest.mark.sampled(5)
@pytest.mark.parametrize("source", LOGS, ids=lambda path: path.parent.name)
@pytest.mark.parametrize("form", ["scan", "records", "mixed", "rows"])
def test_a_log_directory_comes_back(tmp_path: Path, source: Path, form: str) -> None:
    """As Arrow, as records, as a table in which partitions alternate, and as its rows in Python."""
    if form == "records":
        write(tmp_path / "new", kseg.open(source).records())
    else:
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
        table: Any = kseg.scan(source)
        if form == "mixed":
            table = table.to_arrow().sort_by("offset")
        write(tmp_path / "new", table.to_arrow().to_pylist() if form == "rows" else table, codec="lz4")
    assert records(tmp_path / "new") == [known(record) for record in records(source)]


def test_header_keys_of_any_bytes_come_back(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pytest.importorskip("pandas", reason="pandas is not installed")
    write(tmp_path / "a", [row | {"timestamp": TIME} for row in OF_PARTITIONS])
    scan = kseg.scan(tmp_path / "a")
    forms = {"scan": scan, "rows": scan.to_arrow().to_pylist(), "frame": scan.to_pandas().to_dict("records")}
    for name, form in forms.items():
        write(tmp_path / name, form)
        assert records(tmp_path / name) == records(tmp_path / "a")


def test_one_partition_takes_rows_of_any(tmp_path: Path) -> None:
    with kseg.writer(tmp_path / "one-0") as writer:
        writer.extend({"value": b"%d" % i} for i in range(3))
        writer.extend([{"topic": "other", "value": b"3", "proven": False}])
        writer.extend(record for record in [kseg.Record("x", 5, 9, None, None, b"k", None, [])])
        assert writer.next_offset == 10
    assert [(record.offset, record.value) for record in records(tmp_path / "one-0")] == [
        (0, b"0"), (1, b"1"), (2, b"2"), (3, b"3"), (9, None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (42, r"extend\(42\)"),
        ("text", "extend"),
        ({"value": b"x"}, "extend"),
        ([OF_PARTITIONS[0], 5], "extend: record 1: 5 is neither"),
        ([{"topic": "a", "partition": 0, "values": b""}], "no 'values'"),
        ([{"partition": 0}], "topic=None"),
        ([{"topic": "a"}], "partition=None"),
        ([{"topic": "a", "partition": -1}], "partition=-1"),
        ([{"topic": "a", "partition": True}], "partition=True"),
        ([{"topic": "a/b", "partition": 0}], "topic='a/b'"),
        ([{"topic": ".", "partition": 0}], "no name of a topic"),
        ([{"topic": f"x-0.{'0' * 32}-delete", "partition": ""}], "partition=''"),
        ([OF_PARTITIONS[0] | {"topic": "x" * 254}], "is no name of a topic"),
        ([OF_PARTITIONS[0] | {"value": "text"}], "value 'text'"),
        ([OF_PARTITIONS[0] | {"timestamp": "today"}], "timestamp='today'"),
        ([OF_PARTITIONS[0] | {"timestamp": datetime.min}], "timestamp="),
        ([OF_PARTITIONS[0] | {"timestampType": "Never"}], "timestampType='Never'"),
        ([OF_PARTITIONS[0] | {"headers": [{"key": "h"}]}], "headers"),
        ([OF_PARTITIONS[2], OF_PARTITIONS[2]], "offset 7 is below the next offset, 8"),
    ],
    ids=str,
)
def test_what_is_no_record_is_refused(tmp_path: Path, given: Any, message: str) -> None:
    with pytest.raises(kseg.RequestError, match=message):
        write(tmp_path / "new", given)
    assert names_in(tmp_path) == []


def test_after_the_last_offset_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(kseg.KsegError, match="a-0: there is no offset after"):
        write(tmp_path / "new", [{"topic": "a", "partition": 0, "offset": (1 << 63) - 1}, OF_PARTITIONS[0]])
    assert names_in(tmp_path) == []


def test_errors_of_what_is_read_stay_what_they_are(tmp_path: Path) -> None:
    def rows() -> Iterator[dict[str, Any]]:
        yield OF_PARTITIONS[0]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write(tmp_path / "new", rows())
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    with pytest.raises(kseg.DamageError, match="crc-mismatch"):
        write(tmp_path / "new", kseg.scan(DAMAGED))
    assert names_in(tmp_path) == []


def test_what_exists_is_refused_and_nothing_else_written(tmp_path: Path) -> None:
    write(tmp_path / "new", OF_PARTITIONS)
    before = records(tmp_path / "new")
    with pytest.raises(kseg.PathError, match="b-3: already exists"):
        write(tmp_path / "new", [{"topic": "c", "partition": 0}, *OF_PARTITIONS[1:]])
    assert records(tmp_path / "new") == before
    assert names_in(tmp_path / "new") == ["a-0", "a-1", "b-3"]


def test_nothing_is_written_among_the_files_of_brokers(tmp_path: Path) -> None:
    write(tmp_path / "new", OF_PARTITIONS)
    (tmp_path / "new/meta.properties").touch()
    before = sorted(tmp_path.rglob("*"))
    for place in ("new/a-0", "new/a-0/deeper", "new/deeper"):
        with pytest.raises(kseg.PathError, match=r"is (inside )?the"):
            write(tmp_path / place, OF_PARTITIONS)
        with pytest.raises(kseg.PathError, match=r"is (inside )?the"), kseg.writer(tmp_path / place / "z-0"):
            pass
    assert sorted(tmp_path.rglob("*")) == before
    with kseg.writer(tmp_path / "new/z-0"):
        pass
    assert names_in(tmp_path / "new") == ["a-0", "a-1", "b-3", "meta.properties", "z-0"]


def test_partitions_of_a_known_topic_get_its_id(tmp_path: Path) -> None:
    """Otherwise a broker would take them for stray ones."""
    logs = Path(shutil.copytree(TESTDATA / "log-directories/4.4.0/logs", tmp_path / "logs"))
    before = (logs / "few-0/partition.metadata").read_bytes()
    shutil.rmtree(logs / "few-0")
    write(logs, [{"topic": "few", "partition": 0}, {"topic": "other", "partition": 0}])
    assert (logs / "few-0/partition.metadata").read_bytes() == before
    lacking = [each.file for each in kseg.verify(logs).findings if each.code == "no-partition-metadata"]
    assert lacking == [str(logs / "other-0")]


def in_turns(path: Path, partitions: int, rounds: int) -> int:
    """Writes a record to each partition, again and again. The largest number of open files."""
    most = 0
    with kseg.log_writer(path, batch_bytes=150) as writer:
        for i in range(rounds):
            for number in range(partitions):
                writer.append(topic="t", partition=number, value=b"%d" % i * 20)
            most = max(most, len(os.listdir("/proc/self/fd")))
    return most


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files are counted on Linux")
@pytest.mark.parametrize("buffered", [1, 5000, 1 << 30])
def test_many_partitions_need_few_open_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, buffered: int) -> None:
    monkeypatch.setattr(rows_writer, "OPEN_FILES", 5)
    monkeypatch.setattr(rows_writer, "BUFFER_BYTES", buffered)
    few, many = in_turns(tmp_path / "few", 3, 9), in_turns(tmp_path / "many", 40, 9)
    assert many <= few + 2
    for name, count in (("few", 3), ("many", 40)):
        found = [(record.partition, record.offset, record.value) for record in records(tmp_path / name)]
        assert found == [(number, i, b"%d" % i * 20) for number in range(count) for i in range(9)]
        assert kseg.verify(tmp_path / name, level="deep").ok
