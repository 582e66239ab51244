"""Whole outputs of many command lines, and the files that they change, are those of testdata/outputs."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from cli.command import TESTDATA, Kseg
from cli.recorded_commands import CHANGES, GROUPS, NARROW, NARROW_COLUMNS, Changes, CommandLine
from cli.recording import heading, heading_of, recorded, shown, shown_changes
from kseg.output.json_schema import OBJECTS, schema

# Every object that a command prints with ``--format json`` fits the schema of ``kseg --json-schema``.

jsonschema = pytest.importorskip("jsonschema", reason="the extra test is not installed")

LOGS = sorted({path.parent for path in TESTDATA.rglob("*.log") if "kernel" not in path.parts})
OLD_LOGS = sorted({path.parent for path in TESTDATA.rglob("*.kafka")})
LOG_DIRECTORIES = sorted({path.parent for path in TESTDATA.rglob("meta.properties")})
LATER = ("--now", "1795300000000")

COMMANDS: dict[str, tuple[tuple[str, ...], list[Path]]] = {
    "dump": (("dump",), LOGS + OLD_LOGS),
    "records": (("dump", "--deep-iteration", "--print-data-log", "--all"), LOGS + OLD_LOGS),
    "decoded": (("dump", "--decode", "auto", "--deep-iteration", "--print-data-log"), LOGS),
    "summary": (("dump", "--summary", "--what-if", "gzip"), LOGS),
    "open transactions": (("dump", "--open-transactions"), LOGS),
    "committed offsets": (("dump", "--committed-offsets"), [path for path in LOGS if "consumer_offsets" in path.name]),
    "verify": (("verify", "--level", "deep", *LATER), LOGS + OLD_LOGS + LOG_DIRECTORIES),
    "against": (("verify", "--against", str(LOGS[0])), LOGS[1:20]),
    "recover": (("recover", "-n", "--full", *LATER), LOGS + LOG_DIRECTORIES),
    "salvage": (("recover", "--mode", "salvage", "-n", *LATER), LOGS + LOG_DIRECTORIES),
    "reindex": (("reindex", "-n", "--snapshots"), LOGS),
    "compact": (("compact", "-n", "--force-policy", "--drop-null-keys", *LATER), LOGS),
    "retain": (("retain", "-n", "--explain", "--retention-ms", "1", *LATER), LOGS + LOG_DIRECTORIES),
    "convert": (("convert", "--to", "v2", "--in-place", "-n"), LOGS[:40]),
    "changes": (("undo", "--list"), LOGS),
}


def shape(value: Any) -> Any:
    """What of an object a schema looks at, so that each kind is looked at once."""
    if isinstance(value, dict):
        return tuple((name, shape(each)) for name, each in value.items() if name not in ("key", "value"))
    if isinstance(value, list):
        return tuple(sorted({repr(shape(each)) for each in value}))
    return type(value).__name__


def check(objects: Iterable[dict[str, Any]], validators: Iterable[Any], seen: set[Any]) -> None:
    for row in objects:
        kind = (row["type"], row.get("severity"), row.get("needs"), shape(row))
        if kind not in seen:
            seen.add(kind)
            for validator in validators:
                assert validator.is_valid(row), row


@pytest.mark.sampled(3)
@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", COMMANDS)
def test_what_commands_print_fits(name: str, step: int, kseg: Kseg) -> None:
    words, paths = COMMANDS[name]
    whole, own = (jsonschema.Draft202012Validator(schema(command)) for command in (None, words[0]))
    seen: set[Any] = set()
    for path in paths[::step]:
        check(kseg(*words, "--format", "json", path).objects, (whole, own), seen)
    assert seen


def test_the_schema_takes_nothing_else() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    validator = jsonschema.Draft202012Validator(schema())
    for row in ({"type": "finding"}, {"type": "no-such-thing"}, {"type": "summary", "strange": 1}, {}, 5):
        assert not validator.is_valid(row)


def test_the_schema_is_printed(kseg: Kseg) -> None:
    assert json.loads(kseg("--json-schema").out) == schema()
    for command in OBJECTS:
        assert json.loads(kseg("--json-schema", command).out) == schema(command)
    assert kseg("--json-schema", "spark").status == 2


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
