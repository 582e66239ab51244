"""Scans as datasets of pyarrow: who asks for some columns makes kseg decode no others."""

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kseg
from api.consumed import TESTDATA
from kernel.rendering import batch, record

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
ds = pytest.importorskip("pyarrow.dataset", reason="pyarrow has no datasets")

TXN = TESTDATA / "kafka-4.3.1/clients/librdkafka-txn-0"
COMMITTED = TESTDATA / "kafka-4.3.1/committed"
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
    scan: Any = kseg.scan(TXN)
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
    with pytest.raises(pa.ArrowInvalid, match="absent"):
        scan.scanner(columns=["absent"])


def test_rows_are_counted_without_records(sealed: Path) -> None:
    scan: Any = kseg.scan(sealed, columns=["key", "value"])
    assert scan.count_rows() == 5
    assert sum(split.count_rows() for split in pickle.loads(pickle.dumps(scan.splits(50)))) == 5


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "read",
    [
        "scan.head(2)",
        "next(iter(scan.to_batches()))",
        "scan.scanner(columns=['value']).to_reader().read_next_batch()",
        "import duckdb; duckdb.sql('select topic, value from scan limit 1').fetchall()",
        "import polars; polars.scan_pyarrow_dataset(scan).head(2).collect()",
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
        lambda scan: next(iter(scan.get_fragments())).to_table(),
        lambda scan: scan.replace_schema(scan.schema).to_table(),
        lambda scan: scan.sort_by("offset"),
        lambda scan: scan.filter(ds.field("offset") > 1),
    ],
    ids=["scanner", "union", "fragment", "schema", "sort", "filter"],
)
def test_what_bypasses_the_scanner_is_refused(read: Callable[[kseg.Scan], object]) -> None:
    with pytest.raises(kseg.UnsupportedError):
        read(kseg.scan(TXN, columns=["offset"]))


def test_a_dataset_is_written(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    ds.write_dataset(kseg.scan(TXN), tmp_path / "out", format="parquet")
    (written,) = (tmp_path / "out").iterdir()
    assert pq.read_table(written)["offset"].equals(kseg.scan(TXN).to_arrow()["offset"])
