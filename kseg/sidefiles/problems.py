"""What can be wrong with a side file: stable codes, which kseg-dump(1) explains."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

E = TypeVar("E")

SIDE_FILE_CODES = frozenset(
    {
        "bad-size",
        "zero-tail",
        "unsorted",
        "offset-below-base",
        "unknown-version",
        "crc-mismatch",
        "truncated-file",
        "trailing-bytes",
        "wrong-count",
        "unreadable-line",
        "missing-field",
        "bad-value",
        "unreadable-json",
        "index-mismatch",
        "timestamp-mismatch",
        "timestamp-out-of-order",
        "offset-not-found",
    }
)

NO_DAMAGE = frozenset({"zero-tail"})
"""Codes of what is worth knowing and nothing wrong."""


@dataclass(frozen=True, slots=True)
class SideFileProblem:
    """Bytes ``[position, position + length)`` of a side file that are not right; ``code`` is one of SIDE_FILE_CODES."""

    code: str
    position: int
    length: int
    message: str

    @property
    def is_damage(self) -> bool:
        return self.code not in NO_DAMAGE


def problems_of(items: Iterable[Any]) -> list[SideFileProblem]:
    """Only the problems among the items of a reader."""
    return [item for item in items if isinstance(item, SideFileProblem)]


def entries_of(items: Iterable[E | SideFileProblem]) -> list[E]:
    """Only the entries among the items of a reader."""
    return [item for item in items if not isinstance(item, SideFileProblem)]
