"""Segments marked as deleted whose records are nowhere else: no named repair throws them away."""

import shutil
from pathlib import Path

import pytest

from cli.command import PLAIN, TESTDATA, Kseg, copying, findings_of, flip
from kseg.recovery.leftovers import only_copies
from segment.segments import entries

partition = copying(PLAIN, "logs/dplain-0")


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
    [finding] = findings_of(kseg, partition, code="leftover-holds-data")
    assert finding["repair"] == ["kseg", "restore", "--undelete", str(partition)]
    kseg(*finding["repair"][1:]).expect(0)
    assert records(kseg, partition) == before
    assert [row["code"] for row in findings_of(kseg, partition) if row["severity"] != "info"] == []


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


@pytest.fixture
def cleaned(tmp_path: Path) -> Path:
    """A partition that a broker has cleaned, with the segments that the cleaner has replaced beside the new ones."""
    before, after = (TESTDATA / "compaction/4.3.1" / when / "c-tomb-short-0" for when in ("before", "after"))
    partition = Path(shutil.copytree(after, tmp_path / "logs" / after.name))
    shutil.copy(before / "partition.metadata", partition)
    for path in before.glob("*.log"):
        if not path.name.startswith(f"{2704:020}"):
            shutil.copy(path, partition / f"{path.name}.deleted")
    return partition


def test_what_a_cleaner_removed_is_nothing_that_only_its_old_segments_have(kseg: Kseg, cleaned: Path) -> None:
    """Of the last batch before a segment, it leaves nothing if all records are superseded."""
    log = cleaned / f"{0:020}.log"
    log.write_bytes(b"".join(entries(log.read_bytes())[:-1]))
    assert only_copies(str(cleaned)) == {}
    assert "leftover-holds-data" not in {row.get("code") for row in kseg("verify", "--format", "json", cleaned).objects}


def test_an_intact_copying_what_is_damaged_is_told_and_kept(kseg: Kseg, cleaned: Path, tmp_path: Path) -> None:
    """How many of its records the log still had nobody knows. A start would remove it; the quarantine keeps it."""
    log, old = cleaned / f"{0:020}.log", cleaned / f"{2520:020}.log.deleted"
    flip(log)
    content = old.read_bytes()
    [(name, [copy])] = only_copies(str(cleaned)).items()
    assert (name, copy.records) == (old.name, None)
    found = kseg("verify", "--format", "json", cleaned)
    [finding] = [row for row in found.of_type("finding") if row["code"] == "leftover-holds-data"]
    assert (finding["file"], finding["severity"]) == (str(old), "warning")
    assert finding["details"]["firstOffset"] == copy.first_offset
    assert finding["details"]["lastOffset"] == copy.last_offset
    [salvage] = found.of_type("summary")[0]["next"]
    assert salvage[:4] == ["kseg", "recover", "--mode", "salvage"]
    other = tmp_path / "old" / cleaned.name
    other.mkdir(parents=True)
    shutil.copy(old, other / old.name.removesuffix(".deleted"))
    kseg("recover", "--from-replica", other, "--output", tmp_path / "filled", cleaned)
    batches = kseg("dump", "--format", "json", tmp_path / "filled" / cleaned.name / log.name).of_type("batch")
    assert copy.first_offset in [row["baseOffset"] for row in batches if row["isValid"]]
    kseg(*salvage[1:])
    assert [row["code"] for row in findings_of(kseg, cleaned, severity="error")] == []
    kseg("undo", cleaned).expect(0)
    assert old.read_bytes() == content
