"""Remote storage in Python: the rows that a consumer got, ranges that read only their chunks, keys by their ids."""

import gzip
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import kseg
from kseg.stores.objects import LocalObjects
from stores.remote.stores import REMOTE, copied, damage_chunk, store_of

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

KEYS = {key: REMOTE / "keys" / f"{key}-private.pem" for key in ("k1", "k2")}
VARIANTS = [("both", "t-txn-0", 422), ("local", "t-txn-0", 324), ("zstd", "t-roll-0", 599)]


def consumed(variant: str, name: str, end: int) -> list[dict[str, Any]]:
    with gzip.open(REMOTE / variant / "truth" / f"{name}.jsonl.gz", "rt") as lines:
        return [row for row in map(json.loads, lines) if row["offset"] < end]


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


@pytest.mark.parametrize(("variant", "end"), [("both", 422), ("local", 324)])
def test_committed_records(variant: str, end: int) -> None:
    found = kseg.scan(store_of(variant), private_keys=KEYS, isolation="read_committed").to_arrow()["offset"].to_pylist()
    expected = [row["offset"] for row in consumed(variant, "t-txn-0.rc", end)]
    # What the store does not have the end of is not stable yet.
    assert found == expected[: len(found)]
    assert len(found) > 0.9 * len(expected)


def test_items_tile_the_logs_of_the_broker() -> None:
    local = store_of("both").parent / "logs" / "t-txn-0"
    with kseg.open(store_of("both"), private_keys=KEYS) as log:
        items = [item for item in log if item.file.endswith(f"{216:020}.log")]
        assert log.files[0] == f"{store_of('both')}/t-txn-0/{0:020}.log"
    expected = list(kseg.open(local / f"{216:020}.log"))
    assert [(item.position, item.end) for item in items] == [(item.position, item.end) for item in expected]


def test_a_range_reads_only_its_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[tuple[str, int]] = []
    read = LocalObjects.read

    def counted(self: LocalObjects, name: str, start: int, length: int) -> bytes:
        if name.endswith(".log"):
            reads.append((name, length))
        return read(self, name, start, length)

    monkeypatch.setattr(LocalObjects, "read", counted)
    found = kseg.scan(store_of("both"), private_keys=KEYS, offsets=(300, 305), columns="offset").to_arrow()
    assert set(found["offset"].to_pylist()) <= set(range(300, 306))
    assert found.num_rows
    (name,) = {name for name, _ in reads}
    assert sum(length for _, length in reads) < (store_of("both") / name).stat().st_size / 3


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


def test_a_name_that_scan_does_not_have() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'private_key'"):
        kseg.scan(store_of("both"), private_key=KEYS)  # type: ignore[call-arg]


def test_a_damaged_chunk_is_damage(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = copied("both", tmp_path)
    damage_chunk(store, "both", 3)
    scan = kseg.scan(store, private_keys=KEYS, on_damage="skip")
    whole = kseg.scan(store_of("both"), private_keys=KEYS).to_arrow().num_rows
    assert 0 < scan.to_arrow().num_rows < whole
    assert "left out" in caplog.text
    with pytest.raises(kseg.DamageError):
        kseg.scan(store, private_keys=KEYS).to_arrow()
