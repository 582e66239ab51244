"""Mode ``batches``: the headers of all batches, with the fields of `kseg dump`."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kseg.export.records import runs_between, sought
from kseg.formats.compression import codec_name
from kseg.formats.rows import Scratch
from kseg.kernel.layout.headers import CODEC, CONTROL, LOG_APPEND_TIME, MAGIC_V2, TRANSACTIONAL
from kseg.segment.items import TIMESTAMP_TYPES
from kseg.segment.reader import Run, SegmentReader, open_segment
from kseg.segment.survey import BatchRow, HeaderRows
from kseg.spark.modes.records import opened_for
from kseg.spark.options import Options
from kseg.spark.planning import TaskPart, plan
from kseg.spark.schemas import location_columns, record_batches

if TYPE_CHECKING:
    import pyarrow

__all__ = ["plan", "read"]


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
                for batch in HeaderRows(reader.headers(run), run.count) if isinstance(run, Run) else ():
                    row = _row(batch, reader)
                    first = row["lastOffset"] if row["baseOffset"] is None else row["baseOffset"]
                    if first <= last_offset and row["lastOffset"] >= first_offset:
                        yield location | row


def _row(batch: BatchRow, reader: SegmentReader) -> dict[str, Any]:
    attributes = batch.attributes
    if reader.is_07:
        offset = reader.base_offset + batch.position
        batch = batch._replace(first_offset=offset, last_offset=offset)
    has_time = batch.magic != 0 and not reader.is_07
    is_v2 = batch.magic >= MAGIC_V2
    unset = {
        "baseOffset": batch.first_offset, "count": batch.records, "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch, "baseSequence": batch.base_sequence, "partitionLeaderEpoch": batch.epoch,
    }  # fmt: skip
    return {
        "position": batch.position,
        "size": batch.size,
        "magic": batch.magic,
        "isValid": batch.has_right_crc,
        "lastOffset": batch.last_offset,
        "compression": codec_name(attributes & (3 if reader.is_07 else CODEC)),
        "timestampType": TIMESTAMP_TYPES[1 + bool(attributes & LOG_APPEND_TIME)] if has_time else TIMESTAMP_TYPES[0],
        "maxTimestamp": batch.max_timestamp if has_time else None,
        "isTransactional": is_v2 and bool(attributes & TRANSACTIONAL),
        "isControl": is_v2 and bool(attributes & CONTROL),
    } | {name: None if number == -1 else number for name, number in unset.items()}
