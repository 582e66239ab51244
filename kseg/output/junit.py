"""Prints findings as a JUnit report for CI servers: a suite for each partition, a test case for each file.

A case fails if it has a finding that fails the run; if several codes do, each has its own case. Other findings are in
the suite's ``system-out``. All elements and attributes are allowed by the schemas of both the Ant task and Jenkins.
"""

import os
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from kseg.errors import KsegError
from kseg.findings.table import ERROR, INFO, KINDS, WARNING, texts_of
from kseg.output.findings import FindingsPrinter, extent_of, show_totals
from kseg.output.notices import Notices
from kseg.output.sink import Sink
from kseg.segment.paths import walk_path
from kseg.stores import trees
from kseg.verification.report import Comparison, Finding, Report

_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": "&#10;"}


@dataclass(slots=True)
class _Case:
    """Findings of one code in one file, as lines; empty if the case succeeds."""

    name: str
    code: str = ""
    lines: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Suite:
    cases: dict[tuple[str, str], _Case] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


class JunitFindings(FindingsPrinter):
    """Collects findings until the end, because totals come first. ``fail_on``: the lowest severity that fails."""

    def __init__(self, sink: Sink, fail_on: str, paths: Iterable[str], least: str = INFO) -> None:
        super().__init__(sink, least)
        self._fails = {ERROR} if fail_on == ERROR else {ERROR, WARNING}
        self._paths = paths
        self._suites: dict[str, _Suite] = {}
        self._began = time.time()

    def show(self, finding: Finding) -> None:
        suite, name = self._place(finding.file)
        line = _line(finding)
        if finding.severity not in self._fails:
            suite.notes.append(f"{name}: {finding.severity}: {finding.code}: {line}")
            return
        case = suite.cases.setdefault((name, finding.code), _Case(f"{name}: {finding.code}", finding.code))
        case.lines.append(line)

    def compared(self, comparison: Comparison) -> None:
        suite = self._suites.setdefault(comparison.path, _Suite())
        if not comparison.different:
            suite.cases.setdefault(("against", ""), _Case(f"against {comparison.other}"))
        text = f"{comparison.same} same, {comparison.different} different, {comparison.only_here} only here, "
        suite.notes.append(f"records against {comparison.other}: {text}{comparison.only_there} only there")

    def finish(self, report: Report, notices: Notices) -> None:
        for file, code, count in self.unshown(report):
            suite, name = self._place(file)
            suite.notes.append(f"{name}: {count} more of {code}")
        self._add_sound_files()
        for failure in report.failures:
            self._suites.setdefault("kseg verify", _Suite()).cases[failure, "error"] = _Case(
                failure, "error", [failure]
            )
        self.sink.write(b'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n')
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(self._began))
        for number, (name, suite) in enumerate(self._suites.items()):
            self._put_suite(number, name, suite, stamp)
        self.sink.write(b"</testsuites>\n")
        self.sink.flush()
        show_totals(report, notices, self.least)

    def _place(self, path: str) -> tuple[_Suite, str]:
        """Returns the suite of a file or directory, and its name there."""
        is_directory = trees.isdir(path) or path == "-"
        folder = path if is_directory else os.path.dirname(path) or "."
        name = "directory" if is_directory else os.path.basename(path)
        return self._suites.setdefault(folder, _Suite()), name

    def _add_sound_files(self) -> None:
        failed = {(folder, name) for folder, suite in self._suites.items() for name, _ in suite.cases}
        for path in self._paths:
            try:
                files = [file.path for file in walk_path(path)]
            except KsegError:
                continue  # the report's failures include it
            for file in files:
                folder = file if file == "-" else os.path.dirname(file) or "."
                name = "standard input" if file == "-" else os.path.basename(file)
                if (folder, name) not in failed:
                    self._suites.setdefault(folder, _Suite()).cases[name, ""] = _Case(name)

    def _put_suite(self, number: int, name: str, suite: _Suite, stamp: str) -> None:
        failures = sum(bool(case.code) and case.code != "error" for case in suite.cases.values())
        errors = sum(case.code == "error" for case in suite.cases.values())
        host = _text(socket.gethostname()) or "localhost"
        self._put(
            f'<testsuite id="{number}" package="kseg" name="{_text(name)}" hostname="{host}" timestamp="{stamp}" '
            f'tests="{len(suite.cases)}" failures="{failures}" errors="{errors}" time="0">\n<properties/>\n'
        )
        for case in suite.cases.values():
            self._put_case(name, case)
        self._put(f"<system-out>{_text(chr(10).join(suite.notes), False)}</system-out>\n<system-err/>\n</testsuite>\n")

    def _put_case(self, classname: str, case: _Case) -> None:
        head = f'<testcase classname="{_text(classname)}" name="{_text(case.name)}" time="0"'
        if not case.code:
            self._put(head + "/>\n")
            return
        kind = KINDS.get(case.code)
        lines = [*case.lines, *([*texts_of(case.code), kind.repair] if kind else [])]
        tag = "error" if case.code == "error" else "failure"
        body = _text("\n".join(filter(None, lines)), False)
        self._put(f'{head}>\n<{tag} type="{case.code}" message="{_text(case.lines[0])}">{body}</{tag}>\n</testcase>\n')

    def _put(self, text: str) -> None:
        self.sink.write(text.encode())


def _line(finding: Finding) -> str:
    position = "" if finding.position is None else f"position {finding.position}: "
    return f"{position}{finding.message}{extent_of(finding)}"


def _text(text: str, is_attribute: bool = True) -> str:
    """Returns text for XML 1.0; characters that XML cannot represent become backslash escapes."""
    made = []
    for char in text:
        if char == "\n" and not is_attribute:
            made.append(char)
        elif char in _ESCAPES:
            made.append(_ESCAPES[char])
        elif char < " " or "\x7f" <= char < "\xa0" or "\ud800" <= char <= "\udfff" or ord(char) & 0xFFFE == 0xFFFE:
            made.append(char.encode("unicode_escape").decode())
        else:
            made.append(char)
    return "".join(made)
