"""Segments as a stream, without a session: closed segments, each once, in any number of micro-batches."""

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark.sql.streaming.datasource", reason="PySpark before 4.2 has no limits of streams")

from pyspark.cloudpickle import dumps
from pyspark.sql.streaming.datasource import ReadAllAvailable

from kseg.errors import KsegError
from kseg.segment.files import segment_file
from kseg.spark.modes import end_of
from kseg.spark.source import KsegDataSource, KsegStreamReader
from spark.reading import rows_of

TESTDATA = Path(__file__).resolve().parent.parent.parent / "testdata"
MANY = TESTDATA / "kafka-0.11.0.3/txn/compact-txn-0"
LOGS = sorted(MANY.glob("*.log"))
pytestmark = pytest.mark.spark

Rows = list[dict[str, Any]]


def stream_of(path: Path, **options: str) -> KsegStreamReader:
    source = KsegDataSource({"path": str(path)} | options)
    found = source.streamReader(schema=source.schema())
    assert isinstance(found, KsegStreamReader)
    return found


def latest(reader: KsegStreamReader, start: Any = None, limit: Any = None) -> Any:
    """Returns the offset of the next micro-batch; by default all that is there is in one."""
    start = reader.initialOffset() if start is None else start
    return json.loads(json.dumps(reader.latestOffset(start, limit or ReadAllAvailable())))


def rows_between(reader: KsegStreamReader, start: Any, end: Any) -> Rows:
    rows: Rows = []
    for task in reader.partitions(start, end):
        there, part = pickle.loads(dumps((reader, task)))
        for batch in there.read(part):
            rows += batch.to_pylist()
    return rows


def micro_batches(reader: KsegStreamReader, start: Any = None) -> list[Rows]:
    """Returns the rows of each micro-batch up to the last one, within the limits of the options."""
    found = []
    start = reader.initialOffset() if start is None else start
    while (end := latest(reader, start, reader.getDefaultReadLimit())) != start:
        found.append(rows_between(reader, start, end))
        start = end
    return found


def partition_of(folder: Path, logs: list[Path]) -> Path:
    folder.mkdir(parents=True)
    for log in logs:
        shutil.copy(log, folder)
    return folder


def test_closed_segments_are_read_once(tmp_path: Path) -> None:
    assert len(LOGS) > 2
    partition = partition_of(tmp_path / "logs/compact-txn-0", [])
    place = stream_of(partition.parent).initialOffset()
    read: Rows = []
    for log in LOGS:
        shutil.copy(log, partition)
        reader = stream_of(partition.parent, splitBytes="2k")
        end = latest(reader, place)
        read += rows_between(reader, place, end)
        place = end
        closed = LOGS[: LOGS.index(log)]
        assert read == (rows_of(*closed) if closed else [])
    assert read == rows_of(*LOGS[:-1])
    assert latest(reader, place) == place
    assert reader.partitions(place, place) == []
    assert rows_between(reader, reader.initialOffset(), place) == read


def test_the_last_segment_of_a_finished_archive_is_read_on_request() -> None:
    reader = stream_of(MANY, includeLast="true")
    assert [row for rows in micro_batches(reader) for row in rows] == rows_of(*LOGS)
    assert latest(reader, latest(reader)) == latest(reader)


def test_a_new_partition_joins(tmp_path: Path) -> None:
    shutil.copytree(MANY, tmp_path / "a-0")
    reader = stream_of(tmp_path)
    before = latest(reader)
    shutil.copytree(MANY, tmp_path / "b-1")
    rows = rows_between(reader, before, latest(reader, before))
    assert {row["topic"] for row in rows} == {"b"}


def test_limits_cut_the_backlog_into_micro_batches(tmp_path: Path) -> None:
    for name in ("a-0", "b-0"):
        shutil.copytree(MANY, tmp_path / name)
    whole = rows_of(*(tmp_path / name / log.name for log in LOGS for name in ("a-0", "b-0")))
    for options, count in (
        ({"maxFilesPerTrigger": "2"}, len(LOGS)),
        ({"maxBytesPerTrigger": "1"}, 2 * len(LOGS)),
        ({"maxFilesPerTrigger": "4", "maxBytesPerTrigger": "1"}, 2 * len(LOGS)),
        ({}, 1),
    ):
        batches = micro_batches(stream_of(tmp_path, includeLast="true", **options))
        assert len(batches) == count
        assert sorted(map(str, (row for rows in batches for row in rows))) == sorted(map(str, whole))
    assert {row["topic"] for row in batches[0]} == {"a", "b"}


def test_a_limit_counts_bytes_of_whole_segments(tmp_path: Path) -> None:
    sizes = [log.stat().st_size for log in LOGS]
    reader = stream_of(MANY, maxBytesPerTrigger=str(sizes[0] + sizes[1]))
    end = latest(reader, limit=reader.getDefaultReadLimit())
    assert end["partitions"][str(MANY)]["segments"] == 2


def test_a_limit_counts_offsets_of_whole_segments() -> None:
    limit = int(LOGS[2].stem) - int(LOGS[0].stem)
    reader = stream_of(MANY, maxOffsetsPerTrigger=str(limit))
    end = latest(reader, limit=reader.getDefaultReadLimit())
    assert end["partitions"][str(MANY)]["segments"] == 2
    assert len(micro_batches(stream_of(MANY, maxOffsetsPerTrigger="1", includeLast="true"))) == len(LOGS)
    last = end_of(segment_file(str(LOGS[-1]))) - int(LOGS[-2].stem)
    for limit, segments in ((last - 1, 1), (last, 2)):
        reader = stream_of(MANY, maxOffsetsPerTrigger=str(limit), includeLast="true")
        assert len(LOGS) - 2 + segments == passed(reader, int(LOGS[-2].stem), len(LOGS) - 2)


def passed(reader: KsegStreamReader, following: int, segments: int) -> Any:
    """Returns how many segments a stream has passed after one more micro-batch."""
    start = {"version": 1, "partitions": {str(MANY): {"next": following, "segments": segments}}}
    return latest(reader, start, reader.getDefaultReadLimit())["partitions"][str(MANY)]["segments"]


@pytest.mark.parametrize("offsets", ["latest", '{"orders": {"0": -1}}'])
def test_a_stream_from_the_end_has_later_records_only(tmp_path: Path, offsets: str) -> None:
    partition = partition_of(tmp_path / "orders-0", LOGS[:3])
    whole = (partition / LOGS[2].name).read_bytes()
    (partition / LOGS[2].name).write_bytes(whole[: len(whole) // 2])
    before = rows_of(partition)
    assert before != rows_of(partition, startOffset="0", endOffset=str(int(LOGS[2].stem) - 1))
    reader = stream_of(tmp_path, startingOffsets=offsets)
    start = json.loads(json.dumps(reader.initialOffset()))
    assert micro_batches(reader, start) == []
    (partition / LOGS[2].name).write_bytes(whole)
    shutil.copy(LOGS[3], partition)
    shutil.copytree(partition, tmp_path / "payments-0")
    place = latest(reader, start)
    rows = rows_between(reader, start, place)
    assert latest(reader, place) == place
    found = [row for row in rows if row["topic"] == "orders"]
    assert found == [row for row in rows_of(*(partition / log.name for log in LOGS[:3])) if row not in before] != []
    assert len(rows) - len(found) == len(rows_of(*LOGS[:3]))


def test_a_batch_has_no_records_after_the_end() -> None:
    source = KsegDataSource({"path": str(MANY), "startingoffsets": "latest"})
    with pytest.raises(KsegError, match="startingOffsets latest of format kseg is for streams"):
        source.reader(source.schema())


def test_options_without_effect_are_said(caplog: pytest.LogCaptureFixture) -> None:
    stream_of(MANY, groupIdPrefix="job", minOffsetsPerTrigger="5")
    assert sorted(record.getMessage() for record in caplog.records) == [
        "format kseg: option groupIdPrefix has no effect: files have no consumer groups",
        "format kseg: option minOffsetsPerTrigger has no effect: micro-batches do not wait for more segments",
    ]


def test_available_now_ends_at_what_was_there(tmp_path: Path) -> None:
    partition = partition_of(tmp_path / "orders-0", LOGS[:3])
    reader = stream_of(partition, maxFilesPerTrigger="1")
    reader.prepareForTriggerAvailableNow()
    for log in LOGS[3:]:
        shutil.copy(log, partition)
    assert [row for rows in micro_batches(reader) for row in rows] == rows_of(*(partition / x.name for x in LOGS[:2]))


def test_a_segment_that_went_unread_is_a_loss(tmp_path: Path) -> None:
    partition = partition_of(tmp_path / "orders-0", LOGS[:2])
    before = latest(stream_of(partition))
    for log in LOGS[2:]:
        shutil.copy(log, partition)
    (partition / LOGS[1].name).unlink()
    with pytest.raises(KsegError, match=r"segment at offset \d+ is gone; .*failOnDataLoss"):
        latest(stream_of(partition), before)
    lenient = stream_of(partition, failOnDataLoss="false")
    rows = rows_between(lenient, before, latest(lenient, before))
    assert rows == rows_of(*(partition / log.name for log in LOGS[2:-1]))


def test_a_segment_that_goes_between_planning_and_reading_is_a_loss(tmp_path: Path) -> None:
    partition = partition_of(tmp_path / "orders-0", LOGS)
    reader = stream_of(partition)
    start, end = reader.initialOffset(), latest(reader)
    (partition / LOGS[1].name).unlink()
    with pytest.raises(KsegError, match=r"1 segments from offset -1 .*failOnDataLoss"):
        reader.partitions(start, end)
    rows = rows_between(stream_of(partition, failOnDataLoss="false"), start, end)
    assert rows == rows_of(partition / LOGS[0].name, *(partition / log.name for log in LOGS[2:-1]))


def test_a_partition_that_vanished_is_a_loss(tmp_path: Path) -> None:
    for name in ("a-0", "b-0"):
        shutil.copytree(MANY, tmp_path / name)
    reader = stream_of(tmp_path)
    end = latest(reader)
    shutil.rmtree(tmp_path / "b-0")
    with pytest.raises(KsegError, match=r"b-0 is gone.*failOnDataLoss"):
        latest(reader, end)
    with pytest.raises(KsegError, match=r"b-0.*failOnDataLoss"):
        reader.partitions(reader.initialOffset(), end)
    lenient = stream_of(tmp_path, failOnDataLoss="false")
    assert latest(lenient, end) == end
    rows = rows_between(lenient, lenient.initialOffset(), end)
    assert {row["topic"] for row in rows} == {"a"}
    assert lenient.partitions(end, end) == []


def test_checkpoints_of_other_versions(tmp_path: Path) -> None:
    reader = stream_of(MANY)
    end = latest(reader)
    first = int(LOGS[1].stem)
    rows = rows_between(reader, {str(MANY): first}, end)
    assert rows == rows_of(*LOGS[1:-1])
    assert rows_between(reader, {}, end) == rows_of(*LOGS[:-1])
    with pytest.raises(KsegError, match="has version 2; this kseg knows those up to 1"):
        reader.partitions({"version": 2}, end)


def test_topics_and_offsets_of_a_stream_are_chosen(tmp_path: Path) -> None:
    for name in ("a-0", "b-0"):
        shutil.copytree(MANY, tmp_path / name)
    first = int(LOGS[1].stem) + 1
    reader = stream_of(tmp_path, subscribePattern="a|c", startingOffsets=f'{{"a": {{"0": {first}}}}}')
    rows = rows_between(reader, reader.initialOffset(), latest(reader))
    expected = rows_of(*(tmp_path / "a-0" / log.name for log in LOGS[:-1]))
    assert rows == [row for row in expected if row["offset"] >= first] != []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mode": "findings"}, "is no stream"),
        ({"isolation": "read_committed"}, "is for batches"),
        ({"endingOffsets": '{"a": {"0": 5}}'}, "has no end"),
    ],
)
def test_options_unsupported_by_streams_are_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(KsegError, match=said):
        stream_of(MANY, **options)
