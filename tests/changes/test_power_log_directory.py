"""Power cuts during changes of a log directory: the same command repeated, or an undo, has its full result."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from changes import test_directory_moves as moving
from changes import test_log_directory as changing
from changes.failing import QUICK
from changes.power import PowerCut, PowerDisk
from kseg.changes.apply import Keeping
from kseg.changes.disk import Disk
from kseg.changes.journal import DONE, journals
from kseg.changes.log_directory_roll_forward import complete_interrupted_in_log_directory
from kseg.changes.log_directory_undo import last_journal
from kseg.segment.files import CLEAN_SHUTDOWN

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc"),
    pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 24), marks=pytest.mark.slow)], ids=str),
]


def cut_at_each_call(
    prepare: Callable[[Path], object], run: Callable[[Path, Disk], object], folder: Path, seeds: range
) -> list[Path]:
    """Returns log directories: for each seed one for every 11th call before which the power failed, and one for a
    failure after the end.

    With every other seed, the process is killed at the call. It is run again, and the power fails later.
    """
    made = []
    for seed in seeds:
        for at in range(seed // 2 % 11, 10_000, 11):
            directory, rng = folder / f"{seed}-{at}" / "logs", random.Random(1000 * seed + at)
            prepare(directory)
            made.append(directory)
            disk = PowerDisk(directory, at)
            is_over = runs_to_its_end(run, directory, disk)
            if not is_over and seed % 2:
                disk.at = disk.calls + rng.randrange(80)
                runs_to_its_end(run, directory, disk)
            disk.cut(rng)
            if is_over:
                assert at > 0
                break
    return made


def runs_to_its_end(run: Callable[[Path, Disk], object], directory: Path, disk: PowerDisk) -> bool:
    try:
        run(directory, disk)
    except PowerCut:
        return False
    return True


def was_interrupted_twice(directory: Path) -> bool:
    """Whether the restoring of the clean shutdown marker may have been interrupted as well: then it may stay removed,
    which is safe.
    """
    return int(directory.parent.name.partition("-")[0]) % 2 == 1


def changed(directory: Path, keeping: Keeping | None = None, is_clean: bool = True) -> dict[str, bytes]:
    changing.make_log_directory(directory, is_clean)
    changing.command(directory, QUICK, keeping)
    return changing.all_files(directory)


@pytest.mark.parametrize("keeps", [True, False])
def test_a_command_is_repeated(keeps: bool, seeds: range, tmp_path: Path) -> None:
    keeping = Keeping(keeps)
    changing.make_log_directory(tmp_path / "before")
    before = changing.all_trees(tmp_path / "before")
    wanted = changed(tmp_path / "undisturbed", keeping)
    without_marker = changed(tmp_path / "unclean", keeping, is_clean=False)

    def run(directory: Path, disk: Disk) -> None:
        if not changing.is_over(directory, wanted):
            changing.command(directory, disk, keeping)
        complete_interrupted_in_log_directory(str(directory), disk)

    for directory in cut_at_each_call(changing.make_log_directory, run, tmp_path, seeds):
        if not changing.is_over(directory, wanted):
            changing.command(directory, QUICK, keeping)
        told = complete_interrupted_in_log_directory(str(directory), QUICK)
        assert not any("given up" in line for line in told)
        if (found := changing.all_files(directory)) == without_marker:
            assert was_interrupted_twice(directory)
            continue
        assert found == wanted
        assert len(journals(str(directory))) == keeps
        if keeps:
            changing.undo_all(directory)
            assert changing.all_trees(directory) == before


def test_a_command_is_undone(seeds: range, tmp_path: Path) -> None:
    changing.make_log_directory(tmp_path / "before")
    before = changing.all_trees(tmp_path / "before")
    wanted = changed(tmp_path / "undisturbed")

    def run(directory: Path, disk: Disk) -> None:
        if not changing.is_over(directory, wanted):
            changing.command(directory, disk)

    for directory in cut_at_each_call(changing.make_log_directory, run, tmp_path, seeds):
        complete_interrupted_in_log_directory(str(directory), QUICK)
        if last_journal(str(directory)) is not None:
            changing.undo_all(directory)
        if (found := changing.all_trees(directory)) != before:
            assert was_interrupted_twice(directory)
            found[""][CLEAN_SHUTDOWN] = before[""][CLEAN_SHUTDOWN]
        assert found == before
        assert journals(str(directory)) == []


def test_an_undo_is_completed(seeds: range, tmp_path: Path) -> None:
    changing.make_log_directory(tmp_path / "before")
    before = changing.all_trees(tmp_path / "before")

    def run(directory: Path, disk: Disk) -> None:
        complete_interrupted_in_log_directory(str(directory), disk)
        if last_journal(str(directory)) is not None:
            changing.undo_last(directory, disk)

    for directory in cut_at_each_call(changed, run, tmp_path, seeds):
        complete_interrupted_in_log_directory(str(directory), QUICK)
        if last_journal(str(directory)) is not None:
            changing.undo_last(directory, QUICK)
        assert changing.all_trees(directory) == before
        assert journals(str(directory)) == []


@pytest.mark.parametrize("is_undone", [False, True])
def test_directories_are_moved(is_undone: bool, seeds: range, tmp_path: Path) -> None:
    wanted = moving.taken_back(tmp_path / "undisturbed")
    moving.make_log_directory(tmp_path / "before")
    before = moving.found(tmp_path / "before")

    def run(root: Path, disk: Disk) -> None:
        if not any(journal.state == DONE for journal in journals(str(root))):
            moving.take_back(root, disk)

    for root in cut_at_each_call(moving.make_log_directory, run, tmp_path, seeds):
        if is_undone:
            moving.undo_all(root)
            if (found := moving.found(root)) != before:
                assert was_interrupted_twice(root)
                found[CLEAN_SHUTDOWN] = before[CLEAN_SHUTDOWN]
            assert found == before
            assert journals(str(root)) == []
            continue
        run(root, QUICK)
        assert moving.found(root) == wanted


def test_directories_are_moved_back(seeds: range, tmp_path: Path) -> None:
    moving.make_log_directory(tmp_path / "before")
    before = moving.found(tmp_path / "before")
    for root in cut_at_each_call(moving.taken_back, moving.undo_all, tmp_path, seeds):
        moving.undo_all(root)
        assert moving.found(root) == before
