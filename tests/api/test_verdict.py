"""`kseg.verify` finds what the command finds, in the same order."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kseg
from api.consumed import TESTDATA

DAMAGED = sorted(path for path in TESTDATA.glob("damaged/*/*-0") if path.is_dir())[::8]
LOG_DIRECTORY = TESTDATA / "log-directories/4.3.1/logs"
FLIPPED = TESTDATA / "damaged/4.3.1-last-flip-body/dplain-0"
NOW = 1_800_000_000_000


def told(*arguments: object) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "kseg", "verify", "--format", "json", "--now", NOW, *arguments]
    done = subprocess.run(list(map(str, command)), capture_output=True, check=False, cwd=TESTDATA.parent)
    return [json.loads(line) for line in done.stdout.splitlines()]


def as_told(finding: kseg.Finding) -> dict[str, Any]:
    return json.loads(json.dumps({"type": "finding", **finding._asdict()}))  # type: ignore[no-any-return]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("level", ["quick", "deep"])
@pytest.mark.parametrize("path", [*DAMAGED, LOG_DIRECTORY], ids=lambda path: "/".join(path.parts[-2:]))
def test_findings_are_those_of_the_command(path: Path, level: str) -> None:
    verdict = kseg.verify(path, level=level, now=NOW)
    rows = told("--level", level, path)
    assert [as_told(finding) for finding in verdict.findings] == [row for row in rows if row["type"] == "finding"]
    summary = rows[-1]
    assert verdict.ok == summary["ok"]
    assert list(verdict.next) == summary["next"]
    names, elsewhere = {"notJudged": "not_judged"}, ("type", "ok", "next", "nodes", "clusters")
    kept = {names.get(name, name): value for name, value in summary.items() if name not in elsewhere}
    assert verdict.summary._asdict() == kept


def test_findings_can_be_ignored_and_several_paths_judged() -> None:
    verdict = kseg.verify([FLIPPED, LOG_DIRECTORY], now=NOW)
    assert not verdict.ok
    assert "crc-mismatch" in {finding.code for finding in verdict.findings}
    codes = {finding.code for finding in verdict.findings if finding.severity == "error"}
    ignoring = kseg.verify([FLIPPED, LOG_DIRECTORY], ignore=codes, now=NOW)
    assert ignoring.ok
    assert codes.isdisjoint(finding.code for finding in ignoring.findings)
    assert kseg.verify(FLIPPED, ignore="crc-mismatch", now=NOW).summary.errors < verdict.summary.errors


def test_replicas_are_compared(tmp_path: Path) -> None:
    shutil.copytree(FLIPPED, tmp_path / "dplain-0")
    (comparison,) = kseg.verify(FLIPPED, against=tmp_path / "dplain-0").comparisons
    assert comparison.only_here == comparison.only_there == 0
    assert comparison.same


def test_what_cannot_be_judged_is_an_error_or_told(tmp_path: Path) -> None:
    with pytest.raises(kseg.PathError, match="no such file"):
        kseg.verify(tmp_path / "missing")
    verdict = kseg.verify([LOG_DIRECTORY, tmp_path / "missing"])
    assert not verdict.ok
    assert str(tmp_path / "missing") in verdict.failures[0]
    assert verdict._repr_html_().endswith(f"<p>Failed:</p><ul><li>{verdict.failures[0]}</li></ul>")


def test_a_check_makes_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program with threads must not fork."""
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("forked"))
    assert kseg.verify(TESTDATA / "kafka-4.3.1/clients", level="deep").summary.files == 8


def test_it_is_shown_as_a_table() -> None:
    verdict = kseg.verify(FLIPPED)
    html = verdict._repr_html_()
    assert html.startswith("<table><caption>not ok: errors: ")
    assert html.count("<tr>") == 1 + len(verdict.findings)
    assert "crc-mismatch" in html
    assert "kseg recover --mode" in html
    assert repr(verdict).startswith("<Verdict not ok: ")
    assert "\n" not in repr(verdict)
