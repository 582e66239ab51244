"""What all changing commands share: the way from a PATH to what was done (options: `kseg.cli.changing_options`).

A command is a `Work`: it makes plans. `run_work` takes the lock, settles what was interrupted, shows each plan, carries
it out, and tells the exit status.
"""

import os
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import click

from kseg.changes import log_directory, quarantine
from kseg.changes.apply import Keeping, apply
from kseg.changes.copies import write_copy, write_root_copy
from kseg.changes.disk import Disk
from kseg.changes.journal import OPEN, UNDOING, RootFile, journals, read_root_file
from kseg.changes.lock import locked, log_directory_of
from kseg.changes.log_directory import MARKER, LogDirectoryChange, changed_partitions, settle_log_directory
from kseg.changes.plan import Plan
from kseg.changes.settle import settle
from kseg.errors import KsegError, PathError, StoppedHalfwayError
from kseg.output.notices import Notices
from kseg.output.plans import PlanPrinter, plan_printer
from kseg.output.sink import open_sink
from kseg.segment.files import list_partitions, list_segments

Known = Mapping[str, RootFile | None]
"""Files of a log directory as a command found them, the marker of a clean stop among them; None for no file."""


class Work(Protocol):
    """What a command does. Plans are made from ``known``, not from the log directory's own files."""

    command: str
    """What manifests and lists call it, such as ``recover --mode broker``; its first word tells one from another."""
    root_names: tuple[str, ...]
    """Files of a log directory that plans depend on or change."""
    damage_remains: bool
    """Whether something is left that is not as it should be."""

    def plan_partition(self, directory: str, known: Known) -> Plan | Iterator[Plan]:
        """For a partition that is named alone; ``known`` are the files beside it.

        Several plans, or one that needs something kept while it is carried out, come as an iterator: each is asked for
        once the one before it is carried out.
        """

    def plan_log_directory(self, directory: str, known: Known, done: list[str]) -> Iterator[Plan]:
        """For one partition after the other, each plan asked for once the one before it is carried out.

        ``done``: names of partitions that an interrupted run has changed already.
        """

    def plan_root(self, directory: str, known: Known, has_changed: bool) -> Plan:
        """For the files of a log directory, asked for last: new contents only. The marker goes by itself."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The options that changing commands share.

    ``with_root``: a partition that is named alone is changed together with the files beside it (`Work.plan_root`).
    ``keeps_marker``: the command changes no .log, so that a stop that was clean stays one.
    """

    is_dry: bool = False
    takes_lock: bool = True
    keeping: Keeping = field(default_factory=Keeping)
    output: str | None = None
    with_root: bool = False
    keeps_marker: bool = False


def settings_of(options: Mapping[str, Any]) -> Settings:
    """Raises UsageError where options contradict each other."""
    if options["quarantine"] and options["no_quarantine"]:
        raise click.UsageError("--quarantine and --no-quarantine exclude each other")
    if options["output"] and (options["quarantine"] or options["no_quarantine"]):
        raise click.UsageError("--output keeps nothing, as nothing goes: no --quarantine, no --no-quarantine")
    keeping = Keeping(not options["no_quarantine"], options["quarantine"])
    return Settings(options["dry_run"], not options["no_lock"], keeping, options["output"])


def run_work(
    paths: tuple[str, ...],
    work: Work,
    options: Mapping[str, Any],
    with_root: bool = False,
    keeps_marker: bool = False,
    begin: Callable[[PlanPrinter], None] = lambda _: None,
) -> int:
    """Does the work on each path; the exit status. ``with_root``, ``keeps_marker``: as in `Settings`; ``begin``: is
    given the printer before the first plan is made."""
    settings = replace(settings_of(options), with_root=with_root, keeps_marker=keeps_marker)
    notices = Notices(options["color"], options["quiet"], options["verbose"])
    status = 0
    with open_sink(None) as sink:
        printer = plan_printer(options["form"], sink, options["color"], settings.keeping.keeps)
        begin(printer)
        for path in paths:
            try:
                _run_path(path, work, settings, printer, notices)
            except StoppedHalfwayError:
                printer.finish(notices, settings.is_dry)
                raise
            except KsegError as error:
                notices.error(error)
                status = max(status, error.exit_status)
        printer.totals.damage_remains = work.damage_remains
        printer.finish(notices, settings.is_dry)
    would_change = settings.is_dry and printer.totals.directories > 0
    return max(status, int(would_change or work.damage_remains))


def is_partition(path: str) -> bool:
    """Whether a directory is a partition; else it is a log directory. Raises PathError where it is neither."""
    if not os.path.isdir(path):
        missing = "no such file or directory" if not os.path.lexists(path) else "is no directory"
        raise PathError(f"{path or repr(path)}: {missing}; give a partition or log directory")
    if list_segments(path, everything=True) or os.path.isdir(quarantine.folder_of(path)):
        return True
    if list_partitions(path) or os.path.lexists(os.path.join(path, "meta.properties")):
        return False
    raise PathError(f"{path}: neither a partition nor a log directory")


def _run_path(path: str, work: Work, settings: Settings, printer: PlanPrinter, notices: Notices) -> None:
    alone = is_partition(path)
    if settings.output is not None:
        _write_copies(path, alone, work, settings.output, settings, printer)
    elif settings.is_dry:
        _tell(pending_notices(path, alone), notices)
        _kind_of_run(alone, settings)(path, work, settings, printer, notices).show()
    else:
        with settled(path, alone, settings.takes_lock, notices):
            _kind_of_run(alone, settings)(path, work, settings, printer, notices).carry_out()


class _Run:
    """One path of a command."""

    def __init__(self, path: str, work: Work, settings: Settings, printer: PlanPrinter, notices: Notices) -> None:
        self.path, self.work, self.settings, self.printer = path, work, settings, printer
        self.notices = notices
        self._is_marker_shown = settings.keeps_marker

    def show_plan(self, root: str, plan: Plan) -> None:
        """The plan, and before the first one that of the marker of a clean stop: that goes before all else."""
        if plan and not self._is_marker_shown:
            marker, self._is_marker_shown = Plan(root), True
            if marker.seen(MARKER) is not None:
                marker.delete(MARKER, "a log changes: a broker has to look into all of them when it starts")
                self.printer.show(marker)
        self.printer.show(plan)

    def show(self) -> None:
        raise NotImplementedError

    def carry_out(self) -> None:
        raise NotImplementedError


def _kind_of_run(alone: bool, settings: Settings) -> type[_Run]:
    if alone:
        return _RunOnPartitionWithRoot if settings.with_root else _RunOnPartition
    return _RunOnLogDirectory


def plans_of(found: Plan | Iterator[Plan]) -> Generator[Plan]:
    """What `Work.plan_partition` gives; to be closed, as something may be kept while plans are carried out."""
    if isinstance(found, Plan):
        yield found
    else:
        yield from found


class _RunOnPartition(_Run):
    def _plans(self, root: str) -> Iterator[Plan]:
        for plan in plans_of(self.work.plan_partition(self.path, known_root_files(root, self.work))):
            self.show_plan(root, plan)
            yield plan

    def show(self) -> None:
        for _ in self._plans(log_directory_of(self.path)):
            pass

    def carry_out(self) -> None:
        root = log_directory_of(self.path)
        for plan in self._plans(root):
            if plan:
                if not self.settings.keeps_marker:
                    remove_marker(root)
                self.printer.done(apply(plan, self.work.command, self.settings.keeping))


class _RunOnPartitionWithRoot(_Run):
    """A partition that is named alone, and what has to change beside it: a change of the log directory, if anything."""

    def _beside(self, root: str, known: Known, has_changed: bool) -> Plan:
        beside = self.work.plan_root(root, known, has_changed)
        self.show_plan(root, beside)
        return beside

    def show(self) -> None:
        root, has_changed = log_directory_of(self.path), False
        known = known_root_files(root, self.work)
        for plan in plans_of(self.work.plan_partition(self.path, known)):
            self.show_plan(root, plan)
            has_changed |= bool(plan)
        self._beside(root, known, has_changed)

    def carry_out(self) -> None:
        root = log_directory_of(self.path)
        if journals(root):
            _tell(settle_log_directory(root), self.notices)
        change = LogDirectoryChange(root, self.work.command, self.work.root_names, self.settings.keeping)
        _tell(change.told, self.notices)
        found = self.work.plan_partition(self.path, change.known)
        if isinstance(found, Plan):
            self._carry_out_one(root, change, found)
            return
        try:
            with closing(plans_of(found)) as plans:
                for plan in plans:
                    self.show_plan(root, plan)
                    self.printer.done(change.apply(plan))
        except StoppedHalfwayError:
            raise
        except (KsegError, OSError) as error:
            if not change.is_begun:
                raise
            raise StoppedHalfwayError(f"{error}; a part is done: repeat the command") from error
        self._finish(change, self._beside(root, change.known, change.is_begun))

    def _carry_out_one(self, root: str, change: LogDirectoryChange, plan: Plan) -> None:
        self.show_plan(root, plan)
        beside = self._beside(root, change.known, bool(plan) or change.is_begun)
        if beside or change.is_begun:
            self.printer.done(change.apply(plan))
            self._finish(change, beside)
        elif plan:
            remove_marker(root)
            self.printer.done(apply(plan, self.work.command, self.settings.keeping))

    def _finish(self, change: LogDirectoryChange, beside: Plan) -> None:
        if beside or change.is_begun:
            change.finish(beside)
            self.printer.totals.has_changed = True


class _RunOnLogDirectory(_Run):
    def __init__(self, path: str, work: Work, settings: Settings, printer: PlanPrinter, notices: Notices) -> None:
        super().__init__(path, work, settings, printer, notices)
        self._change = LogDirectoryChange(
            path, work.command, work.root_names, settings.keeping, keeps_marker=settings.keeps_marker
        )
        _tell(self._change.told, notices)

    def _plans(self) -> Generator[Plan]:
        found = self.work.plan_log_directory(self.path, self._change.known, self._change.done)
        with closing(plans_of(found)) as plans:
            for plan in plans:
                self.show_plan(self.path, plan)
                yield plan

    def show(self) -> None:
        has_changed = sum(map(bool, self._plans())) > 0 or self._change.is_begun
        self.show_plan(self.path, self.work.plan_root(self.path, self._change.known, has_changed))

    def carry_out(self) -> None:
        change, printer = self._change, self.printer
        try:
            with closing(self._plans()) as plans:
                for plan in plans:
                    printer.done(change.apply(plan))
            plan = self.work.plan_root(self.path, change.known, change.is_begun)
        except StoppedHalfwayError:
            raise
        except (KsegError, OSError) as error:
            if not change.is_begun:
                raise
            raise StoppedHalfwayError(
                f"{error}; other partitions are done: repeat the command, or kseg undo"
            ) from error
        self.show_plan(self.path, plan)
        change.finish(plan)
        printer.totals.has_changed |= bool(plan)


def known_root_files(root: str, work: Work) -> Known:
    """The files beside a partition that its plan depends on. Raises KsegError where one cannot be read."""
    return {name: read_root_file(root, name) for name in {MARKER, *work.root_names}}


def remove_marker(root: str) -> None:
    """Raises KsegError where it cannot be removed: then nothing was changed."""
    try:
        log_directory.remove_marker(root, Disk())
    except OSError as error:
        raise KsegError(f"{os.path.join(root, MARKER)}: {error.strerror}; nothing was changed") from error


def _write_copies(path: str, alone: bool, work: Work, output: str, settings: Settings, printer: PlanPrinter) -> None:
    known = known_root_files(log_directory_of(path) if alone else path, work)
    if not settings.is_dry and not os.path.isdir(output):
        _make(output)
    with locked(output, settings.takes_lock and not settings.is_dry):
        found = work.plan_partition(path, known) if alone else work.plan_log_directory(path, known, [])
        with closing(plans_of(found)) as plans:
            for plan in plans:
                printer.show(plan)
                if not settings.is_dry:
                    write_copy(plan, output)
                    printer.totals.has_changed = True
        if alone and settings.with_root and os.path.isdir(output):
            plan = work.plan_root(output, known_root_files(output, work), printer.totals.directories > 0)
            printer.show(plan)
            if not settings.is_dry:
                LogDirectoryChange(output, work.command, work.root_names, Keeping(keeps=False)).finish(plan)
        if not alone:
            plan = work.plan_root(path, known, printer.totals.directories > 0)
            printer.show(plan)
            if not settings.is_dry:
                contents = {step.file: b"".join(p for p in step.pieces if isinstance(p, bytes)) for step in plan.steps}
                write_root_copy(path, contents, output)


def _make(output: str) -> None:
    try:
        os.mkdir(output)
    except OSError as error:
        raise PathError(f"{output}: {error.strerror}") from error


def pending_notices(path: str, alone: bool) -> list[str]:
    """What the next changing command completes or removes first; a dry run only tells it."""
    found = []
    partitions = [path] if alone else changed_partitions(path)
    for partition in partitions:
        for change in quarantine.pending(partition):
            found.append(f"{partition}: {change.command!r} was interrupted, and would be completed first")
    if not alone:
        for journal in journals(path):
            if journal.state in (OPEN, UNDOING):
                found.append(f"{path}: {journal.command!r} was interrupted here")
    return found


def _tell(lines: list[str], notices: Notices) -> None:
    for line in lines:
        notices.warning(line)


@contextmanager
def settled(path: str, alone: bool, takes_lock: bool, notices: Notices) -> Iterator[None]:
    """Holds the lock of a path, with what was interrupted there completed."""
    root = log_directory_of(path) if alone else path
    with locked(root, takes_lock):
        if alone and any(change.changes_a_log for change in quarantine.pending(path)):
            remove_marker(root)
        _tell(settle(path) if alone else settle_log_directory(path), notices)
        yield
