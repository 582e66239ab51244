"""Mode ``counts``: how many records there are, mostly from batch headers. No record leaves a task."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from kseg.export.arrow import location_columns, record_batches
from kseg.export.chunk import OFFSET, Chunk
from kseg.spark.modes.records import chunks_of
from kseg.spark.options import Options
from kseg.spark.planning import TaskPart, plan

if TYPE_CHECKING:
    import pyarrow

__all__ = ["plan", "read"]


def read(parts: Sequence[TaskPart], options: Options, schema: "pyarrow.Schema") -> Iterator["pyarrow.RecordBatch"]:
    """Yields a row for each segment in a task that has records of mode records in it."""
    yield from record_batches(_rows(parts, options), schema)


def _rows(parts: Sequence[TaskPart], options: Options) -> Iterator[dict[str, Any]]:
    for file, found in groupby(chunks_of(parts, options, [OFFSET]), lambda each: each[0].file):
        count, first, last = 0, (1 << 63) - 1, -1
        for _, chunk in found:
            count += chunk.count
            low, high = _range(chunk)
            first, last = min(first, low), max(last, high)
        location = location_columns(file.path, file.topic, file.partition)
        yield location | {"count": count, "firstOffset": first, "lastOffset": last}


def _range(chunk: Chunk) -> tuple[int, int]:
    """Returns the lowest and the highest offset. They need not rise where a log is damaged."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pc.min_max(pa.Array.from_buffers(pa.int64(), chunk.count, [None, pa.py_buffer(chunk.numbers[OFFSET])]))
    return found["min"].as_py(), found["max"].as_py()
