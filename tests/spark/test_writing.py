"""Tasks write a valid partition, or nothing: the writer without a JVM, and once with one."""

import os
import pickle
import shutil
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.cloudpickle import dumps
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from kseg.changes.disk import umask
from kseg.cli.main import run
from kseg.errors import KsegError
from kseg.spark.modes import arrow_schema_of, schema_of
from kseg.spark.options import Options
from kseg.spark.source import KsegDataSource
from segment.reading import records_at
from spark.reading import reader_of, rows_of

pytestmark = pytest.mark.spark
TESTDATA = Path(__file__).resolve().parents[2] / "testdata"
CLIENTS = TESTDATA / "kafka-4.3.1/clients"
UTC = timezone.utc  # noqa: UP017 - as Spark's own
COLUMNS = ["key", "value", "offset", "timestamp", "timestampType", "headers"]


def writer_of(path: object, columns: list[str] | None = None, schema: StructType | None = None, **options: str) -> Any:
    whole = schema_of(Options())
    given = schema or StructType([whole[name] for name in columns or COLUMNS])
    return KsegDataSource({"path": str(path)} | {k.lower(): v for k, v in options.items()}).writer(given, False)


def write(writer: Any, *tasks: list[pa.RecordBatch]) -> None:
    """Runs the writer as Spark does: each task and the driver get it from a pickle."""
    messages = []
    try:
        for batches in tasks:
            messages.append(pickle.loads(dumps(pickle.loads(dumps(writer)).write(iter(batches)))))
    except BaseException:
        pickle.loads(dumps(writer)).abort([*messages, None])
        raise
    pickle.loads(dumps(writer)).commit(messages)


def batch(rows: list[dict[str, Any]], columns: list[str] | None = None) -> pa.RecordBatch:
    whole = arrow_schema_of(schema_of(Options()))
    wanted = pa.schema([whole.field(name) for name in columns or COLUMNS])
    return pa.RecordBatch.from_pylist([{**dict.fromkeys(wanted.names), **row} for row in rows], schema=wanted)


def batches_of(path: object, columns: list[str] | None = None) -> list[pa.RecordBatch]:
    reader = reader_of([path], columns or COLUMNS, splitBytes="2k")
    return [found for task in reader.partitions() for found in reader.read(task)]


def numbered(first: int, count: int, **fields: Any) -> list[dict[str, Any]]:
    return [{"offset": first + i, "value": b"%d" % (first + i), **fields} for i in range(count)]


def verify(path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        run(["verify", "--level", "deep", "--quiet", str(path)])
    assert ended.value.code == 0


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


@pytest.mark.parametrize("source", ["librdkafka-gzip-0", "librdkafka-txn-0"])
@pytest.mark.parametrize("codec", ["none", "zstd:3", "lz4"])
def test_records_survive_a_round_trip(tmp_path: Path, source: str, codec: str) -> None:
    batches, wanted = batches_of(CLIENTS / source), rows_of(CLIENTS / source, columns=COLUMNS)
    write(writer_of(tmp_path / "orders-3", codec=codec, segmentBytes="4k", batchBytes="1k"), batches[:2], batches[2:])
    assert rows_of(tmp_path / "orders-3", columns=COLUMNS) == wanted
    assert names(tmp_path) == ["orders-3"]
    assert len(list((tmp_path / "orders-3").glob("*.index"))) > 1
    verify(tmp_path / "orders-3")


def test_ranges_come_in_any_order_and_leave_gaps(tmp_path: Path) -> None:
    tasks = [[batch(numbered(first, 10))] for first in (500, 0, 100)]
    write(writer_of(tmp_path / "orders-0"), *tasks, [])
    assert [path.name for path in sorted((tmp_path / "orders-0").glob("*.log"))] == [
        f"{n:020d}.log" for n in (0, 100, 500)
    ]
    assert [row["offset"] for row in rows_of(tmp_path / "orders-0", columns=["offset"])] == [
        *range(10), *range(100, 110), *range(500, 510),
    ]  # fmt: skip
    assert (tmp_path / "orders-0/leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"
    verify(tmp_path / "orders-0")


def test_filtered_offsets_are_not_reported_as_lost(tmp_path: Path) -> None:
    rows = [batch([row for row in numbered(first, 30) if row["offset"] % 3]) for first in (0, 30)]
    write(writer_of(tmp_path / "t-0"), rows, [batch(numbered(200, 2))])
    verify(tmp_path / "t-0")
    shutil.rmtree(tmp_path / "t-0/.kseg-quarantine")
    with pytest.raises(AssertionError):
        verify(tmp_path / "t-0")


def test_topics_and_partitions_go_to_directories_of_their_own(tmp_path: Path) -> None:
    columns = ["topic", "partition", "offset", "value"]
    rows = [
        {"topic": t, "partition": p, "offset": o, "value": b"%d" % o} for o in range(5) for t in "ab" for p in (0, 1)
    ]
    write(writer_of(tmp_path / "logs", columns), [batch(rows, columns)], [batch([dict(rows[0], offset=9)], columns)])
    assert names(tmp_path / "logs") == ["a-0", "a-1", "b-0", "b-1"]
    assert [row["offset"] for row in rows_of(tmp_path / "logs/a-0", columns=["offset"])] == [0, 1, 2, 3, 4, 9]
    assert len(rows_of(tmp_path / "logs/b-1", columns=["offset"])) == 5
    for name, number, told in (
        ("a", -1, "partition: -1"),
        ("a-0/../b", 0, "no name of a topic"),
        ("x" * 300, 0, "no name of a topic"),
    ):
        with pytest.raises(KsegError, match=told):
            write(
                writer_of(tmp_path / "2/logs", columns), [batch([dict(rows[0], topic=name, partition=number)], columns)]
            )
    assert names(tmp_path) == ["logs"]


def test_missing_parents_appear_with_the_partition_only(tmp_path: Path) -> None:
    target, rows = tmp_path / "a/b/orders-0", [batch(numbered(0, 3))]
    with pytest.raises(KsegError, match="several tasks"):
        write(writer_of(target), rows, rows)
    assert names(tmp_path) == []
    writer = writer_of(target)
    messages = [writer.write(iter(rows))]
    (tmp_path / "a").touch()
    with pytest.raises(KsegError, match="nothing was written"):
        writer.commit(messages)
    assert names(tmp_path) == ["a"]
    (tmp_path / "a").unlink()
    write(writer_of(target), rows)
    assert names(target.parent) == ["orders-0"]
    assert names(tmp_path) == ["a"]


def test_owner_and_mode_are_those_of_the_log_directory(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    if os.geteuid() == 0:
        os.chown(logs, 4711, 4712)
    logs.chmod(0o750)
    (before,) = [logs.stat()]
    rows = [batch([row for row in numbered(0, 9) if row["offset"] % 3])]
    write(writer_of(logs / "orders-0"), rows)
    written = sorted((logs / "orders-0").iterdir())
    assert {path.suffix for path in written} >= {".log", ".index", ".timeindex"}
    for path in (logs / "orders-0", *written):
        found = path.stat()
        assert (found.st_uid, found.st_gid) == (before.st_uid, before.st_gid), path
        assert not found.st_mode & 0o027, path
        if path.is_file():
            assert found.st_mode & 0o777 == 0o640, path
    write(writer_of(tmp_path / "new/orders-0"), rows)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "new/orders-0").glob("0*")} == {0o666 & ~umask()}


def test_fields_are_those_of_the_rows(tmp_path: Path) -> None:
    at = datetime(2026, 1, 31, 9, 0, 0, 123999, UTC)
    before = datetime(1969, 12, 31, 23, 59, 59, 998500, UTC)
    rows = [
        {"offset": 1, "key": b"", "value": None, "timestamp": at, "headers": [{"key": "é", "value": None}]},
        {"offset": 2, "key": None, "value": b"", "timestamp": before, "headers": []},
        {"offset": 4, "key": b"k" * 300, "value": b"v" * 70000, "timestamp": at, "timestampType": 1},
        {"offset": 5, "key": b"x", "timestamp": at, "timestampType": 1, "headers": [{"key": "", "value": b"1"}] * 2},
        {"offset": 6, "timestampType": 0},
    ]
    whole = batch([{"offset": 0, "key": b"not asked for", "headers": [{"key": "a", "value": b"b"}]}, *rows])
    write(writer_of(tmp_path / "t-0"), [whole.slice(1, 3), whole.slice(4)])
    found = [
        (r.offset, r.timestamp, r.timestamp_type, r.key, r.value, [tuple(header) for header in r.headers])
        for r in records_at(tmp_path / "t-0")
    ]
    ms = 1769850000123
    assert found == [
        (1, ms, "CreateTime", b"", None, [(b"\xc3\xa9", None)]),
        (2, -2, "CreateTime", None, b"", []),
        (4, ms, "LogAppendTime", b"k" * 300, b"v" * 70000, []),
        (5, ms, "LogAppendTime", b"x", None, [(b"", b"1"), (b"", b"1")]),
        (6, -1, "CreateTime", None, None, []),
    ]
    verify(tmp_path / "t-0")


def test_texts_are_keys_and_values_too(tmp_path: Path) -> None:
    schema = StructType([StructField("offset", LongType()), StructField("value", StringType())])
    write(writer_of(tmp_path / "t-0", schema=schema), [pa.RecordBatch.from_pylist([{"offset": 0, "value": "é"}])])
    assert rows_of(tmp_path / "t-0", columns=["value"]) == [{"value": "é".encode()}]


def test_rows_without_offsets_are_counted_task_by_task(tmp_path: Path) -> None:
    columns = ["topic", "partition", "key", "value", "timestamp"]
    rows = [{"topic": "ab"[i % 3 // 2], "partition": 0, "key": b"k", "value": b"%d" % i} for i in range(900)]
    tasks = [[batch(rows[:100], columns), batch(rows[100:400], columns)], [], [batch(rows[400:], columns)]]
    write(writer_of(tmp_path / "logs", columns, segmentBytes="1k", batchBytes="1k", codec="lz4"), *tasks)
    for topic in "ab":
        expected = [row["value"] for row in rows if row["topic"] == topic]
        found = [(row["offset"], row["value"]) for row in rows_of(tmp_path / "logs" / f"{topic}-0")]
        assert found == list(enumerate(expected))
    assert len(list((tmp_path / "logs/a-0").glob("*.log"))) > 2
    verify(tmp_path / "logs")


OVERLAPPING = [
    ([[batch(numbered(0, 10))], [batch(numbered(9, 3))]], "several tasks have offsets around 9"),
    ([[batch(numbered(5, 3)), batch(numbered(7, 3))]], "offset 7 comes behind"),
    ([[batch(numbered(0, 4))], [batch(numbered(3, 1) + numbered(2, 1))]], "repartitionByRange"),
    ([[batch(numbered(0, 3))], [batch([{"value": b"1"}])]], "no offset"),
    (
        [[batch([{"offset": 0}, {"offset": 1 << 40}, {"offset": (1 << 40) + 1}])], [batch([{"offset": 5}])]],
        "several tasks",
    ),
    ([[batch([{"offset": -5}])]], "offset -5"),
]


@pytest.mark.parametrize("tasks, said", OVERLAPPING)
def test_invalid_rows_are_refused_and_leave_nothing(tmp_path: Path, tasks: Any, said: str) -> None:
    with pytest.raises(KsegError, match=said):
        write(writer_of(tmp_path / "orders-0"), *tasks)
    assert names(tmp_path) == []


def test_existing_files_are_not_changed(tmp_path: Path) -> None:
    write(writer_of(tmp_path / "t-0"), [batch(numbered(0, 3))])
    before = {path.name: path.read_bytes() for path in (tmp_path / "t-0").iterdir()}
    with pytest.raises(KsegError, match="already exists"):
        writer_of(tmp_path / "t-0")
    columns = ["topic", "partition", "offset"]
    rows = [{"topic": topic, "partition": 0, "offset": 9} for topic in "st"]
    with pytest.raises(KsegError, match="t-0: already exists"):
        write(writer_of(tmp_path, columns), [batch(rows, columns)])
    assert names(tmp_path) == ["t-0"]
    assert {path.name: path.read_bytes() for path in (tmp_path / "t-0").iterdir()} == before
    with pytest.raises(KsegError, match="removes nothing"):
        KsegDataSource({"path": str(tmp_path / "u-0")}).writer(schema_of(Options()), True)


def test_partitions_of_a_known_topic_get_its_id(tmp_path: Path) -> None:
    logs = Path(shutil.copytree(TESTDATA / "log-directories/4.4.0/logs", tmp_path / "logs"))
    before = (logs / "few-0/partition.metadata").read_bytes()
    shutil.rmtree(logs / "few-0")
    write(writer_of(logs / "few-0", ["value"]), [batch([{"value": b"1"}], ["value"])])
    assert (logs / "few-0/partition.metadata").read_bytes() == before


def test_a_lost_attempt_leaves_nothing(tmp_path: Path) -> None:
    writer, rows = writer_of(tmp_path / "t-0"), [batch(numbered(0, 3))]
    pickle.loads(dumps(writer)).write(iter(rows))
    write(writer, rows)
    assert names(tmp_path) == ["t-0"]
    assert len(rows_of(tmp_path / "t-0", columns=["offset"])) == 3
    write(writer_of(tmp_path / "empty-0"), [], [])
    assert names(tmp_path) == ["t-0"]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"offset": LongType(), "topic": StringType()}, "go together"),
        ({"offset": IntegerType()}, "column offset is bigint, not int"),
        ({"offset": LongType(), "size": LongType()}, "no column 'size'"),
    ],
)
def test_unknown_columns_are_refused(tmp_path: Path, columns: dict[str, Any], said: str) -> None:
    schema = StructType([StructField(name, kind) for name, kind in columns.items()])
    with pytest.raises(KsegError, match=said):
        writer_of(tmp_path / "t-0", schema=schema)
    with pytest.raises(KsegError, match="no partition"):
        writer_of(tmp_path / "orders")


def test_a_session_writes_a_range_a_task(spark: Any, tmp_path: Path) -> None:
    frame = spark.read.format("kseg").load(str(CLIENTS / "librdkafka-gzip-0")).drop("topic", "partition")
    ranged = frame.repartitionByRange(3, "offset").sortWithinPartitions("offset")
    ranged.write.format("kseg").option("codec", "zstd").mode("append").save(str(tmp_path / "copy-0"))
    assert rows_of(tmp_path / "copy-0", columns=COLUMNS) == rows_of(CLIENTS / "librdkafka-gzip-0", columns=COLUMNS)
    assert len(list((tmp_path / "copy-0").glob("*.log"))) == 3
    verify(tmp_path / "copy-0")
    with pytest.raises(Exception, match="repartitionByRange"):
        frame.repartition(3).write.format("kseg").mode("append").save(str(tmp_path / "wrong-0"))
    with pytest.raises(Exception, match="already exists"):
        ranged.write.format("kseg").mode("append").save(str(tmp_path / "copy-0"))
    assert names(tmp_path) == ["copy-0"]
    shutil.rmtree(tmp_path / "copy-0")
    ranged.select("value").write.format("kseg").mode("append").save(str(tmp_path / "new-0"))
    values = [row["value"] for row in rows_of(CLIENTS / "librdkafka-gzip-0")]
    assert [(row["offset"], row["value"]) for row in rows_of(tmp_path / "new-0")] == list(enumerate(values))
