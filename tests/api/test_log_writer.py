"""`kseg.log_writer`, and what both writers take in `extend`."""

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

LOGS = [
    TESTDATA / name
    for name in ("kafka-4.3.1/clients", "kafka-0.10.2.2/codecs", "kafka-0.8.2.2/codecs", "kafka-0.11.0.3/txn")
]
DAMAGED = TESTDATA / "damaged/4.3.1-last-flip-body/dplain-0"
TIME = 1_790_000_000_000
HEADERS = [("h", b"1"), (b"\xff\xfe", None), ("", b""), ('{"base64":"//4="}', b"2")]
ROWS: list[dict[str, Any]] = [
    {"topic": "a", "partition": 0, "key": b"k", "value": b"v", "timestamp": TIME, "headers": HEADERS},
    {"topic": "b", "partition": 3},
    {"topic": "a", "partition": 0, "offset": 7, "timestamp": datetime(2026, 9, 21, 14, 13, 20, 1000, tzinfo=UTC)},
    {"topic": "a", "partition": 1, "timestamp": TIME, "timestampType": 1, "key": None, "value": b"", "headers": None},
    {"topic": "a", "partition": 1, "timestamp": TIME, "timestampType": "CreateTime"},
]


def records(path: Path) -> list[kseg.Record]:
    return list(kseg.open(path).records())


def write(path: Path, given: Any, **options: Any) -> None:
    with kseg.log_writer(path, **options) as writer:
        writer.extend(given)


def known(record: kseg.Record) -> kseg.Record:
    """The record as v2 keeps it, which has no "no type" of timestamps."""
    return record._replace(timestamp_type=record.timestamp_type or "CreateTime")


def test_records_go_to_their_partitions(tmp_path: Path) -> None:
    with kseg.log_writer(tmp_path / "new", codec="zstd") as writer:
        writer.extend(ROWS)
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
    write(tmp_path / "a", [row | {"timestamp": TIME} for row in ROWS])
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
        ([ROWS[0], 5], "extend: record 1: 5 is neither"),
        ([{"topic": "a", "partition": 0, "values": b""}], "no 'values'"),
        ([{"partition": 0}], "topic=None"),
        ([{"topic": "a"}], "partition=None"),
        ([{"topic": "a", "partition": -1}], "partition=-1"),
        ([{"topic": "a", "partition": True}], "partition=True"),
        ([{"topic": "a/b", "partition": 0}], "topic='a/b'"),
        ([{"topic": ".", "partition": 0}], "no name of a topic"),
        ([{"topic": f"x-0.{'0' * 32}-delete", "partition": ""}], "partition=''"),
        ([ROWS[0] | {"value": "text"}], "value 'text'"),
        ([ROWS[0] | {"timestamp": "today"}], "timestamp='today'"),
        ([ROWS[0] | {"timestamp": datetime.min}], "timestamp="),
        ([ROWS[0] | {"timestampType": "Never"}], "timestampType='Never'"),
        ([ROWS[0] | {"headers": [{"key": "h"}]}], "headers"),
        ([ROWS[2], ROWS[2]], "offset 7 is below the next offset, 8"),
    ],
    ids=str,
)
def test_what_is_no_record_is_refused(tmp_path: Path, given: Any, message: str) -> None:
    with pytest.raises(kseg.RequestError, match=message):
        write(tmp_path / "new", given)
    assert names_in(tmp_path) == []


def test_after_the_last_offset_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(kseg.KsegError, match="a-0: there is no offset after"):
        write(tmp_path / "new", [{"topic": "a", "partition": 0, "offset": (1 << 63) - 1}, ROWS[0]])
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("columns", [{"value": [b""]}, {"topic": ["a"], "partition": [-1]}, {"topic": [None]}], ids=str)
def test_tables_without_partitions_are_refused(tmp_path: Path, columns: dict[str, Any]) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    with pytest.raises(kseg.RequestError, match=r"partition|topic"):
        write(tmp_path / "new", pa.table(columns))
    assert names_in(tmp_path) == []


def test_errors_of_what_is_read_stay_what_they_are(tmp_path: Path) -> None:
    def rows() -> Iterator[dict[str, Any]]:
        yield ROWS[0]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write(tmp_path / "new", rows())
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    with pytest.raises(kseg.DamageError, match="crc-mismatch"):
        write(tmp_path / "new", kseg.scan(DAMAGED))
    assert names_in(tmp_path) == []


def test_what_exists_is_refused_and_nothing_else_written(tmp_path: Path) -> None:
    write(tmp_path / "new", ROWS)
    before = records(tmp_path / "new")
    with pytest.raises(kseg.PathError, match="b-3: already exists"):
        write(tmp_path / "new", [{"topic": "c", "partition": 0}, *ROWS[1:]])
    assert records(tmp_path / "new") == before
    assert names_in(tmp_path / "new") == ["a-0", "a-1", "b-3"]


def test_nothing_is_written_among_the_files_of_brokers(tmp_path: Path) -> None:
    write(tmp_path / "new", ROWS)
    (tmp_path / "new/meta.properties").touch()
    before = sorted(tmp_path.rglob("*"))
    for place in ("new/a-0", "new/a-0/deeper", "new/deeper"):
        with pytest.raises(kseg.PathError, match="is inside the"):
            write(tmp_path / place, ROWS)
        with pytest.raises(kseg.PathError, match="is inside the"), kseg.writer(tmp_path / place / "z-0"):
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
