"""Readers turn arbitrary bytes into entries and problems: they never raise, and account for each byte of an index."""

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kseg.formats.rows import Scratch
from kseg.sidefiles.indexes import IndexedLog, OffsetIndex, TimeIndex, check_offset_entry, check_time_index
from kseg.sidefiles.kinds import ENTRY_NAMES, read_items
from kseg.sidefiles.problems import SIDE_FILE_CODES, SideFileProblem, entries_of, problems_of
from kseg.sidefiles.producer_state import build_producer_snapshot, read_producer_snapshot
from sidefiles.real_files import healthy

SCRATCH = Scratch(1 << 20)
LOG = next(Path(file.beside(".log")).read_bytes() for file in healthy(".timeindex") if "compact-txn" in file.path)
TEXTS = st.binary(max_size=200) | st.text('0123456789-. \n\t:=\\{}[]"vertopic_id', max_size=200).map(str.encode)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ENTRY_NAMES)
@given(data=TEXTS, base_offset=st.sampled_from([0, 7, (1 << 63) - 1]))
def test_any_bytes_are_read(kind: str, data: bytes, base_offset: int) -> None:
    for item in read_items(kind, data, base_offset):
        if isinstance(item, SideFileProblem):
            assert item.code in SIDE_FILE_CODES
            assert 0 <= item.position <= item.position + item.length <= len(data)


@given(data=st.binary(max_size=100) | st.binary(max_size=50).map(lambda data: data + bytes(100)))
def test_entries_and_tail_make_up_an_index(data: bytes) -> None:
    items = list(OffsetIndex(data).items())
    tail = [item for item in problems_of(items) if item.code in ("zero-tail", "bad-size")]
    assert 8 * len(entries_of(items)) + sum(item.length for item in tail) == len(data)


@settings(deadline=None)
@given(
    offsets=st.lists(st.tuples(st.integers(0, 1400), st.integers(-1, len(LOG) + 1) | st.sampled_from([0, 1 << 30]))),
    times=st.lists(st.tuples(st.integers(-2, 1 << 42), st.integers(-5, 1400))),
    cut=st.integers(0, len(LOG)),
)
def test_any_index_against_any_log(offsets: list[tuple[int, int]], times: list[tuple[int, int]], cut: int) -> None:
    index = OffsetIndex(b"".join(struct.pack(">ii", *entry) for entry in offsets), 0)
    stamps = TimeIndex(b"".join(struct.pack(">qi", *entry) for entry in times), 0)
    log = IndexedLog(LOG[:cut], SCRATCH)
    assert all(len(check_offset_entry(entry, log)) <= 1 for entry in index.as_kafka_lists())
    assert len(list(check_time_index(stamps, index, log))) <= len(times)


@settings(deadline=None)
@given(at=st.integers(0, len(LOG) - 1), byte=st.integers(0, 255), offset=st.integers(0, 1400))
def test_a_damaged_log_is_walked(at: int, byte: int, offset: int) -> None:
    data = bytearray(LOG)
    data[at] = byte
    log = IndexedLog(bytes(data), SCRATCH)
    frame = log.frame_with(offset, 0)
    assert frame is None or frame.last_offset >= offset
    if frame:
        assert log.max_timestamp(frame) >= -1
        assert isinstance(log.first_offset(frame), int)


def test_entries_that_lead_back_and_forth_end() -> None:
    """Each lookup alone is cheap, but without a bound all of them would take hours."""
    log = IndexedLog(LOG, SCRATCH)
    log.steps_left = 500
    stamps = struct.pack(">qi", 1, 1399) + struct.pack(">qi", 1, 1187)
    checked = list(check_time_index(TimeIndex(stamps * 20_000, 0), OffsetIndex(b"", 0), log))
    assert len(checked) == 40_000
    assert log.steps_left == 0


@pytest.mark.parametrize("count", [-1, 1, 1 << 30])
def test_a_snapshot_with_too_large_a_count_is_read_to_its_end(count: int) -> None:
    data = bytearray(build_producer_snapshot([]))
    data[6:10] = struct.pack(">i", count)
    assert [item.code for item in problems_of(read_producer_snapshot(bytes(data)))] == ["crc-mismatch", "wrong-count"]
    assert [item.code for item in problems_of(read_producer_snapshot(b"\0\1"))] == ["truncated-file"]
