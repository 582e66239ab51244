"""Determines what a read_committed consumer skips: aborted batches, and all from the oldest open transaction on.

A pass over batch headers and markers is enough; no .txnindex is read. A transaction that is open at the log end hides
everything from its first offset on. Source: Kafka's ProducerStateManager and CompletedFetch, KIP-98.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple, Self

from kseg.formats.control import parse_control
from kseg.formats.record_batch import ABORT, COMMIT
from kseg.formats.rows import Scratch
from kseg.kernel.layout.headers import CONTROL, MAGIC_V2, TRANSACTIONAL, V2_FLAGS
from kseg.kernel.layout.rows import FRAME_MAGIC, FRAME_POSITION, FRAME_STATE, FRAME_WIDTH
from kseg.segment.files import SegmentFile
from kseg.segment.items import Batch, Damage, RecordBatch
from kseg.segment.reader import Run, SegmentReader, open_segment
from kseg.segment.seek import offset_extent, time_extent


def _marked_in(reader: SegmentReader, run: Run, attributes: int) -> Iterator[tuple[int, RecordBatch]]:
    """Yields the intact v2 batches of a run with any of these attributes, and their indexes in the run."""
    if reader.is_07:
        return
    for i in range(run.count):
        at = i * FRAME_WIDTH
        if run.rows[at + FRAME_MAGIC] != MAGIC_V2 or not run.rows[at + FRAME_STATE]:
            continue
        if reader.buffer[run.rows[at + FRAME_POSITION] + V2_FLAGS] & attributes:
            batch = reader.batch(run, i, keep=False)
            if isinstance(batch, RecordBatch):
                yield i, batch


class Transactions:
    """The aborted ranges by producer id, and the last stable offset, of a partition's segments.

    ``last_stable_offset`` is None if no transaction is open at the end.
    """

    def __init__(self, open_before: Mapping[int, int] | None = None) -> None:
        """``open_before``: first offsets of the transactions that are open before the first segment, by producer id."""
        self._open: dict[int, int] = dict(open_before or {})
        self._stable: tuple[int | None] | None = None
        self._aborted: dict[int, list[tuple[int, int]]] = defaultdict(list)

    @classmethod
    def of_segments(cls, files: Iterable[SegmentFile], scratch: Scratch, live: bool = False) -> Self:
        """Reads the segments of one partition in order. Raises PathError if one cannot be opened."""
        found = cls()
        for file in files:
            with open_segment(file, scratch, live=live) as reader:
                found.read(reader)
        return found

    def read(self, reader: SegmentReader) -> None:
        """Adds the partition's next segment."""
        for run in reader.runs():
            if not isinstance(run, Damage):
                self.read_run(reader, run)

    def read_run(self, reader: SegmentReader, run: Run, only_markers: bool = False) -> None:
        """Adds the next batches; ``only_markers``: transactions end by their markers, and those that begin in them are
        not added."""
        for _, batch in _marked_in(reader, run, CONTROL if only_markers else TRANSACTIONAL | CONTROL):
            self._add(batch)

    def has_open(self) -> bool:
        """Whether a transaction has no marker yet."""
        return bool(self._open)

    def add_open(self, later: "Transactions") -> None:
        """Adds the transactions that a reader of later segments has found open at the end of the log."""
        for producer_id, first in later._open.items():
            self._open[producer_id] = min(first, self._open.get(producer_id, first))
        self._stable = None

    def aborted_in(self, reader: SegmentReader, run: Run) -> Iterator[int]:
        """Yields the indexes of frames in a run that a read_committed consumer skips."""
        if self._aborted:
            yield from (i for i, batch in _marked_in(reader, run, TRANSACTIONAL) if self.is_aborted(batch))

    def _add(self, batch: RecordBatch) -> None:
        producer_id, self._stable = batch.header.producer_id, None
        if not batch.is_control:
            self._open.setdefault(producer_id, batch.header.base_offset)
            return
        marker = next(iter(batch), None)
        kind = parse_control(marker.key, marker.value).type_id if marker else None
        if kind not in (ABORT, COMMIT):
            return
        first = self._open.pop(producer_id, None)
        if kind == ABORT and first is not None:
            self._aborted[producer_id].append((first, batch.header.base_offset))

    def aborted_between(self, first: int, end: int) -> list[tuple[int, int]]:
        """Returns the producer id and first offset of the aborted transactions that overlap offsets ``first`` to
        ``end`` (exclusive), by first offset."""
        found = []
        for producer_id, ranges in self._aborted.items():
            for at in range(bisect_left(ranges, first, key=itemgetter(1)), len(ranges)):
                if ranges[at][0] >= end:
                    break
                found.append((producer_id, ranges[at][0]))
        return sorted(found, key=itemgetter(1))

    @property
    def last_stable_offset(self) -> int | None:
        if self._stable is None:  # readers ask for it at each batch
            self._stable = (min(self._open.values(), default=None),)
        return self._stable[0]

    def is_aborted(self, batch: Batch) -> bool:
        """Whether a read_committed consumer skips the batch."""
        if not isinstance(batch, RecordBatch) or batch.is_control or not batch.is_transactional:
            return False
        ranges = self._aborted.get(batch.header.producer_id, [])
        at = bisect_right(ranges, (batch.header.base_offset, 1 << 63)) - 1
        return at >= 0 and batch.header.base_offset < ranges[at][1]


# Open transactions, which hold back the last stable offset, with their start and producer. One that began before the
# first segment read is reported from its first batch there.


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
        producer_id, epoch, offset = batch.header.producer_id, batch.header.producer_epoch, batch.header.base_offset
        if batch.is_control and producer_id >= 0:
            self.markers[producer_id] = LastMarker(offset, epoch, batch.header.max_timestamp)
        if producer_id not in self._open:
            self._details.pop(producer_id, None)
        elif (known := self._details.get(producer_id)) is None:
            first = next(iter(batch), None)
            stamp = None if first is None or first.timestamp == -1 else first.timestamp
            self._details[producer_id] = OpenTransaction(producer_id, epoch, offset, stamp)
        elif not batch.is_control:
            known.batches += 1
            known.producer_epoch = epoch


def newest_timestamp(files: Iterable[SegmentFile], scratch: Scratch) -> int | None:
    """Returns the segments' largest timestamp (ms), from their time indexes if these are valid; None if there is none.

    Raises PathError if a segment cannot be opened.
    """
    extents = []
    for file in files:
        with open_segment(file, scratch) as reader:
            extents.append(time_extent(reader, file))
    return max((extent[1] for extent in extents if extent is not None), default=None)


def end_offset(files: Sequence[SegmentFile], scratch: Scratch) -> int | None:
    """Returns the offset after the last intact batch of a partition's segments; None if there is none.

    Raises PathError if a segment cannot be opened.
    """
    for file in reversed(files):
        with open_segment(file, scratch) as reader:
            extent = offset_extent(reader, file)
        if extent is not None:
            return extent[1] + 1
    return None
