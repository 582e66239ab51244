"""Stretches of a file: headers told over many windows are those of the frames of each window."""

import errno
import gzip
import os
import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.rendering import batch, int64s, message, record
from kseg.kernel.layout.rows import (
    BATCH_POSITION,
    BATCH_SIZE,
    BATCH_STATE,
    BATCH_WIDTH,
    DONE,
    FRAME_STATE,
    FRAME_WIDTH,
    RECORDS_RIGHT,
)
from kseg.kernel.scan import headers
from kseg.kernel.scan.frames import WindowedScan
from kseg.stores.extent import Extent
from kseg.stores.windows import Windows


def records(count, size):
    return [record(k, value=b"v" * size) for k in range(count)]


def zipped(found):
    return batch([gzip.compress(b"".join(found))], attributes=1, count=len(found), last_delta=len(found) - 1)


def opened(content):
    file = tempfile.TemporaryFile()
    file.write(content)
    file.flush()
    return file


def told(descriptor, size, walk, own):
    """(headers of all batches as lists, positions of those to be opened, where the pass ends)."""
    windows, found, unproven = Windows(Extent(descriptor), 0, size, walk), [], []
    taken = []

    def take(count):
        taken.append(int64s(count + 5))
        return taken[-1]

    for rows, count, last in windows.headers(None if own else take):
        assert len(rows) == count * BATCH_WIDTH
        found += [rows[at : at + BATCH_WIDTH].tolist() for at in range(0, len(rows), BATCH_WIDTH)]
        if last is not None:
            window, frame_rows, frame_count, origin = last
            states = [frame_rows[i * FRAME_WIDTH + FRAME_STATE] for i in range(frame_count)]
            assert states == [row[BATCH_STATE] for row in found[-frame_count:]]
            assert not all(state & RECORDS_RIGHT for state in states)
            for i in range(frame_count):
                position, length = frame_rows[i * FRAME_WIDTH], frame_rows[i * FRAME_WIDTH + 1]
                row = found[i - frame_count]
                assert (origin + position, length) == (row[BATCH_POSITION], row[BATCH_SIZE])
                assert bytes(window[position : position + length]) == os.pread(descriptor, length, row[BATCH_POSITION])
                if not states[i] & RECORDS_RIGHT:
                    unproven.append(row[BATCH_POSITION])
    return found, unproven, windows.position


def expected(descriptor, size, walk):
    windows, found = Windows(Extent(descriptor), 0, size, walk), []
    for window, frame_rows, count, origin in windows:
        rows = int64s(count * BATCH_WIDTH)
        headers.read(window, frame_rows, count, False, origin, rows)
        found += [rows[at : at + BATCH_WIDTH].tolist() for at in range(0, len(rows), BATCH_WIDTH)]
    return found, windows.position


@given(
    st.lists(st.tuples(st.sampled_from("pzm"), st.integers(0, 400)), min_size=1, max_size=40),
    st.integers(100, 1500),
    st.integers(1, 3000),
    st.integers(1, 9),
    st.booleans(),
    st.booleans(),
    st.data(),
)
def test_headers_are_those_of_the_windows(entries, window_bytes, stretch_bytes, per_call, walk, own, data):
    kinds = {"p": lambda n: batch(records(1 + n % 3, n)), "z": lambda n: zipped(records(1 + n % 3, n))}
    kinds["m"] = lambda n: message(n, n % 2, b"k", b"v" * n)
    content = bytearray(b"".join(kinds[kind](size) for kind, size in entries))
    if data.draw(st.booleans()):
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    size = data.draw(st.sampled_from([len(content), len(content) - 1, len(content) + 10]))
    with opened(content) as file, pytest.MonkeyPatch.context() as patch:
        rows, position = expected(file.fileno(), size, walk)
        patch.setattr("kseg.stores.windows.WINDOW_BYTES", window_bytes)
        patch.setattr("kseg.stores.windows.STRETCH_BYTES", stretch_bytes)
        patch.setattr("kseg.stores.windows.BATCHES_PER_CALL", per_call)
        found, unproven, reached = told(file.fileno(), size, walk, own)
    assert (found, reached) == (rows, position)
    left = [row[BATCH_POSITION] for row in rows if not row[BATCH_STATE] & RECORDS_RIGHT]
    assert unproven == (left if walk else [])


def test_a_call_ends_after_a_stretch_whatever_is_in_it():
    one = batch(records(1, 1000))
    with opened(one * 50) as file, pytest.MonkeyPatch.context() as patch:
        patch.setattr("kseg.stores.windows.WINDOW_BYTES", 4000)
        patch.setattr("kseg.stores.windows.STRETCH_BYTES", 10_000)
        counts = [count for _, count, _ in Windows(Extent(file.fileno()), 0, 50 * len(one)).headers()]
    assert sum(counts) == 50
    assert max(counts) <= 14


def follow(scan):
    return scan.follow(100, bytearray(100), int64s(FRAME_WIDTH), int64s(0))


def test_an_error_of_the_system_is_raised():
    with opened(b"") as file:
        assert follow(WindowedScan(file.fileno(), 0, 100, 0)) == DONE
        descriptor = file.fileno()
    with pytest.raises(OSError) as raised:
        follow(WindowedScan(descriptor, 0, 100, 0))
    assert raised.value.errno == errno.EBADF
