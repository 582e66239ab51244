"""No component of an opened path is a link, by each of the methods that systems offer."""

import errno
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from kseg.stores import no_follow


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path.resolve() / "a" / "b"
    directory.mkdir(parents=True)
    (directory / "file").write_bytes(b"bytes")
    (tmp_path / "link").symlink_to(directory.parent)
    opened = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    yield tmp_path.resolve()
    if opened:
        assert len(os.listdir("/proc/self/fd")) == opened


def test_a_link_in_any_part_is_refused(root: Path) -> None:
    assert no_follow.read_file(str(root / "a/b/file"), 5)[0] == b"bytes"
    assert no_follow.names_in(str(root / "a/b")) == ["file"]
    assert no_follow.is_directory(str(root / "a/b"))
    (root / "a/b/alias").symlink_to("file")
    for path in (root / "link/b/file", root / "a/b/alias"):
        with pytest.raises(OSError, match="is a symbolic link, which kseg does not follow here") as found:
            no_follow.open_file(str(path))
        assert found.value.errno == errno.ELOOP
    for path in (root / "link", root / "link/b"):
        with pytest.raises(OSError, match="is a symbolic link"):
            no_follow.names_in(str(path))
        assert not no_follow.is_directory(str(path))
    with pytest.raises(OSError, match="is a symbolic link"):
        no_follow.create_file(str(root / "link/new"))
    assert sorted(path.name for path in (root / "a").iterdir()) == ["b"]


def test_what_is_missing_or_no_file(root: Path) -> None:
    os.mkfifo(root / "fifo")
    for name in ("fifo", "a"):
        with pytest.raises(OSError, match="is no regular file"):
            no_follow.open_file(str(root / name))
    for name in ("none", "a/none/file", "a/b/file/more"):
        with pytest.raises((FileNotFoundError, NotADirectoryError)) as found:
            no_follow.status_of(str(root / name))
        assert str(root) in str(found.value)
    with pytest.raises(FileExistsError):
        no_follow.create_file(str(root / "a/b/file"))
    with pytest.raises(OSError, match="has more than 4 bytes"):
        no_follow.read_file(str(root / "a/b/file"), 4)


def test_a_file_that_becomes_another_while_it_is_opened(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fixture looks for descriptors that stay open."""
    os.mkfifo(root / "fifo")
    of_a_file = os.stat(root / "a/b/file")
    monkeypatch.setattr(os, "stat", lambda *_, **__: of_a_file)
    with pytest.raises(OSError, match="is no regular file"):
        no_follow.open_file(str(root / "fifo"))
    monkeypatch.undo()


def test_directories_in_use_stay_open_though_there_are_more_than_are_held(root: Path) -> None:
    places = [root / "/".join("d" * 50) / str(number) for number in range(60)]
    places.append(root / "/".join("e" * 80))
    for place in places:
        place.mkdir(parents=True)
    with no_follow.directories_held():
        for one, two in pairwise(places):
            with (
                no_follow.parent_of(str(one / "file")) as (first, _),
                no_follow.parent_of(str(two / "file")) as (second, _),
            ):
                assert [os.fstat(at).st_ino for at in (first, second)] == [one.stat().st_ino, two.stat().st_ino]


def test_a_relative_path_begins_at_the_working_directory(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    with no_follow.directories_held():
        assert no_follow.directory_status("a/b").st_ino == (root / "a/b").stat().st_ino


def test_slashes_between_parts_are_one(root: Path) -> None:
    (root / "a/b/file").touch()
    with no_follow.directories_held(), no_follow.parent_of(f"{root}//a///b//file") as (at, name):
        assert (os.fstat(at).st_ino, name) == ((root / "a/b").stat().st_ino, "file")


def test_only_links_change_a_path(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root / "a")
    assert [no_follow.resolved(path) for path in ("b", "./b/", "../a/b")] == ["b", "./b/", "../a/b"]
    assert no_follow.resolved(str(root / "link/b")) == str(root / "a/b")
    assert no_follow.resolved("../link/b") == str(root / "a/b")
