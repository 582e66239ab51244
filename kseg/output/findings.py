"""Prints findings and their totals: text (trees and a panel on a terminal), JSON Lines, or a JUnit report.

The JSON objects: ``finding``, ``omitted``, ``comparison``, ``partition``, at the end ``summary``. Also prints entries
of the findings table, for ``kseg verify --explain``.
"""

import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, TypeVar

from kseg.errors import KsegError
from kseg.findings import table as catalog
from kseg.findings.table import ERROR, INFO, KINDS, SEVERITIES, WARNING, Kind, severity_of, texts_of
from kseg.formats.json_values import fields_of, name_value, row_of
from kseg.output.fleet_table import FLEET_WIDTH, MAX_SEPARATE_PARTITIONS, fleet_table, sorted_rows
from kseg.output.notices import COPIED_INDENT, Notices, Paint, on_one_line, terminal_width
from kseg.output.progress import Progress
from kseg.output.sink import Sink
from kseg.output.terminal import drawn, line_width
from kseg.quantities import named_path, plural, quoted, shell_line, show_span, shown_bytes
from kseg.segment.paths import segments_at, some
from kseg.stores.place import Place
from kseg.verification.report import (
    CheckReporter,
    ClusterState,
    Comparison,
    Finding,
    Need,
    NodeStart,
    RepairStep,
    Report,
)

_Told = TypeVar("_Told", RepairStep, Need)

COLORS = {ERROR: "red", WARNING: "yellow", INFO: "cyan"}
NEEDED = {
    catalog.BROKER: "a running broker or cluster",
    catalog.DECISION: "a decision",
    catalog.REPLICA: "another replica",
    catalog.TOPIC_ID: "the topic's id (kseg recover --topic-id)",
}


class FindingsPrinter(CheckReporter):
    """Base class: prints findings, messages and progress while a verification runs. A subclass defines `show`, which is
    called for each finding that `shows` accepts, `compared` and `finish`.

    ``least``: the lowest severity that is shown; findings below it are only counted.
    """

    def __init__(self, sink: Sink, notices: Notices, progress: Progress, least: str = INFO) -> None:
        self.sink, self.notices, self.progress, self.least = sink, notices, progress, least
        notices.before = progress.erase

    def begin(self, path: str) -> None:
        self.progress.at(path)

    def advance(self, count: int) -> None:
        self.progress.advance(count)

    def failed(self, message: str) -> None:
        self.notices.error(message)

    def noted(self, message: str) -> None:
        self.notices.warning(message)

    def finding(self, finding: Finding) -> None:
        if self.shows(finding.severity):
            self.show(finding)

    def show(self, finding: Finding) -> None:
        raise NotImplementedError

    def shows(self, severity: str) -> bool:
        return SEVERITIES.index(severity) <= SEVERITIES.index(self.least)

    def unshown(self, report: Report) -> Iterator[tuple[str, str, int]]:
        """Yields the file, the code and the number of findings beyond the limit of those that are shown."""
        return ((file, code, count) for file, code, count in report.unshown() if self.shows(severity_of(code)))

    def put(self, text: str) -> None:
        self.progress.erase()
        self.sink.write(text.encode("utf-8", "surrogateescape"))

    def put_row(self, row: dict[str, Any]) -> None:
        self.progress.erase()
        self.sink.put_row(row)


def extent_of(finding: Finding) -> str:
    """Returns the offset and the size of a finding, as they follow its message; "" for neither."""
    offset = "" if finding.offset is None else f" [offset {finding.offset}]"
    size = "" if finding.length is None else f" ({finding.length} bytes)"
    return offset + size


def finding_text(finding: Finding) -> str:
    """Returns the message on one line, with the offset to which a consumer can seek behind damage."""
    behind = finding.details.get("nextGoodOffset")
    return on_one_line(finding.message if behind is None else f"{finding.message}; next readable offset: {behind}")


CODES_NAMED = 4
NEXT_STEPS = 10
_MAX_HELD_FINDINGS = 200
"""Findings of one file in one tree."""


class TextFindings(FindingsPrinter):
    """Prints lines ``FILE:POSITION: SEVERITY: CODE: MESSAGE``. A terminal gets a tree for each file.

    The summary and the next steps go to standard error.
    """

    def __init__(
        self, sink: Sink, notices: Notices, progress: Progress, color: str, sort: str | None = None,
        least: str | None = None,
    ) -> None:  # fmt: skip
        """``sort``: the field by which the table of partitions is sorted, None for no table of a few, and of many those
        with problems. ``least``: the lowest severity that is shown, None if the user did not choose one.
        """
        super().__init__(sink, notices, progress, least or WARNING)
        self._sort, self._has_shown = sort, False
        self._shows_all_partitions = least == INFO or sort is not None
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
        self.put(f"{on_one_line(place)}: {severity}: {finding.code}: {text}\n{_abort_lines(finding)}")

    def _lists(self, partition: dict[str, Any]) -> bool:
        """Whether the table of partitions has a line for this one."""
        has_problems = partition["errors"] > 0 or (partition["warnings"] > 0 and self.shows(WARNING))
        return self._shows_all_partitions or has_problems

    def _draw(self) -> None:
        """Draws the findings of a file: each with its place, below that its message. They are taken first, so that an
        interrupt does not draw them twice.
        """
        found, self._of_file = self._of_file, []
        if found:
            from rich.console import Group
            from rich.text import Text
            from rich.tree import Tree

            tree = Tree("")
            for finding in found:
                severity = (finding.severity, f"bold {COLORS[finding.severity]}")
                head = Text.assemble(severity, f" {finding.code}{_place(finding)}")
                tree.add(Group(head, Text(finding_text(finding))))
            _, _, branches = drawn(tree, self._paint.is_on).partition("\n")
            # The path of the file is one line, however long it is.
            self.put(f"{self._paint(on_one_line(found[0].file), bold=True)}\n{branches}")
            self.put("".join(dict.fromkeys(map(_abort_lines, found))))

    def compared(self, comparison: Comparison) -> None:
        self._draw()
        place = f"{comparison.path} and {comparison.other}"
        if comparison.is_identical:
            text = f"the same {comparison.same} records"
        else:
            kinds = f"{comparison.different} differ"
            if comparison.by:
                repeated = (
                    f"{comparison.repeated_here} more often in the first, {comparison.repeated_there} in the second"
                )
                kinds = f"{comparison.out_of_order} in another order, {repeated}"
            text = (
                f"{comparison.same} records are the same, {kinds}, "
                f"{comparison.only_here} are only in the first, {comparison.only_there} only in the second"
            )
        if comparison.diverge_at is not None:
            agreed = "nothing" if comparison.agree_to is None else f"all up to offset {comparison.agree_to}"
            text += f"; {agreed} agrees, the first difference is at offset {comparison.diverge_at}"
        self.put(f"{on_one_line(place)}: {text}\n")
        if comparison.has_own_offsets:
            words = ["kseg", "verify", "--against", named_path(comparison.other), "--by", "content"]
            self.notices.warning(
                "if one is a copy with its own offsets, as of a mirrored topic, this compares what the records hold:",
                shell_line([*words, named_path(comparison.path)]),
            )

    def finish(self, report: Report) -> None:
        notices = self.notices
        self._draw()
        for file, code, count in self.unshown(report):
            self.put(f"{on_one_line(file)}: {count} more of {code}\n")
        partitions = report.totals.partitions
        if partitions and (self._sort is not None or len(partitions) > MAX_SEPARATE_PARTITIONS):
            table = fleet_table(
                partitions,
                self._sort or "name",
                self._paint,
                line_width(self.sink, FLEET_WIDTH),
                self._lists,
                "problem" if self.shows(WARNING) else "error",
            )
            self.put(("\n" if self._has_shown else "") + table)
        self.sink.flush()
        if notices.is_verbose:
            for code in report.totals.codes:
                notices.detail(f"{code}: {' '.join(texts_of(code))}")
        show_totals(report, notices, self.least)
        steps, needs = of_no_cluster(report, report.steps), of_no_cluster(report, report.needs)
        for step in steps[:NEXT_STEPS]:
            notices.warning(f"next, for {_some(step.codes)}:", shell_line(step.argv))
        if len(steps) > NEXT_STEPS:
            more = plural(len(steps) - NEXT_STEPS, "more repair", "more repairs")
            notices.warning(f"next: {more}; --format json lists all")
        for cluster in report.clusters:
            self._show_sequence(cluster)
        if needs:
            notices.warning("needed from outside:")
        # The preconditions of repairs, with codes and places; below a decision the command that carries it out.
        for name, found in groupby(needs, key=lambda need: need.needs):
            of_name = list(found)
            for need in of_name[:NEXT_STEPS]:
                how = " (kseg recover --from-replica)" if KINDS[need.codes[0]].repair == catalog.FROM_REPLICA else ""
                notices.warning(f"{NEEDED[name]}{how}, for {_some(need.codes)}:", quoted(need.path))
                if need.argv:
                    removes = f", which removes {plural(need.removed, 'record', 'records')}" if need.removed else ""
                    notices.warning(f"one way{removes}:", shell_line(need.argv))
            if len(of_name) > NEXT_STEPS:
                more = plural(len(of_name) - NEXT_STEPS, "more place", "more places")
                notices.warning(f"{NEEDED[name]}: {more}")

    def _show_sequence(self, cluster: ClusterState) -> None:
        """Shows the commands that make one cluster of the copies of several nodes."""
        if cluster.commands:
            shown = f"\n{COPIED_INDENT}".join(map(shell_line, cluster.commands[:NEXT_STEPS]))
            self.notices.warning(f"next, {before_start(cluster)}:", shown)
        if (more := len(cluster.commands) - NEXT_STEPS) > 0:
            self.notices.warning(f"next: {plural(more, 'more command', 'more commands')}; --format json lists all")
        if cluster.last_resort is not None:
            self.notices.warning(f"{only_if_gone(cluster)}:", shell_line(cluster.last_resort))


def _abort_lines(finding: Finding) -> str:
    """Returns the command that ends a hanging transaction on a live cluster, "" if there is none."""
    line = shell_line(finding.details.get("abort") or ())
    return f"to abort the transaction, on a live cluster:\n{COPIED_INDENT}{line}\n" if line else ""


def _some(codes: list[str]) -> str:
    return ", ".join(codes) if len(codes) <= CODES_NAMED + 1 else f"{', '.join(codes[:CODES_NAMED])} and more"


def _place(finding: Finding) -> str:
    """Returns where the finding is in its file, "" if it concerns the whole file."""
    parts = [
        text.format(number)
        for text, number in (("byte {}", finding.position), ("offset {}", finding.offset), ("{} bytes", finding.length))
        if number is not None
    ]
    return f" at {', '.join(parts)}" if parts else ""


SHOWN_REASONS = 3
"""Limit of reasons in the line about a node's start."""


def show_totals(report: Report, notices: Notices, least: str = INFO) -> None:
    """Prints the totals, unless the messages are quiet. ``least``: the lowest severity of the findings shown."""
    width = terminal_width()
    below = SEVERITIES[SEVERITIES.index(least) + 1 :]
    hint = "--severity info shows all findings" if any(map(report.totals.severities.get, below)) else ""
    if notices.is_quiet or width is None:
        totals = report.totals
        text = (
            f"files: {totals.files} ({shown_bytes(totals.bytes)}), batches: {totals.batches}, records: "
            f"{totals.records}; errors: {totals.errors}, warnings: {totals.warnings}, infos: {totals.infos}"
        )
        text += f" ({hint})" if hint else ""
        text += f"; files not judged: {totals.not_judged}" if totals.not_judged else ""
        notices.warning(text if report.is_whole else f"{text}; not all could be checked")
    else:
        notices.write(_panel(report, hint, notices.is_colored, width).rstrip("\n"))
    for start in report.starts:
        notices.warning(on_one_line(start_text(start)))
    for cluster in report.clusters:
        notices.warning(on_one_line(cluster_text(cluster)))


def cluster_text(cluster: ClusterState) -> str:
    """Returns which copies of a cluster's nodes fit together, and by how much they are apart."""
    fitting = [copy.node for copy in cluster.copies if copy.fits]
    found = f"the copies of nodes {_numbers(fitting)}" if len(fitting) > 1 else "no two copies"
    text = f"cluster {cluster.cluster_id}: {found} fit together"
    newest = max((copy.newest_time for copy in cluster.copies if copy.newest_time is not None), default=None)
    for copy in cluster.copies:
        facts = [f"does not fit ({', '.join(copy.findings)})"] if copy.findings else []
        if not copy.was_clean:
            facts.append("copied while it ran, or after a crash")
        if newest is not None and copy.newest_time is not None and copy.newest_time < newest:
            at = f"its metadata end {show_span(newest - copy.newest_time)} before the newest, at offset "
            facts.append(f"{at}{copy.metadata_end}")
        if copy.partitions_behind:
            ends = plural(copy.partitions_behind, "partition ends", "partitions end")
            facts.append(f"{ends} before other copies, by at most {plural(copy.offsets_behind, 'offset', 'offsets')}")
        text += f"; node {copy.node}: {', '.join(facts)}" if facts else ""
    return text


def of_no_cluster(report: Report, found: Iterable[_Told]) -> list[_Told]:
    """Returns the steps or needs whose command is not among those of a cluster."""
    of_clusters = [list(argv) for cluster in report.clusters for argv in cluster.commands]
    return [one for one in found if list(one.argv or ()) not in of_clusters]


def before_start(cluster: ClusterState) -> str:
    """Returns when the commands of a cluster are to be run."""
    return f"in this order, before a start of nodes {_numbers(cluster.nodes)}"


def only_if_gone(cluster: ClusterState) -> str:
    """Returns when the last resort of a cluster is to be run."""
    absent = _numbers(voter.node for voter in cluster.voters if voter.log_end is None)
    return f"{'then, ' if cluster.commands else ''}only if the voters {absent} are gone for good"


def _numbers(nodes: Iterable[int]) -> str:
    *most, last = map(str, nodes)
    return f"{', '.join(most)} and {last}" if most else last


def start_text(start: NodeStart) -> str:
    """Returns a sentence about what the start of a node does."""
    verdict = {True: "starts", False: "does not start, because ", None: "start not judged: "}[start.starts]
    text = f"node of {some(start.log_directories)}: {verdict}{'; '.join(start.because[:SHOWN_REASONS])}"
    if len(start.because) > SHOWN_REASONS:
        text += f"; {plural(len(start.because) - SHOWN_REASONS, 'more reason', 'more reasons')}"
    for verb, paths in (
        ("recovers", start.recovers), ("sets aside as -stray", start.sets_aside), ("deletes", start.deletes),
    ):  # fmt: skip
        if paths:
            names = some([os.path.basename(path) for path in paths])
            text += f"; {verb} {plural(len(paths), 'partition', 'partitions')} ({names})"
    for lead, assigned in (("; creates empty", start.creates), ("; has no directory here for", start.lacks)):
        if assigned:
            names = some([one.partition for one in assigned])
            text += f"{lead} {plural(len(assigned), 'partition', 'partitions')} ({names})"
    if start.sets_aside is None:
        text += "; which it sets aside as -stray is not known"
    if start.deleted_files:
        text += f"; deletes {plural(start.deleted_files, 'file', 'files')} (.deleted)"
    if start.releases is not None:
        ends = " to ".join(dict.fromkeys([*start.releases[:1], *start.releases[-1:]]))
        text += f"; its metadata are for {f'Kafka {ends}' if ends else 'no release that is known'}"
    return text


def _panel(report: Report, hint: str, is_colored: bool, width: int) -> str:
    """Returns the panel as text; its border has the color of the highest severity."""
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    totals = report.totals
    grid = Table.grid(padding=(0, 2))
    for label, number, severity, count, color in (
        ("files", f"{totals.files:,} ({shown_bytes(totals.bytes)})", "errors", totals.errors, "red"),
        ("batches", f"{totals.batches:,}", "warnings", totals.warnings, "yellow"),
        ("records", f"{totals.records:,}", "infos", totals.infos, "cyan"),
    ):
        found = Text(f"{count:,}", color if count else "")
        grid.add_row(Text(label, "cyan"), Text(number), Text(severity, "cyan"), found)
    if totals.not_judged:
        grid.add_row(Text("not judged", "yellow"), Text(f"{totals.not_judged:,}", "yellow"))
    title = plural(totals.errors, "error", "errors") if totals.errors else "no errors"
    if not report.is_whole:
        title += ", not all could be checked"
    is_red = bool(totals.errors) or not report.is_whole
    color = "red" if is_red else "yellow" if totals.warnings else "green"
    panel = Panel(
        grid, title=Text(title, f"bold {color}"), title_align="left", subtitle=Text(hint) if hint else None,
        subtitle_align="left", border_style=color, expand=False,
    )  # fmt: skip
    return drawn(panel, is_colored, width)


PIPED_WIDTH = 80


def needs_of(kind: Kind) -> str:
    """Returns the precondition of a repair as a sentence, "" for none."""
    return f"Needs {NEEDED[kind.needs]}." if kind.needs else ""


def put_explanations(codes: Iterable[str], form: str, sink: Sink, color: str) -> None:
    """Writes the entries of the codes, as text or, for form json, as one object per line."""
    if form == "json":
        for code in codes:
            kind = KINDS[code]
            row = {"type": "explanation", "code": code, "severity": kind.severity, **texts_of(code)._asdict()}
            sink.put_row(row | {"repair": kind.repair or None, "needs": kind.needs})
        return
    import textwrap

    paint = Paint(color, sink.is_terminal)
    for i, code in enumerate(codes):
        kind = KINDS[code]
        repair = f"To repair: {kind.repair}" if kind.repair else ""
        parts, tone = [part for part in (*texts_of(code), repair, needs_of(kind)) if part], COLORS[kind.severity]
        if sink.is_terminal:
            from rich.console import Group
            from rich.panel import Panel
            from rich.text import Text

            title = Text.assemble((code, "bold"), " (", (kind.severity, tone), ")")
            panel = Panel(Group(*map(Text, parts)), title=title, title_align="left", border_style=tone)
            sink.write(drawn(panel, paint.is_on).encode())
            continue
        if i:
            sink.put("")
        sink.put(f"{paint(code, bold=True)} ({paint(kind.severity, tone)})")
        for part in parts:
            for line in textwrap.wrap(part, PIPED_WIDTH - 2, break_on_hyphens=False):
                sink.put(f"  {line}")


class JsonFindings(FindingsPrinter):
    """Prints one object per line; the last one is the summary. ``sort``: the field by which partitions are sorted."""

    def __init__(
        self, sink: Sink, notices: Notices, progress: Progress, sort: str | None, least: str = INFO
    ) -> None:  # fmt: skip
        super().__init__(sink, notices, progress, least)
        self._sort = sort or "name"

    def show(self, finding: Finding) -> None:
        self.put_row(finding_row(finding))

    def compared(self, comparison: Comparison) -> None:
        self.put_row(comparison_row(comparison))

    def finish(self, report: Report) -> None:
        for file, code, count in self.unshown(report):
            self.put_row({"type": "omitted", "code": code, "file": name_value(file), "count": count})
        totals = report.totals
        for partition in sorted_rows(totals.partitions, self._sort):
            self.put_row(partition)
        self.put_row(
            {
                "type": "summary",
                **fields_of(totals, "files", "bytes", "batches", "records", "errors", "warnings", "infos"),
                "ok": totals.errors == 0 and report.is_whole,
                "next": [step.argv for step in report.steps],
                "notJudged": totals.not_judged,
                "nodes": [state_row(start) for start in report.starts],
                "clusters": [state_row(cluster) for cluster in report.clusters],
            }
        )
        self.sink.flush()


_NAMES = frozenset({
    "file", "topic", "directory", "log_directories", "recovers", "sets_aside", "deletes", "partition", "log_directory",
})  # fmt: skip
"""Fields with names of files and topics."""


def finding_row(finding: Finding) -> dict[str, Any]:
    """Returns a finding as a JSON object; paths and transactional ids are bytes."""
    details = finding.details
    names = {key: name_value(details[key]) for key in ("other", "transactionalId") if key in details}
    return {"type": "finding", **row_of(finding._replace(details=details | names), _NAMES)}


def comparison_row(comparison: Comparison) -> dict[str, Any]:
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
    } | (fields_of(comparison, "by", "repeated_here", "repeated_there", "out_of_order") if comparison.by else {})


def state_row(state: NodeStart | ClusterState) -> dict[str, Any]:
    """Returns the start of a node, or the nodes of a cluster with the partitions of which a start may lose records and
    the commands that keep them, as a JSON object."""
    row: dict[str, Any] = row_of(state, _NAMES)
    return row


# A JUnit report for CI servers: a suite for each partition, a test case for each file.
#
# A case fails if it has a finding that fails the run; if several codes do, each has its own case. Other findings are in
# the suite's ``system-out``. All elements and attributes are allowed by the schemas of both the Ant task and Jenkins.


class JunitFindings(FindingsPrinter):
    """Collects findings until the end, because totals come first. ``fail_on``: the lowest severity that fails;
    ``parts``: the partitions and files that are checked.
    """

    def __init__(
        self, sink: Sink, notices: Notices, progress: Progress, fail_on: str, parts: Iterable[str], least: str = INFO
    ) -> None:
        super().__init__(sink, notices, progress, least)
        self._fails = {ERROR} if fail_on == ERROR else {ERROR, WARNING}
        self._parts = parts
        self._suites: defaultdict[str, tuple[dict[tuple[str, str], list[str]], list[str]]]
        self._suites = defaultdict(lambda: ({}, []))
        """By folder: the cases, which are the lines of findings by file and code, and ("", no lines) for success; and
        the notes."""
        self._began = time.time()

    def show(self, finding: Finding) -> None:
        folder, name = _folder_and_name(finding.file)
        cases, notes = self._suites[folder]
        position = "" if finding.position is None else f"position {finding.position}: "
        line = f"{position}{finding.message}{extent_of(finding)}"
        if finding.severity in self._fails:
            cases.setdefault((name, finding.code), []).append(line)
        else:
            notes.append(f"{name}: {finding.severity}: {finding.code}: {line}")

    def compared(self, comparison: Comparison) -> None:
        cases, notes = self._suites[comparison.path]
        if not comparison.different:
            cases[f"against {comparison.other}", ""] = []
        text = f"{comparison.same} same, {comparison.different} different, {comparison.only_here} only here, "
        if comparison.by:
            text = f"{comparison.same} same, {comparison.repeated_here} more often here, "
            text += f"{comparison.repeated_there} more often there, {comparison.out_of_order} out of order, "
            text += f"{comparison.only_here} only here, "
        notes.append(f"records against {comparison.other}: {text}{comparison.only_there} only there")

    def finish(self, report: Report) -> None:
        for file, code, count in self.unshown(report):
            folder, name = _folder_and_name(file)
            self._suites[folder][1].append(f"{name}: {count} more of {code}")
        failed = {(folder, name) for folder, (cases, _) in self._suites.items() for name, _ in cases}
        for part in self._parts:
            try:
                files = [file.path for file in segments_at(part)]
            except KsegError:
                continue  # the report's failures include it
            for file in files:
                folder = file if file == "-" else Place(file).parent or "."
                name = "standard input" if file == "-" else os.path.basename(file)
                if (folder, name) not in failed:
                    self._suites[folder][0][name, ""] = []
        for failure in report.failures:
            self._suites["kseg verify"][0][failure, "error"] = [failure]
        self.put('<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n')
        for number, folder in enumerate(self._suites):
            self._put_suite(number, folder)
        self.put("</testsuites>\n")
        self.sink.flush()
        show_totals(report, self.notices, self.least)

    def _put_suite(self, number: int, folder: str) -> None:
        from socket import gethostname  # other forms of the findings do not need it

        cases, notes = self._suites[folder]
        errors = sum(code == "error" for _, code in cases)
        failures = sum(bool(code) for _, code in cases) - errors
        host, stamp = _xml(gethostname()) or "localhost", time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(self._began))
        self.put(
            f'<testsuite id="{number}" package="kseg" name="{_xml(folder)}" hostname="{host}" timestamp="{stamp}" '
            f'tests="{len(cases)}" failures="{failures}" errors="{errors}" time="0">\n<properties/>\n'
        )
        for (name, code), lines in cases.items():
            kind = KINDS.get(code)
            head = f'<testcase classname="{_xml(folder)}" name="{_xml(f"{name}: {code}" if kind else name)}" time="0"'
            if not code:
                self.put(head + "/>\n")
                continue
            body = "\n".join(filter(None, [*lines, *((*texts_of(code), kind.repair) if kind else ())]))
            tag, message = "failure" if kind else "error", _xml(lines[0])
            self.put(f'{head}>\n<{tag} type="{code}" message="{message}">{_xml(body, False)}</{tag}>\n</testcase>\n')
        self.put(f"<system-out>{_xml(chr(10).join(notes), False)}</system-out>\n<system-err/>\n</testsuite>\n")


def _folder_and_name(path: str) -> tuple[str, str]:
    """Returns the suite of a file or directory, and its name there."""
    if Place(path).is_dir() or path == "-":
        return path, "directory"
    return Place(path).parent or ".", os.path.basename(path)


def _xml(text: str, is_attribute: bool = True) -> str:
    """Returns text for XML 1.0; characters that XML cannot represent become backslash escapes."""
    from html import escape  # other forms of the findings do not need it

    made = []
    for char in text:
        is_control = (char < " " and char != "\n") or "\x7f" <= char < "\xa0"
        if is_control or "\ud800" <= char <= "\udfff" or ord(char) & 0xFFFE == 0xFFFE:
            char = char.encode("unicode_escape").decode()
        made.append(char)
    shown = escape("".join(made), quote=False).replace('"', "&quot;")
    return shown.replace("\n", "&#10;") if is_attribute else shown
