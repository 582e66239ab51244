"""The base of the printers of findings, their common texts, and the reporter of a verification."""

from collections.abc import Iterator

from kseg.findings.table import BROKER, DECISION, ERROR, INFO, REPLICA, SEVERITIES, TOPIC_ID, WARNING, severity_of
from kseg.output.notices import Notices, on_one_line
from kseg.output.progress import Progress
from kseg.output.sink import Sink
from kseg.quantities import shell_line
from kseg.verification.report import CheckReporter, Comparison, Finding, Report

COLORS = {ERROR: "red", WARNING: "yellow", INFO: "cyan"}
NEEDED = {
    BROKER: "a running broker or cluster",
    DECISION: "a decision",
    REPLICA: "another replica",
    TOPIC_ID: "the topic's id (kseg recover --topic-id)",
}


class FindingsPrinter:
    """Base class: call `show` for each finding that `shows`, `compared` for each pair of replicas, `finish` at the end.

    ``least``: the lowest severity that is shown; findings below it are only counted.
    """

    def __init__(self, sink: Sink, least: str = INFO) -> None:
        self.sink, self.least = sink, least

    def shows(self, severity: str) -> bool:
        return SEVERITIES.index(severity) <= SEVERITIES.index(self.least)

    def unshown(self, report: Report) -> Iterator[tuple[str, str, int]]:
        """Yields the file, the code and the number of findings beyond the limit of those that are shown."""
        return ((file, code, count) for file, code, count in report.unshown() if self.shows(severity_of(code)))

    def show(self, finding: Finding) -> None:
        raise NotImplementedError

    def compared(self, comparison: Comparison) -> None:
        raise NotImplementedError

    def finish(self, report: Report, notices: Notices) -> None:
        raise NotImplementedError


class FindingsReporter(CheckReporter):
    """Prints findings, messages and progress while a verification runs."""

    def __init__(self, printer: FindingsPrinter, notices: Notices, progress: Progress) -> None:
        self._printer, self._notices, self._progress = printer, notices, progress
        notices.before = progress.erase

    def begin(self, path: str) -> None:
        self._progress.at(path)

    def advance(self, count: int) -> None:
        self._progress.advance(count)

    def failed(self, message: str) -> None:
        self._notices.error(message)

    def noted(self, message: str) -> None:
        self._notices.warning(message)

    def finding(self, finding: Finding) -> None:
        if self._printer.shows(finding.severity):
            self._progress.erase()
            self._printer.show(finding)

    def compared(self, comparison: Comparison) -> None:
        self._progress.erase()
        self._printer.compared(comparison)

    def finish(self, report: Report) -> None:
        self._progress.erase()
        self._printer.finish(report, self._notices)


def extent_of(finding: Finding) -> str:
    """Returns the offset and the size of a finding, as they follow its message; "" for neither."""
    offset = "" if finding.offset is None else f" [offset {finding.offset}]"
    size = "" if finding.length is None else f" ({finding.length} bytes)"
    return offset + size


def finding_text(finding: Finding) -> str:
    """Returns the message on one line, with the offset to which a consumer can seek behind damage."""
    behind = finding.details.get("nextGoodOffset")
    return on_one_line(finding.message if behind is None else f"{finding.message}; next readable offset: {behind}")


def abort_line(finding: Finding) -> str:
    """Returns the command that ends a hanging transaction on a live cluster, "" if there is none."""
    return shell_line(finding.details.get("abort") or ())
