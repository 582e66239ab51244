"""Reports and applies the plans for one PATH of a changing command: a partition or a log directory."""

import os
from collections.abc import Generator, Iterator
from contextlib import closing

from kseg.changes.apply import Keeping, apply
from kseg.changes.copies import write_copy, write_root_copy, write_root_files
from kseg.changes.disk import Disk
from kseg.changes.driver.planner import ChangeOptions, Planner
from kseg.changes.driver.reporter import Reporter
from kseg.changes.journal import journals
from kseg.changes.lock import locked, log_directory_of
from kseg.changes.log_directory import LogDirectoryChange
from kseg.changes.log_directory_roll_forward import complete_interrupted_in_log_directory
from kseg.changes.manifest import Change
from kseg.changes.plan import Plan
from kseg.changes.root_files import Known, known_root_files
from kseg.changes.shutdown_marker import ShutdownMarker
from kseg.errors import KsegError, PathError, StoppedHalfwayError
from kseg.quantities import plural
from kseg.segment.files import CLEAN_SHUTDOWN

CLEAN_SHUTDOWN_REASON = "a log changes: a broker must recover all logs at its next start"
"""Why the clean shutdown marker is removed."""


def plans_of(found: Plan | Iterator[Plan]) -> Generator[Plan]:
    """Iterates over the result of `Planner.plan_partition`. The caller closes it, which removes staged files."""
    if isinstance(found, Plan):
        yield found
    else:
        yield from found


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


class PathRun:
    """One PATH: `show` reports its plans, `apply` also applies them."""

    def __init__(self, path: str, planner: Planner, options: ChangeOptions, state: RunState) -> None:
        self.path, self.planner, self.options, self.state = path, planner, options, state
        self._is_marker_reported = planner.keeps_marker

    def report(self, root: str, plan: Plan) -> None:
        """Reports a plan; before the first one, the removal of the clean shutdown marker, which happens first."""
        if plan and not self._is_marker_reported:
            marker, self._is_marker_reported = Plan(root), True
            if marker.state_of(CLEAN_SHUTDOWN) is not None:
                marker.delete(CLEAN_SHUTDOWN, CLEAN_SHUTDOWN_REASON)
                self.state.planned(marker, plan.directory)
        self.state.planned(plan)

    def show(self) -> None:
        raise NotImplementedError

    def apply(self) -> None:
        raise NotImplementedError


class PartitionRun(PathRun):
    """A partition; of its log directory only the clean shutdown marker changes."""

    def _plans(self, root: str) -> Generator[Plan]:
        known = known_root_files(root, self.planner.root_names)
        with closing(plans_of(self.planner.plan_partition(self.path, known))) as plans:
            for plan in plans:
                self.report(root, plan)
                yield plan

    def show(self) -> None:
        for _ in self._plans(log_directory_of(self.path)):
            pass

    def apply(self) -> None:
        root = log_directory_of(self.path)
        with closing(self._plans(root)) as plans:
            for plan in plans:
                if plan:
                    self.state.applied(self.apply_plan(root, plan))

    def apply_plan(self, root: str, plan: Plan) -> Change | None:
        shutdown_marker = None if self.planner.keeps_marker else ShutdownMarker(root)
        return apply(plan, self.planner.command, self.options.keeping, shutdown_marker=shutdown_marker)


class PartitionWithRootRun(PartitionRun):
    """A partition and the files of its log directory. If such a file changes, both are one change of the log
    directory."""

    def _plan_root(self, root: str, known: Known, has_changed: bool) -> Plan:
        root_plan = self.planner.plan_root(root, known, has_changed)
        self.report(root, root_plan)
        return root_plan

    def show(self) -> None:
        root, has_changed = log_directory_of(self.path), False
        known = known_root_files(root, self.planner.root_names)
        for plan in plans_of(self.planner.plan_partition(self.path, known)):
            self.report(root, plan)
            has_changed |= bool(plan)
        self._plan_root(root, known, has_changed)

    def apply(self) -> None:
        root = log_directory_of(self.path)
        if journals(root):
            _warn(complete_interrupted_in_log_directory(root), self.state)
        change = LogDirectoryChange(
            root, self.planner.command, self.planner.root_names, self.options.keeping,
            path_name=os.path.basename(os.path.abspath(self.path)),
        )  # fmt: skip
        _warn(change.messages, self.state)
        found = self.planner.plan_partition(self.path, change.known)
        with change.rolled_back_if_unchanged():
            if isinstance(found, Plan):
                self._apply_one(root, change, found)
                return
            with closing(plans_of(found)) as plans:
                for plan in plans:
                    self.report(root, plan)
                    self.state.applied(change.apply(plan))
            self._finish(change, self._plan_root(root, change.known, change.is_begun))

    def _apply_one(self, root: str, change: LogDirectoryChange, plan: Plan) -> None:
        self.report(root, plan)
        root_plan = self._plan_root(root, change.known, bool(plan) or change.is_begun)
        if root_plan or change.is_begun:
            self.state.applied(change.apply(plan))
            self._finish(change, root_plan)
        elif plan:
            self.state.applied(self.apply_plan(root, plan))

    def _finish(self, change: LogDirectoryChange, root_plan: Plan) -> None:
        if root_plan or change.is_begun:
            change.finish(root_plan)
            self.state.applied()


class LogDirectoryRun(PathRun):
    """All partitions of a log directory, and then its own files."""

    def __init__(self, path: str, planner: Planner, options: ChangeOptions, state: RunState) -> None:
        super().__init__(path, planner, options, state)
        self._change = LogDirectoryChange(
            path, planner.command, planner.root_names, options.keeping, keeps_marker=planner.keeps_marker
        )
        _warn(self._change.messages, state)

    def _plans(self) -> Generator[Plan]:
        found = self.planner.plan_log_directory(self.path, self._change.known, self._change.done)
        with closing(plans_of(found)) as plans:
            for plan in plans:
                self.report(self.path, plan)
                yield plan

    def show(self) -> None:
        has_changed = sum(map(bool, self._plans())) > 0 or self._change.is_begun
        self.report(self.path, self.planner.plan_root(self.path, self._change.known, has_changed))

    def apply(self) -> None:
        change = self._change
        with change.rolled_back_if_unchanged():
            if not self._apply_partitions():
                return  # the journal stays: the same command resumes, and the checkpoints are written then
            if change.is_begun and not change.has_changed:
                change.roll_back()  # none of the plans could be applied
            plan = self.planner.plan_root(self.path, change.known, change.is_begun)
            self.report(self.path, plan)
            change.finish(plan)
            self.state.applied()

    def _apply_partitions(self) -> bool:
        """Returns whether no partition stopped half-way. Errors are added to the planner's failures."""
        is_whole = True
        with closing(self._plans()) as plans:
            for plan, outcome in self._change.apply_all(plans, self.planner.at_once):
                if isinstance(outcome, KsegError):
                    self.planner.failures.add(outcome, plan.directory)
                    self.state.not_applied(plan.directory)
                    is_whole &= not isinstance(outcome, StoppedHalfwayError)
                else:
                    self.state.applied(outcome, plan.directory)
        return is_whole


class CopyRun(PathRun):
    """Writes the resulting partitions to another directory; ``is_single``: the path is a partition."""

    def __init__(self, path: str, planner: Planner, options: ChangeOptions, state: RunState, is_single: bool) -> None:
        super().__init__(path, planner, options, state)
        self._is_single = is_single
        self._output = options.output or ""

    def show(self) -> None:
        self._run(is_dry=True)

    def apply(self) -> None:
        if not os.path.isdir(self._output):
            _create_output(self._output, self.path)
        with locked(self._output, self.options.takes_lock):
            self._run(is_dry=False)

    def _run(self, is_dry: bool) -> None:
        path, planner, output = self.path, self.planner, self._output
        known = known_root_files(log_directory_of(path) if self._is_single else path, planner.root_names)
        found = planner.plan_partition(path, known) if self._is_single else planner.plan_log_directory(path, known, [])
        unchanged = 0
        with closing(plans_of(found)) as plans:
            for plan in plans:
                self.state.planned(plan)
                if not is_dry:
                    name = planner.name_of_copy(plan.directory, self._is_single)
                    write_copy(plan, output, name=name, links=self.options.links)
                    self.state.applied()
                    unchanged += not plan
        if unchanged:
            copied = plural(unchanged, "partition", "partitions")
            self.state.reporter.warning(f"{output}: copied without a change: {copied}")
        if (contents := planner.root_of_copy()) is not None:
            if not is_dry:
                write_root_files(contents, output)
        elif not self._is_single:
            self._write_root(known, is_dry)
        elif planner.with_root and os.path.isdir(output):
            self._change_output(is_dry)

    def _write_root(self, known: Known, is_dry: bool) -> None:
        """Copies the log directory's own files, with their new contents."""
        plan = self.planner.plan_root(self.path, known, self.state.has_plans)
        self.state.planned(plan)
        if not is_dry:
            written = [step for step in plan.steps if step.makes]
            contents = {step.file: b"".join(p for p in step.pieces if isinstance(p, bytes)) for step in written}
            write_root_copy(self.path, contents, self._output)
            self.state.applied()

    def _change_output(self, is_dry: bool) -> None:
        """Changes the files of the output directory for the partition that was added to it."""
        planner, output = self.planner, self._output
        known = known_root_files(output, planner.root_names)
        plan = planner.plan_root(output, known, self.state.has_plans)
        self.state.planned(plan)
        if not is_dry:
            LogDirectoryChange(output, planner.command, planner.root_names, Keeping(keeps=False)).finish(plan)
            self.state.applied()


def run_for(path: str, is_single: bool, planner: Planner, options: ChangeOptions, state: RunState) -> PathRun:
    """Returns the run for a partition (``is_single``) or log directory. Interrupted changes must be completed
    already."""
    if options.output is not None:
        return CopyRun(path, planner, options, state, is_single)
    if not is_single:
        return LogDirectoryRun(path, planner, options, state)
    kind = PartitionWithRootRun if planner.with_root else PartitionRun
    return kind(path, planner, options, state)


def _create_output(output: str, model: str) -> None:
    """Creates a directory with the owner and mode of another, as far as this user may set them. Raises PathError."""
    disk = Disk()
    try:
        disk.make_directory(output)
        disk.copy_owner_if_allowed(output, model, as_directory=True)
    except OSError as error:
        raise PathError(f"{output}: {error.strerror}") from error


def _warn(lines: list[str], state: RunState) -> None:
    for line in lines:
        state.reporter.warning(line)
