"""Determines offsets of batches from side files, because no checksum covers the offset of a v1 or v2 batch.

Producer snapshots have a checksum: a producer's entry proves the offset of its last batch. Offset and time indexes have
none: they only decide between two batches one of which must be wrong.
"""

import os
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cached_property
from typing import NamedTuple

from kseg.errors import PathError
from kseg.formats.record_batch import HEADER_BYTES, parse_header
from kseg.formats.rows import Scratch
from kseg.formats.suffixes import INDEX, LOG, SNAPSHOT, TIME_INDEX
from kseg.kernel.layout.headers import ENTRY_MAGIC, MAGIC_V2, V2_LAST_OFFSET_DELTA
from kseg.kernel.records.plain import sequence_after
from kseg.recovery.salvage.header_repair import offsets_of
from kseg.recovery.salvage.parts import SalvagedBatches, batch_of, leading_bytes
from kseg.recovery.workspace import MAX_SIDE_FILE_BYTES, Workspace, leading_offset
from kseg.sidefiles.indexes import OffsetIndex, TimeIndex
from kseg.sidefiles.problems import entries_of, problems_of
from kseg.sidefiles.producer_state import read_producer_snapshot
from kseg.stores import trees
from kseg.stores.source import Source, open_source

_MAX_BYTES = 64 << 20
"""Limit of the bytes read of all snapshots together."""

_OFFSETS_BYTES = V2_LAST_OFFSET_DELTA + 4
"""Bytes of a header up to the end of the last offset delta."""


class _Mark(NamedTuple):
    """Identifies the batch of a snapshot's entry. A producer may restart its sequences at 0, but not at the same
    time."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    offset_delta: int
    timestamp: int


class OffsetEvidence:
    """The evidence of one partition. Files are read on first use; unreadable and too large ones are ignored."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._scratch = Scratch()

    @cached_property
    def remembered(self) -> frozenset[tuple[int, int]]:
        """Producer id and largest timestamp of each batch in the snapshots."""
        return frozenset((mark.producer_id, mark.timestamp) for mark in self._producers)

    def proven_offset(self, source: Source, part: SalvagedBatches) -> int | None:
        """Returns the first offset of a batch by the producer snapshots; None if unknown."""
        if not self._producers:
            return None
        data = leading_bytes(source, part, min(HEADER_BYTES, part.size))
        if len(data) < HEADER_BYTES or data[ENTRY_MAGIC] < MAGIC_V2:
            return None
        head = parse_header(data)
        delta = part.last - part.first
        last_sequence = sequence_after(head.base_sequence, delta)
        mark = _Mark(head.producer_id, head.producer_epoch, last_sequence, delta, head.max_timestamp)
        last = self._producers.get(mark)
        return None if last is None else last - delta

    def indicated_offset(self, source: Source, part: SalvagedBatches) -> int | None:
        """Like `proven_offset`, but also by the indexes of the segment: the offset index, else the time index."""
        for look_up in (self.proven_offset, self._indexed, self._timed):
            found = look_up(source, part)
            if found is not None:
                return found
        return None

    @property
    def transactional(self) -> dict[int, bool]:
        """Whether each producer of the snapshots writes transactions: a marker was seen, or a transaction is open.
        Producers about which the snapshots disagree are missing."""
        return self._in_snapshots[1]

    @property
    def _producers(self) -> dict[_Mark, int]:
        return self._in_snapshots[0]

    @cached_property
    def _in_snapshots(self) -> tuple[dict[_Mark, int], dict[int, bool]]:
        """Last offsets by mark, and whether producers write transactions; without those that differ by snapshot."""
        offsets, transactional = dict[_Mark, int](), dict[int, bool]()
        several, mixed = set[_Mark](), set[int]()
        for name in self._snapshots():
            items = list(read_producer_snapshot(self._workspace.read(name)))
            for entry in () if problems_of(items) else entries_of(items):
                mark = _Mark(*entry[:3], entry.offset_delta, entry.timestamp)
                if entry.has_batch and offsets.setdefault(mark, entry.last_offset) != entry.last_offset:
                    several.add(mark)
                is_transactional = max(entry.coordinator_epoch, entry.current_txn_first_offset) >= 0
                if transactional.setdefault(entry.producer_id, is_transactional) != is_transactional:
                    mixed.add(entry.producer_id)
        for mark in several:
            del offsets[mark]
        for producer_id in mixed:
            del transactional[producer_id]
        return offsets, transactional

    def _snapshots(self) -> list[str]:
        """Returns the newest snapshots within the limit."""
        found, left = [], _MAX_BYTES
        for name in reversed(self._workspace.names(SNAPSHOT)):
            left -= self._workspace.size(name)
            if left < 0:
                break
            found.append(name)
        return found

    def _indexed(self, source: Source, part: SalvagedBatches) -> int | None:
        """Returns the first offset by the offset index. Brokers up to 1.1 index first offsets, later ones the last
        offset of an append. If the entry is neither of the batch, the neighbouring entries decide which of the two it
        is."""
        with _opened(source.path, INDEX) as side:
            if side is None:
                return None
            index = OffsetIndex(side.buffer, leading_offset(os.path.basename(source.path)) or 0)
            i = bisect_left(range(len(index)), part.start, key=lambda k: index[k].position)
            if i >= len(index) or index[i].position != part.start:
                return None
            offset = index[i].offset
            if offset in (part.first, part.last):
                return part.first
            neighbours = [_reach_at(source, index[k].position) for k in (i - 1, i + 1) if 0 <= k < len(index)]
            offsets = [index[k].offset for k in (i - 1, i + 1) if 0 <= k < len(index)]
            if neighbours and all(found and found[1] == each for found, each in zip(neighbours, offsets, strict=True)):
                return offset - (part.last - part.first)
            if neighbours and all(found and found[0] == each for found, each in zip(neighbours, offsets, strict=True)):
                return offset
            return None

    def _timed(self, source: Source, part: SalvagedBatches) -> int | None:
        """Returns the first offset by the time index. An entry has the last offset of the batch with its timestamp; in
        some releases that of the record."""
        batch = batch_of(source, part, self._scratch)
        timestamp = batch.max_timestamp
        with _opened(source.path, TIME_INDEX) as side:
            if side is None or timestamp < 0:
                return None
            index = TimeIndex(side.buffer, leading_offset(os.path.basename(source.path)) or 0)
            i = bisect_left(range(len(index)), timestamp, key=lambda k: index[k].timestamp)
            if i >= len(index) or index[i].timestamp != timestamp:
                return None
            offset = index[i].offset
            is_here = any(record.offset == offset and record.timestamp == timestamp for record in batch)
            return part.first if is_here or offset == part.last else offset - (part.last - part.first)


@contextmanager
def _opened(path: str, suffix: str) -> Iterator[Source | None]:
    """Yields the index of a .log with that suffix; None if it is missing or unreadable."""
    index_path = path.removesuffix(LOG) + suffix
    source = None
    try:
        if path.endswith(LOG) and trees.getsize(index_path) <= MAX_SIDE_FILE_BYTES:
            source = open_source(index_path)
    except (OSError, PathError):
        source = None
    with source or nullcontext() as opened:
        yield opened


def _reach_at(source: Source, position: int) -> tuple[int, int] | None:
    """Returns first and last offset by the bytes of a header; for v0 and v1 the last one twice."""
    if not 0 <= position <= source.size - _OFFSETS_BYTES:
        return None
    return offsets_of(bytes(source.buffer[position : position + _OFFSETS_BYTES]))
