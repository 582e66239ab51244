"""Prints findings as text: one line each in a pipe, a tree for each file on a terminal."""

from itertools import groupby
from typing import TYPE_CHECKING, Any

from kseg.findings.table import FROM_REPLICA, INFO, KINDS, WARNING
from kseg.output.findings.printer import COLORS, NEEDED, FindingsPrinter, abort_line, extent_of, finding_text
from kseg.output.findings.totals import show_totals
from kseg.output.findings.tree import findings_tree
from kseg.output.notices import COPIED_INDENT, Notices, on_one_line
from kseg.output.paint import Paint
from kseg.output.sink import Sink
from kseg.quantities import plural, quoted, shell_line
from kseg.verification.report import Finding, Need, Report

if TYPE_CHECKING:
    from kseg.verification.replicas.comparison import Comparison

CODES_NAMED = 4
NEXT_STEPS = 10
_MAX_HELD_FINDINGS = 200
"""Findings of one file in one tree."""


class TextFindings(FindingsPrinter):
    """Prints lines ``FILE:POSITION: SEVERITY: CODE: MESSAGE``. A terminal gets a tree for each file.

    The summary and the next steps go to standard error.
    """

    def __init__(self, sink: Sink, color: str, sort: str | None = None, least: str | None = None) -> None:
        """``sort``: the field by which the table of partitions is sorted, None for no table of a few, and of many those
        with problems. ``least``: the lowest severity that is shown, None if the user did not choose one.
        """
        super().__init__(sink, least or WARNING)
        self._sort, self._has_shown = sort, False
        self._shows_all_partitions = least == INFO or (sort is not None and least is None)
        self._paint = Paint(color, sink.is_terminal)
        self._of_file: list[Finding] = []
        """Findings of one file that are not drawn yet; only for a terminal."""

    def show(self, finding: Finding) -> None:
        self._has_shown = True
        if self.sink.is_terminal:
            if self._of_file and (finding.file != self._of_file[0].file or len(self._of_file) == _MAX_HELD_FINDINGS):
                self._draw()
            self._of_file.append(finding)
            return
        severity = self._paint(finding.severity, COLORS[finding.severity], bold=True)
        text = finding_text(finding) + extent_of(finding)
        place = finding.file if finding.position is None else f"{finding.file}:{finding.position}"
        self._put(f"{on_one_line(place)}: {severity}: {finding.code}: {text}\n{_abort_lines(finding)}")

    def _draw(self) -> None:
        """Draws the findings of a file. They are taken first, so that an interrupt does not draw them twice."""
        found, self._of_file = self._of_file, []
        if found:
            self._put(findings_tree(found[0].file, found, self._paint))
            self._put("".join(dict.fromkeys(map(_abort_lines, found))))

    def compared(self, comparison: "Comparison") -> None:
        self._draw()
        place = f"{comparison.path} and {comparison.other}"
        if comparison.is_identical:
            text = f"the same {comparison.same} records"
        else:
            text = (
                f"{comparison.same} records are the same, {comparison.different} differ, "
                f"{comparison.only_here} are only in the first, {comparison.only_there} only in the second"
            )
        if comparison.diverge_at is not None:
            agreed = "nothing" if comparison.agree_to is None else f"all up to offset {comparison.agree_to}"
            text += f"; {agreed} agrees, the first difference is at offset {comparison.diverge_at}"
        self._put(f"{on_one_line(place)}: {text}\n")

    def finish(self, report: Report, notices: Notices) -> None:
        self._draw()
        for file, code, count in self.unshown(report):
            self._put(f"{on_one_line(file)}: {count} more of {code}\n")
        self._put_partitions(report.totals.partitions)
        self.sink.flush()
        if notices.is_verbose:
            for code in report.totals.codes:
                notices.detail(f"{code}: {KINDS[code].sentence} {KINDS[code].means}")
        show_totals(report, notices, self.least)
        for step in report.steps[:NEXT_STEPS]:
            notices.warning(f"next, for {_some(step.codes)}:", shell_line(step.argv))
        if len(report.steps) > NEXT_STEPS:
            more = plural(len(report.steps) - NEXT_STEPS, "more repair", "more repairs")
            notices.warning(f"next: {more}; --format json lists all")
        if report.needs:
            notices.warning("needed from outside:")
            _show_needs(report.needs, notices)

    def _put_partitions(self, partitions: list[dict[str, Any]]) -> None:
        """Prints the table of partitions, if it was asked for or there are many."""
        if not partitions:
            return
        from kseg.output.columns import line_width
        from kseg.output.fleet_order import MAX_SEPARATE_PARTITIONS
        from kseg.output.fleet_table import FLEET_WIDTH, FleetTable

        if self._sort is None and len(partitions) <= MAX_SEPARATE_PARTITIONS:
            return
        table = FleetTable(self._sort or "name", self._paint, line_width(self.sink, FLEET_WIDTH))
        for partition in partitions:
            has_problems = partition["errors"] > 0 or (partition["warnings"] > 0 and self.shows(WARNING))
            table.add(partition, is_listed=self._shows_all_partitions or has_problems)
        between = "\n" if self._has_shown else ""
        self._put(between + table.text())

    def _put(self, line: str) -> None:
        self.sink.write(line.encode("utf-8", "surrogateescape"))


def _show_needs(needs: list[Need], notices: Notices) -> None:
    """Shows the preconditions of repairs, with codes and places; below a decision the command that carries it out."""
    for name, found in groupby(needs, key=lambda need: need.needs):
        of_name = list(found)
        for need in of_name[:NEXT_STEPS]:
            how = " (kseg recover --from-replica)" if KINDS[need.codes[0]].repair == FROM_REPLICA else ""
            notices.warning(f"{NEEDED[name]}{how}, for {_some(need.codes)}:", quoted(need.path))
            if need.argv:
                removes = f", which removes {plural(need.removed, 'record', 'records')}" if need.removed else ""
                notices.warning(f"one way{removes}:", shell_line(need.argv))
        if len(of_name) > NEXT_STEPS:
            more = plural(len(of_name) - NEXT_STEPS, "more place", "more places")
            notices.warning(f"{NEEDED[name]}: {more}")


def _abort_lines(finding: Finding) -> str:
    line = abort_line(finding)
    return f"to abort the transaction, on a live cluster:\n{COPIED_INDENT}{line}\n" if line else ""


def _some(codes: list[str]) -> str:
    return ", ".join(codes) if len(codes) <= CODES_NAMED + 1 else f"{', '.join(codes[:CODES_NAMED])} and more"
