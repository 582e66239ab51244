"""Finds records above max.decompressed.message.bytes, at which a broker gives up cleaning a partition.

Only records of compressed batches count. Source: DefaultRecord.readFrom, AbstractLegacyRecordBatch and Cleaner of 4.4.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kseg.cleaner.log import CleanerSegment, aborted_between, segments_between
from kseg.cleaner.opening import RecordBuffers, open_message, open_records
from kseg.cleaner.ranges import RECORD_SIZE, CleanableRange, Stop
from kseg.cleaner.reading import Window, windows
from kseg.cleaner.transactions import CleanedTransactions
from kseg.formats.suffixes import TRANSACTION_INDEX
from kseg.kernel.layout.headers import CODEC, MAGIC_V2
from kseg.kernel.layout.rows import (
    BATCH_ATTRIBUTES,
    BATCH_LAST_OFFSET,
    BATCH_MAGIC,
    BATCH_WIDTH,
    ROW_KEY_SIZE,
    ROW_VALUE_SIZE,
    ROW_WIDTH,
    VARINT_LENGTH_MASK,
    VARINT_VALUE_SHIFT,
    varint,
)
from kseg.stores.buffers import Buffers

_MESSAGE_BYTES = (14, 22)
"""Bytes of a message of v0 and v1 besides its key and value, after its offset and size."""


class LargeRecord(NamedTuple):
    """A record above the limit. ``segment``: the base offset of its segment; ``last_offset``: that of its batch;
    ``is_dirty``: it is read before anything is cleaned."""

    segment: int
    last_offset: int
    size: int
    is_dirty: bool

    def stop(self, limit_bytes: int) -> Stop:
        """Returns the reason why the partition is not cleaned."""
        text = (
            f"a record of {self.size} bytes in the batch that ends at offset {self.last_offset} is above "
            f"max.decompressed.message.bytes {limit_bytes}: brokers give up cleaning this partition"
        )
        return Stop(RECORD_SIZE, f"record above {limit_bytes} bytes", text)


def large_record(
    segments: Sequence[CleanerSegment], found: CleanableRange, limit_bytes: int, buffers: Buffers
) -> LargeRecord | None:
    """Returns the record that ends a round: the first of the dirty part, else the first of all that is cleaned.

    Raises DamagedError, OSError.
    """
    transactions, first, opened = CleanedTransactions(), None, RecordBuffers(0)
    with_aborted = [segment for segment in segments if TRANSACTION_INDEX in segment.paths]
    transactions.add(aborted_between(with_aborted, 0, found.end))
    for segment in segments_between(segments, 0, found.end):
        for window in windows(segment.path, buffers):
            skipped = transactions.discardable(window.rows, window.count)
            for i in range(window.count):
                last_offset = window.rows[i * BATCH_WIDTH + BATCH_LAST_OFFSET]
                is_dirty = last_offset >= found.start
                if (skipped and skipped[i]) or (first and not is_dirty):
                    continue
                size = next((size for size in _record_sizes(window, i, limit_bytes, opened) if size > limit_bytes), 0)
                if size:
                    first = LargeRecord(segment.base_offset, last_offset, size, is_dirty)
                    if is_dirty:
                        return first
    return first


def _record_sizes(window: Window, i: int, limit_bytes: int, buffers: RecordBuffers) -> Iterator[int]:
    """Yields the sizes of the records in batch i; none if it is not compressed or too small for a large record."""
    row = i * BATCH_WIDTH
    if not window.rows[row + BATCH_ATTRIBUTES] & CODEC:
        return
    magic = window.rows[row + BATCH_MAGIC]
    if magic < MAGIC_V2:
        for found in open_message(window, i, buffers).rows():
            for at in range(0, found.count * ROW_WIDTH, ROW_WIDTH):
                sizes = found.rows[at + ROW_KEY_SIZE], found.rows[at + ROW_VALUE_SIZE]
                yield _MESSAGE_BYTES[magic] + sum(max(size, 0) for size in sizes)
        return
    payload = open_records(window, i, buffers)
    at, end = 0, len(payload)
    while end > limit_bytes and at < end and (found := varint(payload, at, end)):
        size = found >> VARINT_VALUE_SHIFT
        yield size
        at += (found & VARINT_LENGTH_MASK) + max(size, 0)
