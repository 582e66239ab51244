"""Converts real partitions to new folders and reads the results."""

import gzip
import json
from base64 import b64decode
from pathlib import Path
from typing import Any

from kseg.conversion.options import ConvertOptions
from kseg.conversion.partition import Converted
from kseg.conversion.planner import complete, rewrite, segments_of
from kseg.segment.items import Batch
from segment.reading import items_at

TESTDATA = Path(__file__).resolve().parents[2] / "testdata"


def options(codec: str | None = None, magic: int | None = None, **asked: Any) -> ConvertOptions:
    """Returns options of two threads that keep whatever is not asked for. ``magic``: the format."""
    form = None if magic is None else f"v{magic}"
    return ConvertOptions(form=form, codec=codec, **{"interval_bytes": 1024, "jobs": 2, **asked})


def convert(source: Path, folder: Path, codec: str | None = None, **asked: Any) -> Converted:
    """Converts the partition to ``folder``."""
    folder.mkdir(parents=True)
    made = rewrite(str(source), segments_of(str(source)), str(source), options(codec, **asked), str(folder))
    complete(str(folder), str(source), made.carried)
    return made


def a_log(partition: Path, *entries: bytes) -> Path:
    """Writes a partition with one segment of these batches. Returns its directory."""
    partition.mkdir(parents=True)
    (partition / f"{0:020d}.log").write_bytes(b"".join(entries))
    return partition


def batches_of(partition: Path) -> list[Batch]:
    """Returns all batches; together they cover every byte of the segments."""
    found = list(items_at(partition))
    assert all(isinstance(item, Batch) and not item.check() for item in found)
    return found  # type: ignore[return-value]


def records_of(partition: Path, with_headers: bool = True, with_times: bool = True) -> list[tuple[Any, ...]]:
    """Returns offset, timestamp and its type, key, value and headers of all records except control records."""
    return [
        (
            record.offset,
            (record.timestamp, record.timestamp_type) if with_times and record.timestamp not in (None, -1) else None,
            record.key,
            record.value,
            [(header.key, header.value) for header in record.headers] if with_headers else [],
        )
        for batch in batches_of(partition)
        if not batch.is_control
        for record in batch
    ]


def consumed(partition: Path, isolation: str = "read_uncommitted") -> list[tuple[Any, ...]]:
    """Returns the same as received by a real consumer; old consumers did not print header names."""
    path = partition.parent / "truth" / partition.name / f"{isolation}.jsonl.gz"
    found = []
    for line in gzip.decompress(path.read_bytes()).splitlines():
        row = json.loads(line)
        key, value = (None if row[part] is None else b64decode(row[part]) for part in ("key", "value"))
        time = None if row["timestamp"] in (None, -1) else (row["timestamp"], row["timestampType"])
        found.append((row["offset"], time, key, value, len(row["headers"])))
    return found


def counted(records: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Replaces headers by their number, as in `consumed`."""
    return [(*record[:4], len(record[4])) for record in records]


def files(folder: Path, *suffixes: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix in suffixes}
