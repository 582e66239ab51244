"""The problems that a side file can have: stable codes, explained in kseg-output(7)."""

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

E = TypeVar("E")

SIDE_FILE_CODES = frozenset(
    (
        "bad-size zero-tail unsorted offset-below-base unknown-version crc-mismatch truncated-file trailing-bytes "
        "wrong-count unreadable-line missing-field bad-value unreadable-json index-mismatch timestamp-mismatch "
        "timestamp-out-of-order offset-not-found"
    ).split()
)


class SideFileProblem(NamedTuple):
    """A problem in bytes ``[position, position + length)`` of a side file; ``code`` is one of SIDE_FILE_CODES."""

    code: str
    position: int
    length: int
    message: str

    @property
    def is_damage(self) -> bool:
        return self.code != "zero-tail"  # which is informative


def problems_of(items: Iterable[Any]) -> list[SideFileProblem]:
    """Returns only the problems among a reader's items."""
    return [item for item in items if isinstance(item, SideFileProblem)]


def entries_of(items: Iterable[E | SideFileProblem]) -> list[E]:
    """Returns only the entries among a reader's items."""
    return [item for item in items if not isinstance(item, SideFileProblem)]
