"""The Python interface on a node of several disks."""

from pathlib import Path

import pytest

import kseg
from cli.command import TESTDATA
from node.disks import dealt, properties_of

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
