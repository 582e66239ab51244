"""The base of the printers of findings, and their common texts."""

from typing import TYPE_CHECKING

from kseg.findings.table import BROKER, DECISION, ERROR, INFO, REPLICA, TOPIC_ID, WARNING
from kseg.output.notices import Notices, on_one_line
from kseg.output.sink import Sink
from kseg.verification.report import Finding, Report

if TYPE_CHECKING:
    from kseg.verification.replicas.comparison import Comparison

COLORS = {ERROR: "red", WARNING: "yellow", INFO: "cyan"}
NEEDED = {
    BROKER: "a running broker or cluster",
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


def extent_of(finding: Finding) -> str:
    """Returns the offset and the size of a finding, as they follow its message; "" for neither."""
    offset = "" if finding.offset is None else f" [offset {finding.offset}]"
    size = "" if finding.length is None else f" ({finding.length} bytes)"
    return offset + size


def finding_text(finding: Finding) -> str:
    """Returns the message on one line, with the offset to which a consumer can seek behind damage."""
    behind = finding.details.get("nextGoodOffset")
    return on_one_line(finding.message if behind is None else f"{finding.message}; next readable offset: {behind}")
