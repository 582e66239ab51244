"""Mode ``batches``: the headers of all batches, with the fields of `kseg dump`."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kseg.export.records import runs_between, sought
from kseg.formats.compression import codec_name
from kseg.formats.rows import Scratch, int64s
from kseg.kernel.layout import rows as layout
from kseg.kernel.layout.headers import CODEC, CONTROL, LOG_APPEND_TIME, MAGIC_V2, TRANSACTIONAL
from kseg.kernel.scan import headers
from kseg.segment.items import TIMESTAMP_TYPES
from kseg.segment.reader import Run, SegmentReader, open_segment
from kseg.spark.modes.records import opened_for
from kseg.spark.options import Options
from kseg.spark.planning import TaskPart, plan
from kseg.spark.schemas import location_columns, record_batches

if TYPE_CHECKING:
    import pyarrow

__all__ = ["plan", "read"]

_UNSET = {
    "baseOffset": layout.BATCH_FIRST_OFFSET,
    "count": layout.BATCH_COUNT,
    "producerId": layout.BATCH_PRODUCER_ID,
    "producerEpoch": layout.BATCH_PRODUCER_EPOCH,
    "baseSequence": layout.BATCH_BASE_SEQUENCE,
    "partitionLeaderEpoch": layout.BATCH_LEADER_EPOCH,
}
"""Columns that are null if the number is -1."""


def read(parts: Sequence[TaskPart], options: Options, schema: "pyarrow.Schema") -> Iterator["pyarrow.RecordBatch"]:
    """Yields a row for each batch that starts in the parts and can contain requested offsets."""
    yield from record_batches(_rows(parts, options), schema)


def _rows(parts: Sequence[TaskPart], options: Options) -> Iterator[dict[str, Any]]:
    scratch = Scratch(options.max_batch_bytes)
    for part in parts:
        file, first_offset, last_offset = part.file, part.first_offset, part.last_offset
        with open_segment(file, scratch, source=opened_for(part, options)) as reader:
            location = location_columns(file.path, file.topic, file.partition)
            for run in runs_between(reader, file, sought(reader, file, part.slice, first_offset), last_offset):
                for row in _run(reader, run) if isinstance(run, Run) else ():
                    first = row["lastOffset"] if row["baseOffset"] is None else row["baseOffset"]
                    if first <= last_offset and row["lastOffset"] >= first_offset:
                        yield location | row


def _run(reader: SegmentReader, run: Run) -> Iterator[dict[str, Any]]:
    first = 0
    while first < run.count:
        buffer, frames, origin, stop = reader.window(run, first)
        rows = int64s((stop - first) * layout.BATCH_WIDTH)
        headers.read(buffer, frames[first * layout.FRAME_WIDTH :], stop - first, reader.is_07, origin, rows)
        for at in range(0, len(rows), layout.BATCH_WIDTH):
            yield _row(rows[at : at + layout.BATCH_WIDTH].tolist(), reader)
        first = stop


def _row(batch: list[int], reader: SegmentReader) -> dict[str, Any]:
    magic, attributes = batch[layout.BATCH_MAGIC], batch[layout.BATCH_ATTRIBUTES]
    if reader.is_07:
        batch[layout.BATCH_FIRST_OFFSET] = batch[layout.BATCH_LAST_OFFSET] = (
            reader.base_offset + batch[layout.BATCH_POSITION]
        )
    codec = attributes & (3 if reader.is_07 else CODEC)
    has_time = magic != 0 and not reader.is_07
    is_v2 = magic >= MAGIC_V2
    return {
        "position": batch[layout.BATCH_POSITION],
        "size": batch[layout.BATCH_SIZE],
        "magic": magic,
        "isValid": bool(batch[layout.BATCH_STATE] & layout.CRC_RIGHT),
        "lastOffset": batch[layout.BATCH_LAST_OFFSET],
        "compression": codec_name(codec),
        "timestampType": TIMESTAMP_TYPES[1 + bool(attributes & LOG_APPEND_TIME)] if has_time else TIMESTAMP_TYPES[0],
        "maxTimestamp": batch[layout.BATCH_MAX_TIMESTAMP] if has_time else None,
        "isTransactional": is_v2 and bool(attributes & TRANSACTIONAL),
        "isControl": is_v2 and bool(attributes & CONTROL),
    } | {name: None if batch[column] == -1 else batch[column] for name, column in _UNSET.items()}
