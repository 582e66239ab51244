"""The producer state of a cleaning: from the newest snapshot that can be read, and the batches behind it."""

from pathlib import Path

import pytest

from cleaner.building import NewRecord, build_record_batch
from cleaner.partitions import write_log
from kseg.cleaner.log import Producers, read_producers, read_segments
from kseg.sidefiles.producer_state import ProducerStateEntry, build_producer_snapshot
from kseg.stores.windows import Buffers

DAY_MS, NOW_MS = 86_400_000, 2_000_000_000


def entry(producer: int, last_offset: int, first_open: int = -1, timestamp: int = NOW_MS) -> ProducerStateEntry:
    return ProducerStateEntry(producer, 0, 0, last_offset, 0, timestamp, -1, first_open)


def read(partition: Path) -> Producers:
    segments = read_segments(str(partition))
    return read_producers(str(partition), segments, NOW_MS, DAY_MS, Buffers())


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Four batches of producer 7, in one segment."""
    rows = [NewRecord(n, NOW_MS, b"k", b"v") for n in range(4)]
    batches = [build_record_batch([row], producer=7, epoch=0, sequence=row.offset) for row in rows]
    write_log(tmp_path / "t-0", batches)
    (tmp_path / "t-0" / f"{1:020d}.snapshot").write_bytes(build_producer_snapshot([entry(8, 0, 0)]))
    (tmp_path / "t-0" / f"{3:020d}.snapshot").write_bytes(build_producer_snapshot([entry(9, 2)]))
    return tmp_path / "t-0"


def test_the_newest_snapshot_counts(partition: Path) -> None:
    found = read(partition)
    assert (found.last_offsets, found.first_unstable, found.end_offset) == ({2: 9, 3: 7}, None, 4)


def test_an_older_one_stands_in_for_one_that_cannot_be_read(partition: Path) -> None:
    (partition / f"{3:020d}.snapshot").write_bytes(b"\0" * 10)
    found = read(partition)
    assert (found.last_offsets, found.first_unstable) == ({0: 8, 3: 7}, 0)


@pytest.mark.parametrize(("idle_ms", "is_known"), [(DAY_MS - 1, True), (DAY_MS, False)])
def test_a_producer_expires_unless_its_transaction_is_open(idle_ms: int, is_known: bool, partition: Path) -> None:
    idle = [entry(9, 2, timestamp=NOW_MS - idle_ms), entry(10, 1, 1, NOW_MS - 2 * DAY_MS)]
    (partition / f"{3:020d}.snapshot").write_bytes(build_producer_snapshot(idle))
    found = read(partition)
    assert found.last_offsets == {1: 10, 3: 7} | ({2: 9} if is_known else {})
    assert found.first_unstable == 1
