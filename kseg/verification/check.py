"""A check of several paths: each is judged, and findings get their repairs in the order in which they were found."""

from collections import deque
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from kseg.errors import KsegError, StoppedHalfwayError
from kseg.stores.unreadable import is_disk_error
from kseg.verification.repairs import Repairs
from kseg.verification.report import Finding, Report
from kseg.verification.settings import Progress, Settings
from kseg.verification.verification import judge_path

if TYPE_CHECKING:
    from kseg.verification.directories.directories import Together
    from kseg.verification.replicas.comparison import Comparison

MOST_HELD = 1000
"""Findings of one partition that are held back before they are shown."""
LEVELS = ("quick", "full", "deep")


class Check:
    """``show`` is called for each finding when all findings of its partition are known: what repairs one depends on the
    others. ``together``: judges partitions; None: this process, and others unless ``is_alone``.

    After `finish` the ``report`` has the totals, the next steps, and ``failures``: sentences about what could not be
    judged.
    """

    def __init__(
        self,
        paths: Collection[str],
        settings: Settings,
        show: Callable[[Finding], None],
        ignored: Collection[str] = (),
        together: "Together | None" = None,
        is_alone: bool = False,
        progress: Progress = lambda _: None,
    ) -> None:
        self.settings = settings
        self.report = Report(self._hold, ignored)
        self._show, self._together, self._is_alone, self._progress = show, together, is_alone, progress
        self._repairs = Repairs(paths)
        self._held: list[Finding] = []
        self._held_place = ""
        self._settled: deque[Finding] = deque()

    def judge(self, path: str) -> list[str]:
        """Judges one path. Returns the failures."""
        settings, report = self.settings, self.report
        return self.attempt(
            path, lambda: judge_path(path, settings, report, self._progress, self._together, self._is_alone)
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
                path, other, self.report, show, settings.jobs, settings.max_batch_bytes, self._progress
            ),
        )

    def attempt(self, path: str, work: Callable[[], None]) -> list[str]:
        """Does a part of the check; an error does not end the check. Returns the failures."""
        told = len(self.report.failures)
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
        return self.report.failures[told:]

    def finish(self) -> Report:
        """Shows the remaining findings, and decides on the commands that repair them."""
        self._show_held()
        self.report.steps, self.report.needs = self._repairs.steps(), self._repairs.needs()
        return self.report

    def _hold(self, finding: Finding) -> None:
        place = self._repairs.place_of(finding)
        if self._held and (place != self._held_place or len(self._held) == MOST_HELD):
            self._settle_held()
        self._held_place = place
        self._held.append(finding)
        self._show_settled()

    def _settle_held(self) -> None:
        self._settled.extend(self._repairs.settled_together(self._held))
        self._held.clear()

    def _show_settled(self) -> None:
        """Takes findings one at a time, so that after an interrupt the rest is still there."""
        while self._settled:
            self._show(self._settled.popleft())

    def _show_held(self) -> None:
        self._settle_held()
        self._show_settled()
