"""What verify names as the repair repairs: every case of damage, the commands of ``next``, and verify again."""

import gzip
import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cli.command import LOGS, TESTDATA, Kseg, files
from conditions import CONDITIONS, PASSING

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
    for option in ("against", "by", "era", "manifest"):
        if option in case:
            options += [f"--{option}", case[option] if option in ("by", "era") else folder / case[option]]
    for name, key_path in case.get("privateKeys", {}).items():
        options += ["--private-key", f"{name}={TESTDATA / key_path}"]
    paths = [path, folder / case["logs"]] if "logs" in case else [path]
    objects = kseg("verify", "--level", "deep", "--format", "json", *options, *paths).objects
    return [row for row in objects if row["type"] == "finding"], objects[-1]


def key(row: dict[str, Any]) -> tuple[str, str]:
    return row["code"], row["file"]


@contextmanager
def condition_of(case: dict[str, Any], folder: Path, is_over: bool = False) -> Iterator[None]:
    """What the case needs beside its files; ``is_over``: as it is when files are repaired."""
    with pytest.MonkeyPatch.context() as patch:
        name = case.get("condition")
        if name is not None and not (is_over and name in PASSING):
            CONDITIONS[name](patch, folder)
        yield


def assert_repairs(kseg: Kseg, path: Path, case: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Runs what is next: each command does something, what has a repair is gone, and there is no new error."""
    with condition_of(case, folder):
        first, summary = verified(kseg, path, case, folder)
    with condition_of(case, folder, is_over=True):
        assert_repaired(kseg, path, case, folder, first, summary)
    return first


def assert_repaired(
    kseg: Kseg, path: Path, case: dict[str, Any], folder: Path, first: list[dict[str, Any]], summary: dict[str, Any]
) -> None:
    """The rest of `assert_repairs`, from the first verdict on."""
    for argv in summary["next"]:
        before = files(folder), files(path)
        outcome = kseg(*argv[1:])
        assert outcome.status in (0, 1), (argv, outcome.err)
        assert (files(folder), files(path)) != before, ("finds nothing to do", argv)
    left, after = verified(kseg, path, case, folder)
    repaired = {key(row) for row in first if row["repair"] and not row["needs"] and row["severity"] != "info"}
    assert repaired & {key(row) for row in left} == set(), ("still there", summary["next"])
    worse = {key(row) for row in left if row["severity"] == "error"} - {key(row) for row in first}
    assert not worse or folder.name in EXCEPTIONS, (worse, summary["next"])
    for row in first:
        assert row["severity"] == "info" or row["repair"] or row["needs"], row
    assert after["next"] == []
    for row in left:
        assert not (row["repair"] and row["needs"] == "decision"), row
        if row["needs"] == "decision" and (argv := row["details"].get("otherRepair")):
            if argv[0] != "kseg":
                subprocess.run(argv, check=True)
            else:
                assert kseg(*argv[1:]).status in (0, 1)
            if argv[1] == "dump":  # it shows what a start removes, which nothing keeps
                continue
            assert key(row) not in {key(other) for other in verified(kseg, path, case, folder)[0]}, argv


def assert_each_repair_by_itself(kseg: Kseg, path: Path, case: dict[str, Any], folder: Path, spare: Path) -> None:
    """Runs the repair of each finding alone, on the files as they were: it is not refused, and the finding is gone."""
    shutil.copytree(folder, spare, symlinks=True)
    with condition_of(case, folder):
        first, _ = verified(kseg, path, case, folder)
    by_repair: dict[tuple[str, ...], set[tuple[str, str]]] = {}
    for row in first:
        if row["repair"] and row["needs"] in (None, "decision") and row["severity"] != "info":
            by_repair.setdefault(tuple(row["repair"]), set()).add(key(row))
    for argv, findings in by_repair.items():
        with condition_of(case, folder, is_over=True):
            outcome = kseg(*argv[1:])
            assert outcome.status in (0, 1), (argv, findings, outcome.err)
            assert findings & {key(row) for row in verified(kseg, path, case, folder)[0]} == set(), argv
        shutil.rmtree(folder)
        shutil.copytree(spare, folder, symlinks=True)


DAMAGED = sorted(
    {
        path.parent
        for suffix in (".log", ".kafka")
        for path in (TESTDATA / "damaged").rglob(f"*{suffix}")
        if FINDINGS not in path.parents
    }
    | {path.parent.parent for path in (TESTDATA / "recovery").rglob("*.log") if "before" in path.parts}
)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("folder", DAMAGED, ids=lambda path: str(path.relative_to(TESTDATA)))
def test_what_is_named_repairs_each_damaged_directory(folder: Path, kseg: Kseg, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(folder, tmp_path / folder.name))
    assert_repairs(kseg, copied, {}, tmp_path)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("folder", DAMAGED, ids=lambda path: str(path.relative_to(TESTDATA)))
def test_each_repair_of_a_damaged_directory_works_by_itself(folder: Path, kseg: Kseg, tmp_path: Path) -> None:
    place = tmp_path / "damaged"
    copied = Path(shutil.copytree(folder, place / folder.name))
    assert_each_repair_by_itself(kseg, copied, {}, place, tmp_path / "spare")


CODES = sorted(path.name for path in FINDINGS.iterdir() if path.is_dir())


def case_of(code: str, place: Path) -> tuple[Path, dict[str, Any], Path]:
    """A copy of a case: what is judged in it, its case.json, and its folder."""
    case = json.loads((FINDINGS / code / "case.json").read_text("utf-8"))
    copied = place / "damaged" / "findings"
    shutil.copytree(FINDINGS / code, copied / code)
    judged = copied / code / case["judged"]
    if case["judged"].startswith("../../"):
        source = (FINDINGS / code / case["judged"]).resolve()
        shutil.copytree(source.parent, copied.parent / source.parent.name)
        judged = judged.resolve()
    for name in case.get("packed", []):
        packed = copied / code / f"{name}.gz"
        (copied / code / name).write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()
    return judged, case, copied / code


@pytest.mark.sampled(15)
@pytest.mark.parametrize("code", CODES)
def test_what_is_named_repairs_each_finding(code: str, kseg: Kseg, tmp_path: Path) -> None:
    judged, case, folder = case_of(code, tmp_path)
    first = assert_repairs(kseg, judged, case, folder)
    assert code in {row["code"] for row in first}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("code", CODES)
def test_each_repair_of_a_case_works_by_itself(code: str, kseg: Kseg, tmp_path: Path) -> None:
    judged, case, _ = case_of(code, tmp_path)
    assert_each_repair_by_itself(kseg, judged, case, tmp_path / "damaged", tmp_path / "spare")


def test_a_partition_by_itself_takes_its_checkpoints_along(kseg: Kseg, tmp_path: Path) -> None:
    logs = Path(shutil.copytree(FINDINGS / "recovery-point-beyond-end" / "logs", tmp_path / "logs"))
    points = logs / "recovery-point-offset-checkpoint"
    before = points.read_bytes()
    assert kseg("recover", logs / "dplain-0").status == 0
    assert points.read_text().splitlines()[2:] == ["dplain 0 116"]
    assert kseg("undo", logs / "dplain-0").status == 0
    assert points.read_bytes() == before


def test_a_bad_transaction_index_that_waits_to_be_put_in_place(kseg: Kseg, tmp_path: Path) -> None:
    logs = Path(shutil.copytree(LOGS, tmp_path / "logs"))
    (logs / ".kafka_cleanshutdown").touch()
    (logs / "dplain-0" / f"{46:020}.txnindex.swap").write_bytes(bytes([1]) + bytes(33))
    first, summary = verified(kseg, logs, {}, tmp_path)
    assert "transaction-index-damaged" in {row["code"] for row in first}
    kseg("recover", logs).expect(3, "kseg recover --mode salvage")
    assert_repaired(kseg, logs, {}, tmp_path, first, summary)
