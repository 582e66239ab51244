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
