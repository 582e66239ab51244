"""Checks several paths in order, and adds its repair to each finding."""

from collections import deque
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from kseg.errors import KsegError, StoppedHalfwayError
from kseg.stores.unreadable import is_disk_error
from kseg.verification.path_check import judge_path
from kseg.verification.repairs import Repairs
from kseg.verification.report import Finding, Report, effect_of
from kseg.verification.settings import Advance, CheckSettings

if TYPE_CHECKING:
    from kseg.verification.directories.directory_tree import PartitionChecker
    from kseg.verification.replicas.comparison import Comparison

MAX_HELD_FINDINGS = 1000
"""Limit of findings of one partition that are held back before they are shown."""
LEVELS = ("quick", "full", "deep")
"""Names of the levels QUICK, FULL and DEEP of `kseg.segment.survey`, by their numbers."""


class Check:
    """``show`` is called for each finding when all findings of its partition are known: its repair depends on the
    others. ``checker`` checks partitions; None: this process does, and worker processes unless ``single_process``.

    After `finish` the ``report`` has the totals, the next steps, and ``failures``: sentences about unread parts.
    """

    def __init__(
        self,
        paths: Collection[str],
        settings: CheckSettings,
        show: Callable[[Finding], None],
        ignored: Collection[str] = (),
        checker: "PartitionChecker | None" = None,
        single_process: bool = False,
        progress: Advance = lambda _: None,
    ) -> None:
        self.settings = settings
        self.report = Report(self._hold, ignored)
        self._show, self._progress = show, progress
        self._checker, self._single_process = checker, single_process
        self._paths = paths
        self._repairs = Repairs()
        self._held: list[Finding] = []
        self._held_path = ""
        self._ready: deque[Finding] = deque()

    def judge(self, path: str) -> list[str]:
        """Judges one path. Returns the failures."""
        settings, report = self.settings, self.report
        if settings.server is not None:
            from kseg.verification.directories.nodes import judge_absent

            if judge_absent(path, settings, report):
                return []
        return self.attempt(
            path, lambda: judge_path(path, settings, report, self._progress, self._checker, self._single_process)
        )

    def compare(self, path: str, other: str, compared: "Callable[[Comparison], None]") -> list[str]:
        """Compares one path with another replica. Returns the failures."""
        from kseg.verification.replicas.pairs import compare_path  # few checks have another replica

        def show(comparison: "Comparison") -> None:
            self._show_held()
            compared(comparison)

        settings = self.settings
        return self.attempt(
            path,
            lambda: compare_path(
                path,
                other,
                self.report,
                show,
                settings.jobs,
                settings.max_batch_bytes,
                self._progress,
                settings.remote.wants,
            ),
        )

    def attempt(self, path: str, work: Callable[[], None]) -> list[str]:
        """Runs a part of the check; an error does not end the check. Returns the failures."""
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
        return self.report.failures[before:]

    def finish(self) -> Report:
        """Checks the log directories of each node together, shows the remaining findings, and decides on the commands
        that repair them."""
        if (self.report.directories or self.report.absent) and not self.report.was_interrupted:
            from kseg.verification.directories.nodes import judge_nodes  # segments need none of this

            self.attempt("", lambda: judge_nodes(self._paths, self.settings, self.report))
        self._show_held()
        self.report.steps, self.report.needs = self._repairs.steps(), self._repairs.needs()
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
        self._ready.extend(self._repairs.with_repairs(self._held))
        self._held.clear()

    def _show_ready(self) -> None:
        """Takes findings one at a time, so that the rest is left after an interrupt."""
        while self._ready:
            self._show(self._ready.popleft())

    def _show_held(self) -> None:
        self._add_repairs()
        self._show_ready()
