"""What pyarrow alone takes for a table that is in memory: ``python -m benchmarks.bare_table FILE.arrow OUTPUT``.

The floor under ``kseg convert --to parquet``: the same rows in the same row groups with the same options, no log read.
"""

import sys

from kseg.conversion.record_files import PARQUET, TableWriter, prepare_pyarrow
from kseg.output.sink import open_sink


def main(source: str, output: str) -> None:
    prepare_pyarrow()
    import pyarrow as pa

    with pa.memory_map(source) as mapped, open_sink(output) as sink:
        reader = pa.ipc.open_file(mapped)
        with TableWriter(sink, PARQUET, reader.schema, None, None) as writer:
            for i in range(reader.num_record_batches):
                writer.add(reader.get_batch(i))


if __name__ == "__main__":
    main(*sys.argv[1:])
