"""Segments marked as deleted whose records are nowhere else: no named repair throws them away."""

import shutil
from pathlib import Path

import pytest

from cli.command import TESTDATA, Kseg, flip
from kseg.recovery.leftovers import only_copies

PLAIN = TESTDATA / "log-directories/4.3.1/logs/dplain-0"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    return Path(shutil.copytree(PLAIN, tmp_path / "logs" / "dplain-0"))


def mark(partition: Path, base: int) -> Path:
    """Marks a segment as deleted, as a broker does; returns its .log."""
    for path in partition.glob(f"{base:020}.*"):
        path.rename(f"{path}.deleted")
    return partition / f"{base:020}.log.deleted"


def records(kseg: Kseg, partition: Path) -> int:
    return len(kseg("dump", "--print-data-log", "--format", "json", partition).of_type("record"))


@pytest.mark.parametrize("base", [46, 76, 116])
def test_what_fits_is_taken_back(kseg: Kseg, partition: Path, base: int) -> None:
    before = records(kseg, partition)
    mark(partition, base)
    found = kseg("verify", "--format", "json", partition)
    [finding] = [row for row in found.of_type("finding") if row["code"] == "leftover-holds-data"]
    assert finding["repair"] == ["kseg", "restore", "--undelete", str(partition)]
    kseg(*finding["repair"][1:]).expect(0)
    assert records(kseg, partition) == before
    left = kseg("verify", "--format", "json", partition).of_type("finding")
    assert [row["code"] for row in left if row["severity"] != "info"] == []


@pytest.mark.parametrize("words", [("--mode", "salvage"), ("--full",)])
def test_what_a_recovery_deletes_is_counted(kseg: Kseg, partition: Path, words: tuple[str, ...]) -> None:
    lost = records(kseg, mark(partition, 46).rename(partition.parent / f"{46:020}.log"))
    shutil.copy(partition.parent / f"{46:020}.log", partition / f"{46:020}.log.deleted")
    [summary] = kseg("recover", *words, "-n", "--format", "json", partition).of_type("summary")
    assert summary["removedRecords"] == lost > 0


def test_other_repairs_take_it_back_too(kseg: Kseg, partition: Path) -> None:
    before = records(kseg, partition)
    mark(partition, 46)
    flip(partition / f"{116:020}.log")
    [summary] = kseg("verify", "--format", "json", partition).of_type("summary")
    assert [argv[:3] for argv in summary["next"]] == [["kseg", "restore", "--undelete"]]
    kseg(*summary["next"][0][1:])
    assert before - records(kseg, partition) < 10


def test_where_others_overlap_the_user_decides(kseg: Kseg, partition: Path) -> None:
    """The first batch of the marked segment is in the log, too."""
    path = mark(partition, 76)
    data = path.read_bytes()
    size = int.from_bytes(data[8:12], "big") + 12
    (partition / f"{76:020}.log").write_bytes(data[:size])
    found = kseg("verify", "--format", "json", partition)
    lost = sum(row.records or 0 for row in only_copies(str(partition))[path.name])
    decisions = [row for row in found.of_type("finding") if row["needs"] == "decision"]
    assert lost > 0
    assert [row["details"]["removedRecords"] for row in decisions if row["code"] == "leftover-holds-data"] in (
        [],
        [lost],
    )
    for row in found.of_type("finding"):
        assert not row["repair"] or row["repair"][1] != "recover"


def test_retention_s_own_files_are_not_read(partition: Path) -> None:
    mark(partition, 0)
    assert only_copies(str(partition)) == {}
