"""Segments of a workspace: what a broker reads off one, and what its recovery makes of it (Kafka's LogSegment)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from struct import Struct

from kseg.formats.rows import int64s
from kseg.kernel import indexing
from kseg.kernel.native import (
    BATCH_COUNT,
    BATCH_FIRST_OFFSET,
    BATCH_LAST_OFFSET,
    BATCH_LEADER_EPOCH,
    BATCH_MAGIC,
    BATCH_POSITION,
    BATCH_SIZE,
    BATCH_WIDTH,
)
from kseg.recovery.accepted import AcceptedBatches
from kseg.recovery.workspace import Workspace
from kseg.segment.source import Source, open_source
from kseg.segment.survey import Headers
from kseg.sidefiles.transaction_index import AbortedTxn, build_transaction_index

LOG, INDEX, TIME_INDEX, TXN_INDEX = ".log", ".index", ".timeindex", ".txnindex"
SUFFIXES = (LOG, INDEX, TIME_INDEX, TXN_INDEX)
DEFAULT_INTERVAL_BYTES = 4096

_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")


@dataclass(frozen=True, slots=True)
class Era:
    """What differs between releases in a recovery. ``max_message_bytes``: larger batches are taken for corrupt."""

    name: str = "4.3"
    has_time_index: bool = True
    has_producers: bool = True
    has_epochs: bool = True
    uses_first_offset: bool = False
    max_message_bytes: int | None = None


@dataclass(slots=True)
class Recovered:
    """What a recovery made of a segment: ``valid_bytes`` of the .log are kept, of ``batches`` and ``records``.

    ``refused``: the index does not take an offset at ``valid_bytes``; a broker then empties the segment.
    ``outside``: an offset there that the segment cannot hold.
    """

    valid_bytes: int = 0
    batches: int = 0
    records: int = 0
    next_offset: int = 0
    refused: bool = False
    outside: int | None = None


class BrokerSegment:
    """One segment of a workspace by its base offset; ``stem`` is the name of its files without suffix."""

    def __init__(self, workspace: Workspace, stem: str, base_offset: int) -> None:
        self.workspace = workspace
        self.stem = stem
        self.base_offset = base_offset

    @property
    def log(self) -> str:
        return self.stem + LOG

    @property
    def size(self) -> int:
        return self.workspace.size(self.log)

    @contextmanager
    def _opened(self) -> Iterator[Source]:
        with open_source(self.workspace.path(self.log)) as source:
            yield source

    def headers(self, position: int = 0, max_size: int | None = None) -> Iterator[Headers]:
        """Header rows of the batches from a position on, as far as they are intact."""
        if not self.size:
            return
        with self._opened() as source:
            yield from AcceptedBatches(source, self.size, position, max_size)

    @staticmethod
    def end_of(headers: Headers) -> int:
        """The position behind the last of some batches."""
        last = (headers.count - 1) * BATCH_WIDTH
        return int(headers.rows[last + BATCH_POSITION] + headers.rows[last + BATCH_SIZE])

    def last_indexed(self) -> tuple[int, int]:
        """Offset and position of the last entry of the offset index, zeros at its end included as a broker does."""
        name = self.stem + INDEX
        if name not in self.workspace or self.workspace.size(name) < _OFFSET_ENTRY.size:
            return self.base_offset, 0
        data = self.workspace.read(name)
        relative, position = _OFFSET_ENTRY.unpack_from(data, len(data) // 8 * 8 - 8)
        return self.base_offset + relative, position

    def lookup(self, offset: int) -> int:
        """Position from where to search for an offset."""
        name = self.stem + INDEX
        if name not in self.workspace:
            return 0
        data = self.workspace.read(name)
        low, high = 0, len(data) // 8
        while low < high:
            middle = (low + high) // 2
            if self.base_offset + _OFFSET_ENTRY.unpack_from(data, 8 * middle)[0] <= offset:
                low = middle + 1
            else:
                high = middle
        return _OFFSET_ENTRY.unpack_from(data, 8 * low - 8)[1] if low else 0

    def read_next_offset(self) -> int:
        """The offset behind the last batch, found from the last index entry on (LogSegment.readNextOffset)."""
        offset, _ = self.last_indexed()
        position = self.lookup(offset)
        if not 0 <= position <= self.size:
            return self.base_offset
        found = self.base_offset
        for headers in self.headers(position):
            last = headers.rows[(headers.count - 1) * BATCH_WIDTH + BATCH_LAST_OFFSET]
            if last >= offset or found > self.base_offset:
                found = last + 1
        return found

    def recover(
        self, interval: int, era: Era, each: "Callable[[Headers], list[AbortedTxn]]", epoch: Callable[[int, int], None]
    ) -> Recovered:
        """Scans the segment and rebuilds its indexes (LogSegment.recover). The .log is left to the caller.

        ``each`` is given the headers of accepted batches and gives back aborted transactions that they complete,
        ``epoch`` leader epoch and base offset of batches that may begin one.
        """
        found = Recovered(next_offset=self.base_offset)
        state = _fresh_state(self.base_offset, interval, era)
        offsets, times, aborted = bytearray(), bytearray(), []
        last_epoch = -1
        for headers in self.headers(0, era.max_message_bytes):
            pairs, stamps = int64s(2 * headers.count), int64s(2 * headers.count)
            status = indexing.index(headers.rows, headers.count, state, pairs, stamps)
            self._pack(state, pairs, stamps, offsets, times)
            taken = headers.count if status == indexing.DONE else state[indexing.ROW]
            if status == indexing.OUTSIDE:
                found.outside = headers.rows[taken * BATCH_WIDTH + BATCH_LAST_OFFSET]
            found.refused = status == indexing.NOT_RISING
            if taken:
                part = Headers(headers.rows, taken)
                if era.has_epochs:
                    last_epoch = _tell_epochs(part, last_epoch, epoch)
                aborted += each(part)
                self._count(found, part)
            if status != indexing.DONE:
                break
        largest, at = state[indexing.LARGEST_TIMESTAMP], state[indexing.LARGEST_TIMESTAMP_OFFSET]
        if largest > state[indexing.LAST_TIMESTAMP]:
            times += _TIME_ENTRY.pack(largest, at - self.base_offset)
        reason = "rebuilt from the .log"
        self.workspace.write_index(self.stem + INDEX, bytes(offsets), reason)
        if era.has_time_index:
            self.workspace.write_index(self.stem + TIME_INDEX, bytes(times), reason)
        if aborted:
            self.workspace.write(self.stem + TXN_INDEX, [build_transaction_index(aborted)], reason)
        elif self.stem + TXN_INDEX in self.workspace:
            self.workspace.write(self.stem + TXN_INDEX, [b""], "no transaction was aborted in this segment")
        return found

    def _pack(
        self, state: memoryview, pairs: memoryview, stamps: memoryview, offsets: bytearray, times: bytearray
    ) -> None:
        base = self.base_offset
        for i in range(state[indexing.OFFSETS]):
            offsets += _OFFSET_ENTRY.pack(pairs[2 * i] - base, pairs[2 * i + 1])
        for i in range(state[indexing.TIMES]):
            times += _TIME_ENTRY.pack(stamps[2 * i], stamps[2 * i + 1] - base)

    @staticmethod
    def _count(found: Recovered, headers: Headers) -> None:
        rows, last = headers.rows, (headers.count - 1) * BATCH_WIDTH
        found.valid_bytes = rows[last + BATCH_POSITION] + rows[last + BATCH_SIZE]
        found.next_offset = rows[last + BATCH_LAST_OFFSET] + 1
        found.batches += headers.count
        counts = rows[BATCH_COUNT : headers.count * BATCH_WIDTH : BATCH_WIDTH].tolist()
        found.records += sum(count if count >= 0 else 1 for count in counts)

    def position_of(self, offset: int) -> int | None:
        """Start of the first batch whose last offset is not below ``offset``, from the index on; None without one."""
        for headers in self.headers(self.lookup(offset)):
            lasts = headers.rows[BATCH_LAST_OFFSET : headers.count * BATCH_WIDTH : BATCH_WIDTH].tolist()
            if max(lasts) < offset:
                continue
            i = next(i for i, last in enumerate(lasts) if last >= offset)
            return int(headers.rows[i * BATCH_WIDTH + BATCH_POSITION])
        return None


def _fresh_state(base: int, interval: int, era: Era) -> memoryview:
    state = int64s(indexing.STATE_WIDTH)
    state[indexing.INTERVAL], state[indexing.BASE] = interval, base
    for column in (
        indexing.LARGEST_TIMESTAMP, indexing.LARGEST_TIMESTAMP_OFFSET, indexing.LAST_OFFSET, indexing.LAST_TIMESTAMP,
        indexing.LAST_TIME_OFFSET,
    ):  # fmt: skip
        state[column] = -1
    state[indexing.USES_FIRST_OFFSET], state[indexing.HAS_TIMES] = era.uses_first_offset, era.has_time_index
    return state


def _tell_epochs(headers: Headers, last: int, tell: Callable[[int, int], None]) -> int:
    """Tells each change of the leader epoch among v2 batches; the last epoch seen."""
    rows = headers.rows
    epochs = rows[BATCH_LEADER_EPOCH : headers.count * BATCH_WIDTH : BATCH_WIDTH].tolist()
    if all(epoch == last for epoch in epochs):
        return last
    for i, epoch in enumerate(epochs):
        if epoch != last and rows[i * BATCH_WIDTH + BATCH_MAGIC] >= 2:
            tell(epoch, rows[i * BATCH_WIDTH + BATCH_FIRST_OFFSET])
            last = epoch
    return last
