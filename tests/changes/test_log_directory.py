"""Changes of log directories: a command that is killed at any point and repeated has the result of an uninterrupted
run.
"""

import errno
import os
from functools import partial
from pathlib import Path

import pytest

from changes.failing import QUICK, FailingDisk, Killed, KillingDisk, every_call, killed_at, struck
from changes.power import KILLED, TWICE, ended_at, endings
from changes.trees import Tree, all_files, make, plan_of, tree
from kseg.changes.apply import Keeping, apply
from kseg.changes.disk import Disk
from kseg.changes.journal import DONE, LogDirectoryChange, journals, partitions_now
from kseg.changes.plan import Plan
from kseg.changes.undo import (
    LogDirectoryUndo,
    complete_interrupted_in_log_directory,
    last_change,
    last_journal,
    plan_log_directory_undo,
    undo_log_directory,
    undo_partition,
)
from kseg.errors import KsegError, StoppedHalfwayError
from kseg.segment.files import CLEAN_SHUTDOWN

POINTS = "recovery-point-offset-checkpoint"
MARKS = "replication-offset-checkpoint"
ROOT = {
    CLEAN_SHUTDOWN: b'{"version":0,"brokerEpoch":7}',
    POINTS: b"0\n2\na 0 90\nb 0 5\n",
    "meta.properties": b"version=1\n",
}
PARTITIONS = ("a-0", "b-0", "c-0")


def make_log_directory(directory: Path, is_clean: bool = True) -> None:
    make(directory, ROOT if is_clean else {name: ROOT[name] for name in ROOT if name != CLEAN_SHUTDOWN})
    for name in PARTITIONS:
        make(directory / name, {"0.log": name.encode() * 100, "0.index": b"stale", "1.log": b"later"})
    make(directory / "c-0", {"0.log": b"c-0" * 3})  # nothing to do: short, without an index


def command(
    directory: Path, disk: Disk, keeping: Keeping | None = None, name: str = "recover --mode broker", at_once: int = 1
) -> list[str]:
    """Runs a command that depends on the root's files as its start finds them, and changes these."""
    told = complete_interrupted_in_log_directory(str(directory), disk)
    change = LogDirectoryChange(str(directory), name, (POINTS, MARKS), keeping, disk)
    point = change.known[POINTS]
    assert point is not None
    size = 90 if change.known[CLEAN_SHUTDOWN] else 30
    size += point.content.count(b"90")
    plans = []
    for path in sorted(directory.glob("*-0")):
        plan = Plan(str(path))
        if (path / "0.index").exists():
            if (path / "1.log").exists() and path.name != "c-0":
                plan.delete("1.log", "is behind a cut")
            if (path / "0.log").stat().st_size > size:
                plan.truncate("0.log", size, "is damaged")
            if (path / "0.index").read_bytes() != b"rebuilt" and path.name != "c-0":
                plan.write("0.index", [b"rebuilt"], "rebuilt")
        plans.append(plan)
    with change.rolled_back_if_unchanged():
        found = [result for _, result in change.apply_all(plans, at_once)]
        for result in found:
            if isinstance(result, KsegError):
                raise result
    assert [each is not None for each in found] == [bool(plan) for plan in plans]
    root = Plan(str(directory))
    if any(plans) or change.has_changed:
        root.write(POINTS, [point.content.replace(b"90", b"%d" % size)], "pointed beyond the end")
        root.write(MARKS, [b"new"], "was missing")
    change.finish(root)
    return told + change.messages


def all_trees(directory: Path) -> dict[str, Tree]:
    found = {name: tree(directory / name) for name in PARTITIONS}
    root = {name: state for name, state in tree(directory).items() if not name.startswith(".kseg-change-")}
    return {**found, "": root}


def test_an_interrupt_after_a_partition_was_changed_restores_nothing(tmp_path: Path) -> None:
    make_log_directory(tmp_path)
    change = LogDirectoryChange(str(tmp_path), "recover", (POINTS, MARKS), disk=QUICK)
    change.apply(plan_of(tmp_path / "a-0", ("truncate", "0.log", 90, "is damaged")))
    with pytest.raises(KeyboardInterrupt), change.rolled_back_if_unchanged():
        raise KeyboardInterrupt
    assert change.is_begun
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()


@pytest.mark.sampled(7)
@every_call
@endings
@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("is_clean, at_once", [(True, 1), (False, 1), (True, 3)])
def test_a_kill_is_repeated(keeps: bool, is_clean: bool, at_once: int, ending: str, step: int, tmp_path: Path) -> None:
    keeping = Keeping(keeps)
    make_log_directory(tmp_path / "before", is_clean)
    before = all_trees(tmp_path / "before")
    wanted = changed(tmp_path / "undisturbed", keeping, is_clean)
    without_marker = changed(tmp_path / "unclean", keeping, is_clean=False)
    assert CLEAN_SHUTDOWN not in wanted
    assert len(wanted["a-0/0.log"]) == 31 + 60 * is_clean

    def run(directory: Path, disk: Disk) -> None:
        if not is_over(directory, wanted):
            command(directory, disk, keeping, at_once=at_once)
        told = complete_interrupted_in_log_directory(str(directory), disk)
        assert not any("given up" in line for line in told)

    for directory in ended_at(ending, step, tmp_path, partial(make_log_directory, is_clean=is_clean), run):
        if any(len(path.read_bytes()) != 300 for path in directory.glob("[ab]-0/0.log")):
            # No broker may skip the recovery of a partly changed directory.
            assert not (directory / CLEAN_SHUTDOWN).exists()
        run(directory, QUICK)
        if (result := all_files(directory)) != wanted:
            assert (ending, result) == (TWICE, without_marker)
            continue
        assert len(journals(str(directory))) == keeps
        if keeps:
            undo_all(directory)
            assert all_trees(directory) == before


def is_over(directory: Path, wanted: dict[str, bytes]) -> bool:
    """Whether the command was killed after its last change, so that repeating it would be a second run."""
    found = journals(str(directory))
    return any(journal.state == DONE for journal in found) or (not found and all_files(directory) == wanted)


def undo_planned(directory: Path) -> LogDirectoryUndo:
    journal = last_journal(str(directory))
    assert journal is not None
    return plan_log_directory_undo(journal)


def undo_all(directory: Path) -> None:
    complete_interrupted_in_log_directory(str(directory), QUICK)
    found = undo_planned(directory)
    assert (found.not_restored, found.skipped) == ([], [])
    undo_log_directory(found, QUICK)


@pytest.mark.sampled(6)
@every_call
@endings
def test_a_command_that_ended_can_be_undone_instead(ending: str, step: int, tmp_path: Path) -> None:
    make_log_directory(tmp_path / "before")
    before, wanted = all_trees(tmp_path / "before"), changed(tmp_path / "undisturbed")

    def run(directory: Path, disk: Disk) -> None:
        if not is_over(directory, wanted):
            command(directory, disk)

    for directory in ended_at(ending, step, tmp_path, make_log_directory, run):
        complete_interrupted_in_log_directory(str(directory), QUICK)
        if last_journal(str(directory)) is not None:
            undo_all(directory)
        if (result := all_trees(directory)) != before:
            assert ending == TWICE  # then the marker may stay removed, which is safe
            result[""][CLEAN_SHUTDOWN] = before[""][CLEAN_SHUTDOWN]
        assert result == before
        assert journals(str(directory)) == []


def changed(directory: Path, keeping: Keeping | None = None, is_clean: bool = True) -> dict[str, bytes]:
    make_log_directory(directory, is_clean)
    command(directory, QUICK, keeping)
    return all_files(directory)


@pytest.mark.sampled(3)
@every_call
@endings
@pytest.mark.parametrize("is_clean", [True, False])
def test_an_undo_that_ended_is_continued(is_clean: bool, ending: str, step: int, tmp_path: Path) -> None:
    """Without a marker, the last file of the root is removed, not replaced, before the journal goes."""
    make_log_directory(tmp_path / "before", is_clean)
    before = all_trees(tmp_path / "before")

    def run(directory: Path, disk: Disk) -> None:
        complete_interrupted_in_log_directory(str(directory), disk)
        if last_journal(str(directory)) is not None:
            undo_log_directory(undo_planned(directory), disk)

    for directory in ended_at(ending, step, tmp_path, partial(changed, is_clean=is_clean), run):
        if ending == KILLED:
            assert not (directory / CLEAN_SHUTDOWN).exists() or all_trees(directory) == before
        run(directory, QUICK)
        assert all_trees(directory) == before
        assert journals(str(directory)) == []


@every_call
def test_an_undo_from_bytes_that_have_moved_is_continued(step: int, tmp_path: Path) -> None:
    make_log_directory(tmp_path / "before")
    before = all_trees(tmp_path / "before")

    def prepare(directory: Path) -> None:
        make_log_directory(directory.with_name("logs"))
        command(directory.with_name("logs"), QUICK, Keeping(elsewhere=str(directory.with_name("kept"))))
        directory.with_name("logs").rename(directory)
        directory.with_name("kept").rename(directory.with_name("elsewhere"))

    def run(directory: Path, disk: Disk) -> None:
        kept_in = str(directory.with_name("elsewhere"))
        complete_interrupted_in_log_directory(str(directory), disk, True, kept_in)
        if (journal := last_journal(str(directory))) is not None:
            undo_log_directory(plan_log_directory_undo(journal, kept_in), disk)

    for directory in killed_at(step, tmp_path, prepare, run):
        run(directory, QUICK)
        assert all_trees(directory) == before


@pytest.mark.sampled(3)
@every_call
@pytest.mark.parametrize("at_once", [1, 3])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_after_errors_the_same_command_completes_it(number: int, at_once: int, step: int, tmp_path: Path) -> None:
    undisturbed = tmp_path / "undisturbed"
    make_log_directory(undisturbed)
    before = all_trees(undisturbed)
    command(undisturbed, QUICK)
    wanted = all_files(undisturbed)

    def run(directory: Path, disk: Disk) -> None:
        command(directory, disk, at_once=at_once)

    for directory, _, error in struck(step, tmp_path, make_log_directory, run, lambda _, at: FailingDisk(at, number)):
        if error is not None and not isinstance(error, StoppedHalfwayError):
            assert all_trees(directory) == before
            assert last_journal(str(directory)) is None
        if error is not None and not is_over(directory, wanted):
            command(directory, QUICK)
        assert all_files(directory) == wanted


def killed_in_the_middle(directory: Path) -> None:
    """Leaves a directory in which one partition is finished."""
    make_log_directory(directory)
    counting = KillingDisk(None)
    copy = directory.parent / "counted"
    make_log_directory(copy)
    command(copy, counting)
    names = [i for i, name in enumerate(counting.calls) if name == "make_directory"]
    with pytest.raises(Killed):
        command(directory, KillingDisk(names[4]))  # the second partition's quarantine
    (journal,) = journals(str(directory))
    assert partitions_now(journal) == {"a-0": "a-0"}


def test_another_command_does_not_continue(tmp_path: Path) -> None:
    directory = tmp_path / "logs"
    killed_in_the_middle(directory)
    found = all_files(directory)
    with pytest.raises(KsegError, match=r"'recover --mode broker' was interrupted here: repeat it, or .* kseg undo"):
        command(directory, QUICK, name="compact")
    with pytest.raises(KsegError, match=r"keeps removed bytes: repeat it without --no-quarantine, or .* kseg undo"):
        command(directory, QUICK, Keeping(False))
    assert all_files(directory) == found


def test_what_was_begun_without_a_quarantine_does_not_keep_the_rest(tmp_path: Path) -> None:
    make_log_directory(tmp_path)
    change = LogDirectoryChange(str(tmp_path), "recover", (POINTS, MARKS), Keeping(False), QUICK)
    change.apply(plan_of(tmp_path / "a-0", ("truncate", "0.log", 90, "is damaged")))
    found = all_files(tmp_path)
    with pytest.raises(KsegError, match="keeps no removed bytes: repeat it with --no-quarantine"):
        LogDirectoryChange(str(tmp_path), "recover", (POINTS, MARKS), disk=QUICK)
    assert all_files(tmp_path) == found


@pytest.mark.parametrize("trace", ["marker", "checkpoint", "new topic"])
def test_a_broker_run_in_between_is_detected(trace: str, tmp_path: Path) -> None:
    directory = tmp_path / "logs"
    killed_in_the_middle(directory)
    if trace == "marker":
        (directory / CLEAN_SHUTDOWN).write_bytes(ROOT[CLEAN_SHUTDOWN])
    elif trace == "checkpoint":
        (directory / POINTS).write_bytes(b"0\n1\na 0 91\n")
    else:
        (directory / "new-0").mkdir()
    told = command(directory, QUICK)
    assert [line for line in told if "begun anew" in line] != []
    is_clean = trace == "marker"
    assert len((directory / "b-0/0.log").read_bytes()) == (91 if is_clean else 30 + (trace == "new topic"))


def test_nothing_to_do_leaves_no_trace(tmp_path: Path) -> None:
    make_log_directory(tmp_path / "logs")
    for path in (tmp_path / "logs").glob("*-0/*"):
        path.unlink()
    before = os.stat(tmp_path / "logs").st_mtime_ns, all_trees(tmp_path / "logs")
    command(tmp_path / "logs", QUICK)
    assert (os.stat(tmp_path / "logs").st_mtime_ns, all_trees(tmp_path / "logs")) == before


def test_files_that_a_broker_has_written_since_are_not_restored(tmp_path: Path) -> None:
    directory = tmp_path / "logs"
    make_log_directory(directory)
    before = all_files(directory)
    command(directory, QUICK)
    (directory / POINTS).write_bytes(b"a broker's")
    (directory / CLEAN_SHUTDOWN).write_bytes(b"a broker's")
    found = undo_planned(directory)
    assert sorted(found.not_restored) == sorted([CLEAN_SHUTDOWN, POINTS])
    undo_log_directory(found, QUICK)
    assert all_files(directory) == {name: data for name, data in before.items() if name != CLEAN_SHUTDOWN} | {
        POINTS: b"a broker's"
    }


def cut_one(directory: Path, disk: Disk, name: str, keeps: bool = True) -> None:
    """A command on one partition, which leaves the root's files alone."""
    complete_interrupted_in_log_directory(str(directory), disk)
    change = LogDirectoryChange(str(directory), f"cut {name}", (POINTS,), Keeping(keeps), disk, path_name=name)
    change.leave_root_files()
    plan = Plan(str(directory / name))
    if (directory / name / "1.log").exists():
        plan.delete("1.log", "goes")
    with change.rolled_back_if_unchanged():
        change.apply(plan)
    change.finish()


@every_call
@pytest.mark.parametrize("keeps", [True, False])
def test_a_killed_change_of_one_partition_hinders_no_other(keeps: bool, step: int, tmp_path: Path) -> None:
    make_log_directory(tmp_path / "before")
    before = all_trees(tmp_path / "before")
    for directory in killed_at(
        step, tmp_path, make_log_directory, lambda path, disk: cut_one(path, disk, "a-0", keeps)
    ):
        time_ns = (directory / POINTS).stat().st_mtime_ns
        (directory / POINTS).write_bytes(ROOT[POINTS].replace(b"90", b"91"))  # is no part of the change
        os.utime(directory / POINTS, ns=(time_ns, time_ns))
        cut_one(directory, QUICK, "b-0")
        is_cut = not (directory / "a-0/1.log").exists()
        found = journals(str(directory))
        assert [journal.partitions for journal in found] == [["a-0"]] * (is_cut and keeps) + [["b-0"]]
        assert {journal.state for journal in found} == {DONE}
        undo_all(directory)
        assert all_trees(directory)["b-0"] == before["b-0"]
        assert (directory / CLEAN_SHUTDOWN).exists() is not is_cut


def test_partitions_may_be_undone_one_by_one(tmp_path: Path) -> None:
    directory = tmp_path / "logs"
    make_log_directory(directory)
    before = all_trees(directory)
    command(directory, QUICK)
    undo_partition([last_change(str(directory / "b-0"))], QUICK)
    found = undo_planned(directory)
    assert found.skipped == ["b-0"]
    undo_log_directory(found, QUICK)
    assert all_trees(directory) == before


def test_a_later_change_of_a_partition_is_undone_first(tmp_path: Path) -> None:
    directory = tmp_path / "logs"
    make_log_directory(directory)
    command(directory, QUICK)
    apply(plan_of(directory / "a-0", ("truncate", "0.log", 3, "once more")), "later", disk=QUICK)
    with pytest.raises(KsegError, match="'later' came later; undo it first"):
        undo_planned(directory)


def rebuild(directory: Path, disk: Disk) -> None:
    """A command that changes no .log."""
    complete_interrupted_in_log_directory(str(directory), disk)
    change = LogDirectoryChange(str(directory), "reindex", disk=disk, keeps_marker=True)
    assert change.messages == [] or "going on" in change.messages[0]
    for path in sorted(directory.glob("[ab]-0")):
        plan = Plan(str(path))
        if (path / "0.index").read_bytes() != b"rebuilt":
            plan.write("0.index", [b"rebuilt"], "rebuilt")
        change.apply(plan)
    change.finish()


@every_call
def test_the_marker_stays_if_no_log_changes_despite_kills(step: int, tmp_path: Path) -> None:
    for directory in killed_at(step, tmp_path, make_log_directory, rebuild):
        assert (directory / CLEAN_SHUTDOWN).read_bytes() == ROOT[CLEAN_SHUTDOWN]
        rebuild(directory, QUICK)
        assert (directory / CLEAN_SHUTDOWN).read_bytes() == ROOT[CLEAN_SHUTDOWN]
        assert [(directory / name / "0.index").read_bytes() for name in ("a-0", "b-0")] == [b"rebuilt"] * 2


def write_properties(directory: Path, disk: Disk) -> None:
    """A command that writes meta.properties and nothing else."""
    complete_interrupted_in_log_directory(str(directory), disk)
    change = LogDirectoryChange(str(directory), "recover", ("meta.properties",), disk=disk)
    plan = Plan(str(directory))
    if (directory / "meta.properties").read_bytes() != b"version=0\n":
        plan.write("meta.properties", [b"version=0\n"], "is wrong")
    with change.rolled_back_if_unchanged():
        change.finish(plan)


def test_meta_properties_alone_leaves_the_marker(tmp_path: Path) -> None:
    directory = tmp_path / "logs"
    make_log_directory(directory)
    write_properties(directory, QUICK)
    assert (directory / "meta.properties").read_bytes() == b"version=0\n"
    assert (directory / CLEAN_SHUTDOWN).read_bytes() == ROOT[CLEAN_SHUTDOWN]


@every_call
def test_a_kill_while_meta_properties_is_written(step: int, tmp_path: Path) -> None:
    """No open journal stays, and a change of logs that follows still removes the marker."""
    for directory in killed_at(step, tmp_path, make_log_directory, write_properties):
        write_properties(directory, QUICK)
        assert (directory / "meta.properties").read_bytes() == b"version=0\n"
        assert all(journal.state != "open" for journal in journals(str(directory)))
        command(directory, QUICK)
        assert not (directory / CLEAN_SHUTDOWN).exists()
