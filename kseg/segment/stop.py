"""Where reading may end, as nothing that is wanted can follow: behind the last wanted offset or time.

Offsets rise in an intact log. A base offset is outside the CRC, so one batch alone is not believed: it takes two in a
row, and offsets that have risen so far.

Timestamps need not rise: producers set their own, and their clocks and batches run past each other. So reading goes on
behind the last wanted time for `MARGIN_BYTES`, all of them later than it by more than timestamps have been seen to run
backwards. A record that is stamped earlier still and appended later is missed; that is for the caller to say.
"""

from kseg.formats.rows import UndecodableError
from kseg.kernel.native import ROW_TIMESTAMP, ROW_WIDTH
from kseg.segment.batches import Batch

MARGIN_BYTES = 64 << 10
BATCHES_BEHIND = 2


class OffsetStop:
    """Says when no record with an offset up to ``last`` follows. To be shown every batch, in order."""

    def __init__(self, last: int) -> None:
        self._last = last
        self._previous = -1
        self._is_rising = True
        self._behind = 0

    def is_behind(self, batch: Batch) -> bool:
        if not batch.is_valid or not self._is_rising:
            self._behind = 0
            return False
        # A compressed v0 or v1 message keeps its first offset to itself; it is above the last one before.
        first = batch.base_offset if batch.base_offset is not None else self._previous + 1
        self._is_rising = self._previous < first <= batch.last_offset
        self._previous = batch.last_offset
        self._behind = self._behind + 1 if first > self._last and self._is_rising else 0
        return self._behind >= BATCHES_BEHIND


class TimeStop:
    """Says when no record with a timestamp (ms) up to ``last`` is to be expected. To be shown every batch, in order."""

    def __init__(self, last: int) -> None:
        self._last = last
        self._newest = -1
        self._farthest_back = 0
        self._batches = self._bytes = 0

    def is_behind(self, batch: Batch) -> bool:
        # The header alone tells of most batches before the range that they are no part of what is behind it.
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
    """The smallest timestamp of a batch's records in ms; None where no record has one, or the batch does not decode."""
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
