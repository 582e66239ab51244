"""Transactions that no marker has ended: what holds back the last stable offset, since when, and whose they are.

`kseg.segment.isolation` finds them; this keeps what is to be told about each. One that began before the first segment
read is told from its first batch there on.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kseg.formats.rows import Scratch
from kseg.segment.batches import RecordBatch
from kseg.segment.files import SegmentFile
from kseg.segment.isolation import Transactions
from kseg.segment.reader import SegmentReader
from kseg.segment.seek import time_extent
from kseg.segment.source import open_source


@dataclass(slots=True)
class OpenTransaction:
    """``first_timestamp`` in ms is that of the first record, None where it has none; ``batches`` are those so far."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    first_timestamp: int | None
    batches: int = 1

    def age_ms(self, now: int | None) -> int | None:
        """How long it has been open at ``now`` (ms since the epoch); None where that or its begin is not known."""
        return None if now is None or self.first_timestamp is None else now - self.first_timestamp


class OpenTransactions(Transactions):
    """As `Transactions`; ``found`` lists the open ones by first offset."""

    def __init__(self) -> None:
        super().__init__()
        self._details: dict[int, OpenTransaction] = {}

    @property
    def found(self) -> list[OpenTransaction]:
        return sorted(self._details.values(), key=lambda transaction: transaction.first_offset)

    def _add(self, batch: RecordBatch) -> None:
        super()._add(batch)
        header = batch.header
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


def find_open(files: Iterable[SegmentFile], scratch: Scratch, live: bool = False) -> list[OpenTransaction]:
    """The open transactions of a partition, by first offset. Raises PathError where a segment cannot be opened."""
    transactions = OpenTransactions()
    for file in files:
        with open_source(file.path) as source:
            reader = SegmentReader(source, file.kind == ".kafka", file.base_offset or 0, live, scratch=scratch)
            transactions.read(reader)
    return transactions.found


def newest_timestamp(files: Iterable[SegmentFile], scratch: Scratch) -> int | None:
    """The largest timestamp (ms) of the segments, by their time indexes where these are right; None without any.

    Raises PathError where one cannot be opened.
    """
    newest = None
    for file in files:
        with open_source(file.path) as source:
            reader = SegmentReader(source, file.kind == ".kafka", file.base_offset or 0, scratch=scratch)
            extent = time_extent(reader, file)
        if extent is not None:
            newest = extent[1] if newest is None else max(newest, extent[1])
    return newest
