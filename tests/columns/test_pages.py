"""What a row group's pages are made with: dictionaries for what may repeat, and pieces of about the same size."""

from typing import Any

import pytest

from kseg.columns.encoding import GroupEncoder
from kseg.columns.pages import PAGE_BYTES, page_options

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
ROWS = 4000


def values(kinds: int, size: int = 1000, rows: int = ROWS) -> list[bytes]:
    return [b"%0*d" % (size, i % kinds) for i in range(rows)]


def dictionaries(column: Any) -> list[str]:
    table = pa.table({"key": pa.array([b"k"] * len(column)), "value": column})
    found: list[str] = page_options(table, ["key", "value", "absent", "headers.list.element.key"])["use_dictionary"]
    return [name for name in found if name == "value"]


@pytest.mark.parametrize(("given", "may_pay"), [
    (values(ROWS), False),
    (values(ROWS)[:-500] + [None] * 500, False),
    ([None, *values(ROWS)[1:]], False),
    (values(ROWS, size=20), False),
    (values(100, rows=100), False),
    (values(2), True),
    (values(ROWS // 8), True),
    (values(ROWS // 2), False),  # come twice, but the dictionary would have 2 MiB
    (values(ROWS // 8, size=20), True),
    (values(4096, size=20, rows=40_960), True),
    (sorted(values(ROWS // 2, size=20)), True),
    ([None] * ROWS, True),
    ([b""] * ROWS, True),
    ([], True),
    ([b"%d" % (i % 2) + b"x" * 4000 + b"%d" % (i % 3) for i in range(ROWS)], True),
    ([b"x" * 4000 + b"%d" % i for i in range(ROWS)], False),
    ([b"%d" % i + b"x" * 4000 for i in range(ROWS)], False),
    ([b"x" * i for i in range(ROWS)], False),
])  # fmt: skip
def test_values_that_hardly_repeat_have_no_dictionary(given: list[bytes | None], may_pay: bool) -> None:
    whole = pa.array(given, pa.binary())
    parts = pa.chunked_array([whole[:700], whole[700:].slice(0, 800), pa.array([], pa.binary()), whole[1500:]])
    for column in (whole, parts, pa.array([b"x", *given], pa.binary())[1:]):
        assert dictionaries(column) == ["value"] * may_pay


@pytest.mark.parametrize(("milliseconds", "may_pay"), [
    (range(ROWS), False), ([i // 2 for i in range(ROWS)], True), ([0, None] * ROWS, True), ([5], True), ([], True),
])  # fmt: skip
def test_times_that_hardly_repeat_have_no_dictionary(milliseconds: Any, may_pay: bool) -> None:
    table = pa.table({"timestamp": pa.array(milliseconds, pa.timestamp("us", tz="UTC"))})
    assert page_options(table, ["timestamp"])["use_dictionary"] == ["timestamp"] * may_pay


def test_other_columns_keep_theirs() -> None:
    table = pa.table({"topic": pa.array(["t" * 1000] * ROWS), "value": pa.array(values(ROWS), pa.binary())})
    asked = ["topic", "value", "absent", "headers.list.element.key"]
    assert page_options(table, asked)["use_dictionary"] == ["topic", "absent", "headers.list.element.key"]
    assert page_options(table.slice(0, 0), asked)["use_dictionary"] == asked


@pytest.mark.parametrize(("size", "most"), [(10, 1024), (1100, 128), (PAGE_BYTES, 1), (20 * PAGE_BYTES, 1)])
def test_no_more_rows_at_once_than_fill_a_page(size: int, most: int) -> None:
    import pyarrow.parquet as pq

    rows = max(20, min(2 * PAGE_BYTES // size * 10, 50_000))
    table = pa.table({"value": pa.array(values(rows, size, rows), pa.binary())})
    options = page_options(table, ["value"])
    assert 0.85 * most <= options["write_batch_size"] <= most
    group = GroupEncoder(lambda _: options | {"compression": "none", "write_page_index": True}).encode(table)
    file = pq.ParquetFile(pa.BufferReader(bytes(group.file)))
    assert file.read().equals(table)
    encodings = file.metadata.row_group(0).column(0).encodings
    assert ("RLE_DICTIONARY" in encodings) == ("value" in options["use_dictionary"])
