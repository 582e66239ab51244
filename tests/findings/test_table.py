"""The table of findings: whole rows, and repairs that fit what they need."""

import re

import pytest

from kseg.cli.main import COMMANDS
from kseg.findings.table import BROKER, ERROR, INFO, KINDS, NEEDS, SEVERITIES, severity_of, texts_of
from kseg.segment.items import DAMAGE_CODES, PROBLEM_CODES


def test_every_code_of_readers_is_a_finding() -> None:
    assert (DAMAGE_CODES | PROBLEM_CODES) <= KINDS.keys()


def test_a_row_is_whole() -> None:
    for code, kind in KINDS.items():
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", code)
        assert severity_of(code) == kind.severity
        assert kind.severity in SEVERITIES, code
        for text in texts_of(code):
            assert text.endswith("."), text
            assert "  " not in text, "the parts of a text are joined by one space"


def test_a_repair_is_a_command_or_something_is_needed() -> None:
    for code, kind in KINDS.items():
        assert kind.needs is None or kind.needs in NEEDS, code
        if kind.repair:
            assert kind.repair.split()[0] == "kseg", code
            assert kind.repair.split()[1] in COMMANDS, code
            assert kind.needs != BROKER, f"{code}: a running broker repairs it, not a command"
        if kind.severity == ERROR:
            assert kind.repair or kind.needs, f"{code}: an error without any way out"
        if kind.is_cut:
            assert kind.repair, f"{code}: what a broker cuts can be salvaged"
            assert kind.severity != INFO, code


def test_an_unknown_code_has_no_severity() -> None:
    with pytest.raises(KeyError):
        severity_of("no-such-code")
