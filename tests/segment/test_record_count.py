"""Record counts from headers alone, compared with the reader, which reads every record."""

from pathlib import Path

import pytest

import kseg
from kseg.segment.survey import record_count
from segment.segments import TESTDATA, entries, sample

LOGS = sorted(TESTDATA.glob("kafka-*/*/*-0/*.log"))


def counted(path: Path) -> int | None:
    """Returns None for a log with a compressed v0 or v1 message, whose header has no record count."""
    if any(part[16] < 2 and part[17] & 7 for part in entries(path.read_bytes())):
        return None
    return sum(len(list(item)) for item in kseg.open(path) if isinstance(item, kseg.Batch))


@pytest.mark.parametrize("path", LOGS, ids=lambda path: f"{path.parts[-4]}-{path.parent.name}-{path.stem[-6:]}")
def test_real_segments(path: Path) -> None:
    assert record_count(str(path)) == counted(path)


def test_batches_that_are_larger_than_a_look(tmp_path: Path) -> None:
    small = sample("v2", 1)
    large = bytearray(small + bytes(12 << 10))
    large[8:12] = (len(large) - 12).to_bytes(4, "big")
    path = tmp_path / "0.log"
    path.write_bytes(small + large + small + large)
    one = int.from_bytes(small[57:61], "big")
    assert record_count(str(path)) == 4 * one
    path.write_bytes((small + large)[:-1])
    assert record_count(str(path)) is None


@pytest.mark.parametrize("junk", [b"\0", b"\0" * 100, b"\xff" * 4096])
def test_damage_is_not_counted(tmp_path: Path, junk: bytes) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(sample("v2") + junk)
    assert record_count(str(path)) is None
    path.write_bytes(b"")
    assert record_count(str(path)) == 0
