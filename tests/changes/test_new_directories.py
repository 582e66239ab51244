"""Output directories: complete or absent after any interruption, with the owner of their source."""

import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from changes.failing import CountingDisk, FailingDisk, Killed, KillingDisk, struck
from changes.power import CUT, ended_at
from kseg.changes import lock
from kseg.changes import new_directories as module
from kseg.changes.disk import Disk
from kseg.changes.new_directories import complete_new_directories, new_directories
from kseg.errors import KsegError, PathError, StoppedHalfwayError
from kseg.segment.files import LOCK_NAME
from kseg.sidefiles.checkpoints import RECOVERY_POINTS

NAMES = ("a-0", "b-0", "checkpoint")


def write(output: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch, model: str = "") -> None:
    monkeypatch.setattr(module, "Disk", lambda: disk)
    with new_directories(str(output), takes_lock=True, model=model) as made:
        for name in NAMES[:2]:
            disk.write_file(os.path.join(made.add(name), "0.log"), name.encode(), made.folder)
        disk.write_file(os.path.join(made.folder, NAMES[2]), b"0\n0\n", made.folder)


def visible(output: Path) -> set[str]:
    return {path.name for path in output.iterdir() if path.name[:1] != "."} if output.exists() else set()


def left(output: Path) -> set[str]:
    """Files other than the output and its lock."""
    found = {path.name for path in output.parent.iterdir()} - {output.name}
    return found | ({path.name for path in output.iterdir()} - {*NAMES, ".lock"} if output.exists() else set())


def prepare_and_run(
    is_there: bool, monkeypatch: pytest.MonkeyPatch
) -> tuple[Callable[[Path], None], Callable[[Path, Disk], None]]:
    """What a sweep takes to write ``out`` in its directories."""
    return (
        lambda root: (root / "out" if is_there else root).mkdir(parents=True),
        lambda root, disk: write(root / "out", disk, monkeypatch),
    )


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
@pytest.mark.sampled(3)
@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_power_cuts(seed: int, is_there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a part were in place, another run would find it, and refuse to write the rest."""

    def contents(root: Path) -> set[bytes]:
        return {path.read_bytes() for path in root.rglob("*") if path.is_file() and path.name != ".lock"}

    prepare, run = prepare_and_run(is_there, monkeypatch)
    *cut, complete = ended_at(CUT, 1, tmp_path, prepare, run, seed)
    wanted = {b"a-0", b"b-0", b"0\n0\n"}
    assert contents(complete / "out") == wanted
    for root in cut:
        if is_there or not (root / "out").exists():
            with suppress(KsegError):  # which says that the interrupted run is complete now
                run(root, CountingDisk())
        assert visible(root / "out") == {*NAMES}
        assert contents(root / "out") == wanted


@pytest.mark.parametrize("kind", [KillingDisk, lambda at: FailingDisk(at, 28)], ids=["killed", "full"])
@pytest.mark.parametrize("is_there", [False, True])
def test_an_output_is_complete_or_absent(
    is_there: bool, kind: Callable[[int], CountingDisk], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare, run = prepare_and_run(is_there, monkeypatch)
    ends = []
    for root, _, error in struck(1, tmp_path, prepare, run, lambda _, at: kind(at)):
        output = root / "out"
        ends.append(error)
        if error is not None and (visible(output) != {*NAMES} or left(output)):
            assert is_there or not visible(output)
            if not isinstance(error, Killed | StoppedHalfwayError):
                assert (visible(output), left(output)) == (set(), set())
            try:
                write(output, CountingDisk(), monkeypatch)
            except KsegError as told:
                assert "is in place now" in str(told)  # noqa: PT017
        assert visible(output) == {*NAMES}
        assert left(output) == set()
    assert ends.index(None) == len(ends) - 1


@pytest.mark.parametrize("later", [set(), {"b-0"}])
def test_only_an_output_without_any_folder_is_not_made(later: set[str], tmp_path: Path) -> None:
    with new_directories(str(tmp_path / "out"), takes_lock=True) as made:
        made.add("a-0")
        made.drop("a-0")
        for name in later:
            made.add(name)
    assert (tmp_path / "out").exists() == bool(later)
    assert visible(tmp_path / "out") == later


def test_existing_output_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "out" / "a-0").mkdir(parents=True)
    with pytest.raises(PathError, match=r"a-0: already exists; nothing was written"):
        with new_directories(str(tmp_path / "out"), takes_lock=True) as made:
            made.add("a-0")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(PathError, match="is no directory"):
        with new_directories(str(tmp_path / "file"), takes_lock=True):
            pytest.fail("it is none")


def test_a_folder_that_another_run_has_just_made_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was empty when its names were read, and has its lock file when it is to be removed."""
    other = tmp_path / f".kseg-output.{'0' * 32}.new"
    other.mkdir()
    remove = Disk.remove_directory

    def late(disk: Disk, path: str) -> None:
        if path == str(other):
            (other / ".lock").touch()
        remove(disk, path)

    monkeypatch.setattr(Disk, "remove_directory", late)
    with new_directories(str(tmp_path), takes_lock=True) as made:
        Path(made.add("t-0"), "file").write_bytes(b"x")
    assert (tmp_path / "t-0/file").exists()
    assert (other / ".lock").exists()


def test_another_run_may_remove_a_new_folder_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has found the folder without its lock, and removes the lock file first."""
    tries = list[str]()

    def taken(folder: str, is_shared: bool) -> object:
        tries.append(folder)
        if len(tries) > 1:
            return lock.locked(folder, is_shared=is_shared)
        Path(folder, LOCK_NAME).touch()
        raise KsegError("another run has the lock")

    def unlink(path: str) -> None:
        if tries == [os.path.dirname(path)]:
            shutil.rmtree(tries[0])
        os.unlink(path)

    monkeypatch.setattr(module, "locked", taken)
    monkeypatch.setattr(Disk, "unlink", staticmethod(unlink))
    with new_directories(str(tmp_path / "out"), True) as made:
        made.add("t-0")
    assert (tmp_path / "out" / "t-0").is_dir()


OTHER = f".kseg-output.{'f' * 32}.complete"
"""The folder of another run that has moved only a part of its partitions into place."""


def left_by_another_run(output: Path) -> Path:
    """Has an entry of b-0 in a checkpoint, and b-0, which is not in place."""
    folder = output / OTHER
    (folder / "b-0").mkdir(parents=True)
    (folder / "b-0" / "0.log").write_bytes(b"of the other run")
    (folder / RECOVERY_POINTS).write_bytes(b"0\n1\nb 0 7\n")
    (folder / LOCK_NAME).touch()
    return folder


@pytest.mark.parametrize("name", ["a-0", "b-0"])
def test_a_run_that_was_killed_meanwhile_is_completed_first(name: str, tmp_path: Path) -> None:
    """The partitions and the checkpoint entries of both are kept."""
    with ExitStack() as ended:
        if name == "b-0":
            ended.enter_context(pytest.raises(PathError, match="all of it is in place now; nothing was written"))
        made = ended.enter_context(new_directories(str(tmp_path), takes_lock=True))
        Path(made.add(name), "0.log").write_bytes(b"own")
        made.rows = {RECOVERY_POINTS: {(name[0], 0): 5}}
        left_by_another_run(tmp_path)
    assert visible(tmp_path) == {name, "b-0", RECOVERY_POINTS}
    assert {path.name for path in tmp_path.iterdir()} - visible(tmp_path) == {LOCK_NAME}
    assert (tmp_path / "b-0" / "0.log").read_bytes() == b"of the other run"
    points = (tmp_path / RECOVERY_POINTS).read_bytes()
    assert points == (b"0\n2\nb 0 7\na 0 5\n" if name == "a-0" else b"0\n1\nb 0 7\n")


@pytest.mark.parametrize("begins_after", [False, True])
def test_a_run_that_moves_its_partitions_is_left_alone(begins_after: bool, tmp_path: Path) -> None:
    """Without the lock of the log directory, both may do so at once."""
    with ExitStack() as other:
        if begins_after:
            other.enter_context(lock.locked(str(left_by_another_run(tmp_path)), is_shared=True))
        with new_directories(str(tmp_path), takes_lock=False) as made:
            made.add("a-0")
            if not begins_after:
                other.enter_context(lock.locked(str(left_by_another_run(tmp_path)), is_shared=True))
        assert complete_new_directories(str(tmp_path), Disk()) == []
        assert sorted(os.listdir(tmp_path)) == [OTHER, "a-0"]
        assert (tmp_path / OTHER / "b-0" / "0.log").exists()
    assert len(complete_new_directories(str(tmp_path), Disk())) == 1
    assert sorted(os.listdir(tmp_path)) == ["a-0", "b-0", RECOVERY_POINTS]


def test_new_files_have_the_modes_of_the_umask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.umask(0o027)
    try:
        write(tmp_path / "out", Disk(), monkeypatch)
    finally:
        os.umask(before)
    assert (tmp_path / "out" / "a-0" / "0.log").stat().st_mode & 0o7777 == 0o640


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_an_output_belongs_to_the_owner_of_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tmp_path / "logs"
    model.mkdir(mode=0o750)
    os.chown(model, 1234, 2345)
    write(tmp_path / "out", Disk(), monkeypatch, str(model))
    for path in (tmp_path / "out", tmp_path / "out" / ".lock", tmp_path / "out" / "checkpoint"):
        assert (path.stat().st_uid, path.stat().st_gid) == (1234, 2345)
    assert (tmp_path / "out").stat().st_mode & 0o7777 == 0o750


@pytest.mark.parametrize("name", [".kseg-a.new", ".kseg-output.new", ".kseg-output.complete"])
@pytest.mark.parametrize("is_link", [False, True])
def test_a_file_or_link_named_like_a_staging_folder_stays(name: str, is_link: bool, tmp_path: Path) -> None:
    """It stops neither a writer nor a change of the log directory."""
    place, other = tmp_path / "logs", tmp_path / "other"
    for folder in (place, other):
        folder.mkdir()
    (other / "t-0").mkdir()
    (place / name).symlink_to(other) if is_link else (place / name).touch()
    assert complete_new_directories(str(place), Disk()) == []
    with new_directories(str(place), takes_lock=True) as made:
        made.add("t-1")
    assert sorted(os.listdir(place)) == sorted([name, ".lock", "t-1"])
    assert os.listdir(other) == ["t-0"]
