"""Effects of reading a whole segment in a broker's replay (UnifiedLog.loadProducersFromRecords).

A broker that replays a segment applies the updates of all its batches together, and ends their transactions afterwards.
Two transactions that begin at one offset are then one, and cannot both end: the broker dies. A producer whose epoch is
the same before and after the read keeps its last batch, even if an epoch in between has no batch.
"""

from collections.abc import Iterable, Iterator

from kseg.kernel.layout.headers import CONTROL, MAGIC_V2, TRANSACTIONAL
from kseg.kernel.layout.rows import (
    BATCH_ATTRIBUTES,
    BATCH_COUNT,
    BATCH_FIRST_OFFSET,
    BATCH_MAGIC,
    BATCH_PRODUCER_ID,
    BATCH_WIDTH,
)
from kseg.segment.survey import HeaderRows
from kseg.sidefiles.producer_state import ProducerStates

_COLUMNS = (BATCH_PRODUCER_ID, BATCH_ATTRIBUTES, BATCH_FIRST_OFFSET, BATCH_COUNT, BATCH_MAGIC)


class ReplayedRead:
    """One read, begun with the producers of ``state``. ``lost``: first offsets of open transactions that an earlier
    read ended together with another one; it is updated."""

    def __init__(self, state: ProducerStates, lost: set[int]) -> None:
        self._before = {entry.producer_id: entry for entry in state.entries()}
        self._lost = lost
        self._last = -1
        self.may_share = bool(lost)
        """Whether two transactions may begin at one offset, because offsets of transactional batches do not rise."""

    def add(self, headers: HeaderRows) -> None:
        """Adds batches that were replayed."""
        for _, attributes, first, _ in produced(headers):
            if attributes & (TRANSACTIONAL | CONTROL) == TRANSACTIONAL:
                self.may_share |= first <= self._last
                self._last = first

    def end_transactions(self, read: Iterable[HeaderRows]) -> str:
        """Returns why a broker dies when it ends the transactions of these batches, "" if it does not."""
        opened = {
            entry.producer_id: entry.current_txn_first_offset
            for entry in self._before.values()
            if entry.current_txn_first_offset >= 0
        }
        ongoing, ended = set(opened.values()) - self._lost, list[tuple[int, int]]()
        for headers in read:
            for producer, attributes, first, count in produced(headers):
                if attributes & CONTROL:
                    if count and producer in opened:
                        ended.append((producer, opened.pop(producer)))
                elif attributes & TRANSACTIONAL and producer not in opened:
                    opened[producer] = first
                    ongoing.add(first)
        for producer, first in ended:
            if first not in ongoing:
                return (
                    f"producer {producer} ends a transaction that begins at offset {first}, where another one does "
                    "that has ended"
                )
            ongoing.discard(first)
        self._lost.clear()
        self._lost.update(first for first in opened.values() if first not in ongoing)
        return ""

    def keep_batches(self, state: ProducerStates) -> None:
        """Restores the last batches of producers that the state lost because of an epoch within the read."""
        for index, entry in enumerate(state.entries()):
            before = self._before.get(entry.producer_id)
            if before and before.has_batch and not entry.has_batch and entry.producer_epoch == before.producer_epoch:
                state.restore_batch(index, before)


def produced(headers: HeaderRows) -> Iterator[tuple[int, int, int, int]]:
    """Yields producer id, attributes, first offset and record count of the batches that have a producer."""
    end = headers.count * BATCH_WIDTH
    columns = (headers.rows[column:end:BATCH_WIDTH].tolist() for column in _COLUMNS)
    for producer_id, attributes, first, count, magic in zip(*columns, strict=True):
        if producer_id >= 0 and magic >= MAGIC_V2:
            yield producer_id, attributes, first, count
