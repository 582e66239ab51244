"""Mode ``batches``: the headers of all batches, with the fields of `kseg dump`."""

from collections.abc import Iterable, Iterator
from typing import Any

from kseg.export.arrow import location_columns
from kseg.export.scanning import LeftOut, ReportDamage, ScanPart, ScanRequest, runs_between, sought
from kseg.export.scanning import parts_of_scan as works
from kseg.formats.compression import codec_name
from kseg.formats.json_values import unset
from kseg.formats.rows import Scratch
from kseg.kernel.layout.headers import CODEC, CONTROL, LOG_APPEND_TIME, MAGIC_V2, TRANSACTIONAL, V07_CODEC
from kseg.segment.items import TIMESTAMP_TYPES, Damage
from kseg.segment.reader import SegmentReader, open_segment
from kseg.segment.survey import BatchRow, HeaderRows
from kseg.stores.source import Source, open_source

__all__ = ["rows", "rows_of_part", "works"]


def rows(parts: Iterable[ScanPart], request: ScanRequest, report: ReportDamage) -> Iterator[dict[str, Any]]:
    """Yields a row for each batch that starts in the parts and can contain requested offsets. Batches with a wrong
    checksum are rows; damage is reported.
    """
    scratch = Scratch(request.max_batch_bytes)
    for part in parts:
        with open_source(part.file.path) as source:
            yield from rows_of_part(part, source, scratch, request, report)


def rows_of_part(
    part: ScanPart, source: Source, scratch: Scratch, request: ScanRequest, report: ReportDamage
) -> Iterator[dict[str, Any]]:
    """Yields the rows of one part, whose segment is open already."""
    file = part.file
    first_offset = max(part.offsets.first, request.wanted.first_offset)
    last_offset = min(part.offsets.last, request.wanted.last_offset)
    reader = open_segment(file, scratch, source=source, live=request.is_live)
    location = location_columns(file.path, file.topic, file.partition)
    for run in runs_between(reader, file, sought(reader, file, part.slice, first_offset), last_offset):
        if isinstance(run, Damage):
            report(file, LeftOut(*run))
            continue
        for batch in HeaderRows(reader.headers(run), run.count):
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
    numbers = {
        "baseOffset": batch.first_offset, "count": batch.records, "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch, "baseSequence": batch.base_sequence, "partitionLeaderEpoch": batch.epoch,
    }  # fmt: skip
    return {
        "position": batch.position,
        "size": batch.size,
        "magic": batch.magic,
        "isValid": batch.has_right_crc,
        "lastOffset": batch.last_offset,
        "compression": codec_name(attributes & (V07_CODEC if reader.is_07 else CODEC)),
        "timestampType": TIMESTAMP_TYPES[1 + bool(attributes & LOG_APPEND_TIME)] if has_time else TIMESTAMP_TYPES[0],
        "maxTimestamp": batch.max_timestamp if has_time else None,
        "isTransactional": is_v2 and bool(attributes & TRANSACTIONAL),
        "isControl": is_v2 and bool(attributes & CONTROL),
    } | {name: unset(number) for name, number in numbers.items()}
