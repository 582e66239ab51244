"""Segments as a stream: each closed segment once, as it appears in the directories.

A segment is closed when its partition has a later one, because the broker (or a copying program) has moved on to that.
The stream's offset holds, for each partition directory, the base offset of the first unread segment.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

import kseg.spark.records as records
from kseg.errors import KsegError
from kseg.export.scanning import grouped
from kseg.segment.files import SegmentFile, list_segments
from kseg.spark.modes import module_of
from kseg.spark.options import Options
from kseg.spark.paths import local_only, places

if TYPE_CHECKING:
    import pyarrow

MODES = ("records", "batches")

Place = dict[str, int]


class Part(InputPartition):
    """One task of a micro-batch."""


class KsegStreamReader(DataSourceStreamReader):
    """Reads the columns of ``schema``. Raises KsegError for options that streams do not support."""

    def __init__(self, options: Options, schema: StructType) -> None:
        if options.mode not in MODES:
            raise KsegError(f"mode {options.mode} of format kseg is no stream; {' and '.join(MODES)} are")
        if options.is_committed:
            raise KsegError("isolation read_committed is for batches: a stream does not know how transactions will end")
        local_only(options.paths, "a stream")
        self._options = options
        self._schema = schema

    def initialOffset(self) -> Place:
        """Returns the offset before the first segment."""
        return {}

    def latestOffset(self) -> Place:
        """Returns the offset after the closed segments. Raises PathError if a path does not exist."""
        found = {}
        for place in places(self._options.paths):
            logs = _logs(place)
            if logs:
                found[place] = logs[-1].base_offset or 0
        return found

    def partitions(self, start: Place, end: Place) -> list[InputPartition]:
        """Returns the tasks for the segments between two offsets, without segments deleted meanwhile."""
        files = [file for place in sorted(end) for file in _between(place, start.get(place, -1), end[place])]
        parts = (part for file in files for part in records.parts_of(file, self._options))
        return [Part(task) for task in grouped(parts, self._options.split_bytes)]

    def read(self, partition: InputPartition) -> Iterator["pyarrow.RecordBatch"]:
        """Yields the Arrow record batches of one task."""
        from pyspark.sql.pandas.types import to_arrow_schema

        wanted = to_arrow_schema(self._schema, timezone="UTC")
        return iter(module_of(self._options.mode).read(partition.value, self._options, wanted))


def _logs(place: str) -> list[SegmentFile]:
    """Returns the .log files of a partition directory by base offset."""
    return [file for file in list_segments(place) if file.kind == ".log" and file.base_offset is not None]


def _between(place: str, first: int, stop: int) -> list[SegmentFile]:
    return [file for file in _logs(place) if first <= (file.base_offset or 0) < stop]
