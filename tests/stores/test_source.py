"""Byte sources of segments."""

import gzip
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest

import kseg
from kseg.stores.place import Place
from kseg.stores.source import FileBytes, open_source
from segment.segments import TESTDATA


def test_a_source_may_be_closed_while_its_bytes_are_looked_at(tmp_path: Path) -> None:
    """As the frames of a raised exception hold them."""
    path = tmp_path / "0.log"
    path.write_bytes(b"k" * 100)
    with open_source(str(path)) as source:
        view = source.buffer[10:20]
    assert bytes(view) == b"k" * 10
    del view
    with open_source(str(path)) as source:
        assert len(source.buffer) == 100


@pytest.mark.parametrize("start", [0, 1000, 5000])
def test_bytes_around_a_bad_sector_are_read(start: int, tmp_path: Path, fail_disk: Callable[..., None]) -> None:
    path = tmp_path / "0.log"
    data = bytes(range(1, 255)) * 100
    path.write_bytes(data)
    fail_disk(path, 4096, 8192)
    expected = data[:4096] + bytes(4096) + data[8192:]
    with closing(Place(str(path)).open_extent()) as extent:
        found = FileBytes(extent, len(data))
        assert found[start : start + 12_000] == expected[start : start + 12_000]
        assert found.has_failed
        assert found[20_000:] == data[20_000:]


@contextmanager
def slowly_written(data: bytes, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Standard input is a pipe that does not block, into which the bytes are written late and in two pieces."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)

    def write() -> None:
        with open(writing, "wb", buffering=0) as pipe:
            for piece in (data[: len(data) // 6], data[len(data) // 6 :]):
                time.sleep(0.1)
                pipe.write(piece)

    writer = Thread(target=write)
    with open(reading, "rb") as stream:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream))
        writer.start()
        try:
            yield
        finally:
            writer.join()


@pytest.mark.parametrize("packed", [bytes, gzip.compress])
def test_a_nonblocking_standard_input(packed: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not yet written is waited for, from the first byte on."""
    path = TESTDATA / "kafka-4.3.1/codecs/codec-mix-0/00000000000000000000.log"
    log = path.read_bytes()[:30_000]
    list(kseg.open(path))  # imports, for which the writer does not wait
    with slowly_written(packed(log), monkeypatch):
        items = list(kseg.open("-"))
    assert b"".join(log[item.position : item.end] for item in items) == log
    assert all(item.is_valid for item in items[:-1])
