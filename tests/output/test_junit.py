"""JUnit reports: the structure that CI servers read, for any names and findings."""

import os
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.findings.table import KINDS
from kseg.output.findings import JunitFindings
from kseg.output.notices import Notices
from kseg.output.progress import Progress
from kseg.output.sink import open_sink
from kseg.verification.report import Finding, Report

# What the schema of Ant's task and that of Jenkins' plugin both allow: (attributes, children in this order).
ALLOWED = {
    "testsuites": (set(), ["testsuite"]),
    "testsuite": (
        {"id", "package", "name", "hostname", "timestamp", "tests", "failures", "errors", "time"},
        ["properties", "testcase", "system-out", "system-err"],
    ),
    "properties": (set(), []),
    "testcase": ({"classname", "name", "time"}, ["failure", "error"]),
    "failure": ({"type", "message"}, []),
    "error": ({"type", "message"}, []),
    "system-out": (set(), []),
    "system-err": (set(), []),
}


def report_of(folder: Path, findings: list[Finding]) -> bytes:
    target = folder / "report.xml"
    with open_sink(str(target)) as sink:
        printer = JunitFindings(sink, Notices(quiet=True), Progress(None, True), "error", ())
        report = Report(printer.show)
        for finding in findings:
            report.add(finding.code, finding.file, finding.message, finding.position, finding.length, finding.offset)
        printer.finish(report)
    return target.read_bytes()


def assert_fits(element: ElementTree.Element) -> None:
    attributes, children = ALLOWED[element.tag]
    assert set(element.attrib) == attributes
    order = [children.index(child.tag) for child in element]
    assert order == sorted(order)
    if element.tag == "testcase":
        assert len(element) <= 1
    if element.tag == "testsuite":
        cases = element.findall("testcase")
        assert int(element.attrib["tests"]) == len(cases)
        assert int(element.attrib["failures"]) == len(element.findall("testcase/failure"))
        assert int(element.attrib["errors"]) == len(element.findall("testcase/error"))
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", element.attrib["timestamp"])
        assert len({(case.get("classname"), case.get("name")) for case in cases}) == len(cases)
    for child in element:
        assert_fits(child)


def found(code: str, file: str, position: int | None = 5, message: str = "what is wrong") -> Finding:
    return Finding(code, KINDS[code].severity, file, position, None, None, message)


def test_nothing_at_all(tmp_path: Path) -> None:
    assert_fits(ElementTree.fromstring(report_of(tmp_path, [])))


@given(st.text(), st.binary(min_size=1), st.sampled_from(sorted(KINDS)))
def test_any_text_makes_xml(tmp_path_factory: pytest.TempPathFactory, text: str, name: bytes, code: str) -> None:
    """Names are bytes of a disk, messages may quote what a file holds."""
    file = os.fsdecode(name.replace(b"\0", b"")) or "x"
    folder = tmp_path_factory.mktemp("junit")
    data = report_of(folder, [found(code, file, message=text), found("bad-length", file, message=text)])
    assert_fits(ElementTree.fromstring(data))
