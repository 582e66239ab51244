"""Mode ``records``: the records that a consumer sees, in the schema of Spark's Kafka source."""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kseg.errors import KsegError
from kseg.export.arrow import record_batch
from kseg.export.decoding import LeftOut
from kseg.export.records import Wanted
from kseg.export.scanning import (
    DamageLog,
    Offsets,
    PartReader,
    ScanRequest,
    grouped,
    is_readable,
    logs_around,
    matching,
    place_of_damage,
)
from kseg.export.scanning import Part as ScanPart
from kseg.formats.rows import Scratch
from kseg.segment.files import SegmentFile
from kseg.segment.isolation import Transactions
from kseg.segment.paths import segments_at
from kseg.segment.slices import Slice, slices
from kseg.spark.log_starts import LogStarts
from kseg.spark.options import Options
from kseg.spark.paths import places
from kseg.spark.positions import PartitionEnds, Positions
from kseg.spark.ranged import RangedSlice, open_part, size_of, stored_slices
from kseg.spark.stores import open_path, stored_segments
from kseg.stores.source import Source
from kseg.stores.stored_object import is_url

if TYPE_CHECKING:
    import pyarrow

_MICROSECONDS = 1000
_log = logging.getLogger("kseg.spark")


class Part(NamedTuple):
    """A part of a segment, and the first and last offset to read of it.

    ``transactions``: those of its partition, if only committed records are requested.
    """

    file: SegmentFile
    slice: Slice | RangedSlice
    first_offset: int
    last_offset: int
    transactions: Transactions | None = None


def segment_parts(options: Options, keep: Callable[[SegmentFile], bool] = lambda _: True) -> Iterator[tuple[int, Part]]:
    """Yields the parts of all segments, in order, each with its size in bytes.

    Raises PathError, or UnsupportedError for a file that is not a segment.
    """
    stored = [path for path in options.paths if is_url(path)]
    local = [path for path in options.paths if not is_url(path)]
    planner = Planner(options)
    if local or not stored:
        for place in places(local):
            files = [file for file in segments_at(place) if is_readable(file) and keep(file)]
            for part in planner.parts(files, partial(logs_around, place), os.path.isdir(place)):
                yield from parts_of(part, options.split_bytes)
    for url in stored:
        for sizes in map(dict, stored_segments(url, options.storage)):
            files = [file for file in sizes if is_readable(file) and keep(file)]
            for part in planner.parts(files, partial(list, sizes), len(sizes) > 1):
                size = sizes[part.file]
                for piece in stored_slices(part.file, size, options.split_bytes, options.storage):
                    yield size_of(piece, size), part._replace(slice=piece)


class Planner:
    """Chooses the segments of a partition, and the offsets to read of them."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._scratch = Scratch(options.max_batch_bytes)
        self._log_starts = LogStarts(self._open)

    def parts(
        self, files: list[SegmentFile], around: Callable[[], list[SegmentFile]], is_directory: bool
    ) -> Iterator[Part]:
        """Yields the segments of one place as whole parts. ``around`` returns all segments of its partition."""
        options = self._options
        files = [file for file in files if options.subscription.has(file.topic, file.partition)]
        if not files:
            return
        first, last = self._offsets(files[0], around)
        chosen = matching(files, Wanted(first, last), is_directory and options.mode == "records")
        if first > last or not chosen:
            return
        transactions = self._transactions(around()) if options.is_committed else None
        for file in chosen:
            yield Part(file, Slice(), first, last, transactions)

    def _offsets(self, file: SegmentFile, around: Callable[[], list[SegmentFile]]) -> tuple[int, int]:
        """Returns the first and last offset to read in the partition of a segment."""
        options = self._options
        first, last = options.first_offset, options.last_offset
        if file.topic is None or file.partition is None:
            return first, last
        place = (file.topic, file.partition)
        if not options.ignores_log_start:
            first = max(first, self._log_starts.of(os.path.dirname(os.path.dirname(file.path)), place))
        if options.start != Positions() or options.end != Positions():
            ends = PartitionEnds(place, _logs(around()), self._open, self._scratch)
            first = max(first, ends.first(options.start, options.fails_without_timestamp))
            last = min(last, ends.last(options.end))
        return first, last

    def _transactions(self, files: list[SegmentFile]) -> Transactions:
        return Transactions.of_segments(_logs(files), self._scratch, opened=self._open)

    def _open(self, path: str) -> Source:
        return open_path(path, self._options.storage)


def _logs(files: list[SegmentFile]) -> list[SegmentFile]:
    return [file for file in files if file.kind in (".log", ".kafka") and not file.leftover]


def _request(options: Options) -> ScanRequest:
    wanted = Wanted(earliest_ms=options.earliest_ms, latest_ms=options.latest_ms)
    return ScanRequest(options.paths, wanted, max_batch_bytes=options.max_batch_bytes)


def parts_of(whole: Part, split_bytes: int) -> Iterator[tuple[int, Part]]:
    """Yields the parts of one segment with their sizes. Raises KsegError if it does not exist."""
    file = whole.file
    try:
        size = os.stat(file.path).st_size
    except OSError as error:
        raise KsegError(f"{file.path}: {error.strerror}") from error
    for part in slices(size, split_bytes) if file.kind == ".log" else [Slice()]:
        yield (part.end or size) - part.start, whole._replace(slice=part)


def plan(options: Options, keep: Callable[[SegmentFile], bool]) -> list[Sequence[Part]]:
    """Returns the tasks."""
    return grouped(segment_parts(options, keep), options.split_bytes)


def read(parts: Sequence[Part], options: Options, schema: "pyarrow.Schema") -> Iterator["pyarrow.RecordBatch"]:
    """Yields the columns of the schema for the parts of one task."""
    scratch = Scratch(options.max_batch_bytes)
    tell = _fail if options.fails_on_damage else DamageLog(_log)
    reader = PartReader(_request(options), schema.names, _MICROSECONDS, tell)
    for file, asked, *offsets, transactions in parts:
        constants = {"topic": file.topic, "partition": file.partition}
        source, part = open_part(file, asked, options.storage, scratch)
        with source:
            for chunk in reader.chunks(ScanPart(file, part, transactions, Offsets(*offsets)), source):
                yield record_batch(chunk, schema, constants)


def _fail(file: SegmentFile, left_out: LeftOut) -> None:
    raise KsegError(place_of_damage(file, left_out))
