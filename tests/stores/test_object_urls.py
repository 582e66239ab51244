"""Objects at URLs, by fsspec's memory file system: listing, ranges, and no credentials in messages."""

import os
import traceback
from collections.abc import Iterator
from contextlib import closing
from unittest.mock import MagicMock

import fsspec
import pytest

from kseg.errors import KsegError, PathError
from kseg.kernel.files import system
from kseg.stores.archives.mounting import archives_at
from kseg.stores.archives.spool import Spool
from kseg.stores.object_urls import BLOCK_BYTES, ObjectSource, UrlObjects, UrlTree, directory_at
from kseg.stores.objects import objects_below
from kseg.stores.source import FileBytes
from kseg.stores.stored_object import StoredObject, is_url, shown

CONTENTS = {"a-0/1.log": b"0123456789", "a-0/1.index": b"", "a-0/deep/x": b"x", "b-0/2.log": b"22", "meta": b"m"}


@pytest.fixture
def objects() -> Iterator[UrlObjects]:
    memory = fsspec.filesystem("memory")
    for name, data in CONTENTS.items():
        memory.pipe_file(f"/bucket/{name}", data)
    yield UrlObjects("memory://bucket/")
    memory.rm("/bucket", recursive=True)


def test_all_objects_are_listed_by_name(objects: UrlObjects) -> None:
    found = [*objects_below(directory_at("memory://bucket/"))]
    assert found == [(name, len(CONTENTS[name])) for name in sorted(CONTENTS)]


def test_one_folder(objects: UrlObjects) -> None:
    files, folders = objects.folder("a-0")
    assert ([file.name for file in files], folders) == (["a-0/1.index", "a-0/1.log"], ["deep"])
    files, folders = objects.folder("")
    assert ([file.name for file in files], folders) == (["meta"], ["a-0", "b-0"])
    with pytest.raises(FileNotFoundError):
        objects.folder("nowhere")


def test_ranges_end_with_the_object(objects: UrlObjects) -> None:
    assert objects.info("a-0/1.log") == StoredObject("a-0/1.log", 10)
    assert objects.read("a-0/1.log", 3, 4) == b"3456"
    assert objects.read("a-0/1.log", 8, 100) == b"89"
    assert objects.read("a-0/1.log", 10, 1) == b""
    with pytest.raises(PathError, match="memory://bucket/no: no such object"):
        objects.read("no", 0, 1)


def test_large_ranges_take_several_requests(objects: UrlObjects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kseg.stores.object_urls.REQUEST_BYTES", 3)
    assert objects.read("a-0/1.log", 1, 8) == b"12345678"


LARGE = b"0123456789" * BLOCK_BYTES


@pytest.fixture
def large(objects: UrlObjects) -> Iterator[ObjectSource]:
    objects.write("large", LARGE)
    with closing(UrlTree(objects, Spool())) as tree, tree.source("large", "large") as source:
        yield source


def test_windows_of_an_object_hold_only_fetched_bytes(large: ObjectSource, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where mappings cannot be guarded, none is made: a truncated temporary file reads as zeros."""
    monkeypatch.setattr(system, "CAN_GUARD", False)
    for start in (BLOCK_BYTES - 50, BLOCK_BYTES):
        large.need(start, start + 20)
        assert isinstance(large.buffer, FileBytes)
        assert large.buffer[start : start + 20] == LARGE[start : start + 20]
    os.ftruncate(large._extent.descriptor, 0)
    assert large.buffer[:20] == bytes(20)


@pytest.mark.skipif(not system.CAN_GUARD, reason="only mappings have guards")
def test_an_object_is_fetched_before_it_is_copied(large: ObjectSource, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy is mapped if the table of guards is full."""
    monkeypatch.setattr(system, "guard", MagicMock(side_effect=RuntimeError("full")))
    for start in (0, 5 * BLOCK_BYTES):
        large.need(start, start + 20)
        assert bytes(large.buffer[start : start + 20]) == LARGE[start : start + 20]


def test_urls_are_told_from_paths() -> None:
    assert [is_url(place) for place in ("s3://b/c", "/b/c", "file:///b")] == [True, False, False]
    with archives_at(["nonsense://bucket"], Spool()) as (place,):
        for path in ("nonsense://bucket", place):
            with pytest.raises(KsegError, match="fsspec has no file system for nonsense:"):
                directory_at(path)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://user:secret@host/a?sig=secret", "https://host/a"),
        ("s3://bucket/a", "s3://bucket/a"),
        ("abfs://box@account.dfs.core.windows.net/a?sig=secret", "abfs://box@account.dfs.core.windows.net/a"),
        ("abfs://user:secret@account/a", "abfs://account/a"),
        ("s3://user:sec/secret@bucket/a@b", "s3://bucket/a@b"),
        ("http://host:80/a@b", "http://host:80/a@b"),
        ("http://[::1]/a@b", "http://[::1]/a@b"),
        ("/a?b", "/a?b"),
    ],
)
def test_credentials_are_not_shown(url: str, expected: str) -> None:
    assert shown(url) == expected


@pytest.mark.parametrize("url", ["http://user:sec%20ret@host/a", "http://host/a?sec%20ret", "http://sec%20ret@host/a"])
@pytest.mark.parametrize("kind", [OSError, RuntimeError])
def test_errors_do_not_repeat_credentials(url: str, kind: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")

    fail = MagicMock(
        side_effect=kind(
            f"no answer of {url}, user and key 'sec ret', 'sec%20ret', from http://x/b?X-Amz-Signature=1 given"
        )
    )
    objects = UrlObjects(url)
    monkeypatch.setattr(objects._system, "info", fail)
    with pytest.raises(PathError, match=r"no answer of .* from http://x/b given$") as caught:
        objects.info("a")
    printed = "".join(traceback.format_exception(caught.value))
    assert [word for word in ("sec ret", "sec%20ret", "Signature") if word in printed] == []


@pytest.mark.parametrize("scheme", ["s3", "s3a", "gs", "abfs"])
def test_urls_of_buckets_have_no_credentials(scheme: str) -> None:
    with pytest.raises(KsegError, match="not read from there") as caught:
        directory_at(f"{scheme}://user:secret@bucket/a")
    assert "secret" not in str(caught.value)


def test_libhdfs_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    fail = MagicMock(side_effect=OSError("Unable to load libjvm\ndlopen(/usr/lib/jvm/libjvm.so) failed"))
    monkeypatch.setattr(fsspec.core, "url_to_fs", fail)
    with pytest.raises(KsegError, match=r"^hdfs://nn:8020: needs Hadoop's libhdfs .*; webhdfs://HOST:9870/PATH needs"):
        UrlObjects("hdfs://nn:8020")
