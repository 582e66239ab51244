"""Which disk of a node is which by its metadata log, and where its partitions lie."""

import shutil
from pathlib import Path

import pytest

from cli.command import Kseg
from conditions import CONDITIONS
from kseg.node.node import Nodes
from segment.segments import TESTDATA
from verification.log_directories import OTHER_ID, REAL, check, check_node, checkpoint, edited

WHOLE = TESTDATA / "log-directories" / "4.4.0" / "logs"
OLD_ID = "H2bQkJEeTKO7Ax3ZgWhC_A"
"""The directory.id of the node's only log directory, to which the metadata assign all partitions."""
FEW = "few-0"


@pytest.fixture
def disks(tmp_path: Path) -> tuple[Path, Path]:
    """The disk with the metadata under another directory.id, and that with the partitions under the old one."""
    partitions = Path(shutil.copytree(WHOLE, tmp_path / "d2"))
    metadata = tmp_path / "d1"
    metadata.mkdir()
    (partitions / "__cluster_metadata-0").rename(metadata / "__cluster_metadata-0")
    for name in ("meta.properties", ".kafka_cleanshutdown"):
        shutil.copy(WHOLE / name, metadata)
    return edited(metadata, directory_id=OTHER_ID), partitions


def named(disks: tuple[Path, ...], *log_dirs: Path) -> str:
    dirs = ",".join(map(str, log_dirs or disks))
    return f"node.id=1\nprocess.roles=broker\nlog.dirs={dirs}"


def test_nothing_has_happened(disks: tuple[Path, Path]) -> None:
    assert check_node(server=named(disks)).errors == []


@pytest.mark.parametrize("has_new_id", [False, True])
def test_meta_properties_is_written_again(kseg: Kseg, disks: tuple[Path, Path], has_new_id: bool) -> None:
    """After a loss, and after a format that gave the disk a new directory.id; undone, it is as before."""
    d1, d2 = disks
    path = d2 / "meta.properties"
    if has_new_id:
        edited(d2, directory_id="CCCCCCCCQACAAAAAAAAAAQ")
    else:
        path.unlink()
    before = path.read_text() if has_new_id else None
    found = check_node(server=named(disks))
    finding = found.one("directory-id-mismatch" if has_new_id else "bad-meta-properties")
    assert OLD_ID in finding.message
    assert "on no disk that is known" not in finding.message
    assert finding.details == {"directoryId": OLD_ID}
    (step,) = found.report.steps
    assert step.argv == finding.repair == ["kseg", "recover", "--mode", "salvage", str(d1), str(d2)]
    dry = kseg(*step.argv[1:], "--dry-run")
    assert (dry.status, b".kafka_cleanshutdown" in dry.out) == (1, False)
    assert (path.read_text() if path.exists() else None) == before
    assert kseg(*step.argv[1:]).status == 0
    assert f"directory.id={OLD_ID}\n" in path.read_text()
    assert (d2 / ".kafka_cleanshutdown").exists(), "no log changes"
    assert check_node(server=named(disks)).errors == []
    assert kseg("undo", d2).status == 0
    assert (path.read_text() if path.exists() else None) == before
    assert (d2 / ".kafka_cleanshutdown").exists()


def test_a_disk_of_another_node_gets_no_id(disks: tuple[Path, Path]) -> None:
    edited(disks[1], node_id="2", directory_id="CCCCCCCCQACAAAAAAAAAAQ")
    (node,) = Nodes([str(path) for path in disks]).given
    assert node.restored_ids == {}


def test_an_id_of_two_disks(disks: tuple[Path, Path], tmp_path: Path) -> None:
    """The metadata tell which disk has it rightly, and nothing of one without partitions."""
    third = tmp_path / "d0"
    third.mkdir()
    shutil.copy(disks[1] / "meta.properties", third)
    found = check_node(server=named(disks, third, *disks))
    finding = found.one("node-identity-mismatch")
    assert "is also that of" in finding.message
    assert finding.details == {}


def test_a_disk_that_is_gone(disks: tuple[Path, Path]) -> None:
    """Left out of log.dirs, empty, or formatted anew: what it had has no leader. Two partitions of 56 are here, all
    were assigned to it."""
    d1, d2 = disks
    found = check_node(server=named(disks, d1)).one("only-replica-missing")
    assert found.file == str(d1)
    assert {FEW, "cmptx-1"} <= set(found.details["partitions"])
    assert "without a leader" in found.message
    for path in d2.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    found = check_node(server=named(disks)).one("only-replica-missing")
    assert found.file == str(d2)
    shutil.copy(d1 / "meta.properties", d2)
    edited(d2, directory_id="CCCCCCCCQACAAAAAAAAAAQ")
    assert FEW in check_node(server=named(disks)).one("only-replica-missing").details["partitions"]
    edited(d2, directory_id=OLD_ID)
    assert "what they held is lost" in check_node(*disks).one("only-replica-missing").message
    assert "only-replica-missing" not in check_node(d1).codes, "the others are not given"


def test_a_disk_with_nothing_but_partitions(disks: tuple[Path, Path]) -> None:
    """It lacks its own files; its partitions are not missed."""
    for path in disks[1].iterdir():
        if path.is_file():
            path.unlink()
    assert check_node(server=named(disks)).errors == ["bad-meta-properties"]


def test_a_partition_that_never_had_records_is_not_missed(disks: tuple[Path, Path]) -> None:
    shutil.rmtree(disks[1] / FEW)
    assert check_node(*disks).one("assigned-partition-missing").details["partitions"] == [FEW]
    found = check_node(server=named(disks))
    assert found.one("only-replica-missing").details["partitions"] == [FEW], "the node is named, so no part is copied"
    assert "assigned-partition-missing" not in found.codes
    (disks[1] / "replication-offset-checkpoint").write_text(checkpoint("cmptx 1 132", "few 0 0"))
    assert check_node(server=named(disks)).errors == []


def test_the_copy_that_is_not_assigned_is_to_be_moved_away(disks: tuple[Path, Path]) -> None:
    d1, d2 = disks
    shutil.copytree(d2 / FEW, d1 / FEW)
    next((d1 / FEW).glob("*.log")).write_bytes(b"")
    finding = check_node(*disks).one("broker-would-not-start")
    assert finding.file == str(d1 / FEW)
    assert f"metadata assign {d2 / FEW}" in finding.message
    assert [row["records"] for row in finding.details["held"]] == [0, 8]
    assert finding.details["otherRepair"] == ["mv", str(d1 / FEW), f"{d1}.{FEW}"]
    shutil.copytree(d2 / FEW, d1 / FEW, dirs_exist_ok=True)
    next((d2 / FEW).glob("*.log")).write_bytes(b"")
    finding = check_node(*disks).one("broker-would-not-start")
    assert ("ends later" in finding.message, "otherRepair" in finding.details) == (True, False), "not moved unseen"


def test_a_cleaned_offset_on_another_disk(disks: tuple[Path, Path]) -> None:
    (disks[0] / "cleaner-offset-checkpoint").write_text(checkpoint("cmptx 1 7"))
    for ending in ("", "/", "//"):
        finding = check_node(*(f"{disk}{ending}" for disk in disks)).one("partition-elsewhere")
        assert (finding.severity, finding.file) == ("info", str(disks[0] / "cleaner-offset-checkpoint"))
        assert "cmptx-1 (offset 7; " in finding.message
    (disks[0] / "cleaner-offset-checkpoint").rename(disks[1] / "cleaner-offset-checkpoint")
    assert "partition-elsewhere" not in check_node(*(f"{disk}/" for disk in disks)).codes


def test_a_future_directory_of_another_topic_is_set_aside(disks: tuple[Path, Path]) -> None:
    d1, d2 = disks
    future = d1 / f"{FEW}.0123456789abcdef0123456789abcdef-future"
    shutil.copytree(d2 / FEW, future)
    assert check_node(*disks).report.starts[0].sets_aside == []
    (future / "partition.metadata").write_text(f"version: 0\ntopic_id: {OTHER_ID}")
    assert check_node(*disks).report.starts[0].sets_aside == [str(future)]


def test_a_copy_of_a_running_broker(disks: tuple[Path, Path]) -> None:
    d2 = disks[1]
    marks = d2 / "replication-offset-checkpoint"
    marks.write_text(checkpoint("cmptx 1 140", "few 0 12"))
    assert "copied-while-running" not in check_node(*disks).codes, "a clean stop"
    (d2 / ".kafka_cleanshutdown").unlink()
    finding = check_node(*disks).one("copied-while-running")
    assert "2 partitions end before the high watermark, by 12 offsets in all" in finding.message
    marks.write_text(checkpoint("cmptx 1 140", "few 0 8"))
    assert "copied-while-running" not in check_node(*disks).codes, "one partition has another cause"


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize(("source", "at_least"), [(REAL, 1), (WHOLE, 2)])
def test_a_start_needs_a_block_for_each_file_that_it_writes(
    source: Path, at_least: int, is_clean: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint, quorum-state, and after an unclean stop a snapshot in each partition. One block is free."""
    logs = Path(shutil.copytree(source, tmp_path / "logs"))
    if not is_clean:
        (logs / ".kafka_cleanshutdown").unlink()
        at_least += len([*logs.glob("*-[0-9]")])
    CONDITIONS["disk-is-full"](monkeypatch, logs)
    needed = [each.details["neededBytes"] for each in check(logs).findings if each.code == "disk-full"]
    assert needed == [4096 * at_least] * (at_least > 1)
