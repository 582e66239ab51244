"""The files of a log directory beside the partitions that --output writes there."""

import shutil
from pathlib import Path

import pytest

from cli.command import CLEAN, Kseg, unchanged
from kseg.sidefiles.checkpoints import OFFSET_CHECKPOINTS
from node.disks import dealt, rows_of, write_rows

STARTS, POINTS = "log-start-offset-checkpoint", "recovery-point-offset-checkpoint"
MOVED = "cmptx-4"
"""A partition of the second disk, with a row in three of its checkpoints."""
COPYING = {"recover": ["recover"], "convert": ["convert", "--codec", "zstd"], "reindex": ["reindex"]}

ways = pytest.mark.parametrize("way", COPYING)


@pytest.fixture
def disks(tmp_path: Path) -> list[Path]:
    return dealt(CLEAN, tmp_path / "disks", 2)


def rows(directory: Path, partition: str = "") -> dict[str, list[list[str]]]:
    """The rows of each checkpoint, all or those of one partition."""
    found = {name: sorted(rows_of(directory / name)) for name in OFFSET_CHECKPOINTS}
    wanted = partition.rpartition("-")[::2]
    return {name: [row for row in each if not partition or tuple(row[:2]) == wanted] for name, each in found.items()}


@ways
@pytest.mark.parametrize("is_reversed", [False, True])
def test_several_disks_become_one(kseg: Kseg, disks: list[Path], tmp_path: Path, way: str, is_reversed: bool) -> None:
    output = tmp_path / "out"
    kseg(*COPYING[way], "--output", output, *(reversed(disks) if is_reversed else disks)).expect(0)
    assert rows(output) == rows(CLEAN)
    if (output / "__cluster_metadata-0").exists():  # a voter's log is in the directory whose id the quorum knows
        assert (output / "meta.properties").read_bytes() == (disks[0] / "meta.properties").read_bytes()


@ways
def test_a_partition_moves_to_another_disk_with_its_rows(kseg: Kseg, disks: list[Path], way: str) -> None:
    target, source = disks
    before, own = rows(target), rows(source, MOVED)
    assert sum(map(bool, own.values())) == 3
    meta = (target / "meta.properties").read_bytes()
    with unchanged(source):
        kseg(*COPYING[way], "--output", target, source / MOVED).expect(0)
    assert rows(target, MOVED) == own
    assert rows(target) == {name: sorted([*before[name], *own[name]]) for name in before}
    assert (target / "meta.properties").read_bytes() == meta
    shutil.rmtree(source / MOVED)
    for name in OFFSET_CHECKPOINTS:
        write_rows(source / name, [row for row in rows_of(source / name) if f"{row[0]}-{row[1]}" != MOVED])
    assert rows(target, MOVED) == own
    assert kseg("verify", *disks).status == kseg("verify", *dealt(CLEAN, disks[0].parent / "again", 2)).status


def test_a_partition_under_another_name_takes_its_rows_along(kseg: Kseg, disks: list[Path]) -> None:
    target, source = disks
    write_rows(source / STARTS, [["cmptx", "4", "3"]])
    before, own = rows(target), rows(source, MOVED)
    kseg("restore", "--as", "copy-9", "--output", target, source / MOVED).expect(0)
    assert rows(target, "copy-9") == {name: [["copy", "9", *row[2:]] for row in each] for name, each in own.items()}
    assert {name: [row for row in each if row[0] != "copy"] for name, each in rows(target).items()} == before


@ways
def test_a_damaged_checkpoint_at_the_output(kseg: Kseg, disks: list[Path], way: str) -> None:
    target, source = disks
    (target / POINTS).write_text("nonsense")
    with unchanged(target):
        kseg(*COPYING[way], "--output", target, source / MOVED).expect(3, f"{target / POINTS}: ")


def test_a_log_directory_of_another_node_gets_no_conversion(kseg: Kseg, disks: list[Path]) -> None:
    meta = disks[0] / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=2"))
    with unchanged(disks[0]):
        kseg("convert", "--codec", "zstd", "--output", disks[0], disks[1] / MOVED).expect(3, "log directory")


@pytest.mark.parametrize("way", ["recover", "reindex"])
def test_a_dry_run_shows_the_rows(kseg: Kseg, disks: list[Path], way: str) -> None:
    target, source = disks
    with unchanged(target):
        done = kseg(*COPYING[way], "--dry-run", "--output", target, source / MOVED)
    assert POINTS in done.out.decode()
