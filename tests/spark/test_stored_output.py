"""Writing to object stores, without a JVM: partitions as in local directories, and nothing of a failed job."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from cli.command import files
from kseg.errors import KsegError, PathError
from s3_server import Store, s3_server, storage_options
from spark.reading import rows_of
from spark.test_writing import batch, numbered, verify, write, writer_of

pytestmark = pytest.mark.spark
PLACES = ("s3://bucket/new/logs", "memory://written/logs")
COLUMNS = ["topic", "partition", "offset", "value"]


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with s3_server() as found:
        yield found


def storage(url: str) -> dict[str, str]:
    return storage_options() if url.startswith("s3:") else {}


def objects(url: str, store: Store) -> dict[str, bytes]:
    """Returns the objects at a URL by name, and removes them."""
    if url.startswith("s3:"):
        found = store.files("new/logs")
        for name in found:
            store.client.delete_object(Bucket="bucket", Key=f"new/logs/{name}")
        return {name: data for name, data in found.items() if name and not name.endswith("/")}
    system, path = fsspec.core.url_to_fs(url)
    found = {name.removeprefix(f"{path}/"): system.cat_file(name) for name in system.find(path)}
    if found:
        system.rm(path, recursive=True)
    return found


def without_record(files: dict[str, bytes]) -> dict[str, bytes]:
    """Leaves out files with the time of the write, and locks of directories."""
    return {name: data for name, data in files.items() if ".kseg-" not in name and not name.endswith(".lock")}


@pytest.mark.parametrize("url", PLACES)
def test_objects_are_those_of_a_local_partition(url: str, store: Store, tmp_path: Path) -> None:
    rows = [row for row in numbered(0, 900, key=b"k" * 50) if row["offset"] % 7]
    tasks = [[batch(rows[:300])], [batch(rows[300:])]]
    options = {"segmentBytes": "16k", "batchBytes": "1k"}
    write(writer_of(f"{url}/orders-0", **options, **storage(url)), *tasks)
    write(writer_of(tmp_path / "logs/orders-0", **options), *tasks)
    assert rows_of(f"{url}/orders-0", **storage(url)) == rows_of(tmp_path / "logs/orders-0")
    with pytest.raises(PathError, match=rf"^{url}/orders-0: already exists"):
        writer_of(f"{url}/orders-0", **storage(url))
    found, expected = objects(url, store), files(tmp_path / "logs")
    assert without_record(found) == without_record(expected)
    assert sum(name.endswith(".log") for name in found) > 2
    assert {name.split("/")[0] for name in found} == {"orders-0"}
    for name, data in found.items():
        path = tmp_path / "back" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    verify(tmp_path / "back/orders-0")  # with the record of the missing offsets


@pytest.mark.parametrize("url", PLACES)
def test_partitions_of_the_columns(url: str, store: Store) -> None:
    rows = [{"topic": t, "partition": p, "offset": o} for o in range(5) for t in "ab" for p in (0, 1)]
    write(writer_of(url, COLUMNS, **storage(url)), [batch(rows, COLUMNS)], [])
    assert len(rows_of(url, **storage(url))) == 20
    more = [dict(rows[0], topic="c"), dict(rows[0], offset=9)]
    with pytest.raises(PathError, match="a-0: already exists"):
        write(writer_of(url, COLUMNS, **storage(url)), [batch(more, COLUMNS)])
    assert {name.split("/")[0] for name in objects(url, store)} == {"a-0", "a-1", "b-0", "b-1"}


@pytest.mark.parametrize("url", PLACES)
def test_rows_without_offsets_become_the_objects_of_a_local_partition(url: str, store: Store, tmp_path: Path) -> None:
    tasks = [[batch([{"value": b"%d" % i} for i in range(count)], ["value"])] for count in (300, 0, 200)]
    write(writer_of(f"{url}/orders-0", ["value"], segmentBytes="4k", **storage(url)), *tasks)
    write(writer_of(tmp_path / "logs/orders-0", ["value"], segmentBytes="4k"), *tasks)
    assert [row["offset"] for row in rows_of(tmp_path / "logs/orders-0")] == list(range(500))
    assert without_record(objects(url, store)) == without_record(files(tmp_path / "logs"))


@pytest.mark.parametrize("url", PLACES)
def test_failed_jobs_leave_nothing(url: str, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def written(*tasks: Any) -> None:
        write(writer_of(f"{url}/orders-0", **storage(url)), *tasks)

    with pytest.raises(KsegError, match="several tasks"):
        written([batch(numbered(0, 5))], [batch(numbered(3, 5))])
    with pytest.raises(KsegError, match="comes behind"):
        written([batch(numbered(9, 5))], [batch(numbered(0, 2)), batch(numbered(1, 2))])
    assert objects(url, store) == {}

    def fail(*_: object) -> None:
        raise OSError("the store went away")

    monkeypatch.setattr("kseg.spark.writing.write_side_files", fail)
    with pytest.raises(KsegError, match=f"{url}: nothing was written: the store went away"):
        written([batch(numbered(0, 5))])
    assert objects(url, store) == {}
    assert list(tmp_path.iterdir()) == []
