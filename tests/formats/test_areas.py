"""Batches built from records, compared with those that Kafka's producers and brokers built from the same records."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.conversion.rows_writer import NewRecord, rows_of
from kseg.formats.compressing import NONE, build_batch, build_wrapper, parse_target
from kseg.formats.compression import KAFKA_3160_LZ4_HEADER, LZ4_HEADER
from kseg.formats.message_set import parse_header
from kseg.formats.message_set import read_rows as read_messages
from kseg.formats.record_batch import RecordBatchHeader
from kseg.formats.rows import Scratch
from kseg.kernel.records.building import Area
from kseg.segment.items import Batch, Message, RecordBatch
from segment.reading import items_at
from segment.segments import TESTDATA

UNCOMPRESSED = ("kafka-4.3.1/codecs/codec-mix-0", "kafka-0.11.0.3/txn/compact-txn-0", "kafka-0.8.2.2/codecs/one-none-0",
                "kafka-0.10.2.2/codecs/rec-uncompressed-0", "kafka-2.8.2/upgraded-from-0.8.2.2/one-mixcodec-0",
                "kafka-4.3.1/internal/__consumer_offsets-0")  # fmt: skip


@pytest.mark.parametrize("folder", UNCOMPRESSED)
def test_the_bytes_are_those_of_kafka(folder: str) -> None:
    compared = 0
    for batch in items_at(TESTDATA / folder):
        assert isinstance(batch, Batch)
        if batch.compression != "none" or batch.is_control:
            continue
        if isinstance(batch, RecordBatch):
            if not batch.header.record_count or batch.header.delete_horizon_ms is not None:
                continue
            area = Area(2)
        else:
            area = Area(batch.magic, attributes=batch.header.attributes)
        area.begin(batch.base_offset or 0)
        for rows in batch.rows():
            assert area.add(rows, 0, rows.count) == rows.count
        made = build_batch(batch.header, area.take(), NONE) if area.magic == 2 else area.take()
        assert made == batch.data
        if not batch.header.is_log_append_time and area.magic == 2:
            assert (area.base_timestamp, area.largest_timestamp) == (batch.header.base_timestamp, batch.max_timestamp)
        compared += 1
    assert compared > 0


def test_the_frame_of_v0_is_the_one_that_old_brokers_wrote() -> None:
    for batch in items_at(TESTDATA / "kafka-0.8.2.2/codecs/one-lz4-0"):
        assert isinstance(batch, Message)
        assert bytes(batch.data[26:33]) == KAFKA_3160_LZ4_HEADER
        area = Area(0, is_relative=True)
        area.begin(0)
        for rows in batch.rows():
            area.add(rows, 0, rows.count)
        made = build_wrapper(0, batch.last_offset, -1, 0, area.take(), parse_target("lz4"))
        assert made[26:33] == KAFKA_3160_LZ4_HEADER
        assert build_wrapper(1, batch.last_offset, -1, 0, area.take(), parse_target("lz4"))[34:41] == LZ4_HEADER


NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)
BYTES = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.binary(max_size=9), BYTES), max_size=3)
Drawn = list[tuple[int, int, bytes | None, bytes | None, list]]
RECORDS = st.lists(st.tuples(st.integers(1, 1 << 20), NUMBERS, BYTES, BYTES, HEADERS), min_size=1, max_size=12)


def new_records(drawn: Drawn) -> list[NewRecord]:
    offsets = accumulate(step for step, *_ in drawn)
    return [NewRecord(offset, *fields) for offset, (_, *fields) in zip(offsets, drawn, strict=True)]


@given(RECORDS, st.integers(1, 60))
def test_what_is_written_is_read_again(drawn: Drawn, initial_bytes: int) -> None:
    """The buffer grows as records need it, whatever its initial size."""
    records = new_records(drawn)
    area, rows = Area(2, initial_bytes=initial_bytes), rows_of(records)
    area.begin(0)
    assert area.add(rows, 0, rows.count) == rows.count
    header = RecordBatchHeader(
        0, 0, 7, 2, 0, 0, records[-1].offset, area.base_timestamp, area.largest_timestamp, -1, -1, -1, len(records)
    )
    for target in (NONE, parse_target("zstd"), parse_target("snappy")):
        data = build_batch(header, area.take(), target)
        batch = RecordBatch(data, 0, len(data), 2, True)
        assert batch.check() == []
        assert [(r.offset, r.timestamp, r.key, r.value, [*map(tuple, r.headers)]) for r in batch] == [
            record[:5] for record in records
        ]
        assert batch.max_timestamp == max(record.timestamp for record in records)


@given(RECORDS, st.sampled_from([0, 1]))
def test_messages_are_read_again(drawn: Drawn, magic: int) -> None:
    records = [record._replace(headers=()) for record in new_records(drawn)]
    area, rows = Area(magic, is_relative=True), rows_of(records)
    area.begin(records[0].offset)
    assert area.add(rows, 0, rows.count) == rows.count
    data = build_wrapper(magic, area.last_offset, area.largest_timestamp, 0, area.take(), parse_target("gzip"))
    message = Message(data, 0, len(data), magic, True)
    assert message.check() == []
    assert [record.offset for record in message] == [record.offset for record in records]
    assert [(record.key, record.value) for record in message] == [(record.key, record.value) for record in records]
    if magic:
        assert [record.timestamp for record in message] == [record.timestamp for record in records]
    header = parse_header(data)
    assert [rows.count for rows in read_messages(data, header, Scratch())] == [len(records)]


def test_a_limit_holds_for_all_but_the_first() -> None:
    records = [NewRecord(offset, 5, None, b"v" * 100) for offset in range(4)]
    area, rows = Area(2), rows_of(records)
    area.begin(0, 250)
    assert area.add(rows, 0, 4) == 2
    area.begin(2, 10)
    assert (area.add(rows, 2, 4), area.count, area.last_offset) == (3, 1, 2)


def test_an_offset_that_a_batch_cannot_reach_is_left() -> None:
    rows = rows_of([NewRecord(offset, 5, None, b"") for offset in (10, 10 + (1 << 31))])
    area = Area(2)
    area.begin(10)
    assert area.add(rows, 0, 2) == 1
    assert area.add(rows, 1, 2) == 1


def test_buffer_sizes_are_checked() -> None:
    rows = rows_of([NewRecord(0, 0, None, None)])
    for first, stop in ((0, 2), (1, 0), (-1, 1)):
        for magic in range(3):
            with pytest.raises(ValueError):
                Area(magic).add(rows, first, stop)
    with pytest.raises(ValueError):
        Area(3)
