"""Determines what a read_committed consumer skips: aborted batches, and all from the last stable offset on.

A pass over batch headers and markers is enough; no .txnindex is read. A transaction that is open at the log end hides
everything from its first offset on. Source: Kafka's ProducerStateManager and CompletedFetch, KIP-98.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Self

from kseg.formats.control import parse_control
from kseg.formats.record_batch import ABORT, COMMIT
from kseg.formats.rows import Scratch
from kseg.kernel.layout.headers import CONTROL, MAGIC_V2, TRANSACTIONAL, V2_FLAGS
from kseg.kernel.layout.rows import FRAME_MAGIC, FRAME_POSITION, FRAME_STATE, FRAME_WIDTH
from kseg.segment.batches import Batch, RecordBatch
from kseg.segment.files import SegmentFile
from kseg.segment.items import Damage
from kseg.segment.reader import Run, SegmentReader
from kseg.stores.source import Source, open_source


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
        self._aborted: dict[int, list[tuple[int, int]]] = defaultdict(list)

    @classmethod
    def of_segments(
        cls,
        files: Iterable[SegmentFile],
        scratch: Scratch,
        live: bool = False,
        opened: Callable[[str], Source] = open_source,
    ) -> Self:
        """Reads the segments of one partition in order. Raises PathError if one cannot be opened."""
        found = cls()
        for file in files:
            with opened(file.path) as source:
                reader = SegmentReader(source, file.is_07, file.base_offset or 0, live, scratch=scratch)
                found.read(reader)
        return found

    def read(self, reader: SegmentReader) -> None:
        """Adds the partition's next segment."""
        for run in reader.runs():
            if not isinstance(run, Damage):
                self.read_run(reader, run)

    def read_run(self, reader: SegmentReader, run: Run) -> None:
        """Adds the next batches."""
        for _, batch in _marked_in(reader, run, TRANSACTIONAL | CONTROL):
            self._add(batch)

    def end_in(self, reader: SegmentReader, run: Run) -> None:
        """Ends transactions by the markers of the next batches; transactions that begin in them are not added."""
        for _, batch in _marked_in(reader, run, CONTROL):
            if batch.is_control:
                self._add(batch)

    def has_open(self) -> bool:
        """Whether a transaction has no marker yet."""
        return bool(self._open)

    def add_open(self, later: "Transactions") -> None:
        """Adds the transactions that a reader of later segments has found open at the end of the log."""
        for producer_id, first in later._open.items():
            self._open[producer_id] = min(first, self._open.get(producer_id, first))

    def aborted_in(self, reader: SegmentReader, run: Run) -> Iterator[int]:
        """Yields the indexes of frames in a run that a read_committed consumer skips."""
        if self._aborted:
            yield from (i for i, batch in _marked_in(reader, run, TRANSACTIONAL) if self.is_aborted(batch))

    def _add(self, batch: RecordBatch) -> None:
        producer_id = batch.header.producer_id
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

    @property
    def last_stable_offset(self) -> int | None:
        return min(self._open.values(), default=None)

    def is_aborted(self, batch: Batch) -> bool:
        """Whether a read_committed consumer skips the batch."""
        if not isinstance(batch, RecordBatch) or batch.is_control or not batch.is_transactional:
            return False
        ranges = self._aborted.get(batch.header.producer_id, [])
        at = bisect_right(ranges, (batch.header.base_offset, 1 << 63)) - 1
        return at >= 0 and batch.header.base_offset < ranges[at][1]
