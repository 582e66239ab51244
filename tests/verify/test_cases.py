"""Every code of the table of findings is told in a test, and the cases of batches tell what they are for."""

import os
from pathlib import Path
from typing import Any

import pytest
from cases import CASES, LAST, Case
from partitions import PLAIN, Found, copied

from kseg.segment.source import Source
from kseg.verify.findings import KINDS
from kseg.verify.verification import judge_path

RESERVED: set[str] = set()


@pytest.mark.parametrize(("code", "case"), CASES.items(), ids=CASES)
def test_a_case_is_told(code: str, case: Case, tmp_path: Path) -> None:
    found = Found()
    judge_path(str(case.make(tmp_path)), case.settings, found.report, lambda _: None)
    told = [finding for finding in found.findings if finding.code == code]
    assert told, found.codes
    assert {finding.severity for finding in told} == {KINDS[code].severity}
    if case.position is not None:
        assert case.position in [finding.position for finding in told]


def test_every_code_is_told_in_a_test() -> None:
    folder = Path(__file__).parent
    texts = [path.read_text("utf-8") for path in folder.glob("*.py")]
    named = {code for code in KINDS if any(f'"{code}"' in text for text in texts)}
    assert sorted(set(KINDS) - named - RESERVED) == []


def test_an_intact_partition_has_no_finding(tmp_path: Path) -> None:
    found = Found()
    judge_path(str(PLAIN), CASES["bad-length"].settings, found.report, lambda _: None)
    assert found.codes == []


def test_bytes_that_the_disk_does_not_give(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Source, "has_lost_pages", property(lambda _source: True))
    found = Found()
    judge_path(str(PLAIN), CASES["bad-length"].settings, found.report, lambda _: None)
    assert "unreadable-bytes" in found.codes


def test_a_file_that_becomes_shorter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = copied(PLAIN, tmp_path) / LAST
    whole = Source.__init__

    def cut_later(source: Source, *arguments: Any, **options: Any) -> None:
        whole(source, *arguments, **options)
        os.truncate(path, 8000)

    monkeypatch.setattr(Source, "__init__", cut_later)
    found = Found()
    judge_path(str(path), CASES["bad-length"].settings, found.report, lambda _: None)
    assert "file-shrank" in found.codes
