"""Byte sources of segments."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from kseg.stores.place import Place
from kseg.stores.source import FileBytes, open_source


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
