"""The interface through which a changing command reports plans, results and messages, and a recording of it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kseg.changes.manifest import Change
from kseg.changes.plan import Plan
from kseg.runtime.progress import NO_PROGRESS, Progress

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
