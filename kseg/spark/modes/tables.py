"""Converts rows of Python values to Arrow record batches, for the modes with few rows."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from kseg.export.arrow import valid_text

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
    return {"file": valid_text(path), "topic": None if topic is None else valid_text(topic), "partition": partition}
