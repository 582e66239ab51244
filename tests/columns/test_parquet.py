"""Row groups that threads encode apart are one Parquet file: what pyarrow reads is what was written, in its order."""

from typing import Any

import pytest
from memory_output import Output

from kseg.columns import thrift
from kseg.columns.encoding import GroupEncoder
from kseg.columns.parquet import GroupWriter
from kseg.segment.pipeline import Pipeline

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")


def tables(groups: int, rows: int) -> list[Any]:
    return [
        pa.table(
            {
                "offset": pa.array(range(g * rows, (g + 1) * rows), pa.int64()),
                "key": pa.array([b"k%d" % (i % 7) for i in range(rows)], pa.binary()),
                "value": pa.array([None if i % 5 == 0 else b"%d-%d" % (g, i) * (i % 300) for i in range(rows)]),
                "headers": pa.array([[{"key": "h", "value": b"%d" % i}] * (i % 3) for i in range(rows)]),
            }
        )
        for g in range(groups)
    ]


def written(groups: list[Any], schema: Any, jobs: int, **options: Any) -> bytes:
    output = Output()
    with Pipeline(jobs, 1) as pipeline:
        writer = GroupWriter(output, schema, GroupEncoder(lambda _: options), pipeline)
        for table in groups:
            writer.write(table)
        writer.finish()
    return bytes(output.data)


@pytest.mark.parametrize("options", [{}, {"compression": "none", "use_dictionary": False},
                                     {"write_page_index": True, "write_statistics": ["offset"]}])  # fmt: skip
@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("groups", [1, 2, 20])
def test_groups_are_read_in_their_order(groups: int, jobs: int, options: dict[str, Any]) -> None:
    import pyarrow.parquet as pq

    wanted = tables(groups, 1000)
    data = written(wanted, wanted[0].schema, jobs, **options)
    file = pq.ParquetFile(pa.BufferReader(data))
    assert file.metadata.num_rows == groups * 1000
    assert file.metadata.num_row_groups == groups
    assert file.schema_arrow.equals(wanted[0].schema)
    for i in reversed(range(groups)):
        assert file.read_row_group(i).equals(wanted[i])
        statistics = file.metadata.row_group(i).column(0).statistics
        assert (statistics.min, statistics.max) == (i * 1000, i * 1000 + 999)
    assert pq.read_table(pa.BufferReader(data), filters=[("offset", "=", groups * 1000 - 1)]).num_rows == 1


def test_a_file_is_what_pyarrow_writes_at_once() -> None:
    """But for where a footer stands: the pages are the same, and so is all that is said about them."""
    import pyarrow.parquet as pq

    wanted = tables(3, 500)
    stream = pa.BufferOutputStream()
    with pq.ParquetWriter(stream, wanted[0].schema) as writer:
        for table in wanted:
            writer.write_table(table)
    assert written(wanted, wanted[0].schema, 2) == stream.getvalue().to_pybytes()


def test_no_group_at_all() -> None:
    import pyarrow.parquet as pq

    schema = tables(1, 1)[0].schema
    file = pq.ParquetFile(pa.BufferReader(written([], schema, 2)))
    assert (file.metadata.num_rows, file.metadata.num_row_groups) == (0, 0)
    assert file.schema_arrow.equals(schema)


def test_every_kind_of_value_comes_back() -> None:
    import struct

    nested = {1: thrift.Field(thrift.BINARY, b"x" * 200), 20: thrift.Field(thrift.TRUE, None)}
    kinds = thrift.Elements(thrift.I32, [*range(-20, 20), -(1 << 31), (1 << 31) - 1])
    fields = {
        1: thrift.Field(thrift.FALSE, None),
        2: thrift.Field(thrift.I64, -(1 << 63)),
        3: thrift.Field(thrift.I64, (1 << 63) - 1),
        4: thrift.Field(thrift.DOUBLE, struct.pack("<d", 0.5)),
        5: thrift.Field(thrift.LIST, kinds),
        6: thrift.Field(thrift.BYTE, 255),
        100: thrift.Field(thrift.LIST, thrift.Elements(thrift.STRUCT, [nested] * 3)),
        3000: thrift.Field(thrift.SET, thrift.Elements(thrift.TRUE, [1, 2])),
    }
    assert thrift.read(thrift.written(fields)) == fields
