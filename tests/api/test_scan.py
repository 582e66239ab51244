"""`kseg.scan`: the rows that a real consumer got, as Arrow columns, and who reads them."""

import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest

import kseg
from api.consumed import CONSUMED, TESTDATA, id_of, partition_of, rows_of

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

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
        assert (None if time == -1 else time) == want["timestamp"]
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


def test_a_key_is_chosen() -> None:
    everything = table_rows(kseg.scan(TXN))
    key = everything[0]["key"]
    assert table_rows(kseg.scan(TXN, key=key)) == [row for row in everything if row["key"] == key]


@pytest.mark.parametrize(
    "arguments",
    [{"columns": ["offsets"]}, {"columns": []}, {"columns": ["key", "key"]}, {"isolation": "x"}, {"on_damage": "x"}],
    ids=str,
)
def test_arguments_that_mean_nothing_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(kseg.RequestError):
        kseg.scan(TXN, **arguments)
    with pytest.raises(kseg.RequestError):
        kseg.scan(TXN).splits(0)


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


def test_pandas_reads_it() -> None:
    pytest.importorskip("pandas")
    frame = kseg.scan(TXN).to_pandas()
    assert list(frame["offset"]) == [record.offset for record in kseg.open(TXN).records()]


def test_polars_reads_it() -> None:
    polars = pytest.importorskip("polars")
    scan = kseg.scan(TXN)
    assert polars.DataFrame(scan).equals(scan.to_polars())
    assert scan.to_polars()["value"].to_list() == [record.value for record in kseg.open(TXN).records()]


def test_duckdb_reads_it() -> None:
    duckdb = pytest.importorskip("duckdb")
    scan = kseg.scan(TXN)
    records = list(kseg.open(TXN).records())
    found = duckdb.sql('select count(*), max("offset") from scan').fetchall()
    assert found == [(len(records), records[-1].offset)]
    del scan


def test_it_is_shown_on_one_line() -> None:
    text = repr(kseg.scan([TXN, TXN], columns=["offset", "key"]))
    assert "\n" not in text
    assert "offset, key" in text
    assert "and 1 more" in text
    assert "parts: 1" in repr(kseg.scan(LARGE, columns=["offset"]).splits(1 << 30)[0])
