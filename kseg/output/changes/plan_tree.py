"""Draws a plan on a terminal as a tree: the directory, below it each action with its reason."""

from collections.abc import Iterable
from typing import NamedTuple

from kseg.output.drawing import drawn


class PlanLine(NamedTuple):
    """One line of a plan; ``action`` is "" for a remark. ``origin``, a path, and ``reason``, a sentence, may be ""."""

    action: str
    text: str
    color: str = "cyan"
    origin: str = ""
    reason: str = ""


def plan_tree(directory: str, entries: Iterable[PlanLine], is_colored: bool) -> str:
    """Returns the tree as text. All names must be printable."""
    from rich.console import Group
    from rich.text import Text
    from rich.tree import Tree

    tree = Tree(Text(directory, "bold"))
    for entry in entries:
        lines = [Text(entry.text)]
        if entry.action:
            lines = [Text.assemble((f"{entry.action:<8}", f"bold {entry.color}"), " ", entry.text)]
        lines += [Text(note, "dim") for note in (entry.origin, entry.reason) if note]
        tree.add(Group(*lines))
    return drawn(tree, is_colored)
