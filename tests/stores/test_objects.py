"""Objects below a local directory, by their names."""

from pathlib import Path

import pytest

from kseg.errors import PathError
from kseg.stores.object_urls import directory_at
from kseg.stores.objects import objects_below


@pytest.fixture
def store(tmp_path: Path) -> Path:
    for name, content in {"b/1": b"one", "b/sub/2": b"two22", "b.x": b"", "a/z": b"last"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    return tmp_path


def test_all_objects_but_links_are_listed_by_name(store: Path) -> None:
    (store / "loop").symlink_to(store / "a")
    (store / "z").symlink_to(store / "a/z")
    found = directory_at(str(store))
    assert [*objects_below(found)] == [("a/z", 4), ("b.x", 0), ("b/1", 3), ("b/sub/2", 5)]
    with pytest.raises(OSError, match="link"):
        (found / "z").read_range(0, 1)


@pytest.mark.parametrize(("start", "length", "expected"), [(0, 5, b"two22"), (3, 1, b"2"), (3, 9, b"22"), (9, 1, b"")])
def test_ranges_are_read(store: Path, start: int, length: int, expected: bytes) -> None:
    assert (directory_at(str(store)) / "b/sub/2").read_range(start, length) == expected


def test_what_is_missing_is_named(store: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"No such file or directory: '.*/b/9'"):
        (directory_at(str(store)) / "b/9").read_range(0, 1)
    with pytest.raises(PathError, match="no such directory"):
        directory_at(str(store / "b/1"))
