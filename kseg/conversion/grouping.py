"""Groups records into new batches: records of one batch, or of several batches with equal header fields.

Offsets stay the same, including gaps. If a v2 batch is split, the parts cover the same range of offsets and sequences;
batches are joined only if neither offsets nor sequences have a gap between them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from kseg.formats.areas import MAX_AREA_BYTES, Area, build_batch, build_wrapper
from kseg.formats.compressing import Target
from kseg.formats.record_batch import HEADER_BYTES, RecordBatchHeader
from kseg.formats.rows import Rows
from kseg.kernel.layout.headers import LOG_APPEND_TIME, MAGIC_V2, TRANSACTIONAL
from kseg.kernel.layout.rows import ROW_OFFSET, ROW_WIDTH
from kseg.segment.writer import LARGEST_DELTA

GROUP_BYTES = 16 << 10
"""Uncompressed messages and records without a batch are grouped up to this size: batch.size of Kafka's producer."""

_INITIAL_BYTES = 4 << 10
_LARGEST_SEQUENCE = (1 << 31) - 1

Build = tuple[Callable[[], bytes], int]
"""A function that builds a batch, and the number of its input bytes."""


@dataclass(frozen=True, slots=True)
class BatchFields:
    """Header fields of the batches that records go into. Records with different fields never share a batch.

    ``base_offset`` and ``last_offset``: None if only the records contain them (v0, v1). ``append_time`` in ms, None for
    CreateTime. ``sequence``: that of the record at ``base_offset``, -1 without a producer.
    """

    target: Target
    base_offset: int | None = None
    last_offset: int | None = None
    append_time: int | None = None
    is_transactional: bool = False
    leader_epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    sequence: int = -1

    def is_followed_by(self, other: "BatchFields") -> bool:
        """Whether the next records can share a batch: equal fields, and sequences continue as offsets do."""
        rest = replace(other, base_offset=self.base_offset, last_offset=self.last_offset, sequence=self.sequence)
        if rest != self or (self.sequence < 0) != (other.sequence < 0):
            return False
        if self.base_offset is not None and (other.last_offset or 0) - self.base_offset > LARGEST_DELTA:
            return False
        if self.sequence < 0 or self.base_offset is None or other.base_offset is None:
            return True
        is_next = self.last_offset is not None and other.base_offset == self.last_offset + 1
        return is_next and other.sequence == self.sequence_at(other.base_offset)

    def sequence_at(self, offset: int) -> int:
        """Returns the sequence at an offset. Sequences wrap around after 2^31 - 1."""
        if self.sequence < 0 or self.base_offset is None:
            return self.sequence
        return (self.sequence + offset - self.base_offset) & _LARGEST_SEQUENCE


class Grouper:
    """Builds batches of format ``magic``."""

    def __init__(self, magic: int) -> None:
        self._magic = magic
        self._fields: BatchFields | None = None
        self.trim()

    def trim(self) -> None:
        """Shrinks the buffer, which is empty after `flush`."""
        self._area = Area(self._magic, initial_bytes=_INITIAL_BYTES)

    def add(self, fields: BatchFields, batches: Iterator[Rows], limit: int | None) -> Iterator[Build]:
        """Adds the records of one batch, or of several. Yields complete batches.

        ``limit``: largest size of a new batch before compression, in bytes; None: unlimited. Raises ValueError for a
        record that fits no batch, and UndecodableError as the rows do.
        """
        if self._fields is not None and not self._fields.is_followed_by(fields):
            yield from self.flush()
        elif self._fields is not None and fields.last_offset is not None:
            self._fields = replace(self._fields, last_offset=fields.last_offset)
        max_bytes = MAX_AREA_BYTES if limit is None else max(limit - HEADER_BYTES * (self._magic == MAGIC_V2), 1)
        is_first = True
        for rows in batches:
            first = 0
            while first < rows.count:
                offset = rows.rows[first * ROW_WIDTH + ROW_OFFSET]
                if self._fields is None:
                    self._begin(fields, offset, is_first, max_bytes)
                is_first = False
                done = self._area.add(rows, first, rows.count)
                if done < rows.count:
                    if not self._area.count:
                        raise ValueError(f"the record at offset {offset} fits no batch")
                    reached = rows.rows[done * ROW_WIDTH + ROW_OFFSET] - 1
                    is_known = fields.last_offset is not None
                    yield from self.flush(min(reached, self._area.base_offset + LARGEST_DELTA) if is_known else None)
                first = done

    def _begin(self, fields: BatchFields, offset: int, is_first: bool, max_bytes: int) -> None:
        base = fields.base_offset if is_first and fields.base_offset is not None else offset
        self._fields = replace(fields, base_offset=base, sequence=fields.sequence_at(base))
        self._area.attributes = LOG_APPEND_TIME if fields.append_time is not None and self._magic == 1 else 0
        self._area.is_relative = self._magic == 1 and fields.target.codec != 0
        self._area.begin(base if self._magic == MAGIC_V2 else offset, max_bytes)

    def flush(self, last_offset: int | None = None) -> Iterator[Build]:
        """Yields the incomplete batch. ``last_offset``: its end, if more records of the same batch follow."""
        fields, area = self._fields, self._area
        self._fields = None
        if fields is None or not area.count:
            return
        target, size = fields.target, area.end
        if self._magic == MAGIC_V2:
            last = area.last_offset if fields.last_offset is None else fields.last_offset
            last = min(last, area.base_offset + LARGEST_DELTA)
            header = RecordBatchHeader(
                area.base_offset, 0, fields.leader_epoch, 2, 0,
                LOG_APPEND_TIME * (fields.append_time is not None) | TRANSACTIONAL * fields.is_transactional,
                (last if last_offset is None else last_offset) - area.base_offset, area.base_timestamp,
                area.largest_timestamp if fields.append_time is None else fields.append_time,
                fields.producer_id, fields.producer_epoch, fields.sequence, area.count,
            )  # fmt: skip
            yield partial(build_batch, header, area.take(), target), size
        elif target.codec == 0:
            yield partial(bytes, area.take()), size
        else:
            wrapper = (self._magic, area.last_offset, area.largest_timestamp, area.attributes)
            yield partial(build_wrapper, *wrapper, area.take(), target), size
