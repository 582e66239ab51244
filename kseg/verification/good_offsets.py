"""Finds the last good offset before a problem and the next one after it, for consumers to seek to."""

from bisect import bisect_left

from kseg.kernel.layout.rows import (
    BATCH_FIRST_OFFSET,
    BATCH_LAST_OFFSET,
    BATCH_POSITION,
    BATCH_SIZE,
    BATCH_STATE,
    BATCH_WIDTH,
    CRC_RIGHT,
    RECORDS_RIGHT,
)
from kseg.segment.survey import DEEP, HeaderRows
from kseg.verification.report import Details


class GoodOffsets:
    """Reads the headers of a partition and completes the details of findings.

    A batch is good if its checksum is right and no problem of its records is an error. This is known when the next
    headers arrive.
    """

    def __init__(self, level: int) -> None:
        self._right = CRC_RIGHT | RECORDS_RIGHT if level == DEEP else CRC_RIGHT
        self._last: int | None = None
        self._positions: list[int] = []
        self._offsets: list[tuple[int, int]] = []
        """Positions, first and last offsets of the latest headers, without batches with a wrong checksum."""
        self._merged: HeaderRows | None = None
        self._merged_end = 0
        self._bad: set[int] = set()
        self._pending: list[tuple[int, Details]] = []
        self._waiting: list[Details] = []

    def request(self, position: int, details: Details) -> None:
        """Adds ``lastGoodOffset`` and ``nextGoodOffset`` for a position in or after the latest headers.

        They are null until they are known.
        """
        self._split(position)
        details["lastGoodOffset"] = details["nextGoodOffset"] = None
        self._pending.append((position, details))

    def mark_bad(self, position: int) -> None:
        """Marks the batch at a position as bad: its records are unreadable under a right checksum."""
        self._split(position)
        self._bad.add(position)

    def is_waiting(self, details: Details) -> bool:
        """Whether these details lack the next good offset, after `complete`."""
        return any(each is details for each in self._waiting)

    @property
    def are_waiting(self) -> bool:
        """Whether any details lack the next good offset."""
        return bool(self._waiting)

    def take(self, headers: HeaderRows) -> None:
        """Takes the next headers. If all batches are good, they are kept as one range until one of them is needed."""
        self.complete()
        rows, end = headers.rows, headers.count * BATCH_WIDTH
        states = set(rows[BATCH_STATE:end:BATCH_WIDTH].tolist())
        if all(state & self._right == self._right for state in states):
            last = rows[end - BATCH_WIDTH : end]
            self._positions = [rows[BATCH_POSITION]]
            self._offsets = [(rows[BATCH_FIRST_OFFSET], last[BATCH_LAST_OFFSET])]
            self._merged, self._merged_end = headers, last[BATCH_POSITION] + last[BATCH_SIZE]
        else:
            self._keep_batches(headers)

    def _keep_batches(self, headers: HeaderRows) -> None:
        rows = headers.rows
        valid = [at for at in range(0, headers.count * BATCH_WIDTH, BATCH_WIDTH) if rows[at + BATCH_STATE] & CRC_RIGHT]
        self._positions = [rows[at + BATCH_POSITION] for at in valid]
        self._offsets = [(rows[at + BATCH_FIRST_OFFSET], rows[at + BATCH_LAST_OFFSET]) for at in valid]
        self._merged = None

    def _split(self, position: int) -> None:
        """Splits a range of headers into its batches, if one of them is needed."""
        if self._merged is not None and self._positions[0] <= position < self._merged_end:
            self._keep_batches(self._merged)

    def complete(self) -> None:
        """Completes the details for the headers so far; also at the end of a segment."""
        good = [
            (position, *offsets)
            for position, offsets in zip(self._positions, self._offsets, strict=True)
            if position not in self._bad
        ]
        if good:
            self._complete_waiting(_first(*good[0][1:]))
        for position, details in self._pending:
            behind = bisect_left(good, (position,))
            details["lastGoodOffset"] = good[behind - 1][2] if behind else self._last
            if behind < len(good):
                details["nextGoodOffset"] = _first(*good[behind][1:])
            else:
                self._waiting.append(details)
        if good:
            self._last = good[-1][2]
        self._positions, self._offsets, self._merged = [], [], None
        self._bad.clear()
        self._pending.clear()

    def _complete_waiting(self, offset: int) -> None:
        for details in self._waiting:
            details["nextGoodOffset"] = offset
        self._waiting.clear()


def _first(first: int, last: int) -> int:
    """Returns the first offset of a batch; the last one for a compressed message that was not decompressed."""
    return first if first >= 0 else last
