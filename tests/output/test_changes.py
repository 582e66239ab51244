"""A terminal gets a plan as a tree; a pipe gets the lines that scripts know."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kseg.changes.driver.undoing import KnownChange
from kseg.changes.plan import Plan, ReplicaOffsets, Step
from kseg.output.changes import TextPlans, show_changes
from kseg.output.notices import Notices
from output.feeding import STYLES, MemorySink

ROOT = Path(__file__).resolve().parents[3]
REASON = "rebuilt from the segment, because its entries [red] do not ascend and the largest offset is missing"


def plan() -> Plan:
    steps = [Step("create", f"{0:020}{suffix}", REASON, None, 10) for suffix in (".index", ".timeindex")]
    steps.append(Step("create", "leader-epoch-checkpoint", REASON, None, 20))
    return Plan(
        "/logs/[bold]orders-0",
        steps,
        from_replica=[ReplicaOffsets(3, 5, "/replica/orders-0/00.log", "it is not in sync")],
    )


def shown(is_terminal: bool, color: str = "auto") -> list[str]:
    sink = MemorySink(is_terminal)
    TextPlans(sink, Notices(color), is_dry=True).plan(plan())
    return sink.lines


def test_a_pipe_gets_plain_lines() -> None:
    lines = shown(is_terminal=False)
    assert lines[0] == "/logs/[bold]orders-0"
    assert lines[1] == "  create   00000000000000000000.index .timeindex (20 B)"
    assert lines[2].startswith("           rebuilt from the segment, because its entries [red]")
    assert lines[4] == "  create   leader-epoch-checkpoint (20 B)"
    assert lines[5:8] == [
        "  left     offsets 3..5", "           from /replica/orders-0/00.log", "           it is not in sync",
    ]  # fmt: skip
    assert not any("\x1b" in line for line in lines)


@pytest.mark.parametrize("columns", [50, 80, 100])
def test_a_terminal_gets_a_tree_that_fits(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.delenv("NO_COLOR", raising=False)
    lines = shown(is_terminal=True)
    assert any("\x1b[1;32mcreate" in line for line in lines)
    plain = [STYLES.sub("", line) for line in lines]
    assert plain[0] == "/logs/[bold]orders-0"
    assert max(map(len, plain)) <= columns
    assert [line[0] for line in plain[1:] if line[0] in "├└"] == ["├", "├", "├", "└"]
    said = " ".join(line.strip("├─└│ ") for line in plain)
    assert REASON in said
    assert said.count(REASON) == 1
    assert "from /replica/orders-0/00.log it is not in sync" in said
    assert "In all: " in said
    assert shown(is_terminal=True, color="never") == [line.rstrip() for line in plain]


def test_a_pipe_needs_no_rich() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
        "from output import test_changes\nbefore = 'rich' in sys.modules\n"
        "test_changes.shown(False)\nprint(before, 'rich' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == ["False", "False"]


COMMAND = "kseg recover --mode salvage --drop-batch 1200 --era 3.9 /logs/[bold]orders-0\x1b[31m"
CHANGES = [
    KnownChange("/logs/[bold]orders-0", 1, 1_700_000_000_000, "kseg reindex .", "done", 7168, "/k/1"),
    KnownChange("/logs/[bold]orders-0", 2, 1_700_000_060_000, COMMAND, "abandoned", 0, ""),
    KnownChange("/logs", 1, 1_700_000_000_000, "kseg compact .", "open", 0, "/k/1", partitions=3),
]


def listed(is_terminal: bool, color: str = "auto") -> list[str]:
    sink = MemorySink(is_terminal)
    show_changes(CHANGES, "text", color, sink)
    return sink.lines


def test_a_pipe_gets_one_line_each() -> None:
    assert listed(is_terminal=False) == [
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
    lines = listed(is_terminal=True, color="never")
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
    lines = listed(is_terminal=True)
    assert [bool(re.search(r"\x1b\[33m", line)) for line in lines if "23-11-14" in line] == [False, True, True]
    assert [STYLES.sub("", line).rstrip() for line in lines] == listed(is_terminal=True, color="never")
