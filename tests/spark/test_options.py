"""Options and paths of the data source; pyspark is not needed."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from kseg.errors import KsegError, PathError
from kseg.export.scanning import grouped
from kseg.spark.options import (
    READ_OPTIONS,
    WRITE_OPTIONS,
    Options,
    Positions,
    StreamOptions,
    WriteOptions,
    parse_options,
    parse_write_options,
)
from kseg.spark.stores import expanded_paths, places
from spark.reading import rows_of

# Where reads begin and end: options of Spark's Kafka source and log start offsets, on real files; without a JVM.

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytest.importorskip("pyarrow", reason="pyarrow is not installed")


TESTDATA = Path(__file__).resolve().parent.parent.parent / "testdata"
MANY = TESTDATA / "kafka-0.11.0.3/txn/compact-txn-0"
PLACE = ("compact-txn", "0")
FIRST_MARKER = 541
PLAIN = TESTDATA / "kafka-0.10.2.2/codecs/compact-lz4-0"
PLAIN_PLACE = ("compact-lz4", "0")
pytestmark = pytest.mark.spark


def by_partition(number: int, place: tuple[str, str] = PLACE) -> str:
    return json.dumps({place[0]: {place[1]: number}})


def offsets(rows: list[dict[str, Any]]) -> list[int]:
    return [row["offset"] for row in rows]


def milliseconds(row: dict[str, Any]) -> int:
    return round(row["timestamp"].timestamp() * 1000)


@pytest.fixture(scope="module")
def whole() -> list[dict[str, Any]]:
    rows = rows_of(MANY)
    assert len(rows) > 10
    return rows


def test_the_start_is_included_and_the_end_is_not(whole: list[dict[str, Any]]) -> None:
    first, stop = offsets(whole)[3], offsets(whole)[-4]
    rows = rows_of(MANY, startingOffsets=by_partition(first), endingOffsets=by_partition(stop))
    assert rows == [row for row in whole if first <= row["offset"] < stop]
    assert rows_of(MANY, startingOffsets=by_partition(-2), endingOffsets=by_partition(-1)) == whole
    assert rows_of(MANY, startingOffsets=by_partition(first, ("other", "0"))) == whole
    assert rows_of(MANY, startingOffsets=by_partition(first), startOffset=str(first + 2)) == [
        row for row in whole if row["offset"] >= first + 2
    ]


@pytest.mark.parametrize("number", [0, 4, -1])
def test_a_timestamp_means_the_first_record_with_it_or_a_later_one(number: int) -> None:
    whole = rows_of(PLAIN)
    time = sorted(map(milliseconds, whole))[number]
    first = next(row["offset"] for row in whole if milliseconds(row) >= time)
    for start in ({"startingTimestamp": str(time)}, {"startingOffsetsByTimestamp": by_partition(time, PLAIN_PLACE)}):
        assert rows_of(PLAIN, **start) == [row for row in whole if row["offset"] >= first]
    for end in ({"endingTimestamp": str(time)}, {"endingOffsetsByTimestamp": by_partition(time, PLAIN_PLACE)}):
        assert rows_of(PLAIN, **end) == [row for row in whole if row["offset"] < first]


def test_markers_of_transactions_have_timestamps_as_well(whole: list[dict[str, Any]]) -> None:
    """As for a broker's own lookup (FileRecords.searchForTimestamp): here markers were written years after records."""
    after_all_records = str(max(map(milliseconds, whole)) + 1)
    rows = rows_of(MANY, startingTimestamp=after_all_records)
    assert rows == [row for row in whole if row["offset"] > FIRST_MARKER] != []


def test_a_timestamp_behind_all_records() -> None:
    whole = rows_of(PLAIN)
    late = str(max(map(milliseconds, whole)) + 1)
    assert rows_of(PLAIN, endingTimestamp=late) == whole
    with pytest.raises(KsegError, match=f"{PLAIN.name} has no record from timestamp"):
        rows_of(PLAIN, startingTimestamp=late)
    assert rows_of(PLAIN, startingTimestamp=late, startingOffsetsByTimestampStrategy="latest") == []


def test_rows_begin_at_the_log_start_offset(tmp_path: Path, whole: list[dict[str, Any]]) -> None:
    partition = tmp_path / MANY.name
    shutil.copytree(MANY, partition)
    start = offsets(whole)[5]
    (tmp_path / "log-start-offset-checkpoint").write_text(f"0\n2\nother 0 999999\ncompact-txn 0 {start}\n")
    for mode in ("records", "batches"):
        everything = rows_of(partition, mode=mode, ignoreLogStart="true")
        last = {"records": "offset", "batches": "lastOffset"}[mode]
        rows = rows_of(partition, mode=mode)
        assert rows == [row for row in everything if row[last] >= start] != everything
    assert rows_of(partition / sorted(MANY.glob("*.log"))[0].name) == [
        row for row in rows_of(sorted(MANY.glob("*.log"))[0]) if row["offset"] >= start
    ]
    (tmp_path / "log-start-offset-checkpoint").write_bytes(b"\xff\n\0garbage")
    assert len(rows_of(partition)) == len(whole)


def test_a_start_that_the_log_no_longer_has_is_a_loss(tmp_path: Path, whole: list[dict[str, Any]]) -> None:
    """As in Spark's Kafka source, which cannot fetch the offset."""
    partition = tmp_path / MANY.name
    shutil.copytree(MANY, partition)
    second = sorted(partition.glob("*.log"))[1]
    sorted(partition.glob("*.log"))[0].unlink()
    left = [row for row in whole if row["offset"] >= int(second.stem)]
    with pytest.raises(KsegError, match=rf"begins at 5, and the log at {int(second.stem)}. .*failOnDataLoss"):
        rows_of(partition, startingOffsets=by_partition(5))
    assert rows_of(partition, startingOffsets=by_partition(5), failOnDataLoss="false") == left
    assert rows_of(partition, startingOffsets=by_partition(-2)) == rows_of(partition, startOffset="5") == left
    start = left[3]["offset"]
    (tmp_path / "log-start-offset-checkpoint").write_text(f"0\n1\n{PLACE[0]} {PLACE[1]} {start}\n")
    with pytest.raises(KsegError, match=f"and the log at {start}"):
        rows_of(partition, startingOffsets=by_partition(start - 1))
    assert rows_of(partition, startingOffsets=by_partition(start)) == left[3:]
    before = by_partition(left[2]["offset"])
    assert rows_of(partition, startingOffsets=before, ignoreLogStart="true") == left[2:]


def test_starts_and_ends_have_the_precedence_of_the_kafka_source() -> None:
    whole = rows_of(PLAIN)
    early, late = (sorted(map(milliseconds, whole))[number] for number in (0, -1))
    first = next(row["offset"] for row in whole if milliseconds(row) >= late)
    last = [row for row in whole if row["offset"] >= first]
    by_time = {"startingOffsetsByTimestamp": by_partition(late, PLAIN_PLACE)}
    assert rows_of(PLAIN, startingOffsets=by_partition(3, PLAIN_PLACE), **by_time) == last != whole
    assert rows_of(PLAIN, startingTimestamp=str(early), **by_time) == whole
    ending = {"endingOffsetsByTimestamp": by_partition(late, PLAIN_PLACE)}
    assert rows_of(PLAIN, endingOffsets=by_partition(-1, PLAIN_PLACE), **ending) == whole[: -len(last)]
    assert rows_of(PLAIN, endingTimestamp=str(late + 1), **ending) == whole


def test_partitions_are_subscribed(tmp_path: Path) -> None:
    for name in ("orders-0", "orders-1", "payments-0"):
        shutil.copytree(MANY, tmp_path / name)

    def read(**options: str) -> set[tuple[str, int]]:
        return {(row["topic"], row["partition"]) for row in rows_of(tmp_path / "*-*", **options)}

    everything = {("orders", 0), ("orders", 1), ("payments", 0)}
    assert read() == everything
    assert read(subscribe="payments") == {("payments", 0)}
    assert read(subscribePattern="ord") == set()
    assert read(subscribePattern="ord.*") == everything - {("payments", 0)}
    assert read(assign='{"orders": [1]}') == {("orders", 1)}


def test_headers_are_left_out_on_request() -> None:
    assert "headers" in rows_of(MANY, includeHeaders="true")[0]
    assert "headers" not in rows_of(MANY, includeHeaders="false")[0]


ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "man/kseg-spark.7").read_text("utf-8")


def test_names_are_case_insensitive_and_values_are_parsed() -> None:
    given = {
        "path": "/a", "STARTOFFSET": "5", "endoffset": "9",
        "startTimestamp": "2026-01-31", "endTimestamp": "2026-01-31", "isolation": "READ_COMMITTED",
        "onDamage": "fail", "splitBytes": "64m", "maxBatchBytes": "1g",
        "pushFilters": "true", "mode": "Batches", "level": "deep", "now": "7", "serialization.format": "1",
    }  # fmt: skip
    assert parse_options(given) == Options(
        ("/a",), "batches", 5, 9, 1769817600000, 1769903999999, True, 64 << 20, 1 << 30, True, True, "deep", 7
    )


def test_writing_has_other_options() -> None:
    given = {"path": "/a", "CODEC": "zstd:3", "batchbytes": "1m", "segmentBytes": "100k", "indexIntervalBytes": "512"}
    assert parse_write_options(given) == WriteOptions(("/a",), "zstd:3", 1 << 20, 100 << 10, 512)
    for given, said in [
        ({"startOffset": "1"}, "it has codec"),
        ({"codec": "brotli"}, "none or a codec"),
        ({"codc": ""}, "codec?"),
    ]:
        with pytest.raises(KsegError, match=said):
            parse_write_options(given)


def test_a_list_of_paths_arrives_as_json() -> None:
    assert parse_options({"paths": '["/a", "/b c"]'}).paths == ("/a", "/b c")


def test_relative_paths_are_those_of_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = parse_options({"paths": '["orders-0", "../*-0", "s3://archive/orders-0", "file:///a"]'}).paths
    assert found == (f"{tmp_path}/orders-0", f"{tmp_path.parent}/*-0", "s3://archive/orders-0", "file:///a")


def test_names_of_a_catalog_are_no_options() -> None:
    given = {"owner": "root", "location": "file:/warehouse/archive", "provider": "kseg", "comment": "old orders"}
    assert parse_options(given) == Options(("file:/warehouse/archive",))
    assert parse_options(given | {"path": "/archive"}) == Options(("/archive",))


def test_options_of_the_kafka_source() -> None:
    given = {
        "startingOffsets": '{"orders": {"0": 23, "1": -2}}', "endingOffsets": '{"orders": {"0": 50, "1": -1}}',
        "startingOffsetsByTimestamp": '{"orders": {"1": 1769850000000}}', "endingTimestamp": "1769850000001",
        "startingOffsetsByTimestampStrategy": "latest", "subscribe": "orders, payments", "subscribePattern": "or.*",
        "assign": '{"orders": [0, 1]}', "includeHeaders": "false", "failOnDataLoss": "false",
        "maxFilesPerTrigger": "2", "maxBytesPerTrigger": "1g", "includeLast": "true", "ignoreLogStart": "true",
    }  # fmt: skip
    found = parse_options(given)
    assert found.start == Positions(
        offsets={("orders", 0): 23, ("orders", 1): -2}, timestamps={("orders", 1): 1769850000000}
    )
    assert found.end == Positions(timestamp=1769850000001, offsets={("orders", 0): 50, ("orders", 1): -1})
    assert (found.fails_without_timestamp, found.includes_headers, found.ignores_log_start) == (False, False, True)
    assert found.stream == StreamOptions(2, 1 << 30, True, False)
    has = found.subscription.has
    assert [has("orders", 0), has("orders", 2), has("payments", 0), has(None, None)] == [True, False, False, False]
    assert parse_options({"startingOffsets": "earliest", "endingOffsets": "LATEST"}) == Options()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("startOfset", "1", "is it startOffset"),
        ("whatever", "1", "it has mode,"),
        ("mode", "rows", "one of records, counts, batches, findings, entries"),
        ("splitBytes", "0", "number of bytes"),
        ("splitBytes", "64mb", "number of bytes"),
        ("startOffset", "-1", "a number from 0 on"),
        ("startTimestamp", "yesterday", "a time such as"),
        ("startingOffsets", "latest", "earliest or JSON"),
        ("startingOffsets", '{"orders": {"0": -1}}', "earliest or JSON without -1"),
        ("startingOffsets", '{"orders": {"0": -3}}', "earliest or JSON"),
        ("startingOffsets", '{"orders": {"0": true}}', "earliest or JSON"),
        ("startingOffsets", '{"orders": [0]}', "earliest or JSON"),
        ("endingOffsets", '{"orders": {"0": -2}}', "latest or JSON without -2"),
        ("endingOffsetsByTimestamp", '{"orders": 5}', "JSON such as"),
        ("subscribePattern", "(", "a regular expression"),
        ("subscribe", " ,", "a list of topics"),
        ("assign", '{"orders": "0"}', "JSON such as"),
        ("maxFilesPerTrigger", "0", "a number from 1 on"),
        ("failOnDataLoss", "no", "one of false, true"),
    ],
)
def test_an_invalid_option_is_reported(name: str, value: str, said: str) -> None:
    with pytest.raises(KsegError, match=said):
        parse_options({"path": "a", name: value})


def test_every_option_is_in_the_page() -> None:
    assert [name for name, *_ in (READ_OPTIONS | WRITE_OPTIONS).values() if f".It Cm {name}" not in PAGE] == []


def test_paths_are_files_directories_and_globs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("logs/b-0/0.log", "logs/a-0/0.log", "odd[1]/0.log"):
        os.makedirs(os.path.dirname(name))
        Path(name).touch()
    assert expanded_paths(["logs/*/*.log"]) == ["logs/a-0/0.log", "logs/b-0/0.log"]
    assert expanded_paths(["**/*.log"]) == ["logs/a-0/0.log", "logs/b-0/0.log", "odd[1]/0.log"]
    assert expanded_paths(["odd[1]/0.log", f"file://{tmp_path}/logs"]) == ["odd[1]/0.log", f"{tmp_path}/logs"]
    assert list(places(["logs"])) == ["logs/a-0", "logs/b-0"]
    with pytest.raises(PathError, match="matches nothing"):
        expanded_paths(["logs/*.kafka"])
    with pytest.raises(PathError, match="no such file"):
        list(places(["nowhere"]))
    with pytest.raises(KsegError, match="needs a path"):
        expanded_paths([])


def test_small_parts_share_a_task() -> None:
    assert grouped([(10, "a"), (10, "b")], 1 << 20) == [["a", "b"]]
    assert grouped([(1 << 20, "a"), (1 << 20, "b"), (1, "c")], 1 << 20) == [["a"], ["b"], ["c"]]
    assert sum(map(len, grouped([(0, "x")] * 1000, 64 << 20))) == 1000
    assert len(grouped([(0, "x")] * 1000, 64 << 20)) == 4
    assert grouped([], 100) == []
