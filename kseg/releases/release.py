"""Releases of Kafka, and the differences between them that concern all commands."""

from dataclasses import dataclass

RELEASES = (
    (0, 7), (0, 8, 0), (0, 8, 1), (0, 8, 2), (0, 9, 0), (0, 10, 0), (0, 10, 1), (0, 10, 2), (0, 11, 0),
    *((1, minor) for minor in range(2)), *((2, minor) for minor in range(9)), *((3, minor) for minor in range(10)),
    (4, 0), (4, 1), (4, 2), (4, 2, 2), (4, 3), (4, 4),
)  # fmt: skip
"""Version numbers, as far as rules differ. Bug-fix releases of one line share their rules up to the next one listed."""

NEWEST = RELEASES[-1]


@dataclass(frozen=True, slots=True)
class Release:
    """The rules of a release, given by its version numbers, such as (0, 10, 2)."""

    release: tuple[int, ...] = NEWEST

    @property
    def name(self) -> str:
        return ".".join(map(str, self.release))

    def has(self, since: tuple[int, ...], *backports: tuple[int, ...]) -> bool:
        """Whether the release has a rule that began with ``since``; ``backports``: the first bug-fix releases of
        older lines, from 1.0 on, that have it too."""
        return self.release >= since or any(self.release[:2] == each[:2] and self.release >= each for each in backports)

    @property
    def is_07(self) -> bool:
        """Segments are .kafka files, named by byte position, without other files."""
        return self.release < (0, 8)

    @property
    def has_time_index(self) -> bool:
        """Segments have time indexes (KIP-33)."""
        return self.release >= (0, 10, 1)
