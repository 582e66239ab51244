"""A partition that was moved to another disk of its node takes its rows of the checkpoints along."""

import os
import shutil
from pathlib import Path

import pytest

from changes.failing import CountingDisk, KillingDisk
from cli.command import CLEAN, Kseg, files
from cli.dying import on, points
from kseg.changes.lock import locked
from kseg.node.node import Nodes
from kseg.recovery.planner import MovedRows, rows_at
from kseg.sidefiles.checkpoints import OFFSET_CHECKPOINTS
from node.disks import dealt, rows_of, write_rows

TO_FIRST, TO_SECOND = "cmptx-4", "few-1"
STARTS, RECOVERED = "log-start-offset-checkpoint", "recovery-point-offset-checkpoint"


def moved(target: Path) -> list[Path]:
    """Two disks; one partition of each was moved to the other, and the files of the checkpoints were not touched."""
    disks = dealt(CLEAN, target, 2)
    write_rows(disks[0] / STARTS, [["few", "1", "2"]])
    shutil.move(disks[1] / TO_FIRST, disks[0] / TO_FIRST)
    shutil.move(disks[0] / TO_SECOND, disks[1] / TO_SECOND)
    return disks


def rows(disks: list[Path], name: str, partition: str) -> list[list[str]]:
    """The offsets that each disk has for a partition."""
    found = [rows_of(disk / name) for disk in disks]
    return [[row[2] for row in each if f"{row[0]}-{row[1]}" == partition] for each in found]


def state_of(disks: list[Path]) -> dict[str, bytes]:
    return {f"{disk.name}/{name}": data for disk in disks for name, data in files(disk).items() if ".kseg-" not in name}


def test_rows_follow_the_partitions_both_ways_and_undo_brings_them_back(kseg: Kseg, tmp_path: Path) -> None:
    disks = moved(tmp_path)
    before = state_of(disks)
    dry = kseg("recover", "-n", *disks).expect(1)
    assert state_of(disks) == before
    assert f"with the entries that partitions left on another disk: {TO_FIRST}" in dry.out.decode()
    assert f"without the entries of partitions that stand on another disk: {TO_SECOND}" in dry.out.decode()
    assert kseg("recover", *disks).status == 0
    assert rows(disks, RECOVERED, TO_FIRST) == [["204"], []]
    assert rows(disks, "cleaner-offset-checkpoint", TO_FIRST) == [["98"], []]
    assert rows(disks, RECOVERED, TO_SECOND) == [[], ["18"]]
    assert rows(disks, STARTS, TO_SECOND) == [[], ["2"]]
    assert b"another disk" not in kseg("recover", "-n", *disks).out, "nothing is left to do"
    for disk in disks:
        assert kseg("undo", disk).status == 0
    assert {name: data for name, data in state_of(disks).items() if not name.endswith(".lock")} == before


def test_a_row_of_its_own_wins_and_rows_that_differ_are_not_taken(kseg: Kseg, tmp_path: Path) -> None:
    disks = moved(tmp_path)
    write_rows(disks[1] / RECOVERED, [*rows_of(disks[1] / RECOVERED), ["few", "1", "7"]])
    assert kseg("recover", *disks).status == 0
    assert rows(disks, RECOVERED, TO_SECOND) == [[], ["7"]]
    third = dealt(CLEAN, tmp_path / "three", 3)
    home = next(disk for disk in third if (disk / TO_SECOND).is_dir())
    for offset, disk in enumerate(third):
        own = [row for row in rows_of(disk / RECOVERED) if row[0] != "few"]
        write_rows(disk / RECOVERED, own if disk == home else [*own, ["few", "1", str(offset)]])
    assert f"has no entry for {TO_SECOND}, and those of other disks differ" in kseg("recover", *third).expect(0).err
    assert [bool(row) for row in rows(third, RECOVERED, TO_SECOND)] == [disk != home for disk in third]


def test_a_disk_that_is_held_keeps_the_rows_until_it_has_them_elsewhere(kseg: Kseg, tmp_path: Path) -> None:
    disks = moved(tmp_path)
    with locked(str(disks[1])):
        assert kseg("recover", *disks).status == 3
        assert rows(disks, RECOVERED, TO_SECOND) == [["18"], []], "its new disk does not have the row"
        assert rows(disks, RECOVERED, TO_FIRST) == [["204"], ["204"]]
    assert kseg("recover", *reversed(disks)).status == 0
    assert rows(disks, RECOVERED, TO_SECOND) == [[], ["18"]]
    assert rows(disks, RECOVERED, TO_FIRST) == [["204"], []]


@pytest.mark.slow
def test_a_kill_leaves_rows_twice_rather_than_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disks = moved(tmp_path / "source")
    shutil.copytree(tmp_path / "source", tmp_path / "counted")
    counting = CountingDisk()
    on(counting, monkeypatch, "recover", "--full", *(tmp_path / "counted" / disk.name for disk in disks))
    whole = state_of([tmp_path / "counted" / disk.name for disk in disks])
    for at in points(counting.count, 25):
        shutil.copytree(tmp_path / "source", target := tmp_path / f"killed-{at}")
        killed = [target / disk.name for disk in disks]
        on(KillingDisk(at), monkeypatch, "recover", "--full", *killed)
        for name in OFFSET_CHECKPOINTS:
            for partition in (TO_FIRST, TO_SECOND):
                assert any(rows(killed, name, partition)) == any(rows(disks, name, partition)), (at, name)
        on(CountingDisk(), monkeypatch, "recover", "--full", *killed)
        assert state_of(killed) == whole, at
        shutil.rmtree(target)


def test_a_dry_run_counts_on_no_rows_that_it_would_remove(tmp_path: Path) -> None:
    """Rows stay where the partition was if the disk that has it now would have none."""
    disks = [str(disk) for disk in moved(tmp_path)]
    write_rows(Path(disks[1]) / RECOVERED, [*rows_of(Path(disks[1]) / RECOVERED), ["few", "1", "18"]])
    rows, places, no_rows = MovedRows(Nodes(disks), print), [("few", 1)], {name: {} for name in OFFSET_CHECKPOINTS}
    assert [step.file for step in rows.plan_left(disks[0], places, rows_at(disks[0]), {}).steps] == [RECOVERED]
    assert rows.plan_left(disks[0], places, rows_at(disks[0]), {os.path.realpath(disks[1]): no_rows}).steps == []
