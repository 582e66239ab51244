"""``.txnindex``: the aborted transactions whose markers a segment holds (TransactionIndex, AbortedTxn; 0.11).

    0    version            int16   0
    2    producerId         int64
    10   firstOffset        int64   may lie in an earlier segment
    18   lastOffset         int64   of the ABORT marker
    26   lastStableOffset   int64

There is no file for a segment without aborted transactions, and never room set aside.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kseg.sidefiles.entries import EntryFile
from kseg.sidefiles.problems import SideFileProblem

VERSION = 0


class AbortedTxn(NamedTuple):
    """One aborted transaction."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    @property
    def version_as_kafka_reads_it(self) -> int:
        """AbortedTxn.version() of every release takes the first byte of the two; above 0 readers refuse the entry."""
        return self.version >> 8


class TransactionIndex(EntryFile[AbortedTxn]):
    """The entries of a .txnindex file."""

    LAYOUT = struct.Struct(">hqqqq")
    HAS_ROOM_AHEAD = False

    def _entry(self, fields: tuple[int, ...]) -> AbortedTxn:
        return AbortedTxn(*fields)

    def problem_of(self, entry: AbortedTxn, before: AbortedTxn | None) -> str | None:
        """What is wrong with an entry, the one before it known."""
        found = self._problem(entry, before)
        return found[1] if found else None

    def _problem(self, entry: AbortedTxn, before: AbortedTxn | None) -> tuple[str, str] | None:
        if entry.version != VERSION:
            return "unknown-version", f"version {entry.version} is not {VERSION}"
        if entry.last_offset < self.base_offset:
            return "offset-below-base", f"last offset {entry.last_offset} is below the base offset {self.base_offset}"
        if entry.first_offset > entry.last_offset or min(entry.producer_id, entry.first_offset) < 0:
            return "bad-value", f"producer {entry.producer_id}: offsets {entry.first_offset} to {entry.last_offset}"
        if before and entry.last_offset <= before.last_offset:
            return "unsorted", f"last offset {entry.last_offset} follows {before.last_offset}"
        return None


def read_transaction_index(buffer: Any, base_offset: int = 0) -> Iterator[AbortedTxn | SideFileProblem]:
    """Entries and problems of a .txnindex file whose name begins with ``base_offset``."""
    return TransactionIndex(buffer, base_offset).items()


def build_transaction_index(entries: Iterable[AbortedTxn]) -> bytes:
    """The bytes of a .txnindex file."""
    return b"".join(TransactionIndex.LAYOUT.pack(*entry) for entry in entries)
