"""Walks an index file along the batches of its segment (`kseg.kernel.state.index_entries`), window by window."""

from typing import NamedTuple

from kseg.formats.rows import int64s
from kseg.kernel.scan.events import EVENT_WIDTH
from kseg.kernel.state import index_entries as kernel
from kseg.limits import MAX_INDEX_BYTES
from kseg.sidefiles.entry_windows import EntryWindows

EVENT_LIMIT = 256
"""Limit of events that one step returns."""
SPARSE_BYTES = 16 << 20
"""Largest expected distance between entries, in bytes of the log. Followers up to 3.9 write one entry per fetch, of at
most 10 MiB (replica.fetch.response.max.bytes)."""
_NOTHING = bytes(16)


class IndexEvent(NamedTuple):
    """``kind`` is one of kseg.kernel.state.index_entries, ``entry`` a number, ``value`` its position or timestamp."""

    kind: int
    entry: int
    offset: int
    value: int
    a: int


class IndexWalk:
    """A walk through one index at a time, reused for all segments. ``width``: kernel.OFFSETS or kernel.TIMES.

    ``events`` has the first ``limit`` events of each kind; `count` returns their number.
    """

    def __init__(self, width: int, limit: int) -> None:
        self.width = width
        self.state = kernel.EntryWalk(width, limit, int64s(EVENT_LIMIT * EVENT_WIDTH))
        self._windows: EntryWindows | None = None
        self.events: list[IndexEvent] = []
        self.size = self.used = 0
        self.error: OSError | None = None
        self.is_too_large = False
        """Whether nothing of the file was read."""

    def open(self, path: str, base_offset: int) -> bool:
        """Starts with the index at ``path``. Returns False if there is none; sets ``error`` if it cannot be read."""
        self.close()
        self.state.begin(base_offset, 0)
        self.error, self.size, self.used, self.is_too_large = None, 0, 0, False
        self.events.clear()
        try:
            self._windows = windows = EntryWindows(path, self.width)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            self.error = error
            return True
        self.size, self.used = windows.size, windows.used
        if windows.used_bytes > MAX_INDEX_BYTES:
            self.is_too_large, self.used = True, 0
        self.state.total = self.used
        if self.used:
            self._move()
        return True

    def follow(self, rows: memoryview, count: int) -> None:
        """Compares the next batches of the file with the entries."""
        row = 0
        while True:
            row = kernel.follow(self.state, rows, row, count)
            self._collect()
            if row >= count:
                return
            self._move()

    def drain(self, size: int) -> None:
        """Checks the remaining entries when ``size`` bytes of the log were followed; -1: only their order."""
        while kernel.drain(self.state, size):
            self._collect()
            self._move()
        self._collect()

    @property
    def is_intact(self) -> bool:
        """Whether the index of a closed segment has no findings; valid after `drain`."""
        state = self.state
        return (
            not self.events
            and self.error is None
            and not self.is_too_large
            and self.size == self.used * self.width
            and state.pending < 0
            and state.farthest <= SPARSE_BYTES
            and (self.width == kernel.OFFSETS or state.largest <= max(state.before_value, -1))
        )

    def count(self, kind: int) -> int:
        return int(self.state.total_of(kind))

    def last_entry(self, kind: int) -> int:
        """Number of the entry of the last event of this kind."""
        return int(self.state.last_about(kind))

    def close(self) -> None:
        if self._windows is not None:
            self._windows.close()
            self._windows = None

    def _move(self) -> None:
        """Moves the window to the next entry. Entries that a shrinking or failing file lost are not expected."""
        state = self.state
        at, total = state.next, state.total
        data = b""
        try:
            if self._windows is not None:
                data = self._windows.window(at)
        except OSError as error:
            self.error = error
        loaded = min(len(data) // self.width, total - at)
        if loaded < min(kernel.LOOK_AHEAD + 1, total - at):
            state.total = at + loaded
        state.move(at, loaded, data or _NOTHING)

    def _collect(self) -> None:
        if self.state.events:
            self.events += map(IndexEvent._make, self.state.written())
