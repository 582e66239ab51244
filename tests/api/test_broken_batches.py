"""Records of broken batches, where they are asked for: those that ``kseg dump`` prints, marked as it marks them."""

import pickle
from pathlib import Path

import pytest

import kseg
from cli.command import TESTDATA, Kseg, caller

DAMAGED = sorted({path.parent for path in TESTDATA.glob("damaged/[0-9]*/*-0/*.log")})
BROKEN = TESTDATA / "damaged/4.3.1-last-flip-body/dplain-0"


@pytest.fixture
def command(capfdbinary: pytest.CaptureFixture[bytes]) -> Kseg:
    return caller(capfdbinary)


def dumped(command: Kseg, path: Path) -> list[tuple[int, bool]]:
    """Offsets of the records of a dump that are no markers, and whether each is proven."""
    found, is_valid = [], True
    for row in command("dump", "--deep-iteration", "--format", "json", path).objects:
        if row["type"] == "batch":
            is_valid = row["isValid"] and "undecodable-records" not in row["problems"]
        elif row["type"] == "record" and "control" not in row:
            found.append((row["offset"], row.get("proven", is_valid)))
    return found


@pytest.mark.sampled(4)
@pytest.mark.parametrize("path", DAMAGED, ids=lambda path: path.parent.name)
def test_records_are_those_of_a_dump(path: Path, command: Kseg) -> None:
    found = [(each.offset, each.proven) for each in kseg.open(path).records(on_damage="include")]
    assert found == dumped(command, path)
    scan = pytest.importorskip("pyarrow") and kseg.scan(path, on_damage="include", columns=["offset", "proven"])
    assert [(row["offset"], row["proven"]) for row in scan.to_arrow().to_pylist()] == found
    parts = [row for part in scan.splits(2000) for row in part.to_arrow().to_pylist()]
    assert [(row["offset"], row["proven"]) for row in parts] == found
    assert scan.count_rows() == len(found)


def test_without_asking_they_are_left_out_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("pyarrow")
    scan = kseg.scan(BROKEN, on_damage="skip")
    assert "proven" not in scan.schema.names
    assert scan.skipped == []
    for _ in range(3):
        count = scan.to_arrow().num_rows
        assert scan.count_rows() == count
    whole = kseg.scan(BROKEN, on_damage="include").to_arrow()
    assert whole.column("proven").to_pylist().count(True) == count < whole.num_rows
    (lost,) = scan.skipped
    items = [item for item in kseg.open(BROKEN) if isinstance(item, kseg.Damage) or not item.is_valid]
    assert (lost.position, lost.code, lost.topic) == (items[0].position, "crc-mismatch", "dplain")
    assert sum("left out" in each.getMessage() for each in caplog.records) == 2  # one for each scan
    assert pickle.loads(pickle.dumps(scan)).skipped == []


@pytest.mark.parametrize("code", ["cut-message-set", "inner-crc-mismatch"])
def test_a_compressed_message_with_wrong_or_missing_ones_is_told(code: str) -> None:
    pytest.importorskip("pyarrow")
    (path,) = (TESTDATA / "damaged/findings" / code).glob("*-0")
    scan = kseg.scan(path, on_damage="skip")
    scan.to_arrow()
    broken = {item.position for item in kseg.open(path) if code in [each.code for each in item.check()]}
    assert {each.position for each in scan.skipped if each.code == code} == broken != set()
