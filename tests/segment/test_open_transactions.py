"""Open transactions in logs of real brokers, compared with the offset at which a read_committed consumer stops."""

import struct
from pathlib import Path

import pytest

from kseg.formats.rows import Scratch
from kseg.segment.files import list_segments, segment_file
from kseg.segment.isolation import OpenTransactions, Transactions, newest_timestamp
from kseg.segment.items import RecordBatch
from segment.reading import items_at
from segment.segments import TESTDATA

OPEN = TESTDATA / "kafka-1.1.1/txn/txn-open-0"
PARTITIONS = sorted({path.parent for path in TESTDATA.glob("kafka-*/*/*/*.log")})


def test_the_open_transaction_of_a_real_log() -> None:
    files = list_segments(str(OPEN))
    found = OpenTransactions.of_segments(files, Scratch()).found
    assert found, "the scenario leaves a transaction open"
    batches = [item for file in files for item in items_at(file.path) if isinstance(item, RecordBatch)]
    for transaction in found:
        own = [
            batch
            for batch in batches
            if batch.header.producer_id == transaction.producer_id and batch.last_offset >= transaction.first_offset
        ]
        assert not any(batch.is_control for batch in own)
        assert transaction.batches == len(own)
        assert transaction.first_offset == own[0].base_offset
        assert transaction.producer_epoch == own[-1].header.producer_epoch
        assert transaction.first_timestamp == next(iter(own[0])).timestamp


@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda path: "/".join(path.parts[-3:]))
def test_they_hold_back_the_last_stable_offset(partition: Path) -> None:
    files = [file for file in list_segments(str(partition)) if file.kind == ".log"]
    found = OpenTransactions.of_segments(files, Scratch()).found
    stable = Transactions.of_segments(files, Scratch()).last_stable_offset
    assert (found[0].first_offset if found else None) == stable
    stamps = [batch.max_timestamp for file in files for batch in items_at(file.path)]
    assert newest_timestamp(files, Scratch()) == (max(stamps, default=-1) if max(stamps, default=-1) >= 0 else None)


def test_a_marker_ends_a_transaction(tmp_path: Path) -> None:
    """The same batch twice is one transaction of two batches; after its marker there is none."""
    data = next(iter(list_segments(str(OPEN)))).path
    batches = [item for item in items_at(data) if isinstance(item, RecordBatch)]
    marker = next(batch for batch in batches if batch.is_control)
    own = next(
        batch
        for batch in batches
        if batch.is_transactional and not batch.is_control and batch.header.producer_id == marker.header.producer_id
    )
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(bytes(own.data) + struct.pack(">q", own.last_offset + 1) + bytes(own.data)[8:])
    (found,) = OpenTransactions.of_segments([segment_file(str(path))], Scratch()).found
    assert (found.batches, found.first_offset) == (2, own.base_offset)
    assert found.age_ms(None) is None
    assert found.age_ms(found.first_timestamp + 5) == 5
    path.write_bytes(path.read_bytes() + bytes(marker.data))
    assert OpenTransactions.of_segments([segment_file(str(path))], Scratch()).found == []
