"""A selection finds the same records as a scan of every record."""

from pathlib import Path

import pytest

import kseg
from cleaner.building import NewRecord, build_record_batch
from cleaner.partitions import write_log
from kseg.formats.rows import UndecodableError
from kseg.options import declaration
from kseg.segment.items import Batch, Record, RecordBatch
from kseg.views.filters import Selection
from segment.reading import items_at
from segment.segments import LOGS, TESTDATA, name_of


def read(path: Path) -> list[Batch]:
    return [item for item in items_at(path) if isinstance(item, Batch)]


def selected(selection: Selection, batches: list[Batch]) -> list[Record]:
    """Returns the records that a printer would print: the matching rows of matching batches."""
    found = []
    for batch in batches:
        if not selection.holds(batch):
            continue
        records = list(batch)
        at = 0
        for rows in batch.rows():
            for first, stop in selection.spans(rows):
                found += records[at + first : at + stop]
            at += rows.count
    return found


@pytest.mark.sampled(5)
@pytest.mark.parametrize("path", LOGS, ids=name_of)
def test_each_question_against_every_record(path: Path) -> None:
    batches = read(path)
    users = [(batch, record) for batch in batches for record in batch]
    offsets = sorted(record.offset for _, record in users)
    low, high = offsets[len(offsets) // 3], offsets[len(offsets) // 2]
    expected = [record for _, record in users if low <= record.offset <= high]
    assert selected(Selection(offsets=(low, high)), batches) == expected

    stamps = sorted(record.timestamp or -1 for _, record in users)
    early, late = max(stamps[len(stamps) // 4], 0), max(stamps[len(stamps) // 2], 0)
    expected = [
        record for _, record in users if early <= (-1 if record.timestamp is None else record.timestamp) <= late
    ]
    assert selected(Selection(times=(early, late)), batches) == expected

    keys = {record.key for batch, record in users if record.key is not None and not batch.is_control}
    for key in [*sorted(keys)[:5], b"no such key", b"\0\0\0\1", b""]:
        expected = [record for batch, record in users if record.key == key and not batch.is_control]
        assert selected(Selection(key=key), batches) == expected

    for producer_id in {batch.header.producer_id for batch in batches if isinstance(batch, RecordBatch)} - {-1}:
        own = [batch for batch in batches if isinstance(batch, RecordBatch) and batch.header.producer_id == producer_id]
        expected = [record for batch in own for record in batch]
        assert selected(Selection(producer_id=producer_id), batches) == expected

    if keys:
        key = sorted(keys)[0]
        both = Selection(offsets=(low, high), times=(early, 1 << 62), key=key)
        expected = [
            record
            for batch, record in users
            if low <= record.offset <= high and (record.timestamp or -1) >= early and record.key == key
            and not batch.is_control
        ]  # fmt: skip
        assert selected(both, batches) == expected


def test_batches_without_timestamps_are_counted() -> None:
    batches = read(TESTDATA / "kafka-0.8.2.2/codecs/compact-0/00000000000000000351.log")
    selection = Selection(times=(0, 1 << 62))
    assert selected(selection, batches) == []
    assert selection.untimed == len(batches) > 0


def test_what_does_not_decode_is_not_skipped() -> None:
    (path,) = (TESTDATA / "damaged/4.3.1-crcok-gzip-payload-garbage").rglob("*.log")
    undecodable = []
    for batch in read(path):
        try:
            list(batch.rows())
        except UndecodableError:
            undecodable.append(batch)
    assert undecodable
    assert all(Selection(key=b"no such key").holds(batch) for batch in undecodable)


def test_an_empty_selection_wants_everything() -> None:
    batches = read(LOGS[0])
    assert Selection().is_empty
    assert selected(Selection(), batches) == [record for batch in batches for record in batch]


def test_all_times_but_the_unset_one_are_before_a_later_one(tmp_path: Path) -> None:
    stamps = (-5, -1, 1000, 3000)
    write_log(tmp_path / "a-0", [build_record_batch([NewRecord(i, at, b"k", b"v")]) for i, at in enumerate(stamps)])
    found = selected(Selection(times=declaration.time_range("..2000")), read(tmp_path / f"a-0/{0:020}.log"))
    assert [record.offset for record in found] == [0, 2]
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    assert kseg.scan(tmp_path / "a-0", time=(None, 2000)).count_rows() == 2
