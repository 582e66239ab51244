"""The base class of all changing commands: a planner makes the plans, `kseg.changes.driver.path_run` applies them; the
reporter gets plans and results."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from kseg.changes.apply import Keeping
from kseg.changes.journal import Known
from kseg.changes.manifest import Change
from kseg.changes.plan import Plan
from kseg.errors import KsegError, RequestError, caused, text_of
from kseg.segment.files import own_name
from kseg.stores.source import is_disk_error
from kseg.stores.stored_object import shown

# The interface through which a changing command reports plans, results and messages, and a recording of it.

# The interface through which long passes over files report how many bytes they have read.


class Progress(Protocol):
    """A display of progress, as a context manager. ``is_on``: whether anything is shown."""

    total: int | None
    """Bytes to be read, None if unknown."""
    is_on: bool

    def __enter__(self) -> "Progress": ...

    def __exit__(self, *error: object) -> None: ...

    def at(self, path: str) -> None:
        """Sets the current file or directory."""

    def advance(self, count: int) -> None:
        """Adds ``count`` bytes."""

    def erase(self) -> None:
        """Removes the display until the next `advance`, so that other output can be written."""


class _NoProgress:
    total: int | None = None
    is_on = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def at(self, path: str) -> None:
        """Shows nothing."""

    def advance(self, count: int) -> None:
        """Shows nothing."""

    def erase(self) -> None:
        """Shows nothing."""


NO_PROGRESS: Progress = _NoProgress()


# Collects the errors of single paths and partitions, so that a changing command continues with the others.


Row = dict[str, Any]
"""A JSON object with a ``type``, as `kseg.output.json_schema` describes it."""


class Messages(Protocol):
    """Receives sentences for people."""

    def error(self, message: object) -> None:
        """A path or partition failed; the command continues with the others."""

    def warning(self, message: str) -> None:
        """Something that users should know."""

    def detail(self, message: str) -> None:
        """Something for users who ask for more."""


class Reporter(Messages, Protocol):
    """Called in order while a command runs. No method changes what the command does."""

    def begin(self, at_once: int, partitions: int) -> None:
        """The run over so many partitions starts; it applies ``at_once`` plans concurrently."""

    def plan(self, plan: Plan, with_directory: str = "") -> None:
        """A plan was made. It may be empty. ``with_directory``: it is applied together with the plan of that
        directory, which follows.
        """

    def applied(self, change: Change | None = None, directory: str = "") -> None:
        """The plan of a directory, or all reported plans, were applied. ``change``: keeps the removed bytes, if any."""

    def not_applied(self, directory: str = "") -> None:
        """The plan of a directory, or all remaining plans, will not be applied."""

    def summary(self, partition: Row, segments: Iterable[Row]) -> None:
        """The result for one partition, and one row for each of its segments."""

    def progress(self, paths: Sequence[str] | None = None) -> Progress:
        """Returns a progress display, over the bytes of all segments of these partitions if they are given."""


@dataclass(slots=True)
class Recording:
    """A reporter that keeps all calls, for callers who want data; `replay` repeats them for another reporter."""

    plans: list[Plan] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    details: list[str] = field(default_factory=list)
    summaries: list[tuple[Row, list[Row]]] = field(default_factory=list)
    _calls: list[Callable[[Reporter], None]] = field(default_factory=list, repr=False, compare=False)

    def replay(self, reporter: Reporter) -> None:
        """Makes the same calls of another reporter, in the same order."""
        for call in self._calls:
            call(reporter)

    def begin(self, at_once: int, partitions: int) -> None:
        self._calls.append(lambda reporter: reporter.begin(at_once, partitions))

    def error(self, message: object) -> None:
        self.errors.append(str(message))
        self._calls.append(lambda reporter: reporter.error(message))

    def warning(self, message: str) -> None:
        self.warnings.append(message)
        self._calls.append(lambda reporter: reporter.warning(message))

    def detail(self, message: str) -> None:
        self.details.append(message)
        self._calls.append(lambda reporter: reporter.detail(message))

    def plan(self, plan: Plan, with_directory: str = "") -> None:
        self.plans.append(plan)
        self._calls.append(lambda reporter: reporter.plan(plan, with_directory))

    def applied(self, change: Change | None = None, directory: str = "") -> None:
        if change is not None:
            self.changes.append(change)
        self._calls.append(lambda reporter: reporter.applied(change, directory))

    def not_applied(self, directory: str = "") -> None:
        self._calls.append(lambda reporter: reporter.not_applied(directory))

    def summary(self, partition: Row, segments: Iterable[Row]) -> None:
        rows = list(segments)
        self.summaries.append((partition, rows))
        self._calls.append(lambda reporter: reporter.summary(partition, rows))

    def progress(self, paths: Sequence[str] | None = None) -> Progress:
        return NO_PROGRESS


class Failures:
    """``status``: the highest exit status so far, 0 for none. ``errors``: by path or directory of a partition."""

    def __init__(self, reporter: Messages) -> None:
        self._reporter = reporter
        self.status = 0
        self.errors: dict[str, KsegError] = {}

    @property
    def paths(self) -> set[str]:
        """The paths and the directories of partitions that failed."""
        return set(self.errors)

    def add(self, error: KsegError, path: str) -> None:
        """Reports an error. ``path``: the path, or the directory of a partition."""
        cause, path = error.__cause__, shown(path)
        if error.exit_status == KsegError.exit_status and isinstance(cause, OSError) and is_disk_error(cause):
            hint = "kseg verify shows what is lost, kseg recover --mode salvage keeps the rest"
            self._reporter.error(f"{error}; {path} is left as it is: {hint}")
        else:
            self._reporter.error(error)
        self.status = max(self.status, error.exit_status)
        self.errors[path] = error

    def refused(self) -> None:
        """Records that something was refused and has been reported."""
        self.status = max(self.status, KsegError.exit_status)

    @contextmanager
    def of(self, path: str) -> Iterator[None]:
        """Reports errors of the block instead of raising them. ``path``: named if a system error names no file.

        Raises RequestError, as wrong options end the command.
        """
        try:
            yield
        except RequestError:
            raise
        except KsegError as error:
            self.add(error, path)
        except OSError as error:
            named = text_of(error) if error.filename else f"{shown(path)}: {text_of(error)}"
            self.add(caused(KsegError(named), error), path)


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """The options that all changing commands share.

    ``is_dry``: plans are made and reported, and nothing is changed. ``output``: directory for the resulting partitions;
    the PATHs themselves are only read then. ``links``: as in `write_copy`.
    """

    is_dry: bool = False
    takes_lock: bool = True
    keeping: Keeping = field(default_factory=Keeping)
    output: str | None = None
    links: bool = False


class Planner:
    """Makes the plans of one command, for all of its PATHs. Plans are made from ``known``, not from the log directory's
    own files.
    """

    command = ""
    """Name in manifests and lists, such as ``recover --mode broker``. Its first word identifies the command."""
    root_names: tuple[str, ...] = ()
    """Files of a log directory that plans depend on or change."""
    at_once = 1
    """How many partitions of a log directory may be changed together."""
    reads_all_files = False
    """Whether segments under names that brokers do not give are read as well."""
    with_root = False
    """Whether `plan_root` also applies to the log directory of a single partition given as PATH."""
    keeps_marker = False
    """Whether the clean shutdown marker stays, because no .log changes."""
    damage_errors: tuple[type[KsegError], ...] = ()
    """Errors by which a damaged partition stays as it is."""
    damage_remains = False
    """Whether damage was found that the plans do not repair."""

    def __init__(self, reporter: Reporter) -> None:
        self.reporter = reporter
        self.failures = Failures(reporter)
        """Partitions of a log directory that could not be planned or changed: `plan_root` must leave them out."""
        self.left_alone: list[str] | None = None
        """Partitions that stay as they are because they are not damaged, if the command looks for such."""

    def plan_partition(self, directory: str, known: Known) -> Plan | Iterator[Plan]:
        """Plans a single partition given as PATH; ``known``: the files of its log directory.

        Several plans, or a plan that needs staged files until it is applied, are returned as an iterator; each is
        applied before the next is requested.
        """
        raise NotImplementedError

    def plan_log_directory(self, directory: str, known: Known, done: list[str]) -> Iterator[Plan]:
        """Yields a plan for each partition; each is applied before the next is requested, but with `at_once` above 1,
        so many may be unfinished.

        ``done``: names of partitions that an interrupted run has changed. A partition that cannot be planned, or whose
        plan cannot be applied, is added to `failures`; the others are still planned.
        """
        raise NotImplementedError

    @contextmanager
    def attempt(self, path: str) -> Iterator[None]:
        """Reports the errors of planning a partition of a log directory, so that the others are planned."""
        with self.failures.of(path):
            try:
                yield
            except self.damage_errors as error:
                self.reporter.error(error)
                self.damage_remains = True

    def planned(self, paths: Iterable[str], plan: Callable[[str], Plan | None]) -> Iterator[Plan]:
        """Yields the plans of partitions of a log directory, None for one left alone. All are made before the first is
        applied: an unreadable partition must not stop the others half-way."""
        plans = []
        for path in paths:
            with self.attempt(path):
                plans.append(plan(path))
        yield from (found for found in plans if found is not None)

    def plan_root(self, directory: str, known: Known, has_changed: bool) -> Plan:
        """Plans the files of the log directory, after all partitions: new contents only, and not the marker."""
        return Plan(directory)

    def name_of_copy(self, directory: str, is_single: bool) -> str:
        """Returns the name of a partition in the output. ``is_single``: the user named the partition."""
        return own_name(directory) if is_single else os.path.basename(directory)

    def root_of_copy(self) -> dict[str, bytes] | None:
        """Returns the contents of the files beside the partitions in the output, None if they are as in the source."""
        return None

    def conclusion(self) -> list[str]:
        """Returns sentences about all partitions together, after the last path."""
        return []
