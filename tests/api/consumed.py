"""Partitions of real brokers, and what a real consumer got of them."""

import gzip
import json
import os
import shutil
from base64 import b64decode
from pathlib import Path
from typing import Any

TESTDATA = Path(__file__).resolve().parent.parent.parent / "testdata"
CONSUMED = sorted(TESTDATA.glob("**/read_uncommitted.jsonl.gz"))


def id_of(path: Path) -> str:
    return "/".join(path.relative_to(TESTDATA).parts[:-1])


def partition_of(consumed: Path) -> Path:
    return consumed.parent.parent.parent / consumed.parent.name


def rows_of(consumed: Path) -> list[dict[str, Any]]:
    """Offset, timestamp (None for none), key, value and the values of headers of each record."""
    return [
        {
            "offset": got["offset"],
            "timestamp": None if got["timestamp"] == -1 else got["timestamp"],
            "key": data_of(got["key"]),
            "value": data_of(got["value"]),
            "headers": [data_of(value) for _, value in got["headers"]],
        }
        for got in map(json.loads, gzip.decompress(consumed.read_bytes()).splitlines())
    ]


def data_of(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


def names_in(folder: Path) -> list[str]:
    """The names in a folder, without the lock file of a log directory."""
    return sorted(name for name in os.listdir(folder) if name != ".lock")


def copy_named(folder: Path) -> None:
    """Copies what examples of docstrings and manual pages name."""
    copies = {
        "orders-0": "log-directories/4.3.1/logs/dplain-0",
        "crashed-0": "damaged/4.3.1-last-flip-body/dplain-0",
        "kraft-logs": "log-directories/4.4.0/logs",
        "compacted-0": "compaction/4.3.1/before/c-tomb-short-0",
        "controller/__cluster_metadata-0": "kafka-4.3.1/internal/__cluster_metadata-0",
    }
    for name, source in copies.items():
        shutil.copytree(TESTDATA / source, folder / name)
    shutil.copy(folder / "orders-0" / f"{0:020}.log", folder / "disk.img")
