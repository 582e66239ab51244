"""Checks, before a compaction writes its first byte, whether the disk space is enough, and reports the need."""

import os

from kseg.changes.apply import MARGIN_BYTES, free_bytes
from kseg.changes.driver.planner import ChangeOptions
from kseg.changes.driver.reporter import Reporter
from kseg.cleaner.disk_space import SpaceNeeded
from kseg.errors import KsegError
from kseg.quantities import shown_bytes

_WARNING_SHARE = 4
"""The need is a warning from a quarter of the free space on, and a detail below."""


class SpaceCheck:
    """``commits_each``: each new segment is committed by itself, because the old files leave the file system then."""

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
