"""Finds batches of a compacted partition that stop the log cleaner, or make it remove too much.

The active segment is never cleaned, so it is not checked. Sources: Cleaner, LogCleaner and
MemoryRecords.filterTo of Kafka 4.3.1.
"""

from typing import TYPE_CHECKING

from kseg.kernel.layout.headers import CONTROL
from kseg.kernel.layout.rows import (
    BATCH_ATTRIBUTES,
    BATCH_FIRST_OFFSET,
    BATCH_LAST_OFFSET,
    BATCH_POSITION,
    BATCH_SIZE,
    BATCH_STATE,
    BATCH_WIDTH,
    CRC_RIGHT,
    NULL_KEYS,
)
from kseg.segment.items import Damage
from kseg.segment.survey import DEEP, BatchProblem, HeaderRows
from kseg.verification.rule import Rule

if TYPE_CHECKING:
    from kseg.verification.partition import CheckedSegment, Partition


_FIRST_OF_SEGMENT = {
    "cleaner-hides-damage": "the first batch of this segment with a wrong checksum: the cleaner gives it a valid one",
    "record-without-key": "the first batch of this segment with a record that has no key",
}


class CleanerRule(Rule):
    """Checks a partition if the topic's policy, its name or the cleaner's checkpoint shows that it is compacted."""

    def __init__(self, partition: "Partition") -> None:
        super().__init__(partition)
        self._is_cleaned = bool(partition.broker.is_compacted) or partition.broker.cleaner_offset is not None
        self._reported: set[str] = set()
        """Codes reported for the current segment."""
        self._is_blocked = False

    def begin(self, segment: "CheckedSegment") -> None:
        self._reported.clear()

    def headers(self, segment: "CheckedSegment", headers: HeaderRows) -> None:
        if not self._is_cleaned or segment.is_last or not (segment.is_damaged or self.partition.level == DEEP):
            return
        states = headers.rows[BATCH_STATE : headers.count * BATCH_WIDTH : BATCH_WIDTH].tolist()
        for i, state in enumerate(states):
            at = i * BATCH_WIDTH
            if not state & CRC_RIGHT:
                self._add("cleaner-hides-damage", segment, headers.rows, at)
            elif state & NULL_KEYS and not headers.rows[at + BATCH_ATTRIBUTES] & CONTROL:
                self._add("record-without-key", segment, headers.rows, at)

    def _add(self, code: str, segment: "CheckedSegment", rows: memoryview, at: int) -> None:
        """Reports one finding per segment and code, at the first batch; the others are only counted."""
        if code in self._reported:
            self.report.more(code, segment.path, 1)
        else:
            self._reported.add(code)
            offset = (
                rows[at + BATCH_FIRST_OFFSET] if rows[at + BATCH_FIRST_OFFSET] >= 0 else rows[at + BATCH_LAST_OFFSET]
            )
            place = rows[at + BATCH_POSITION], rows[at + BATCH_SIZE], offset
            self.report.add(code, segment.path, _FIRST_OF_SEGMENT[code], *place)

    def damage(self, segment: "CheckedSegment", damage: Damage) -> None:
        self._block(segment, damage.position, f"{damage.code} at byte {damage.position}")

    def problem(self, segment: "CheckedSegment", problem: BatchProblem) -> None:
        if problem.code == "undecodable-records":
            self._block(segment, problem.position, f"{problem.code} in the batch at byte {problem.position}")

    def _block(self, segment: "CheckedSegment", position: int, reason: str) -> None:
        if self._is_cleaned and not segment.is_last and not self._is_blocked:
            self._is_blocked = True
            self.report.add("cleaner-blocked", segment.path, reason, position)
