"""Row groups hold what was added, in its order, and as much as they should, whoever encodes them."""

from typing import Any

import pytest
from memory_output import Output

from kseg.columns.tables import GROUP_BYTES, GROUP_ROWS, PARQUET, TableWriter
from kseg.segment.pipeline import Pipeline

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
MIB = 1 << 20


def batch(first: int, size: int, rows: int = 8) -> Any:
    """Rows whose offsets begin at ``first``, of so many bytes in all."""
    values = [bytes([first % 251]) * (size // rows - 12)] * rows
    return pa.record_batch({"offset": pa.array(range(first, first + rows), pa.int64()), "value": pa.array(values)})


def read(output: Output) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetFile(pa.BufferReader(bytes(output.data)))


@pytest.mark.parametrize(("sizes", "groups"), [
    ([], [0]),
    ([100], [8]),
    ([MIB] * 9, [32, 32, 8]),
    ([MIB] * 4 + [MIB // 4], [40]),
    ([MIB] * 4 + [MIB // 4, MIB, MIB // 4], [40, 16]),
    ([10 * MIB] * 2, [8, 8]),
])  # fmt: skip
def test_a_small_end_belongs_to_the_group_before_it(sizes: list[int], groups: list[int]) -> None:
    assert GROUP_BYTES == 4 * MIB
    output = Output()
    schema = batch(0, 1000).schema
    with Pipeline(1) as pipeline:
        writer = TableWriter(output, PARQUET, schema, None, None, pipeline)
        for group in writer.encoded(batch(8 * i, size) for i, size in enumerate(sizes)):
            writer.put(group)
        writer.finish()
    file = read(output)
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [
        count for count in groups if count
    ]
    assert file.read()["offset"].to_pylist() == list(range(8 * len(sizes)))


@pytest.mark.parametrize("rows", [8, 4096])
def test_no_number_of_small_batches_makes_a_large_group(rows: int) -> None:
    output = Output()
    schema = batch(0, 1000).schema
    with Pipeline(1) as pipeline:
        writer = TableWriter(output, PARQUET, schema, None, None, pipeline)
        for i in range(100):
            writer.add(batch(i * rows, MIB // 4, rows))
        writer.finish()
    metadata = read(output).metadata
    found = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    assert sum(found) == 100 * rows
    assert max(found) <= max(rows * 4 * (GROUP_BYTES + 2 * MIB) // MIB, GROUP_ROWS)
    assert min(found[:-1]) >= rows * 4 * GROUP_BYTES // MIB


@pytest.mark.parametrize("jobs", [1, 3])
def test_groups_that_are_put_come_behind_what_was_added(jobs: int) -> None:
    output = Output()
    schema = batch(0, 1000).schema
    with Pipeline(jobs, 1) as pipeline:
        writer = TableWriter(output, PARQUET, schema, None, None, pipeline)
        for i in range(0, 40, 2):
            writer.add(batch(8 * i, 2 * MIB))
            if i % 5 == 0:
                for group in writer.encoded([batch(8 * (i + 1), 1000)]):
                    writer.put(group)
            else:
                writer.add(batch(8 * (i + 1), 1000))
        writer.finish()
    assert read(output).read()["offset"].to_pylist() == list(range(320))
