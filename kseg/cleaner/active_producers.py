"""The producer state that a broker uses when it cleans a log: the newest snapshot and the batches after it.

Source: UnifiedLog.lastRecordsOfActiveProducers, ProducerStateManager, KIP-360.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from kseg.cleaner.log import CleanerSegment, segments_between
from kseg.cleaner.reading import windows
from kseg.errors import errors_at
from kseg.formats.suffixes import SNAPSHOT
from kseg.kernel.layout.headers import CONTROL
from kseg.limits import MAX_ROOT_FILE_BYTES
from kseg.segment.files import file_names, segment_file
from kseg.segment.survey import HeaderRows
from kseg.sidefiles.problems import entries_of, problems_of
from kseg.sidefiles.producer_state import ProducerStateEntry, ProducerStates, read_producer_snapshot
from kseg.stores import trees
from kseg.stores.buffers import Buffers
from kseg.stores.regular_files import read_regular


@dataclass(slots=True)
class Producers:
    """``end_offset`` of the log; ``first_unstable``: first offset of the oldest open transaction, None if none is open.

    ``last_offsets``: producer id by the last offset of its last data batch. ``last_epochs``: epoch by producer id, for
    producers that have only markers.
    """

    end_offset: int
    first_unstable: int | None = None
    last_offsets: dict[int, int] = field(default_factory=dict)
    last_epochs: dict[int, int] = field(default_factory=dict)

    def last_batches(self, headers: HeaderRows) -> list[int]:
        """Indexes of batches that are a producer's last one; their headers are kept for the next sequence number."""
        if not self.last_offsets and not self.last_epochs:
            return []
        found = []
        for i, (offset, producer) in enumerate(zip(headers.lasts, headers.producer_ids, strict=True)):
            if producer < 0:
                continue
            if offset in self.last_offsets:
                found += [i] * (self.last_offsets[offset] == producer)
            elif producer in self.last_epochs and headers[i].attributes & CONTROL:
                found += [i] * (self.last_epochs[producer] == headers[i].producer_epoch)
        return found


def read_producers(
    directory: str, segments: Sequence[CleanerSegment], now_ms: int, expiration_ms: int, buffers: Buffers
) -> Producers:
    """Reads the producer state. Raises DamagedError if the log is not intact up to its end."""
    entries, start = _newest_snapshot(directory)
    states, end = ProducerStates(entries), segments[-1].base_offset
    for segment in segments_between(segments, start, 1 << 63):
        for window in windows(segment.path, buffers):
            end = window[-1].last_offset + 1
            first = 0
            if window[0].last_offset < start:
                first = next((i for i, offset in enumerate(window.lasts) if offset >= start), window.count)
            states.replay(window.rows, window.count, first)
    found = Producers(end)
    for entry in states.entries():
        if entry.current_txn_first_offset < 0 and now_ms - entry.timestamp >= expiration_ms:
            continue
        if entry.has_batch:
            found.last_offsets[entry.last_offset] = entry.producer_id
        else:
            found.last_epochs[entry.producer_id] = entry.producer_epoch
    found.first_unstable = next((ongoing.first_offset for ongoing in states.ongoing()), None)
    return found


def _newest_snapshot(directory: str) -> tuple[list[ProducerStateEntry], int]:
    """Returns the entries and offset of the newest readable snapshot; no entries and 0 if there is none."""
    found = []
    for name in file_names(directory):
        file = segment_file(os.path.join(directory, name))
        if file.kind == SNAPSHOT and not file.leftover and file.base_offset is not None:
            found.append((file.base_offset, file.path))
    for offset, path in sorted(found, reverse=True):
        with errors_at(path):
            if trees.getsize(path) > MAX_ROOT_FILE_BYTES:
                continue
            items = list(read_producer_snapshot(read_regular(path, MAX_ROOT_FILE_BYTES)))
        if not problems_of(items):
            return entries_of(items), offset
    return [], 0
