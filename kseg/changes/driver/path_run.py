"""The PATHs of a changing command: for each one, plans are reported and applied."""

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from kseg.changes import quarantine
from kseg.changes.apply import Keeping
from kseg.changes.copies import write_copy, write_root_files
from kseg.changes.disk import Disk
from kseg.changes.driver.planner import ChangeOptions, Failures, Planner, Reporter
from kseg.changes.journal import (
    OPEN,
    UNDOING,
    Known,
    LogDirectoryChange,
    changed_partitions,
    journals,
    known_root_files,
    root_contents,
)
from kseg.changes.lock import directories_to_lock, is_locked, locked, log_directory_of
from kseg.changes.manifest import Change
from kseg.changes.new_directories import check_local
from kseg.changes.plan import CREATE, FileState, Plan, file_state
from kseg.changes.undo import complete_interrupted, complete_interrupted_in_log_directory
from kseg.errors import KsegError, PathError, StoppedHalfwayError, errors_at
from kseg.logdir.topics import Topics
from kseg.quantities import plural
from kseg.segment.files import CLEAN_SHUTDOWN, list_partitions, list_segments, own_name, own_partitions
from kseg.segment.paths import hint, is_log_directory, partition_count, warn_of_skipped_files
from kseg.stores import trees
from kseg.stores.archives.mounting import form_at
from kseg.stores.no_follow import resolved, resolved_to_change
from kseg.stores.source import STANDARD_INPUT
from kseg.stores.stored_object import is_url, shown

# The PATHs of changing commands: partitions or log directories, their locks, and changes that were interrupted.

NEVER_CHANGED = (
    "packed files, archives, segments of Redpanda and object stores are never changed: give --output DIR to write the "
    "result there"
)


def is_partition(path: str) -> bool:
    """Whether a directory is a partition rather than a log directory. Raises PathError if it is neither."""
    trees.check(path)
    if not trees.isdir(path):
        missing = "no such file or directory" if not trees.lexists(path) else "is no directory"
        if form_at(path) is not None or (is_url(path) and trees.find(path) is None):
            raise PathError(f"{shown(path)}: {NEVER_CHANGED}")
        raise PathError(f"{path or repr(path)}: {missing}; give a partition or log directory")
    if list_segments(path, everything=True):
        return True
    if is_log_directory(path):
        return False
    if trees.isdir(quarantine.folder_of(path)):
        return True
    why = hint(path) or ": holds no segment, no directory such as orders-0, no meta.properties"
    raise PathError(f"{path}: neither a partition nor a log directory{why}")


def partitions_of_topics(directory: str, globs: tuple[str, ...]) -> list[str]:
    """Returns the partitions of a log directory that belong to topics of these names. Raises PathError if none do."""
    return Topics(globs).named(directory, own_partitions(resolved_to_change(directory)))


def paths_of_topics(paths: Sequence[str], globs: tuple[str, ...], failures: Failures) -> list[str]:
    """Returns the paths; with ``globs`` each log directory is replaced by its partitions of such topics. Paths without
    any are reported."""
    found: list[str] = []
    for path in paths:
        with failures.of(path):
            found += partitions_of_topics(path, globs) if globs and not is_partition(path) else [path]
    return found


def places_at(paths: Iterable[str], takes_files: bool = False) -> dict[str, list[str]]:
    """Returns the partitions at each path, without paths that cannot be read. ``takes_files``: segments, too."""
    places = dict[str, list[str]]()
    for path in paths:
        with suppress(KsegError):
            is_single = (takes_files and not trees.isdir(path)) or is_partition(path)
            places[path] = [path] if is_single else own_partitions(path)
    return places


def without_same_outputs(paths: Sequence[str], output: str | None, failures: Failures) -> list[str]:
    """Returns the paths except those that would write a directory which an earlier path writes; these are reported."""
    if output is None:
        return list(paths)
    found, sources = [], dict[str, str]()
    for path in paths:
        with suppress(KsegError):  # an unknown directory is reported when its turn comes
            parts = {own_name(path): path}
            if not is_partition(path):
                parts = {os.path.basename(part): part for part in list_partitions(path)}
            if same := sorted(parts.keys() & sources.keys()):
                first, second, target = sources[same[0]], parts[same[0]], os.path.join(output, same[0])
                why = f"{first} and {second} would both become {target}: give each an --output of its own"
                failures.add(PathError(f"{why}; nothing was written for {path}"), path)
                continue
            sources.update(parts)
        found.append(path)
    return found


def interrupted_changes(path: str, is_single: bool) -> list[str]:
    """Returns one sentence for each interrupted change that the next changing command completes or removes first."""
    found = []
    for partition in [path] if is_single else changed_partitions(path):
        for change in quarantine.pending(partition):
            found.append(f"{partition}: {change.command!r} was interrupted, and would be completed first")
    if not is_single:
        for journal in journals(path):
            if journal.state in (OPEN, UNDOING):
                found.append(f"{path}: {journal.command!r} was interrupted here")
    return found


@contextmanager
def locked_and_completed(
    path: str, is_single: bool, to_lock: list[str], warn: Callable[[str], None], before_undo: bool = False
) -> Iterator[list[str]]:
    """Locks these log directories and completes interrupted changes at a path. Yields one sentence for each.

    ``before_undo``: as in `complete_interrupted`.
    """
    root = log_directory_of(path) if is_single else path
    with ExitStack() as held:
        for log_directory in to_lock:
            held.enter_context(locked(log_directory))
        if is_single and not journals(root):
            completed = complete_interrupted(path, before_undo=before_undo)
        else:
            completed = complete_interrupted_in_log_directory(root, before_undo=before_undo)
        for line in completed:
            warn(line)
        yield completed


CLEAN_SHUTDOWN_REASON = "a log changes: a broker must recover all logs at its next start"
"""Why the clean shutdown marker is removed."""


def plans_of(found: Plan | Iterator[Plan]) -> Generator[Plan]:
    """Iterates over the result of `Planner.plan_partition`. The caller closes it, which removes staged files."""
    if isinstance(found, Plan):
        yield found
    else:
        yield from found


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


class RunState:
    """The reporter and progress of a run.

    ``has_plans``: plans with steps were made (dry run) or applied; ``has_changed``: plans with steps were applied.
    """

    def __init__(self, reporter: Reporter, is_dry: bool) -> None:
        self.reporter, self.has_plans, self.has_changed = reporter, False, False
        self._is_dry = is_dry
        self._pending: set[str] = set()

    def planned(self, plan: Plan, with_directory: str = "") -> None:
        if plan:
            self.has_plans |= self._is_dry
            self._pending.add(with_directory or plan.directory)
        self.reporter.plan(plan, with_directory)

    def applied(self, change: Change | None = None, directory: str = "") -> None:
        if self._remove_pending(directory):
            self.has_plans = self.has_changed = True
        self.reporter.applied(change, directory)

    def not_applied(self, directory: str = "") -> None:
        self._remove_pending(directory)
        self.reporter.not_applied(directory)

    def _remove_pending(self, directory: str) -> bool:
        """Removes pending plans, all without ``directory``. Returns whether there were any."""
        found = {key for key in self._pending if not directory or key == directory}
        self._pending -= found
        return bool(found)

    def outcome(self, failures: Failures, damage_remains: bool = False, **more: Any) -> Outcome:
        """The end of the run; ``more``: other fields."""
        would_change = self._is_dry and self.has_plans
        return Outcome(
            exit_status=max(failures.status, int(would_change or damage_remains)),
            is_dry=self._is_dry,
            has_changed=self.has_changed or failures.status == StoppedHalfwayError.exit_status,
            damage_remains=damage_remains,
            errors=dict(failures.errors),
            **more,
        )


class PathRun:
    """The run over one PATH. ``is_single``: the path is a partition."""

    def __init__(self, path: str, is_single: bool, planner: Planner, options: ChangeOptions, state: RunState) -> None:
        self.path, self.is_single, self.planner, self.options, self.state = path, is_single, planner, options, state
        self.root = log_directory_of(path) if is_single else path
        self._is_marker_reported = planner.keeps_marker or options.output is not None

    def report(self, plan: Plan) -> None:
        """Reports a plan; before the first one, the removal of the clean shutdown marker, which happens first."""
        if plan and not self._is_marker_reported:
            marker, self._is_marker_reported = Plan(self.root), True
            if marker.state_of(CLEAN_SHUTDOWN) is not None:
                marker.delete(CLEAN_SHUTDOWN, CLEAN_SHUTDOWN_REASON)
                self.state.planned(marker, plan.directory)
        self.state.planned(plan)

    def plans(self, known: Known, done: Sequence[str] = ()) -> Generator[Plan]:
        """Reports the plans of the partitions, and yields them. The caller closes it."""
        found = (
            self.planner.plan_partition(self.path, known)
            if self.is_single
            else self.planner.plan_log_directory(self.path, known, list(done))
        )
        with closing(plans_of(found)) as plans:
            for plan in plans:
                self.report(plan)
                yield plan

    def plan_root(self, directory: str, known: Known, has_changed: bool) -> Plan:
        """Plans and reports the files of a log directory."""
        plan = self.planner.plan_root(directory, known, has_changed)
        self.report(plan)
        return plan


class ChangeRun(PathRun):
    """Changes a partition, or all partitions of a log directory, and then the log directory's own files."""

    def _begin(self) -> LogDirectoryChange:
        planner, path_name = self.planner, os.path.basename(os.path.abspath(self.path)) if self.is_single else ""
        change = LogDirectoryChange(
            self.root, planner.command, planner.root_names, self.options.keeping, keeps_marker=planner.keeps_marker,
            path_name=path_name,
        )  # fmt: skip
        if self.is_single and not planner.with_root and not change.is_begun:
            change.leave_root_files()
        for line in change.messages:
            self.state.reporter.warning(line)
        return change

    def show(self) -> None:
        """Reports the plans."""
        change = None if self.is_single else self._begin()
        known = known_root_files(self.root, self.planner.root_names) if change is None else change.known
        done = [] if change is None else change.done
        has_changed = sum(map(bool, self.plans(known, done))) > 0
        if change is not None or self.planner.with_root:
            self.plan_root(self.root, known, has_changed or (change is not None and change.is_begun))

    def apply(self) -> None:
        """Reports the plans, and applies them."""
        change = self._begin()
        with change.rolled_back_if_unchanged():
            if self.is_single:
                self._apply_partition(change)
            else:
                self._apply_log_directory(change)

    def _apply_partition(self, change: LogDirectoryChange) -> None:
        planner, root_plan = self.planner, Plan(self.root)
        found = planner.plan_partition(self.path, change.known)
        with closing(plans_of(found)) as plans:
            for plan in plans:
                self.report(plan)
                if isinstance(found, Plan) and planner.with_root:
                    # The plan for the root's files decides what the journal can restore, so it comes first.
                    if not (root_plan := self.plan_root(self.root, change.known, bool(plan) or change.is_begun)):
                        change.leave_root_files()
                if plan:
                    self.state.applied(change.apply(plan))
        if planner.with_root and not isinstance(found, Plan):
            root_plan = self.plan_root(self.root, change.known, change.is_begun)
        if root_plan or change.is_begun:
            change.finish(root_plan)
            if root_plan:
                self.state.applied()

    def _apply_log_directory(self, change: LogDirectoryChange) -> None:
        if not self._apply_partitions(change):
            return  # the journal stays: the same command resumes, and the checkpoints are written then
        if change.is_begun and not change.has_changed:
            change.roll_back()  # none of the plans could be applied
        change.finish(self.plan_root(self.root, change.known, change.is_begun))
        self.state.applied()

    def _apply_partitions(self, change: LogDirectoryChange) -> bool:
        """Returns whether no partition stopped half-way. Errors are added to the planner's failures."""
        is_whole = True
        with closing(self.plans(change.known, change.done)) as plans:
            for plan, outcome in change.apply_all(plans, self.planner.at_once):
                if isinstance(outcome, KsegError):
                    self.planner.failures.add(outcome, plan.directory)
                    self.state.not_applied(plan.directory)
                    is_whole &= not isinstance(outcome, StoppedHalfwayError)
                else:
                    self.state.applied(outcome, plan.directory)
        return is_whole


class CopyRun(PathRun):
    """Writes the resulting partitions to another directory."""

    def run(self) -> None:
        """Reports the plans, and writes their results unless the run is dry."""
        if self.options.is_dry:
            self._run()
            return
        output, disk = self.options.output or "", Disk()
        if not os.path.isdir(output):
            with errors_at(output):
                disk.make_directory(output)
                disk.copy_owner_if_allowed(output, self.path, as_directory=True)
        with locked(output, self.options.takes_lock):
            self._run()

    def _run(self) -> None:
        planner, output, is_dry, unchanged = self.planner, self.options.output or "", self.options.is_dry, 0
        known = known_root_files(self.root, planner.root_names)
        with closing(self.plans(known)) as plans:
            for plan in plans:
                if not is_dry:
                    name = planner.name_of_copy(plan.directory, self.is_single)
                    write_copy(plan, output, name=name, links=self.options.links)
                    self.state.applied()
                    unchanged += not plan
        if unchanged:
            copied = plural(unchanged, "partition", "partitions")
            self.state.reporter.warning(f"{output}: copied without a change: {copied}")
        if (contents := planner.root_of_copy()) is not None:
            if not is_dry:
                write_root_files(contents, output)
        elif not self.is_single:
            self._write_root(known, output, is_dry)
        elif planner.with_root and os.path.isdir(output):
            self._change_output(output, is_dry)

    def _write_root(self, known: Known, output: str, is_dry: bool) -> None:
        """Copies the log directory's own files, with their new contents."""
        plan = self.plan_root(self.path, known, self.state.has_plans)
        if not is_dry:
            write_root_files(root_contents(plan), output, self.path)
            self.state.applied()

    def _change_output(self, output: str, is_dry: bool) -> None:
        """Changes the files of the output directory for the partition that was added to it."""
        planner = self.planner
        plan = self.plan_root(output, known_root_files(output, planner.root_names), self.state.has_plans)
        if not is_dry:
            LogDirectoryChange(output, planner.command, planner.root_names, Keeping(keeps=False)).finish(plan)
            self.state.applied()


# Runs a changing command over its PATHs: plans are reported, and applied unless the run is dry.

MakePlanner = Callable[[ChangeOptions, Reporter], Planner]
"""Returns a new planner for one run."""


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
    return state.outcome(
        failures,
        damage_remains=planner.damage_remains,
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
    if options.output is not None:
        CopyRun(real, is_single, planner, options, state).run()
        return
    path_run = ChangeRun(real, is_single, planner, options, state)
    if options.is_dry:
        for line in interrupted_changes(real, is_single):
            reporter.warning(line)
        path_run.show()
    else:
        with locked_and_completed(real, is_single, to_lock, reporter.warning):
            path_run.apply()


def check_unchanged(plans: Sequence[Plan]) -> None:
    """Raises PathError if files have changed, or were created, since the plans were made."""
    for plan in plans:
        created: dict[str, FileState | None] = {step.file: None for step in plan.steps if step.action == CREATE}
        for name, known in (created | plan.initial).items():
            path = os.path.join(plan.directory, name)
            if file_state(path) != known:
                raise PathError(f"{path}: has changed since the plan was made; nothing was changed")
