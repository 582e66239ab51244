"""Remote storage in Spark: the rows of the local partition, and tasks that read only their chunks."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.cloudpickle import dumps

from kseg.errors import KsegError
from kseg.spark.options import parse_options
from kseg.stores.archives.spool import Spool
from kseg.stores.arrow_files import ArrowFiles
from kseg.stores.object_urls import UrlObjects, UrlTree
from kseg.stores.objects import objects_below
from kseg.stores.place import Place
from kseg.stores.remote.segment import RemoteStorage
from kseg.stores.stored_object import StoredObject
from spark.reading import read, reader_of, rows_of
from stores.remote.stores import KEY_OPTIONS, REMOTE, copied, keys, noted_reads, storage, store_of

KEYS = ",".join(KEY_OPTIONS)
LOCAL = REMOTE / "both" / "logs" / "t-txn-0"
SHARED = {"startOffset": "216", "endOffset": "421"}
"""The offsets that both the store and the broker's disk have."""
pytestmark = pytest.mark.spark


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """The reads of objects, and the listings."""
    found = noted_reads(monkeypatch)

    def listed(root: Place) -> Iterator[StoredObject]:
        found.append(("", 0, 0))
        return objects_below(root)

    monkeypatch.setattr("kseg.stores.remote.segment.objects_below", listed)
    return found


@pytest.mark.parametrize("size", ["64m", "20k", "3k"])
@pytest.mark.parametrize("mode", ["records", "counts", "batches"])
def test_rows_are_those_of_the_local_partition(mode: str, size: str) -> None:
    found = rows_of(store_of("both"), privateKeys=KEYS, mode=mode, splitBytes=size, **SHARED)
    expected = rows_of(LOCAL, mode=mode, splitBytes=size, **SHARED)
    for row in (*found, *expected):
        row.pop("file", None)
    if mode == "counts":
        assert sum(row["count"] for row in found) == sum(row["count"] for row in expected)
    else:
        assert found == expected
    assert found


@pytest.mark.parametrize("variant", ["both", "local"])
def test_committed_records_do_not_depend_on_the_tasks(variant: str) -> None:
    expected = rows_of(store_of(variant), privateKeys=KEYS, isolation="read_committed")
    assert 0 < len(expected) < len(rows_of(store_of(variant), privateKeys=KEYS))
    assert rows_of(store_of(variant), privateKeys=KEYS, isolation="read_committed", splitBytes="5k") == expected


def test_a_task_reads_its_chunks_alone(reads: list[tuple[str, int, int]]) -> None:
    segment = next(found for found in storage("both").partitions[0].segments if found.start_offset == 216)
    chunks, log = segment.chunks, segment.path()
    bytes_of_chunk = chunks.original_chunk_bytes
    reader = reader_of([store_of("both")], privateKeys=KEYS, splitBytes=str(8 * bytes_of_chunk), **SHARED)
    tasks = [task for task in reader.partitions() if any(part.file.base_offset == 216 for part in task.value)]
    assert len(tasks) > 2
    for task in tasks[:-1]:
        del reads[:]
        (part,) = task.value
        assert part.slice.start % bytes_of_chunk == 0
        assert list(reader.read(task))
        fetched = [(start, length) for path, start, length in reads if path == log]
        first, last = part.slice.start // bytes_of_chunk, (part.slice.end - 1) // bytes_of_chunk
        # The index leads to batches at most some entries before the part; the last batch may end behind it.
        assert chunks.positions[max(first - 4, 0)] <= min(start for start, _ in fetched)
        assert max(start + length for start, length in fetched) <= chunks.positions[min(last + 3, len(chunks))]
        assert ("", 0, 0) not in reads


def test_tasks_hold_paths_of_keys_and_no_key() -> None:
    reader = reader_of([store_of("both")], privateKeys=KEYS)
    tasks = dumps((reader, reader.partitions()))
    secret = (REMOTE / "keys" / "k1-private.pem").read_bytes().splitlines()[1]
    assert secret not in tasks
    assert b"k1-private.pem" in tasks


def test_unwanted_topics_need_no_key(tmp_path: Path) -> None:
    store = copied("zstd", tmp_path)
    shutil.copytree(store_of("enc"), store, dirs_exist_ok=True)
    assert {row["topic"] for row in rows_of(store, subscribe="t-roll")} == {"t-roll"}
    with pytest.raises(KsegError, match="k1"):
        rows_of(store)


def test_objects_at_a_url() -> None:
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").put(str(store_of("both")), "/remote/tier", recursive=True)
    found = rows_of("memory://remote/tier", privateKeys=KEYS, splitBytes="10k")
    assert found == rows_of(store_of("both"), privateKeys=KEYS)


def test_objects_of_pyarrow_are_those_of_the_files() -> None:
    from pyarrow.fs import LocalFileSystem

    local = store_of("both")
    store = UrlObjects("s3://bucket/tier", opened=(ArrowFiles(LocalFileSystem()), str(local)))
    root = Place(store.root, UrlTree(store, Spool()))
    found_objects = [*objects_below(root)]
    assert found_objects == [*objects_below(Place(local))]
    (name,) = (name for name, _ in found_objects if "/00000000000000000216-" in name and "log" in name)
    assert store.read(name, 10, 20) == (local / name).read_bytes()[10:30]
    found = store.info(name)
    assert found is not None
    assert found.size == (local / name).stat().st_size
    assert store.path(name) == f"s3://bucket/tier/{name}"
    assert [found.name for found in RemoteStorage(root, keys()).partitions] == ["t-txn-0"]


def test_the_option_of_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    expected = (("k1", f"{tmp_path}/a.pem"), ("k2", "/keys/b.pem"))
    for text in ("k1=a.pem,k2=/keys/b.pem", '{"k1": "a.pem", "k2": "/keys/b.pem"}'):
        assert parse_options({"path": "/a", "privatekeys": text}).keys._files == dict(expected)
    for text in ("a.pem", '{"k1"', '["a.pem"]'):
        with pytest.raises(KsegError, match="privateKeys"):
            parse_options({"path": "/a", "privatekeys": text})


def test_a_stream_of_a_store() -> None:
    from kseg.spark.source import KsegDataSource, offset_of

    source = KsegDataSource({"path": str(store_of("both")), "privatekeys": KEYS, "includelast": "true"})
    reader = source.streamReader(source.schema())
    tasks = reader.partitions(reader.initialOffset(), offset_of(reader.closed()))
    rows = [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]
    assert rows == rows_of(store_of("both"), privateKeys=KEYS)


def test_a_session_reads_a_store(spark: Any) -> None:
    frame = (
        spark.read.format("kseg").option("privateKeys", KEYS).option("splitBytes", "10k").load(str(store_of("both")))
    )
    local = spark.read.format("kseg").load(str(LOCAL)).where("offset < 422")
    columns = ["offset", "key", "value", "topic", "partition", "timestamp"]
    found = frame.where("offset >= 216").select(*columns).orderBy("offset").collect()
    assert found == local.select(*columns).orderBy("offset").collect()
    assert frame.count() == len(read(reader_of([store_of("both")], privateKeys=KEYS)))
