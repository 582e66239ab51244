"""Compaction on Spark as one would write it with aiokafka, to be measured beside kseg's: keys and offsets are shuffled,
the survivors grouped by segment, each segment decoded and built anew. It knows v2 without compression, no tombstones,
no transactions, no indexes.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def batches(data: bytes) -> Iterator[Any]:
    from aiokafka.record.default_records import DefaultRecordBatch

    at = 0
    while at < len(data):
        size = 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        batch = DefaultRecordBatch(data[at : at + size])
        assert batch.validate_crc()
        yield batch
        at += size


def keys_of(tables: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa

    for table in tables:
        for path in table.column(0).to_pylist():
            keys, offsets = [], []
            for batch in batches(Path(path).read_bytes()):
                for record in batch:
                    keys.append(record.key)
                    offsets.append(record.offset)
            for first in range(0, len(keys), 50_000):
                part = slice(first, first + 50_000)
                yield pa.RecordBatch.from_arrays(
                    [pa.array(keys[part], pa.binary()), pa.array(offsets[part])], ["k", "o"]
                )


def rewritten(path: str, kept: set[int], target: Path) -> int:
    from aiokafka.record.default_records import DefaultRecordBatchBuilder

    with target.open("wb") as out:
        for batch in batches(Path(path).read_bytes()):
            records = [record for record in batch if record.offset in kept]
            if not records:
                continue
            first = records[0].offset
            builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 30)
            for record in records:
                builder.append(record.offset - first, record.timestamp, record.key, record.value, record.headers)
            data = builder.build()
            data[:8] = first.to_bytes(8, "big")
            out.write(data)
        return out.tell()


def compact(spark: Any, partition: Path, target: Path) -> int:
    """Bytes that came out."""
    import pyarrow as pa
    import pyspark.sql.functions as f

    paths = sorted(map(str, partition.glob("*.log")))
    bases = [int(os.path.basename(path)[:20]) for path in paths]
    files = spark.createDataFrame([(path,) for path in paths], "path string").repartition(len(paths))
    latest = files.mapInArrow(keys_of, "k binary, o bigint").groupBy("k").agg(f.max("o").alias("o")).select("o")
    segment = sum((f.col("o") >= base).cast("int") for base in bases[1:]) + f.lit(0)

    def rewrite(key: Any, table: Any) -> Any:
        number = key[0].as_py()
        size = rewritten(paths[number], set(table.column("o").to_pylist()), target / os.path.basename(paths[number]))
        return pa.table({"bytes": [size]})

    done = latest.withColumn("segment", segment).groupBy("segment").applyInArrow(rewrite, "bytes bigint")
    return sum(row.bytes for row in done.collect())
