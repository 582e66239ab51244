"""Prints findings as JSON Lines: ``finding``, ``omitted``, ``comparison``, ``partition``, at the end ``summary``."""

from typing import TYPE_CHECKING, Any

from kseg.findings.table import INFO
from kseg.formats.json_values import fields_of, name_value
from kseg.output.findings.printer import FindingsPrinter
from kseg.output.notices import Notices
from kseg.output.sink import Sink
from kseg.verification.report import AssignedPartition, Finding, NodeStart, Report

if TYPE_CHECKING:
    from kseg.verification.report import Comparison


class JsonFindings(FindingsPrinter):
    """Prints one object per line; the last one is the summary. ``sort``: the field by which partitions are sorted."""

    def __init__(self, sink: Sink, sort: str | None = None, least: str = INFO) -> None:
        super().__init__(sink, least)
        self._sort = sort

    def show(self, finding: Finding) -> None:
        self.sink.put_row(finding_row(finding))

    def compared(self, comparison: "Comparison") -> None:
        self.sink.put_row(comparison_row(comparison))

    def finish(self, report: Report, notices: Notices) -> None:
        for file, code, count in self.unshown(report):
            self.sink.put_row({"type": "omitted", "code": code, "file": name_value(file), "count": count})
        totals = report.totals
        if totals.partitions:
            from kseg.output.fleet_table import sorted_rows

            for partition in sorted_rows(totals.partitions, self._sort or "name"):
                self.sink.put_row(partition)
        self.sink.put_row(
            {
                "type": "summary",
                **fields_of(totals, "files", "bytes", "batches", "records", "errors", "warnings", "infos"),
                "ok": totals.errors == 0 and report.is_whole,
                "next": [step.argv for step in report.steps],
                "notJudged": totals.not_judged,
                "nodes": [node_row(start) for start in report.starts],
            }
        )
        self.sink.flush()


def finding_row(finding: Finding) -> dict[str, Any]:
    """Returns a finding as a JSON object; paths and transactional ids are bytes."""
    details = finding.details
    return {
        "type": "finding",
        **fields_of(finding, "code", "severity"),
        "file": name_value(finding.file),
        **fields_of(finding, "position", "length", "offset", "message"),
        "details": details | {key: name_value(details[key]) for key in ("other", "transactionalId") if key in details},
        **fields_of(finding, "repair", "needs"),
    }


def comparison_row(comparison: "Comparison") -> dict[str, Any]:
    """Returns the comparison of two replicas as a JSON object."""
    return {
        "type": "comparison",
        "file": name_value(comparison.path),
        "against": name_value(comparison.other),
        "identical": comparison.is_identical,
        **fields_of(comparison, "same", "different", "only_here", "only_there"),
        "notCompared": comparison.damaged_ranges,
        **fields_of(comparison, "agree_to", "diverge_at"),
        "startOffset": comparison.start_offsets[0],
        "lastOffset": comparison.last_offsets[0],
        "againstStartOffset": comparison.start_offsets[1],
        "againstLastOffset": comparison.last_offsets[1],
    }


def node_row(start: NodeStart) -> dict[str, Any]:
    """Returns the start of a node as a JSON object."""
    return {
        "logDirectories": [name_value(path) for path in start.directories],
        "starts": start.starts,
        "because": start.because,
        "recovers": [name_value(path) for path in start.recovers],
        "setsAside": None if start.sets_aside is None else [name_value(path) for path in start.sets_aside],
        "deletes": [name_value(path) for path in start.deletes],
        "deletedFiles": start.deleted_files,
        "creates": None if start.creates is None else _assigned(start.creates),
        "lacks": _assigned(start.lacks),
    }


def _assigned(partitions: list[AssignedPartition]) -> list[dict[str, object]]:
    return [
        {"partition": name_value(name), "logDirectory": None if directory is None else name_value(directory)}
        for name, directory in partitions
    ]
