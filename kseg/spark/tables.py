"""Rows of Python values as Arrow record batches: for what there is little of beside records."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow

ROWS = 4096


def record_batches(rows: Iterable[Mapping[str, Any]], schema: "pyarrow.Schema") -> Iterator["pyarrow.RecordBatch"]:
    """Rows by column name, those of the schema alone; a name that a row does not have is null."""
    import pyarrow as pa

    rows = iter(rows)
    while some := list(islice(rows, ROWS)):
        arrays = [pa.array([row.get(field.name) for row in some], field.type) for field in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def place_of(path: str, topic: str | None, partition: int | None) -> dict[str, Any]:
    """The columns that tell where something is. Bytes of a name that are no UTF-8 are shown as U+FFFD."""
    return {"file": shown_name(path), "topic": None if topic is None else shown_name(topic), "partition": partition}


def shown_name(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
