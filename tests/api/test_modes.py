"""`kseg.scan(mode=...)`: the rows of commands and brokers as Arrow columns."""

import json
import pickle
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

import kseg
from api.consumed import TESTDATA
from kernel.rendering import batch, record
from kseg.api import modes
from kseg.api.modes import ROW_MODES
from kseg.export.arrow import types_of
from kseg.quantities import shell_line

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

COMMITTED = TESTDATA / "kafka-4.3.1/committed"
TRUTH = [json.loads(line) for line in (COMMITTED / "truth/committed-offsets.jsonl").read_text("utf-8").splitlines()]
OFFSETS = "__consumer_offsets-1"
LOG = f"{0:020}.log"
CASES = sorted(path for path in (TESTDATA / "damaged/findings").iterdir() if path.is_dir())
NOW = 1_790_000_000_000


def rows_of(*paths: object, **options: Any) -> list[dict[str, Any]]:
    return kseg.scan([str(path) for path in paths], **options).to_arrow().to_pylist()


def shown(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(({name: row[name] for name in TRUTH[0]} for row in rows), key=str)


@pytest.fixture
def places(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The same log directory in an archive and in a store."""
    with tarfile.open(tmp_path / "logs.tar.gz", "w:gz") as made:
        made.add(COMMITTED, "broker/logs")
    memory = fsspec.filesystem("memory")
    memory.put(str(COMMITTED), "/broker/logs", recursive=True)
    yield {"archive": str(tmp_path / "logs.tar.gz"), "url": "memory://broker/logs"}
    memory.rm("/broker", recursive=True)


def test_commits_are_those_that_the_broker_knows() -> None:
    scan = kseg.scan(COMMITTED, mode="commits")
    rows = scan.to_arrow().to_pylist()
    assert shown(rows) == sorted(TRUTH, key=str)
    assert [row["lag"] for row in rows] == [max(0, row["logEndOffset"] - row["offset"]) for row in rows]
    splits = pickle.loads(pickle.dumps(scan.splits(1)))
    assert len(splits) == 2
    assert [row for split in splits for row in split.to_arrow().to_pylist()] == rows
    assert scan.count_rows() == len(rows)
    some = kseg.scan(COMMITTED, mode="commits", columns=["lag", "group"], topics="ord*", partitions=1).to_arrow()
    assert some.to_pylist() == [{"lag": r["lag"], "group": r["group"]} for r in rows if r["partition"] == 1]


def test_archives_and_stores_have_the_same_commits(places: dict[str, str]) -> None:
    expected = rows_of(COMMITTED, mode="commits")
    for place in places.values():
        assert rows_of(place, mode="commits") == expected
        splits = kseg.scan(place, mode="commits").splits(1)
        assert [row for split in splits for row in split.to_arrow().to_pylist()] == expected


def test_damage_in_a_coordinators_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data = (COMMITTED / OFFSETS / LOG).read_bytes()
    log = tmp_path / OFFSETS / LOG
    log.parent.mkdir()
    log.write_bytes(data[:1300] + bytes([data[1300] ^ 1]) + data[1301:] + b"nonsense")
    scan = kseg.scan(log.parent, mode="commits")
    with pytest.raises(kseg.DamageError, match="crc-mismatch") as raised:
        scan.to_arrow()
    assert isinstance(raised.value.item, kseg.Batch)
    rows = rows_of(log.parent, mode="commits", on_damage="skip")
    assert 0 < len(rows) <= len(TRUTH)
    assert ["crc-mismatch" in caplog.text, "nonsense-block" in caplog.text] == [True, True]
    log.write_bytes(data[:-1])
    assert len(rows_of(log.parent, mode="commits", live=True)) > 0
    log.write_bytes(batch([record(0, key=b"\0\1\0\1g\0", value=b"\0\3")]))
    with pytest.raises(kseg.DamageError, match="a commit cannot be decoded"):
        scan.to_arrow()


def test_a_partition_of_offsets_is_read_after_the_rows_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[str]()
    original = modes._read_commits
    monkeypatch.setattr(modes, "_read_commits", lambda file, *rest: (read.append(file.path), original(file, *rest)))
    request = kseg.scan(COMMITTED, mode="commits")._request
    rows = modes.commits([work for _, work in modes.offsets_partitions(request)], request, print)
    next(rows)
    assert len(read) == 1
    assert len(list(rows)) == len(TRUTH) - 1
    assert len(read) == 2


def test_without_offsets_there_is_a_warning() -> None:
    with pytest.warns(kseg.SelectionWarning, match="no path holds a partition of __consumer_offsets"):
        table = kseg.scan(COMMITTED / "orders-0", mode="commits").to_arrow()
    assert (table.num_rows, table.column_names[:4]) == (0, ["group", "topic", "partition", "offset"])


@pytest.mark.parametrize("path", [COMMITTED, TESTDATA / "damaged/4.3.1-last-flip-body"], ids=lambda path: path.name)
def test_batches_are_those_of_open(path: Path) -> None:
    items = [item for item in kseg.open(path) if isinstance(item, kseg.Batch)]
    rows = rows_of(path, mode="batches")
    assert [(row["file"], row["position"], row["isValid"], row["baseOffset"], row["size"]) for row in rows] == [
        (item.file, item.position, item.is_valid, item.base_offset, item.size) for item in items
    ]
    splits = kseg.scan(path, mode="batches").splits(1000)
    assert len(splits) > 1
    assert [row for split in splits for row in split.to_arrow().to_pylist()] == rows
    some = rows_of(path, mode="batches", offsets=(3, 9))
    assert some == [row for row in rows if row["lastOffset"] >= 3 and row["baseOffset"] <= 9]


def test_damage_between_batches_is_raised_or_skipped() -> None:
    partition = TESTDATA / "damaged/4.3.1-last-length-zero/dplain-0"
    with pytest.raises(kseg.DamageError, match="bad-length") as raised:
        rows_of(partition, mode="batches")
    assert isinstance(raised.value.item, kseg.Damage)
    batches = [item for item in kseg.open(partition) if isinstance(item, kseg.Batch)]
    assert len(rows_of(partition, mode="batches", on_damage="skip")) == len(batches)


@pytest.mark.sampled(40)
@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_findings_are_those_of_verify(case: Path) -> None:
    def read(scan: kseg.Scan) -> list[tuple[Any, ...]]:
        rows = [row for row in scan.to_arrow().to_pylist() if row["count"] == 1]
        return sorted((*(row[name] for name in names), row["repair"] or "") for row in rows)

    names = ("code", "severity", "file", "message")
    scan = kseg.scan(case, mode="findings", level="deep", now=NOW)
    try:
        verdict = kseg.verify(case, level="deep", now=NOW)
    except kseg.PathError:
        with pytest.raises(kseg.KsegError):
            scan.to_arrow()
        return
    expected = [(*(getattr(each, name) for name in names), shell_line(each.repair or [])) for each in verdict.findings]
    assert read(scan) == sorted(expected)
    assert sorted(row for split in scan.splits(1) for row in read(split)) == read(scan)


def test_entries_are_those_of_the_side_files() -> None:
    rows = rows_of(COMMITTED, mode="entries")
    assert {"offsetIndexEntry", "timeIndexEntry"} & {row["type"] for row in rows}
    assert rows_of(COMMITTED, mode="entries", topics="orders") == [row for row in rows if row["topic"] == "orders"]
    states = [row for row in rows if row["type"] == "producerState"]
    assert {row["currentTxnFirstOffset"] for row in states} == {None, 15}, "as in the JSON of a dump"
    with pytest.raises(kseg.UnsupportedError, match=r"mode entries reads \.index"):
        rows_of(COMMITTED / "orders-0" / LOG, mode="entries")


@pytest.mark.parametrize("mode", ["counts", *ROW_MODES])
def test_the_manual_lists_the_columns(mode: str) -> None:
    page = (TESTDATA.parent / "man/kseg-spark.7").read_text("utf-8").split(".Sh OPTIONS")[0]
    entry = page.split(f".It Ql {mode}\n")[1].split(".It Ql")[0]
    names = [*types_of(mode)][3 * (mode == "counts") :]
    assert [name for name in names if not re.search(rf"\b{name}\b", entry)] == []


def test_other_libraries_read_modes() -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    polars = pytest.importorskip("polars", reason="polars is not installed")
    scan = kseg.scan(COMMITTED, mode="commits")
    query = 'select "group", lag from scan where topic = \'orders\' and "partition" = 0 order by 1'
    rows = scan.to_arrow().to_pylist()
    expected = sorted((row["group"], row["lag"]) for row in rows if (row["topic"], row["partition"]) == ("orders", 0))
    assert duckdb.sql(query).fetchall() == expected
    pc = pytest.importorskip("pyarrow.compute")
    for field, value in (("offset", 6), ("partition", 1), ("topic", "orders")):
        found = scan.to_table(filter=pc.field(field) == value).to_pylist()
        assert found == [row for row in rows if row[field] == value] != []
    frame = polars.scan_pyarrow_dataset(scan).filter(polars.col("lag") > 0).select("group", "lag").collect()
    assert frame.height == sum(row["lag"] > 0 for row in rows)
