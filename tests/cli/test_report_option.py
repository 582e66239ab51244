"""``--report`` of changing commands: the plan of a dry run goes to a file, in every form."""

import shutil
from pathlib import Path

import pytest

from cli.command import TESTDATA, Kseg

CASE = TESTDATA / "damaged/4.3.1-last-flip-body/dplain-0"


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("option", ["-o", "--report"])
def test_a_plan_goes_to_a_file(kseg: Kseg, tmp_path: Path, form: str, option: str) -> None:
    shutil.copytree(CASE, tmp_path / "dplain-0")
    shown = kseg("recover", "--dry-run", "--format", form, tmp_path / "dplain-0")
    done = kseg("recover", "--dry-run", "--format", form, option, tmp_path / "plan", tmp_path / "dplain-0")
    assert (done.status, done.out) == (1, b"")
    assert (tmp_path / "plan").read_bytes() == shown.out != b""


def test_a_conversion_has_its_plan_in_a_file_too(kseg: Kseg, tmp_path: Path) -> None:
    shutil.copytree(TESTDATA / "damaged/4.3.1-control-clean/dplain-0", tmp_path / "dplain-0")
    options = ("convert", "--codec", "zstd", "--in-place", "--dry-run", "--format", "json")
    shown = kseg(*options, tmp_path / "dplain-0")
    assert kseg(*options, "--report", tmp_path / "plan", tmp_path / "dplain-0").status == 1
    assert (tmp_path / "plan").read_bytes() == shown.out != b""


def test_an_export_has_no_report(kseg: Kseg, tmp_path: Path) -> None:
    done = kseg("convert", "--to", "jsonl", "--report", tmp_path / "plan", "--dry-run", CASE)
    assert done.status == 2
    assert not (tmp_path / "plan").exists()
