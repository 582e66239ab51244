"""Draws the findings of one file on a terminal as a tree."""

from collections.abc import Iterable

from kseg.output.drawing import drawn
from kseg.output.findings.printer import COLORS, finding_text
from kseg.output.notices import on_one_line
from kseg.output.paint import Paint
from kseg.verification.report import Finding


def findings_tree(file: str, findings: Iterable[Finding], paint: Paint) -> str:
    """Returns the tree as text: below the file each finding with its place, and below that its message.

    The path of the file is one line, however long it is.
    """
    from rich.console import Group
    from rich.text import Text
    from rich.tree import Tree

    tree = Tree("")
    for finding in findings:
        severity = (finding.severity, f"bold {COLORS[finding.severity]}")
        head = Text.assemble(severity, f" {finding.code}{_place(finding)}")
        tree.add(Group(head, Text(finding_text(finding))))
    _, _, branches = drawn(tree, paint.is_on).partition("\n")
    return f"{paint(on_one_line(file), bold=True)}\n{branches}"


def _place(finding: Finding) -> str:
    """Returns where the finding is in its file, "" if it concerns the whole file."""
    parts = []
    if finding.position is not None:
        parts.append(f"byte {finding.position}")
    if finding.offset is not None:
        parts.append(f"offset {finding.offset}")
    if finding.length is not None:
        parts.append(f"{finding.length} bytes")
    return f" at {', '.join(parts)}" if parts else ""
