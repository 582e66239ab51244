"""Filters of pyarrow give the rows of the whole table, and read only what they can match."""

import datetime
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kseg
from examples import fewer
from export.chunk_rows import read_rows
from segment.segments import TESTDATA

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
ds = pytest.importorskip("pyarrow.dataset", reason="pyarrow has no datasets")
pc = pytest.importorskip("pyarrow.compute", reason="pyarrow is not installed")

from kseg.export.pushdown import ALL_ROWS, NO_ROWS, Bounds, bounds_of_filter, columns_of  # noqa: E402 - needs pyarrow
from kseg.export.scanning import ScanRequest  # noqa: E402 - needs pyarrow

COMMITTED = TESTDATA / "kafka-4.3.1/committed"
MIXED = TESTDATA / "kafka-2.8.2/upgraded-from-0.8.2.2/one-mixcodec-0"
MANY = TESTDATA / "verify/4.3.1-transactions/dtxn-0"
UTC = "UTC"
TABLES = {path: kseg.scan(path).to_arrow() for path in (COMMITTED, MIXED, MANY)}
column = ds.field


def literals(name: str, table: Any) -> st.SearchStrategy[Any]:
    """Returns values of a column and others near them, of all types that pyarrow compares with it."""
    found = table[name].drop_null().unique()
    values = st.sampled_from(found.to_pylist() or [b"none"])
    if name == "timestamp":
        micros = st.sampled_from(found.cast(pa.int64()).to_pylist() or [0]).map(lambda ms: ms * 1000)
        near = st.tuples(micros, st.integers(-1500, 1500)).map(sum)
        return near.map(lambda us: pa.scalar(us, pa.timestamp("us", UTC))) | near.map(
            lambda us: pa.scalar(us // 1000, pa.timestamp("ms", UTC))
        )
    if name in ("offset", "partition"):
        near = st.tuples(values, st.integers(-3, 3)).map(sum)
        return near | near.map(float) | near.map(lambda number: number + 0.5) | st.just(pa.scalar(None, pa.int64()))
    return values | st.just("nowhere") if name == "topic" else values | st.just(b"no key")


def comparisons(table: Any) -> st.SearchStrategy[Any]:
    def of(name: str) -> st.SearchStrategy[Any]:
        values, kind = literals(name, table), table[name].type
        operators = st.sampled_from(["__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"])
        compared = st.builds(lambda operator, value: getattr(column(name), operator)(value), operators, values)
        swapped = values.map(lambda value: pc.less(pc.scalar(value), column(name)))
        some = st.lists(values.filter(lambda value: not isinstance(value, float)), max_size=3)
        cast = some.map(
            lambda given: [each.cast(kind, safe=False) if isinstance(each, pa.Scalar) else each for each in given]
        )
        chosen = cast.map(lambda given: column(name).isin(pa.array(given, kind)))
        return compared | swapped | chosen | st.sampled_from([column(name).is_valid(), column(name).is_null()])

    return st.sampled_from(["offset", "timestamp", "topic", "partition", "key"]).flatmap(of)


def filters(table: Any) -> st.SearchStrategy[Any]:
    return st.recursive(
        comparisons(table) | st.sampled_from([pc.scalar(True), pc.scalar(False)]),
        lambda inner: (
            st.builds(lambda one, two: one & two, inner, inner)
            | st.builds(lambda one, two: one | two, inner, inner)
            | inner.map(lambda one: ~one)
            | inner.map(lambda one: pc.if_else(one.is_valid(), one, pa.scalar(None, pa.bool_())))
        ),
        max_leaves=5,
    )


@pytest.mark.slow
@pytest.mark.hypothesis
@fewer(6)
@given(st.data())
def test_a_filter_gives_the_rows_of_the_whole_table(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from([*TABLES]))
    table = TABLES[path]
    chosen = data.draw(filters(table))
    names = data.draw(st.none() | st.lists(st.sampled_from(table.column_names), unique=True, min_size=1))
    scan: Any = kseg.scan(path)
    wanted = table.filter(chosen)
    assert scan.to_table(columns=names, filter=chosen).equals(wanted if names is None else wanted.select(names))
    assert scan.count_rows(filter=chosen) == wanted.num_rows
    parts = [split.to_table(filter=chosen) for split in scan.splits(data.draw(st.sampled_from([300, 5000])))]
    assert pa.concat_tables(parts).combine_chunks().equals(wanted.combine_chunks())


MOMENT = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
MS = 1767225600000


@pytest.mark.parametrize(
    ("chosen", "bounds"),
    [
        (column("offset") == 5, Bounds(5, 5)),
        (pc.scalar(5) < column("offset"), Bounds(6)),
        ((column("offset") >= 5) & (column("offset") < 9), Bounds(5, 8)),
        ((column("offset") == 5) | (column("offset") == 9), Bounds(5, 9)),
        (column("offset").isin([9, 5]), Bounds(5, 9)),
        (column("offset").isin([]), NO_ROWS),
        (pc.if_else(column("key").is_valid(), column("offset") == 5, pa.scalar(None, pa.bool_())), Bounds(5, 5)),
        (column("timestamp") <= MOMENT, Bounds(latest_ms=MS)),
        (column("timestamp") > pa.scalar(MS * 1000 + 1, pa.timestamp("us", UTC)), Bounds(earliest_ms=MS + 1)),
        (column("timestamp") < pa.scalar(MS * 1000 + 1, pa.timestamp("us", UTC)), Bounds(latest_ms=MS)),
        (column("timestamp") == pa.scalar(MS // 1000, pa.timestamp("s", UTC)), Bounds(earliest_ms=MS, latest_ms=MS)),
        (
            column("timestamp") >= pa.scalar(MS * 1_000_000 + 1, pa.timestamp("ns", UTC)), Bounds(earliest_ms=MS + 1)
        ),
        (column("topic").isin(["a", "b"]) & (column("topic") == "b"), Bounds(topics=frozenset("b"))),
        ((column("partition") == 3) & (column("offset") > 5), Bounds(6, partitions=frozenset([3]))),
        ((column("topic") == "a") | (column("topic") == "b"), Bounds(topics=frozenset("ab"))),
        ((column("topic") == "a") | (column("offset") == 5), ALL_ROWS),
        (column("key") == b"k", Bounds(keys=frozenset([b"k"]))),
        ((column("offset") == 5) & (column("key") != b"k") & (column("value") == b"v"), Bounds(5, 5)),
        (column("offset") == pa.scalar(None, pa.int64()), NO_ROWS),
        (column("offset") == 5.0, ALL_ROWS),
        (~(column("offset") == 5), ALL_ROWS),
        (column("offset") + 1 == 5, ALL_ROWS),
        (pc.field("headers", "key") == "k", ALL_ROWS),
        (pc.field("a\nfield_ref: 'offset'\nb") == 5, ALL_ROWS),
    ],
    ids=lambda given: "" if isinstance(given, Bounds) else str(given),
)  # fmt: skip
def test_bounds_of_a_filter(chosen: Any, bounds: Bounds) -> None:
    found = bounds_of_filter(chosen)
    assert found == bounds or (found.is_empty and bounds.is_empty)


def test_one_key_is_searched_for_and_several_are_not() -> None:
    request = ScanRequest((str(MANY),))
    assert request.within(Bounds(keys=frozenset([b"a"]))).wanted.keys == {b"a"}
    log = next(MANY.glob("*.log"))
    assert read_rows(log, Bounds(keys=frozenset([b"a", b"b"]))) == read_rows(log) != []


def test_columns_of_a_filter() -> None:
    assert columns_of((column("offset") == 5) & pc.field("headers", "key").is_valid()) == {"offset", "headers"}
    assert columns_of("offset = 5") is None


@pytest.mark.skipif(os.name != "posix", reason="names of files are text")
def test_a_topic_is_compared_as_it_is_shown(tmp_path: Path) -> None:
    shutil.copytree(MANY, tmp_path / os.fsdecode(b"a\xff-0"))
    scan: Any = kseg.scan(tmp_path)
    assert set(scan.to_table()["topic"].to_pylist()) == {"a\ufffd"}
    assert scan.count_rows(column("topic") == "a\ufffd") == scan.count_rows() > 0


def unreadable_but(folder: Path, kept: int) -> int:
    """Copies a partition, of whose segments only one can be read. Returns the offset of the first record in it."""
    shutil.copytree(MANY, folder)
    segments = sorted(folder.glob("*.log"))
    for i, path in enumerate(segments):
        if i != kept:
            path.unlink()
            path.symlink_to("nowhere")
    return next(kseg.open(segments[kept]).records()).offset


def test_segments_out_of_range_are_not_opened(tmp_path: Path) -> None:
    first = unreadable_but(tmp_path / "dtxn-0", 1)
    unreadable_but(tmp_path / "other-0", 0)
    scan: Any = kseg.scan(tmp_path)
    wanted = (column("offset") == first) & (column("topic") == "dtxn")
    assert scan.to_table(filter=wanted)["offset"].to_pylist() == [first]
    assert scan.to_table(filter=(column("topic") == "absent")).num_rows == 0
    assert scan.to_table(filter=wanted & (column("topic") == "other")).num_rows == 0
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    query = f'from scan select "offset" where topic in (\'dtxn\') and "offset" = {first}'
    assert duckdb.sql(query).fetchall() == [(first,)]
    polars = pytest.importorskip("polars", reason="polars is not installed")
    frame = polars.scan_pyarrow_dataset(scan)
    found = frame.filter(polars.col("offset") == first, polars.col("topic") == "dtxn").select("offset").collect()
    assert found.rows() == [(first,)]
    datafusion = pytest.importorskip("datafusion", reason="datafusion is not installed")
    context = datafusion.SessionContext()
    context.register_dataset("scan", scan)
    (batch,) = context.sql(f'select "offset" from scan where topic = \'dtxn\' and "offset" = {first}').collect()
    assert batch.to_pydict() == {"offset": [first]}
