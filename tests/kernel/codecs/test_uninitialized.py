"""Buffers that are allocated and not written take no memory."""

import os
import sys
from pathlib import Path

import pytest

from kseg.kernel.files.system import allocate

STATUS = Path("/proc/self/statm")


@pytest.mark.skipif(not STATUS.exists(), reason="the memory of a process is read from /proc")
def test_a_large_buffer_takes_memory_where_it_is_written() -> None:
    def resident_bytes() -> int:
        return int(STATUS.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = resident_bytes()
    buffer = allocate(4 << 30).cast("I")
    buffer[5], buffer[len(buffer) - 1] = 7, 8
    assert (buffer[5], buffer[len(buffer) - 1]) == (7, 8)
    assert resident_bytes() - before < 64 << 20


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20])
def test_a_buffer_has_the_size_that_is_asked_for(size: int) -> None:
    buffer = allocate(size)
    assert len(buffer) == size
    assert not buffer.readonly
    assert sys.getsizeof(buffer) < 1000


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        allocate(-1)
