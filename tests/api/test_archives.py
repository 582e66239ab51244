"""Archives and packed files are read as they lie."""

import gc
import gzip
import json
import pickle
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
from stores.remote.stores import REMOTE, copied, damage_chunk, store_of

# Remote storage in Python: the rows that a consumer got, ranges that read only their chunks, keys by their ids.

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

KEYS = {key: REMOTE / "keys" / f"{key}-private.pem" for key in ("k1", "k2")}
VARIANTS = [("both", "t-txn-0", 422), ("local", "t-txn-0", 324), ("zstd", "t-roll-0", 599)]


def consumed(variant: str, name: str, end: int) -> list[dict[str, Any]]:
    with gzip.open(REMOTE / variant / "truth" / f"{name}.jsonl.gz", "rt") as lines:
        return [row for row in map(json.loads, lines) if row["offset"] < end]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("variant", "name", "end"), VARIANTS)
def test_rows_are_those_of_a_consumer(variant: str, name: str, end: int) -> None:
    scan = kseg.scan(store_of(variant), private_keys=KEYS, partitions=0)
    table = scan.to_arrow()
    expected = consumed(variant, f"{name}.ru", end)
    times = table.column("timestamp").cast(pa.int64()).to_pylist()
    found = zip(table.column("offset").to_pylist(), times, strict=True)
    assert list(found) == [(row["offset"], row["timestamp"]) for row in expected]
    assert set(table.column("topic").to_pylist()) == {name[:-2]}
    splits = pickle.loads(pickle.dumps(scan.splits(10_000)))
    assert len(splits) > 1
    assert pa.concat_tables([split.to_arrow() for split in splits]).equals(table)
    log = kseg.open(store_of(variant), private_keys=KEYS)
    assert [record.offset for record in log.records()] == [row["offset"] for row in expected]


def test_items_tile_the_logs_of_the_broker() -> None:
    local = store_of("both").parent / "logs" / "t-txn-0"
    with kseg.open(store_of("both"), private_keys=KEYS) as log:
        items = [item for item in log if item.file.endswith(f"{216:020}.log")]
        assert log.files[0] == f"{store_of('both')}/t-txn-0/{0:020}.log"
    expected = list(kseg.open(local / f"{216:020}.log"))
    assert [(item.position, item.end) for item in items] == [(item.position, item.end) for item in expected]


def test_keys_are_needed_and_shared(tmp_path: Path) -> None:
    with pytest.raises(kseg.KsegError, match="k1"):
        kseg.scan(store_of("enc")).to_arrow()
    with pytest.raises(kseg.KsegError, match="k1"):
        kseg.open(store_of("enc"), private_keys={"k1": KEYS["k2"]})
    with kseg.open(store_of("both"), private_keys=KEYS) as log:
        assert kseg.scan(store_of("both"), private_keys={"other": tmp_path / "no.pem"}).to_arrow().num_rows
        assert next(log.records()).offset == 0
    assert kseg.verify(store_of("both"), private_keys=KEYS).summary.records
    with pytest.raises(kseg.PathError, match="does not open"):
        kseg.verify(store_of("enc"), private_keys={"k1": KEYS["k2"]})


def test_a_damaged_chunk_is_damage(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = copied("both", tmp_path)
    damage_chunk(store, "both", 3)
    scan = kseg.scan(store, private_keys=KEYS, on_damage="skip")
    whole = kseg.scan(store_of("both"), private_keys=KEYS).to_arrow().num_rows
    assert 0 < scan.to_arrow().num_rows < whole
    assert "left out" in caplog.text
    with pytest.raises(kseg.DamageError):
        kseg.scan(store, private_keys=KEYS).to_arrow()


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


@pytest.mark.sampled(2)
@pytest.mark.parametrize("is_same_thread", [True, False])
def test_a_collected_log(is_same_thread: bool, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert {str(archive), other}.isdisjoint(archives._opened)


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
