"""Computes the disk space that a compaction needs: an upper bound from file sizes, or exact by a pass without writing.

New files are written before old ones are removed. If hard links keep the old files, no space is freed and all new files
must fit at once. If each new segment is committed by itself and the old files are removed for good, space for one new
segment is enough.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kseg.changes.apply import MARGIN_BYTES, free_bytes
from kseg.changes.driver.planner import ChangeOptions, Reporter
from kseg.cleaner.log import CleanerSegment, group_segments
from kseg.cleaner.rounds import CleanedGroup
from kseg.cleaner.settings import CleanerSettings
from kseg.errors import KsegError
from kseg.kernel.layout.headers import ENTRY_MAGIC, MAGIC_V2
from kseg.quantities import shown_bytes
from kseg.stores.regular_files import open_regular

_LEGACY_GROWTH, _GROWTH = 3, 1.25
"""A v0 message of 26 bytes becomes a v2 batch of 68 bytes or more; delete horizons lengthen record timestamps."""


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

    def add(self, group: CleanedGroup) -> None:
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
    groups: Iterable[CleanedGroup], unread: Sequence[CleanerSegment], until_clean: bool, frees_each: bool
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


_WARNING_SHARE = 4
"""The need is a warning from a quarter of the free space on, and a detail below."""


class SpaceCheck:
    """Checks, before a compaction writes its first byte, whether the disk space is enough, and reports the need.

    ``commits_each``: each new segment is committed by itself, because the old files leave the file system then."""

    def __init__(self, directory: str, change: ChangeOptions, reporter: Reporter) -> None:
        self._directory, self._reporter = directory, reporter
        self._output = change.output
        self._kept_in = self._elsewhere(change.keeping.elsewhere)
        self._keeps = change.keeping.keeps
        self.commits_each = self._output is None and (not self._keeps or self._kept_in is not None)

    def _elsewhere(self, place: str | None) -> str | None:
        """Returns the directory on another file system in which old files are kept, None if they stay in their own."""
        if place is None:
            return None
        path = os.path.abspath(place)
        path = path if os.path.isdir(path) else os.path.dirname(path)
        if not os.path.isdir(path):
            raise KsegError(f"{path}: is no directory; nothing was changed")
        return path if os.stat(path).st_dev != os.stat(self._directory).st_dev else None

    def has_space(self, need: SpaceNeeded) -> bool:
        """Whether the space is enough. Raises KsegError if the need was counted and it is not."""
        free = free_bytes(self._output or self._directory)
        lack = self._lack(need, free)
        if lack and need.is_counted:
            raise KsegError(f"{self._directory}: {lack}; nothing was changed")
        if lack:
            self._reporter.warning(f"{self._directory}: {lack}: the surviving records are counted first")
            return False
        line = f"{self._directory}: new files may take {shown_bytes(need.here)}, {shown_bytes(free)} are free"
        if need.is_counted or need.here * _WARNING_SHARE > free:
            self._reporter.warning(line)
        else:
            self._reporter.detail(line)
        return True

    def warn_if_refused(self, need: SpaceNeeded) -> None:
        """Warns, after a dry run, if the compaction would be refused."""
        if lack := self._lack(need, free_bytes(self._directory)):
            self._reporter.warning(f"{self._directory}: it would be refused: {lack}")

    def _lack(self, need: SpaceNeeded, free: int) -> str:
        """Returns why the space is not enough, "" if it is."""
        if need.here + MARGIN_BYTES > free:
            each = ""
            if not self.commits_each and self._output is None:
                each = "; with --no-quarantine, or --quarantine on another disk, disk space for one segment is enough"
            return f"new files may take {shown_bytes(need.here)}, {shown_bytes(free)} are free{each}"
        if self._kept_in is not None and self._keeps:
            free = free_bytes(self._kept_in)
            if need.elsewhere + MARGIN_BYTES > free:
                kept = shown_bytes(need.elsewhere)
                return f"{kept} of old files are to be kept in {self._kept_in}, where {shown_bytes(free)} are free"
        return ""
