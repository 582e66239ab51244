"""What a family of rules is: it is shown a partition's segments in order, and reports what it finds."""

from typing import TYPE_CHECKING

from kseg.segment.items import Damage
from kseg.segment.survey import BatchProblem, Headers

if TYPE_CHECKING:
    from kseg.verification.partition import Partition, Segment


class Rule:
    """Base of the rules of a partition. All calls are optional to answer; state is kept from segment to segment."""

    def __init__(self, partition: "Partition") -> None:
        self.partition = partition
        self.report = partition.report

    def begin(self, segment: "Segment") -> None:
        """A segment begins, whose items follow."""

    def headers(self, segment: "Segment", headers: Headers) -> None:
        """Some batches of it, in the order of the file. The rows are written over when the call is over."""

    def damage(self, segment: "Segment", damage: Damage) -> None:
        """Bytes that no batch claims."""

    def problem(self, segment: "Segment", problem: BatchProblem) -> None:
        """What is wrong with the records of a batch, whose header came before."""

    def unread(self, segment: "Segment") -> None:
        """A segment in its place that cannot be opened; nothing else is called for it."""

    def end(self, segment: "Segment") -> None:
        """All of it was shown; `Segment` now has its totals."""

    def finish(self) -> None:
        """All segments of the partition were shown."""
