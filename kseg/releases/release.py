"""Releases of Kafka, and the differences between them that concern all commands."""

from dataclasses import dataclass

RELEASES = (
    (0, 7), (0, 8, 0), (0, 8, 1), (0, 8, 2), (0, 9, 0), (0, 10, 0), (0, 10, 1), (0, 10, 2), (0, 11, 0),
    *((1, minor) for minor in range(2)), *((2, minor) for minor in range(9)), *((3, minor) for minor in range(10)),
    *((4, minor) for minor in range(5)),
)  # fmt: skip
"""Version numbers, as far as rules differ: bug-fix releases of one line share their rules."""

NEWEST = RELEASES[-1]


@dataclass(frozen=True, slots=True)
class Release:
    """The rules of a release, given by its version numbers, such as (0, 10, 2)."""

    release: tuple[int, ...] = NEWEST

    @property
    def name(self) -> str:
        return ".".join(map(str, self.release))

    @property
    def is_07(self) -> bool:
        """Segments are .kafka files, named by byte position, without other files."""
        return self.release < (0, 8)

    @property
    def has_time_index(self) -> bool:
        """Segments have time indexes (KIP-33)."""
        return self.release >= (0, 10, 1)
