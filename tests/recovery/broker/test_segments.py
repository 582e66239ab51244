"""Lookups in the offset index of a segment as Kafka's AbstractIndex does them, also where it is not sorted."""

from pathlib import Path

import pytest

from kseg.recovery.broker.segments import BrokerSegment
from kseg.recovery.workspace import Workspace

BASE, ENTRIES, WARM = 100, 3000, 1024
STEM = f"{BASE:020d}"


def segment_with(directory: Path, entries: list[tuple[int, int]]) -> BrokerSegment:
    directory.mkdir()
    (directory / f"{STEM}.log").write_bytes(b"")
    data = b"".join(relative.to_bytes(4, "big") + position.to_bytes(4, "big") for relative, position in entries)
    (directory / f"{STEM}.index").write_bytes(data)
    return BrokerSegment(Workspace(str(directory)), STEM, BASE)


def rising() -> list[tuple[int, int]]:
    return [(10 * i + 10, 100 * i + 100) for i in range(ENTRIES)]


@pytest.mark.parametrize(
    ("offset", "position"),
    [(0, 0), (9, 0), (10, 100), (19, 100), (20, 200), (10 * ENTRIES - 1, 100 * ENTRIES - 100), (1 << 40, 300_000)],
)
def test_the_last_entry_up_to_the_offset_is_found(offset: int, position: int, tmp_path: Path) -> None:
    assert segment_with(tmp_path / "orders-0", rising()).lookup(BASE + offset) == position


def test_a_search_begins_in_the_warm_entries_at_the_end(tmp_path: Path) -> None:
    """The first of them decides in which of the two halves it goes on, also where it is wrong."""
    entries = rising()
    first_warm = ENTRIES - 1 - WARM
    wanted = entries[-10]
    entries[first_warm] = (1 << 30, entries[first_warm][1])
    segment = segment_with(tmp_path / "orders-0", entries)
    assert segment.lookup(BASE + wanted[0]) == entries[first_warm - 1][1]
    entries[first_warm] = (1, entries[first_warm][1])
    other = segment_with(tmp_path / "others-0", entries)
    assert other.lookup(BASE + wanted[0]) == wanted[1]
    assert other.lookup(BASE + entries[5][0]) == entries[first_warm][1]


def test_without_entries_a_search_begins_at_the_start(tmp_path: Path) -> None:
    assert segment_with(tmp_path / "orders-0", []).lookup(1 << 40) == 0
