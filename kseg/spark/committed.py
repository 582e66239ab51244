"""Finds the batches that a read_committed consumer skips: aborted ones, and all from the last stable offset on.

A transaction ends with the next marker of its producer. A task reads its part, and then later batches while there are
open transactions with batches in the part. The tail of a log, from the newest producer snapshot at the start of a
segment on, is read in one pass; so it is not divided between tasks.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

from kseg.errors import PathError
from kseg.export.scanning import logs_around
from kseg.formats.rows import Scratch
from kseg.formats.suffixes import SNAPSHOT
from kseg.segment.files import SegmentFile, file_names
from kseg.segment.isolation import Transactions
from kseg.segment.reader import Run, SegmentReader, open_segment
from kseg.segment.slices import Slice, runs_of
from kseg.sidefiles.producer_state import ProducerSnapshot
from kseg.stores.source import Source, open_source


class Tail(NamedTuple):
    """The end of a partition's log: from offset ``first`` on, where a segment begins and ``snapshot`` was taken.

    Without a snapshot it is the whole log.
    """

    place: str
    first: int = -1
    snapshot: str | None = None

    def has(self, file: SegmentFile) -> bool:
        """Whether a segment belongs to the tail."""
        return self.snapshot is None or file.base_offset is None or file.base_offset >= self.first


def tail_of(place: str, logs: list[SegmentFile]) -> Tail:
    """Returns the tail of the partition with these segments. Raises PathError if its directory cannot be read."""
    directory = os.path.dirname(logs[0].path)
    bases = {log.base_offset for log in logs}
    stems = [name.removesuffix(SNAPSHOT) for name in file_names(directory) if name.endswith(SNAPSHOT)]
    newest = max((stem for stem in stems if stem.isdigit() and len(stem) == 20 and int(stem) in bases), default=None)
    return Tail(place) if newest is None else Tail(place, int(newest), os.path.join(directory, newest + SNAPSHOT))


class Committed:
    """Finds the transactions of parts, one after the other; the tail of a log is read once."""

    def __init__(self, max_batch_bytes: int) -> None:
        self._scratch = Scratch(max_batch_bytes)
        self._tail: tuple[Tail, Transactions] | None = None

    def transactions(self, file: SegmentFile, part: Slice, tail: Tail, source: Source) -> Transactions:
        """Returns the transactions that hide records of a part of a segment. ``source``: the segment.

        Raises PathError.
        """
        open_before = _open_at(tail)
        if open_before is None:
            return self._at_end(tail._replace(first=-1, snapshot=None), {})
        if tail.has(file):
            return self._at_end(tail, open_before)
        found, last = self._followed(file, part, tail, source)
        if min(open_before.values(), default=last) < last:
            found.add_open(self._at_end(tail, open_before))
        return found

    def _at_end(self, tail: Tail, open_before: dict[int, int]) -> Transactions:
        """Returns the transactions of the tail."""
        if self._tail is None or self._tail[0] != tail:
            found = Transactions(open_before)
            for log in filter(tail.has, logs_around(tail.place)):
                with open_segment(log, self._scratch) as reader:
                    found.read(reader)
            self._tail = tail, found
        return self._tail[1]

    def _followed(self, file: SegmentFile, part: Slice, tail: Tail, source: Source) -> tuple[Transactions, int]:
        """Returns the transactions with batches in a part, and the last offset of the part."""
        found, last = Transactions(), -1
        reader = open_segment(file, self._scratch, source=source)
        for item in runs_of(reader, file, part):
            if isinstance(item, Run):
                found.read_run(reader, item)
                last = max(last, reader.batch(item, item.count - 1, keep=False).last_offset)
        if found.has_open():
            for later, run in self._runs_after(file, part, tail, source):
                found.end_in(later, run)
                if not found.has_open():
                    break
        return found, last

    def _runs_after(
        self, file: SegmentFile, part: Slice, tail: Tail, source: Source
    ) -> Iterator[tuple[SegmentReader, Run]]:
        if part.end is not None:
            reader = open_segment(file, self._scratch, source=source)
            rest = runs_of(reader, file, Slice(part.end, None))
            yield from ((reader, item) for item in rest if isinstance(item, Run))
        for log in logs_around(tail.place):
            if (log.base_offset or 0) > (file.base_offset or 0):
                with open_segment(log, self._scratch) as reader:
                    yield from ((reader, item) for item in reader.runs() if isinstance(item, Run))


def _open_at(tail: Tail) -> dict[int, int] | None:
    """Returns the first offsets of the transactions that are open where the tail begins, by producer id.

    Returns None if the snapshot cannot be used.
    """
    if tail.snapshot is None:
        return {}
    try:
        with open_source(tail.snapshot) as source:
            snapshot = ProducerSnapshot(source.buffer[:])
            if snapshot.kafka_refusal() is not None:
                return None
            entries = list(snapshot)
    except PathError:
        return None
    return {each.producer_id: first for each in entries if (first := each.current_txn_first_offset) >= 0}
