"""The marker of a clean stop, which tells a broker to trust logs and indexes: it stays where only indexes are made."""

import shutil
from pathlib import Path

import pytest

from cli.command import TESTDATA, Kseg

MARKER, INDEX = ".kafka_cleanshutdown", "00000000000000000046.index"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A log directory that was closed cleanly, in which one index is wrong and one is missing."""
    path = tmp_path / "logs"
    shutil.copytree(TESTDATA / "log-directories/4.3.1/logs", path)
    (path / MARKER).write_bytes(b'{"version":0,"brokerEpoch":7}')
    (path / "dplain-0" / INDEX).write_bytes(bytes(8))
    (path / "dplain-0" / INDEX.replace(".index", ".timeindex")).unlink()
    return path


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("options", [[], ["--snapshots"]])
def test_reindex_keeps_it(kseg: Kseg, logs: Path, alone: bool, options: list[str]) -> None:
    path = logs / "dplain-0" if alone else logs
    dry = kseg("reindex", "-n", *options, path)
    assert (dry.status, MARKER in dry.out.decode()) == (1, False)
    done = kseg("reindex", *options, path)
    assert (done.status, MARKER in done.out.decode()) == (0, False)
    assert (logs / MARKER).exists()
    assert len((logs / "dplain-0" / INDEX).read_bytes()) > 8
    assert kseg("verify", "--fail-on", "warning", logs).status == 0
    assert kseg("undo", path).status == 0
    assert (logs / "dplain-0" / INDEX).read_bytes() == bytes(8)


def test_recover_removes_it_where_a_log_changes(kseg: Kseg, logs: Path) -> None:
    with (logs / "dplain-0" / "00000000000000000116.log").open("ab") as out:
        out.write(b"\0" * 10)
    assert kseg("recover", "--full", logs).status == 0
    assert not (logs / MARKER).exists()


def test_a_change_of_one_partition_is_told_as_one(kseg: Kseg, logs: Path) -> None:
    assert kseg("reindex", logs).status == 0
    assert "reindex, 1 partition\n" in kseg("undo", "--list", logs).out.decode()


def everything(logs: Path) -> dict[str, bytes]:
    """All files, without the lock and what kseg keeps."""
    found = {str(path.relative_to(logs)): path.read_bytes() for path in logs.rglob("*") if path.is_file()}
    return {name: content for name, content in found.items() if ".kseg-" not in name and name != ".lock"}


CHANGES = {
    "reindex": ["reindex"],
    "recover": ["recover", "--full"],
    "an id": ["recover", "--mode", "salvage", "--topic-id", "AAAAAAAAQACAAAAAAAAAAg"],
    "retain": ["retain", "--retention-ms", "1", "--policy", "delete"],
    "a log start": ["retain", "--log-start-offset", "20"],
    "convert": ["convert", "--in-place", "--codec", "gzip"],
}


@pytest.fixture
def damaged(logs: Path) -> Path:
    shutil.copytree(logs / "dplain-0", logs / "other-0")
    damage(logs / "other-0")
    return logs


def damage(partition: Path) -> None:
    last = max(partition.glob("*.log"))
    last.write_bytes(last.read_bytes() + bytes(100))


@pytest.mark.parametrize("words", CHANGES.values(), ids=CHANGES)
def test_undo_restores_it_with_the_partition(kseg: Kseg, damaged: Path, words: list[str]) -> None:
    path, skips = damaged / "dplain-0", ["--skip-damage"] * ("convert" in words)
    if words[0] in ("recover", "convert"):
        damage(path)
    before = everything(damaged)
    assert kseg(*words, *skips, path).status == 0
    assert everything(damaged) != before
    assert kseg("undo", path).status == 0
    assert everything(damaged) == before


@pytest.mark.parametrize("second", ["other-0", "dplain-0", "."])
@pytest.mark.parametrize("first", [["recover", "--full"], ["retain", "--log-start-offset", "20"], ["reindex"]])
def test_changes_are_undone_newest_first(kseg: Kseg, damaged: Path, first: list[str], second: str) -> None:
    if first[0] == "recover":
        damage(damaged / "dplain-0")
    before = everything(damaged)
    assert kseg(*first, damaged / "dplain-0").status == 0
    assert kseg("recover", "--mode", "salvage", "--rebuild-epochs", damaged / second).status == 0
    for path in (damaged / second, damaged / "dplain-0"):
        kseg("undo", path)
    assert everything(damaged) == before


def test_undo_says_why_it_is_not_restored(kseg: Kseg, damaged: Path) -> None:
    assert kseg("recover", "--full", damaged / "dplain-0").status == 0
    assert kseg("recover", "--full", damaged / "other-0").status == 0
    done = kseg("undo", damaged / "dplain-0")
    assert (done.status, f"{MARKER}: is not restored: 'recover --mode broker' has changed" in done.err) == (0, True)
    assert not (damaged / MARKER).exists()


def test_a_broker_that_ran_meanwhile_is_noticed(kseg: Kseg, damaged: Path) -> None:
    assert kseg("recover", "--full", damaged / "dplain-0").status == 0
    (damaged / "recovery-point-offset-checkpoint").write_bytes(b"0\n0\n")
    done = kseg("undo", damaged / "dplain-0")
    assert (done.status, "is not restored: the log directory has changed since" in done.err) == (0, True)
    assert not (damaged / MARKER).exists()


def test_a_linked_log_directory_has_no_pending_change(kseg: Kseg, logs: Path) -> None:
    link = logs.with_name("link")
    link.symlink_to(logs)
    assert kseg("reindex", link / "dplain-0").status == 0
    found = kseg("verify", "--format", "json", link).of_type("finding")
    assert [row["file"] for row in found if row["code"] == "pending-change"] == []
