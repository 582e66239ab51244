"""Rows of the data source, compared with real consumers and the commands; without a JVM."""

import json
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)
from pyspark.sql.types import LongType, StringType, StructField, StructType

import kseg
from api.consumed import CONSUMED, TESTDATA, id_of, partition_of
from api.consumed import rows_of as consumed_rows
from dump.test_schemas import ORDER, behind, register
from kseg.errors import KsegError, UnsupportedError
from kseg.spark.source import KsegDataSource
from spark.reading import ALL, read, reader_of, rows_of

DAMAGED = sorted(path for path in TESTDATA.glob("damaged/*/*-0") if "0.7" not in str(path))
MIXED = TESTDATA / "kafka-2.8.2/upgraded-from-0.8.2.2/one-mixcodec-0"
CLIENTS = TESTDATA / "kafka-4.3.1/clients"
pytestmark = pytest.mark.spark
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("consumed", CONSUMED, ids=id_of)
def test_records_are_those_of_a_consumer(consumed: Path, isolation: str) -> None:
    truth = consumed.with_name(f"{isolation}.jsonl.gz")
    expected = consumed_rows(truth if truth.exists() else consumed)
    begin = consumed_rows(consumed)[0]["offset"]
    found = rows_of(partition_of(consumed), isolation=isolation, splitBytes="3k", startOffset=str(begin))
    topic, _, number = consumed.parent.name.rpartition("-")
    assert {(row["topic"], row["partition"]) for row in found} == {(topic, int(number))}
    for row, truth_row in zip(found, expected, strict=True):
        assert [row[name] for name in ("offset", "key", "value")] == [
            truth_row[name] for name in ("offset", "key", "value")
        ]
        if truth_row["timestamp"] is not None:
            assert row["timestamp"] == EPOCH + timedelta(milliseconds=truth_row["timestamp"])


@pytest.mark.parametrize("mode", ["records", "batches"])
@pytest.mark.parametrize("partition", DAMAGED, ids=id_of)
def test_any_split_gives_the_same_rows(partition: Path, mode: str) -> None:
    whole = rows_of(partition, mode=mode)
    for size in ("200", "1111", "8000"):
        assert rows_of(partition, mode=mode, splitBytes=size) == whole


def test_a_log_of_several_0_7_segments_is_read() -> None:
    partition = TESTDATA / "recovery/0.7.2-flip-payload/after/rec-0"
    whole = rows_of(partition)
    offsets = [row["offset"] for row in whole]
    assert len({*offsets}) > 10
    assert rows_of(partition, splitBytes="1111") == whole
    later = [row for row in whole if row["offset"] >= offsets[5]]
    assert rows_of(partition, startOffset=str(offsets[5])) == later


def test_rows_do_not_depend_on_the_columns() -> None:
    """But for batches whose records contradict their headers, under a right checksum."""
    differing = set()
    for partition in sorted({path.parent for path in TESTDATA.glob("damaged/**/*-0/*.log")}):
        rows = rows_of(partition)
        for name in ("partition", "offset", "value"):
            if rows_of(partition, columns=[name]) != [{name: row[name]} for row in rows]:
                differing.add((partition.relative_to(TESTDATA / "damaged").parts[-2], name))
    assert differing == {
        ("4.3.1-crcok-gzip-payload-garbage", "offset"),
        ("4.3.1-crcok-gzip-payload-garbage", "partition"),
        ("offset-out-of-range", "offset"),
        ("offsets-not-rising", "offset"),
    }


def test_all_columns_are_read_or_those_of_the_schema() -> None:
    whole = rows_of(MIXED)
    assert [list(row) for row in whole[:1]] == [ALL["records"]]
    for names in (["offset"], ["headers", "key"], ["partition", "timestampType", "topic"], ["timestamp", "value"]):
        assert rows_of(MIXED, columns=names) == [{name: row[name] for name in names} for row in whole]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ([StructField("payload", StringType())], "has no column 'payload'"),
        ([StructField("key", StringType())], "key of mode records is binary, not string"),
        ([StructField("offset", LongType(), nullable=False)], "NOT NULL"),
        ([], "needs a column"),
    ],
)
def test_an_invalid_schema_is_reported(fields: list[StructField], said: str) -> None:
    with pytest.raises(KsegError, match=said):
        KsegDataSource({"path": str(MIXED)}).reader(schema=StructType(fields))


@pytest.mark.parametrize("mode", ["records", "counts"])
def test_damage_is_skipped_or_ends_the_read(caplog: pytest.LogCaptureFixture, mode: str) -> None:
    partition = TESTDATA / "damaged/4.3.1-last-flip-body/dplain-0"
    rows = rows_of(partition, mode=mode)
    assert rows
    assert "crc-mismatch" in caplog.text
    assert assert_equal([partition]) == len(rows_of(partition))
    with pytest.raises(KsegError, match="crc-mismatch"):
        rows_of(partition, mode=mode, onDamage="fail")


def test_records_of_broken_batches_are_included_and_marked() -> None:
    partition = TESTDATA / "damaged/4.3.1-last-flip-body/dplain-0"
    rows = rows_of(partition, onDamage="include")
    expected = [(record.offset, record.proven) for record in kseg.open(partition).records(on_damage="include")]
    assert [(row["offset"], row["proven"]) for row in rows] == expected
    assert False in [proven for _, proven in expected]
    with pytest.raises(KsegError, match="not with isolation"):
        rows_of(partition, onDamage="include", isolation="read_committed")


def test_a_file_other_than_a_segment_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="index files hold no records"):
        rows_of(next(MIXED.glob("*.index")))


@pytest.mark.parametrize("mode", ["records", "counts"])
def test_a_topic_that_is_no_utf_8_is_shown_with_replacement_characters(tmp_path: Path, mode: str) -> None:
    partition = os.path.join(tmp_path, os.fsdecode(b"caf\xe9-0"))
    shutil.copytree(MIXED, partition)
    assert {(row["topic"], row["partition"]) for row in rows_of(partition, mode=mode)} == {("caf\ufffd", 0)}


def test_ranges_include_both_ends() -> None:
    partition = CLIENTS / "librdkafka-gzip-0"
    whole = rows_of(partition)
    found = rows_of(partition, startOffset="17", endOffset="30")
    assert [row["offset"] for row in found] == list(range(17, 31))
    moments = sorted({row["timestamp"] for row in whole})
    first, last = moments[5], moments[9]
    found = rows_of(partition, startTimestamp=first.isoformat(), endTimestamp=last.isoformat())
    assert found == [row for row in whole if first <= row["timestamp"] <= last]


MOMENT = EPOCH + timedelta(milliseconds=1790000010960)


@pytest.mark.parametrize(
    ("given", "holds"),
    [
        (EqualTo(("offset",), 7), lambda row: row["offset"] == 7),
        (GreaterThan(("offset",), 200), lambda row: row["offset"] > 200),
        (GreaterThanOrEqual(("offset",), 200), lambda row: row["offset"] >= 200),
        (LessThan(("offset",), 20), lambda row: row["offset"] < 20),
        (LessThanOrEqual(("offset",), 20), lambda row: row["offset"] <= 20),
        (IsNotNull(("offset",)), lambda row: True),
        (EqualTo(("timestamp",), MOMENT), lambda row: row["timestamp"] == MOMENT),
        (GreaterThan(("timestamp",), MOMENT), lambda row: row["timestamp"] > MOMENT),
        (GreaterThanOrEqual(("timestamp",), MOMENT), lambda row: row["timestamp"] >= MOMENT),
        (LessThan(("timestamp",), MOMENT), lambda row: row["timestamp"] < MOMENT),
        (LessThanOrEqual(("timestamp",), MOMENT), lambda row: row["timestamp"] <= MOMENT),
        (GreaterThan(("timestamp",), MOMENT + timedelta(microseconds=5)), lambda row: row["timestamp"] > MOMENT),
        (LessThan(("timestamp",), MOMENT + timedelta(microseconds=5)), lambda row: row["timestamp"] <= MOMENT),
        (EqualTo(("timestamp",), MOMENT + timedelta(microseconds=5)), lambda row: False),
        (EqualTo(("topic",), "librdkafka-txn"), lambda row: row["topic"] == "librdkafka-txn"),
        (In(("partition",), (0, 3)), lambda row: True),
        (In(("partition",), (1, 3)), lambda row: False),
        (In(("topic",), ("librdkafka-txn", None)), lambda row: row["topic"] == "librdkafka-txn"),
        (In(("topic",), (None,)), lambda row: False),
        (In(("offset",), (7,)), lambda row: row["offset"] == 7),
    ],
)
def test_pushed_filters_keep_the_rows_that_spark_would_keep(given: Any, holds: Any) -> None:
    paths = [CLIENTS / "librdkafka-gzip-0", CLIENTS / "librdkafka-txn-0"]
    whole = rows_of(*paths)
    reader = reader_of(paths, pushFilters="true")
    left = StringStartsWith(("topic",), "l")
    assert list(reader.pushFilters([given, left])) == [left]
    assert read(reader) == [row for row in whole if holds(row)]


def test_a_filter_on_topic_compares_with_the_text_that_spark_shows(tmp_path: Path) -> None:
    """Names on disk are bytes; those of invalid UTF-8 are shown as U+FFFD."""
    names = [os.fsencode(tmp_path) + name for name in (b"/caf\xe9-0", b"/caf\xc3\xa9-0")]
    for name in names:
        shutil.copytree(os.fsencode(CLIENTS / "librdkafka-gzip-0"), name)
    whole = rows_of(*map(os.fsdecode, names))
    for topic in ("caf\ufffd", "caf\u00e9", "caf\udce9"):
        reader = reader_of([*map(os.fsdecode, names)], pushFilters="true")
        assert list(reader.pushFilters([EqualTo(("topic",), topic)])) == []
        assert read(reader) == [row for row in whole if row["topic"] == topic]
    assert {row["topic"] for row in whole} == {"caf\ufffd", "caf\u00e9"}


def test_other_filters_are_left_to_spark() -> None:
    reader = reader_of([CLIENTS / "librdkafka-gzip-0"], pushFilters="true")
    left = [In(("offset",), (5, 9)), EqualTo(("offset",), "7"), EqualTo(("headers", "offset"), 5), IsNotNull(("key",))]
    assert list(reader.pushFilters(left)) == left
    assert [row["offset"] for row in read(reader)] == [5, 6, 7, 8, 9]


def test_comparisons_are_false_without_a_timestamp() -> None:
    whole = rows_of(MIXED)
    assert None in {row["timestamp"] for row in whole}
    reader = reader_of([MIXED], pushFilters="true")
    assert list(reader.pushFilters([LessThan(("timestamp",), EPOCH + timedelta(days=99_999))])) == []
    assert read(reader) == [row for row in whole if row["timestamp"] is not None]


def test_filters_are_pushed_only_with_the_option() -> None:
    """Spark rejects a reader with pushed filters in sessions that have not enabled them."""
    from pyspark.sql.datasource import DataSourceReader

    assert reader_of([MIXED]).pushFilters.__func__ is DataSourceReader.pushFilters
    assert reader_of([MIXED], pushFilters="true").pushFilters.__func__ is not DataSourceReader.pushFilters


def test_filters_are_not_pushed_where_queries_would_share_them() -> None:
    source = KsegDataSource({"path": str(MIXED), "pushfilters": "true"})
    with pytest.raises(KsegError, match="pushFilters needs kseg"):
        source.reader(source.schema())


COMMITTED = TESTDATA / "kafka-4.3.1/committed"
ROUNDS = TESTDATA / "log-directories/4.3.1-rounds/kill"


@pytest.mark.parametrize("size", ["1g", "1k"])
def test_commits_are_those_that_the_broker_knows(size: str) -> None:
    truth = map(json.loads, (COMMITTED / "truth/committed-offsets.jsonl").read_text("utf-8").splitlines())
    expected = {(row["group"], row["topic"], row["partition"]): row for row in truth}
    rows = rows_of(COMMITTED, mode="commits", splitBytes=size)
    assert len(reader_of([COMMITTED], mode="commits", splitBytes=size).partitions()) == (2 if size == "1k" else 1)
    found = {(row["group"], row["topic"], row["partition"]): row for row in rows}
    assert {place: {name: row[name] for name in expected[place]} for place, row in found.items()} == expected
    assert len(found) == len(rows)
    assert [row["lag"] for row in rows] == [max(0, row["logEndOffset"] - row["offset"]) for row in rows]


def test_other_modes_read_the_partitions_of_a_subscription_too() -> None:
    some = {"subscribe": "orders"}
    assert {row["topic"] for row in rows_of(COMMITTED, mode="commits", **some)} == {"orders"}
    assert {row["partition"] for row in rows_of(COMMITTED, mode="commits", assign='{"orders": [1]}')} == {1}
    for options in ({"mode": "entries"}, {"mode": "findings", "level": "deep", "now": "1790000000000"}):
        found = rows_of(ROUNDS, **options)
        wanted = [row for row in found if row["topic"] == "txn"]
        assert 0 < len(wanted) < len(found)
        assert rows_of(ROUNDS, subscribe="txn", **options) == wanted


def test_a_missing_path_is_reported_when_planning() -> None:
    with pytest.raises(KsegError, match="nowhere: no such file"):
        reader_of(["nowhere"]).partitions()


def test_snapshots_are_read_only_if_named() -> None:
    """Snapshots repeat records of the log."""
    partition = TESTDATA / "kafka-4.3.1/internal/__cluster_metadata-0"
    snapshots = sorted(partition.glob("*.checkpoint"))
    assert rows_of(partition) == rows_of(*sorted(partition.glob("*.log")))
    assert rows_of(snapshots[-1]) == rows_of(f"{partition}/{snapshots[-1].name[:-12]}*.checkpoint") != []
    files = {row["file"] for row in rows_of(partition, mode="batches")}
    assert {str(path) for path in snapshots} <= files


# Mode counts counts the records of mode records, without their bytes.

TRANSACTIONS = CLIENTS / "librdkafka-txn-0"
SMALL = sorted({path.parent for path in TESTDATA.glob("kafka-*/*/*-0/*.log") if path.stat().st_size < 1 << 18})
PARTITIONS = SMALL[:: len(SMALL) // 30]


def assert_equal(paths: list[Path], **options: str) -> int:
    records = rows_of(*paths, columns=["topic", "partition", "offset"], **options)
    counts = rows_of(*paths, mode="counts", **options)
    places = {(row["topic"], row["partition"]) for row in records}
    assert places == {(row["topic"], row["partition"]) for row in counts}
    for place in places:
        offsets = [row["offset"] for row in records if (row["topic"], row["partition"]) == place]
        found = [row for row in counts if (row["topic"], row["partition"]) == place]
        assert sum(row["count"] for row in found) == len(offsets)
        assert min(row["firstOffset"] for row in found) == min(offsets)
        assert max(row["lastOffset"] for row in found) == max(offsets)
    return len(records)


@pytest.mark.parametrize("options", [{}, {"splitBytes": "3k"}], ids=["whole", "split"])
def test_counts_are_those_of_the_records(options: dict[str, str]) -> None:
    assert len({path.parent.parent for path in PARTITIONS}) > 5  # of several releases
    assert assert_equal(PARTITIONS, **options) > 300


@pytest.mark.parametrize(
    "options",
    [
        {"startOffset": "3", "endOffset": "9"},
        {"startTimestamp": "2000-01-01", "endTimestamp": "2100-01-01"},
        {"isolation": "read_committed"},
        {"isolation": "read_committed", "splitBytes": "1k", "startOffset": "4"},
    ],
    ids=str,
)
def test_options_of_records_hold(options: dict[str, Any]) -> None:
    assert assert_equal([TRANSACTIONS], **options) > 0


def test_decoded_keys_and_values_are_json_text(tmp_path: Path) -> None:
    pytest.importorskip("fastavro", reason="fastavro is not installed")
    with kseg.writer(str(tmp_path / "_schemas-0")) as writer:
        register(writer, 7, json.dumps(ORDER))
    with kseg.writer(str(tmp_path / "orders-0")) as writer:
        for value in (behind(7, b"\2\6Ann"), b"plain", None):
            writer.append(key=value, value=value)
    found = rows_of(tmp_path / "orders-0", columns=["value"], values="decoded")
    assert [row["value"] for row in found] == ['{"id":1,"who":"Ann"}', '"plain"', None]
    (tmp_path / "_schemas-0").rename(tmp_path / "elsewhere")
    given = {"keys": "decoded", "schemas": str(tmp_path / "elsewhere")}
    assert [row["key"] for row in rows_of(tmp_path / "orders-0", **given)] == [row["value"] for row in found]
    with pytest.raises(KsegError, match="there is no _schemas-0 in its log directory"):
        rows_of(tmp_path / "orders-0", values="decoded")
    with pytest.raises(KsegError, match="mode batches has neither"):
        rows_of(tmp_path, values="decoded", mode="batches")


def test_keys_and_values_of_serializers_are_typed_columns(tmp_path: Path) -> None:
    with kseg.writer(tmp_path / "t-0") as writer:
        for i in (1, None, -5):
            writer.append(key=None if i is None else i.to_bytes(8, "big", signed=True), value=b"\0\0\0\7")
    rows = rows_of(tmp_path / "t-0", keys="long", values="int")
    assert [(row["key"], row["value"]) for row in rows] == [(1, 7), (None, 7), (-5, 7)]
    with pytest.raises(KsegError, match="is no long"):
        rows_of(tmp_path / "t-0", values="long", onDamage="fail")
    assert [row["value"] for row in rows_of(tmp_path / "t-0", values="long")] == [None, None, None]
