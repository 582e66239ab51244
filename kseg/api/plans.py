"""Plans of changes: of ``kseg recover``, ``reindex``, ``compact``, ``retain``, ``convert`` and ``undo``.

A plan changes nothing before `Plan.apply`. The driver of the commands makes and applies it.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from kseg.api.archives import places_for_output, readable
from kseg.api.arguments import Paths, paths_of
from kseg.changes import plan as change_plans
from kseg.changes.apply import Keeping
from kseg.changes.driver.paths import places_at
from kseg.changes.driver.planner import ChangeOptions
from kseg.changes.driver.reporter import Recording, Reporter
from kseg.changes.driver.run import MakePlanner, Outcome, check_unchanged, run
from kseg.errors import KsegError, StoppedHalfwayError
from kseg.logdir.topics import check_topics, is_of_topics
from kseg.output.changes.reporter import ChangeSummaryPrinter, recorded_json
from kseg.output.html_table import html_table
from kseg.output.notices import Notices
from kseg.output.sink import Sink

Run = Callable[[bool, Reporter], Outcome]
"""Runs a command: dry or not, reporting to a reporter."""
Summaries = Callable[[Sink, Notices], ChangeSummaryPrinter]


class Action(NamedTuple):
    """One operation on a file. ``action``: truncate, replace, create, delete, rename or extend.

    ``size``: of the file afterwards, in bytes; None if it is deleted. ``target``: its new path if it is renamed.
    ``removed_bytes``: bytes that the directory loses.
    """

    action: str
    file: str
    reason: str
    size: int | None
    target: str | None
    removed_bytes: int


class Lost(NamedTuple):
    """Bytes that a change removes from a file. Offsets and the number of records are None if they are unknown."""

    file: str
    position: int
    length: int
    reason: str
    first_offset: int | None
    last_offset: int | None
    records: int | None


@dataclass(frozen=True, slots=True)
class Result:
    """The result of `Plan.apply`.

    ``changed``: whether any file was changed. ``kept``: the folders that keep removed bytes for ``undo``.
    ``damage_remains``: damage was found that the command does not repair. ``errors``: the partitions that failed while
    others succeeded. ``warnings``: messages for users.
    """

    changed: bool
    kept: tuple[str, ...]
    damage_remains: bool
    errors: dict[str, KsegError]
    warnings: tuple[str, ...]


class Plan:
    """The plan of a change. It is true if there is something to do; nothing has been changed yet.

    ``damage_remains``, ``errors`` and ``warnings`` are those of `Result`.
    """

    def __init__(
        self, command: str, paths: Sequence[str], run_command: Run, keeps: bool, summaries: Summaries | None = None
    ) -> None:
        self._command, self._paths, self._run = command, paths, run_command
        self._keeps, self._summaries = keeps, summaries
        self._recording = Recording()
        self._outcome = run_command(True, self._recording)
        if self._outcome.errors and not any(self._recording.plans):
            raise next(iter(self._outcome.errors.values()))
        self.damage_remains = self._outcome.damage_remains
        self.errors = self._outcome.errors
        self.warnings = tuple(self._recording.warnings)

    def __bool__(self) -> bool:
        return any(self._recording.plans)

    @property
    def actions(self) -> list[Action]:
        """All file operations, in order."""
        return [_action(plan.directory, step) for plan in self._recording.plans for step in plan.steps]

    @property
    def lost(self) -> list[Lost]:
        """The ranges of bytes that are removed as damaged, deleted or superseded."""
        return [
            Lost(
                os.path.join(plan.directory, step.file), cut.position, cut.length, cut.reason, cut.first_offset,
                cut.last_offset, cut.records,
            )
            for plan in self._recording.plans
            for step in plan.steps
            for cut in step.removed
        ]  # fmt: skip

    def to_json(self) -> str:
        """Returns the output of the command with ``--dry-run --format json``: JSON Lines."""
        return recorded_json(self._recording, self._outcome, self._keeps, self._summaries)

    def apply(self) -> Result:
        """Takes the locks, plans again and applies, with the guarantees of the command.

        Raises PathError if files have changed since the plan was made, BrokerRunningError if a broker holds the log
        directory, StoppedHalfwayError if a change could not be completed, and the error of the first partition if none
        could be changed.
        """
        with readable(self._paths):
            check_unchanged(self._recording.plans)
        recording = Recording()
        outcome = self._run(False, recording)
        halfway = [error for error in outcome.errors.values() if isinstance(error, StoppedHalfwayError)]
        if outcome.errors and (halfway or not outcome.has_changed):
            raise next(iter(halfway or outcome.errors.values()))
        kept = tuple(change.kept for change in recording.changes if change.kept)
        return Result(outcome.has_changed, kept, outcome.damage_remains, outcome.errors, tuple(recording.warnings))

    def __repr__(self) -> str:
        return f"<Plan {self._sentence()}>"

    def _repr_html_(self) -> str:
        columns = ("action", "file", "size", "removed bytes", "reason")
        rows = ((each.action, each.file, each.size, each.removed_bytes or None, each.reason) for each in self.actions)
        return html_table(self._sentence(), columns, rows, [str(error) for error in self.errors.values()])

    def _sentence(self) -> str:
        actions = self.actions
        if not self:
            return f"{self._command}: nothing to do"
        removed = sum(action.removed_bytes for action in actions)
        directories = len({plan.directory for plan in self._recording.plans if plan})
        failed = f", failed: {len(self.errors)}" if self.errors else ""
        return f"{self._command}: actions: {len(actions)}, directories: {directories}, removed bytes: {removed}{failed}"


def _action(directory: str, step: change_plans.Step) -> Action:
    size: int | None = step.size
    if step.action == change_plans.DELETE:
        size = None
    elif step.action == change_plans.RENAME:
        size = step.before.size if step.before else None
    target = os.path.join(directory, step.target) if step.target else None
    return Action(step.action, os.path.join(directory, step.file), step.reason, size, target, step.freed_bytes)


def keeping_of(keep: bool | str | os.PathLike[str]) -> Keeping:
    """Returns where removed bytes are kept: True beside the partitions, False nowhere, or in a directory."""
    if isinstance(keep, bool):
        return Keeping(keep)
    return Keeping(True, os.fspath(keep))


def selected(
    paths: Sequence[str], topics: tuple[str, ...] | None, is_dry: bool, takes_files: bool = False
) -> Sequence[str]:
    """Returns the paths that hold partitions of topics that these globs match; all for None, none without globs.

    In a dry run raises and warns as `check_topics`. Paths that cannot be read are returned: whoever changes them
    reports that. ``takes_files``: paths of segments can be read.
    """
    if not topics:
        return paths if topics is None else ()
    places = places_at(paths, takes_files)
    if is_dry and places:
        check_topics(chain.from_iterable(places.values()), topics)
    return [
        path
        for path in paths
        if any(is_of_topics(place, topics) for place in places.get(path, ())) or path not in places
    ]


def plan_of(
    path: Paths,
    command: str,
    make_planner: MakePlanner,
    options: ChangeOptions,
    topics: tuple[str, ...] | None = None,
    summaries: Summaries | None = None,
) -> Plan:
    """Returns the plan of a planner for the partitions of these topics at the paths."""
    paths: Sequence[str] = paths_of(path)

    def run_command(is_dry: bool, reporter: Reporter) -> Outcome:
        change = replace(options, is_dry=is_dry)
        if options.output is None:
            return run(selected(paths, topics, is_dry), make_planner, change, reporter)
        with places_for_output(paths, reporter) as places:
            return run(selected(places, topics, is_dry), make_planner, change, reporter)

    return Plan(command, paths, run_command, options.keeping.keeps, summaries)
