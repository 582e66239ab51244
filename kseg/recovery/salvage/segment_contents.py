"""What salvage finds in one file: parts that are in their places, strays, and ranges that are cut out."""

from collections.abc import Container, Sequence
from dataclasses import dataclass, field

from kseg.recovery.salvage.parts import Part, Parts, without_batches
from kseg.segment.items import Damage

MOST_CUTS = 10_000
"""Ranges that are listed one by one, a segment."""

ROOM = 0x7FFFFFFF
NOWHERE = -1
"""The base and the limit of a file that makes no segment."""

WIDE = "are more than the batch has records, and the next batch begins where these end"
"""Why the offsets of a batch are in doubt."""


@dataclass(slots=True)
class Cuts:
    """Ranges that are not kept: the first ones, and how many ``more``."""

    listed: list[Damage] = field(default_factory=list)
    more: int = 0

    def add(self, damage: Damage) -> None:
        if len(self.listed) < MOST_CUTS:
            self.listed.append(damage)
        else:
            self.more += 1

    def add_all(self, code: str, ranges: Sequence[tuple[int, int]], message: str) -> None:
        """As `add`, for ranges (position, length) of one kind."""
        listed = ranges[: max(MOST_CUTS - len(self.listed), 0)]
        self.listed += [Damage(code, position, length, message) for position, length in listed]
        self.more += len(ranges) - len(listed)

    def __bool__(self) -> bool:
        return bool(self.listed)


@dataclass(slots=True)
class Stray:
    """Intact ``batches`` that are not where they belong, as it seems. ``expected``: the offset at which the neighbours
    would have it, -1 where they tell nothing; ``doubt``: why it may yet be in the right place, where another one is;
    ``records``: as far as headers tell."""

    part: Part
    batches: int
    expected: int = -1
    doubt: str = ""
    records: int = 0


@dataclass(slots=True)
class Kept:
    """A segment that may hold offsets ``base`` to ``limit``. ``parts`` rise in the file and in offsets."""

    path: str
    base: int
    limit: int
    is_last: bool
    parts: Parts
    cuts: Cuts
    strays: list[Stray]
    is_sparse: bool
    """Whether offsets are missing for other reasons than damage."""
    has_mended: bool = False
    has_shared: bool = False
    """Whether two batches have bytes of the file in common."""
    ambiguous: int = 0
    """Batches that are cut out though their offsets may be right."""
    has_epochs: bool = False
    """Whether its batches may have more than one leader epoch."""
    epochs_fall: bool = False
    """Whether a batch has a lower leader epoch than the one before, or one that is none."""

    @property
    def is_intact(self) -> bool:
        return not (self.cuts or self.strays or self.has_mended or self.has_shared)

    def leave_out(self, firsts: Container[int]) -> list[Part]:
        """Takes the batches with these first offsets out."""
        taken, left = list[Part](), Parts(self.base)
        for part in without_batches(self.parts, firsts, self.path, taken):
            left.append(part)
        self.parts = left
        return taken
