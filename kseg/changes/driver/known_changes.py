"""Lists the changes recorded in quarantines and journals, and removes the bytes that they keep."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kseg.changes import quarantine
from kseg.changes.disk import Disk
from kseg.changes.driver.failures import Failures
from kseg.changes.driver.paths import is_partition, locked_and_completed, of_topics
from kseg.changes.driver.reporter import Messages
from kseg.changes.driver.undoing import UndoOptions, resolve_path
from kseg.changes.journal import ABANDONED, DONE, Journal, journals
from kseg.changes.log_directory import changed_partitions, forget
from kseg.changes.manifest import COMMITTED, Change
from kseg.changes.undo import purge
from kseg.errors import KsegError, StoppedHalfwayError


class KnownChange(NamedTuple):
    """A change of a partition, or of a log directory as a whole if ``partitions`` is a number."""

    directory: str
    number: int
    time_ms: int
    command: str
    state: str
    kept_bytes: int
    kept: str
    partitions: int | None = None


class Purged(NamedTuple):
    """Bytes freed at a path, or in a dry run that could be freed, and the number of changes that kept them."""

    path: str
    freed_bytes: int
    changes: int


def known_changes(
    paths: Sequence[str], messages: Messages, topics: tuple[str, ...] = ()
) -> tuple[list[KnownChange], int]:
    """Returns the changes at the paths, oldest first for each directory, and the exit status.

    ``topics``: globs, of a log directory only such partitions.
    """
    found, failures = list[KnownChange](), Failures(messages)
    for path in of_topics(paths, topics, failures):
        with failures.of(path):
            is_single = is_partition(path)
            partitions = [path] if is_single else changed_partitions(path)
            found += [_of_journal(path, journal) for journal in ([] if is_single else journals(path))]
            for partition in partitions:
                found += [_of_change(partition, change) for change in quarantine.changes(partition)]
    return found, failures.status


def purge_changes(
    paths: Sequence[str],
    options: UndoOptions,
    messages: Messages,
    purged: Callable[[Purged], None],
    number: int | None = None,
) -> int:
    """Frees the bytes that finished changes keep, all or that of one ``number``. Returns the exit status.

    ``purged`` gets the result for each path.
    """
    failures, status = Failures(messages), 0
    for path in of_topics(paths, options.topics, failures):
        with failures.of(path):
            to_lock, real, is_single = resolve_path(path, options.takes_lock)
            if options.is_dry:
                partitions = [real] if is_single else changed_partitions(real)
                result = _purgeable(real, partitions, number)
                status = max(status, int(result.changes > 0))
            else:
                with locked_and_completed(real, is_single, to_lock, messages.warning):
                    result = _purge(real, is_single, number, options.quarantine)
                if number and not result.changes:
                    raise KsegError(f"{real}: there is no finished change {number}")
            purged(result)
    return max(status, failures.status)


def _of_change(directory: str, change: Change) -> KnownChange:
    return KnownChange(
        directory, change.number, change.time_ms, change.command, change.state, change.kept_bytes, change.kept
    )


def _of_journal(directory: str, journal: Journal) -> KnownChange:
    return KnownChange(
        directory, journal.number, journal.time_ms, journal.command, journal.state, 0, journal.path,
        len(journal.partitions),
    )  # fmt: skip


def _purgeable(path: str, partitions: list[str], number: int | None) -> Purged:
    found = [
        change for partition in partitions for change in quarantine.changes(partition) if _is_finished(change, number)
    ]
    return Purged(path, sum(change.kept_bytes for change in found), len(found))


def _is_finished(change: Change, number: int | None) -> bool:
    return change.state != COMMITTED and number in (None, change.number)


def _purge(path: str, is_single: bool, number: int | None, kept_in: str) -> Purged:
    """``kept_in``: the directory of bytes that were kept elsewhere; "" for the one in the manifest."""
    freed = count = 0
    if not is_single:
        for journal in journals(path):
            if journal.state in (DONE, ABANDONED) and number in (None, journal.number):
                count += 1
                freed += _forget(journal, kept_in)
        if number is not None:
            return Purged(path, freed, count)
    for partition in [path] if is_single else changed_partitions(path):
        for change in quarantine.changes(partition, kept_in):
            if _is_finished(change, number):
                count += 1
                freed += purge(change)
    return Purged(path, freed, count)


def _forget(journal: Journal, kept_in: str) -> int:
    try:
        return forget(journal, Disk(), kept_in)
    except OSError as error:
        raise StoppedHalfwayError(f"{journal.path}: {error.strerror or error}; repeat the command") from error
