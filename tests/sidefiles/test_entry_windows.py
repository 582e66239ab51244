"""The number of index entries in use, whatever zeros follow them, and the windows in which they are read."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kseg.sidefiles import indexes
from kseg.sidefiles.indexes import FIRST_BYTES, READ_BYTES, EntryWindows


def used_of(path: Path, width: int = 8) -> int:
    windows = EntryWindows(str(path), width)
    try:
        return windows.used
    finally:
        windows.close()


@pytest.mark.parametrize("size", [0, 7, 8, 24, FIRST_BYTES - 8, FIRST_BYTES, FIRST_BYTES + 8, 3 * READ_BYTES + 16])
@pytest.mark.parametrize("is_sparse", [True, False])
def test_zeros_at_the_end_are_not_in_use(size: int, is_sparse: bool, tmp_path: Path) -> None:
    path = tmp_path / "0.index"
    for last in {-1, 0, 9, FIRST_BYTES - 1, FIRST_BYTES, FIRST_BYTES + 3, READ_BYTES, size - 1}:
        if last >= size:
            continue
        with path.open("wb") as stream:
            if not is_sparse:
                stream.write(bytes(size))
            if last >= 0:
                stream.seek(last)
                stream.write(b"\1")
            stream.truncate(size)
        assert used_of(path) == min(last // 8 + 1, size // 8), last


def test_the_room_of_a_sparse_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "0.index"
    path.write_bytes(b"\1" * 40)
    os.truncate(path, 64 << 30)
    read = []
    monkeypatch.setattr(os, "pread", lambda fd, n, at, pread=os.pread: read.append(n) or pread(fd, n, at))
    assert used_of(path) == 5
    assert sum(read) <= FIRST_BYTES + 2 * READ_BYTES


@given(used=st.binary(max_size=400), unused=st.integers(0, 200), width=st.sampled_from([8, 12]))
@settings(deadline=None)
def test_all_entries_are_held(used: bytes, unused: int, width: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("windows") / "0.index"
    data = used + bytes(unused)
    path.write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(indexes, "FIRST_BYTES", 16)
        patch.setattr(indexes, "READ_BYTES", 48)
        patch.setattr(indexes, "_ZEROS", bytes(48))
        windows = EntryWindows(str(path), width)
        read = b""
        while len(read) < windows.used * width:
            window = windows.window(len(read) // width)
            read += window[: len(window) // width * width]
        windows.close()
    whole = len(data) // width
    in_use = -(-len(data.rstrip(b"\0")) // width)
    is_first_of_all = width == 12 and whole == 1 and in_use == 0
    assert windows.used == (1 if is_first_of_all else min(in_use, whole))
    assert read[: windows.used * width] == data[: windows.used * width]


def test_a_file_that_shrinks_has_no_more_entries(tmp_path: Path) -> None:
    path = tmp_path / "0.index"
    path.write_bytes(b"\1" * (4 * FIRST_BYTES))
    windows = EntryWindows(str(path), 8)
    os.truncate(path, 8)
    assert windows.used == FIRST_BYTES // 2
    assert windows.window(100) == b""
    windows.close()


@pytest.mark.parametrize("what", ["directory", "pipe", "nothing"])
def test_anything_but_a_regular_file_raises(what: str, tmp_path: Path) -> None:
    path = tmp_path / "0.index"
    if what == "directory":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    with pytest.raises(OSError):
        EntryWindows(str(path), 8)
    assert (len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0) == before
