"""Cleans v0 and v1 messages: survivors become v2 batches (KIP-724), or, up to 3.9, keep their format."""

from collections.abc import Callable

from kseg.formats.areas import NONE, Area, build_batch, build_wrapper
from kseg.formats.compressing import target_of
from kseg.formats.record_batch import RecordBatchHeader
from kseg.formats.rows import Rows
from kseg.kernel.layout.headers import DELETE_HORIZON, LOG_APPEND_TIME
from kseg.kernel.layout.rows import ROW_OFFSET, ROW_VALUE_SIZE, ROW_WIDTH
from kseg.segment.batches import Message


def rebuilt(
    message: Message, keeps: Callable[[Rows], bytes], horizon_ms: int, keeps_format: bool, ends_log: bool = False
) -> tuple[bytes, int]:
    """Returns the survivors of an intact message (b"" if there are none), and their number.

    ``horizon_ms``: the delete horizon of a batch with a tombstone, which a new v2 batch gets at once. ``ends_log``: the
    last offset must be preserved; v0 and v1 can do this only by keeping the whole message.
    """
    marks = [keeps(rows) for rows in message.rows()]
    kept = b"".join(marks)
    if ends_log and keeps_format:
        kept = b"\1" * len(kept)
    count = sum(kept)
    if not count:
        return (_emptied(message), 0) if ends_log else (b"", 0)
    if keeps_format and count == len(kept):
        return bytes(message.data), count
    if keeps_format:
        return _set_of(message, kept), count
    return _batch_of(message, kept, horizon_ms, ends_log), count


def _emptied(message: Message) -> bytes:
    """Returns the header of a batch without records (DefaultRecordBatch.writeEmptyHeader)."""
    header = message.header
    attributes = LOG_APPEND_TIME if header.is_log_append_time else 0
    first = next((_offset_of(rows, 0) for rows in message.rows() if rows.count), header.offset)
    fields = first, 0, -1, 2, 0, attributes, header.offset - first, -1, header.timestamp, -1, -1, -1, 0
    return build_batch(RecordBatchHeader(*fields), b"", NONE)


def _set_of(message: Message, kept: bytes) -> bytes:
    """Returns a compressed message with the survivors. An uncompressed message survives as a whole or not at all."""
    header, area = message.header, Area(message.magic, is_relative=True)
    _gather(area, message, kept, None)
    timestamp = header.timestamp if header.is_log_append_time else area.max_timestamp
    attributes = header.attributes & ~header.codec
    return build_wrapper(message.magic, area.last_offset, timestamp, attributes, area.take(), target_of(header.codec))


def _batch_of(message: Message, kept: bytes, horizon_ms: int, ends_log: bool) -> bytes:
    header, area = message.header, Area(2)
    has_tombstone = _has_tombstone(message, kept)
    _gather(area, message, kept, horizon_ms if has_tombstone else None)
    attributes = LOG_APPEND_TIME if header.is_log_append_time else 0
    if has_tombstone:
        attributes |= DELETE_HORIZON
    last = header.offset if ends_log else area.last_offset
    largest = header.timestamp if header.is_log_append_time else area.max_timestamp
    fields = (
        area.base_offset, 0, -1, 2, 0, attributes, last - area.base_offset, area.base_timestamp, largest, -1, -1, -1,
        area.count,
    )  # fmt: skip
    return build_batch(RecordBatchHeader(*fields), area.take(), target_of(header.codec) if header.codec else NONE)


def _has_tombstone(message: Message, kept: bytes) -> bool:
    first = 0
    for rows in message.rows():
        sizes = rows.rows[ROW_VALUE_SIZE : rows.count * ROW_WIDTH : ROW_WIDTH].tolist()
        if any(size < 0 and kept[first + row] for row, size in enumerate(sizes)):
            return True
        first += rows.count
    return False


def _gather(area: Area, message: Message, kept: bytes, base_timestamp: int | None) -> None:
    """Copies the surviving records to the area, runs of adjacent records at once."""
    first = 0
    for rows in message.rows():
        row = kept.find(1, first, first + rows.count) - first
        while row >= 0:
            end = kept.find(0, first + row, first + rows.count)
            stop = rows.count if end < 0 else end - first
            if not area.count:
                area.begin(_offset_of(rows, row), base_timestamp=base_timestamp)
            area.add(rows, row, stop)
            row = kept.find(1, first + stop, first + rows.count) - first
        first += rows.count


def _offset_of(rows: Rows, row: int) -> int:
    return int(rows.rows[row * ROW_WIDTH + ROW_OFFSET])
