"""Undoes the last change of partitions and log directories, completes an interrupted one, lists all."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from kseg.changes import quarantine
from kseg.changes import undo as undo_changes
from kseg.changes.disk import Disk
from kseg.changes.driver import command as driver
from kseg.changes.full_disk import TakenBack
from kseg.changes.journal import (
    OPEN,
    Journal,
    changed_partitions,
    forget,
    has_changed_anything,
    interruption,
    journals,
    partitions_now,
    read_root_file,
)
from kseg.changes.lock import directories_to_lock, locked, log_directory_of
from kseg.changes.manifest import ABANDONED, COMMITTED, DONE, Author, Change, FileHashes
from kseg.changes.plan import Plan
from kseg.errors import KsegError, StoppedHalfwayError, errors_at
from kseg.node.node import Nodes
from kseg.segment.files import CLEAN_SHUTDOWN, directory_name
from kseg.segment.paths import each_once, partition_count
from kseg.stores.no_follow import resolved
from kseg.stores.place import Place

# Lists the changes recorded in quarantines and journals, and removes the bytes that they keep.


@dataclass(frozen=True, slots=True)
class UndoOptions:
    """``quarantine``: the directory of bytes that were kept elsewhere, if the partition has moved since; "" for the one
    in the manifest. ``topics``: globs of the topics whose partitions of a log directory are undone, each by itself.
    """

    is_dry: bool = False
    takes_lock: bool = True
    quarantine: str = ""
    topics: tuple[str, ...] = ()


def undo(paths: Sequence[str], options: UndoOptions, reporter: driver.Reporter) -> driver.Outcome:
    """Undoes the last change of each path. Errors of single paths are reported and do not stop the others."""
    failures, state = driver.Failures(reporter), driver.RunState(reporter, options.is_dry)
    nodes = Nodes(paths)
    paths = each_once(nodes.paths)
    has_any = False
    reporter.begin(1, partition_count(paths))
    for path in paths:
        with failures.of(path):
            parts = _paths_to_undo(path, options, nodes)
            has_any |= bool(parts)
            for part in parts:
                with failures.of(part), _taken(part, options, reporter.warning, True) as (real, is_single, interrupted):
                    taken = {place for line in interrupted if isinstance(line, TakenBack) for place in line.directories}
                    is_done = Place(real).absolute in taken or (not is_single and taken and not _begun(real, is_single))
                    if is_done or (options.is_dry and interrupted):
                        state.has_plans = True
                    else:
                        _undo_last(real, is_single, options, state)
                state.not_applied()
        state.not_applied()
    if paths and not has_any and not failures.status:
        text = ", ".join(paths)
        failures.add(KsegError(f"{text}: there is no change of these topics to undo"), text)
    return state.outcome(failures)


def complete(paths: Sequence[str], options: UndoOptions, reporter: driver.Reporter) -> driver.Outcome:
    """Completes interrupted changes at each path, or removes those that had changed nothing yet."""
    failures, has_found, is_dry = driver.Failures(reporter), False, options.is_dry
    for path in driver.paths_of_topics(paths, options.topics, failures):
        with failures.of(path):
            with _taken(path, options, reporter.warning) as (real, is_single, interrupted):
                has_found |= bool(interrupted)
                if begun := _begun(real, is_single):
                    raise interruption(begun[0])
    would_change = is_dry and has_found
    status = max(failures.status, int(would_change))
    errors = dict(failures.errors)
    return driver.Outcome(status, is_dry, has_found and not is_dry, would_change=would_change, errors=errors)


def _begun(path: str, is_single: bool) -> list[Journal]:
    """Returns the journals of interrupted commands that only their repetition or undo ends."""
    found = journals(log_directory_of(path) if is_single else path)
    own = (each for each in found if not is_single or each.path_name == directory_name(path))
    return [each for each in own if each.state == OPEN and has_changed_anything(each)]


def _paths_to_undo(path: str, options: UndoOptions, nodes: Nodes) -> list[str]:
    """Returns the path itself; with topics the partitions of a log directory that have a change. Raises KsegError."""
    found, partitions = list[str](), driver.partitions_of_topics(path, options.topics, nodes)
    if partitions == [path]:
        return partitions
    for partition in partitions:
        with suppress(KsegError):
            undo_changes.last_change(partition, options.quarantine)
            found.append(partition)
    return found


@contextmanager
def _taken(
    path: str, options: UndoOptions, warn: Callable[[str], None], before_undo: bool = False, looks: bool = True
) -> Iterator[tuple[str, bool, list[str]]]:
    """Yields the resolved path, whether it is a partition, and a sentence for each interrupted change.

    These are completed, and the log directory is locked; in a dry run they are only reported, if it ``looks`` for them.
    ``before_undo``: as in `complete_interrupted`. Raises PathError.
    """
    real = driver.resolved_in_place(path)
    is_single = driver.is_partition(real)
    if options.is_dry:
        found = driver.interrupted_changes(real, is_single, before_undo=True) if looks else []
        for line in found:
            warn(line)
        yield real, is_single, found
        return
    with ExitStack() as held:
        for log_directory in directories_to_lock(path, real, is_single) if options.takes_lock else ():
            held.enter_context(locked(log_directory))
        yield real, is_single, driver.completed(real, is_single, warn, before_undo, options.quarantine)


def _undo_last(path: str, is_single: bool, options: UndoOptions, state: driver.RunState) -> None:
    journal = undo_changes.last_change_beside(path) if is_single else undo_changes.last_journal(path)
    if journal is None and not is_single:
        raise KsegError(
            f"{path}: there is no change of the log directory to undo: kseg undo --list shows those of its partitions, "
            "and --topic '*' undoes the last one of each"
        )
    if journal is None:
        change = undo_changes.last_change(path, options.quarantine)
        # The files of the log directory are restored with the partition.
        journal = undo_changes.sole_change(path, change.group)
    if journal is not None:
        _undo_journal(journal, options, state)
        return
    changes = undo_changes.changes_of(path, change.group, options.quarantine) if change.group else [change]
    plans, marker = undo_changes.plan_all(changes), Plan(log_directory_of(path))
    if marker.state_of(CLEAN_SHUTDOWN) is not None and any(change.changes_a_log for change in changes):
        marker.delete(CLEAN_SHUTDOWN, driver.CLEAN_SHUTDOWN_REASON)
        state.planned(marker)
    for plan in plans:
        state.planned(plan)
    if not options.is_dry:
        with errors_at(f"{path}: stopped half-way", StoppedHalfwayError, "; repeat the command"):
            undo_changes.undo_partition(changes)
        state.applied()


def _undo_journal(journal: Journal, options: UndoOptions, state: driver.RunState) -> None:
    path = journal.directory
    found = undo_changes.plan_log_directory_undo(journal, options.quarantine)
    for plan in found.plans:
        state.planned(plan)
    root = Plan(path)
    for move in reversed(found.moves):
        root.move_directory(move.target, move.name, "was so before")
    for name, content in found.restored.items():
        if content is not None:
            if (now := read_root_file(path, name)) is None or now.content != content:
                root.write(name, [content], "was so before")
        elif root.state_of(name) is not None:
            root.delete(name, "was not there before")
    state.planned(root)
    for name in found.skipped:
        state.reporter.warning(f"{os.path.join(path, name)}: nothing is left to restore")
    if found.used_since:
        state.reporter.warning(f"{os.path.join(path, CLEAN_SHUTDOWN)}: is not restored: {found.used_since}")
    for name in found.not_restored:
        state.reporter.warning(f"{os.path.join(path, name)}: has changed since, and is not restored")
    if not options.is_dry:
        undo_changes.undo_log_directory(found)
        state.applied()


class KnownChange(NamedTuple):
    """A change of a partition, or of a log directory as a whole if ``partitions`` is a number. ``author``: None in
    records of older versions. ``files``: their sizes and hashes before and after, by name.
    """

    directory: str
    number: int
    time_ms: int
    command: str
    state: str
    kept_bytes: int
    kept: str
    author: Author | None = None
    partitions: int | None = None
    files: Mapping[str, FileHashes] = MappingProxyType({})


class Purged(NamedTuple):
    """Bytes that the file system of a path gets back now, or would in a dry run; the number of changes that kept them.

    ``held_bytes``: those that other names still hold, as a rule .deleted, until a broker removes these at its start.
    """

    path: str
    freed_bytes: int
    held_bytes: int
    changes: int


def known_changes(
    paths: Sequence[str], messages: driver.Messages, topics: tuple[str, ...] = ()
) -> tuple[list[KnownChange], int]:
    """Returns the changes at the paths, oldest first for each directory, and the exit status.

    ``topics``: globs, of a log directory only such partitions.
    """
    found, failures = list[KnownChange](), driver.Failures(messages)
    for path in driver.paths_of_topics(paths, topics, failures):
        with failures.of(path):
            path = resolved(path)  # nothing follows links in a quarantine
            is_single = driver.is_partition(path)
            for each in [] if is_single else journals(path):
                header = path, each.number, each.time_ms, each.command, each.state
                found.append(KnownChange(*header, 0, each.path, each.author, len(partitions_now(each))))
            for partition in [path] if is_single else changed_partitions(path):
                for change in quarantine.changes(partition):
                    at = partition, change.number, change.time_ms, change.command, change.state
                    found.append(KnownChange(*at, change.kept_bytes, change.kept, change.author, files=change.hashes))
    return found, failures.status


def purge_changes(
    paths: Sequence[str],
    options: UndoOptions,
    messages: driver.Messages,
    purged: Callable[[Purged], None],
    number: int | None = None,
) -> int:
    """Frees the bytes that finished changes keep, all or that of one ``number``. Returns the exit status.

    ``purged`` gets the result for each path.
    """
    failures, status = driver.Failures(messages), 0
    for path in driver.paths_of_topics(paths, options.topics, failures):
        with failures.of(path):
            with _taken(path, options, messages.warning, looks=False) as (real, is_single, _):
                finished, parts, changes = _finished(real, is_single, number, options.quarantine)
                for change in parts + changes:
                    quarantine.check_kept_path(change)
                with errors_at(real, KsegError):
                    freed = quarantine.freed_by_removing(parts + changes)
                if not options.is_dry:
                    for journal in finished:
                        with errors_at(journal.path, StoppedHalfwayError, "; repeat the command"):
                            forget(journal, Disk(), [change for change in parts if change.group == journal.group])
                    for change in changes:
                        undo_changes.purge(change)
            total = len(finished) + len(changes)  # a change of a log directory counts as one
            if number and not total:
                raise KsegError(f"{real}: there is no finished change {number}")
            status = max(status, int(options.is_dry and total > 0))
            purged(Purged(real, *freed, total))
    return max(status, failures.status)


def _finished(
    path: str, is_single: bool, number: int | None, kept_in: str
) -> tuple[list[Journal], list[Change], list[Change]]:
    """Returns the finished changes of a partition (``is_single``) or of a log directory: their journals, the changes of
    partitions that are removed with these, and all others.

    ``number``: only the change with this number; of a log directory, only its changes as a whole have numbers.
    ``kept_in``: as in `quarantine.changes`.
    """
    every = journals(log_directory_of(path) if is_single else path)
    unfinished = {journal.group for journal in every if journal.state not in (DONE, ABANDONED)}
    finished = [
        journal for journal in every
        if journal.group not in unfinished
        and (undo_changes.is_sole(journal, path) if is_single else number in (None, journal.number))
    ]  # fmt: skip
    groups, parts, changes = {journal.group: journal for journal in finished}, list[Change](), list[Change]()
    for partition in [path] if is_single else changed_partitions(path):
        for change in quarantine.changes(partition, kept_in):
            if change.group in unfinished:
                continue  # its undo, or the repetition of its command, needs it
            if is_part := change.group in groups:
                change.name_before = groups[change.group].name_before(partition)
            if is_part and not is_single:
                parts.append(change)
            elif change.state != COMMITTED and (number is None or (is_single and number == change.number)):
                (parts if is_part else changes).append(change)
    chosen = {change.group for change in parts} if is_single else groups.keys()
    return [journal for journal in finished if journal.group in chosen], parts, changes
