"""Mode ``batches``: the headers of all batches, with the fields of `kseg dump`."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kseg.export.records import runs_between, sought
from kseg.formats.compression import codec_name
from kseg.formats.rows import Scratch, int64s
from kseg.kernel.layout.headers import CODEC, CONTROL, LOG_APPEND_TIME, MAGIC_V2, TRANSACTIONAL
from kseg.kernel.layout.rows import (
    BATCH_ATTRIBUTES,
    BATCH_BASE_SEQUENCE,
    BATCH_COUNT,
    BATCH_FIRST_OFFSET,
    BATCH_LAST_OFFSET,
    BATCH_LEADER_EPOCH,
    BATCH_MAGIC,
    BATCH_MAX_TIMESTAMP,
    BATCH_POSITION,
    BATCH_PRODUCER_EPOCH,
    BATCH_PRODUCER_ID,
    BATCH_SIZE,
    BATCH_STATE,
    BATCH_WIDTH,
    CRC_RIGHT,
    FRAME_WIDTH,
)
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
    "baseOffset": BATCH_FIRST_OFFSET,
    "count": BATCH_COUNT,
    "producerId": BATCH_PRODUCER_ID,
    "producerEpoch": BATCH_PRODUCER_EPOCH,
    "baseSequence": BATCH_BASE_SEQUENCE,
    "partitionLeaderEpoch": BATCH_LEADER_EPOCH,
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
        rows = int64s((stop - first) * BATCH_WIDTH)
        headers.read(buffer, frames[first * FRAME_WIDTH :], stop - first, reader.is_07, origin, rows)
        for at in range(0, len(rows), BATCH_WIDTH):
            yield _row(rows[at : at + BATCH_WIDTH].tolist(), reader)
        first = stop


def _row(batch: list[int], reader: SegmentReader) -> dict[str, Any]:
    magic, attributes = batch[BATCH_MAGIC], batch[BATCH_ATTRIBUTES]
    if reader.is_07:
        batch[BATCH_FIRST_OFFSET] = batch[BATCH_LAST_OFFSET] = reader.base_offset + batch[BATCH_POSITION]
    codec = attributes & (3 if reader.is_07 else CODEC)
    has_time = magic != 0 and not reader.is_07
    is_v2 = magic >= MAGIC_V2
    return {
        "position": batch[BATCH_POSITION],
        "size": batch[BATCH_SIZE],
        "magic": magic,
        "isValid": bool(batch[BATCH_STATE] & CRC_RIGHT),
        "lastOffset": batch[BATCH_LAST_OFFSET],
        "compression": codec_name(codec),
        "timestampType": TIMESTAMP_TYPES[1 + bool(attributes & LOG_APPEND_TIME)] if has_time else TIMESTAMP_TYPES[0],
        "maxTimestamp": batch[BATCH_MAX_TIMESTAMP] if has_time else None,
        "isTransactional": is_v2 and bool(attributes & TRANSACTIONAL),
        "isControl": is_v2 and bool(attributes & CONTROL),
    } | {name: None if batch[column] == -1 else batch[column] for name, column in _UNSET.items()}
