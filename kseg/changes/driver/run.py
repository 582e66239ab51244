"""Runs a changing command over its PATHs: plans are reported, and applied unless the run is dry."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kseg.changes.driver.path_run import RunState, run_for
from kseg.changes.driver.paths import (
    NEVER_CHANGED,
    interrupted_changes,
    is_partition,
    locked_and_completed,
    without_same_outputs,
)
from kseg.changes.driver.planner import ChangeOptions, Planner
from kseg.changes.driver.reporter import Reporter
from kseg.changes.lock import directories_to_lock, is_locked
from kseg.changes.new_directories import check_local
from kseg.changes.plan import CREATE, FileState, Plan, file_state
from kseg.errors import KsegError, PathError, StoppedHalfwayError
from kseg.segment.files import list_partitions
from kseg.segment.paths import partition_count, warn_of_skipped_files
from kseg.stores import trees
from kseg.stores.no_follow import resolved, resolved_to_change
from kseg.stores.source import STANDARD_INPUT
from kseg.stores.stored_object import is_url, shown

MakePlanner = Callable[[ChangeOptions, Reporter], Planner]
"""Returns a new planner for one run."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a run. ``errors``: by path or directory of a partition. ``exit_status``: that of the command."""

    exit_status: int = 0
    is_dry: bool = False
    has_changed: bool = False
    damage_remains: bool = False
    errors: dict[str, KsegError] = field(default_factory=dict)
    conclusion: list[str] = field(default_factory=list)
    """Sentences about all partitions together."""
    left_alone: list[str] | None = None
    """Partitions that stay as they are because they are not damaged, if the command looks for such."""

    @property
    def failed(self) -> list[str]:
        """Paths and directories of partitions that failed, in order."""
        return sorted(self.errors)


def run(paths: Sequence[str], make_planner: MakePlanner, options: ChangeOptions, reporter: Reporter) -> Outcome:
    """Plans and changes each path. Errors of single paths are reported and do not stop the others.

    Raises RequestError for options that contradict each other or the paths.
    """
    check_local(options.output or "")
    planner, state = make_planner(options, reporter), RunState(reporter, options.is_dry)
    failures = planner.failures
    reporter.begin(planner.at_once, partition_count(paths))
    for path in without_same_outputs(paths, options.output, failures):
        with failures.of(path):
            _run_path(path, planner, options, state)
        state.not_applied()
    would_change = options.is_dry and state.has_plans
    return Outcome(
        exit_status=max(failures.status, int(would_change or planner.damage_remains)),
        is_dry=options.is_dry,
        has_changed=state.has_changed or failures.status == StoppedHalfwayError.exit_status,
        damage_remains=planner.damage_remains,
        errors=dict(failures.errors),
        conclusion=planner.conclusion(),
        left_alone=planner.left_alone,
    )


def _run_path(path: str, planner: Planner, options: ChangeOptions, state: RunState) -> None:
    if path == STANDARD_INPUT:
        raise PathError("standard input cannot be changed: give a partition or log directory")
    reporter, real = planner.reporter, resolved(path) if options.output is not None else resolved_to_change(path)
    if options.output is None and (is_url(path) or trees.find(real) is not None):
        raise PathError(f"{shown(path)}: {NEVER_CHANGED}")
    is_single = is_partition(real)
    to_lock = directories_to_lock(path, real, is_single) if options.takes_lock else []
    if options.is_dry and options.output is None:
        for directory in filter(is_locked, to_lock):
            reporter.warning(
                f"{directory}: a running broker, or another kseg, holds the log directory: its files may change "
                "meanwhile, and without --dry-run the command is refused"
            )
    partitions = [] if is_single else list_partitions(real)
    warn_of_skipped_files(real, False, reporter.warning, is_single and planner.reads_all_files)
    for partition in partitions:
        warn_of_skipped_files(partition, False, reporter.warning, planner.reads_all_files)
    for link in filter(trees.islink, partitions):
        planner.failures.add(PathError(f"{link}: is a link out of the log directory: name its target"), link)
    if options.output is None and not options.is_dry:
        with locked_and_completed(real, is_single, to_lock, reporter.warning):
            run_for(real, is_single, planner, options, state).apply()
        return
    if options.output is None:
        for line in interrupted_changes(real, is_single):
            reporter.warning(line)
    path_run = run_for(real, is_single, planner, options, state)
    if options.is_dry:
        path_run.show()
    else:
        path_run.apply()


def check_unchanged(plans: Sequence[Plan]) -> None:
    """Raises PathError if files have changed, or were created, since the plans were made."""
    for plan in plans:
        created: dict[str, FileState | None] = {step.file: None for step in plan.steps if step.action == CREATE}
        for name, known in (created | plan.initial).items():
            path = os.path.join(plan.directory, name)
            if file_state(path) != known:
                raise PathError(f"{path}: has changed since the plan was made; nothing was changed")
