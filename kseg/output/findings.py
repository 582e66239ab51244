"""Findings as lines of text or as JSON Lines."""

import json
import os

from kseg.output.notices import Notices, on_one_line
from kseg.output.paint import Paint, shown_bytes
from kseg.output.sink import Sink
from kseg.verify.findings import ERROR, KINDS, WARNING
from kseg.verify.report import Finding, Report, Totals

_COLORS = {ERROR: "red", WARNING: "yellow"}


class FindingsPrinter:
    """Base of the forms: `show` for each finding, `finish` at the end."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink

    def show(self, finding: Finding) -> None:
        raise NotImplementedError

    def finish(self, report: Report, notices: Notices) -> None:
        raise NotImplementedError


class TextFindings(FindingsPrinter):
    """``FILE:POSITION: SEVERITY: CODE: what is wrong``, a line each; the summary goes to standard error."""

    def __init__(self, sink: Sink, color: str) -> None:
        super().__init__(sink)
        self._paint = Paint(color, sink.is_terminal)

    def show(self, finding: Finding) -> None:
        place = finding.file if finding.position is None else f"{finding.file}:{finding.position}"
        severity = self._paint(finding.severity, _COLORS.get(finding.severity, "cyan"), bold=True)
        size = "" if finding.length is None else f" ({finding.length} bytes)"
        offset = "" if finding.offset is None else f" [offset {finding.offset}]"
        line = f"{on_one_line(place)}: {severity}: {finding.code}: {on_one_line(finding.message)}{offset}{size}\n"
        self.sink.write(line.encode("utf-8", "surrogateescape"))

    def finish(self, report: Report, notices: Notices) -> None:
        for file, code, count in report.unshown():
            self.sink.write(f"{on_one_line(file)}: {count} more of {code}\n".encode("utf-8", "surrogateescape"))
        self.sink.flush()
        totals = report.totals
        text = (
            f"files: {totals.files} ({shown_bytes(totals.bytes)}), batches: {totals.batches}, "
            f"records: {totals.records}; errors: {totals.errors}, warnings: {totals.warnings}, infos: {totals.infos}"
        )
        notices.warning(text)
        for repair, codes in _repairs(totals).items():
            notices.warning(f"to repair: {repair} ({', '.join(codes)})")


def _repairs(totals: Totals) -> dict[str, list[str]]:
    """Commands that help, and the codes each is for."""
    found: dict[str, list[str]] = {}
    for code in totals.codes:
        if KINDS[code].repair and KINDS[code].severity != "info":
            found.setdefault(KINDS[code].repair, []).append(code)
    return found


class JsonFindings(FindingsPrinter):
    """One object a line; the last is the summary."""

    def show(self, finding: Finding) -> None:
        self._put(
            {
                "type": "finding",
                "code": finding.code,
                "severity": finding.severity,
                "file": _text(finding.file),
                "position": finding.position,
                "length": finding.length,
                "offset": finding.offset,
                "message": finding.message,
                "repair": KINDS[finding.code].repair or None,
            }
        )

    def finish(self, report: Report, notices: Notices) -> None:
        for file, code, count in report.unshown():
            self._put({"type": "omitted", "code": code, "file": _text(file), "count": count})
        totals = report.totals
        self._put(
            {
                "type": "summary",
                "files": totals.files,
                "bytes": totals.bytes,
                "batches": totals.batches,
                "records": totals.records,
                "errors": totals.errors,
                "warnings": totals.warnings,
                "infos": totals.infos,
                "ok": totals.errors == 0 and report.is_whole,
            }
        )
        self.sink.flush()

    def _put(self, row: dict[str, object]) -> None:
        self.sink.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n")


def _text(path: str) -> str:
    """A path as text: bytes that are none become U+FFFD."""
    return os.fsencode(path).decode("utf-8", "replace")


def printer_of(form: str, sink: Sink, color: str) -> FindingsPrinter:
    """The printer of a form of the command line."""
    return JsonFindings(sink) if form == "json" else TextFindings(sink, color)
