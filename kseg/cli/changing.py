"""What all changing commands share: the way from a PATH to what was done (options: `kseg.cli.changing_options`).

A command is a `Work`: it makes plans. `run_work` takes the lock, settles what was interrupted, shows each plan, carries
it out, and tells the exit status.
"""

import os
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import click

from kseg.changes import clean_stop, quarantine
from kseg.changes.apply import Keeping, apply
from kseg.changes.clean_stop import CleanStop
from kseg.changes.copies import write_copy, write_root_copy
from kseg.changes.disk import Disk, umask
from kseg.changes.journal import MARKER, OPEN, UNDOING, RootFile, journals, read_root_file
from kseg.changes.lock import all_locked, directories_to_lock, locked, log_directory_of
from kseg.changes.log_directory import LogDirectoryChange, changed_partitions
from kseg.changes.log_directory_roll_forward import complete_interrupted_in_log_directory
from kseg.changes.manifest import Change
from kseg.changes.plan import Plan
from kseg.changes.roll_forward import complete_interrupted
from kseg.cli.failures import Failures
from kseg.errors import KsegError, PathError, StoppedHalfwayError
from kseg.output.notices import Notices
from kseg.output.plans import PlanPrinter, plan_printer
from kseg.output.sink import open_report
from kseg.segment.files import list_partitions, list_segments, own_name
from kseg.segment.passed_over import hint, is_log_directory, tell_passed_over
from kseg.stores.no_follow import resolved
from kseg.stores.source import STANDARD_INPUT

ENDED_BY_SIGNAL = 128
"""At least this is the exit status of a command that a signal ends."""

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
    at_once: int
    """How many partitions of a log directory may be changed at the same time."""
    reads_all_files: bool
    """Whether segments under names that brokers do not give are read as well."""
    failures: Failures
    """Partitions of a log directory that could not be planned or changed: `plan_root` must not count on them."""

    def plan_partition(self, directory: str, known: Known) -> Plan | Iterator[Plan]:
        """For a partition that is named alone; ``known`` are the files beside it.

        Several plans, or one that needs something kept while it is carried out, come as an iterator: each is asked for
        once the one before it is carried out.
        """

    def plan_log_directory(self, directory: str, known: Known, done: list[str]) -> Iterator[Plan]:
        """For one partition after the other, each plan asked for once the one before it is carried out.

        ``done``: names of partitions that an interrupted run has changed already. A partition that cannot be planned
        goes to `failures`, and the others follow; so does one whose plan could not be carried out.
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
    output = options["output"] and resolved(options["output"])
    keeping = Keeping(not options["no_quarantine"], options["quarantine"])
    return Settings(options["dry_run"], not options["no_lock"], keeping, output)


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
    failures = work.failures
    with open_report(settings.is_dry, notices.error) as sink:
        keeps = settings.keeping.keeps
        printer = plan_printer(options["form"], sink, options["color"], settings.is_dry, keeps, work.at_once)
        begin(printer)
        try:
            for path in _with_outputs_of_their_own(paths, settings.output, failures):
                with failures.of(path):
                    _run_path(path, work, settings, printer, notices)
                printer.failed()
        except KeyboardInterrupt:
            printer.finish(notices, ENDED_BY_SIGNAL)
            raise
        printer.totals.damage_remains, printer.totals.failed = work.damage_remains, sorted(failures.places)
        printer.totals.has_changed |= failures.status == StoppedHalfwayError.exit_status
        printer.finish(notices, failures.status)
    would_change = settings.is_dry and printer.totals.directories > 0
    return max(failures.status, int(would_change or work.damage_remains))


def _with_outputs_of_their_own(paths: tuple[str, ...], output: str | None, failures: Failures) -> list[str]:
    """The paths, but for those that would write a directory which an earlier one writes: that is told."""
    if output is None:
        return list(paths)
    found, sources = [], dict[str, str]()
    for path in paths:
        with suppress(KsegError):  # what is no such directory is told when its turn comes
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


def is_partition(path: str) -> bool:
    """Whether a directory is a partition; else it is a log directory. Raises PathError where it is neither."""
    if not os.path.isdir(path):
        missing = "no such file or directory" if not os.path.lexists(path) else "is no directory"
        raise PathError(f"{path or repr(path)}: {missing}; give a partition or log directory")
    if list_segments(path, everything=True):
        return True
    if is_log_directory(path):
        return False
    if os.path.isdir(quarantine.folder_of(path)):
        return True
    why = hint(path) or ": holds no segment, no directory such as orders-0, no meta.properties"
    raise PathError(f"{path}: neither a partition nor a log directory{why}")


def _run_path(path: str, work: Work, settings: Settings, printer: PlanPrinter, notices: Notices) -> None:
    if path == STANDARD_INPUT:
        raise PathError("standard input cannot be changed: give a partition or log directory")
    real = resolved(path)
    alone = is_partition(real)
    to_lock, path = directories_to_lock(path, real, alone), real
    partitions = [] if alone else list_partitions(path)
    tell_passed_over(path, False, notices.warning, alone and work.reads_all_files)
    for partition in partitions:
        tell_passed_over(partition, False, notices.warning, work.reads_all_files)
    for link in filter(os.path.islink, partitions):
        work.failures.add(PathError(f"{link}: is a link out of the log directory: name the place itself"), link)
    if settings.output is not None:
        _write_copies(path, alone, work, settings.output, settings, printer)
    elif settings.is_dry:
        _tell(pending_notices(path, alone), notices)
        _kind_of_run(alone, settings)(path, work, settings, printer, notices).show()
    else:
        with settled(path, alone, to_lock if settings.takes_lock else [], notices):
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
            if marker.state_of(MARKER) is not None:
                marker.delete(MARKER, "a log changes: a broker has to look into all of them when it starts")
                self.printer.show(marker, plan.directory)
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
    def _plans(self, root: str) -> Generator[Plan]:
        with closing(plans_of(self.work.plan_partition(self.path, known_root_files(root, self.work)))) as plans:
            for plan in plans:
                self.show_plan(root, plan)
                yield plan

    def show(self) -> None:
        for _ in self._plans(log_directory_of(self.path)):
            pass

    def carry_out(self) -> None:
        root = log_directory_of(self.path)
        with closing(self._plans(root)) as plans:
            for plan in plans:
                if plan:
                    self.printer.done(self._apply(root, plan))

    def _apply(self, root: str, plan: Plan) -> Change | None:
        clean_stop = None if self.settings.keeps_marker else CleanStop(root)
        return apply(plan, self.work.command, self.settings.keeping, clean_stop=clean_stop)


class _RunOnPartitionWithRoot(_RunOnPartition):
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
            _tell(complete_interrupted_in_log_directory(root), self.notices)
        change = LogDirectoryChange(root, self.work.command, self.work.root_names, self.settings.keeping)
        _tell(change.messages, self.notices)
        found = self.work.plan_partition(self.path, change.known)
        with change.rolled_back_if_unchanged():
            if isinstance(found, Plan):
                self._carry_out_one(root, change, found)
                return
            with closing(plans_of(found)) as plans:
                for plan in plans:
                    self.show_plan(root, plan)
                    self.printer.done(change.apply(plan))
            self._finish(change, self._beside(root, change.known, change.is_begun))

    def _carry_out_one(self, root: str, change: LogDirectoryChange, plan: Plan) -> None:
        self.show_plan(root, plan)
        beside = self._beside(root, change.known, bool(plan) or change.is_begun)
        if beside or change.is_begun:
            self.printer.done(change.apply(plan))
            self._finish(change, beside)
        elif plan:
            self.printer.done(self._apply(root, plan))

    def _finish(self, change: LogDirectoryChange, beside: Plan) -> None:
        if beside or change.is_begun:
            change.finish(beside)
            self.printer.done()


class _RunOnLogDirectory(_Run):
    def __init__(self, path: str, work: Work, settings: Settings, printer: PlanPrinter, notices: Notices) -> None:
        super().__init__(path, work, settings, printer, notices)
        self._change = LogDirectoryChange(
            path, work.command, work.root_names, settings.keeping, keeps_marker=settings.keeps_marker
        )
        _tell(self._change.messages, notices)

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
        with change.rolled_back_if_unchanged():
            if not self._carry_out_partitions():
                return  # the journal stays: the same command goes on, and the checkpoints are written then
            if change.is_begun and not change.has_changed:
                change.roll_back()  # none of the plans could be carried out
            plan = self.work.plan_root(self.path, change.known, change.is_begun)
            self.show_plan(self.path, plan)
            change.finish(plan)
            printer.done()

    def _carry_out_partitions(self) -> bool:
        """Whether none stopped half-way. What could not be done is in the failures of the work."""
        is_whole = True
        with closing(self._plans()) as plans:
            for plan, done in self._change.apply_all(plans, self.work.at_once):
                if isinstance(done, KsegError):
                    self.work.failures.add(done, plan.directory)
                    self.printer.failed(plan.directory)
                    is_whole &= not isinstance(done, StoppedHalfwayError)
                else:
                    self.printer.done(done, plan.directory)
        return is_whole


def known_root_files(root: str, work: Work) -> Known:
    """The files beside a partition that its plan depends on. Raises KsegError where one cannot be read."""
    return {name: read_root_file(root, name) for name in {MARKER, *work.root_names}}


def remove_marker(root: str) -> None:
    """Raises KsegError where it cannot be removed: then nothing was changed."""
    try:
        clean_stop.remove_marker(root, Disk())
    except OSError as error:
        raise KsegError(f"{os.path.join(root, MARKER)}: {error.strerror}; nothing was changed") from error


def _write_copies(path: str, alone: bool, work: Work, output: str, settings: Settings, printer: PlanPrinter) -> None:
    known = known_root_files(log_directory_of(path) if alone else path, work)
    if not settings.is_dry and not os.path.isdir(output):
        _make(output, path)
    with locked(output, settings.takes_lock and not settings.is_dry):
        found = work.plan_partition(path, known) if alone else work.plan_log_directory(path, known, [])
        with closing(plans_of(found)) as plans:
            for plan in plans:
                printer.show(plan)
                if not settings.is_dry:
                    write_copy(plan, output, name=own_name(path) if alone else "")
                    printer.done()
        if alone and settings.with_root and os.path.isdir(output):
            plan = work.plan_root(output, known_root_files(output, work), printer.totals.directories > 0)
            printer.show(plan)
            if not settings.is_dry:
                LogDirectoryChange(output, work.command, work.root_names, Keeping(keeps=False)).finish(plan)
                printer.done()
        if not alone:
            plan = work.plan_root(path, known, printer.totals.directories > 0)
            printer.show(plan)
            if not settings.is_dry:
                contents = {step.file: b"".join(p for p in step.pieces if isinstance(p, bytes)) for step in plan.steps}
                write_root_copy(path, contents, output)
                printer.done()


def _make(output: str, model: str) -> None:
    """A new directory, with the owner and mode of another as far as this user may give them. Raises PathError."""
    disk = Disk()
    try:
        disk.make_directory(output)
        with suppress(PermissionError):
            disk.copy_owner(output, model, as_directory=True, mask=umask())
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
def settled(path: str, alone: bool, to_lock: list[str], notices: Notices) -> Iterator[list[str]]:
    """Holds the locks of these log directories, with what was interrupted at a path completed: gives a sentence for
    each."""
    root = log_directory_of(path) if alone else path
    with all_locked(to_lock):
        if alone and any(change.changes_a_log for change in quarantine.pending(path)):
            remove_marker(root)
        told = complete_interrupted(path) if alone else complete_interrupted_in_log_directory(path)
        _tell(told, notices)
        yield told
