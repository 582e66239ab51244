"""Segments at URLs: the same rows as from local files, with pyarrow's file systems and with fsspec."""

import errno
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from kseg.errors import KsegError, PathError, UnsupportedError
from kseg.spark.source import KsegDataSource, offset_of
from kseg.stores.arrow_files import ArrowFiles, open_arrow
from kseg.stores.object_urls import UrlObjects
from spark.reading import rows_of

TESTDATA = Path(__file__).resolve().parent.parent.parent / "testdata"
CLIENTS = TESTDATA / "kafka-4.3.1/clients"
TRANSACTIONS = CLIENTS / "librdkafka-txn-0"
pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def store() -> str:
    """Partitions in fsspec's memory file system."""
    memory = fsspec.filesystem("memory")
    for partition in CLIENTS.glob("librdkafka-*-0"):
        memory.put(str(partition), f"/archive/{partition.name}", recursive=True)
    memory.pipe_file("/archive/meta.properties", b"version=1\n")
    return "memory://archive"


@pytest.mark.parametrize("mode", ["records", "batches"])
@pytest.mark.parametrize("inside", ["", "/librdkafka-gzip-0", "/librdkafka-*-0", "/librdkafka-gzip-0/*.log"])
def test_rows_are_those_of_the_files(store: str, inside: str, mode: str) -> None:
    found = rows_of(store + inside, mode=mode)
    expected = rows_of(*(f"{CLIENTS}/{inside}".rstrip("/") if inside else f"{CLIENTS}/librdkafka-*-0",), mode=mode)
    assert found
    for row in (*found, *expected):
        row.pop("file", None)
    assert found == expected


@pytest.mark.parametrize("mode", ["findings", "entries"])
def test_findings_and_entries_are_those_of_the_files(store: str, mode: str) -> None:
    for inside in ("", "/librdkafka-txn-0", "/librdkafka-*-0"):
        found = rows_of(store + inside, mode=mode, now="2000000000000")
        expected = rows_of(f"{CLIENTS}{inside or '/librdkafka-*-0'}", mode=mode, now="2000000000000")
        for row in (*found, *expected):
            row["file"] = row["file"].rpartition("/")[2]
            row.pop("repair", None)
        assert [row for row in found if row["topic"]] == [row for row in expected if row["topic"]]
        assert found or mode == "findings"


def test_damage_in_a_store_is_found(store: str) -> None:
    memory = fsspec.filesystem("memory")
    (log,) = sorted((CLIENTS / "librdkafka-gzip-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[40] ^= 1
    memory.pipe_file(f"/damaged/librdkafka-gzip-0/{log.name}", bytes(data))
    found = rows_of("memory://damaged/librdkafka-gzip-0", mode="findings")
    assert "crc-mismatch" in {row["code"] for row in found if row["severity"] == "error"}


def test_a_stream_reads_a_store(store: str) -> None:
    source = KsegDataSource({"path": "memory://stream/orders-0"})
    memory = fsspec.filesystem("memory")
    (log,) = sorted((CLIENTS / "librdkafka-gzip-0").glob("*.log"))
    memory.pipe_file(f"/stream/orders-0/{log.name}", log.read_bytes())
    memory.pipe_file(f"/stream/orders-0/{1000:020}.log", b"")
    reader = source.streamReader(source.schema())
    start = reader.initialOffset()
    end = offset_of(reader.closed())
    rows = [row for task in reader.partitions(start, end) for batch in reader.read(task) for row in batch.to_pylist()]
    assert [row["offset"] for row in rows] == [row["offset"] for row in rows_of(log)]
    assert list(end["partitions"]) == ["memory://stream/orders-0"]


def test_one_file_and_what_is_committed(store: str) -> None:
    (segment, *_) = sorted(TRANSACTIONS.glob("*.log"))
    assert rows_of(f"{store}/{TRANSACTIONS.name}/{segment.name}") == rows_of(segment)
    found = rows_of(f"{store}/{TRANSACTIONS.name}", isolation="read_committed")
    assert found == rows_of(TRANSACTIONS, isolation="read_committed")
    assert len(found) < len(rows_of(TRANSACTIONS))


def test_ranges_and_local_paths_beside_urls(store: str) -> None:
    found = rows_of(CLIENTS / "librdkafka-lz4-0", f"{store}/librdkafka-gzip-0", startOffset="3", endOffset="4")
    assert [(row["topic"], row["offset"]) for row in found] == [
        ("librdkafka-lz4", 3), ("librdkafka-lz4", 4), ("librdkafka-gzip", 3), ("librdkafka-gzip", 4),
    ]  # fmt: skip


@pytest.mark.parametrize("path", ["memory://nowhere", "memory://archive/nothing-*", "memory://archive/no-0/1.log"])
def test_a_missing_path_is_reported(store: str, path: str) -> None:
    with pytest.raises(PathError):
        rows_of(path)


def test_a_read_error_is_reported(store: str) -> None:
    with pytest.raises(KsegError, match="nonsense"):
        rows_of("nonsense://bucket/orders-0")
    with pytest.raises(UnsupportedError, match="hold no records"):
        rows_of(f"{store}/{TRANSACTIONS.name}/leader-epoch-checkpoint")


def test_what_only_hadoop_opens_is_refused() -> None:
    with pytest.raises(KsegError, match=r"wasb://archive: fsspec has no file system for wasb:, and those of Hadoop"):
        rows_of("wasb://logs@archive/orders-0")


@pytest.mark.parametrize("inside", ["", "/librdkafka-gzip-0", "/librdkafka-*-0"])
def test_a_failing_store_is_reported_as_such(store: str, inside: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EBUSY, "503 Slow Down")

    for name in ("ls", "info"):
        monkeypatch.setattr(MemoryFileSystem, name, fail)
    with pytest.raises(PathError, match=r"memory://archive.*: 503 Slow Down"):
        rows_of(store + inside)


def test_storage_options_make_the_file_system() -> None:
    given = {"access_key": "a", "region": "eu-west-1", "secret_key": "b"}
    system, path = open_arrow("s3a://bucket/orders-0", given) or pytest.fail("is not pyarrow's")
    assert (system.fs.type_name, system.fs.region, path) == ("s3", "eu-west-1", "bucket/orders-0")
    with pytest.raises(KsegError, match="regoin"):
        open_arrow("s3://bucket/orders-0", {"regoin": "eu-west-1"})


class GoogleBucket:
    """Lists as pyarrow does in Google Cloud Storage: folders are no objects, and are not listed."""

    type_name = "gcs"

    def get_file_info(self, what: Any) -> Any:
        from pyarrow import fs

        found = fs.LocalFileSystem().get_file_info(what)
        return [info for info in found if info.is_file] if isinstance(what, fs.FileSelector) else found


def test_folders_in_google_cloud_storage_are_found() -> None:
    objects = UrlObjects("gs://bucket", opened=(ArrowFiles(GoogleBucket()), str(CLIENTS.parent)))
    files, folders = objects.folder("")
    assert [file.name for file in files] == sorted(path.name for path in CLIENTS.parent.iterdir() if path.is_file())
    assert folders == sorted(path.name for path in CLIENTS.parent.iterdir() if path.is_dir())
    files, folders = objects.folder("clients/librdkafka-gzip-0")
    assert [file.name.rpartition("/")[2] for file in files] == sorted(
        path.name for path in (CLIENTS / "librdkafka-gzip-0").iterdir()
    )
    assert folders == []


@pytest.mark.parametrize("url", ["s3://user:secret@bucket/t-0", "gs://user:sl/secret@bucket/t-0"])
def test_credentials_in_urls_are_refused_and_not_shown(url: str) -> None:
    with pytest.raises(KsegError, match="not read from there") as caught:
        rows_of(url, mode="records")
    assert "secret" not in str(caught.value)
