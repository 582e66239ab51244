"""A store of local files: names, sizes, ranges of bytes."""

import os
from pathlib import Path

import pytest

from kseg.errors import PathError
from kseg.stores.object_urls import open_objects
from kseg.stores.objects import LocalObjects
from kseg.stores.stored_object import StoredObject


@pytest.fixture
def store(tmp_path: Path) -> LocalObjects:
    for name, content in {"b/1": b"one", "b/sub/2": b"two22", "b.x": b"", "a/z": b"last"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    return LocalObjects(str(tmp_path))


def test_all_objects_are_listed_by_name(store: LocalObjects) -> None:
    expected = [("a/z", 4), ("b.x", 0), ("b/1", 3), ("b/sub/2", 5)]
    assert list(store.list()) == [StoredObject(*found) for found in expected]


def test_links_are_not_listed(store: LocalObjects, tmp_path: Path) -> None:
    os.symlink(tmp_path / "a", tmp_path / "loop")
    os.symlink(tmp_path / "a/z", tmp_path / "z")
    assert len(list(store.list())) == 4
    with pytest.raises(PathError, match="link"):
        store.read("z", 0, 1)


@pytest.mark.parametrize(("start", "length", "expected"), [(0, 5, b"two22"), (3, 1, b"2"), (3, 9, b"22"), (9, 1, b"")])
def test_ranges_are_read(store: LocalObjects, start: int, length: int, expected: bytes) -> None:
    assert store.read("b/sub/2", start, length) == expected


def test_what_is_missing_is_named(store: LocalObjects) -> None:
    with pytest.raises(PathError, match="No such file"):
        store.read("b/9", 0, 1)
    with pytest.raises(PathError, match="no such directory"):
        open_objects(store.path("b/1"))
