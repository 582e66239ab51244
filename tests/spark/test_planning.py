"""Tasks in a store: only the bytes that names and indexes lead to are requested, and no row depends on the indexes."""

import shutil
from pathlib import Path

import pytest

from cleaner.building import build_record_batch
from cleaner.partitions import new_records, write_log
from kseg.errors import KsegError
from kseg.spark import modes
from kseg.spark.options import OFFSETS_SPLIT_BYTES, SPLIT_BYTES, TASKS, Options
from spark.counted import CountedFileSystem, reads, stored
from spark.reading import read, reader_of, rows_of

pytestmark = pytest.mark.spark
LOG = f"{0:020d}.log"
INNER = build_record_batch(new_records([(b"inner", b"i")]))


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Two segments, with complete batches inside values."""
    batches = [
        build_record_batch(new_records([(b"%d" % i, INNER * 3), (None, b"v" * 90)], 2 * i), codec)
        for i, codec in enumerate([0, 3, 0, 0] * 60)
    ]
    write_log(tmp_path / "orders-0", batches, 50_000)
    assert (tmp_path / "orders-0" / LOG).stat().st_size > 40_000
    return tmp_path / "orders-0"


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A segment of 7 MB, whose records are a millisecond apart, and a small one."""
    batches = [build_record_batch(new_records([(b"k", b"v" * 3500)], i)) for i in range(2100)]
    write_log(tmp_path / "large-0", batches, 7_200_000)
    assert (tmp_path / "large-0" / LOG).stat().st_size > 7_000_000
    return tmp_path / "large-0"


def same(url: str, partition: Path, **options: str) -> None:
    asked = {name: text for name, text in options.items() if name != "splitBytes"}
    for mode in ("records", "batches"):
        here, there = rows_of(partition, mode=mode, **asked), rows_of(url, mode=mode, **options)
        for row in (*here, *there):
            row.pop("file", None)
        assert there == here


@pytest.mark.parametrize("split_bytes", ["1k", "7k", "20k", "45k", "1m"])
def test_any_split_gives_the_same_rows(partition: Path, split_bytes: str) -> None:
    same(stored(partition, f"split-{split_bytes}"), partition, splitBytes=split_bytes)


@pytest.mark.parametrize("without", [".index", ".timeindex"])
def test_without_an_index_the_rows_are_the_same(partition: Path, without: str) -> None:
    url = stored(partition, f"bare{without}", without)
    same(url, partition, splitBytes="4k")
    same(url, partition, splitBytes="4k", startOffset="100", endOffset="110")
    tasks = reader_of([f"{url}/{LOG}"], splitBytes="4k").partitions()
    assert (len(tasks) == 1) == (without == ".index")


def test_a_segment_on_a_disk_is_divided_without_its_index(partition: Path) -> None:
    for index in partition.glob("*.index"):
        index.unlink()
    assert len(reader_of([str(partition / LOG)], splitBytes="4k").partitions()) > 1


@pytest.mark.parametrize("shift", [-7, 1, 0])
def test_a_wrong_index_costs_no_row(partition: Path, shift: int) -> None:
    """Shift 0: the second half of the index points to batches inside values."""
    index, log = partition / f"{0:020d}.index", (partition / LOG).read_bytes()
    data = bytearray(index.read_bytes())
    for at in range(len(data) // 16 * 8, len(data), 8):
        position = int.from_bytes(data[at + 4 : at + 8], "big")
        position = position + shift if shift else log.find(INNER, position)
        data[at + 4 : at + 8] = position.to_bytes(4, "big")
    index.write_bytes(data)
    url = stored(partition, f"wrong{shift}")
    same(url, partition, splitBytes="4k")
    same(url, partition, splitBytes="4k", startOffset="150", endOffset="170")


@pytest.mark.parametrize("offsets", [(0, 10), (1000, 1010), (1990, 2000), (2050, 2060)])
def test_few_offsets_take_few_requests(large: Path, offsets: tuple[int, int]) -> None:
    url = stored(large, "offsets")
    first, last = map(str, offsets)
    reader = reader_of([url], splitBytes="256k", startOffset=first, endOffset=last)
    assert len(reader.partitions()) <= 2
    CountedFileSystem.requests.clear()
    assert [row["offset"] for row in read(reader)] == list(range(offsets[0], offsets[1] + 1))
    asked = reads()
    assert len(asked) <= 3
    assert sum(each.end - each.start for each in asked) < 1 << 20


def test_a_time_takes_few_requests(large: Path) -> None:
    url = stored(large, "times")
    since = str(1_000_000 + 2000)
    reader = reader_of([url], splitBytes="256k", startTimestamp=since)
    assert len(reader.partitions()) <= 2
    CountedFileSystem.requests.clear()
    assert [row["offset"] for row in read(reader)] == list(range(2000, 2100))
    assert sum(each.end - each.start for each in reads()) < 2 << 20
    same(url, large, splitBytes="256k", startTimestamp=since)


def test_tasks_look_into_indexes_where_the_driver_does_not(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modes, "MAX_INDEXED_SEGMENTS", 0)
    url = stored(large, "unread")
    reader = reader_of([url], splitBytes="1m", startOffset="1000", endOffset="1010")
    tasks = reader.partitions()
    assert len(tasks) == 7
    assert not [each for each in reads() if each.name.endswith("index")]
    assert [row["offset"] for row in read(reader)] == list(range(1000, 1011))
    assert sum(each.end - each.start for each in reads() if each.name.endswith(".log")) < 4 << 20


def test_planning_lists_each_directory_once(partition: Path, large: Path) -> None:
    stored(partition, "listed")
    stored(large, "listed")
    reader = reader_of(["counted://listed"])
    reader.partitions()
    assert sorted(each.name for each in CountedFileSystem.requests if each.kind == "list") == [
        "large-0", "listed", "orders-0",
    ]  # fmt: skip
    assert reads() == []


def test_only_the_part_is_read(partition: Path) -> None:
    url, size = stored(partition, "part"), (partition / LOG).stat().st_size
    reader = reader_of([f"{url}/{LOG}"], splitBytes="8k")
    tasks = reader.partitions()
    assert len(tasks) > 4
    assert len(list(reader.read(tasks[2]))) == 1
    assert len(read(reader)) == len(rows_of(partition / LOG))
    assert size > 40_000


@pytest.mark.parametrize("count", [1, 2, 5, 40])
def test_there_are_about_as_many_tasks_as_asked_for(partition: Path, large: Path, count: int) -> None:
    reader = reader_of([partition, large], minPartitions=str(count))
    assert count <= len(reader.partitions()) <= 2 * count + 1
    assert read(reader) == rows_of(partition, large)


@pytest.mark.parametrize("limit", [1, 7, 100, 1000])
def test_a_task_has_no_more_records_than_asked_for(partition: Path, limit: int) -> None:
    for asked in ({}, {"startOffset": "5", "endOffset": "480"}, {"splitBytes": "4k"}):
        reader = reader_of([partition], ["offset", "value"], maxRecordsPerPartition=str(limit), **asked)
        counts = [sum(batch.num_rows for batch in reader.read(task)) for task in reader.partitions()]
        expected = rows_of(partition, columns=["offset", "value"], **asked)
        assert 0 < max(counts) <= limit
        assert read(reader) == expected
        counted = rows_of(partition, mode="counts", maxRecordsPerPartition=str(limit), **asked)
        assert sum(row["count"] for row in counted) == len(expected)
        assert max(row["count"] for row in counted) <= limit


def test_a_limit_of_records_that_makes_too_many_tasks_is_refused(partition: Path) -> None:
    (partition / LOG).rename(partition / f"{1 << 40:020d}.log.away")
    (partition / f"{0:020d}.log").write_bytes((partition / f"{1 << 40:020d}.log.away").read_bytes())
    (partition / f"{1 << 40:020d}.log.away").rename(partition / f"{1 << 40:020d}.log")
    with pytest.raises(KsegError, match="maxRecordsPerPartition 100 makes more than 100000 tasks"):
        reader_of([partition], maxRecordsPerPartition="100").partitions()


def test_tasks_grow_with_the_total() -> None:
    assert Options().task_bytes(1 << 40) == SPLIT_BYTES
    assert Options().task_bytes(100 << 40) == (100 << 40) // TASKS
    for reads_offsets in (False, True):
        assert Options(split_bytes=1000, reads_offsets=reads_offsets).task_bytes(100 << 40) == 1000
    assert Options(reads_offsets=True).task_bytes(1 << 40) == OFFSETS_SPLIT_BYTES > SPLIT_BYTES
    assert Options(reads_offsets=True).task_bytes(100 << 40) == (100 << 40) // TASKS


@pytest.mark.parametrize(
    ("mode", "columns", "is_quick"),
    [
        ("records", ["offset"], True),
        ("records", ["topic", "partition"], True),
        ("counts", None, True),
        ("records", ["offset", "timestampType"], False),
        ("records", None, False),
        ("batches", ["baseOffset"], False),
    ],
)
def test_tasks_that_read_headers_on_a_disk_are_larger(
    partition: Path, mode: str, columns: list[str] | None, is_quick: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kseg.spark.options.SPLIT_BYTES", 8 << 10)
    monkeypatch.setattr("kseg.spark.options.OFFSETS_SPLIT_BYTES", 1 << 20)
    assert (len(reader_of([partition], columns, mode=mode).partitions()) == 1) == is_quick
    url = stored(partition, f"headers-{mode}-{len(columns or ())}")
    assert len(reader_of([url], columns, mode=mode).partitions()) > 1


@pytest.mark.parametrize("place", [0.1, 0.5, 0.98])
def test_damage_is_the_same_as_in_the_whole_segment(partition: Path, place: float, tmp_path: Path) -> None:
    for name, damage in (("flip", b"\xff"), ("zeros", bytes(3000)), ("cut", None)):
        copy = Path(shutil.copytree(partition, tmp_path / name / "orders-0"))
        data = bytearray((copy / LOG).read_bytes())
        at = int(len(data) * place)
        if damage is None:
            del data[at:]
        else:
            data[at : at + len(damage)] = damage[: len(data) - at]
        (copy / LOG).write_bytes(data)
        same(stored(copy, f"{name}-{place}"), copy, splitBytes="4k")
