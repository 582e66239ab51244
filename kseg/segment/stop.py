"""Determines where reading can stop: after the last wanted offset or time.

Offsets rise in an intact log. A base offset is not covered by the CRC, so a single batch is not trusted: two in a row
must be beyond the last wanted offset, and offsets must have risen so far.

Timestamps need not rise: producers set them, and clocks differ. Reading therefore continues for `MARGIN_BYTES` in which
all timestamps exceed the last wanted time by more than any decrease seen so far. A record with an earlier timestamp
that is appended later still is missed; callers must document this.
"""

from kseg.formats.rows import UndecodableError
from kseg.kernel.layout.rows import ROW_TIMESTAMP, ROW_WIDTH
from kseg.segment.batches import Batch
from kseg.segment.reader import Run, SegmentReader

MARGIN_BYTES = 64 << 10
BATCHES_BEHIND = 2


class OffsetStop:
    """Detects that no record with an offset up to ``last`` can follow. Needs every batch, in order."""

    def __init__(self, last: int) -> None:
        self._last = last
        self._previous = -1
        self._is_rising = True
        self._behind = 0

    def is_behind(self, batch: Batch) -> bool:
        if not batch.is_valid or not self._is_rising:
            self._behind = 0
            return False
        # A compressed v0 or v1 message does not store its first offset, which is above the previous last one.
        first = batch.base_offset if batch.base_offset is not None else self._previous + 1
        self._is_rising = self._previous < first <= batch.last_offset
        self._previous = batch.last_offset
        self._behind = self._behind + 1 if first > self._last and self._is_rising else 0
        return self._behind >= BATCHES_BEHIND

    def is_behind_end(self, reader: SegmentReader, run: Run) -> bool:
        """Whether no such record can follow a run whose first batch was looked at: a store need not be asked again."""
        last = range(max(1, run.count - BATCHES_BEHIND), run.count)
        return any(self.is_behind(reader.batch(run, i, keep=False)) for i in last)


class TimeStop:
    """Detects that no record with a timestamp (ms) up to ``last`` is to be expected. Needs every batch, in order."""

    def __init__(self, last: int) -> None:
        self._last = last
        self._newest = -1
        self._farthest_back = 0
        self._batches = self._bytes = 0

    def is_behind(self, batch: Batch) -> bool:
        # For most batches before the range the header alone is enough.
        if not batch.is_valid or batch.max_timestamp <= self._last:
            self._newest = max(self._newest, batch.max_timestamp if batch.is_valid else -1)
            self._batches = self._bytes = 0
            return False
        earliest = earliest_timestamp(batch)
        if earliest is None:
            return False
        if self._newest >= 0:
            self._farthest_back = max(self._farthest_back, self._newest - earliest)
        self._newest = max(self._newest, batch.max_timestamp)
        if earliest <= self._last + self._farthest_back:
            self._batches = self._bytes = 0
            return False
        self._batches += 1
        self._bytes += batch.size
        return self._batches >= BATCHES_BEHIND and self._bytes >= MARGIN_BYTES


def earliest_timestamp(batch: Batch) -> int | None:
    """Returns the smallest record timestamp of a batch in ms; None if there is none, or the batch is undecodable."""
    if batch.timestamp_type == "LogAppendTime":
        return batch.max_timestamp
    earliest = None
    try:
        for rows in batch.rows():
            stamps = rows.rows[ROW_TIMESTAMP : rows.count * ROW_WIDTH : ROW_WIDTH].tolist()
            found = min((stamp for stamp in stamps if stamp >= 0), default=None)
            if found is not None:
                earliest = found if earliest is None else min(earliest, found)
    except UndecodableError:
        return None
    return earliest
