"""The base of the printers of findings, and their common texts."""

from typing import TYPE_CHECKING

from kseg.findings.table import BROKER, DECISION, ERROR, INFO, REPLICA, TOPIC_ID, WARNING
from kseg.output.notices import Notices
from kseg.output.sink import Sink
from kseg.quantities import shown_bytes
from kseg.verification.report import Finding, Report

if TYPE_CHECKING:
    from kseg.verification.replicas.comparison import Comparison

COLORS = {ERROR: "red", WARNING: "yellow", INFO: "cyan"}
NEEDED = {
    BROKER: "a broker or cluster at work",
    DECISION: "a decision",
    REPLICA: "another replica",
    TOPIC_ID: "the topic's id (kseg recover --topic-id)",
}


class FindingsPrinter:
    """Base class: call `show` for each finding, `compared` for each pair of replicas, `finish` at the end."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink

    def show(self, finding: Finding) -> None:
        raise NotImplementedError

    def compared(self, comparison: "Comparison") -> None:
        raise NotImplementedError

    def finish(self, report: Report, notices: Notices) -> None:
        raise NotImplementedError


def summary_of(report: Report) -> str:
    """Returns the totals as one line."""
    totals = report.totals
    text = (
        f"files: {totals.files} ({shown_bytes(totals.bytes)}), batches: {totals.batches}, records: {totals.records}; "
        f"errors: {totals.errors}, warnings: {totals.warnings}, infos: {totals.infos}"
    )
    if totals.not_judged:
        text += f"; files not judged: {totals.not_judged}"
    return text if report.is_whole else text + "; not all could be checked"
