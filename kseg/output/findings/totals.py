"""Prints the totals of a verification on standard error: a panel on a terminal, otherwise one line."""

import os

from kseg.findings.table import INFO, SEVERITIES
from kseg.output.drawing import drawn
from kseg.output.notices import Notices, on_one_line, terminal_width
from kseg.quantities import plural, shown_bytes
from kseg.segment.paths import some
from kseg.verification.report import NodeStart, Report

SHOWN_REASONS = 3
"""Limit of reasons in the line about a node's start."""


def show_totals(report: Report, notices: Notices, least: str = INFO) -> None:
    """Prints the totals, unless the messages are quiet. ``least``: the lowest severity of the findings shown."""
    width = terminal_width()
    below = SEVERITIES[SEVERITIES.index(least) + 1 :]
    hint = "--severity info shows all findings" if any(map(report.totals.severities.get, below)) else ""
    if notices.is_quiet or width is None:
        notices.warning(_line(report, hint))
    else:
        notices.drawing(_panel(report, hint, notices.is_colored, width))
    for start in report.starts:
        notices.warning(on_one_line(start_text(start)))


def start_text(start: NodeStart) -> str:
    """Returns a sentence about what the start of a node does."""
    verdict = {True: "starts", False: "does not start, because ", None: "start not judged: "}[start.starts]
    text = f"node of {some(start.directories)}: {verdict}{'; '.join(start.because[:SHOWN_REASONS])}"
    if len(start.because) > SHOWN_REASONS:
        text += f"; {plural(len(start.because) - SHOWN_REASONS, 'more reason', 'more reasons')}"
    for verb, paths in (
        ("recovers", start.recovers), ("sets aside as -stray", start.sets_aside), ("deletes", start.deletes),
    ):  # fmt: skip
        if paths:
            names = some([os.path.basename(path) for path in paths])
            text += f"; {verb} {plural(len(paths), 'partition', 'partitions')} ({names})"
    if start.sets_aside is None:
        text += "; which it sets aside as -stray is not known"
    if start.deleted_files:
        text += f"; deletes {plural(start.deleted_files, 'file', 'files')} (.deleted)"
    return text


def _line(report: Report, hint: str) -> str:
    totals = report.totals
    text = (
        f"files: {totals.files} ({shown_bytes(totals.bytes)}), batches: {totals.batches}, records: {totals.records}; "
        f"errors: {totals.errors}, warnings: {totals.warnings}, infos: {totals.infos}"
    )
    text += f" ({hint})" if hint else ""
    if totals.not_judged:
        text += f"; files not judged: {totals.not_judged}"
    return text if report.is_whole else text + "; not all could be checked"


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
