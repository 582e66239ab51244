"""The columns that a query needs, and filters that stay with their query, in a session where kseg is registered."""

import logging
import re
from pathlib import Path
from typing import Any

import pytest

TESTDATA = Path(__file__).resolve().parent.parent.parent / "testdata"
PARTITION = TESTDATA / "kafka-4.3.1/clients/librdkafka-gzip-0"
DAMAGED = TESTDATA / "damaged/4.3.1-last-length-zero/dplain-0"

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def registered(spark: Any) -> Any:
    import kseg.spark

    kseg.spark.register(spark)
    return spark


def reading(session: Any, **options: str) -> Any:
    return session.read.format("kseg").options(**options).load(str(PARTITION))


def columns_read(frame: Any) -> list[list[str]]:
    """Returns the columns of each scan of kseg in the plan of a query."""
    plan = frame._jdf.queryExecution().executedPlan().toString()
    return [re.findall(r"(\w+)#", columns) for columns in re.findall(r"BatchScan kseg\[([^\]]*)\]", plan)]


def test_a_query_reads_the_columns_that_it_needs(registered: Any) -> None:
    frame = reading(registered)
    values = frame.where("offset >= 235 and key is not null").selectExpr("length(value) as size")
    assert columns_read(values) == [["key", "value", "offset"]]
    assert values.count() == 5
    joined = frame.select("offset", "key").join(frame.select("offset", "timestamp").where("offset < 9"), "offset")
    assert columns_read(joined) == [["key", "offset"], ["offset", "timestamp"]]
    assert joined.count() == 9
    assert columns_read(frame) == [frame.columns]


def test_a_count_sums_those_of_batch_headers(registered: Any) -> None:
    frame = registered.read.format("kseg").load(str(DAMAGED))
    count = frame.groupBy().count()
    assert columns_read(count) == [["count"]]
    assert count.first()[0] == frame.count() == len(frame.collect()) > 0
    twice = frame.where("true").selectExpr("count(*) + 0 as more", "count(1) as n")
    assert twice.first()[:] == (frame.count(), frame.count())
    chosen = reading(registered, startOffset="5", endOffset="9", Mode="Records").select("value")
    assert columns_read(chosen.groupBy().count()) == [["count"]]
    assert chosen.count() == 5
    assert reading(registered, startOffset="1000").count() == 0


def test_other_counts_read_the_columns_that_they_need(registered: Any) -> None:
    frame, batches = reading(registered), reading(registered, mode="batches")
    for counts, columns, expected in (
        (frame.selectExpr("count(key)"), ["key"], len([row for row in frame.collect() if row.key is not None])),
        (frame.selectExpr("count(distinct 1)"), ["partition"], 1),
        (frame.selectExpr("count(*) filter (where offset < 3)"), ["offset"], 3),
        (frame.where("offset < 7").groupBy().count(), ["offset"], 7),
        (frame.limit(9).groupBy().count(), ["partition"], 9),
        (frame.groupBy("partition").count().select("count"), ["partition"], 240),
        (batches.groupBy().count(), ["partition"], len(batches.collect())),
    ):
        assert columns_read(counts) == [columns]
        assert counts.first()[0] == expected


def test_other_modes_are_pruned(registered: Any) -> None:
    frame = reading(registered, mode="batches").agg({"count": "sum"})
    assert columns_read(frame) == [["count"]]
    assert frame.first()[0] == 240


def test_a_table_of_the_catalog_keeps_its_options(registered: Any) -> None:
    registered.sql(f"create table pruned using kseg options (path '{PARTITION}', endOffset '7')")
    try:
        largest = registered.sql("select max(offset) from pruned")
        assert columns_read(largest) == [["offset"]]
        assert largest.first()[0] == 7
        assert registered.sql("select count(*) from pruned").first()[0] == 8
    finally:
        registered.sql("drop table pruned")


def test_pushed_filters_stay_with_their_query(registered: Any) -> None:
    """Spark keeps them in the source, which all queries of a DataFrame share."""
    frame = reading(registered)
    assert frame.where("offset >= 235").count() == 5
    assert frame.count() == len(frame.collect()) == 240
    ends = frame.where("offset < 2").unionByName(frame.where("offset >= 238"))
    assert sorted(row.offset for row in ends.collect()) == [0, 1, 238, 239]


def test_a_session_gets_the_rule_once(registered: Any, caplog: pytest.LogCaptureFixture) -> None:
    import kseg.spark

    kseg.spark.register(registered)
    rules = registered._jsparkSession.experimental().extraOptimizations()
    assert [rules.apply(k).ruleName() for k in range(rules.size())] == ["kseg.spark.ColumnPruning"]
    assert not caplog.records


def test_a_refused_rule_is_reported(registered: Any, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    import kseg.spark.session as pruning

    (tmp_path / "ColumnPruning.java").write_text("public class ColumnPruning extends Nothing {}")
    fresh = registered.newSession()
    with pytest.MonkeyPatch.context() as patch, caplog.at_level(logging.WARNING, "kseg.spark"):
        patch.setattr(pruning, "files", lambda package: tmp_path)
        assert not pruning.prune_columns(fresh)
    assert "queries read all columns of format kseg" in caplog.text
    assert '"Nothing"' in caplog.text.splitlines()[0]
    assert pruning.prune_columns(fresh)
