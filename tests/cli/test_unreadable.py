"""Commands that change files, on a disk that cannot give some bytes: nothing is cut for it, the rest is done."""

import os
import shutil
from pathlib import Path
from typing import BinaryIO

import pytest

from cli.command import CHANGING, LOGS, LOGS_4_4, TESTDATA, Kseg, copying, files, findings_of, unchanged
from failing_disk import FailDisk

# Links in the directories that commands read: told, and not followed; what the user names is.


linked_logs = copying(LOGS, "logs")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    return folder


SEGMENT = "00000000000000000046.log"


@pytest.mark.parametrize("name", [SEGMENT, SEGMENT.replace(".log", ".index"), "leader-epoch-checkpoint"])
def test_a_link_to_a_file_is_not_read(name: str, linked_logs: Path, outside: Path, kseg: Kseg) -> None:
    path = linked_logs / "dplain-0" / name
    path.rename(outside / name)
    path.symlink_to(outside / name)
    for place in (linked_logs, linked_logs / "dplain-0"):
        done = kseg("verify", "--format", "json", place)
        told = [row for row in done.objects if row["type"] == "finding" and "symbolic link" in row["message"]]
        assert [Path(row["file"]).name for row in told] == [name]
        assert done.status == (0 if told[0]["severity"] == "warning" else 1)
        assert done.objects[-1]["notJudged"] == (name == SEGMENT)
        kseg("dump", "--all", place).expect(3, f"{name}: a symbolic link")


def test_a_link_that_is_named_is_read(linked_logs: Path, outside: Path, kseg: Kseg) -> None:
    link = outside / SEGMENT
    link.symlink_to(linked_logs / "dplain-0" / SEGMENT)
    whole = outside / "dplain-0"
    whole.symlink_to(linked_logs / "dplain-0")
    for path in (link, whole):
        assert kseg("verify", path).status == 0
        assert kseg("dump", path).status == 0


def test_a_linked_partition_is_told_and_not_read(linked_logs: Path, outside: Path, kseg: Kseg) -> None:
    (linked_logs / "dplain-0").rename(outside / "dplain-7")
    shutil.copytree(outside / "dplain-7", linked_logs / "dplain-0")
    (linked_logs / "dplain-7").symlink_to(outside / "dplain-7")
    done = kseg("verify", linked_logs)
    assert (done.status, "dplain-7: error: unreadable-file: a symbolic link" in done.out.decode()) == (1, True)
    assert "dplain-7" not in kseg("dump", linked_logs).expect(0, "not read: dplain-7").out.decode()


def test_a_linked_file_of_the_log_directory_is_told(linked_logs: Path, outside: Path, kseg: Kseg) -> None:
    (linked_logs / "meta.properties").rename(outside / "meta.properties")
    (linked_logs / "meta.properties").symlink_to(outside / "meta.properties")
    done = kseg("verify", linked_logs).expect(1)
    assert "meta.properties:0: error: bad-meta-properties: it cannot be read: a symbolic link" in done.out.decode()


@pytest.mark.sampled(2)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives links away")
@pytest.mark.parametrize("words", [["recover"], ["reindex"], ["undo"], ["convert", "--in-place", "--codec", "gzip"]])
def test_root_follows_no_link_of_another_user(words: list[str], linked_logs: Path, outside: Path, kseg: Kseg) -> None:
    """The owner of the directory may put the link there after root has looked, and before root changes something."""
    (linked_logs / "dplain-0" / SEGMENT.replace(".log", ".index")).unlink()
    link, second = outside / "dplain-0", outside.parent / "second"
    link.symlink_to(linked_logs / "dplain-0")
    second.symlink_to(link)
    os.lchown(link, 1234, 1234)
    for mode, owner, is_followed in ((0o755, 1234, False), (0o1777, 0, False), (0o755, 0, True)):
        os.chown(outside, owner, owner)
        outside.chmod(mode)
        for path in (link, second, f"{link}/"):
            before = {path: path.read_bytes() for path in linked_logs.rglob("*") if path.is_file()}
            done = kseg(*words, path)
            if is_followed:
                assert "is a link of another user" not in done.err
            else:
                assert (done.status, f"{link}: is a link of another user" in done.err) == (3, True)
                assert {path: path.read_bytes() for path in linked_logs.rglob("*") if path.is_file()} == before
            assert kseg("verify", path).status == 0


MIDDLE, LAST = "00000000000000000000.log", "00000000000000000116.log"
BAD = (4096, 8192)
COMMANDS = {name: words for name, words in CHANGING.items() if name != "salvage"} | {"recover": ("recover", "--full")}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    directory = Path(shutil.copytree(LOGS, tmp_path / "logs"))
    shutil.copytree(LOGS / "dplain-0", directory / "dplain-1")
    (directory / "dplain-1" / "00000000000000000046.index").unlink()
    return directory


def inside(logs: Path, partition: str) -> dict[str, bytes]:
    return {name: data for name, data in files(logs).items() if name.startswith(f"{partition}/")}


@pytest.mark.parametrize("segment", [MIDDLE, LAST])
@pytest.mark.parametrize("name", COMMANDS)
def test_only_that_partition_stays(name: str, segment: str, logs: Path, kseg: Kseg, fail_disk: FailDisk) -> None:
    before = files(logs)
    fail_disk(logs / "dplain-0" / segment, *BAD)
    done = kseg(*COMMANDS[name], logs).expect(3)
    assert inside(logs, "dplain-0") == {k: v for k, v in before.items() if k.startswith("dplain-0/")}
    assert inside(logs, "dplain-1") != {k: v for k, v in before.items() if k.startswith("dplain-1/")}
    (line,) = [line for line in done.err.splitlines() if f"dplain-0/{segment}" in line]
    assert ("--skip-damage" if name == "convert" else "kseg recover --mode salvage") in line
    assert "could not be read (bytes 4096 to 8191)" in line or "Input/output error" in line


@pytest.mark.parametrize("name", COMMANDS)
def test_a_partition_that_is_named_alone_stays(name: str, logs: Path, kseg: Kseg, fail_disk: FailDisk) -> None:
    with unchanged(logs):
        fail_disk(logs / "dplain-0" / LAST, *BAD)
        assert kseg(*COMMANDS[name], logs / "dplain-0").status == 3


@pytest.mark.parametrize("segment", [MIDDLE, LAST])
def test_salvage_keeps_what_can_be_read_and_the_old(segment: str, logs: Path, kseg: Kseg, fail_disk: FailDisk) -> None:
    path = logs / "dplain-0" / segment
    whole, inode = path.read_bytes(), path.stat().st_ino
    expected = {row["baseOffset"] for row in kseg("dump", "--format", "json", path).of_type("batch")}
    fail_disk(path, *BAD)
    lost = {row["baseOffset"] for row in kseg("dump", "--format", "json", path).of_type("batch")}
    assert lost < expected
    kseg("recover", "--mode", "salvage", logs).expect(0, "unreadable-bytes")
    assert {row["baseOffset"] for row in kseg("dump", "--format", "json", path).of_type("batch")} == lost
    kept = [each for each in (logs / "dplain-0" / ".kseg-quarantine").rglob("*") if each.stat().st_ino == inode]
    assert [each.read_bytes() for each in kept] == [whole]
    assert kseg("verify", logs / "dplain-0", "--ignore", "gap-truncated").status == 0
    assert kseg("undo", logs).status == 0
    assert path.read_bytes() == whole


def test_salvage_takes_bytes_for_lost_only_after_a_second_read(logs: Path, kseg: Kseg, fail_disk: FailDisk) -> None:
    before = inside(logs, "dplain-0")[f"dplain-0/{LAST}"]
    fail_disk(logs / "dplain-0" / LAST, *BAD, times=2)
    done = kseg("recover", "--mode", "salvage", logs)
    assert (done.status, "unreadable-bytes" in done.err) == (0, False)
    assert (logs / "dplain-0" / LAST).read_bytes() == before


@pytest.mark.parametrize("command", ["recover", "salvage"])
def test_a_file_not_opened_is_undamaged(command: str, logs: Path, kseg: Kseg, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno
    import os

    before = inside(logs, "dplain-0")
    path, opened = logs / "dplain-0" / LAST, os.open

    def failing(name: object, *arguments: object, **named: object) -> int:
        if str(name).endswith(str(path)):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(name))
        return opened(name, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", failing)
    monkeypatch.setattr(os, "supports_dir_fd", {*os.supports_dir_fd, failing})
    arguments = ("recover", "--full") if command == "recover" else ("recover", "--mode", "salvage")
    done = kseg(*arguments, "--jobs", "1", logs)
    monkeypatch.undo()
    assert (done.status, f"{path}: Input/output error" in done.err) == (3, True)
    assert inside(logs, "dplain-0") == before


def test_an_index_that_cannot_be_read_is_made_anew(logs: Path, kseg: Kseg, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno
    import os

    from kseg.stores.place import Place

    index = logs / "dplain-0" / "00000000000000000046.index"
    inode, expected = index.stat().st_ino, index.read_bytes()
    opened = Place.open

    def failing(path: Place) -> BinaryIO:
        if path.endswith(f"dplain-0/{index.name}"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return opened(path)

    monkeypatch.setattr(Place, "open", failing)
    kseg("reindex", logs).expect(0)
    assert index.read_bytes() == expected
    assert index.stat().st_ino != inode


def test_the_summary_names_what_failed(logs: Path, kseg: Kseg, fail_disk: FailDisk) -> None:
    fail_disk(logs / "dplain-0" / MIDDLE, *BAD)
    assert kseg("recover", "--full", "--format", "json", logs).objects[-1]["failed"] == [str(logs / "dplain-0")]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user")
def test_what_a_user_may_not_read_is_not_judged(tmp_path: Path, kseg: Kseg) -> None:
    logs = Path(shutil.copytree(LOGS_4_4, tmp_path / "logs"))
    shutil.copytree(TESTDATA / "metadata/4.4.0-all-types/__cluster_metadata-0", logs / "snapshots-0")
    snapshot = next((logs / "snapshots-0").glob("*-*.checkpoint"))
    names = "meta.properties", "replication-offset-checkpoint", "few-0/partition.metadata"
    hidden = [*(logs / name for name in names), snapshot]
    kseg("verify", "--level", "deep", "--format", "json", logs, snapshot)  # imports all that it needs
    for path in hidden:
        path.chmod(0)
    for path in (tmp_path, *tmp_path.parents):
        path.chmod(path.stat().st_mode | 0o055)
    os.seteuid(65534)
    try:
        rows = findings_of(kseg, "--level", "deep", logs, snapshot)
    finally:
        os.seteuid(0)
    of_hidden = {(row["file"], row["code"]) for row in rows if row["file"] in map(str, hidden)}
    assert of_hidden == {(str(path), "unreadable-file") for path in hidden}
