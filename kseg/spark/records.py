"""Mode ``records``: the records that a consumer sees, in the schema of Spark's Kafka source."""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kseg.errors import KsegError
from kseg.export.arrow import record_batch
from kseg.export.decoding import LeftOut
from kseg.export.records import Wanted
from kseg.export.scanning import (
    DamageLog,
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
from kseg.spark.options import Options
from kseg.spark.paths import places
from kseg.spark.ranged import RangedSlice, open_part, size_of, stored_slices
from kseg.spark.stores import is_stored, open_path, stored_segments

if TYPE_CHECKING:
    import pyarrow

_MICROSECONDS = 1000
_log = logging.getLogger("kseg.spark")


class Part(NamedTuple):
    """A part of a segment. ``transactions``: those of its partition, if only committed records are requested."""

    file: SegmentFile
    slice: Slice | RangedSlice
    transactions: Transactions | None = None


def segment_parts(options: Options, keep: Callable[[SegmentFile], bool] = lambda _: True) -> Iterator[tuple[int, Part]]:
    """Yields the parts of all segments, in order, each with its size in bytes.

    Raises PathError, or UnsupportedError for a file that is not a segment.
    """
    stored = [path for path in options.paths if is_stored(path)]
    local = [path for path in options.paths if not is_stored(path)]
    if local or not stored:
        for place in places(local):
            files = [file for file in segments_at(place) if is_readable(file) and keep(file)]
            files = _matching(files, options, os.path.isdir(place))
            transactions = _transactions(logs_around(place), options) if options.is_committed and files else None
            for file in files:
                yield from parts_of(file, options, transactions)
    for url in stored:
        for sizes in map(dict, stored_segments(url, options.storage)):
            files = [file for file in sizes if is_readable(file) and keep(file)]
            files = _matching(files, options, len(sizes) > 1)
            transactions = _transactions(list(sizes), options) if options.is_committed and files else None
            for file in files:
                for part in stored_slices(file, sizes[file], options.split_bytes, options.storage):
                    yield size_of(part, sizes[file]), Part(file, part, transactions)


def _matching(files: list[SegmentFile], options: Options, is_directory: bool) -> list[SegmentFile]:
    return matching(files, _request(options).wanted, is_directory and options.mode == "records")


def _request(options: Options) -> ScanRequest:
    wanted = Wanted(options.first_offset, options.last_offset, options.earliest_ms, options.latest_ms)
    return ScanRequest(options.paths, wanted, max_batch_bytes=options.max_batch_bytes)


def parts_of(
    file: SegmentFile, options: Options, transactions: Transactions | None = None
) -> Iterator[tuple[int, Part]]:
    """Yields the parts of one segment with their sizes. Raises KsegError if it does not exist."""
    try:
        size = os.stat(file.path).st_size
    except OSError as error:
        raise KsegError(f"{file.path}: {error.strerror}") from error
    for part in slices(size, options.split_bytes) if file.kind == ".log" else [Slice()]:
        yield (part.end or size) - part.start, Part(file, part, transactions)


def _transactions(files: list[SegmentFile], options: Options) -> Transactions:
    logs = [file for file in files if file.kind == ".log"]
    return Transactions.of_segments(
        logs, Scratch(options.max_batch_bytes), opened=lambda path: open_path(path, options.storage)
    )


def plan(options: Options, keep: Callable[[SegmentFile], bool]) -> list[Sequence[Part]]:
    """Returns the tasks."""
    return grouped(segment_parts(options, keep), options.split_bytes)


def read(parts: Sequence[Part], options: Options, schema: "pyarrow.Schema") -> Iterator["pyarrow.RecordBatch"]:
    """Yields the columns of the schema for the parts of one task."""
    scratch = Scratch(options.max_batch_bytes)
    tell = _fail if options.fails_on_damage else DamageLog(_log)
    reader = PartReader(_request(options), schema.names, _MICROSECONDS, tell)
    for file, asked, transactions in parts:
        constants = {"topic": file.topic, "partition": file.partition}
        source, part = open_part(file, asked, options.storage, scratch)
        with source:
            for chunk in reader.chunks(ScanPart(file, part, transactions), source):
                yield record_batch(chunk, schema, constants)


def _fail(file: SegmentFile, left_out: LeftOut) -> None:
    raise KsegError(place_of_damage(file, left_out))
