"""`kseg.scan`: the rows that a real consumer got, as Arrow columns, and who reads them."""

import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kseg
from api.consumed import CONSUMED, TESTDATA, id_of, partition_of, rows_of
from kernel.rendering import batch, record

# Scans as datasets of pyarrow: who asks for some columns makes kseg decode no others.

ds = pytest.importorskip("pyarrow.dataset", reason="pyarrow has no datasets")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

DATASET_TXN = TESTDATA / "kafka-4.3.1/clients/librdkafka-txn-0"
ZSTD = 4


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    """A partition with offsets 0 to 4, two of them in a batch that cannot be decompressed."""
    path = tmp_path / "orders-0" / f"{0:020}.log"
    path.parent.mkdir()
    closed = batch([b"not zstd"], attributes=ZSTD, base_offset=0, count=2, last_delta=1)
    path.write_bytes(closed + batch([record(0, value=b"a"), record(1), record(2)], base_offset=2))
    return path.parent


def test_duckdb_decodes_no_records_for_offsets(sealed: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    scan = kseg.scan(sealed)
    query = 'select count(*), max("offset"), min("partition"), any_value(topic) from scan'
    assert duckdb.sql(query).fetchall() == [(5, 4, 0, "orders")]
    assert duckdb.sql('select count("offset") from scan where "offset" between 1 and 3').fetchall() == [(3,)]
    with pytest.raises(Exception, match="zstd"):
        duckdb.sql('select max("value") from scan').fetchall()
    del scan


def test_duckdb_gets_the_rows_of_the_scan() -> None:
    duckdb = pytest.importorskip("duckdb")
    scan = kseg.scan(COMMITTED)
    table_of_scan = scan.to_arrow()
    for query in (
        'select "key", "value", headers, topic from {} order by topic, "partition", "offset"',
        'select "value", "offset" from {} where topic = \'orders\' and "partition" = 1 order by "offset"',
        'select topic, count(*), sum("offset"), max(epoch_ms("timestamp")) from {} where "key" is not null group by 1'
        " order by 1",
        'select count(*) from {} a join {} b using (topic, "partition", "offset")',
    ):
        found = duckdb.sql(query.format("scan", "scan")).fetchall()
        assert found == duckdb.sql(query.format("table_of_scan", "table_of_scan")).fetchall()
        assert found
    del scan, table_of_scan


def test_polars_decodes_no_records_for_offsets(sealed: Path) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.scan_pyarrow_dataset(kseg.scan(sealed))
    assert frame.select("offset").collect()["offset"].to_list() == [0, 1, 2, 3, 4]
    assert frame.filter(polars.col("offset") > 2).select("topic", "offset").collect().rows() == [
        ("orders", 3), ("orders", 4),
    ]  # fmt: skip
    with pytest.raises(Exception, match="zstd"):
        frame.select("value").collect()


def test_scanners_project_and_filter() -> None:
    scan: Any = kseg.scan(DATASET_TXN)
    table = scan.to_arrow()
    assert isinstance(scan, kseg.Scan)
    assert isinstance(scan, ds.Dataset)
    assert scan.scanner().to_table().equals(table)
    names = ["value", "offset"]
    assert scan.to_table(columns=names).equals(table.select(names))
    large = (ds.field("offset") > 10) & ds.field("key").is_valid()
    assert scan.to_table(filter=large).equals(table.filter(large))
    assert scan.to_table(columns=["timestamp"], filter=large).equals(table.filter(large).select(["timestamp"]))
    computed = scan.to_table(columns={"next": ds.field("offset") + 1}, filter=large)
    assert computed["next"].to_pylist() == [offset + 1 for offset in table.filter(large)["offset"].to_pylist()]
    assert scan.count_rows() == table.num_rows
    assert scan.count_rows(large) == table.filter(large).num_rows
    assert scan.head(3).equals(table.slice(0, 3))
    assert scan.head(0).equals(table.slice(0, 0))
    assert scan.head(10**6, columns=names).equals(table.select(names))
    assert scan.take([4, 1], columns=names).equals(table.select(names).take([4, 1]))
    assert pa.Table.from_batches(scan.to_batches(filter=large)).equals(table.filter(large))
    scanner = scan.scanner(columns={"next": ds.field("offset") + 1})
    assert (scanner.dataset_schema, scanner.projected_schema.names) == (scan.schema, ["next"])
    assert scan.scanner(columns=names, batch_size=7).to_table().equals(table.select(names))
    assert scan.take([], columns=names).equals(table.select(names).slice(0, 0))
    assert {batch.num_rows for batch in scan.to_batches(filter=large, batch_size=7)} >= {7}
    for size in (0, -1):
        with pytest.raises(kseg.RequestError, match="batch_size"):
            scan.to_batches(batch_size=size)
    with pytest.raises(pa.ArrowInvalid, match="absent"):
        scan.scanner(columns=["absent"])


def test_rows_are_counted_without_records(sealed: Path) -> None:
    scan: Any = kseg.scan(sealed, columns=["key", "value"])
    assert scan.count_rows() == 5
    assert sum(split.count_rows() for split in pickle.loads(pickle.dumps(scan.splits(50)))) == 5


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    "read",
    [
        "scan.head(2)",
        "next(iter(scan.to_batches()))",
        "scan.scanner(columns=['value']).to_reader().read_next_batch()",
        "next(iter(scan.scanner(columns=['offset'], batch_size=2, use_threads=True).to_batches()))",
        "unread = scan.scanner(use_threads=False).to_batches(); next(unread)",
        "unread = iter(scan); next(unread)",
        "import threading; threading.Thread(target=lambda: [*scan.batches()], daemon=True).start()",
        "import duckdb; duckdb.sql('select topic, value from scan limit 1').fetchall()",
        "import polars; polars.scan_pyarrow_dataset(scan).head(2).collect()",
        "import polars; unread = iter(polars.scan_pyarrow_dataset(scan).collect_batches()); next(unread)",
    ],
)
def test_a_process_ends_that_has_read_only_some_rows(read: str) -> None:
    """Threads of pyarrow that read ahead would abort it, or never let it end."""
    for name in ("duckdb", "polars"):
        if f"import {name}" in read:
            pytest.importorskip(name)
    script = f"import sys, kseg\nscan = kseg.scan(sys.argv[1])\n{read}"
    done = subprocess.run([sys.executable, "-c", script, str(COMMITTED)], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "read",
    [
        lambda scan: ds.Scanner.from_dataset(scan).to_table(),
        lambda scan: ds.dataset([scan]).to_table(),
        lambda scan: scan.replace_schema(scan.schema).to_table(),
        lambda scan: scan.sort_by("offset"),
        lambda scan: scan.filter(ds.field("offset") > 1),
    ],
    ids=["scanner", "union", "schema", "sort", "filter"],
)
def test_what_bypasses_the_scanner_is_refused(read: Callable[[kseg.Scan], object]) -> None:
    with pytest.raises(kseg.UnsupportedError):
        read(kseg.scan(DATASET_TXN, columns=["offset"]))


def test_fragments_have_each_row_once() -> None:
    scan: Any = kseg.scan(COMMITTED)
    whole = scan.to_table(columns=["topic", "offset"])
    fragments = list(scan.get_fragments())
    assert pa.concat_tables([part.to_table(scan.schema, columns=["topic", "offset"]) for part in fragments]) == whole
    assert sum(part.scanner(scan.schema, columns=[]).count_rows() for part in fragments) == whole.num_rows
    large = ds.field("offset") > 10
    found = [batch for part in scan.get_fragments(large) for batch in part.to_batches(filter=large)]
    assert pa.Table.from_batches(found) == scan.to_table(filter=large)
    assert sum(part.count_rows(large) for part in fragments) == scan.count_rows(large)


@pytest.mark.skipif(pa.__version__.startswith("18."), reason="pyarrow 18 writes no dataset that can be iterated")
def test_a_dataset_is_written(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    ds.write_dataset(kseg.scan(DATASET_TXN), tmp_path / "out", format="parquet", use_threads=False)
    (written,) = (tmp_path / "out").iterdir()
    assert pq.read_table(written).sort_by("offset")["offset"].equals(kseg.scan(DATASET_TXN).to_arrow()["offset"])


CLIENTS = TESTDATA / "kafka-4.3.1/clients"
LOG_DIRECTORY = TESTDATA / "log-directories/4.3.1/logs"
COMMITTED = TESTDATA / "kafka-4.3.1/committed"
MANY = TESTDATA / "verify/4.3.1-transactions/dtxn-0"
TXN = CLIENTS / "librdkafka-txn-0"
FLIPPED = TESTDATA / "damaged/4.3.1-last-flip-body/dplain-0"
LARGE = TESTDATA / "speed/100b.log"
TYPES = {
    "key": "binary", "value": "binary", "topic": "string", "partition": "int32", "offset": "int64",
    "timestamp": "timestamp[ms, tz=UTC]", "timestampType": "int32",
    "headers": "list<element: struct<key: string, value: binary>>",
}  # fmt: skip


def table_rows(scan: kseg.Scan) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pa.table(scan).to_pylist()
    return rows


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("consumed", CONSUMED, ids=id_of)
def test_rows_are_those_of_a_consumer(consumed: Path, isolation: str) -> None:
    truth = consumed.with_name(f"{isolation}.jsonl.gz")
    expected = rows_of(truth if truth.exists() else consumed)
    begin = rows_of(consumed)[0]["offset"]
    scan = kseg.scan(partition_of(consumed), offsets=(begin, None), isolation=isolation)
    table = pa.table(scan)
    assert {field.name: str(field.type) for field in table.schema} == TYPES
    times = table.column("timestamp").cast(pa.int64()).to_pylist()
    topic, _, partition = partition_of(consumed).name.rpartition("-")
    assert table.num_rows == len(expected)
    for row, time, want in zip(table.to_pylist(), times, expected, strict=True):
        assert (row["topic"], row["partition"]) == (topic, int(partition))
        assert time == want["timestamp"]
        assert [header["value"] for header in row["headers"]] == want["headers"]
        assert {name: row[name] for name in ("offset", "key", "value")} == {
            name: want[name] for name in ("offset", "key", "value")
        }


@pytest.mark.parametrize("size", [7, 1000, 5000, 1 << 20])
def test_splits_have_each_row_once(size: int) -> None:
    # Each split of a few bytes needs a list of aborted transactions: one partition has enough of them.
    scan = kseg.scan(TXN if size == 7 else LOG_DIRECTORY, isolation="read_committed")
    splits = pickle.loads(pickle.dumps(scan.splits(size)))
    assert [row for split in splits for row in table_rows(split)] == table_rows(scan)
    assert len(splits) > 1 or size > 5000
    again = splits[0].splits(size)
    assert [row for split in again for row in table_rows(split)] == table_rows(splits[0])


def test_scans_are_equal_if_their_requests_are() -> None:
    scan = kseg.scan(LARGE, private_keys={"k1": "k1.pem"})
    same = pickle.loads(pickle.dumps(scan))
    assert same == scan == kseg.scan(LARGE, private_keys={"k1": "k1.pem"})
    assert len({scan, same}) == 1
    assert scan not in (kseg.scan(LARGE), kseg.scan(LARGE, private_keys={"k1": "k2.pem"}))


def test_splits_of_a_large_segment_share_it() -> None:
    splits = kseg.scan(LARGE).splits(20_000)
    assert len(splits) > 5
    rows = [split.to_arrow().num_rows for split in splits]
    assert sum(map(bool, rows)) > 1
    assert sum(rows) == kseg.scan(LARGE).to_arrow().num_rows


def test_columns_come_in_the_order_asked_for() -> None:
    names = ["offset", "topic", "key"]
    assert kseg.scan(TXN, columns=names).schema.names == names
    assert kseg.scan(TXN, columns=names).to_arrow().column_names == names
    assert kseg.scan(TXN, columns="value").to_arrow().column_names == ["value"]


def test_topics_and_partitions_are_chosen() -> None:
    everything = table_rows(kseg.scan(CLIENTS))
    topics = sorted({row["topic"] for row in everything})
    assert len(topics) > 2
    for globs in (topics[0], [topics[0], topics[1][:-1] + "*"], "*"):
        patterns = [globs] if isinstance(globs, str) else globs
        chosen = [row for row in everything if any(Path(row["topic"]).match(pattern) for pattern in patterns)]
        assert table_rows(kseg.scan(CLIENTS, topics=globs)) == chosen
    everything = table_rows(kseg.scan(COMMITTED))
    assert {row["partition"] for row in everything} >= {0, 1}
    for chosen in (0, 1, [0, 1], range(1, 99)):
        numbers = [chosen] if isinstance(chosen, int) else chosen
        wanted = [row for row in everything if row["partition"] in numbers]
        assert table_rows(kseg.scan(COMMITTED, partitions=chosen)) == wanted


def test_files_that_are_not_asked_for_are_not_opened(tmp_path: Path) -> None:
    """Segments by their names, partitions by theirs: they may be unreadable."""
    shutil.copytree(MANY, tmp_path / "a-0")
    segments = sorted((tmp_path / "a-0").glob("*.log"))
    assert len(segments) > 2
    bases = [int(path.stem) for path in segments]
    for path in (segments[0], segments[-1]):
        path.unlink()
        path.symlink_to("nowhere")
    offsets = (bases[1], bases[-1] - 1)
    rows = table_rows(kseg.scan(tmp_path / "a-0", offsets=offsets))
    assert bases[1] <= rows[0]["offset"] <= rows[-1]["offset"] < bases[-1]
    assert rows == [{**row, "topic": "a"} for row in table_rows(kseg.scan(MANY, offsets=offsets))]


def test_damage_is_raised_or_skipped(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(kseg.DamageError, match="crc-mismatch") as raised:
        kseg.scan(FLIPPED).to_arrow()
    assert isinstance(raised.value.item, kseg.Batch)
    with pytest.raises(Exception, match="crc-mismatch"):
        pa.table(kseg.scan(FLIPPED))
    skipping = kseg.scan(FLIPPED, on_damage="skip")
    good = sum(len(list(item)) for item in kseg.open(FLIPPED) if isinstance(item, kseg.Batch) and item.is_valid)
    assert skipping.to_arrow().num_rows == good
    assert len(caplog.records) == 1
    assert "crc-mismatch" in caplog.records[0].message


def test_each_stream_begins_anew() -> None:
    scan = kseg.scan(TXN)
    first, second = pa.table(scan), pa.table(scan)
    assert first.equals(second)
    assert pa.schema(scan) == scan.schema == first.schema
    with scan.batches() as reader:
        assert reader.read_next_batch().num_rows
    assert pa.table(scan).equals(first)


def test_what_a_filter_excludes_is_not_read() -> None:
    """The log begins at offset 116, and is damaged."""
    scan: Any = kseg.scan(FLIPPED)
    assert scan.to_table(filter=ds.field("offset") < 116).num_rows == 0
    with pytest.raises(kseg.DamageError):
        scan.to_table()


@pytest.mark.parametrize("mode", ["records", "batches"])
def test_a_batch_that_is_being_written_is_no_damage(mode: Any, tmp_path: Path) -> None:
    path = tmp_path / "orders-0" / f"{0:020}.log"
    path.parent.mkdir()
    path.write_bytes(batch([record(0)]) + batch([record(0, value=b"v" * 200)], base_offset=1)[:-50])
    assert kseg.scan(path, mode=mode, live=True).to_arrow().num_rows == 1
    with pytest.raises(kseg.DamageError):
        kseg.scan(path, mode=mode).to_arrow()


def test_pandas_reads_it() -> None:
    pytest.importorskip("pandas")
    frame = kseg.scan(TXN).to_pandas()
    assert list(frame["offset"]) == [record.offset for record in kseg.open(TXN).records()]


def test_polars_reads_it() -> None:
    polars = pytest.importorskip("polars")
    scan = kseg.scan(TXN)
    assert polars.DataFrame(scan).equals(scan.to_polars())
    assert polars.from_arrow(scan).equals(scan.to_polars())
    empty = kseg.scan(TXN, partitions=[])
    assert polars.from_arrow(empty).schema == polars.DataFrame(empty).schema == scan.to_polars().schema
    assert scan.to_polars()["value"].to_list() == [record.value for record in kseg.open(TXN).records()]


def test_it_is_shown_on_one_line() -> None:
    text = repr(kseg.scan([TXN, TXN], columns=["offset", "key"]))
    assert "\n" not in text
    assert "offset, key" in text
    assert "and 1 more" in text
    assert "parts: 1" in repr(kseg.scan(LARGE, columns=["offset"]).splits(1 << 30)[0])
