"""Log directories of nodes other than a KRaft broker with its metadata log on the first of its log.dirs."""

import errno
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from cli.command import CLEAN, COMMAND, ENVIRONMENT, LOGS_4_4, TESTDATA, Kseg, files, unchanged
from kseg.changes import lock
from kseg.sidefiles.checkpoints import OFFSET_CHECKPOINTS
from node.disks import dealt, rows_of

KILLED = TESTDATA / "log-directories" / "4.3.1-rounds" / "kill"
OTHER_ID = "BBBBBBBBQACAAAAAAAAAAQ"
LATE = ("--now", "1900000000000")
COMPACTED, PLAIN = "cmptx-4", "lz-2"
"""Partitions of the second disk; cleaner-offset-checkpoint names the first."""


def judged(kseg: Kseg, *paths: object) -> tuple[list[str], list[dict[str, Any]]]:
    """The codes of errors and warnings, and what is foretold of the start of each node."""
    rows = kseg("verify", "--format", "json", *paths).objects
    return [row["code"] for row in rows if row.get("severity") in ("error", "warning")], rows[-1]["nodes"]


@pytest.fixture
def old(tmp_path: Path) -> list[Path]:
    """Two disks of a broker of ZooKeeper: no directory.id and no metadata log."""
    disks = dealt(CLEAN, tmp_path / "old", 2)
    shutil.rmtree(disks[0] / "__cluster_metadata-0")
    for disk in disks:
        (disk / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=AAAAAAAAQACAAAAAAAAAAQ\n")
    return disks


def test_disks_of_a_broker_of_zookeeper_are_one_node(kseg: Kseg, old: list[Path]) -> None:
    for paths in (old, [old[0].parent]):
        found, [node] = judged(kseg, *paths)
        assert found == []
        assert (node["logDirectories"], node["starts"], node["creates"]) == ([str(disk) for disk in old], True, None)
    (old[1] / "meta.properties").write_text("version=0\nbroker.id=2\ncluster.id=AAAAAAAAQACAAAAAAAAAAQ\n")
    found, [node] = judged(kseg, *old)
    assert (found, node["starts"]) == (["node-identity-mismatch"], False)


def test_what_no_zookeeper_tells_is_not_guessed(kseg: Kseg, old: list[Path]) -> None:
    """The policy lies in ZooKeeper; what the cleaner's checkpoint names is compacted."""
    asked = ("retain", "--retention-ms", "1", *LATE)
    with unchanged(old[0].parent):
        kseg(*asked, *old).expect(3)
    with unchanged(old[1] / COMPACTED):
        kseg(*asked, "--policy", "delete", "--topic", "*", *old)


def test_rows_follow_a_partition_between_disks_of_zookeeper(kseg: Kseg, old: list[Path]) -> None:
    shutil.move(old[1] / COMPACTED, old[0] / COMPACTED)
    kseg("recover", *old).expect(0)
    rows = [[row for name in OFFSET_CHECKPOINTS for row in rows_of(disk / name) if row[0] == "cmptx"] for disk in old]
    assert (len(rows[0]), len(rows[1])) == (3, 0)
    assert judged(kseg, *old)[0] == []


def test_the_directory_of_a_controller(kseg: Kseg, tmp_path: Path) -> None:
    """It has no partition, and the metadata assign none to it."""
    logs = tmp_path / "controller"
    shutil.copytree(LOGS_4_4 / "__cluster_metadata-0", logs / "__cluster_metadata-0")
    (logs / "meta.properties").write_text((LOGS_4_4 / "meta.properties").read_text().replace("node.id=1", "node.id=3"))
    config = tmp_path / "server.properties"
    config.write_text(f"process.roles=controller\nnode.id=3\nlog.dirs={logs}\n")
    for path in (logs, config):
        found, [node] = judged(kseg, path)
        assert (found, node["starts"], node["creates"]) == ([], True, [])
    with unchanged(logs):
        kseg("recover", logs).expect(0)
        kseg("retain", "--explain", logs).expect(0)


def test_metadata_in_a_directory_of_their_own(kseg: Kseg, tmp_path: Path) -> None:
    logs, metadata = Path(shutil.copytree(LOGS_4_4, tmp_path / "logs")), tmp_path / "metadata"
    metadata.mkdir()
    (logs / "__cluster_metadata-0").rename(metadata / "__cluster_metadata-0")
    properties = (LOGS_4_4 / "meta.properties").read_text()
    (metadata / "meta.properties").write_text(re.sub(r"directory\.id=\S+", f"directory.id={OTHER_ID}", properties))
    config = tmp_path / "server.properties"
    config.write_text(f"process.roles=broker\nnode.id=1\nlog.dirs={logs}\nmetadata.log.dir={metadata}\n")
    found, [node] = judged(kseg, config)
    assert (found, node["starts"]) == ([], True)
    assert node["logDirectories"] == [str(logs), str(metadata)]
    policies = [
        {row["directory"].split("/")[-1]: row["cleanupPolicy"] for row in done.of_type("retention")}
        for done in (
            kseg("retain", "--explain", "--format", "json", *LATE, *paths)
            for paths in ([config], ["--server-properties", config, logs], [logs, metadata])
        )
    ]
    assert policies[0]["cmptx-1"] == "compact"
    assert policies == [policies[0]] * 3


def test_a_disk_that_is_read_only(kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read as ever, and left as it is while the others are changed."""
    disks = dealt(KILLED, tmp_path / "disks", 2)
    alone = dealt(KILLED, tmp_path / "alone", 2)
    kseg("recover", *alone).expect(0)
    whole = judged(kseg, *disks)
    opened = lock._open

    def refused(path: str, log_directory: str) -> int:
        if log_directory == str(disks[1]):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return opened(path, log_directory)

    monkeypatch.setattr(lock, "_open", refused)
    assert judged(kseg, *disks) == whole
    with unchanged(disks[1]):
        kseg("recover", *disks).expect(3, f"{disks[1]}/.lock: cannot be locked: Read-only file system")
    assert files(disks[0], kept=False) == files(alone[0], kept=False)


@pytest.mark.parametrize("is_second_reversed", [False, True])
def test_two_processes_on_the_disks_of_a_node(kseg: Kseg, tmp_path: Path, is_second_reversed: bool) -> None:
    """None waits for the other, whatever the order of their PATHs, and together they do what one does."""
    disks, alone = dealt(KILLED, tmp_path / "disks", 2), dealt(KILLED, tmp_path / "alone", 2)
    kseg("recover", *alone).expect(0)
    orders = [disks, disks[::-1] if is_second_reversed else disks]
    words = [[*COMMAND, "recover", *map(str, order)] for order in orders]
    both = [subprocess.Popen(each, env=ENVIRONMENT, stderr=subprocess.PIPE) for each in words]
    told = [(process.communicate(timeout=200)[1].decode(), process.returncode) for process in both]
    for text, status in told:
        assert status == 0 or (status == 3 and "another kseg, holds the log directory" in text), told
    kseg("recover", *disks).expect(0)
    assert [files(disk, kept=False) for disk in disks] == [files(disk, kept=False) for disk in alone]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("is_apart", [False, True])
@pytest.mark.parametrize("inside", [".", "var/lib/kafka", "mnt"])
def test_the_disks_of_a_node_in_an_archive(kseg: Kseg, tmp_path: Path, inside: str, is_apart: bool) -> None:
    """As they are on the file system, however deep they lie, or each in an archive of its own."""
    root = tmp_path / "root"
    disks = dealt(CLEAN, root / inside, 3)
    if inside == "mnt":  # each on a level of its own
        disks = [shutil.move(disk, disk.with_suffix(".d") / "logs" / disk.name) for disk in disks]
    disks.reverse()  # the metadata log lies on the last
    paths = [tmp_path / f"{disk.name}.tar" if is_apart else tmp_path / "node.tar" for disk in disks]
    for path in set(paths):
        with tarfile.open(path, "w") as archive:
            for disk, each in zip(disks, paths, strict=True):
                if each == path:
                    archive.add(disk, disk.relative_to(root))
    (node,) = judged(kseg, *disks)[1]
    found, starts = judged(kseg, *dict.fromkeys(paths))
    wanted = [str(path / disk.relative_to(root)) for path, disk in zip(paths, disks, strict=True)]
    assert sorted(starts[0]["logDirectories"]) == sorted(wanted)
    assert (found, len(starts), starts[0]["starts"]) == ([], 1, node["starts"])
    if is_apart:
        told = kseg("compact", "--dry-run", "--output", tmp_path / "out", *paths).err
        assert f"{COMPACTED}: index.interval.bytes 1024, as __cluster_metadata-0 has it" in told
