"""Undoes the last change of partitions and log directories, or completes an interrupted one."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from kseg.changes.driver.failures import Failures
from kseg.changes.driver.path_run import MARKER_REASON, RunState
from kseg.changes.driver.paths import (
    interrupted_changes,
    is_partition,
    locked_and_completed,
    of_topics,
    partitions_of_topics,
)
from kseg.changes.driver.reporter import Reporter
from kseg.changes.driver.run import Outcome
from kseg.changes.journal import MARKER, Journal
from kseg.changes.lock import directories_to_lock, log_directory_of
from kseg.changes.log_directory_undo import (
    last_journal,
    plan_log_directory_undo,
    restorable_marker,
    restored_content,
    sole_change,
    undo_log_directory,
    undo_partition,
)
from kseg.changes.plan import Plan
from kseg.changes.undo import changes_of, last_change, plan_all
from kseg.errors import KsegError, StoppedHalfwayError
from kseg.stores.no_follow import resolved


@dataclass(frozen=True, slots=True)
class UndoOptions:
    """``quarantine``: where bytes were kept, if not in the partition, and the partition has moved since; "" for
    the place that the change knows. ``topics``: globs, of a log directory only such partitions, each by itself.
    """

    is_dry: bool = False
    takes_lock: bool = True
    quarantine: str = ""
    topics: tuple[str, ...] = ()


def undo(paths: Sequence[str], options: UndoOptions, reporter: Reporter) -> Outcome:
    """Undoes the last change of each path. Errors of single paths are reported and do not stop the others."""
    failures, state = Failures(reporter), RunState(reporter, options.is_dry)
    for path in paths:
        with failures.of(path):
            for part in _changed(path, options):
                with failures.of(part):
                    _undo_path(part, options, state)
                state.not_applied()
        state.not_applied()
    would_change = options.is_dry and state.has_plans
    return Outcome(
        exit_status=max(failures.status, int(would_change)),
        is_dry=options.is_dry,
        has_changed=state.has_changed or failures.status == StoppedHalfwayError.exit_status,
        errors=dict(failures.errors),
    )


def complete(paths: Sequence[str], options: UndoOptions, reporter: Reporter) -> Outcome:
    """Completes interrupted changes at each path, or removes those that had changed nothing yet."""
    failures, status, has_changed = Failures(reporter), 0, False
    for path in of_topics(paths, options.topics, failures):
        with failures.of(path):
            to_lock, real, alone = place_to_change(path, options.takes_lock)
            if options.is_dry:
                status = max(status, int(_warn_of_interrupted(real, alone, reporter)))
                continue
            with locked_and_completed(real, alone, to_lock, reporter.warning) as completed:
                has_changed |= bool(completed)
    return Outcome(max(status, failures.status), options.is_dry, has_changed, errors=dict(failures.errors))


def _changed(path: str, options: UndoOptions) -> list[str]:
    """Returns the path itself; with topics the partitions of a log directory that have a change. Raises KsegError."""
    if not options.topics or is_partition(path):
        return [path]
    found = [part for part in partitions_of_topics(path, options.topics) if _has_change(part, options.quarantine)]
    if not found:
        raise KsegError(f"{path}: there is no change of these topics to undo")
    return found


def _has_change(partition: str, place: str) -> bool:
    try:
        last_change(partition, place)
    except KsegError:
        return False
    return True


def place_to_change(path: str, takes_lock: bool) -> tuple[list[str], str, bool]:
    """Returns the directories to lock, the resolved path, and whether it is a partition. Raises PathError."""
    real = resolved(path)
    alone = is_partition(real)
    return directories_to_lock(path, real, alone) if takes_lock else [], real, alone


def _warn_of_interrupted(path: str, alone: bool, reporter: Reporter) -> bool:
    """Warns of interrupted changes. Returns whether there are any."""
    found = interrupted_changes(path, alone)
    for line in found:
        reporter.warning(line)
    return bool(found)


def _undo_path(path: str, options: UndoOptions, state: RunState) -> None:
    to_lock, path, alone = place_to_change(path, options.takes_lock)
    act = _undo_partition if alone else _undo_log_directory
    if options.is_dry:
        if not _warn_of_interrupted(path, alone, state.reporter):
            act(path, options, state)
        return
    with locked_and_completed(path, alone, to_lock, state.reporter.warning):
        act(path, options, state)


def _undo_partition(path: str, options: UndoOptions, state: RunState) -> None:
    change = last_change(path, options.quarantine)
    if journal := sole_change(path, change.group):  # what was changed beside the partition comes back with it
        _undo_journal(journal, options, state)
        return
    found = plan_all(changes_of(path, change.group, options.quarantine) if change.group else [change])
    changes, root = [each for each, _ in found], log_directory_of(path)
    marker = Plan(root)
    if marker.state_of(MARKER) is not None:
        marker.delete(MARKER, MARKER_REASON)
        state.planned(marker)
    for _, plan in found:
        state.planned(plan)
    if restored := restorable_marker(changes):
        marker = Plan(root)
        marker.write(MARKER, [restored.content], "was so before")
        state.planned(marker)
    if not options.is_dry:
        try:
            undo_partition(changes)
        except OSError as error:
            raise StoppedHalfwayError(
                f"{path}: stopped half-way: {error.strerror or error}; repeat the command"
            ) from error
        state.applied()


def _undo_log_directory(path: str, options: UndoOptions, state: RunState) -> None:
    journal = last_journal(path)
    if journal is None:
        raise KsegError(f"{path}: there is no change of the log directory to undo; its partitions may have some")
    _undo_journal(journal, options, state)


def _undo_journal(journal: Journal, options: UndoOptions, state: RunState) -> None:
    path = journal.directory
    found = plan_log_directory_undo(journal, options.quarantine)
    for _, plan in found.partitions:
        state.planned(plan)
    root = Plan(path)
    for move in reversed(found.moves):
        root.move_directory(move.target, move.name, "was so before")
    for name in found.restored:
        content = restored_content(journal, name)
        if content is not None:
            root.write(name, [content], "was so before")
        elif root.state_of(name) is not None:
            root.delete(name, "was not there before")
    state.planned(root)
    for name in found.skipped:
        state.reporter.warning(f"{os.path.join(path, name)}: nothing of this change is left to put back")
    for name in found.not_restored:
        state.reporter.warning(f"{os.path.join(path, name)}: has changed since, and is not put back")
    if not options.is_dry:
        undo_log_directory(found)
        state.applied()
