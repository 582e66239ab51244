"""Reports a changing command to people or programs: plans on standard output, messages on standard error."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from kseg.changes.driver.path_run import Outcome
from kseg.changes.driver.reporter import Recording
from kseg.changes.manifest import Change
from kseg.changes.plan import Plan
from kseg.output.changes.plans import PlanPrinter, plan_printer
from kseg.output.notices import Notices
from kseg.output.progress import Progress
from kseg.output.progress_over import progress_over
from kseg.output.sink import MemorySink, Sink

Row = dict[str, Any]


class ChangeSummaryPrinter(Protocol):
    """Prints the summary of each partition."""

    def show(self, partition: Row, segments: Iterable[Row]) -> None:
        """``segments``: one row for each segment of the partition."""

    def total(self) -> None:
        """Prints the sum of several partitions, after the totals of the plans."""


class ChangeReporter:
    """A `kseg.changes.driver.reporter.Reporter` that prints."""

    def __init__(
        self, printer: PlanPrinter, notices: Notices, quiet: bool = False, summaries: ChangeSummaryPrinter | None = None
    ) -> None:
        """``summaries``: prints the summaries of partitions, None for nothing."""
        self.printer, self.notices, self.summaries = printer, notices, summaries
        self.error, self.warning, self.detail = notices.error, notices.warning, notices.detail
        self._quiet = quiet

    def begin(self, at_once: int, partitions: int) -> None:
        self.printer.begin(at_once, partitions)

    def plan(self, plan: Plan, with_directory: str = "") -> None:
        self.printer.show(plan, with_directory)

    def applied(self, change: Change | None = None, directory: str = "") -> None:
        self.printer.done(change, directory)

    def not_applied(self, directory: str = "") -> None:
        self.printer.failed(directory)

    def summary(self, partition: Row, segments: Iterable[Row]) -> None:
        self.printer.needs(partition.get("peakBytes", 0))
        if self.summaries is not None:
            self.summaries.show(partition, segments)

    def finish(self, outcome: Outcome) -> None:
        """Prints the totals."""
        totals = self.printer.totals
        totals.damage_remains, totals.failed = outcome.damage_remains, outcome.failed
        totals.has_changed |= outcome.has_changed
        totals.left_alone = outcome.left_alone
        self.printer.finish(self.notices, outcome.exit_status)

    def progress(self, paths: Sequence[str] | None = None) -> Progress:
        progress = Progress(None, self._quiet)
        if paths is not None:
            progress = progress_over(paths, self._quiet, parts_of=lambda path: [path])
        self.notices.before = progress.erase
        return progress


class _NoNotices(Notices):
    def _put(self, message: str, color: str, copied: str = "") -> None:
        """Leaves a message out."""


def recorded_json(
    recording: Recording,
    outcome: Outcome,
    keeps: bool,
    summaries: Callable[[Sink, Notices], ChangeSummaryPrinter] | None = None,
) -> str:
    """Returns the output of ``--format json`` for a recorded run; messages are left out."""
    sink, notices = MemorySink(), _NoNotices()
    printer = plan_printer("json", sink, "never", outcome.is_dry, keeps)
    reporter = ChangeReporter(printer, notices, True, None if summaries is None else summaries(sink, notices))
    recording.replay(reporter)
    reporter.finish(outcome)
    return sink.data.decode()
