"""A place is its path, and knows where its bytes are: it keeps its tree on the way to a file, a parent or a process."""

import gzip
import io
import os
import pickle
import tarfile
import tracemalloc
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from kseg.stores.archives.mounting import archives_at
from kseg.stores.archives.spool import Spool, SpoolFullError
from kseg.stores.place import Place
from kseg.stores.trees import VirtualFiles, VirtualSideFile


def archive(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def test_a_place_is_its_path() -> None:
    place = Place("logs") / "orders-0"
    assert (place, hash(place), f"{place}") == ("logs/orders-0", hash("logs/orders-0"), "logs/orders-0")
    assert Place(place) is place
    assert sorted([place, "logs/a-0"]) == ["logs/a-0", place]
    assert (Place("a").parent, Place("/a").parent, place.parent) == ("", "/", "logs")
    assert place / "/elsewhere" == "/elsewhere"


def test_a_name_in_an_archive_keeps_its_tree(tmp_path: Path) -> None:
    path = archive(tmp_path / "logs.tar", {"logs/a-0/0.log": b"log", "logs/a-0/0.index": b"index"})
    with archives_at([f"{path}/logs"], Spool()) as (place,):
        log = place / "a-0" / "0.log"
        assert log == f"{path}/logs/a-0/0.log"
        assert (log.is_file(), log.size(), log.read(9)) == (True, 3, b"log")
        assert log.with_ending(".log", ".index").read(9) == b"index"
        assert sorted(log.parent.names()) == ["0.index", "0.log"]
        assert (log.parent / ".." / "." / "a-0").is_dir()
        assert (log.parent.parent.parent.inner, log.parent.parent.parent.parent.tree) == ("", None)


_MANY = bytes(range(256)) * (16 << 10)


@pytest.mark.parametrize(("mine", "theirs", "is_same"), [
    (b"", b"", True), (b"a", b"b", False), (b"a", b"ab", False), (b"a", None, False), (_MANY, _MANY, True),
    (_MANY, _MANY[:-1] + b"x", False), (_MANY[: 1 << 20], _MANY[: 1 << 20], True),
], ids=["empty", "other", "shorter", "only one", "many bytes", "last byte", "one piece"])  # fmt: skip
def test_bytes_of_files_are_compared_in_pieces(
    tmp_path: Path, mine: bytes, theirs: bytes | None, is_same: bool
) -> None:
    one, other = Place(tmp_path / "one"), Place(tmp_path / "other")
    for path, content in ((one, mine), (other, theirs)):
        if content is not None:
            Path(path).write_bytes(content)
    tracemalloc.start()
    assert one.has_bytes_of(other) is is_same
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 << 20


def test_a_place_in_an_archive_passes_between_processes(tmp_path: Path) -> None:
    path = archive(tmp_path / "logs.tar", {"a-0/0.log": b"log"})
    with archives_at([str(path)], Spool()) as (place,):
        receiver, sender = get_context("fork").Pipe(duplex=False)
        process = get_context("fork").Process(target=lambda: sender.send(place / "a-0" / "0.log"))
        process.start()
        received = receiver.recv()
        process.join()
        assert received.read(9) == b"log"
        sent = pickle.dumps(place)
    assert pickle.loads(sent) == place
    assert pickle.loads(pickle.dumps(Place("a", is_named=True))).is_named


def test_what_cannot_be_opened_tells_so_by_its_place(tmp_path: Path) -> None:
    path = tmp_path / "0.log.gz"
    path.write_bytes(gzip.compress(bytes(1000)))
    with archives_at([str(path), str(tmp_path)], Spool(max_bytes=10)) as (packed, directory):
        directory.check()
        assert not packed.is_dir()
        with pytest.raises(SpoolFullError):
            packed.check()


def test_files_of_other_trees_are_in_one_directory() -> None:
    log = Place("/store/0.log", VirtualFiles({"0.index": VirtualSideFile(lambda: b"index")}), "0.log")
    assert not log.exists()
    assert log.parent.names() == ["0.index"]
    assert log.with_ending(".log", ".index").read(9) == b"index"


def test_what_a_command_only_reads_is_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a-0").mkdir()
    (tmp_path / "a-0" / "0.log").write_bytes(b"log")
    (tmp_path / "b-0").symlink_to("a-0")
    (tmp_path / "c-0").symlink_to("c-0")
    listed, real = [], os.scandir

    def scandir(at: int) -> Any:
        listed.append(os.readlink(f"/proc/self/fd/{at}") if isinstance(at, int) else at)
        return real(at)

    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(os, "supports_fd", {*os.supports_fd, scandir})
    with archives_at([str(tmp_path)], Spool()) as (root,):
        for _ in range(2):
            assert sorted(root.names()) == ["a-0", "b-0", "c-0"]
            assert [(root / name).is_dir() for name in ("a-0", "b-0", "c-0")] == [True, True, False]
            assert [(root / name).is_link() for name in ("a-0", "b-0", "c-0")] == [False, True, True]
            assert len((root / "a-0").parent.names()) == 3
            assert (root / "a-0").names() == ["0.log"]
            assert ((root / "a-0" / "0.log").is_file(), (root / "a-0").is_file()) == (True, False)
        assert listed == [str(tmp_path), str(tmp_path / "a-0")]
        (tmp_path / "a-0" / "0.log").write_bytes(b"longer")
        assert (root / "a-0" / "0.log").size() == 6
        (tmp_path / "a-0").rename(tmp_path / "old")
        (tmp_path / "a-0").symlink_to("/")
        assert (root / "a-0" / "0.log").read(10) == b"longer", "a link in the path leads elsewhere"
        (tmp_path / "d-0").mkdir()
        assert (root / "d-0").is_dir()
    assert sorted(root.names()) == ["a-0", "b-0", "c-0", "d-0", "old"], "what was seen holds after the command"


def test_a_directory_in_use_is_listed_anew(tmp_path: Path) -> None:
    with archives_at([str(tmp_path)], Spool(), is_live=True) as (root,):
        assert root.names() == []
        (tmp_path / "a-0").mkdir()
        assert root.names() == ["a-0"]
