"""Where reads begin and end: options of Spark's Kafka source and log start offsets, on real files; without a JVM."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import GreaterThan, LessThan

from kseg.errors import KsegError
from spark.reading import read, reader_of, rows_of

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
    lost = reader_of([partition], pushFilters="true", startingOffsets=by_partition(start - 1))
    assert list(lost.pushFilters([GreaterThan(("offset",), start)])) == []
    with pytest.raises(KsegError, match=f"and the log at {start}"):
        lost.partitions()
    # No row is in both ranges, so none is lost.
    assert list(lost.pushFilters([LessThan(("offset",), start)])) == []
    assert read(lost) == []
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
