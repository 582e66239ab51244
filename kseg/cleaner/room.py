"""How much room a compaction takes while it is at work: a bound from sizes alone, or counted by a pass without writing.

New files come before the old ones go. Where old files are kept beside them, by links, no room comes back: all that is
new has to fit at once. Where each new segment is put in place by itself and the old ones leave the file system, the
room of one is enough.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kseg.cleaner.grouping import group_segments
from kseg.cleaner.log import Segment
from kseg.cleaner.settings import CleanerSettings
from kseg.segment.regular_files import open_regular

_LEGACY_GROWTH, _GROWTH = 3, 1.25
"""A v0 message of 26 bytes becomes a v2 batch of 68 and more; delete horizons make timestamps of records longer."""


class Group(Protocol):
    """Segments that become one, as `kseg.cleaner.rounds.CleanedGroup`."""

    sources: list[Segment]
    segment: Segment

    @property
    def is_copy(self) -> bool:
        """Whether nothing changes."""


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes at most: ``here`` of new files beside the old ones, ``elsewhere`` of old files that are kept there.

    ``is_counted``: not guessed from sizes alone.
    """

    here: int
    elsewhere: int = 0
    is_counted: bool = False


class RoomTaken:
    """Follows the room that is taken beyond the partition's own. ``commits_each``: as in `Compactor`."""

    def __init__(self, commits_each: bool) -> None:
        self._commits_each = commits_each
        self._now = self.peak = self.replaced = 0

    def made(self, group: Group) -> None:
        """New files of a group are there; those of one that is no different go again."""
        size = file_bytes(group.segment)
        self.peak = max(self.peak, self._now + size)
        if not group.is_copy:
            self._now += size
            before = sum(map(file_bytes, group.sources))
            self.replaced += before
            if self._commits_each:
                self._now -= before

    def freed(self, segments: Iterable[Segment]) -> None:
        """New files of an earlier round, whose records are in others now, are gone."""
        self._now -= sum(map(file_bytes, segments))


def file_bytes(segment: Segment) -> int:
    """Of all its files."""
    return sum(segment.sizes.values())


def bound(segments: Sequence[Segment], end: int, settings: CleanerSettings, commits_each: bool) -> Need:
    """Without a look at any record: that everything survives, and grows as far as it can."""
    sizes = [sum(map(file_bytes, group)) for group in group_segments(segments, end, settings)]
    total, largest = sum(sizes), max(sizes, default=0)
    here = largest if commits_each else total
    if settings.until_clean and not commits_each:
        here += largest  # another round begins while the files of the one before are there
    grows = not settings.keeps_format and any(map(_is_legacy, segments))
    return Need(round(here * (_LEGACY_GROWTH if grows else _GROWTH)), total)


def counted(groups: Iterable[Group], unread: Sequence[Segment], until_clean: bool, commits_each: bool) -> Need:
    """What a pass without writing found. ``unread``: dirty segments that are left to later rounds."""
    taken, largest = RoomTaken(commits_each), 0
    for group in groups:
        taken.made(group)
        largest = max(largest, file_bytes(group.segment))
    if not unread or not until_clean:
        return Need(taken.peak, taken.replaced, True)
    rest = [file_bytes(segment) for segment in unread]
    more = max(rest) if commits_each else sum(rest) + max(largest, *rest)
    return Need(round(taken.peak + more * _GROWTH), taken.replaced + sum(rest), True)


def _is_legacy(segment: Segment) -> bool:
    with open_regular(segment.path) as stream:
        head = stream.read(17)
    return len(head) == 17 and head[16] < 2
