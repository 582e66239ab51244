"""Changing commands: the planner of a command plans the changes of its PATHs, `run` applies the plans, and a
reporter gets plans and results.
"""

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from kseg.changes import journal as journaling
from kseg.changes import quarantine
from kseg.changes.apply import Keeping
from kseg.changes.copies import (
    NEEDED_BY_COPIES,
    Rows,
    checkpoints_with,
    copied_rows,
    rows_to_extend,
    write_copy,
    write_root_files,
)
from kseg.changes.disk import Disk
from kseg.changes.journal import Known, LogDirectoryChange, RootFile, known_root_files
from kseg.changes.lock import directories_to_lock, is_locked, locked, log_directory_of
from kseg.changes.manifest import Author, Change
from kseg.changes.new_directories import check_local, check_output
from kseg.changes.plan import CREATE, FileState, Plan, file_state
from kseg.changes.undo import complete_interrupted, complete_interrupted_in_log_directory
from kseg.errors import KsegError, PathError, RequestError, StoppedHalfwayError, caused, errors_at, text_of
from kseg.node.log_directory import METADATA_PARTITION, is_log_directory_of_broker
from kseg.node.node import Nodes
from kseg.node.paths import expanded
from kseg.node.server_properties import ServerProperties
from kseg.node.topics import Topics
from kseg.quantities import plural
from kseg.segment.files import (
    CLEAN_SHUTDOWN,
    directory_name,
    holds_segments,
    list_partitions,
    listing_of,
    own_name,
    own_partitions,
)
from kseg.segment.paths import each_once, hint, is_log_directory, partition_count, warn_of_skipped_files
from kseg.sidefiles.text_files import META_PROPERTIES
from kseg.stores.archives.mounting import form_at
from kseg.stores.no_follow import resolved, resolved_to_change
from kseg.stores.place import Place, directory_cache, place_in
from kseg.stores.remote.recognition import is_remote_storage
from kseg.stores.source import STANDARD_INPUT, is_disk_error
from kseg.stores.stored_object import is_url, shown

# The interface through which long passes over files report how many bytes they have read.


class Progress(Protocol):
    """A display of progress, as a context manager. ``is_on``: whether anything is shown."""

    total: int | None = None
    """Bytes to be read, None if unknown."""
    is_on: bool = False

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *error: object) -> None: ...

    def at(self, path: str) -> None:
        """Sets the current file or directory."""

    def advance(self, count: int) -> None:
        """Adds ``count`` bytes."""

    def erase(self) -> None:
        """Removes the display until the next `advance`, so that other output can be written."""


class _NoProgress(Progress):
    """Shows nothing."""

    def __exit__(self, *error: object) -> None: ...
    def at(self, path: str) -> None: ...
    def advance(self, count: int) -> None: ...
    def erase(self) -> None: ...


# The interface through which a changing command reports plans, results and messages, and a recording of it.

Row = dict[str, Any]
"""A JSON object with a ``type``, as `kseg.output.json_schema` describes it."""


class Messages(Protocol):
    """Receives sentences for people."""

    def error(self, message: object) -> None:
        """A path or partition failed; the command continues with the others."""

    def warning(self, message: str, copied: str = "") -> None:
        """Something that users should know. ``copied``: a command on a line of its own below it."""

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

    def summary(self, rows: Iterable[Row]) -> None:
        """The result for one partition: a row for it, and some for its segments, made as they are taken."""

    def progress(self, paths: Sequence[str] | None = None) -> Progress:
        """Returns a progress display, over the bytes of all segments of these partitions if they are given."""
        return _NoProgress()


@dataclass(slots=True)
class Recording(Reporter):
    """A reporter for callers who want data. ``reported``: the plans, and the rows of `summary`, in order."""

    at_once: int = 1
    reported: list[Plan | list[Row]] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def plans(self) -> list[Plan]:
        return [each for each in self.reported if isinstance(each, Plan)]

    def begin(self, at_once: int, partitions: int) -> None:
        self.at_once = at_once

    def error(self, message: object) -> None:
        self.errors.append(str(message))

    def warning(self, message: str, copied: str = "") -> None:
        self.warnings.append(f"{message} {copied}" if copied else message)

    def plan(self, plan: Plan, with_directory: str = "") -> None:
        self.reported.append(plan)

    def applied(self, change: Change | None = None, directory: str = "") -> None:
        if change is not None:
            self.changes.append(change)

    def detail(self, message: str) -> None: ...
    def not_applied(self, directory: str = "") -> None: ...

    def summary(self, rows: Iterable[Row]) -> None:
        self.reported.append(list(rows))


class Failures:
    """Collects the errors of single paths and partitions, so that a changing command continues with the others.

    ``status``: the highest exit status so far, 0 for none. ``errors``: by path or directory of a partition."""

    def __init__(self, reporter: Messages) -> None:
        self._reporter = reporter
        self.status = 0
        self.errors: dict[str, KsegError] = {}

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
    the PATHs themselves are only read then. ``links``: as in `write_copy`. ``arguments``: as in `Author`.
    """

    is_dry: bool = False
    takes_lock: bool = True
    keeping: Keeping = field(default_factory=Keeping)
    output: str | None = None
    links: bool = False
    arguments: tuple[str, ...] | None = None


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

    def __init__(self, reporter: Reporter, server: ServerProperties | None = None) -> None:
        self.reporter = reporter
        self.nodes = Nodes(server=server)
        """The nodes of the PATHs."""
        self.failures = Failures(reporter)
        """Partitions of a log directory that could not be planned or changed: `plan_root` must leave them out."""
        self.left_alone: list[str] | None = None
        """Partitions that stay as they are because they are not damaged, if the command looks for such."""
        self.facts: Row = {}
        """What the command adds to its summary in JSON."""

    def plan_partition(self, directory: str, known: Known) -> Plan | Iterator[Plan]:
        """Plans a single partition given as PATH; ``known``: the files of its log directory.

        Several plans, or a plan that needs staged files until it is applied, are returned as an iterator; each is
        applied before the next is requested.
        """
        raise NotImplementedError

    def plan_log_directory(self, directory: str, known: Known, done: list[str]) -> Iterator[Plan]:
        """Yields a plan for each partition; each is applied before the next is requested, but with `at_once` above 1,
        so many may be unfinished.

        ``done``: names of partitions that an interrupted run with the same arguments has changed. A partition that
        cannot be planned, or whose plan cannot be applied, is added to `failures`; the others are still planned.
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

    def changes_root_again(self, directory: str) -> bool:
        """Whether `plan_root_again` may plan something."""
        return False

    def plan_root_again(self, directory: str, planned: Known, is_dry: bool) -> Plan:
        """Plans the files of the log directory once more, when those of all PATHs are written.

        ``planned``: the files as `plan_root` leaves them.
        """
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


# The PATHs of changing commands: partitions or log directories, their locks, and changes that were interrupted.


def resolved_in_place(path: str) -> str:
    """As `resolved_to_change`. Raises PathError for what no command changes in its place."""
    real = resolved_to_change(path)
    if is_url(path) or Place(real).tree is not None or form_at(real) is not None:
        raise PathError(
            f"{shown(path)}: packed files, archives, segments of Redpanda and object stores are never changed: give "
            "--output DIR to write the result there; erase and undo need them unpacked"
        )
    return real


def is_partition(path: str) -> bool:
    """Whether a directory is a partition rather than a log directory. Raises PathError if it is neither."""
    Place(path).check()
    if not Place(path).is_dir():
        missing = "no such file or directory" if not Place(path).lexists() else "is no directory"
        raise PathError(f"{shown(path) or repr(path)}: {missing}; give a partition or log directory")
    if holds_segments(path):
        return True
    if is_log_directory(path):
        return False
    if quarantine.folder_of(path).is_dir():
        return True
    why = hint(path) or ": holds no segment, no directory such as orders-0, no meta.properties"
    raise PathError(f"{path}: neither a partition nor a log directory{why}")


def partitions_of_topics(path: str, globs: tuple[str, ...], nodes: Nodes) -> list[str]:
    """Returns the path; with ``globs``, a log directory's partitions of such topics. Raises PathError if no path that
    ``nodes`` has holds any."""
    if not globs or is_partition(path):
        return [path]
    return Topics(globs, nodes).named(path, own_partitions(resolved_to_change(path)))


def paths_of_topics(paths: Sequence[str], globs: tuple[str, ...], failures: Failures) -> list[str]:
    """As `partitions_of_topics`, of several paths. Errors are reported."""
    found, nodes = list[str](), Nodes(paths)
    for path in each_once(nodes.paths):
        with failures.of(path):
            found += partitions_of_topics(path, globs, nodes)
    return found


def places_at(paths: Iterable[str], takes_files: bool = False) -> dict[str, list[str]]:
    """Returns the partitions at each path, without paths that cannot be read. ``takes_files``: segments, too."""
    places = dict[str, list[str]]()
    for path in paths:
        with suppress(KsegError):
            is_single = (takes_files and not Place(path).is_dir()) or is_partition(path)
            places[path] = [path] if is_single else own_partitions(path)
    return places


def partitions_at(paths: Sequence[str]) -> list[str]:
    """Returns the partitions at the paths of a node or of several, without what cannot be read; none if any path is
    remote storage, whose topics are those of its objects."""
    if any(map(is_remote_storage, paths)):
        return []
    return [place for places in places_at(expanded(paths)).values() for place in places]


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
                first, second, target = sources[same[0]], parts[same[0]], Place(output) / same[0]
                why = f"{first} and {second} would both become {target}: give each an --output of its own"
                failures.add(PathError(f"{why}; nothing was written for {path}"), path)
                continue
            sources.update(parts)
        found.append(path)
    return found


def interrupted_changes(path: str, is_single: bool, before_undo: bool = False) -> list[str]:
    """Returns one sentence for each interrupted change that the next changing command completes or takes back first.
    ``before_undo``: that command is an undo, which a command that was interrupted in the log directory does not stop.
    """
    found = []
    for partition in [path] if is_single else journaling.changed_partitions(path):
        for change in quarantine.pending(partition):
            found.append(f"{partition}: {change.command!r} was interrupted, and would be completed first")
        if quarantine.was_interrupted(partition):
            found.append(f"{partition}: a change was interrupted before its record, and would be taken back first")
    if not is_single:
        for journal in journaling.journals(path):
            if journal.state == journaling.UNDOING:
                found.append(f"{path}: the undo of {journal.command!r} was interrupted, and would be completed first")
            elif journal.state == journaling.OPEN and not before_undo:
                found.append(f"{path}: {journal.command!r} was interrupted here")
    return found


def completed(
    path: str, is_single: bool, warn: Callable[[str], None], before_undo: bool = False, kept_in: str = ""
) -> list[str]:
    """Completes interrupted changes at a path, whose log directory is locked. Returns a sentence for each.

    ``before_undo``, ``kept_in``: as in `complete_interrupted_in_log_directory`.
    """
    root = log_directory_of(path) if is_single else path
    if is_single and not journaling.journals(root):
        found = complete_interrupted(path, before_undo=before_undo)
    else:
        found = complete_interrupted_in_log_directory(root, before_undo=before_undo, kept_in=kept_in)
    for line in found:
        warn(line)
    return found


CLEAN_SHUTDOWN_REASON = "a log changes: a broker must recover all logs at its next start"
"""Why the clean shutdown marker is removed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a run. ``errors``: by path or directory of a partition. ``exit_status``: that of the command.
    ``would_change``: of a dry run, also what would be completed only."""

    exit_status: int = 0
    is_dry: bool = False
    has_changed: bool = False
    damage_remains: bool = False
    would_change: bool = False
    errors: dict[str, KsegError] = field(default_factory=dict)
    conclusion: list[str] = field(default_factory=list)
    """Sentences about all partitions together."""
    left_alone: list[str] | None = None
    """Partitions that stay as they are because they are not damaged, if the command looks for such."""
    facts: Row = field(default_factory=dict)
    """What the command adds to its summary in JSON."""


def created(
    plans: Sequence[Plan], is_dry: bool, reporter: Reporter, damage_remains: bool = False, facts: Row | None = None
) -> Outcome:
    """Reports plans of new directories, which were written unless ``is_dry``, as other changes do."""
    reporter.begin(1, len(plans))
    for plan in plans:
        reporter.plan(plan)
    reporter.applied()
    status = int(damage_remains or (is_dry and bool(plans)))
    return Outcome(status, is_dry, not is_dry and bool(plans), damage_remains, facts=facts or {})


class RunState:
    """The reporter and progress of a run.

    ``has_plans``: plans with steps were made (dry run) or applied. ``made_root``: the output has got the files of a log
    directory.
    """

    def __init__(self, reporter: Reporter, is_dry: bool) -> None:
        self.reporter, self.has_plans, self.made_root = reporter, False, False
        self._is_dry = is_dry
        self._pending: set[str] = set()

    def planned(self, plan: Plan, with_directory: str = "") -> None:
        if plan:
            self.has_plans |= self._is_dry
            self._pending.add(with_directory or plan.directory)
        self.reporter.plan(plan, with_directory)

    def applied(self, change: Change | None = None, directory: str = "") -> None:
        self.has_plans |= self._remove_pending(directory)
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
        return Outcome(
            exit_status=max(failures.status, int((self._is_dry and self.has_plans) or damage_remains)),
            is_dry=self._is_dry,
            has_changed=(self.has_plans and not self._is_dry) or failures.status == StoppedHalfwayError.exit_status,
            damage_remains=damage_remains,
            would_change=self._is_dry and self.has_plans,
            errors=dict(failures.errors),
            **more,
        )


class PathRun:
    """The run over one PATH. ``is_single``: the path is a partition."""

    def __init__(self, path: str, is_single: bool, planner: Planner, options: ChangeOptions, state: RunState) -> None:
        self.path, self.is_single, self.planner, self.options, self.state = path, is_single, planner, options, state
        self.root = log_directory_of(path) if is_single else path
        self._is_marker_reported = planner.keeps_marker or options.output is not None
        self._is_one_plan = False
        self._change: LogDirectoryChange | None = None
        self._planned: dict[str, RootFile | None] = {}
        """The files of the log directory after `show` or `apply`."""

    def _report(self, plan: Plan) -> None:
        """Reports a plan; before the first that needs it, the removal of the clean shutdown marker, done first."""
        if not journaling.leaves_marker(plan) and not self._is_marker_reported:
            marker, self._is_marker_reported = Plan(self.root), True
            if marker.state_of(CLEAN_SHUTDOWN) is not None:
                marker.delete(CLEAN_SHUTDOWN, CLEAN_SHUTDOWN_REASON)
                self.state.planned(marker, plan.directory)
        self.state.planned(plan)

    def _plans(self, known: Known, done: Sequence[str] = ()) -> Generator[Plan]:
        """Reports the plans of the partitions, and yields them. The caller closes it, which removes staged files."""
        found = (
            self.planner.plan_partition(self.path, known)
            if self.is_single
            else self.planner.plan_log_directory(self.path, known, list(done))
        )
        self._is_one_plan = isinstance(found, Plan)
        with ExitStack() as held:
            if isinstance(found, Generator):
                held.enter_context(closing(found))
            for plan in [found] if isinstance(found, Plan) else found:
                self._report(plan)
                yield plan

    def _plan_root(self, directory: str, known: Known, has_changed: bool) -> Plan:
        """Plans and reports the files of a log directory."""
        plan = self.planner.plan_root(directory, known, has_changed)
        self._report(plan)
        new = {name: RootFile(content, 0, 0) for name, content in journaling.root_contents(plan).items()}
        self._planned = {**known, **new}
        return plan

    @property
    def is_unfinished(self) -> bool:
        """Whether `finish` follows when all PATHs are done."""
        is_possible = bool(self._planned) and not self.is_single and self.options.output is None
        return is_possible and self.planner.changes_root_again(self.root)

    def finish(self) -> None:
        """Plans the files of the log directory once more, and ends its change."""
        self._report(plan := self.planner.plan_root_again(self.root, self._planned, self.options.is_dry))
        if (change := self._change) is not None:
            with change.rolled_back_if_unchanged():
                change.finish(plan)
                self.state.applied()

    def _begin(self) -> LogDirectoryChange:
        planner = self.planner
        change = LogDirectoryChange(
            self.root, planner.command, planner.root_names, self.options.keeping, keeps_marker=planner.keeps_marker,
            path_name=directory_name(self.path) if self.is_single else "",
            author=Author.present(self.options.arguments),
        )  # fmt: skip
        if self.is_single and not planner.with_root and not change.is_begun:
            change.leave_root_files()
        for line in change.messages:
            self.state.reporter.warning(line)
        return change

    def show(self) -> None:
        """Reports the plans: of a partition, or of the partitions of a log directory and then of its own files."""
        change = None if self.is_single else self._begin()
        known = known_root_files(self.root, self.planner.root_names) if change is None else change.known
        done = [] if change is None else change.done
        has_changed = sum(map(bool, self._plans(known, done))) > 0
        if change is not None or self.planner.with_root:
            self._plan_root(self.root, known, has_changed or (change is not None and change.is_begun))

    def apply(self) -> None:
        """Reports the plans, and applies them."""
        change = self._change = self._begin()
        with change.rolled_back_if_unchanged():
            if self.is_single:
                self._apply_partition(change)
            else:
                self._apply_log_directory(change)

    def _apply_partition(self, change: LogDirectoryChange) -> None:
        with_root, root_plan = self.planner.with_root, Plan(self.root)
        with closing(self._plans(change.known)) as plans:
            for plan in plans:
                if self._is_one_plan and with_root:
                    # The plan for the root's files decides what the journal can restore, so it comes first.
                    if not (root_plan := self._plan_root(self.root, change.known, bool(plan) or change.is_begun)):
                        change.leave_root_files()
                if plan:
                    self.state.applied(change.apply(plan))
        if with_root and not self._is_one_plan:
            root_plan = self._plan_root(self.root, change.known, change.is_begun)
        if root_plan or change.is_begun:
            change.finish(root_plan)
            if root_plan:
                self.state.applied()

    def _apply_log_directory(self, change: LogDirectoryChange) -> None:
        """Errors of partitions are added to the planner's failures."""
        is_whole = True
        with closing(self._plans(change.known, change.done)) as plans:
            for plan, outcome in change.apply_all(plans, self.planner.at_once):
                if isinstance(outcome, KsegError):
                    self.planner.failures.add(outcome, plan.directory)
                    self.state.not_applied(plan.directory)
                    is_whole &= not isinstance(outcome, StoppedHalfwayError)
                else:
                    self.state.applied(outcome, plan.directory)
        if not is_whole:
            return  # the journal stays: the same command resumes, and the checkpoints are written then
        if change.is_begun and not change.has_changed:
            change.roll_back()  # none of the plans could be applied
        plan = self._plan_root(self.root, change.known, change.is_begun)
        change.finish(plan, is_last=not self.is_unfinished)
        self.state.applied()

    def copy(self) -> None:
        """Reports the plans, and writes the resulting partitions to another directory unless the run is dry."""
        planner, output, is_dry = self.planner, self.options.output or "", self.options.is_dry
        disk, unchanged, names = Disk(), 0, dict[str, str]()
        with ExitStack() as held:
            if not is_dry:
                if not Place(output).is_dir():
                    with errors_at(output):
                        disk.make_directory(output)
                        disk.copy_owner_if_allowed(output, self.path, as_directory=True)
                held.enter_context(locked(output, self.options.takes_lock))
            known, rows = known_root_files(self.root, planner.root_names), rows_to_extend(output)
            with closing(self._plans(known)) as plans:
                for plan in plans:
                    name = planner.name_of_copy(plan.directory, self.is_single)
                    names[directory_name(plan.directory)] = name
                    if not is_dry:
                        write_copy(plan, output, name=name, links=self.options.links)
                        self.state.applied()
                        unchanged += not plan
            if unchanged:
                text = f"copied without a change: {plural(unchanged, 'partition', 'partitions')}"
                self.state.reporter.warning(f"{output}: {text}")
            if (contents := planner.root_of_copy()) is not None:
                if not is_dry:
                    write_root_files(contents, output)
            elif self.is_single or is_log_directory_of_broker(output):
                self._extend_root(known, output, rows, names)
            else:  # copies the log directory's own files, with their new contents
                plan = self._plan_root(self.path, known, self.state.has_plans)
                if not is_dry:
                    write_root_files(journaling.root_contents(plan), output, self.path)
                    self.state.applied()
                    self.state.made_root = True

    def _extend_root(self, known: Known, output: str, rows: Rows, names: Mapping[str, str]) -> None:
        """Adds the entries of copied partitions to the checkpoints of the output, which had ``rows``; to those that a
        broker needs if there is no log directory yet. ``names``: the new name of each partition."""
        contents = journaling.root_contents(self.planner.plan_root(self.root, known, self.state.has_plans))
        copied = copied_rows(self.root, contents, names)
        if not is_log_directory_of_broker(output):
            copied = {name: copied[name] for name in copied if name in NEEDED_BY_COPIES}
        elif self.state.made_root and METADATA_PARTITION in names:
            # A voter's log has to be in the directory whose directory.id the quorum knows.
            found = journaling.read_root_file(self.root, META_PROPERTIES)
            properties = contents.get(META_PROPERTIES, found.content if found else None)
            write_root_files({} if properties is None else {META_PROPERTIES: properties}, output)
        if not Place(output).is_dir():
            return
        plan = Plan(output)
        for name, content in checkpoints_with(rows, copied).items():
            plan.write(name, [content], "with the entries of the copied partitions")
        self.state.planned(plan)
        if plan and not self.options.is_dry:
            LogDirectoryChange(output, self.planner.command, copied, Keeping(keeps=False)).finish(plan)
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
    with ExitStack() as held:
        if options.is_dry and options.output is None:  # nothing that is seen changes before it is used
            cache = held.enter_context(directory_cache())
            paths = [Place(path, cache=cache) for path in paths]
        planner.nodes.give(paths)
        paths = each_once(planner.nodes.paths)
        if options.output is not None:
            check_output(options.output, paths, may_be_log_directory=True)
        reporter.begin(planner.at_once, partition_count(paths))
        paths = without_same_outputs(paths, options.output, failures)
        refused = _lock_all(paths, held) if options.takes_lock and options.output is None and not options.is_dry else {}
        unfinished = list[PathRun]()
        try:
            for path in paths:
                with failures.of(path):
                    found = _run_path(path, planner, options, state, refused)
                    unfinished += [found] if found.is_unfinished else []
                state.not_applied()
        finally:
            for one in unfinished:
                with failures.of(one.path):
                    one.finish()
                state.not_applied()
    more = {"conclusion": planner.conclusion(), "left_alone": planner.left_alone, "facts": planner.facts}
    return state.outcome(failures, planner.damage_remains, **more)


def _lock_all(paths: Sequence[str], held: ExitStack) -> dict[str, KsegError]:
    """Locks the log directories of all PATHs until ``held`` ends: no broker starts on some of a node's disks while the
    others change. All runs lock them in one order. Returns the errors by log directory.
    """
    to_lock = set[str]()
    for path in paths:
        with suppress(KsegError, OSError):  # reported when its turn comes
            real = resolved_to_change(path)
            if path != STANDARD_INPUT and not is_url(path) and Place(real).tree is None:
                to_lock.update(directories_to_lock(path, real, is_partition(real)))
    refused = dict[str, KsegError]()
    for directory in sorted(to_lock):
        try:
            held.enter_context(locked(directory))
        except KsegError as error:
            refused[directory] = error
    return refused


def _run_path(
    path: str, planner: Planner, options: ChangeOptions, state: RunState, refused: Mapping[str, KsegError]
) -> PathRun:
    """``refused``: as `_lock_all` returns them."""
    if path == STANDARD_INPUT:
        raise PathError("standard input cannot be changed: give a partition or log directory")
    reporter, real = planner.reporter, resolved(path) if options.output is not None else resolved_in_place(path)
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
    own = set(own_partitions(real)) if partitions else set()
    for partition in partitions:
        listing = listing_of(partition) if partition in own else None
        warn_of_skipped_files(partition, False, reporter.warning, planner.reads_all_files, listing)
    for link in (path for path in partitions if path not in own):
        planner.failures.add(PathError(f"{link}: is a link out of the log directory: name its target"), link)
    path_run = PathRun(real, is_single, planner, options, state)
    if options.output is not None:
        path_run.copy()
    elif options.is_dry:
        for line in interrupted_changes(real, is_single):
            reporter.warning(line)
        path_run.show()
    else:
        for directory in to_lock:
            if directory in refused:
                raise refused[directory]
        completed(real, is_single, reporter.warning)
        path_run.apply()
    return path_run


def check_unchanged(plans: Sequence[Plan], places: Iterable[Place]) -> None:
    """Raises PathError if files have changed, or were created, since the plans were made. ``places``: those of the
    PATHs, whose archives have been opened anew."""
    roots = list(places)
    for plan in plans:
        created: dict[str, FileState | None] = {step.file: None for step in plan.steps if step.action == CREATE}
        directory = place_in(plan.directory, roots)
        for name, known in (created | plan.initial).items():
            path = directory / name
            if file_state(path) != known:
                raise PathError(f"{path}: has changed since the plan was made; nothing was changed")
