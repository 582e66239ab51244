"""A caller of the Python interface passes mypy --strict."""

from pathlib import Path

import pytest

from api.consumed import TESTDATA

CALLER = """
import kseg

with kseg.open("orders-0") as log:
    for item in log:
        place: tuple[str, str | None, int | None, int] = (item.file, item.topic, item.partition, item.position)
    for record in log.records(offsets=(1, None), time=("2026-01-01", None), on_damage="skip"):
        offset: int = record.offset
        key: bytes | None = record.key
scan: kseg.Scan = kseg.scan("orders-0", columns=["offset"])
splits: list[kseg.Scan] = scan.splits(1 << 20)
findings: list[kseg.Finding] = list(kseg.verify(["a", "b"]).findings)
plan: kseg.Plan = kseg.recover("orders-0", mode="salvage")
result: kseg.Result = plan.apply()
with kseg.writer("new/orders-0", codec="zstd:3") as writer:
    written: int = writer.append(key=b"k", value=None, headers=[("h", b"1")])
    writer.extend(scan)
"""


@pytest.mark.slow
def test_a_caller_passes_mypy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    api = pytest.importorskip("mypy.api", reason="mypy is not installed")
    path = tmp_path / "caller.py"
    path.write_text(CALLER)
    monkeypatch.chdir(TESTDATA.parent)
    out, err, status = api.run(["--strict", "--cache-dir", str(tmp_path / "cache"), str(path)])
    assert (status, err) == (0, ""), out
    path.write_text(CALLER + "kseg.no_such_name\n")
    assert api.run(["--strict", "--cache-dir", str(tmp_path / "cache"), str(path)])[2] == 1
