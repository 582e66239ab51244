"""Records put into new batches: those of one batch, or of several that agree in all that a batch says of its records.

Offsets stay as they are, gaps included. A v2 batch that is cut in two covers the same range of offsets and sequences;
two that are joined follow each other without a gap in either.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from kseg.formats.areas import LOG_APPEND_TIME, MOST_AREA_BYTES, Area, build_batch, build_wrapper
from kseg.formats.compressing import Target
from kseg.formats.record_batch import HEADER_BYTES, RecordBatchHeader
from kseg.formats.rows import Rows
from kseg.kernel.native import ROW_OFFSET, ROW_WIDTH

_SEQUENCES = LARGEST_DELTA = 0x7FFFFFFF

Build = tuple[Callable[[], bytes], int]
"""What makes a batch, and how many bytes it works on."""


@dataclass(frozen=True, slots=True)
class Manner:
    """What the batches that records go into say of them; records whose manners differ in anything share none.

    ``append_time`` in ms, None for CreateTime. ``sequence`` is that of the record at ``base_offset``, which is None
    where only the records tell it (v0, v1).
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

    def is_followed_by(self, other: "Manner") -> bool:
        """Whether what comes behind may share a batch: all is the same, and sequences go on as offsets do."""
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
        """Sequences go round after 2^31 - 1."""
        if self.sequence < 0 or self.base_offset is None:
            return self.sequence
        return (self.sequence + offset - self.base_offset) & _SEQUENCES


class Grouper:
    """Makes batches of format ``magic``; ``limit``: bytes that one has at most before compression, None: any number."""

    def __init__(self, magic: int) -> None:
        self._magic = magic
        self._area = Area(magic)
        self._manner: Manner | None = None

    def add(self, manner: Manner, batches: Iterator[Rows], limit: int | None) -> Iterator[Build]:
        """Takes the records of one batch; what is complete comes out. Raises UndecodableError as the rows do."""
        if self._manner is not None and not self._manner.is_followed_by(manner):
            yield from self.flush()
        elif self._manner is not None and manner.last_offset is not None:
            self._manner = replace(self._manner, last_offset=manner.last_offset)
        most = MOST_AREA_BYTES if limit is None else max(limit - HEADER_BYTES * (self._magic == 2), 1)
        is_first = True
        for rows in batches:
            first = 0
            while first < rows.count:
                offset = rows.rows[first * ROW_WIDTH + ROW_OFFSET]
                if self._manner is None:
                    self._begin(manner, offset, is_first, most)
                is_first = False
                done = self._area.add(rows, first, rows.count)
                if done < rows.count:
                    if not self._area.count:
                        raise ValueError(f"the record at offset {offset} fits no batch")
                    reached = rows.rows[done * ROW_WIDTH + ROW_OFFSET] - 1
                    is_told = manner.last_offset is not None
                    yield from self.flush(min(reached, self._area.base_offset + LARGEST_DELTA) if is_told else None)
                first = done

    def _begin(self, manner: Manner, offset: int, is_first: bool, most: int) -> None:
        base = manner.base_offset if is_first and manner.base_offset is not None else offset
        self._manner = replace(manner, base_offset=base, sequence=manner.sequence_at(base))
        self._area.attributes = LOG_APPEND_TIME if manner.append_time is not None and self._magic == 1 else 0
        self._area.is_relative = self._magic == 1 and manner.target.codec != 0
        self._area.begin(base if self._magic == 2 else offset, most)

    def flush(self, last_offset: int | None = None) -> Iterator[Build]:
        """The batch that is not complete; ``last_offset``: how far it reaches, where records of its batch remain."""
        manner, area = self._manner, self._area
        self._manner = None
        if manner is None or not area.count:
            return
        target, size = manner.target, area.size
        if self._magic == 2:
            last = area.last_offset if manner.last_offset is None else manner.last_offset
            last = min(last, area.base_offset + LARGEST_DELTA)
            header = RecordBatchHeader(
                area.base_offset, 0, manner.leader_epoch, 2, 0,
                LOG_APPEND_TIME * (manner.append_time is not None) | 16 * manner.is_transactional,
                (last if last_offset is None else last_offset) - area.base_offset, area.base_timestamp,
                area.max_timestamp if manner.append_time is None else manner.append_time,
                manner.producer_id, manner.producer_epoch, manner.sequence, area.count,
            )  # fmt: skip
            yield partial(build_batch, header, area.take(), target), size
        elif target.codec == 0:
            yield partial(bytes, area.take()), size
        else:
            wrapper = (self._magic, area.last_offset, area.max_timestamp, area.attributes)
            yield partial(build_wrapper, *wrapper, area.take(), target), size
