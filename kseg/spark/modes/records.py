"""Mode ``records``: the records that a consumer sees, in the schema of Spark's Kafka source."""

import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kseg.errors import DamageError
from kseg.export.arrow import record_batch
from kseg.export.chunk import Chunk
from kseg.export.decoded import DecodedColumns
from kseg.export.records import LeftOut, Wanted
from kseg.export.scanning import DamageLog, Offsets, PartReader, ReportDamage, ScanPart, ScanRequest, damage_text
from kseg.segment.files import SegmentFile
from kseg.segment.seek import indexed_span, span_of_bytes
from kseg.spark.options import Options, Subscription
from kseg.spark.planning import Committed, TaskPart, plan
from kseg.stores.source import Source, open_source

if TYPE_CHECKING:
    import pyarrow

__all__ = ["plan", "read"]

_MICROSECONDS = 1000
_log = logging.getLogger("kseg.spark")


@dataclass(frozen=True, slots=True)
class SubscribedScan(ScanRequest):
    """A scan of the partitions that the options of Spark's Kafka source select."""

    subscription: Subscription = Subscription()  # noqa: RUF009 - it cannot be changed

    def has(self, topic: str | None, partition: int | None) -> bool:
        return self.subscription.has(topic, partition)


def request_of(options: Options) -> ScanRequest:
    """Returns the request of a read. Its paths may have globs."""
    wanted = Wanted(earliest_ms=options.earliest_ms, latest_ms=options.latest_ms)
    return SubscribedScan(
        options.paths, wanted, max_batch_bytes=options.max_batch_bytes, keys=options.keys, mode=options.mode,
        level=options.level, now_ms=options.now_ms, subscription=options.subscription,
    )  # fmt: skip


def report_of(options: Options) -> ReportDamage:
    """Returns what happens at damage: the read fails, or a warning is logged."""
    return _fail if options.fails_on_damage else DamageLog(_log)


def read(parts: Sequence[TaskPart], options: Options, schema: "pyarrow.Schema") -> Iterator["pyarrow.RecordBatch"]:
    """Yields the columns of the schema for the parts of one task."""
    decoded = DecodedColumns(options.decoding, _log.warning)
    for part, chunk in chunks_of(parts, options, options.decoding.read_columns(schema.names)):
        place = {"topic": part.file.topic, "partition": part.file.partition}
        yield record_batch(chunk, schema, place, decoded.arrays(chunk, part.file, schema))


def chunks_of(
    parts: Sequence[TaskPart], options: Options, columns: Collection[str]
) -> Iterator[tuple[TaskPart, Chunk]]:
    """Yields the records of parts as chunks with these columns. Raises PathError, KsegError."""
    reader = PartReader(request_of(options), columns, _MICROSECONDS, report_of(options))
    committed = Committed(options.max_batch_bytes)
    for part in parts:
        offsets = Offsets(part.first_offset, part.last_offset)
        with opened_for(part, options) as source:
            hidden = None
            if part.tail is not None:
                hidden = committed.transactions(part.file, part.slice, part.tail, source)
            for chunk in reader.chunks(ScanPart(part.file, part.slice, hidden, offsets), source):
                yield part, chunk


def opened_for(part: TaskPart, options: Options) -> Source:
    """Opens the segment of a part. In a store, the bytes that its indexes lead to are fetched at once.

    Raises PathError.
    """
    source = open_source(part.file.path)
    if source.is_in_place:
        size, cut = source.size, part.slice
        owned = span_of_bytes(part.file, size, cut.start, size if cut.end is None else cut.end)
        wanted = indexed_span(part.file, size, part.first_offset, part.last_offset, options.earliest_ms)
        before = wanted.before if wanted.start > cut.start else owned.before
        source.need(before, min(owned.end, wanted.end))
    return source


def _fail(file: SegmentFile, left_out: LeftOut) -> None:
    raise DamageError(damage_text(file, left_out))
