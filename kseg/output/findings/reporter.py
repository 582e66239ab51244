"""Selects the printer of findings, and reports a verification to people or programs while it runs."""

from typing import TYPE_CHECKING

from kseg.findings.table import ERROR, INFO
from kseg.output.findings.printer import FindingsPrinter
from kseg.output.notices import Notices
from kseg.output.progress import Progress
from kseg.output.sink import Sink
from kseg.verification.report import Finding, Report

if TYPE_CHECKING:
    from kseg.verification.report import Comparison


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


def printer_of(
    form: str,
    sink: Sink,
    color: str,
    fail_on: str = ERROR,
    paths: tuple[str, ...] = (),
    sort: str | None = None,
    least: str | None = None,
) -> FindingsPrinter:
    """Returns the printer for ``--format``; ``paths``, ``fail_on`` and ``sort`` are the command line's.

    ``least``: the lowest severity that is shown; None for all, but warnings in text.
    """
    if form == "json":
        from kseg.output.findings.jsonl import JsonFindings

        return JsonFindings(sink, sort, least or INFO)
    if form == "junit":
        from kseg.output.findings.junit import JunitFindings

        return JunitFindings(sink, fail_on, paths, least or INFO)
    from kseg.output.findings.text import TextFindings

    return TextFindings(sink, color, sort, least)
