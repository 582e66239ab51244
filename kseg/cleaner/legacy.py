"""Messages v0 and v1 in a cleaning: they come out as v2 batches (KIP-724), or, up to 3.9, in their own format."""

from collections.abc import Callable

from kseg.formats.areas import LOG_APPEND_TIME, NONE, Area, build_batch, build_wrapper
from kseg.formats.compressing import target_of
from kseg.formats.record_batch import RecordBatchHeader
from kseg.formats.rows import Rows
from kseg.kernel.native import ROW_OFFSET, ROW_WIDTH
from kseg.segment.batches import Message
from kseg.segment.items import Record

HORIZON = 64
"""Attribute bit of a batch whose base timestamp is its delete horizon (KIP-534)."""


def rebuilt(
    message: Message, keeps: Callable[[Record], bool], horizon_ms: int, keeps_format: bool, ends_log: bool = False
) -> tuple[bytes, int]:
    """What is left of an intact message (b"" for nothing), and of how many records it is made.

    ``horizon_ms``: the delete horizon of a batch that holds a tombstone; v2 has it at once. ``ends_log``: the last
    offset has to stay where it is, which v0 and v1 can only by staying whole.
    """
    records = list(message)
    kept = [keeps(record) or (ends_log and keeps_format) for record in records]
    if not any(kept):
        return (_emptied(message, records), 0) if ends_log else (b"", 0)
    if keeps_format and all(kept):
        return bytes(message.data), len(records)
    if keeps_format:
        return _set_of(message, kept), sum(kept)
    has_tombstone = any(is_kept and record.value is None for is_kept, record in zip(kept, records, strict=True))
    return _batch_of(message, kept, horizon_ms if has_tombstone else None, ends_log), sum(kept)


def _emptied(message: Message, records: list[Record]) -> bytes:
    """The header alone of a batch that has lost its records (DefaultRecordBatch.writeEmptyHeader)."""
    header = message.header
    attributes = LOG_APPEND_TIME if header.is_log_append_time else 0
    first = records[0].offset if records else header.offset
    fields = first, 0, -1, 2, 0, attributes, header.offset - first, -1, header.timestamp, -1, -1, -1, 0
    return build_batch(RecordBatchHeader(*fields), b"", NONE)


def _set_of(message: Message, kept: list[bool]) -> bytes:
    """A compressed message around those that stay. One that is not compressed stays or goes as a whole."""
    header, area = message.header, Area(message.magic, is_relative=True)
    _gather(area, message, kept, None)
    timestamp = header.timestamp if header.is_log_append_time else area.max_timestamp
    attributes = header.attributes & ~header.codec
    return build_wrapper(message.magic, area.last_offset, timestamp, attributes, area.take(), target_of(header.codec))


def _batch_of(message: Message, kept: list[bool], horizon_ms: int | None, ends_log: bool) -> bytes:
    header, area = message.header, Area(2)
    _gather(area, message, kept, horizon_ms)
    attributes = LOG_APPEND_TIME if header.is_log_append_time else 0
    if horizon_ms is not None:
        attributes |= HORIZON
    last = header.offset if ends_log else area.last_offset
    largest = header.timestamp if header.is_log_append_time else area.max_timestamp
    fields = (
        area.base_offset, 0, -1, 2, 0, attributes, last - area.base_offset, area.base_timestamp, largest, -1, -1, -1,
        area.count,
    )  # fmt: skip
    return build_batch(RecordBatchHeader(*fields), area.take(), target_of(header.codec) if header.codec else NONE)


def _gather(area: Area, message: Message, kept: list[bool], base_timestamp: int | None) -> None:
    """Fills the area with the records that stay."""
    index = 0
    for rows in message.rows():
        for row in range(rows.count):
            if kept[index]:
                if not area.count:
                    area.begin(_offset_of(rows, row), base_timestamp=base_timestamp)
                area.add(rows, row, row + 1)
            index += 1


def _offset_of(rows: Rows, row: int) -> int:
    return int(rows.rows[row * ROW_WIDTH + ROW_OFFSET])
