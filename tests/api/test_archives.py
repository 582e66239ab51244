"""Archives and packed files are read as they lie."""

import gc
import gzip
import shutil
import tarfile
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

import kseg
from api.consumed import TESTDATA
from kseg.api import archives
from kseg.stores import trees

COMMITTED = TESTDATA / "kafka-4.3.1/committed"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    shutil.copytree(COMMITTED, tmp_path / "logs", ignore=shutil.ignore_patterns("truth", "README.md"))
    return tmp_path / "logs"


@pytest.fixture
def archive(logs: Path) -> Path:
    path = logs.parent / "logs.tar.gz"
    with tarfile.open(path, "w:gz") as made:
        made.add(logs, "logs")
    return path


def test_an_archive_has_the_records_of_the_directory(logs: Path, archive: Path) -> None:
    expected = list(kseg.open(logs).records())
    with kseg.open(archive) as log:
        first, second = log.records(), log.records()
        assert next(first) == next(second) == expected[0]
        assert [expected[0], *first] == [expected[0], *second] == expected
        assert all(item.file.startswith(str(archive)) for item in log)
    inner = kseg.open(archive / "logs/orders-0")
    assert list(inner.records()) == [r for r in expected if (r.topic, r.partition) == ("orders", 0)]
    assert kseg.verify(archive).summary.records == kseg.verify(logs).summary.records


def test_records_outlive_the_name_of_their_log(archive: Path) -> None:
    assert len(list(kseg.open(archive).records())) == len(list(kseg.open(archive).records())) > 0


@pytest.mark.parametrize("is_same_thread", [True, False])
def test_a_log_may_be_collected_while_another_is_opened(
    is_same_thread: bool, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A garbage collection finalizes it on whichever thread allocates, such as one that the opening waits for."""
    other = str(shutil.copy(archive, tmp_path / "other.tar.gz"))
    collected = []

    def collect(*arguments: Any) -> Any:
        thread = threading.Thread(target=gc.collect, daemon=True)
        if is_same_thread:
            gc.collect()
        else:
            thread.start()
            thread.join(10)
        collected.append(not thread.is_alive())
        return archives_at(*arguments)

    log: Any = kseg.open(archive)
    log.itself = log
    del log
    archives_at = archives.archives_at
    monkeypatch.setattr(archives, "archives_at", collect)
    with kseg.open(other) as opened:
        assert collected == [True]
        assert next(iter(opened.records()))
    assert [trees.find(path) for path in (str(archive), other)] == [None, None]


def test_a_scan_reads_archives_and_packed_segments(logs: Path, archive: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    table = kseg.scan(logs, isolation="read_committed").to_arrow()
    assert pa.table(kseg.scan(archive, isolation="read_committed")).equals(table)
    splits = kseg.scan(archive, isolation="read_committed").splits(1000)
    assert pa.concat_tables([split.to_arrow() for split in splits]).equals(table)
    segment = next((logs / "orders-0").glob("*.log"))
    packed = logs / "orders-0" / (segment.name + ".gz")
    packed.write_bytes(gzip.compress(segment.read_bytes()))
    columns = ["offset", "key", "value"]
    assert kseg.scan(packed, columns=columns).to_arrow().equals(kseg.scan(segment, columns=columns).to_arrow())


def test_an_archive_that_holds_nothing_is_forgotten(logs: Path, tmp_path: Path) -> None:
    path, segment = tmp_path / f"{0:020}.log.zip", next((logs / "orders-0").glob("*.log"))
    with zipfile.ZipFile(path, "w"):
        pass
    with pytest.raises(kseg.PathError) as raised:
        kseg.open(path)
    with zipfile.ZipFile(path, "w") as made:
        made.write(segment, segment.name)
    assert len(list(kseg.open(path))) == len(list(kseg.open(segment))) > 0, raised
