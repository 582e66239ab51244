"""Computes the disk space that a compaction needs: an upper bound from file sizes, or exact by a pass without writing.

New files are written before old ones are removed. If hard links keep the old files, no space is freed and all new files
must fit at once. If each new segment is committed by itself and the old files are removed for good, space for one new
segment is enough.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kseg.cleaner.grouping import group_segments
from kseg.cleaner.log import CleanerSegment
from kseg.cleaner.settings import CleanerSettings
from kseg.kernel.layout.headers import ENTRY_MAGIC, MAGIC_V2
from kseg.stores.regular_files import open_regular

_LEGACY_GROWTH, _GROWTH = 3, 1.25
"""A v0 message of 26 bytes becomes a v2 batch of 68 bytes or more; delete horizons lengthen record timestamps."""


class Group(Protocol):
    """Segments that are cleaned into one; see `kseg.cleaner.rounds.CleanedGroup`."""

    sources: list[CleanerSegment]
    segment: CleanerSegment

    @property
    def is_copy(self) -> bool:
        """Whether the new .log is identical to the old one."""


@dataclass(frozen=True, slots=True)
class SpaceNeeded:
    """Upper bounds in bytes: ``here`` for new files next to the old ones, ``elsewhere`` for old files kept there.

    ``is_counted``: computed by a pass over the log, not estimated from file sizes.
    """

    here: int
    elsewhere: int = 0
    is_counted: bool = False


class SpaceTaken:
    """Tracks the disk space used beyond the partition's own.

    ``frees_each``: the old files of a group are removed before the next group is written.
    """

    def __init__(self, frees_each: bool) -> None:
        self._frees_each = frees_each
        self._now = self.peak = self.replaced = 0

    def add(self, group: Group) -> None:
        """Adds the new files of a group; those of an identical copy are removed again at once."""
        size = file_bytes(group.segment)
        self.peak = max(self.peak, self._now + size)
        if not group.is_copy:
            self._now += size
            before = sum(map(file_bytes, group.sources))
            self.replaced += before
            if self._frees_each:
                self._now -= before

    def subtract(self, segments: Iterable[CleanerSegment]) -> None:
        """Subtracts the new files of an earlier round, which a later round has replaced."""
        self._now -= sum(map(file_bytes, segments))


def file_bytes(segment: CleanerSegment) -> int:
    """Returns the size of all of a segment's files."""
    return sum(segment.sizes.values())


def bound(segments: Sequence[CleanerSegment], end: int, settings: CleanerSettings, frees_each: bool) -> SpaceNeeded:
    """Returns an upper bound without reading records: all of them survive and grow by the maximum.

    ``end``: the end of the dirty range; ``frees_each``: see `SpaceTaken`.
    """
    sizes = [sum(map(file_bytes, group)) for group in group_segments(segments, end, settings)]
    total, largest = sum(sizes), max(sizes, default=0)
    here = largest if frees_each else total
    if settings.until_clean and not frees_each:
        here += largest  # the next round begins before the files of the previous one are removed
    grows = not settings.keeps_format and any(map(_is_legacy, segments))
    return SpaceNeeded(round(here * (_LEGACY_GROWTH if grows else _GROWTH)), total)


def counted(
    groups: Iterable[Group], unread: Sequence[CleanerSegment], until_clean: bool, frees_each: bool
) -> SpaceNeeded:
    """Returns the need found by a pass without writing.

    ``unread``: dirty segments left to later rounds; ``frees_each``: see `SpaceTaken`.
    """
    taken, largest = SpaceTaken(frees_each), 0
    for group in groups:
        taken.add(group)
        largest = max(largest, file_bytes(group.segment))
    if not unread or not until_clean:
        return SpaceNeeded(taken.peak, taken.replaced, True)
    rest = [file_bytes(segment) for segment in unread]
    more = max(rest) if frees_each else sum(rest) + max(largest, *rest)
    return SpaceNeeded(round(taken.peak + more * _GROWTH), taken.replaced + sum(rest), True)


def _is_legacy(segment: CleanerSegment) -> bool:
    with open_regular(segment.path) as stream:
        head = stream.read(ENTRY_MAGIC + 1)
    return len(head) > ENTRY_MAGIC and head[ENTRY_MAGIC] < MAGIC_V2
