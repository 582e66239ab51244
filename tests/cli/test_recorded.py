"""Whole outputs of many command lines, and the files that they change, are those of testdata/outputs."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from cli import recording
from cli.command import TESTDATA, Kseg
from cli.recording import CHANGES, NARROW, Section, recorded, shown, shown_changes
from kseg.output.json_schema import OBJECTS, schema

# Every object that a command prints with ``--format json`` fits the schema of ``kseg --json-schema``.

jsonschema = pytest.importorskip("jsonschema", reason="the extra test is not installed")

LOGS = sorted({path.parent for path in TESTDATA.rglob("*.log") if "kernel" not in path.relative_to(TESTDATA).parts})
OLD_LOGS = sorted({path.parent for path in TESTDATA.rglob("*.kafka")})
LOG_DIRECTORIES = sorted({path.parent for path in TESTDATA.rglob("meta.properties")})
LATER = ("--now", recording.NOW)

COMMANDS: dict[str, tuple[tuple[str, ...], list[Path]]] = {
    "dump": (("dump",), LOGS + OLD_LOGS),
    "records": (("dump", "--deep-iteration", "--print-data-log", "--all"), LOGS + OLD_LOGS),
    "decoded": (("dump", "--decode", "auto", "--deep-iteration", "--print-data-log"), LOGS),
    "summary": (("stats", "--what-if", "gzip"), LOGS),
    "open transactions": (("transactions",), LOGS),
    "committed offsets": (("groups",), [path for path in LOGS if "consumer_offsets" in path.name]),
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


@pytest.mark.sampled(5)
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


SECTIONS = [
    pytest.param(group, section, id=section.heading)
    for group in recording.GROUPS if group != CHANGES
    for section in recorded(group)
]  # fmt: skip


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("group", "section"), SECTIONS)
def test_an_output_is_as_recorded(group: str, section: Section, kseg: Kseg, monkeypatch: pytest.MonkeyPatch) -> None:
    if group == NARROW:
        monkeypatch.setenv("COLUMNS", recording.NARROW_COLUMNS)
    monkeypatch.chdir(TESTDATA / section.folder)
    assert shown(kseg(*section.lines[0])) == section.text


@pytest.mark.sampled(4)
@pytest.mark.parametrize("section", recorded(CHANGES), ids=lambda section: section.heading)
def test_changed_files_are_the_recorded_ones(section: Section, kseg: Kseg, tmp_path: Path) -> None:
    assert shown_changes(section, tmp_path, kseg) == section.text


def test_each_case_of_a_finding_is_recorded() -> None:
    assert [section.heading for section in recorded("findings")] == recording.headings_of_cases()
