"""What pyarrow alone takes for a table that is in memory: ``python -m tests.benchmarks.bare_table FILE.arrow OUTPUT``.

The floor under ``kseg convert --to parquet``: the same rows in the same row groups with the same options, no log read.
"""

import sys

import pyarrow as pa

from kseg.columns.tables import PARQUET, TableWriter


def main(source: str, output: str) -> None:
    with pa.memory_map(source) as mapped, open(output, "wb") as stream:
        reader = pa.ipc.open_file(mapped)
        writer = TableWriter(stream, PARQUET, reader.schema, None, None)
        for i in range(reader.num_record_batches):
            writer.add(reader.get_batch(i))
        writer.finish()


if __name__ == "__main__":
    main(*sys.argv[1:])
