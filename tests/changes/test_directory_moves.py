"""Directories that are renamed with a change of a log directory, completed or undone wherever it was ended."""

import os
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from changes.failing import QUICK, every_call
from changes.power import TWICE, PowerCut, PowerDisk, ended_at, endings, needs_proc
from changes.trees import all_files, make
from kseg.changes import undo
from kseg.changes.apply import Keeping
from kseg.changes.disk import Disk
from kseg.changes.journal import DONE, DirectoryMove, Journal, LogDirectoryChange, journals
from kseg.changes.plan import Plan
from kseg.errors import KsegError
from kseg.segment.files import CLEAN_SHUTDOWN

DELETED = f"a-0.{'1' * 32}-delete"
ASIDE = f"a-0.{'2' * 32}-delete"
STARTS = "log-start-offset-checkpoint"


def make_log_directory(root: Path) -> None:
    make(root, {CLEAN_SHUTDOWN: b"{}", "meta.properties": b"version=1\n"})
    make(root / DELETED, {"0.log": b"records", "partition.metadata": b"old"})
    make(root / "a-0", {"0.log": b"", "partition.metadata": b"new"})


def take_back(root: Path, disk: Disk, keeping: Keeping | None = None) -> None:
    """The deleted directory takes the place of the empty one, and its id."""
    undo.complete_interrupted_in_log_directory(str(root), disk)
    change = LogDirectoryChange(str(root), "recover", (STARTS,), keeping, disk)
    beside = Plan(str(root))
    plan = Plan(str(root / DELETED))
    if (root / DELETED).exists():
        if not (root / ASIDE).exists():
            beside.move_directory("a-0", ASIDE, "is empty")
        beside.move_directory(DELETED, "a-0", "is taken back")
        if (root / DELETED / "partition.metadata").read_bytes() == b"old":
            plan.write("partition.metadata", [b"new"], "the id of the topic")
    beside.write(STARTS, [b"0\n0\n"], "the log starts there")
    change.apply(plan)
    change.finish(beside)


def undo_all(root: Path, disk: Disk = QUICK) -> None:
    undo.complete_interrupted_in_log_directory(str(root), disk)
    if (journal := undo.last_journal(str(root))) is not None:
        undo.undo_log_directory(undo.plan_log_directory_undo(journal), disk)


def taken_back(root: Path) -> dict[str, bytes]:
    make_log_directory(root)
    take_back(root, QUICK)
    return all_files(root)


def test_the_directory_has_the_place_of_the_empty_one(tmp_path: Path) -> None:
    after = taken_back(tmp_path / "logs")
    assert after == {
        "meta.properties": b"version=1\n",
        STARTS: b"0\n0\n",
        "a-0/0.log": b"records",
        "a-0/partition.metadata": b"new",
        f"{ASIDE}/0.log": b"",
        f"{ASIDE}/partition.metadata": b"new",
    }


@pytest.mark.sampled(3)
@every_call
@endings
@pytest.mark.parametrize("is_undone", [False, True])
def test_a_command_that_ended_is_repeated_or_undone(is_undone: bool, ending: str, step: int, tmp_path: Path) -> None:
    wanted = taken_back(tmp_path / "undisturbed")
    make_log_directory(tmp_path / "before")
    before = all_files(tmp_path / "before")

    def run(root: Path, disk: Disk) -> None:
        if not any(journal.state == DONE for journal in journals(str(root))):
            take_back(root, disk)

    for root in ended_at(ending, step, tmp_path, make_log_directory, run):
        if is_undone:
            undo_all(root)
            if (result := all_files(root)) != before:
                assert ending == TWICE  # then the marker may stay removed, which is safe
                result[CLEAN_SHUTDOWN] = before[CLEAN_SHUTDOWN]
            assert result == before
            assert journals(str(root)) == []
        else:
            run(root, QUICK)
            assert all_files(root) == wanted


@pytest.mark.sampled(3)
@every_call
@endings
def test_an_undo_that_ended_is_completed(ending: str, step: int, tmp_path: Path) -> None:
    make_log_directory(tmp_path / "before")
    before = all_files(tmp_path / "before")
    for root in ended_at(ending, step, tmp_path, taken_back, undo_all):
        undo_all(root)
        assert all_files(root) == before


@pytest.mark.slow
@needs_proc
def test_an_undo_that_a_killed_process_began_is_known_after_a_power_cut(tmp_path: Path) -> None:
    """The line that says so was written, but not synced."""
    make_log_directory(tmp_path / "before")
    before = all_files(tmp_path / "before")
    for later in range(0, 60, 2):
        root = tmp_path / str(later) / "logs"
        taken_back(root)
        (journal,) = journals(str(root))
        size = os.path.getsize(journal.path)
        disk, calls = PowerDisk(root, 0), 0
        while os.path.getsize(journal.path) == size:
            disk.at, calls = disk.calls + calls, calls + 1
            with pytest.raises(PowerCut):
                undo_all(root, disk)
        disk.at = disk.calls + later
        with suppress(PowerCut):
            undo_all(root, disk)
        disk.cut(random.Random(later))
        undo_all(root)
        assert all_files(root) == before


def test_without_room_for_a_record_the_directories_are_moved_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_log_directory(tmp_path / "logs")
    monkeypatch.setattr("kseg.changes.journal.free_bytes", lambda _: 20_000)
    take_back(tmp_path / "logs", QUICK, Keeping(keeps=False))
    assert all_files(tmp_path / "logs") == taken_back(tmp_path / "undisturbed")


def test_the_partition_alone_is_undone_with_its_move(tmp_path: Path) -> None:
    taken_back(tmp_path)
    (journal,) = journals(str(tmp_path))
    assert undo.sole_change(str(tmp_path / "a-0"), journal.group) == journal


def test_an_undo_is_refused_once_a_broker_has_appended(tmp_path: Path) -> None:
    taken_back(tmp_path)
    with open(tmp_path / "a-0" / "0.log", "ab") as log:
        log.write(b"more")
    (journal,) = journals(str(tmp_path))
    with pytest.raises(KsegError, match="a-0: its segments have changed since it was restored; nothing was undone"):
        undo.plan_log_directory_undo(journal)


def test_what_a_broker_has_removed_since_stays_removed(tmp_path: Path) -> None:
    """It deletes directories that end in -delete when it starts."""
    taken_back(tmp_path)
    for path in (tmp_path / ASIDE).iterdir():
        path.unlink()
    (tmp_path / ASIDE).rmdir()
    undo_all(tmp_path)
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {DELETED}


@pytest.mark.parametrize(
    ("name", "target", "why"), [(DELETED, "a-0", "a-0: already exists"), ("b-0", "c-0", "b-0: is no directory")]
)
def test_no_link_is_moved_and_nothing_put_over_a_directory(tmp_path: Path, name: str, target: str, why: str) -> None:
    make_log_directory(tmp_path)
    os.symlink(tmp_path / "a-0", tmp_path / "b-0")
    change = LogDirectoryChange(str(tmp_path), "recover", disk=QUICK)
    beside = Plan(str(tmp_path))
    beside.move_directory(name, target, "is taken back")
    with pytest.raises(KsegError, match=why):
        change.finish(beside)
    assert (tmp_path / DELETED).is_dir()
    assert (tmp_path / "b-0").is_symlink()


@pytest.mark.parametrize("bad", ["../a-0", "a", ".kseg-x", "", "a/b-0", 5])
def test_names_that_are_no_partitions_are_refused(bad: Any, tmp_path: Path) -> None:
    for names in ((bad, "a-0"), ("a-0", bad)):
        Journal(str(tmp_path), 1, "restore", 1, True, {}, moves=[DirectoryMove(*names, 1, 1)]).note(QUICK)
        with pytest.raises(KsegError, match=r"is no name of a partition directory|is no str"):
            journals(str(tmp_path))
