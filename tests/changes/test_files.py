"""Changes of unusual files: symbolic links, sparse files, read-only files, files of another owner."""

import os
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from changes.trees import make, plan_of, quarantine, tree
from kseg.changes.apply import apply
from kseg.changes.disk import Disk
from kseg.changes.plan import Plan, Range
from kseg.changes.undo import last_change, undo
from kseg.errors import KsegError, PathError

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
Step = tuple[Any, ...]
CUT, REBUILD = ("truncate", "a.log", 6, "cut"), ("write", "a.index", [b"rebuilt"], "rebuilt")
no_root = pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    directory = tmp_path / "orders-0"
    make(directory, {"a.log": b"abcdef" * 1000, "a.index": b"index"})
    return directory


def test_symbolic_links_are_refused(partition: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"precious")
    (partition / "b.log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PathError, match="no regular file"):
        Plan(str(partition)).truncate("b.log", 2, "cut")
    plan = plan_of(partition, CUT)
    (partition / "a.log").unlink()
    (partition / "a.log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PathError, match="nothing was changed"):
        apply(plan, "test")
    assert (tmp_path / "elsewhere").read_bytes() == b"precious"


@pytest.mark.parametrize("name", ["", ".", "..", "../a", "a/b", "/etc/passwd", "a\0b"])
def test_a_plan_stays_in_its_directory(name: str, partition: Path) -> None:
    with pytest.raises(ValueError):
        Plan(str(partition)).write(name, [b""], "")
    with pytest.raises(ValueError):
        Plan(str(partition)).rename("a.log", name, "")


def test_a_plan_that_cannot_be_undone_is_refused(partition: Path) -> None:
    plan = Plan(str(partition))
    plan.rename("a.log", "b.log", "")
    with pytest.raises(ValueError, match="has to be deleted"):
        plan.rename("b.log", "a.index", "")
    with pytest.raises(ValueError, match="twice"):
        plan.rename("b.log", "c.log", "")
    plan.write("d.log", [b"new"], "")
    with pytest.raises(ValueError, match="twice"):
        plan.delete("d.log", "")


@needs_root
def test_new_files_have_the_owner_of_the_old_ones(partition: Path) -> None:
    for path in (partition, *partition.iterdir()):
        os.chown(path, 1234, 2345)
    (partition / "a.index").chmod(0o604)
    apply(plan_of(partition, CUT, REBUILD, ("write", "a.timeindex", [b"made"], "rebuilt")), "test")
    inside = [path for path in partition.rglob("*") if path.name != "0"]  # a kept tail may belong to root
    assert {(path.stat().st_uid, path.stat().st_gid) for path in inside} == {(1234, 2345)}
    assert stat.S_IMODE((partition / "a.index").stat().st_mode) == 0o604
    assert stat.S_IMODE((partition / "a.timeindex").stat().st_mode) == stat.S_IMODE(partition.stat().st_mode) & 0o666


@needs_root
def test_the_umask_does_not_take_modes_away(partition: Path) -> None:
    (partition / "a.index").chmod(0o666)
    plan = plan_of(partition, REBUILD)
    before = os.umask(0o077)
    try:
        apply(plan, "test")
    finally:
        os.umask(before)
    assert stat.S_IMODE((partition / "a.index").stat().st_mode) == 0o666


@no_root
def test_a_read_only_file_is_not_cut(partition: Path) -> None:
    plan = plan_of(partition, CUT)
    (partition / "a.log").chmod(0o444)
    with pytest.raises(KsegError, match=r"nothing was changed: .*Permission denied"):
        apply(plan, "test")


@no_root
def test_a_read_only_directory_is_not_changed(partition: Path) -> None:
    plan = plan_of(partition, CUT)
    partition.chmod(0o555)
    try:
        with pytest.raises(KsegError, match=r"nothing was changed: .*Permission denied"):
            apply(plan, "test")
    finally:
        partition.chmod(0o755)


def test_extended_attributes_stay(partition: Path) -> None:
    try:
        os.setxattr(partition / "a.index", "user.kseg", b"mark")
    except OSError as error:
        pytest.skip(f"no extended attributes here: {error}")
    apply(plan_of(partition, REBUILD), "test")
    assert os.getxattr(partition / "a.index", "user.kseg") == b"mark"


def test_holes_stay_holes(partition: Path) -> None:
    path, size = partition / "b.log", 64 << 20
    with path.open("wb") as file:
        file.write(b"batches")
        file.truncate(size)
        file.seek(size // 2)
        file.write(b"middle")
        file.truncate(size)
    if path.stat().st_blocks * 512 > size // 2:
        pytest.skip("no sparse files here")
    before = path.read_bytes()
    apply(plan_of(partition, ("truncate", "b.log", 7, "preallocated bytes")), "test")
    (kept,) = [file for file in quarantine(partition).rglob("0") if file.is_file()]
    assert kept.stat().st_size == size - 7
    assert kept.stat().st_blocks * 512 < size // 8
    undo(last_change(str(partition)))
    assert path.read_bytes() == before
    assert path.stat().st_blocks * 512 < size // 8


def test_a_range_that_no_longer_exists_is_an_error(partition: Path) -> None:
    plan = plan_of(partition, ("write", "b.log", [Range("a.log", 5000, 2000)], "reaches beyond the end"))
    with pytest.raises(KsegError, match="nothing was changed: a file is shorter than it was"):
        apply(plan, "test")
    assert not quarantine(partition).exists()


def test_a_concurrent_kseg_without_a_lock_is_reported(partition: Path) -> None:
    other = quarantine(partition) / "1.preparing"

    class Late(Disk):
        def make_directory(self, path: str) -> None:
            if path == str(other):
                other.mkdir()
                (other / "staged").write_bytes(b"the other's")
            super().make_directory(path)

    plan = plan_of(partition, ("write", "b.log", [b"x"], "new"))
    with pytest.raises(KsegError, match="another kseg is running here; nothing was changed"):
        apply(plan, "test", disk=Late())
    assert (other / "staged").read_bytes() == b"the other's"


@needs_root
@pytest.mark.parametrize("flag", ["i", "a"])
@pytest.mark.parametrize("step", [REBUILD, ("delete", "a.index", "gone"), ("truncate", "a.index", 2, "cut")])
def test_a_file_that_root_cannot_remove_stops_the_change_in_time(flag: str, step: Step, partition: Path) -> None:
    plan, before = plan_of(partition, step, ("write", "a.log", [b"new"], "first")), tree(partition)
    if (
        not shutil.which("chattr")
        or subprocess.run(["chattr", f"+{flag}", partition / "a.index"], check=False).returncode
    ):
        pytest.skip("the file system has no such flags")
    try:
        with pytest.raises(KsegError, match="nothing was changed"):
            apply(plan, "test")
        assert tree(partition) == before
    finally:
        subprocess.run(["chattr", f"-{flag}", partition / "a.index"], check=True)
