"""One index file along the batches of its segment: windows of it for `kseg.kernel.index_entries`, what that tells."""

from typing import NamedTuple

from kseg.formats.rows import int64s
from kseg.kernel import index_entries as kernel
from kseg.sidefiles.entry_windows import EntryWindows

EVENT_ROOM = 256
SPARSE_BYTES = 16 << 20
"""Followers up to 3.9 write an entry a fetch, which brings 10 MiB at most (replica.fetch.response.max.bytes)."""
NO_ENTRY = -(1 << 63)
_NOTHING = bytes(16)


class IndexEvent(NamedTuple):
    """``kind`` is one of kseg.kernel.index_entries, ``entry`` a number, ``value`` its position or timestamp."""

    kind: int
    entry: int
    offset: int
    value: int
    a: int


class IndexWalk:
    """Reused from segment to segment. ``width``: kernel.OFFSETS or kernel.TIMES.

    Of each kind of event the first ``limit`` are kept in ``events``; `count` tells how many there were.
    """

    def __init__(self, width: int, limit: int) -> None:
        self.width = width
        self._blank = int64s(kernel.STATE_WIDTH)
        for column in (kernel.LAST_OFFSET, kernel.LARGEST, kernel.CERTAIN, kernel.PENDING):
            self._blank[column] = -1
        self._blank[kernel.BEFORE_OFFSET] = self._blank[kernel.BEFORE_VALUE] = NO_ENTRY
        self._blank[kernel.LIMIT] = limit
        self.state = int64s(kernel.STATE_WIDTH)
        self._rows = int64s(EVENT_ROOM * kernel.EVENT_WIDTH)
        self._windows: EntryWindows | None = None
        self._data = _NOTHING
        self.events: list[IndexEvent] = []
        self.size = self.used = 0
        self.error: OSError | None = None

    def open(self, path: str, base_offset: int) -> bool:
        """Begins with the index at ``path``; False where there is none. ``error`` is set where it cannot be read."""
        self.close()
        self.state[:] = self._blank
        self.state[kernel.BASE] = base_offset
        self._data, self.error, self.size, self.used = _NOTHING, None, 0, 0
        self.events.clear()
        try:
            self._windows = windows = EntryWindows(path, self.width)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            self.error = error
            return True
        self.size, self.used = windows.size, windows.used
        self.state[kernel.TOTAL] = self.used
        if self.used:
            self._move()
        return True

    def show(self, rows: memoryview, count: int) -> None:
        """Some batches, in the order of the file."""
        row = 0
        while True:
            row = kernel.follow(self.width, rows, row, count, self._data, self.state, self._rows)
            self._collect()
            if row >= count:
                return
            self._move()

    def drain(self, size: int) -> None:
        """The entries that are left once ``size`` bytes of the log were shown; -1: they are only to be in order."""
        while kernel.drain(self.width, size, self._data, self.state, self._rows):
            self._collect()
            self._move()
        self._collect()

    @property
    def is_as_it_should_be(self) -> bool:
        """Whether there is nothing to tell of a closed segment's index, once it was drained."""
        state = self.state
        return (
            not self.events
            and self.error is None
            and self.size == self.used * self.width
            and state[kernel.PENDING] < 0
            and state[kernel.FARTHEST] <= SPARSE_BYTES
            and (self.width == kernel.OFFSETS or state[kernel.LARGEST] <= max(state[kernel.BEFORE_VALUE], -1))
        )

    def count(self, kind: int) -> int:
        return int(self.state[kernel.COUNTS + kind])

    def last_entry(self, kind: int) -> int:
        """Number of the last entry that such an event was about."""
        return int(self.state[kernel.LAST_AT + kind])

    def close(self) -> None:
        if self._windows is not None:
            self._windows.close()
            self._windows = None

    def _move(self) -> None:
        """The window to the entry that comes next. What a shrinking or failing file does not have is not expected."""
        state = self.state
        at, total = state[kernel.NEXT], state[kernel.TOTAL]
        data = b""
        try:
            if self._windows is not None:
                data = self._windows.window(at)
        except OSError as error:
            self.error = error
        loaded = min(len(data) // self.width, total - at)
        if loaded < min(kernel.LOOK_AHEAD + 1, total - at):
            state[kernel.TOTAL] = at + loaded
        state[kernel.FIRST], state[kernel.LOADED] = at, loaded
        self._data = data or _NOTHING

    def _collect(self) -> None:
        width = kernel.EVENT_WIDTH
        for i in range(self.state[kernel.EVENTS]):
            self.events.append(IndexEvent(*self._rows[i * width : (i + 1) * width].tolist()))
