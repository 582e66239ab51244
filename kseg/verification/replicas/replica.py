"""Reads one replica of a partition for a comparison: its intact batches in the order of its segments.

Batches are read in spans of many; where two replicas differ, records are read batch by batch.
"""

from bisect import bisect_right
from collections.abc import Generator, Iterator

from kseg.errors import PathError
from kseg.formats.rows import Rows, Scratch, UndecodableError
from kseg.kernel.layout.headers import MAGIC_V2
from kseg.kernel.layout.rows import (
    BATCH_COUNT,
    BATCH_FIRST_OFFSET,
    BATCH_LAST_OFFSET,
    BATCH_LEADER_EPOCH,
    BATCH_MAGIC,
    BATCH_POSITION,
    BATCH_SIZE,
    BATCH_STATE,
    BATCH_WIDTH,
    CRC_RIGHT,
)
from kseg.kernel.scan import chain
from kseg.segment.batches import Message, RecordBatch
from kseg.segment.files import SegmentFile
from kseg.segment.items import Damage
from kseg.segment.reader import SegmentReader
from kseg.segment.survey import FULL, HeaderRows, SegmentSurvey
from kseg.stores.source import Source, open_source


class Replica:
    """A cursor over the batches of a replica; the properties describe the current batch, until ``is_at_end``.

    ``not_compared``: the damaged ranges passed so far, (file, position, length); the caller removes them.
    ``was_damaged``: damage, or another unknown range, precedes the current batch. ``last_offset``: the largest offset
    of the batches passed so far, -1 if there is none; ``bytes``: the size of the files read to their ends.
    """

    def __init__(self, files: list[SegmentFile], jobs: int, max_batch_bytes: int) -> None:
        for file in files:
            if file.is_07:
                raise PathError(f"{file.path}: 0.7 had no replicas, there is nothing to compare")
        self.files = files
        self.start_offset = files[0].base_offset if files else None
        self.not_compared: list[tuple[str, int, int]] = []
        self.was_damaged = False
        self._chain = chain.Chain()
        self.last_offset = -1
        self.path = ""
        self.is_at_end = False
        self.bytes = 0
        self._jobs = jobs
        self._scratch = Scratch(max_batch_bytes)
        self._source: Source | None = None
        self._rows = memoryview(b"")
        self._i = self._count = 0
        self._spans = self._read()
        self._next_span()

    def close(self) -> None:
        self._spans.close()

    def _read(self) -> Generator[HeaderRows, None, None]:
        for file in self.files:
            with open_source(file.path) as source:
                self.path, self._source = file.path, source
                reader = SegmentReader(source, False, file.base_offset or 0, False, None, self._scratch)
                for item in SegmentSurvey(reader, FULL, self._jobs):
                    if isinstance(item, Damage):
                        self._pass_damage(item.position, item.length)
                    elif isinstance(item, HeaderRows):
                        yield from self._intact(item)
                self._source = None
                self.bytes += source.size

    def _intact(self, item: HeaderRows) -> Iterator[HeaderRows]:
        """Yields spans of batches with right checksums."""
        states = item.rows[BATCH_STATE : item.count * BATCH_WIDTH : BATCH_WIDTH].tolist()
        start = 0
        for i, state in enumerate(states):
            if state & CRC_RIGHT:
                continue
            if i > start:
                yield HeaderRows(item.rows[start * BATCH_WIDTH : i * BATCH_WIDTH], i - start)
            at, start = i * BATCH_WIDTH, i + 1
            self._pass_damage(item.rows[at + BATCH_POSITION], item.rows[at + BATCH_SIZE])
        if start < item.count:
            yield HeaderRows(item.rows[start * BATCH_WIDTH :], item.count - start)

    def _pass_damage(self, position: int, length: int) -> None:
        self.not_compared.append((self.path, position, length))
        self.was_damaged = True

    def _next_span(self) -> None:
        item = next(self._spans, None)
        if item is None:
            self.is_at_end = True
            return
        self._rows, self._i, self._count = item.rows, 0, item.count
        chain.follow(item.rows, item.count, self._chain)

    @property
    def holds_gaps(self) -> bool:
        """Whether a batch had fewer records than offsets, as the cleaner leaves them."""
        return self._chain.sparse > 0

    def _column(self, column: int) -> int:
        return int(self._rows[self._i * BATCH_WIDTH + column])

    @property
    def first_offset(self) -> int:
        """First offset of the batch; -1 for a compressed v0 or v1 message, which must be decompressed for it."""
        return self._column(BATCH_FIRST_OFFSET)

    @property
    def end_offset(self) -> int:
        """Last offset of the batch."""
        return self._column(BATCH_LAST_OFFSET)

    @property
    def leader_epoch(self) -> int:
        return self._column(BATCH_LEADER_EPOCH)

    @property
    def position(self) -> int:
        return self._column(BATCH_POSITION)

    @property
    def size(self) -> int:
        return self._column(BATCH_SIZE)

    @property
    def span_end(self) -> int:
        """Position after the last batch of the span."""
        last = (self._count - 1) * BATCH_WIDTH
        return int(self._rows[last + BATCH_POSITION] + self._rows[last + BATCH_SIZE])

    def read(self, size: int) -> bytes:
        """Returns bytes from the batch on."""
        assert self._source is not None
        return self._source.extent.pread(size, self.position)

    def batches_within(self, size: int) -> int:
        """Returns the number of batches of the span that end within ``size`` bytes of the batch's position."""
        limit = self.position + size
        ends = range(self._i, self._count)
        return bisect_right(ends, limit, key=self._end_of)

    def _end_of(self, i: int) -> int:
        return int(self._rows[i * BATCH_WIDTH + BATCH_POSITION] + self._rows[i * BATCH_WIDTH + BATCH_SIZE])

    def records_in(self, count: int) -> int:
        """Returns the record count of the next ``count`` batches by their headers."""
        start, stop = self._i * BATCH_WIDTH + BATCH_COUNT, (self._i + count) * BATCH_WIDTH
        return sum(number if number >= 0 else 1 for number in self._rows[start:stop:BATCH_WIDTH].tolist())

    def last_of(self, count: int) -> int:
        """Returns the last offset of the next ``count`` batches."""
        return int(self._rows[(self._i + count - 1) * BATCH_WIDTH + BATCH_LAST_OFFSET])

    def step(self, count: int = 1) -> None:
        """Moves by ``count`` batches of the span."""
        self.was_damaged = False
        self._i += count
        self.last_offset = max(self.last_offset, int(self._rows[(self._i - 1) * BATCH_WIDTH + BATCH_LAST_OFFSET]))
        if self._i >= self._count:
            self._next_span()

    def batch_rows(self) -> Iterator[Rows]:
        """Yields the records of the batch; an undecodable batch is added to ``not_compared``."""
        position, size, magic = self.position, self.size, self._column(BATCH_MAGIC)
        kind = RecordBatch if magic >= MAGIC_V2 else Message
        batch = kind(self.read(size), position, size, magic, True, self._scratch)
        try:
            yield from batch.rows()
        except UndecodableError:
            self._pass_damage(position, size)
