"""``.txnindex``: the aborted transactions whose markers are in a segment (TransactionIndex, AbortedTxn; since 0.11).

    0    version            int16   0
    2    producerId         int64
    10   firstOffset        int64   may be in an earlier segment
    18   lastOffset         int64   of the ABORT marker
    26   lastStableOffset   int64

A segment without aborted transactions has no such file. The file is never preallocated.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kseg.formats.rows import Sliceable
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
        """AbortedTxn.version() up to 4.3 reads only the first byte; readers reject entries with a value above 0. 4.4
        rejects every version but 0."""
        return self.version >> 8


class TransactionIndex(EntryFile[AbortedTxn]):
    """The entries of a .txnindex file."""

    LAYOUT = struct.Struct(">hqqqq")
    IS_PREALLOCATED = False

    def _entry(self, fields: tuple[int, ...]) -> AbortedTxn:
        return AbortedTxn(*fields)

    def with_right_versions(self) -> bytes | None:
        """Returns the file with version 0 in all entries; None if another problem remains."""
        right, before = [entry._replace(version=VERSION) for entry in self], None
        for entry in right:
            if self._problem(entry, before):
                return None
            before = entry
        return build_transaction_index(right) if len(right) * self.LAYOUT.size == self.size else None

    def problem_of(self, entry: AbortedTxn, before: AbortedTxn | None) -> str | None:
        """Returns the message of an entry's problem, given the previous entry, or None."""
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


def read_transaction_index(buffer: Sliceable, base_offset: int = 0) -> Iterator[AbortedTxn | SideFileProblem]:
    """Yields the entries and problems of a .txnindex file; ``base_offset`` is the number in its name."""
    return TransactionIndex(buffer, base_offset).items()


def build_transaction_index(entries: Iterable[AbortedTxn]) -> bytes:
    """Returns the bytes of a .txnindex file."""
    return b"".join(TransactionIndex.LAYOUT.pack(*entry) for entry in entries)
