"""What can be wrong with a side file: stable codes, one sentence each."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

E = TypeVar("E")

SIDE_FILE_PROBLEMS = {
    "bad-size": "The size is no whole number of entries; the bytes of a part of one are left over at the end.",
    "zero-tail": "Entries at the end are all zero: room that was set aside and not used, or not cut off after a crash.",
    "unsorted": "An entry is not above the one before it.",
    "offset-below-base": "An entry's offset is below the base offset of the segment.",
    "unknown-version": "The version is none that Kafka has ever written.",
    "crc-mismatch": "The stored checksum is not that of the bytes.",
    "truncated-file": "The file ends before what its beginning promises.",
    "trailing-bytes": "Bytes follow behind the last entry that the file claims to have.",
    "wrong-count": "The number of entries is not the one that the file claims.",
    "unreadable-line": "A line does not have the fields it must have.",
    "missing-field": "A field that must be there is not.",
    "bad-value": "A field's value is none that Kafka accepts.",
    "unreadable-json": "The bytes are not the JSON object that this file holds.",
    "index-mismatch": "The batch at the position of an offset index entry does not end at the entry's offset.",
    "timestamp-mismatch": "The batch that a time index entry names has another largest timestamp.",
    "timestamp-out-of-order": "The timestamp of a time index entry is not above that of the entry before.",
    "offset-not-found": "No batch ends at the offset of a time index entry.",
}

NO_DAMAGE = frozenset({"zero-tail"})
"""Codes of what is worth knowing and nothing wrong."""


@dataclass(frozen=True, slots=True)
class SideFileProblem:
    """Bytes ``[position, position + length)`` of a side file that are not right; ``code`` is a key of the table."""

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
