"""What the forms of findings have in common, and the one for people."""

import os
import shlex
from collections import defaultdict
from typing import TYPE_CHECKING

from kseg.output.notices import Notices, on_one_line
from kseg.output.paint import Paint, shown_bytes
from kseg.output.sink import Sink
from kseg.verify.findings import ERROR, INFO, KINDS, RECOVER, REINDEX, SALVAGE, WARNING
from kseg.verify.report import Finding, Report

if TYPE_CHECKING:
    from kseg.verify.comparison import Comparison

COLORS = {ERROR: "red", WARNING: "yellow", INFO: "cyan"}
NEXT_STEPS = 10
CODES_NAMED = 4
PATHS_REMEMBERED = 1000
LEAST_WIDTH = 40

Steps = dict[tuple[str, str], dict[str, None]]
"""By the place and the command that repairs it: codes, in the order in which they were met."""


class FindingsPrinter:
    """Base of the forms: `show` for each finding, `compared` for each pair of replicas, `finish` at the end."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink

    def show(self, finding: Finding) -> None:
        raise NotImplementedError

    def compared(self, comparison: "Comparison") -> None:
        raise NotImplementedError

    def finish(self, report: Report, notices: Notices) -> None:
        raise NotImplementedError


class TextFindings(FindingsPrinter):
    """A line each, ``FILE:POSITION: SEVERITY: CODE: what is wrong``; on a terminal below the name of their file.

    The summary and the next steps go to standard error.
    """

    def __init__(self, sink: Sink, color: str, paths: tuple[str, ...] = ()) -> None:
        super().__init__(sink)
        self._paint = Paint(color, sink.is_terminal)
        self._width = 0
        if sink.is_terminal:
            import shutil

            self._width = shutil.get_terminal_size().columns
        self._file: str | None = None
        self._steps = NextSteps(paths)

    def show(self, finding: Finding) -> None:
        self._steps.note(finding)
        severity = self._paint(finding.severity, COLORS[finding.severity], bold=True)
        size = "" if finding.length is None else f" ({finding.length} bytes)"
        offset = "" if finding.offset is None else f" [offset {finding.offset}]"
        text = f"{on_one_line(finding.message)}{offset}{size}"
        if not self.sink.is_terminal:
            place = finding.file if finding.position is None else f"{finding.file}:{finding.position}"
            self._put(f"{on_one_line(place)}: {severity}: {finding.code}: {text}\n")
            return
        if finding.file != self._file:
            self._file = finding.file
            self._put(self._paint(on_one_line(finding.file), bold=True) + "\n")
        place = "" if finding.position is None else f"byte {finding.position}: "
        first = f"  {finding.severity}: "
        lines = _wrapped(f"{place}{finding.code}: {text}", self._width - 4, self._width - len(first))
        self._put(f"  {severity}: " + "\n    ".join(lines) + "\n")

    def compared(self, comparison: "Comparison") -> None:
        self._file = None
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
        for file, code, count in report.unshown():
            self._put(f"{on_one_line(file)}: {count} more of {code}\n")
        self.sink.flush()
        if notices.is_verbose:
            for code in report.totals.codes:
                notices.detail(f"{code}: {KINDS[code].sentence} {KINDS[code].means}")
        notices.warning(summary_of(report))
        for step in self._steps.lines():
            notices.warning(step)

    def _put(self, line: str) -> None:
        self.sink.write(line.encode("utf-8", "surrogateescape"))


class NextSteps:
    """The commands that repair what was found, each with the place it is for.

    Where there are many, one is told for all of a log directory that is among the ``paths`` looked at.
    """

    def __init__(self, paths: tuple[str, ...] = ()) -> None:
        self._paths = frozenset(path.rstrip("/") or path for path in paths)
        self._codes: Steps = defaultdict(dict)
        self._is_full = False

    def note(self, finding: Finding) -> None:
        repair = KINDS[finding.code].repair
        if not repair or finding.severity == INFO:
            return
        key = (os.path.dirname(finding.file) or "." if _is_file_name(finding.file) else finding.file, repair)
        if key in self._codes or len(self._codes) < PATHS_REMEMBERED:
            self._codes[key][finding.code] = None
        else:
            self._is_full = True

    def lines(self) -> list[str]:
        """What to do, a sentence each, `NEXT_STEPS` at most."""
        found = _without_lesser(self._codes)
        if len(found) > NEXT_STEPS:
            found = _without_lesser(self._together(found))
        steps = [
            f"next: {repair} {shlex.quote(place)} (for {_some(list(codes))})"
            for (place, repair), codes in found.items()
            if place != "-"
        ]
        if len(steps) > NEXT_STEPS or self._is_full:
            more = f"{len(steps) - NEXT_STEPS}{' and more' if self._is_full else ''}"
            return [*steps[:NEXT_STEPS], f"next: {more} further repairs of other partitions"]
        return steps

    def _together(self, found: Steps) -> Steps:
        """One step for the partitions of a log directory that want the same."""
        merged: Steps = defaultdict(dict)
        for (place, repair), codes in found.items():
            parent = os.path.dirname(place)
            merged[parent if parent in self._paths else place, repair].update(codes)
        return merged


def _without_lesser(found: Steps) -> Steps:
    """Salvage mends side files too, and whatever the other mode of a recovery does."""
    kept: Steps = defaultdict(dict)
    for (place, repair), codes in found.items():
        is_lesser = repair == RECOVER or repair.startswith(REINDEX)
        kept[place, SALVAGE if is_lesser and (place, SALVAGE) in found else repair].update(codes)
    return kept


def _some(codes: list[str]) -> str:
    return ", ".join(codes) if len(codes) <= CODES_NAMED + 1 else f"{', '.join(codes[:CODES_NAMED])} and more"


def summary_of(report: Report) -> str:
    """The totals in a line."""
    totals = report.totals
    text = (
        f"files: {totals.files} ({shown_bytes(totals.bytes)}), batches: {totals.batches}, records: {totals.records}; "
        f"errors: {totals.errors}, warnings: {totals.warnings}, infos: {totals.infos}"
    )
    return text if report.is_whole else text + "; not all could be checked"


def _is_file_name(path: str) -> bool:
    """Told by the name, as what is there may be gone."""
    return not os.path.isdir(path) and path != "-"


def _wrapped(text: str, width: int, first_width: int) -> list[str]:
    """The text in lines of so many columns, broken at spaces; a word that is longer keeps its length."""
    lines, room = [""], max(first_width, LEAST_WIDTH)
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > room:
            lines.append(word)
            room = max(width, LEAST_WIDTH)
        else:
            lines[-1] += f" {word}" if lines[-1] else word
    return lines


def printer_of(form: str, sink: Sink, color: str, fail_on: str = ERROR, paths: tuple[str, ...] = ()) -> FindingsPrinter:
    """The printer of a form of the command line; ``paths`` and ``fail_on`` as there."""
    if form == "json":
        from kseg.output.findings_json import JsonFindings

        return JsonFindings(sink)
    if form == "junit":
        from kseg.output.junit import JunitFindings

        return JunitFindings(sink, fail_on, paths)
    return TextFindings(sink, color, paths)
