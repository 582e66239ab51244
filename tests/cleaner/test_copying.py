"""What becomes of transaction markers, whose delete horizon is counted from when nothing else is left of them."""

from pathlib import Path

import pytest

from cleaner.building import BatchFields, NewRecord, build_marker, build_record_batch
from cleaner.cleaning import NOW, RETENTION, clean
from cleaner.partitions import write_log
from kseg.segment.batches import RecordBatch
from segment.reading import items_at

TRANSACTIONAL = BatchFields(16, producer_id=7, producer_epoch=0, base_sequence=0)


def markers(partition: Path) -> list[int]:
    """Offsets of the control batches that still have their record."""
    batches = (item for item in items_at(partition) if isinstance(item, RecordBatch))
    return [batch.base_offset for batch in batches if batch.is_control and list(batch)]


@pytest.mark.parametrize(("late_ms", "left"), [(-1, [1]), (0, [])])
def test_a_marker_goes_when_its_horizon_is_reached(late_ms: int, left: list[int], tmp_path: Path) -> None:
    partition = tmp_path / "t-0"
    superseded = build_record_batch([NewRecord(0, 1_000_000, b"k", b"old")], TRANSACTIONAL)
    latest = build_record_batch([NewRecord(2, 1_000_002, b"k", b"new")], BatchFields())
    write_log(partition, [superseded, build_marker(1, 7, True), latest], 1 << 20)
    clean(partition)
    assert markers(partition) == [1], "the data of its transaction was there until now"
    clean(partition, 0)
    assert markers(partition) == [1], "from now on it has a delete horizon"
    clean(partition, 0, now_ms=NOW + RETENTION + late_ms)
    assert markers(partition) == left
