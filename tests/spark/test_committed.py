"""Tasks find for themselves what a read_committed consumer skips, with the rows of a pass over the whole log."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kseg
from cleaner.partitions import transactional_log
from kseg.segment import reader
from segment.segments import entries
from spark.counted import CountedFileSystem, reads, stored
from spark.reading import read, reader_of, rows_of

pytestmark = pytest.mark.spark
STEPS = st.lists(
    st.tuples(st.sampled_from("dddddtpca"), st.integers(0, 2), st.integers(0, 3)), min_size=10, max_size=60
)


def cut(partition: Path, markers: int) -> None:
    """Removes as many of the last markers as the last segment has, so that transactions are open at the end."""
    last = max(partition.glob("*.log"))
    parts = entries(last.read_bytes())
    last.write_bytes(b"".join(parts[: max(len(parts) - markers, 0)]))


def expected(partition: Path) -> list[int]:
    """The offsets of committed records, by a pass over the whole log."""
    scan = kseg.scan(str(partition), columns=["offset"], isolation="read_committed")
    return list(scan.to_table()["offset"].to_pylist())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, markers=st.integers(0, 3), segment_bytes=st.sampled_from([300, 700, 2000, 100_000]))
@pytest.mark.parametrize("without", ["", ".snapshot"])
def test_rows_are_those_of_a_pass_over_the_log(
    without: str, steps: list[tuple[str, int, int]], markers: int, segment_bytes: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    partition = transactional_log(tmp_path_factory.mktemp("log") / "orders-0", steps, segment_bytes)
    cut(partition, markers)
    for path in partition.glob(f"*{without}") if without else ():
        path.unlink()
    truth = expected(partition)
    for split in ("200", "1m"):
        found = rows_of(partition, isolation="read_committed", splitBytes=split)
        assert [row["offset"] for row in found] == truth


@pytest.fixture
def hanging(tmp_path: Path) -> Path:
    """Two transactions, of which one never ends, then many records in several segments."""
    steps = [("d", 0, 0), ("d", 1, 1), ("c", 1, 0), *[("p", 0, 2)] * 60]
    partition = transactional_log(tmp_path / "orders-0", steps, 700)
    cut(partition, 3)
    assert len(list(partition.glob("*.log"))) > 4
    return partition


def test_a_hanging_transaction_hides_all_behind_it(hanging: Path) -> None:
    (segment, *_) = sorted(hanging.glob("*.log"))
    assert expected(hanging) == []
    assert rows_of(hanging, isolation="read_committed") == []
    assert rows_of(segment, isolation="read_committed") == []
    assert len(rows_of(hanging)) == 62


@pytest.mark.parametrize("harm", ["flipped", "empty"])
def test_a_damaged_snapshot_costs_time_and_no_row(tmp_path: Path, harm: str) -> None:
    steps = [("d", 0, 0), ("d", 1, 1), *[("p", 0, 2)] * 10, ("a", 1, 0), *[("p", 0, 2)] * 40, ("a", 0, 0)]
    partition = transactional_log(tmp_path / "orders-0", steps, 700)
    for snapshot in partition.glob("*.snapshot"):
        data = bytearray(snapshot.read_bytes())
        data[-1] ^= 1
        snapshot.write_bytes(bytes(data) if harm == "flipped" else b"")
    found = rows_of(partition, isolation="read_committed")
    assert [row["offset"] for row in found] == expected(partition)


def test_the_driver_reads_no_log(hanging: Path) -> None:
    url = stored(hanging, "committed")
    reader = reader_of([url], isolation="read_committed", splitBytes="300")
    tasks = reader.partitions()
    assert reads() == []
    assert len(tasks) > 4
    CountedFileSystem.requests.clear()
    assert read(reader) == []
    assert {each.name.rpartition(".")[2] for each in reads()} >= {"log", "snapshot"}


def test_the_tail_is_one_task_and_read_once(hanging: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in hanging.glob("*.snapshot"):
        path.unlink()
    opened: list[str] = []
    real = reader.open_source
    monkeypatch.setattr(reader, "open_source", lambda path: opened.append(path) or real(path))
    source = reader_of([hanging], isolation="read_committed", splitBytes="300")
    [task] = source.partitions()
    assert list(source.read(task)) == []
    assert sorted(opened) == sorted(map(str, hanging.glob("*.log")))
