"""What verify names as the repair repairs: every case of damage, the commands of ``next``, and verify again."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from .command import TESTDATA, Kseg

FINDINGS = TESTDATA / "damaged" / "findings"
NOW_MS = 1795300000000
EXCEPTIONS = {
    "manifest-added": "the batch that was put in also breaks the order of offsets; without it the segment is repaired, "
    "and still not that of the manifest: its file is another one",
}
"""Cases that are not as before after the repair, and why."""


def verified(kseg: Kseg, path: Path, case: dict[str, Any], folder: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Findings and summary."""
    options = ["--now", case.get("nowMs", NOW_MS)]
    if "maxBatchBytes" in case:
        options += ["--max-batch-bytes", case["maxBatchBytes"]]
    for option in ("against", "manifest"):
        if option in case:
            options += [f"--{option}", folder / case[option]]
    objects = kseg("verify", "--level", "deep", "--format", "json", *options, path).objects
    return [row for row in objects if row["type"] == "finding"], objects[-1]


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def key(row: dict[str, Any]) -> tuple[str, str]:
    return row["code"], row["file"]


def assert_repairs(kseg: Kseg, path: Path, case: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Runs what is next: each command does something, what has a repair is gone, and there is no new error."""
    first, summary = verified(kseg, path, case, folder)
    for argv in summary["next"]:
        before = contents(folder), contents(path)
        outcome = kseg(*argv[1:])
        assert outcome.status in (0, 1), (argv, outcome.err)
        assert (contents(folder), contents(path)) != before, ("finds nothing to do", argv)
    left, after = verified(kseg, path, case, folder)
    repaired = {key(row) for row in first if row["repair"] and not row["needs"] and row["severity"] != "info"}
    assert repaired & {key(row) for row in left} == set(), ("still there", summary["next"])
    worse = {key(row) for row in left if row["severity"] == "error"} - {key(row) for row in first}
    assert not worse or folder.name in EXCEPTIONS, (worse, summary["next"])
    for row in first:
        assert row["severity"] == "info" or row["repair"] or row["needs"], row
    assert after["next"] == []
    for row in left:
        if row["repair"] and row["needs"] == "decision":
            assert kseg(*row["repair"][1:]).status in (0, 1)
            assert key(row) not in {key(other) for other in verified(kseg, path, case, folder)[0]}, row["repair"]
    return first


DAMAGED = sorted(
    {
        path.parent
        for suffix in (".log", ".kafka")
        for path in (TESTDATA / "damaged").rglob(f"*{suffix}")
        if FINDINGS not in path.parents
    }
    | {path.parent.parent for path in (TESTDATA / "recovery").rglob("*.log") if "before" in path.parts}
)


@pytest.mark.parametrize("folder", DAMAGED, ids=lambda path: str(path.relative_to(TESTDATA)))
def test_what_is_named_repairs_each_damaged_directory(folder: Path, kseg: Kseg, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(folder, tmp_path / folder.name))
    assert_repairs(kseg, copied, {}, tmp_path)


@pytest.mark.parametrize("code", sorted(path.name for path in FINDINGS.iterdir() if path.is_dir()))
def test_what_is_named_repairs_each_finding(code: str, kseg: Kseg, tmp_path: Path) -> None:
    case = json.loads((FINDINGS / code / "case.json").read_text("utf-8"))
    copied = tmp_path / "damaged" / "findings"
    shutil.copytree(FINDINGS / code, copied / code)
    judged = copied / code / case["judged"]
    if case["judged"].startswith("../../"):
        source = (FINDINGS / code / case["judged"]).resolve()
        shutil.copytree(
            source.parent, copied.parent / source.parent.name
        ) if source.parent.parent.name == "damaged" else None
        judged = judged.resolve()
    assert_repairs(kseg, judged, case, copied / code)


def test_a_partition_by_itself_takes_its_checkpoints_along(kseg: Kseg, tmp_path: Path) -> None:
    logs = Path(shutil.copytree(FINDINGS / "recovery-point-beyond-end" / "logs", tmp_path / "logs"))
    points = logs / "recovery-point-offset-checkpoint"
    before = points.read_bytes()
    assert kseg("recover", logs / "dplain-0").status == 0
    assert points.read_text().splitlines()[2:] == ["dplain 0 116"]
    assert kseg("undo", logs / "dplain-0").status == 0
    assert points.read_bytes() == before
