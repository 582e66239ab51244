"""Converts rows of Python values to Arrow record batches, for the modes with few rows."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow

ROWS = 4096


def record_batches(rows: Iterable[Mapping[str, Any]], schema: "pyarrow.Schema") -> Iterator["pyarrow.RecordBatch"]:
    """Yields rows by column name, with the columns of the schema only; missing names are null."""
    import pyarrow as pa

    rows = iter(rows)
    while some := list(islice(rows, ROWS)):
        arrays = [pa.array([row.get(field.name) for row in some], field.type) for field in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def location_columns(path: str, topic: str | None, partition: int | None) -> dict[str, Any]:
    """Returns the columns that locate a row: path, topic, partition. Invalid UTF-8 is shown as U+FFFD."""
    return {"file": shown_name(path), "topic": None if topic is None else shown_name(topic), "partition": partition}


def shown_name(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
