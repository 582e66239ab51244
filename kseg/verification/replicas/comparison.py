"""The result of comparing two replicas, in numbers."""

from dataclasses import dataclass


@dataclass(slots=True)
class Comparison:
    """The result for partition ``path`` against ``other``. Counts are of records; an offset is None if there is
    none."""

    path: str
    other: str
    same: int = 0
    different: int = 0
    only_here: int = 0
    only_there: int = 0
    agree_to: int | None = None
    diverge_at: int | None = None
    start_offsets: tuple[int | None, int | None] = (None, None)
    last_offsets: tuple[int, int] = (-1, -1)
    damaged_ranges: int = 0

    @property
    def is_identical(self) -> bool:
        """Whether each record of both is in the other, too."""
        return not (self.different or self.only_here or self.only_there or self.damaged_ranges)
