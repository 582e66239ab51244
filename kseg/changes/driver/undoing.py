"""Undoes the last change of partitions and log directories, or completes an interrupted one."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from kseg.changes.driver.failures import Failures
from kseg.changes.driver.path_run import CLEAN_SHUTDOWN_REASON, RunState
from kseg.changes.driver.paths import (
    interrupted_changes,
    is_partition,
    locked_and_completed,
    partitions_of_topics,
    paths_of_topics,
)
from kseg.changes.driver.reporter import Reporter
from kseg.changes.driver.run import Outcome
from kseg.changes.journal import Journal
from kseg.changes.lock import directories_to_lock, log_directory_of
from kseg.changes.log_directory_undo import (
    last_change_beside,
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
from kseg.segment.files import CLEAN_SHUTDOWN
from kseg.segment.paths import partition_count
from kseg.stores.no_follow import resolved_to_change


@dataclass(frozen=True, slots=True)
class UndoOptions:
    """``quarantine``: the directory of bytes that were kept elsewhere, if the partition has moved since; "" for the one
    in the manifest. ``topics``: globs of the topics whose partitions of a log directory are undone, each by itself.
    """

    is_dry: bool = False
    takes_lock: bool = True
    quarantine: str = ""
    topics: tuple[str, ...] = ()


def undo(paths: Sequence[str], options: UndoOptions, reporter: Reporter) -> Outcome:
    """Undoes the last change of each path. Errors of single paths are reported and do not stop the others."""
    failures, state = Failures(reporter), RunState(reporter, options.is_dry)
    reporter.begin(1, partition_count(paths))
    for path in paths:
        with failures.of(path):
            for part in _paths_to_undo(path, options):
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
    for path in paths_of_topics(paths, options.topics, failures):
        with failures.of(path):
            to_lock, real, is_single = resolve_path(path, options.takes_lock)
            if options.is_dry:
                status = max(status, int(_warn_of_interrupted(real, is_single, reporter)))
                continue
            with locked_and_completed(real, is_single, to_lock, reporter.warning) as completed:
                has_changed |= bool(completed)
    return Outcome(max(status, failures.status), options.is_dry, has_changed, errors=dict(failures.errors))


def _paths_to_undo(path: str, options: UndoOptions) -> list[str]:
    """Returns the path itself; with topics the partitions of a log directory that have a change. Raises KsegError."""
    if not options.topics or is_partition(path):
        return [path]
    found = [part for part in partitions_of_topics(path, options.topics) if _has_change(part, options.quarantine)]
    if not found:
        raise KsegError(f"{path}: there is no change of these topics to undo")
    return found


def _has_change(partition: str, kept_in: str) -> bool:
    try:
        last_change(partition, kept_in)
    except KsegError:
        return False
    return True


def resolve_path(path: str, takes_lock: bool) -> tuple[list[str], str, bool]:
    """Returns the directories to lock, the resolved path, and whether it is a partition. Raises PathError."""
    real = resolved_to_change(path)
    is_single = is_partition(real)
    return directories_to_lock(path, real, is_single) if takes_lock else [], real, is_single


def _warn_of_interrupted(path: str, is_single: bool, reporter: Reporter) -> bool:
    """Warns of interrupted changes. Returns whether there are any."""
    found = interrupted_changes(path, is_single)
    for line in found:
        reporter.warning(line)
    return bool(found)


def _undo_path(path: str, options: UndoOptions, state: RunState) -> None:
    to_lock, path, is_single = resolve_path(path, options.takes_lock)
    undo_path = _undo_partition if is_single else _undo_log_directory
    if options.is_dry:
        if not _warn_of_interrupted(path, is_single, state.reporter):
            undo_path(path, options, state)
        return
    with locked_and_completed(path, is_single, to_lock, state.reporter.warning):
        undo_path(path, options, state)


def _undo_partition(path: str, options: UndoOptions, state: RunState) -> None:
    if (journal := last_change_beside(path)) is not None:
        _undo_journal(journal, options, state)
        return
    change = last_change(path, options.quarantine)
    if journal := sole_change(path, change.group):  # the files of the log directory are restored with the partition
        _undo_journal(journal, options, state)
        return
    found = plan_all(changes_of(path, change.group, options.quarantine) if change.group else [change])
    changes, root = [each for each, _ in found], log_directory_of(path)
    marker = Plan(root)
    if marker.state_of(CLEAN_SHUTDOWN) is not None and any(change.changes_a_log for change in changes):
        marker.delete(CLEAN_SHUTDOWN, CLEAN_SHUTDOWN_REASON)
        state.planned(marker)
    for _, plan in found:
        state.planned(plan)
    restored, why = restorable_marker(changes)
    if restored is not None:
        marker = Plan(root)
        marker.write(CLEAN_SHUTDOWN, [restored.content], "was so before")
        state.planned(marker)
    elif why:
        state.reporter.warning(f"{os.path.join(root, CLEAN_SHUTDOWN)}: is not restored: {why}")
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
        raise KsegError(
            f"{path}: there is no change of the log directory to undo: kseg undo --list shows those of its partitions, "
            "and --topic '*' undoes the last one of each"
        )
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
        state.reporter.warning(f"{os.path.join(path, name)}: nothing is left to restore")
    for name in found.not_restored:
        state.reporter.warning(f"{os.path.join(path, name)}: has changed since, and is not restored")
    if not options.is_dry:
        undo_log_directory(found)
        state.applied()
