"""Reading stops after the wanted range, but not because of a single batch."""

import struct

import pytest

from kseg.segment.items import Batch, Message, RecordBatch
from kseg.segment.seek import BATCHES_BEHIND, MARGIN_BYTES, OffsetStop, TimeStop, earliest_timestamp
from segment.long_log import FIRST_TIMESTAMP, STEP_MS, batch_at, template
from segment.segments import TESTDATA, entries


def batches(*indexes: int) -> list[Batch]:
    """Batches of a long log, adjacent."""
    part, position, found = template(), 0, []
    for index in indexes:
        found.append(RecordBatch(batch_at(index, part), position, len(part), 2, True))
        position += len(part)
    return found


def end_of(stop: OffsetStop | TimeStop, found: list[Batch]) -> int | None:
    return next((i for i, batch in enumerate(found) if stop.is_behind(batch)), None)


def test_two_batches_after_the_range_end_it() -> None:
    found = batches(0, 1, 2, 3, 4, 5)
    assert end_of(OffsetStop(found[2].last_offset), found) == 2 + BATCHES_BEHIND
    assert end_of(OffsetStop(found[2].last_offset - 1), found) == 2 + BATCHES_BEHIND
    assert end_of(OffsetStop(found[5].last_offset), found) is None


def test_one_wrong_base_offset_does_not_end_it() -> None:
    found = batches(0, 1, 900, 2, 3, 4, 5, 6)
    assert end_of(OffsetStop(found[4].last_offset), found) is None


def test_a_batch_with_a_wrong_checksum_says_nothing() -> None:
    found = batches(0, 1, 2, 3)
    found[2].is_valid = False
    assert end_of(OffsetStop(found[1].last_offset), found) is None


def test_compressed_messages_end_it_by_their_last_offsets() -> None:
    data = (TESTDATA / "kafka-0.8.2.2/codecs/one-gzip-0/00000000000000000000.log").read_bytes()
    found = [Message(part, 0, len(part), 0, True) for part in entries(data)]
    assert all(batch.base_offset is None for batch in found[:5])
    assert end_of(OffsetStop(found[1].last_offset), found) == 1 + BATCHES_BEHIND


def test_times_need_a_margin() -> None:
    found = batches(*range(400))
    end = end_of(TimeStop(FIRST_TIMESTAMP + 100 * STEP_MS), found)
    assert end is not None
    behind = [batch for batch in found[: end + 1] if batch.max_timestamp > FIRST_TIMESTAMP + 100 * STEP_MS]
    assert MARGIN_BYTES <= sum(batch.size for batch in behind) < 2 * MARGIN_BYTES


def test_times_that_run_backwards_ask_for_more() -> None:
    part = template()
    span = struct.unpack_from(">q", part, 35)[0] - (earliest_timestamp(batches(0)[0]) or 0)
    assert span >= 0
    order = [0, 40, 1, 41, 2, 42, *range(3, 40), *range(43, 200)]
    wanted = FIRST_TIMESTAMP + 39 * STEP_MS
    found = batches(*order)
    end = end_of(TimeStop(wanted), found)
    assert end is None or order.index(39) < end


def test_nothing_is_reported_for_batches_without_records() -> None:
    header = bytearray(template()[:61])
    struct.pack_into(">i", header, 8, 49)
    struct.pack_into(">i", header, 57, 0)
    empty = RecordBatch(bytes(header), 0, 61, 2, True)
    assert earliest_timestamp(empty) is None
    assert not TimeStop(0).is_behind(empty)


@pytest.mark.parametrize("cut", [61, 70, 100])
def test_a_batch_that_does_not_decode_says_nothing(cut: int) -> None:
    part = template()[:cut]
    assert not TimeStop(0).is_behind(RecordBatch(part, 0, cut, 2, True))
