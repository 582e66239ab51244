"""Speed of kseg.scan beside its peers: ``python -m benchmarks.scans``.

All columns to Arrow, against a loop over aiokafka's parser into pyarrow, and pyarrow reading the same rows from
uncompressed Parquet; and a count by DuckDB, against a full check. ``--memory`` prints what a process holds that scans a
segment of the size, and one of four times the size; ``--filters`` the CPU time of queries for one offset, by filters
against the argument ``offsets``. Only the ratios mean something elsewhere. Needs pyarrow, aiokafka, duckdb, polars and
datafusion.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import kseg
from benchmarks.process import best, parser_of, timed
from benchmarks.segments import SEEDS, grown

KINDS = ("100b", "1k", "zstd")
CHUNK_RECORDS = 16384
SCAN = "import sys, kseg\nfor batch in kseg.scan(sys.argv[1]).batches(): pass"


def scanned(path: Path) -> int:
    with kseg.scan(path).batches() as reader:
        return sum(batch.num_rows for batch in reader)


def looped(path: Path, most_bytes: int) -> int:
    """The same columns, record by record, of the first bytes of a segment."""
    from benchmarks.row_loop import batches  # aiokafka's

    return sum(batch.num_rows for batch in batches(path.read_bytes()[:most_bytes], CHUNK_RECORDS, checks=True))


def counted(path: Path) -> None:
    scan = kseg.scan(path)
    duckdb.sql('select count(*), max("offset") from scan').fetchall()
    del scan


def seconds(
    measure: Callable[..., object], *arguments: Any, clock: Callable[[], float] = perf_counter
) -> Callable[[], float]:
    def timed_once() -> float:
        started = clock()
        measure(*arguments)
        return clock() - started

    return timed_once


def print_memory(options: argparse.Namespace) -> None:
    """Prints the most anonymous memory of processes that scan all columns."""
    print(f"| input | {options.mib} MiB | {4 * options.mib} MiB |\n|---|---|---|")
    for kind in options.kinds.split(","):
        peaks = []
        for mib in (options.mib, 4 * options.mib):
            path = grown(SEEDS, kind, mib, options.folder)
            peaks.append(max(timed([sys.executable, "-c", SCAN, str(path)])[1] for _ in range(options.rounds)))
        print(f"| {kind} | {peaks[0] >> 20} | {peaks[1] >> 20} |", flush=True)


def print_filters(options: argparse.Namespace) -> None:
    """Prints the CPU time of reading one of 1.5 million records, in segments of 8 MiB."""
    import datafusion
    import polars

    path = options.folder / "filters-0"
    if not path.exists():
        values = pa.table({"value": pa.array([b"x" * 60] * 1_500_000, pa.binary())})
        with kseg.writer(path, segment_bytes=8 << 20) as writer:
            writer.extend(values)
    scan, wanted = kseg.scan(path), 300_000
    sql, context = f'select * from scan where "offset" = {wanted}', datafusion.SessionContext()
    context.register_dataset("scan", scan)
    queries: dict[str, Callable[[], object]] = {
        "offsets=": lambda: kseg.scan(path, offsets=(wanted, wanted)).to_arrow(),
        "pyarrow": lambda: scan.to_table(filter=pc.field("offset") == wanted),
        "DuckDB": lambda scan=scan: duckdb.sql(sql).fetchall(),  # type: ignore[misc]
        "polars": lambda: polars.scan_pyarrow_dataset(scan).filter(polars.col("offset") == wanted).collect(),
        "DataFusion": lambda: context.sql(sql).collect(),
        "no index": lambda: scan.to_table(filter=pc.field("offset") + 0 == wanted),
    }
    found = best({name: seconds(query, clock=process_time) for name, query in queries.items()}, options.rounds)
    print("| query | CPU ms | times offsets= |\n|---|---|---|")
    for name, spent in found.items():
        print(f"| {name} | {1000 * spent:.2f} | {spent / found['offsets=']:.1f} |", flush=True)


def main() -> None:
    parser = parser_of(__doc__, 256, kinds=KINDS)
    parser.add_argument("--memory", action="store_true", help="print memory instead of speed")
    parser.add_argument("--filters", action="store_true", help="print the CPU time of filters instead")
    options = parser.parse_args()
    if options.filters:
        print_filters(options)
        return
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
                "scan": seconds(scanned, path),
                "loop": seconds(looped, path, part),
                "table": seconds(pq.read_table, table),
                "count": seconds(counted, path),
                "verify": seconds(kseg.verify, path),
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
