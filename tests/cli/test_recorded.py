"""Whole outputs of many command lines, and the files that they change, are those of testdata/outputs."""

from pathlib import Path

import pytest

from cli.command import TESTDATA, Kseg
from cli.recorded_commands import CHANGES, GROUPS, NARROW, NARROW_COLUMNS, Changes, CommandLine
from cli.recording import heading, heading_of, recorded, shown, shown_changes

LINES = [pytest.param(group, line, id=heading(line)) for group, lines in GROUPS.items() for line in lines]
RECORDED = {group: recorded(group) for group in [*GROUPS, "changes"]}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("group", "line"), LINES)
def test_an_output_is_the_recorded_one(
    group: str, line: CommandLine, kseg: Kseg, monkeypatch: pytest.MonkeyPatch
) -> None:
    if group == NARROW:
        monkeypatch.setenv("COLUMNS", NARROW_COLUMNS)
    monkeypatch.chdir(TESTDATA / line.folder)
    assert shown(kseg(*line.words)) == RECORDED[group][heading(line)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("changes", CHANGES, ids=heading_of)
def test_changed_files_are_the_recorded_ones(changes: Changes, kseg: Kseg, tmp_path: Path) -> None:
    assert shown_changes(changes, tmp_path, kseg) == RECORDED["changes"][heading_of(changes)]


def test_each_recorded_output_has_its_command_line() -> None:
    found = {group: [heading(line) for line in lines] for group, lines in GROUPS.items()}
    assert {group: list(sections) for group, sections in RECORDED.items()} == found | {
        "changes": [heading_of(changes) for changes in CHANGES]
    }
