"""Lists the changes recorded in quarantines and journals, and removes the bytes that they keep."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import NamedTuple

from kseg.changes import quarantine
from kseg.changes.disk import Disk
from kseg.changes.driver.failures import Failures
from kseg.changes.driver.paths import is_partition, locked_and_completed, paths_of_topics
from kseg.changes.driver.reporter import Messages
from kseg.changes.driver.undoing import UndoOptions, resolve_path
from kseg.changes.journal import ABANDONED, DONE, Journal, journals
from kseg.changes.log_directory import changed_partitions, forget
from kseg.changes.manifest import COMMITTED, Change
from kseg.changes.undo import purge
from kseg.errors import KsegError, StoppedHalfwayError
from kseg.stores.no_follow import resolved


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
    for path in paths_of_topics(paths, topics, failures):
        with failures.of(path):
            path = resolved(path)  # nothing follows links in a quarantine
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
    for path in paths_of_topics(paths, options.topics, failures):
        with failures.of(path):
            to_lock, real, is_single = resolve_path(path, options.takes_lock)
            with nullcontext() if options.is_dry else locked_and_completed(real, is_single, to_lock, messages.warning):
                found = _finished(real, is_single, number, options.quarantine)
                freed = found.kept_bytes if options.is_dry else _purge(found, options.quarantine)
            if number and not found.total:
                raise KsegError(f"{real}: there is no finished change {number}")
            if options.is_dry and found.total:
                status = max(status, 1)
            purged(Purged(real, freed, found.total))
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


class _Finished(NamedTuple):
    """What can be removed. ``parts``: changes of partitions that are removed with their journals; ``changes``: all
    others.
    """

    journals: list[Journal]
    parts: list[Change]
    changes: list[Change]

    @property
    def total(self) -> int:
        """The number of changes; one of a log directory counts as one."""
        return len(self.journals) + len(self.changes)

    @property
    def kept_bytes(self) -> int:
        return sum(change.kept_bytes for change in self.parts + self.changes)


def _finished(path: str, is_single: bool, number: int | None, kept_in: str) -> _Finished:
    """Returns the finished changes of a partition (``is_single``) or of a log directory.

    ``number``: only the change with this number; of a log directory, only its changes as a whole have numbers.
    ``kept_in``: as in `quarantine.changes`.
    """
    finished = [] if is_single else [journal for journal in journals(path) if journal.state in (DONE, ABANDONED)]
    found = _Finished([journal for journal in finished if number in (None, journal.number)], [], [])
    groups = {journal.group for journal in found.journals}
    for partition in [path] if is_single else changed_partitions(path):
        for change in quarantine.changes(partition, kept_in):
            if change.group in groups:
                found.parts.append(change)
            elif change.state != COMMITTED and (number is None or (is_single and number == change.number)):
                found.changes.append(change)
    return found


def _purge(found: _Finished, kept_in: str) -> int:
    """Returns the number of bytes freed."""
    return sum(_forget(journal, kept_in) for journal in found.journals) + sum(map(purge, found.changes))


def _forget(journal: Journal, kept_in: str) -> int:
    try:
        return forget(journal, Disk(), kept_in)
    except OSError as error:
        raise StoppedHalfwayError(f"{journal.path}: {error.strerror or error}; repeat the command") from error
