"""Partitions of real brokers, and what a real consumer got of them."""

import gzip
import json
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
    found = []
    for line in gzip.decompress(consumed.read_bytes()).splitlines():
        got = json.loads(line)
        found.append(
            {
                "offset": got["offset"],
                "timestamp": None if got["timestamp"] == -1 else got["timestamp"],
                "key": data_of(got["key"]),
                "value": data_of(got["value"]),
                "headers": [data_of(value) for _, value in got["headers"]],
            }
        )
    return found


def data_of(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
