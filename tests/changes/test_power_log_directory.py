"""Power cuts during changes of a log directory: the same command repeated, or an undo, has its full result."""

import os
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from changes import test_directory_moves as moving
from changes import test_log_directory as changing
from changes.failing import QUICK
from changes.power import PowerCut, PowerDisk
from kseg.changes.apply import Keeping
from kseg.changes.disk import Disk
from kseg.changes.journal import DONE, journals
from kseg.changes.undo import complete_interrupted_in_log_directory, last_journal
from kseg.segment.files import CLEAN_SHUTDOWN

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
SLOW = [pytest.param(each, range(4, 24), marks=pytest.mark.slow) for each in (True, False)]
few_seeds = pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 24), marks=pytest.mark.slow)], ids=str)


def cut_at_calls(
    prepare: Callable[[Path], object],
    run: Callable[[Path, Disk], object],
    folder: Path,
    seeds: range,
    apart: int = 11,
) -> list[Path]:
    """Returns log directories: for each seed one for calls some ``apart`` and for each of the last ones, before which
    the power failed, and one for a failure after the end.

    With every other seed, the process is killed at the call. It is run again, and the power fails later.
    """
    prepare(folder / "counted" / "logs")
    counted = PowerDisk(folder / "counted" / "logs")
    run(counted.root, counted)
    made = []
    for seed in seeds:
        calls = {*range(seed // 2 % apart, counted.calls, apart), *range(counted.calls - 6, counted.calls + 1)}
        for at in sorted(calls):
            directory, rng = folder / f"{seed}-{at}" / "logs", random.Random(1000 * seed + at)
            prepare(directory)
            made.append(directory)
            disk = PowerDisk(directory, at)
            is_over = runs_to_its_end(run, directory, disk)
            assert is_over == (at == counted.calls)
            if not is_over and seed % 2:
                disk.at = disk.calls + rng.randrange(80)
                runs_to_its_end(run, directory, disk)
            disk.cut(rng)
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


@pytest.mark.sampled(2)
@few_seeds
@pytest.mark.parametrize("keeps, at_once", [(True, 1), (False, 1), (True, 3), (False, 3)])
def test_a_command_is_repeated(keeps: bool, at_once: int, seeds: range, tmp_path: Path) -> None:
    keeping = Keeping(keeps)
    changing.make_log_directory(tmp_path / "before")
    before = changing.all_trees(tmp_path / "before")
    wanted = changed(tmp_path / "undisturbed", keeping)
    without_marker = changed(tmp_path / "unclean", keeping, is_clean=False)

    def run(directory: Path, disk: Disk) -> None:
        if not changing.is_over(directory, wanted):
            changing.command(directory, disk, keeping, at_once=at_once)
        complete_interrupted_in_log_directory(str(directory), disk)

    for directory in cut_at_calls(changing.make_log_directory, run, tmp_path, seeds):
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


@few_seeds
def test_a_command_is_undone(seeds: range, tmp_path: Path) -> None:
    changing.make_log_directory(tmp_path / "before")
    before = changing.all_trees(tmp_path / "before")
    wanted = changed(tmp_path / "undisturbed")

    def run(directory: Path, disk: Disk) -> None:
        if not changing.is_over(directory, wanted):
            changing.command(directory, disk)

    for directory in cut_at_calls(changing.make_log_directory, run, tmp_path, seeds):
        complete_interrupted_in_log_directory(str(directory), QUICK)
        if last_journal(str(directory)) is not None:
            changing.undo_all(directory)
        if (found := changing.all_trees(directory)) != before:
            assert was_interrupted_twice(directory)
            found[""][CLEAN_SHUTDOWN] = before[""][CLEAN_SHUTDOWN]
        assert found == before
        assert journals(str(directory)) == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("is_clean", "seeds"), [(True, range(1)), (False, range(4)), *SLOW], ids=str)
def test_an_undo_is_completed(is_clean: bool, seeds: range, tmp_path: Path) -> None:
    """Without a marker, the last file of the root is removed, not replaced, before the journal goes."""
    changing.make_log_directory(tmp_path / "before", is_clean)
    before = changing.all_trees(tmp_path / "before")

    def run(directory: Path, disk: Disk) -> None:
        complete_interrupted_in_log_directory(str(directory), disk)
        if last_journal(str(directory)) is not None:
            changing.undo_last(directory, disk)

    for directory in cut_at_calls(partial(changed, is_clean=is_clean), run, tmp_path, seeds):
        complete_interrupted_in_log_directory(str(directory), QUICK)
        if last_journal(str(directory)) is not None:
            changing.undo_last(directory, QUICK)
        assert changing.all_trees(directory) == before
        assert journals(str(directory)) == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("is_undone", "seeds"), [(True, range(1)), (False, range(4)), *SLOW], ids=str)
def test_directories_are_moved(is_undone: bool, seeds: range, tmp_path: Path) -> None:
    wanted = moving.taken_back(tmp_path / "undisturbed")
    moving.make_log_directory(tmp_path / "before")
    before = moving.found(tmp_path / "before")

    def run(root: Path, disk: Disk) -> None:
        if not any(journal.state == DONE for journal in journals(str(root))):
            moving.take_back(root, disk)

    for root in cut_at_calls(moving.make_log_directory, run, tmp_path, seeds, apart=3):
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


@few_seeds
def test_directories_are_moved_back(seeds: range, tmp_path: Path) -> None:
    moving.make_log_directory(tmp_path / "before")
    before = moving.found(tmp_path / "before")
    for root in cut_at_calls(moving.taken_back, moving.undo_all, tmp_path, seeds, apart=3):
        moving.undo_all(root)
        assert moving.found(root) == before


def test_an_undo_that_a_killed_process_began_is_known_after_a_power_cut(tmp_path: Path) -> None:
    """The line that says so was written, but not synced."""
    moving.make_log_directory(tmp_path / "before")
    before = moving.found(tmp_path / "before")
    for later in range(0, 60, 2):
        root = tmp_path / str(later) / "logs"
        moving.taken_back(root)
        (journal,) = journals(str(root))
        size = os.path.getsize(journal.path)
        disk, calls = PowerDisk(root, 0), 0
        while os.path.getsize(journal.path) == size:
            disk.at, calls = disk.calls + calls, calls + 1
            assert not runs_to_its_end(moving.undo_all, root, disk)
        disk.at = disk.calls + later
        runs_to_its_end(moving.undo_all, root, disk)
        disk.cut(random.Random(later))
        moving.undo_all(root)
        assert moving.found(root) == before
