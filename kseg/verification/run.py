"""Runs `kseg verify`: checks each PATH in order, adds its repair to each finding, and reports them.

Modules for directories are imported on first use, so that a single file is checked fast.
"""

import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING

from kseg.errors import KsegError, PathError, StoppedHalfwayError, refuse_if
from kseg.findings.table import ERROR, SEVERITIES, WARNING
from kseg.node.server_properties import ServerProperties
from kseg.node.topics import with_topics
from kseg.options import declaration
from kseg.options.declaration import INPUT, RULES, PathKind, Value, option
from kseg.releases.release import Era
from kseg.runtime.threads import usable_cores
from kseg.segment.paths import each_once, places_of
from kseg.stores.archives.mounting import archives_at
from kseg.stores.archives.spool import current_spool
from kseg.stores.remote.keys import RemoteChoice
from kseg.stores.remote.recognition import is_remote_storage
from kseg.stores.source import is_disk_error
from kseg.verification.partition import CheckSettings, add_archive
from kseg.verification.report import COMPARED_FIELDS, CheckReporter, Comparison, Finding, Report, effect_of
from kseg.verification.rules import judge_file

if TYPE_CHECKING:
    from kseg.node.node import Nodes
    from kseg.verification.directory_tree import PartitionChecker
    from kseg.verification.manifest import OpenOutput
    from kseg.verification.repairs import Repairs


def judge_path(
    path: str,
    settings: CheckSettings,
    report: Report,
    checker: "PartitionChecker | None" = None,
    nodes: "Nodes | None" = None,
) -> None:
    """Checks a PATH. Raises PathError if there are no files of Kafka.

    Unreadable partitions of a log directory are added to ``report.failures``, and the others are checked. ``checker``
    checks the partitions; None: this process does, and worker processes if the settings allow them.
    """
    if is_remote_storage(path):
        from kseg.verification.remote_storage import judge_storage

        judge_storage(path, settings, report)
        return
    with archives_at([path], current_spool(), is_live=settings.is_live) as (place,):
        place.check()
        try:
            if place.is_dir():
                from kseg.node.node import Nodes
                from kseg.verification.directory_tree import DirectoryCheck

                # Trees are open in this process; only forked processes have them, too.
                may_fork = settings.may_fork and place.is_forkable
                DirectoryCheck(settings, report, checker, may_fork, nodes or Nodes()).judge(place)
            elif path != "-" and not place.lexists():
                raise PathError(f"{path or repr(path)}: no such file or directory")
            else:
                judge_file(place, settings, report)
        finally:
            add_archive(place, report)


MAX_HELD_FINDINGS = 1000
"""Limit of findings of one partition that are held back before they are shown."""
LEVELS = ("quick", "full", "deep")
"""Names of the levels QUICK, FULL and DEEP of `kseg.segment.survey`, by their numbers."""


class Check:
    """The findings of a partition are reported when all of them are known: their repairs depend on each other.
    ``checker``: see `judge_path`; ``against``: another replica.

    After `finish` the ``report`` has the totals, the next steps, and ``failures``: sentences about unread parts.
    """

    def __init__(
        self, paths: Collection[str], settings: CheckSettings, reporter: CheckReporter, ignored: Collection[str] = (),
        checker: "PartitionChecker | None" = None, against: str | None = None,
    ) -> None:  # fmt: skip
        self.settings = settings
        self.report = Report(self._hold, ignored, reporter.advance)
        self._reporter, self._checker = reporter, checker
        self._paths, self._against = paths, against
        self._held: list[Finding] = []
        self._held_path = ""
        self._ready: deque[Finding] = deque()

    @cached_property
    def nodes(self) -> "Nodes":
        """The nodes at the PATHs."""
        from kseg.node.node import Nodes  # single files need none

        return Nodes(self._paths, self.settings.server)

    @cached_property
    def _repairs(self) -> "Repairs":
        from kseg.node.node import Nodes
        from kseg.verification.repairs import Repairs  # most checks find nothing to repair

        return Repairs(self.nodes, Nodes([self._against] if self._against else []))

    def judge(self, path: str) -> None:
        """Judges one path."""
        settings, report = self.settings, self.report
        if self.nodes.servers:
            from kseg.verification.log_directories import judge_absent

            if judge_absent(path, self.nodes, report):
                return
        self._attempt(path, lambda: judge_path(path, settings, report, self._checker, self.nodes))

    def compare(self, path: str, other: str, by: tuple[str, ...]) -> None:
        """Compares one path with another replica; ``by``: fields by which records are matched, none for the offset."""
        from kseg.verification.replicas import compare_path  # few checks have another replica

        def show(comparison: Comparison) -> None:
            self._show_held()
            self._reporter.compared(comparison)

        self._attempt(path, lambda: compare_path(path, other, self.settings, self.report, show, by))

    def keep_manifest(self, path: str, open_output: "OpenOutput") -> None:
        """Compares all paths with a manifest, or writes it."""
        from kseg.verification.manifest import keep_manifest  # few checks have a manifest

        keep = partial(keep_manifest, path, places_of(self.nodes.paths), self.settings, self.report, open_output)
        self._attempt(path, lambda: self._reporter.noted(keep()))

    def _attempt(self, path: str, work: Callable[[], None]) -> None:
        """Runs a part of the check; an error does not end the check."""
        before = len(self.report.failures)
        try:
            work()
        except StoppedHalfwayError:
            raise
        except KsegError as error:
            self.report.failures.append(str(error))
        except OSError as error:
            if not is_disk_error(error):
                raise
            self.report.failures.append(f"{error.filename or path}: {error.strerror or error}")
        self._show_held()
        for failure in self.report.failures[before:]:
            self._reporter.failed(failure)

    def finish(self) -> Report:
        """Checks the log directories of each node together, shows the remaining findings, and decides on the commands
        that repair them."""
        if (self.report.directories or self.report.absent) and not self.report.was_interrupted:
            from kseg.verification.nodes import judge_nodes  # segments need none of this

            self._attempt("", lambda: judge_nodes(self.nodes, self.settings, self.report))
        self._show_held()
        if self._held_path:  # there are findings
            self.report.steps, self.report.needs = self._repairs.steps(), self._repairs.needs()
        if self.report.clusters:
            from kseg.verification.clusters import with_commands  # few checks have several nodes

            self.report.clusters = [with_commands(one, self.report.steps) for one in self.report.clusters]
        return self.report

    def _hold(self, finding: Finding) -> None:
        if effect := effect_of(finding):
            self.report.effects.setdefault((effect, finding.file), finding)
        path = self._repairs.path_of(finding)
        if self._held and (path != self._held_path or len(self._held) == MAX_HELD_FINDINGS):
            self._add_repairs()
        self._held_path = path
        self._held.append(finding)
        self._show_ready()

    def _add_repairs(self) -> None:
        if self._held:
            self._ready.extend(self._repairs.with_repairs(self._held))
            self._held.clear()

    def _show_ready(self) -> None:
        """Takes findings one at a time, so that the rest is left after an interrupt."""
        while self._ready:
            self._reporter.finding(self._ready.popleft())

    def _show_held(self) -> None:
        self._add_repairs()
        self._show_ready()


def _fields_of_text(text: str) -> tuple[str, ...]:
    """Reads ``key,value`` or ``content`` for all fields. Raises ValueError."""
    names = COMPARED_FIELDS if text == "content" else tuple(text.split(","))
    if not {*names} <= {*COMPARED_FIELDS} or len({*names}) < len(names):
        raise ValueError(f"{text!r} is neither content nor some of {','.join(COMPARED_FIELDS)}")
    return names


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """The options of `kseg verify`; None for an option that is not given.

    ``against``: another replica; ``manifest``: a file of digests; ``ignored``: codes of findings; ``fail_on``: the
    lowest severity that makes the exit status 1; ``remote``: topics and keys of remote storage; ``server``: the
    broker's own settings; ``takes_census``: facts about each partition are collected, for a table.
    """

    paths: tuple[str, ...]
    level: str = option(
        "--level",
        RULES,
        "quick: headers; full: also checksums and side files; deep: also every record.",
        LEVELS,
        default="full",
        shows_default=True,
    )
    against: str | None = option(
        "--against",
        INPUT,
        "Also compare with another replica: a partition, a log directory or a segment.",
        PathKind(is_log=True),
        metavar="DIR",
    )
    by: tuple[str, ...] | None = option(
        "--by",
        INPUT,
        "Match the records of --against by content: some of key,value,headers,timestamp, or content for all of these; "
        "default: by offset.",
        Value("FIELDS", _fields_of_text),
    )
    manifest: str | None = option(
        "--manifest",
        INPUT,
        "Also compare with the digests in FILE; if FILE does not exist, write it.",
        PathKind(),
        metavar="FILE",
    )
    ignored: tuple[str, ...] = option(
        "--ignore", RULES, "Omit findings with this code; may be repeated.", metavar="CODE", is_many=True
    )
    fail_on: str = option(
        "--fail-on", RULES, "Lowest severity with exit status 1.", (ERROR, WARNING), default=ERROR, shows_default=True
    )
    severity: str | None = option(
        "--severity",
        RULES,
        "Lowest severity of the findings and partitions shown; infos are only counted in text by default.",
        SEVERITIES,
    )
    now_ms: int | None = declaration.now()
    max_batch_bytes: int = declaration.batch_limit()
    era: Era = declaration.era(text="Judge the start of this release of Kafka.")
    is_live: bool = declaration.live()
    jobs: int | None = declaration.jobs("threads or processes")
    private_keys: tuple[str, ...] = declaration.private_keys()
    topics: tuple[str, ...] = declaration.topics("a log directory or remote storage")
    server: ServerProperties | None = declaration.server()
    remote: RemoteChoice = field(default_factory=RemoteChoice)
    takes_census: bool = False

    def check(self) -> None:
        """Raises RequestError for options that need another."""
        refuse_if(self.by is not None and self.against is None, "--by is for --against")

    @property
    def passes(self) -> int:
        """How often the segments are read."""
        return 1 + (self.manifest is not None) + (self.against is not None)

    @property
    def needs_only_headers(self) -> bool:
        """Whether nothing of an intact batch is read but its header, once its checksum is known to be right."""
        return self.level == "full" and self.passes == 1

    def settings(self, may_fork: bool) -> CheckSettings:
        """Returns the settings of the rules."""
        return CheckSettings(
            level=LEVELS.index(self.level),
            now_ms=int(time.time() * 1000) if self.now_ms is None else self.now_ms,
            jobs=self.jobs or usable_cores(),
            max_batch_bytes=self.max_batch_bytes,
            is_live=self.is_live,
            era=self.era,
            remote=self.remote,
            server=self.server,
            takes_census=self.takes_census,
            may_fork=may_fork,
        )


def verify(
    options: VerifyOptions,
    reporter: CheckReporter,
    open_output: "OpenOutput",
    checker: "PartitionChecker | None" = None,
    may_fork: bool = True,
) -> int:
    """Checks all paths. Returns the exit status.

    ``open_output``: opens a new manifest; ``checker``: checks partitions elsewhere; ``may_fork``: whether worker
    processes may be started. After an interrupt the findings so far are reported.
    """
    check = Check(options.paths, options.settings(may_fork), reporter, options.ignored, checker, options.against)
    try:
        for path in each_once(with_topics(check.nodes.paths, options.topics)):
            reporter.begin(path)
            check.judge(path)
            if options.against:
                check.compare(path, options.against, options.by or ())
        if options.manifest:
            check.keep_manifest(options.manifest, open_output)
    except KeyboardInterrupt:
        check.report.was_interrupted = True
        reporter.finish(check.finish())
        raise
    report = check.finish()
    reporter.finish(report)
    fails = report.totals.errors or (options.fail_on == WARNING and report.totals.warnings)
    return max(KsegError.exit_status if report.failures else 0, int(bool(fails)))
