"""Links in the directories that commands read: told, and not followed; what the user names is."""

import os
import shutil
from pathlib import Path

import pytest

from cli.command import TESTDATA, Kseg


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return Path(shutil.copytree(TESTDATA / "log-directories/4.3.1/logs", tmp_path / "logs"))


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    return folder


SEGMENT = "00000000000000000046.log"


@pytest.mark.parametrize("name", [SEGMENT, SEGMENT.replace(".log", ".index"), "leader-epoch-checkpoint"])
def test_a_link_to_a_file_is_not_read(name: str, logs: Path, outside: Path, kseg: Kseg) -> None:
    path = logs / "dplain-0" / name
    path.rename(outside / name)
    path.symlink_to(outside / name)
    for place in (logs, logs / "dplain-0"):
        done = kseg("verify", "--format", "json", place)
        told = [row for row in done.objects if row["type"] == "finding" and "symbolic link" in row["message"]]
        assert [Path(row["file"]).name for row in told] == [name]
        assert done.status == (0 if told[0]["severity"] == "warning" else 1)
        assert done.objects[-1]["notJudged"] == (name == SEGMENT)
        dumped = kseg("dump", "--all", place)
        assert (dumped.status, f"{name}: a symbolic link" in dumped.err) == (3, True)


def test_a_link_that_is_named_is_read(logs: Path, outside: Path, kseg: Kseg) -> None:
    link = outside / SEGMENT
    link.symlink_to(logs / "dplain-0" / SEGMENT)
    whole = outside / "dplain-0"
    whole.symlink_to(logs / "dplain-0")
    for path in (link, whole):
        assert kseg("verify", path).status == 0
        assert kseg("dump", path).status == 0


def test_a_linked_partition_is_told_and_not_read(logs: Path, outside: Path, kseg: Kseg) -> None:
    (logs / "dplain-0").rename(outside / "dplain-7")
    shutil.copytree(outside / "dplain-7", logs / "dplain-0")
    (logs / "dplain-7").symlink_to(outside / "dplain-7")
    done = kseg("verify", logs)
    assert (done.status, "dplain-7: error: unreadable-file: a symbolic link" in done.out.decode()) == (1, True)
    dumped = kseg("dump", logs)
    assert (dumped.status, "not read: dplain-7" in dumped.err) == (0, True)
    assert "dplain-7" not in dumped.out.decode()


def test_a_linked_file_of_the_log_directory_is_told(logs: Path, outside: Path, kseg: Kseg) -> None:
    (logs / "meta.properties").rename(outside / "meta.properties")
    (logs / "meta.properties").symlink_to(outside / "meta.properties")
    done = kseg("verify", logs)
    assert done.status == 1
    assert "meta.properties:0: error: bad-meta-properties: it cannot be read: a symbolic link" in done.out.decode()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives links away")
@pytest.mark.parametrize("words", [["recover"], ["reindex"], ["undo"], ["convert", "--in-place", "--codec", "gzip"]])
def test_root_changes_nothing_through_a_link_of_another_user(
    words: list[str], logs: Path, outside: Path, kseg: Kseg
) -> None:
    """The owner of the directory may put the link there after root has looked, and before root changes something."""
    (logs / "dplain-0" / SEGMENT.replace(".log", ".index")).unlink()
    link, second = outside / "dplain-0", outside.parent / "second"
    link.symlink_to(logs / "dplain-0")
    second.symlink_to(link)
    os.lchown(link, 1234, 1234)
    for mode, owner, is_followed in ((0o755, 1234, False), (0o1777, 0, False), (0o755, 0, True)):
        os.chown(outside, owner, owner)
        outside.chmod(mode)
        for path in (link, second, f"{link}/"):
            before = {path: path.read_bytes() for path in logs.rglob("*") if path.is_file()}
            done = kseg(*words, path)
            if is_followed:
                assert "is a link of another user" not in done.err
            else:
                assert (done.status, f"{link}: is a link of another user" in done.err) == (3, True)
                assert {path: path.read_bytes() for path in logs.rglob("*") if path.is_file()} == before
            assert kseg("verify", path).status == 0
