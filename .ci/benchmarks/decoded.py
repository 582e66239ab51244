"""Speed of decoded values: ``python -m benchmarks.decoded``.

The CPU time of kseg.scan with values="decoded" to a table of structs, and of kseg dump and kseg convert with
--value-format avro, against a loop over the same values with fastavro alone. Needs pyarrow and fastavro.
"""

import io
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Any

import fastavro

import kseg
from benchmarks.process import KSEG, timed

TYPES = ["long", "string", ["null", "string"], "double", "boolean", "int", {"type": "array", "items": "string"}]
FIELDS = [*TYPES, {"type": "long", "logicalType": "timestamp-millis"}]
SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": f"f{i}", "type": each} for i, each in enumerate(FIELDS)],
}
COUNT = 200_000


def written(root: Path) -> Path:
    """Writes a log directory with schemas, and returns a partition of orders."""
    subject = {"subject": "orders-value", "version": 1}
    with kseg.writer(root / "_schemas-0") as writer:
        value = {**subject, "id": 7, "schema": json.dumps(SCHEMA)}
        writer.append(key=json.dumps({"keytype": "SCHEMA", **subject}).encode(), value=json.dumps(value).encode())
    with kseg.writer(root / "orders-0", codec="zstd") as writer:
        for i in range(COUNT):
            stream = io.BytesIO()
            row = [i, f"c{i % 100}", None if i % 3 else "note", i / 2, True, i % 7, ["a", "b"], 1_790_000_000_000 + i]
            fastavro.schemaless_writer(stream, SCHEMA, {f"f{j}": each for j, each in enumerate(row)})
            writer.append(value=b"\0\0\0\0\7" + stream.getvalue(), timestamp=i)
    return root / "orders-0"


def looped(partition: Path) -> None:
    schema = fastavro.parse_schema(SCHEMA)
    for value in kseg.scan(partition, columns=["value"]).to_arrow()["value"].to_pylist():
        fastavro.schemaless_reader(io.BytesIO(value[5:]), schema, None)


def cpu_seconds(work: Callable[..., Any], *arguments: Any) -> float:
    """Returns the CPU time of a call, and of the processes that it waits for."""

    def now() -> float:
        return sum(used.ru_utime + used.ru_stime for used in map(getrusage, (RUSAGE_SELF, RUSAGE_CHILDREN)))

    before = now()
    work(*arguments)
    return now() - before


def main() -> None:
    with tempfile.TemporaryDirectory() as root:
        partition, out = written(Path(root)), str(Path(root) / "out")
        alone = min(cpu_seconds(looped, partition) for _ in range(3))
        flags = ["--value-format", "avro", "-o", out, str(partition)]
        for name, work in {
            "kseg.scan": lambda: kseg.scan(partition, columns=["value"], values="decoded").to_arrow(),
            "kseg convert --to parquet": lambda: timed([*KSEG, "convert", "--to", "parquet", *flags]),
            "kseg dump --format json": lambda: timed([*KSEG, "dump", "--format", "json", *flags]),
        }.items():
            times = min(cpu_seconds(work) for _ in range(3)) / alone
            print(f"{name}: {times:.1f} times the CPU time of fastavro alone")


if __name__ == "__main__":
    main()
