"""Searches logs for the records to erase: their offsets, and the bytes that cannot be searched.

An intact segment is read in windows by several threads, as for a compaction. From the first damage on, the whole
segment is read again item by item, so that every readable batch is searched and all damage is known.
"""

import os
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from kseg.changes.accepted_gaps import joined
from kseg.cleaner.log import CleaningThreads, DamagedError, RecordBuffers, Window, as_verdicts
from kseg.cleaner.rounds import read_keys
from kseg.formats.rows import Rows, UndecodableError
from kseg.kernel.compact.key_map import SECRET_BYTES, Secret, hash_of
from kseg.kernel.layout.headers import CONTROL, MAGIC_V2
from kseg.kernel.layout.rows import ROW_KEY, ROW_KEY_SIZE, ROW_OFFSET, ROW_VALUE, ROW_WIDTH
from kseg.segment.files import SegmentFile, segment_file, topic_of_place
from kseg.segment.items import HARMLESS_CODES, PROBLEM_CODES, Batch, Damage, Message, RecordBatch
from kseg.segment.matching import Patterns, matching_rows, rows_between, rows_with_key
from kseg.segment.reader import open_segment
from kseg.segment.survey import HeaderRows, headers_of
from kseg.stores.windows import Buffers

Ranges: TypeAlias = list[tuple[int, int]]
"""First and last offsets, ascending."""

_FEW_KEYS = 4
"""With more keys, each record's key is looked up in their set."""
_ZEROS = "zero-block"
"""Damage that holds no record."""


def is_internal(directory: str) -> bool:
    """Whether a partition belongs to an internal topic, from which nothing is erased."""
    return (topic_of_place(directory) or "").startswith("__")


@dataclass(frozen=True, slots=True)
class Criteria:
    """The records to erase: those that match any of the criteria. ``has_key``: decides on each key."""

    keys: frozenset[bytes] = frozenset()
    key_patterns: Patterns = ()
    patterns: Patterns = ()
    offsets: tuple[tuple[int, int], ...] = ()
    has_key: Callable[[bytes], bool] | None = None

    def __bool__(self) -> bool:
        return bool(self.keys or self.needs_all or self.offsets)

    @property
    def needs_all(self) -> bool:
        """Whether all records must be looked at one by one."""
        return bool(self.key_patterns or self.patterns or self.has_key)

    def rows(self, rows: Rows) -> list[int]:
        """Returns the matching rows of a batch, ascending."""
        if not rows.count:
            return []
        everything, found = range(rows.count), set[int]()
        if len(self.keys) <= _FEW_KEYS:
            for key in self.keys:
                found.update(rows_with_key(rows, key))
        else:
            found.update(self._rows_of(rows, self.keys.__contains__))
        if self.has_key is not None:
            found.update(self._rows_of(rows, self.has_key))
        if self.key_patterns:
            found.update(matching_rows(rows, everything, self.key_patterns, ROW_KEY))
        if self.patterns:
            found.update(matching_rows(rows, everything, self.patterns, ROW_KEY, ROW_VALUE, with_headers=True))
        for low, high in self.offsets:
            found.update(rows_between(rows, everything, ROW_OFFSET, low, high))
        return sorted(found)

    @staticmethod
    def _rows_of(rows: Rows, is_wanted: Callable[[bytes], bool]) -> list[int]:
        return [i for i in range(rows.count) if (key := key_at(rows, i)) is not None and is_wanted(key)]


def key_at(rows: Rows, i: int) -> bytes | None:
    """Returns the key of a row, None if it has none."""
    at, size = rows.rows[i * ROW_WIDTH + ROW_KEY], rows.rows[i * ROW_WIDTH + ROW_KEY_SIZE]
    return bytes(rows.payload[at : at + size]) if size >= 0 else None


class Matches(NamedTuple):
    """The matches of one batch: offsets, ascending, and whether they are all of its records; ``keys``: theirs."""

    offsets: list[int]
    is_all: bool
    keys: set[bytes]


def matches_of(criteria: Criteria, batch: Batch, with_keys: bool) -> Matches:
    """Searches a batch. Raises UndecodableError, also for a match in a batch that cannot be written anew."""
    offsets, count, keys = list[int](), 0, set[bytes]()
    for rows in batch.rows():
        count += rows.count
        if wanted := criteria.rows(rows):
            column = rows.column(ROW_OFFSET)
            offsets += [column[i] for i in wanted]
            keys.update(key for i in wanted if with_keys and (key := key_at(rows, i)) is not None)
    for problem in batch.survey().problems if offsets else ():
        if problem.code in PROBLEM_CODES - HARMLESS_CODES:
            raise UndecodableError(problem.message, problem.code)
    return Matches(offsets, len(offsets) == count, keys)


@dataclass(slots=True)
class SearchedFile:
    """The results of the search of one file.

    ``ranges``: the offsets of matching records; ``emptied``: first and last offsets of the batches that lose all of
    their records, and of the lost ones in old formats, which have no other trace of them; ``keys``: those of the
    matches, if they are asked for; ``damage``: the bytes that cannot be searched, and batches with wrong checksums,
    which can; ``is_odd``: the file must be rewritten item by item.
    """

    file: SegmentFile
    records: int = 0
    ranges: Ranges = field(default_factory=list)
    emptied: Ranges = field(default_factory=list)
    keys: set[bytes] = field(default_factory=set)
    damage: list[Damage] = field(default_factory=list)
    is_odd: bool = False

    def add(self, matches: Matches, first: int, last: int, is_v2: bool) -> None:
        """Adds the matches of a batch with these offsets."""
        ranges = joined((offset, offset) for offset in matches.offsets)
        self.ranges += ranges
        self.records += len(matches.offsets)
        self.keys |= matches.keys
        if ranges and (matches.is_all or not is_v2):
            self.emptied += [(first, last)] if matches.is_all else ranges


class LogSearch:
    """Searches files. ``with_keys``: collects the keys of the matches."""

    def __init__(self, criteria: Criteria, workers: CleaningThreads, with_keys: bool = False) -> None:
        self._criteria, self._workers, self._with_keys = criteria, workers, with_keys
        self._buffers = Buffers()
        self._secret = Secret(os.urandom(SECRET_BYTES))
        self._hashes = {hash_of(key, self._secret)[0] for key in criteria.keys}
        """The first halves."""

    def segment(
        self, path: str, follow: Callable[[HeaderRows], None], advance: Callable[[int], None] = lambda _: None
    ) -> SearchedFile:
        """Searches a segment. ``follow`` gets the headers of all readable batches in order, from the start again if
        there is damage; ``advance`` the numbers of bytes read. Raises PathError."""
        found = SearchedFile(file := segment_file(path))

        def searching(window: Window) -> Callable[[RecordBuffers, Window], list[tuple[int, int, bool, Matches]]]:
            follow(window)
            return self._search

        try:
            for several in self._workers.each(path, self._buffers, searching, advance):
                for first, last, is_v2, matches in several:
                    found.add(matches, first, last, is_v2)
        except DamagedError:
            self._workers.discard()
            return self.file(file, follow)
        found.ranges = joined(found.ranges)
        return found

    def file(self, file: SegmentFile, follow: Callable[[HeaderRows], None] = lambda _: None) -> SearchedFile:
        """Searches a file that may be damaged, item by item. Raises PathError."""
        found, before = SearchedFile(file, is_odd=True), -1
        with open_segment(file) as reader:
            for item in reader:
                if isinstance(item, Damage):
                    if item.code != _ZEROS:
                        found.damage.append(item)
                    continue
                if not item.is_valid:
                    found.damage += [Damage(p.code, item.position, item.size, p.message) for p in item.problems[:1]]
                first = before + 1 if item.base_offset is None else item.base_offset
                if not before < first <= item.last_offset:
                    text = f"offsets {first} to {item.last_offset} after offset {before}"
                    found.damage.append(Damage("offsets-do-not-rise", item.position, item.size, text))
                elif item.is_valid:
                    follow(headers_of(item.data, [(0, item.size)], item.position))
                before = max(before, item.last_offset)
                if item.is_control:
                    continue
                try:
                    matches = matches_of(self._criteria, item, self._with_keys)
                except UndecodableError as error:
                    found.damage.append(Damage(error.problem, item.position, item.size, str(error)))
                else:
                    found.add(matches, first, item.last_offset, item.magic >= MAGIC_V2)
        found.ranges = joined(found.ranges)
        return found

    def _search(self, buffers: RecordBuffers, window: Window) -> list[tuple[int, int, bool, Matches]]:
        """Searches one window, in any thread. Raises DamagedError."""
        found = list[tuple[int, int, bool, Matches]]()
        for i in self._candidates(buffers, window):
            row = window[i]
            kind = RecordBatch if row.magic >= MAGIC_V2 else Message
            batch = kind(window.batch(i), row.position, row.size, row.magic, True, buffers.scratch, buffers.expansion)
            try:
                matches = matches_of(self._criteria, batch, self._with_keys)
            except UndecodableError as error:
                raise window.damage(i, str(error)) from error
            if matches.offsets:
                first = row.first_offset if row.first_offset >= 0 else matches.offsets[0]
                found.append((first, row.last_offset, row.magic >= MAGIC_V2, matches))
        return found

    def _candidates(self, buffers: RecordBuffers, window: Window) -> Iterable[int]:
        """Returns the batches that may hold a match, ascending. Raises DamagedError."""
        if self._criteria.needs_all:
            return (i for i, attributes in enumerate(window.attributes) if not attributes & CONTROL)
        lasts, found = window.lasts, set[int]()
        if self._hashes:
            none = as_verdicts([], window.count)
            for part in read_keys(window, none, -(1 << 63), self._secret, buffers):
                if not self._hashes.isdisjoint(hashes := part.hashes[::2].tolist()):
                    hits = (part.offsets[k] for k, found_hash in enumerate(hashes) if found_hash in self._hashes)
                    found.update(bisect_left(lasts, offset) for offset in hits)
        for low, high in self._criteria.offsets:
            for i in range(bisect_left(lasts, low), window.count):
                if max(window[i].first_offset, 0) > high:
                    break
                if not window[i].attributes & CONTROL:
                    found.add(i)
        return sorted(i for i in found if i < window.count)
