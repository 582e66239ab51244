"""The interface through which a changing command reports plans, results and messages, and a recording of it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from kseg.changes.manifest import Change
from kseg.changes.plan import Plan
from kseg.errors import KsegError, RequestError, caused, text_of
from kseg.stores.stored_object import shown
from kseg.stores.unreadable import is_disk_error

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
