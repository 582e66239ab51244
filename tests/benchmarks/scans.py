"""Speed of kseg.scan beside its peers: ``python -m benchmarks.scans`` in tests/.

All columns to Arrow, against a loop over aiokafka's parser into pyarrow, and pyarrow reading the same rows from
uncompressed Parquet; and a count by DuckDB, against a full check. ``--memory`` prints what a process holds that scans a
segment of the size, and one of four times the size. Only the ratios mean something elsewhere. Needs pyarrow, aiokafka
and duckdb.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from aiokafka.record.memory_records import MemoryRecords

import kseg
from benchmarks.process import timed
from benchmarks.segments import SEEDS, grown

KINDS = ("100b", "1k", "zstd")
CHUNK_RECORDS = 16384
SCAN = "import sys, kseg\nfor batch in kseg.scan(sys.argv[1]).batches(): pass"


def scanned(path: Path) -> int:
    with kseg.scan(path).batches() as reader:
        return sum(batch.num_rows for batch in reader)


def looped(path: Path, most_bytes: int) -> int:
    """The same columns, record by record, of the first bytes of a segment."""
    data = path.read_bytes()[:most_bytes]
    schema = kseg.scan(path).schema
    rows: list[tuple[Any, ...]] = []
    count = 0

    def flush() -> None:
        columns = list(zip(*rows, strict=True))
        pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
        )
        rows.clear()

    records = MemoryRecords(data)
    while (batch := records.next_batch()) is not None:
        if not batch.validate_crc():
            raise ValueError("a batch has a wrong checksum")
        for record in batch:
            headers = [{"key": key, "value": value} for key, value in record.headers]
            rows.append(
                (record.key, record.value, "orders", 0, record.offset, record.timestamp, record.timestamp_type, headers)
            )
            count += 1
            if len(rows) == CHUNK_RECORDS:
                flush()
    if rows:
        flush()
    return count


def counted(path: Path) -> None:
    scan = kseg.scan(path)
    duckdb.sql('select count(*), max("offset") from scan').fetchall()
    del scan


def best(measures: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The smallest time of each measure in seconds, all of them taken in turns."""
    found = dict.fromkeys(measures, float("inf"))
    for _ in range(rounds):
        for name, measure in measures.items():
            started = perf_counter()
            measure()
            found[name] = min(found[name], perf_counter() - started)
    return found


def print_memory(options: argparse.Namespace) -> None:
    """Prints the most anonymous memory of processes that scan all columns."""
    print(f"| input | {options.mib} MiB | {4 * options.mib} MiB |\n|---|---|---|")
    for kind in options.kinds.split(","):
        peaks = []
        for mib in (options.mib, 4 * options.mib):
            path = grown(SEEDS, kind, mib, options.folder)
            peaks.append(max(timed([sys.executable, "-c", SCAN, str(path)])[1] for _ in range(options.rounds)))
        print(f"| {kind} | {peaks[0] >> 20} | {peaks[1] >> 20} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scans", description=__doc__)
    parser.add_argument("--mib", type=int, default=256, help="size of each segment (default: 256)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which the best counts (default: 3)")
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"out of {','.join(KINDS)}")
    folder = Path(tempfile.gettempdir(), "kseg-benchmarks")
    parser.add_argument("--folder", type=Path, default=folder, help="where segments are kept")
    parser.add_argument("--memory", action="store_true", help="print memory instead of speed")
    options = parser.parse_args()
    if options.memory:
        print_memory(options)
        return
    print("| input | scan, GB/s | aiokafka : scan | scan : read_table | DuckDB : verify |\n|---|---|---|---|---|")
    for kind in options.kinds.split(","):
        path = grown(SEEDS, kind, options.mib, options.folder)
        table = path.with_suffix(".parquet")
        if not table.exists():
            pq.write_table(kseg.scan(path).to_arrow(), table, compression="none", use_dictionary=False)
        size = path.stat().st_size
        part = min(size, 16 << 20)
        found = best(
            {
                "scan": lambda path=path: scanned(path),
                "loop": lambda path=path, part=part: looped(path, part),
                "table": lambda table=table: pq.read_table(table),
                "count": lambda path=path: counted(path),
                "verify": lambda path=path: kseg.verify(path),
            },
            options.rounds,
        )
        loop = found["loop"] * size / part
        print(
            f"| {kind} | {size / found['scan'] / 1e9:.2f} | {loop / found['scan']:.1f} | "
            f"{found['scan'] / found['table']:.2f} | {found['count'] / found['verify']:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
