"""Lists the open transactions of a partition, which hold back the last stable offset, with their start and producer.

`kseg.segment.isolation` finds them; this module adds the reported facts. A transaction that began before the first
segment read is reported from its first batch there.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kseg.formats.rows import Scratch
from kseg.segment.batches import RecordBatch
from kseg.segment.files import SegmentFile
from kseg.segment.isolation import Transactions
from kseg.segment.reader import SegmentReader
from kseg.segment.seek import offset_extent, time_extent
from kseg.stores.source import open_source


@dataclass(slots=True)
class OpenTransaction:
    """``first_timestamp`` is that of the first record in ms, None if it has none; ``batches`` is the number so far."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    first_timestamp: int | None
    batches: int = 1

    def age_ms(self, now: int | None) -> int | None:
        """Returns the time it has been open at ``now`` (ms since the epoch); None if ``now`` or its start is
        unknown."""
        return None if now is None or self.first_timestamp is None else now - self.first_timestamp


class LastMarker(NamedTuple):
    """The last marker of a producer; the timestamp in ms."""

    offset: int
    producer_epoch: int
    timestamp: int


class OpenTransactions(Transactions):
    """Like `Transactions`; ``found`` lists the open ones by first offset, ``markers`` the last one of each producer
    id."""

    def __init__(self) -> None:
        super().__init__()
        self.markers: dict[int, LastMarker] = {}
        self._details: dict[int, OpenTransaction] = {}

    @property
    def found(self) -> list[OpenTransaction]:
        return sorted(self._details.values(), key=lambda transaction: transaction.first_offset)

    def _add(self, batch: RecordBatch) -> None:
        super()._add(batch)
        header = batch.header
        if batch.is_control and header.producer_id >= 0:
            self.markers[header.producer_id] = LastMarker(
                header.base_offset, header.producer_epoch, header.max_timestamp
            )
        if header.producer_id not in self._open:
            self._details.pop(header.producer_id, None)
        elif header.producer_id in self._details:
            if not batch.is_control:
                transaction = self._details[header.producer_id]
                transaction.batches += 1
                transaction.producer_epoch = header.producer_epoch
        else:
            first = next(iter(batch), None)
            stamp = first.timestamp if first is not None else None
            self._details[header.producer_id] = OpenTransaction(
                header.producer_id, header.producer_epoch, header.base_offset, None if stamp == -1 else stamp
            )


def newest_timestamp(files: Iterable[SegmentFile], scratch: Scratch) -> int | None:
    """Returns the segments' largest timestamp (ms), from their time indexes if these are valid; None if there is none.

    Raises PathError if a segment cannot be opened.
    """
    newest = None
    for file in files:
        with open_source(file.path) as source:
            reader = SegmentReader(source, file.is_07, file.base_offset or 0, scratch=scratch)
            extent = time_extent(reader, file)
        if extent is not None:
            newest = extent[1] if newest is None else max(newest, extent[1])
    return newest


def end_offset(files: Sequence[SegmentFile], scratch: Scratch) -> int | None:
    """Returns the offset after the last intact batch of a partition's segments; None if there is none.

    Raises PathError if a segment cannot be opened.
    """
    for file in reversed(files):
        with open_source(file.path) as source:
            reader = SegmentReader(source, file.is_07, file.base_offset or 0, scratch=scratch)
            extent = offset_extent(reader, file)
        if extent is not None:
            return extent[1] + 1
    return None
