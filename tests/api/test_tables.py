"""``kseg.convert`` to and from tables: the plan says what is written, and everything comes back."""

from pathlib import Path
from typing import Any

import pytest

import kseg
from api.consumed import TESTDATA

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

LOGS = TESTDATA / "log-directories/4.3.1/logs"


def sizes(directory: Path) -> dict[str, int]:
    return {str(path): path.stat().st_size for path in directory.rglob("*") if path.is_file() and path.name != ".lock"}


@pytest.mark.parametrize("wanted", [
    {"to": "parquet"}, {"to": "arrow", "codec": "zstd"}, {"to": "parquet", "partition_by": "topic,date"},
    {"to": "arrow", "partition_by": ["topic", "partition"]},
], ids=str)  # fmt: skip
def test_out_and_in_again(tmp_path: Path, wanted: dict[str, Any]) -> None:
    (tmp_path / "out").mkdir()
    plan = kseg.convert(LOGS, output=tmp_path / "out/tables", **wanted)
    assert (sizes(tmp_path), plan.errors) == ({}, {})
    assert plan.apply().changed
    assert {action.file: action.size for action in plan.actions} == sizes(tmp_path)
    back = kseg.convert(tmp_path / "out/tables", from_=wanted["to"], output=tmp_path / "back")
    assert not (tmp_path / "back").exists()
    back.apply()
    assert kseg.scan(tmp_path / "back").to_arrow().equals(kseg.scan(LOGS).to_arrow())
    assert kseg.verify(tmp_path / "back", level="deep").ok
    with pytest.raises(kseg.PathError, match="already exists"):
        kseg.convert(LOGS, output=tmp_path / "out/tables", **wanted).apply()
