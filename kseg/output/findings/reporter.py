"""Reports a verification to people or programs while it runs."""

from typing import TYPE_CHECKING

from kseg.output.findings.printer import FindingsPrinter
from kseg.output.notices import Notices
from kseg.output.progress import Progress
from kseg.verification.report import Finding, Report

if TYPE_CHECKING:
    from kseg.verification.replicas.comparison import Comparison


class FindingsReporter:
    """Prints findings, messages and progress."""

    def __init__(self, printer: FindingsPrinter, notices: Notices, progress: Progress) -> None:
        self._printer, self._notices, self._progress = printer, notices, progress
        self.begin, self.advance = progress.at, progress.advance
        self.failed, self.noted = notices.error, notices.warning
        notices.before = progress.erase

    def finding(self, finding: Finding) -> None:
        if self._printer.shows(finding.severity):
            self._progress.erase()
            self._printer.show(finding)

    def compared(self, comparison: "Comparison") -> None:
        self._progress.erase()
        self._printer.compared(comparison)

    def finish(self, report: Report) -> None:
        self._progress.erase()
        self._printer.finish(report, self._notices)
