"""The Python interface on a node of several disks."""

import json
from pathlib import Path
from typing import Any

import pytest

import kseg
from cli.command import TESTDATA
from node.disks import committed_on, dealt, properties_of, without_places

CLEAN = TESTDATA / "log-directories" / "4.3.1-rounds" / "clean"
NOW_MS = 1_800_000_000_000


@pytest.fixture
def disks(tmp_path: Path) -> list[Path]:
    return dealt(CLEAN, tmp_path / "node", 2)


def changed_logs(plan: kseg.Plan) -> list[str]:
    files = (Path(action.file) for action in plan.actions)
    return sorted(f"{file.parent.name}/{file.name}" for file in files if file.suffix == ".log")


def test_retain_knows_the_policies_of_all_disks(disks: list[Path]) -> None:
    whole, several, configured = (
        kseg.retain(paths, retention_ms=1, now=NOW_MS)
        for paths in (str(CLEAN), [str(disk) for disk in disks], str(properties_of(disks)))
    )
    assert changed_logs(whole) == changed_logs(several) == changed_logs(configured) != []
    assert not [file for file in changed_logs(several) if file.startswith("cmptx-")], "these are compacted"


def test_findings_are_those_of_one_directory(disks: list[Path]) -> None:
    def findings(paths: object) -> list[tuple[str, str, str]]:
        found = kseg.verify(paths, level="deep", now=NOW_MS).findings  # type: ignore[arg-type]
        return sorted((one.code, one.severity, Path(one.file).name) for one in found if "clean-" not in one.code)

    expected = [one for one in findings(str(CLEAN)) if one[2] not in ("clean",)]
    found = [one for one in findings([str(disk) for disk in disks]) if not one[2].startswith("disk")]
    assert [one for one in found if one not in expected] == []
    assert found == [one for one in findings(str(properties_of(disks))) if not one[2].startswith("disk")]


def test_records_of_all_disks_are_scanned(disks: list[Path]) -> None:
    whole = sum(1 for _ in kseg.open(str(CLEAN)).records())
    assert whole == sum(1 for _ in kseg.open([str(disk) for disk in disks]).records()) > 0
    assert whole == sum(1 for _ in kseg.open(str(properties_of(disks))).records())
    assert whole == sum(1 for _ in kseg.open(str(disks[0].parent)).records())


@pytest.mark.parametrize("mode", ["commits", "findings"])
def test_a_scan_of_all_disks_has_the_rows_of_one_directory(mode: str, tmp_path: Path) -> None:
    """Lags by a log on another disk; a transaction for which groups wait whose offsets are on another disk."""
    pytest.importorskip("pyarrow")
    one, disks = committed_on(tmp_path)
    options = {"level": "deep", "now": NOW_MS} if mode == "findings" else {}

    def rows(*paths: Path) -> list[dict[str, Any]]:
        return without_places(kseg.scan([str(path) for path in paths], mode=mode, **options).to_arrow().to_pylist())

    expected = rows(one)
    assert expected == rows(*disks) == rows(*reversed(disks)) == rows(disks[0].parent) != []
    if mode == "findings":
        assert any(json.loads(row["details"]).get("waitingGroups") for row in expected)
    else:
        assert any(row["lag"] for row in expected)
