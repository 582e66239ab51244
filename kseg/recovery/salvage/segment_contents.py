"""The contents of one file for salvage: parts in their places, misplaced runs, and ranges to cut out."""

from collections.abc import Container, Sequence
from dataclasses import dataclass, field

from kseg.recovery.salvage.parts import Parts, SalvagedBatches, without_batches
from kseg.segment.items import Damage

MAX_CUTS = 10_000
"""Limit of the ranges listed for a segment."""

NO_OFFSET = -1
"""Base and limit of a file that makes no segment."""

EXCESS_OFFSETS = "are more than the batch has records, and the next batch begins where these end"
"""The reason for doubt about the offsets of a batch."""


@dataclass(slots=True)
class Cuts:
    """The removed ranges: the first ones, and the number of ``more``."""

    listed: list[Damage] = field(default_factory=list)
    more: int = 0

    def add(self, damage: Damage) -> None:
        if len(self.listed) < MAX_CUTS:
            self.listed.append(damage)
        else:
            self.more += 1

    def add_all(self, code: str, ranges: Sequence[tuple[int, int]], message: str) -> None:
        """Like `add`, for ranges (position, length) of one kind."""
        listed = ranges[: max(MAX_CUTS - len(self.listed), 0)]
        self.listed += [Damage(code, position, length, message) for position, length in listed]
        self.more += len(ranges) - len(listed)

    def __bool__(self) -> bool:
        return bool(self.listed)


@dataclass(slots=True)
class MisplacedRun:
    """Intact ``batches`` that seem to be in the wrong place. ``expected``: the first offset that their neighbours
    suggest, -1 if unknown; ``doubt``: why their own offsets, which another batch has, may yet be right; ``records``:
    their number by the headers; ``continues``: whether they begin their file at the offset after the segment before.
    """

    part: SalvagedBatches
    batches: int
    expected: int = -1
    doubt: str = ""
    records: int = 0
    continues: bool = False


@dataclass(slots=True)
class SegmentContents:
    """A segment with offsets between ``base`` and ``limit``. ``parts`` rise in positions and offsets."""

    path: str
    base: int
    limit: int
    is_last: bool
    parts: Parts
    cuts: Cuts
    misplaced: list[MisplacedRun]
    is_sparse: bool
    """Whether offsets are missing that damage does not explain."""
    has_repaired: bool = False
    """Whether the header of a batch was repaired."""
    has_shared: bool = False
    """Whether two batches share bytes of the file."""
    ambiguous: int = 0
    """Number of batches cut out although their offsets may be right."""
    has_epochs: bool = False
    """Whether its batches may have more than one leader epoch."""
    epochs_fall: bool = False
    """Whether a batch has a lower leader epoch than the previous one, or an invalid one; batches with a repaired header
    are not compared."""

    @property
    def is_intact(self) -> bool:
        return not (self.cuts or self.misplaced or self.has_repaired or self.has_shared)

    def leave_out(self, firsts: Container[int]) -> list[SalvagedBatches]:
        """Removes and returns the batches with these first offsets."""
        taken, left = list[SalvagedBatches](), Parts(self.base)
        for part in without_batches(self.parts, firsts, self.path, taken):
            left.append(part)
        self.parts = left
        return taken
