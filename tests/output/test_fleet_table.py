"""Summaries of many partitions: a line each, totals, formats and codecs."""

import pytest

from kseg.output.fleet_table import CENSUS_FIELDS, SUMMARY_FIELDS, FleetTable
from kseg.output.terminal import Paint


def summary(
    path: object, size: int, oldest: int | None = None, codec: str = "none", damaged: int = 0, dirty: int | None = None
) -> dict:
    form = {"format": "v2", "compression": codec, "batches": size, "bytes": size}
    return {
        "path": path, "bytes": size, "files": 2, "batches": size, "records": 10 * size, "forms": [form],
        "damagedBytes": damaged, "leastBaseTimestamp": oldest, "maxTimestamp": oldest,
        "cleaner": None if dirty is None else {"state": f"dirty {dirty}%", "dirtyBytes": dirty},
    }  # fmt: skip


def lines(sort: str, width: int = 200) -> list[str]:
    table = FleetTable(sort, Paint("never"), width)
    table.add(summary("/logs/b-0", 30, 1000))
    table.add(summary("/logs/a-0", 10, 2000, "lz4", 5, 7))
    table.add(summary({"base64": "L2xvZ3Mv/w=="}, 20, dirty=9))
    return table.text().splitlines()


@pytest.mark.parametrize(
    ("sort", "first"),
    [
        ("name", "a-0"), ("size", "b-0"), ("segments", "a-0"), ("batches", "b-0"), ("records", "b-0"),
        ("damage", "a-0"), ("oldest", "b-0"), ("newest", "a-0"), ("cleaner", "w=="),
    ],
)  # fmt: skip
def test_the_order(sort: str, first: str) -> None:
    assert sort in SUMMARY_FIELDS
    assert lines(sort)[1].split()[0] == first


def test_totals_and_formats() -> None:
    shown = lines("size")
    assert shown[4].split()[:6] == ["3", "partitions", "60", "B", "6", "60"]
    assert [line.split() for line in shown[6:]] == [
        ["FORMAT", "CODEC", "BATCHES", "SIZE", "PARTITIONS"],
        ["v2", "lz4", "10", "10", "B", "1"],
        ["v2", "none", "50", "50", "B", "2"],
    ]


def test_what_the_cleaner_waits_for() -> None:
    assert [line.endswith(cell) for line, cell in zip(lines("name")[1:], ("dirty 7%", "-"), strict=False)] == [True] * 2


def test_partitions_of_a_verification_have_numbers_of_findings() -> None:
    table = FleetTable("errors", Paint("never"), 200)
    table.add(summary("/logs/a-0", 10) | {"errors": 0, "warnings": 1})
    table.add(summary("/logs/b-0", 10) | {"errors": 2, "warnings": 0})
    assert "errors" in CENSUS_FIELDS
    title, first, second, total, *_ = table.text().splitlines()
    assert title.split()[7:9] == ["ERRORS", "WARNINGS"]
    assert [row.split()[0] for row in (first, second)] == ["b-0", "a-0"]
    assert "ERRORS" not in lines("name")[0]
    assert total.split()[-2:] == ["2", "1"]


def test_a_narrow_terminal_leaves_columns_out() -> None:
    assert all(len(line) <= 40 for line in lines("size", 40)[:5])
    assert "PARTITION" in lines("size", 40)[0]


def test_nothing_is_no_table() -> None:
    assert FleetTable("name", Paint("never"), 80).text() == ""
