"""The base class of rules, which receive a partition's segments in order and report findings."""

from typing import TYPE_CHECKING

from kseg.segment.items import Damage
from kseg.segment.survey import BatchProblem, HeaderRows

if TYPE_CHECKING:
    from kseg.verification.partition import CheckedSegment, Partition


class Rule:
    """Base of the rules of a partition. All methods are optional; state is kept from segment to segment."""

    def __init__(self, partition: "Partition") -> None:
        self.partition = partition
        self.report = partition.report

    def begin(self, segment: "CheckedSegment") -> None:
        """Called before the items of a segment."""

    def headers(self, segment: "CheckedSegment", headers: HeaderRows) -> None:
        """Called for batches, in the order of the file. The rows are overwritten after the call."""

    def damage(self, segment: "CheckedSegment", damage: Damage) -> None:
        """Called for bytes that belong to no batch."""

    def problem(self, segment: "CheckedSegment", problem: BatchProblem) -> None:
        """Called for a problem in a batch's records, after `headers` of that batch."""

    def unread(self, segment: "CheckedSegment") -> None:
        """Called instead of `begin` to `end` for a segment that cannot be opened."""

    def end(self, segment: "CheckedSegment") -> None:
        """Called after the items of a segment; `CheckedSegment` has its totals."""

    def finish(self) -> None:
        """Called after all segments."""
