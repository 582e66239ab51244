"""What a program in Python would do for a table: ``python -m benchmarks.row_loop FILE parquet|arrow OUTPUT``.

aiokafka's parser gives a record at a time, and lists of them go to pyarrow, with its defaults: the peer of
``kseg convert --to parquet``.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from aiokafka.record.memory_records import MemoryRecords

GROUP_ROWS = 1 << 17
NAMES = ("key", "value", "offset", "timestamp", "timestampType", "headers")
HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("key", pa.binary()), ("value", pa.binary()), ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", tz="UTC")), ("timestampType", pa.int32()), ("headers", HEADERS),
    ]
)  # fmt: skip


def batches(data: bytes, rows: int, checks: bool = False) -> Iterator[pa.RecordBatch]:
    """The records of a segment, so many in each record batch; ``checks``: checksums too."""
    columns: list[list[Any]] = [[] for _ in NAMES]
    records = MemoryRecords(data)
    while (batch := records.next_batch()) is not None:
        if checks and not batch.validate_crc():
            raise ValueError("a batch has a wrong checksum")
        for record in batch:
            headers = [{"key": key, "value": value} for key, value in record.headers]
            row = (record.key, record.value, record.offset, record.timestamp, record.timestamp_type, headers)
            for column, value in zip(columns, row, strict=True):
                column.append(value)
        if len(columns[0]) >= rows:
            yield _batch(columns)
    yield _batch(columns)


def _batch(columns: list[list[Any]]) -> pa.RecordBatch:
    arrays = [pa.array(column, kind) for column, kind in zip(columns, SCHEMA.types, strict=True)]
    for column in columns:
        column.clear()
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def export(path: Path, form: str, output: Path) -> None:
    with pq.ParquetWriter(output, SCHEMA) if form == "parquet" else pa.ipc.new_file(output, SCHEMA) as writer:
        for batch in batches(path.read_bytes(), GROUP_ROWS):
            writer.write_batch(batch)


if __name__ == "__main__":
    export(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
