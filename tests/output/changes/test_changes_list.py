"""A terminal gets the changes of a directory as a table; a pipe gets the lines that scripts know."""

import re
from typing import Any

import pytest

from kseg.changes.driver.undoing import KnownChange
from kseg.output.changes.changes_list import show_changes
from output.feeding import MemorySink

STYLES = re.compile(r"\x1b\[[0-9;]*m")
COMMAND = "kseg recover --mode salvage --drop-batch 1200 --era 3.9 /logs/[bold]orders-0\x1b[31m"
CHANGES = [
    KnownChange("/logs/[bold]orders-0", 1, 1_700_000_000_000, "kseg reindex .", "done", 7168, "/k/1"),
    KnownChange("/logs/[bold]orders-0", 2, 1_700_000_060_000, COMMAND, "abandoned", 0, ""),
    KnownChange("/logs", 1, 1_700_000_000_000, "kseg compact .", "open", 0, "/k/1", 3),
]


def shown(is_terminal: bool, color: str = "auto") -> list[str]:
    sink: Any = MemorySink(is_terminal)
    show_changes(CHANGES, "text", color, sink)
    lines: list[str] = sink.lines
    return lines


def test_a_pipe_gets_one_line_each() -> None:
    assert shown(is_terminal=False) == [
        "/logs/[bold]orders-0",
        "    1  2023-11-14 22:13:20.000Z  done          7.0 KiB  kseg reindex .",
        "    2  2023-11-14 22:14:20.000Z  abandoned         0 B  kseg recover --mode salvage --drop-batch 1200 --era "
        "3.9 /logs/[bold]orders-0\\x1b[31m",
        "/logs",
        "    1  2023-11-14 22:13:20.000Z  open              0 B  kseg compact ., 3 partitions",
    ]


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_a_terminal_gets_a_table_of_each_directory(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = shown(is_terminal=True, color="never")
    assert max(map(len, lines)) <= min(columns, 120)
    assert not any("\x1b" in line for line in lines)
    assert lines[0] == "/logs/[bold]orders-0"
    assert lines.index("/logs") > 3
    assert [line.split() for line in lines].count(["change", "time", "state", "kept", "command"]) == 2
    assert [line[:9] for line in lines if "2023" in line] == ["      1  ", "      2  ", "      1  "]
    at = lines[1].index("command")
    start = next(i for i, line in enumerate(lines) if "2023-11-14" in line and "abandoned" in line)
    command = "".join(f"{line[at:]} " for line in lines[start : lines.index("/logs")])
    assert "".join(command.split()) == "".join(COMMAND.replace("\x1b", "\\x1b").split())
    assert "".join(lines[lines.index("/logs") :]).count("partitions") == 1


def test_an_unfinished_change_has_a_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    lines = shown(is_terminal=True)
    assert [bool(re.search(r"\x1b\[33m", line)) for line in lines if "23-11-14" in line] == [False, True, True]
    assert [STYLES.sub("", line).rstrip() for line in lines] == shown(is_terminal=True, color="never")
