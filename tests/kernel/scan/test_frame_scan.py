"""Frames whose records are walked in the same pass, a bounded scan, and passes in windows of a reused buffer."""

import gzip
import os
import tempfile
from pathlib import Path

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kernel.rendering import batch as framed
from kernel.rendering import int64s, message, record
from kseg import kernel
from kseg.formats.compression import expansion_buffer
from kseg.kernel.layout.rows import CRC_RIGHT, DONE, FRAME_STATE, FRAME_WIDTH, FULL, NULL_KEYS, RECORDS_RIGHT
from kseg.kernel.scan import frames
from kseg.kernel.scan.frames import LONG_RUNS, WALK_RECORDS, FrameScan
from kseg.segment.reader import SegmentReader
from kseg.stores.extent import Extent
from kseg.stores.source import open_source
from kseg.stores.windows import LARGEST_WINDOW_BYTES, WINDOW_BYTES, Windows

RIGHT = CRC_RIGHT | RECORDS_RIGHT
GZIP, LZ4, ZSTD = 1, 3, 4
TIMESTAMP_MS = 1000


def batch(records, **fields):
    """A v2 batch whose header tells the largest timestamp that `records` have."""
    return framed(records, base_timestamp=TIMESTAMP_MS, **{"max_timestamp": TIMESTAMP_MS} | fields)


def walked_in(data, rows, count):
    """The records of the frames that were walked and found right."""
    right = [rows[i] for i in range(0, count * FRAME_WIDTH, FRAME_WIDTH) if rows[i + FRAME_STATE] & RECORDS_RIGHT]
    return sum(int.from_bytes(data[at + 57 : at + 61], "big") if data[at + 16] == 2 else 1 for at in right)


def scanned(data, options=WALK_RECORDS, budget=0, expansion=None):
    """(status, states of the frames, records walked, position reached)."""
    rows, scan = int64s(64 * FRAME_WIDTH), FrameScan(options=options)
    scan.budget = budget
    status = frames.scan(scan, data, len(data), rows, expansion)
    states = [rows[i * FRAME_WIDTH + FRAME_STATE] for i in range(scan.count)]
    return status, states, walked_in(data, rows, scan.count), scan.position


def records(count, start=0, size=10, key=b"k", first_timestamp_delta=0):
    return [
        record(start + k, timestamp_delta=0 if k else first_timestamp_delta, key=key, value=b"v" * size)
        for k in range(count)
    ]


def compressed(found, codec, **header):
    """The same batch with its records compressed."""
    pack = {
        GZIP: gzip.compress,
        LZ4: lambda data: lz4.frame.compress(data, block_linked=False),
        ZSTD: zstandard.ZstdCompressor().compress,
    }[codec]
    fields = {"attributes": codec, "count": len(found), "last_delta": len(found) - 1}
    return batch([pack(b"".join(found))], **{**fields, **header})


@pytest.mark.parametrize(
    "frame, walked",
    [
        (batch(records(5)), 5),
        (batch([]), 0),
        (message(0, 0, b"key", b"value"), 1),
        (message(0, 1, b"", b"value"), 1),
        (batch(records(2, first_timestamp_delta=-7)), 2),
    ],
    ids=["v2", "empty", "v0", "v1", "falling timestamps"],
)
def test_frames_with_nothing_wrong_are_told_so(frame, walked):
    assert scanned(frame) == (DONE, [RIGHT], walked, len(frame))


@pytest.mark.parametrize(
    "frame",
    [
        batch([*records(3), record(3, value=b"v")]),
        batch(records(3, key=None)),
        message(0, 0, None, b"value"),
        message(0, 1, None, b"value"),
    ],
    ids=["one of v2", "all of v2", "v0", "v1"],
)
def test_records_without_a_key_are_told(frame):
    assert scanned(frame)[1] == [RIGHT | NULL_KEYS]


WRONG = {
    "rubbish": batch([*records(2), b"\x20rubbish"], count=3),
    "not rising": batch(records(2) + records(1)),
    "out of range": batch([record(0), record(7)]),
    "too many": batch(records(3), count=3, last_delta=1),
    "bytes left": batch(records(2), count=1),
    "negative": batch(records(2), count=-1),
    "max timestamp above": batch(records(3), max_timestamp=TIMESTAMP_MS + 1),
    "max timestamp below": batch(records(3, first_timestamp_delta=1)),
    "record attributes": batch([records(1)[0][:1] + b"\x01" + records(1)[0][2:]]),
}


@pytest.mark.parametrize("name", WRONG)
def test_frames_with_something_wrong_are_left(name):
    frame = WRONG[name]
    assert scanned(frame) == (DONE, [CRC_RIGHT], 0, len(frame))


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_compressed_frames_are_left_if_the_buffer_is_too_small(codec):
    assert scanned(compressed(records(3), codec))[1:3] == ([CRC_RIGHT], 0)


@pytest.mark.parametrize("codec", [LZ4, ZSTD])
@pytest.mark.parametrize("size", [10, 3_000_000], ids=["small", "more than the first buffer"])
def test_compressed_frames_are_walked_if_the_buffer_suffices(codec, size):
    data = batch(records(1)) + compressed(records(3, size=size), codec) * 2 + batch(records(2))
    shared = expansion_buffer(64 << 20)
    if kernel.COMPILED:
        assert scanned(data, expansion=shared) == (DONE, [RIGHT] * 4, 9, len(data))
    else:
        assert scanned(data, expansion=shared)[1] == [RIGHT, CRC_RIGHT, CRC_RIGHT, RIGHT]


def test_a_compressed_frame_without_keys_is_told_so():
    found = scanned(compressed([record(0, value=b"v")], LZ4), expansion=expansion_buffer(1 << 20))
    assert found[1] == [RIGHT | NULL_KEYS if kernel.COMPILED else CRC_RIGHT]


@pytest.mark.parametrize("codec", [LZ4, ZSTD])
def test_what_expands_beyond_the_ceiling_is_left_and_the_walk_goes_on(codec):
    large, small = compressed(records(3, size=400_000), codec), compressed(records(3), codec)
    data = small + large + small + large
    shared = expansion_buffer(1 << 20)
    assert scanned(data, expansion=shared)[:2] == (
        DONE,
        [RIGHT, CRC_RIGHT] * 2 if kernel.COMPILED else [CRC_RIGHT] * 4,
    )


@pytest.mark.parametrize("codec", [LZ4, ZSTD])
@pytest.mark.parametrize(
    "header",
    [{"count": 2}, {"count": 4, "last_delta": 3}, {"count": -1}, {"last_delta": 1}, {"max_timestamp": 7}],
    ids=str,
)
def test_compressed_frames_with_something_wrong_are_left(codec, header):
    shared = expansion_buffer(1 << 20)
    assert scanned(compressed(records(3), codec, **header), expansion=shared)[1:3] == ([CRC_RIGHT], 0)


@pytest.mark.parametrize("codec", [LZ4, ZSTD, 5, 7])
def test_an_area_that_is_no_stream_is_left(codec):
    for area in (b"", b"x", b"rubbish" * 40):
        frame = batch([area], attributes=codec, count=1)
        assert scanned(frame, expansion=expansion_buffer(1 << 20))[1] == [CRC_RIGHT]


def test_records_are_walked_only_on_request():
    assert scanned(batch(records(5)), options=0)[1:3] == ([CRC_RIGHT], 0)


def test_a_budget_ends_a_scan_between_frames():
    one = batch(records(1))
    assert scanned(one * 5, budget=1) == (FULL, [RIGHT], 1, len(one))
    assert scanned(one * 5, budget=len(one) + 1) == (FULL, [RIGHT] * 2, 2, 2 * len(one))
    assert scanned(one * 5, budget=5 * len(one)) == (DONE, [RIGHT] * 5, 5, 5 * len(one))


def test_compressed_bytes_weigh_more():
    one = batch(records(1), attributes=3)
    assert scanned(one * 9, budget=len(one) + 1)[3] == len(one)
    twice = LONG_RUNS | WALK_RECORDS
    assert scanned(one * 9, twice, budget=len(one) + 1)[3] == len(one)
    assert scanned(one * 9, twice, budget=2 * len(one) + 1)[3] == 2 * len(one)


def passed(path, end=None):
    """(windows seen, frames, records, position) of a pass over a file."""
    extent = Extent(os.open(path, os.O_RDONLY))
    try:
        windows = Windows(extent, 0, extent.current_size() if end is None else end)
        counts = [(count, walked_in(window, rows, count)) for window, rows, count, _ in windows]
    finally:
        extent.close()
    frames_seen, walked = (sum(count[at] for count in counts) for at in (0, 1))
    return len(counts), frames_seen, walked, windows.position


def test_a_pass_finds_what_the_reader_finds(testdata):
    compared = 0
    for path in sorted(testdata.glob("kafka-*/*/*/*.log")) + sorted(testdata.glob("speed/*.log")):
        with open_source(str(path)) as source:
            found = [item for item in SegmentReader(source).runs() if source.size]
            intact = all(hasattr(item, "rows") and item.rows[FRAME_STATE] for item in found)
            count = sum(getattr(item, "count", 0) for item in found)
            if intact and found:
                _, frames_seen, _, position = passed(path)
                assert (frames_seen, position) == (count, source.size)
                compared += 1
    assert compared > 20


def test_frames_that_lie_across_windows_are_seen_once(tmp_path):
    path = tmp_path / "many.log"
    one = batch(records(40, size=1000))
    path.write_bytes(one * 60)
    seen, count, walked, position = passed(path)
    assert seen > 2
    assert (count, walked, position) == (60, 2400, 60 * len(one))


def test_a_frame_larger_than_a_window_is_seen(tmp_path):
    path = tmp_path / "large.log"
    large, small = batch(records(1, size=3 * WINDOW_BYTES)), batch(records(2))
    path.write_bytes(small + large + small)
    assert passed(path)[1:] == (3, 5, len(large) + 2 * len(small))


def bytes_read():
    """By this process so far."""
    return int(Path("/proc/self/io").read_text().split()[1])


@pytest.mark.skipif(not os.path.exists("/proc/self/io"), reason="counts what Linux says was read")
@pytest.mark.parametrize("share", [0.01, 0.3, 0.6, 0.9])
def test_no_byte_is_read_twice(tmp_path, share):
    path = tmp_path / "many.log"
    path.write_bytes(batch(records(1, size=int(WINDOW_BYTES * share))) * int(20 / share))
    size, before = path.stat().st_size, bytes_read()
    assert passed(path)[3] == size
    assert size <= bytes_read() - before < size + 10_000


@given(st.lists(st.integers(0, 900), min_size=1, max_size=30), st.integers(100, 1500), st.data())
def test_windows_of_any_size_find_the_same(sizes, window_bytes, data):
    content = bytearray(b"".join(batch(records(1 + size % 3, size=size)) for size in sizes))
    if data.draw(st.booleans()):
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with tempfile.NamedTemporaryFile() as file, pytest.MonkeyPatch.context() as patch:
        file.write(content)
        file.flush()
        at_once = passed(file.name)
        patch.setattr("kseg.stores.windows.WINDOW_BYTES", window_bytes)
        assert passed(file.name)[1:] == at_once[1:]


def test_a_pass_ends_before_what_is_not_intact(tmp_path):
    path = tmp_path / "damaged.log"
    good = batch(records(3))
    path.write_bytes(good * 2 + good[:-1] + b"\xff" + good)
    assert passed(path)[1:] == (2, 6, 2 * len(good))


def test_a_length_that_claims_much_makes_no_large_window(tmp_path):
    path = tmp_path / "claim.log"
    good = batch(records(3))
    with path.open("wb") as file:
        file.write(good + bytes(8) + (LARGEST_WINDOW_BYTES + 1).to_bytes(4, "big") + bytes(4) + b"\x02")
        file.truncate(4 * LARGEST_WINDOW_BYTES)
    extent = Extent(os.open(path, os.O_RDONLY))
    windows = Windows(extent, 0, 4 * LARGEST_WINDOW_BYTES)
    assert [count for _, _, count, _ in windows] == [1]
    extent.close()
    assert windows.position == len(good)
    assert len(windows._buffer) == WINDOW_BYTES
