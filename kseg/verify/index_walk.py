"""One index file along the batches of its segment: windows of entries for `kseg.kernel.indexed`, and what it tells."""

from typing import NamedTuple

from kseg.formats.rows import int64s
from kseg.kernel import indexed
from kseg.sidefiles.entry_windows import EntryWindows

EVENT_ROOM = 256
NO_ENTRY = -(1 << 63)
_NOTHING = bytes(16)


class IndexEvent(NamedTuple):
    """``kind`` is one of kseg.kernel.indexed; ``entry`` a number in the file; ``value`` its position or timestamp."""

    kind: int
    entry: int
    offset: int
    value: int
    a: int


class IndexWalk:
    """Reused from segment to segment. ``width``: indexed.OFFSETS or indexed.TIMES.

    Of each kind of event the first ``limit`` are kept in ``events``; `count` tells how many there were.
    """

    def __init__(self, width: int, limit: int) -> None:
        self.width = width
        self._blank = int64s(indexed.STATE_WIDTH)
        for column in (indexed.LAST_OFFSET, indexed.LARGEST, indexed.CERTAIN, indexed.PENDING):
            self._blank[column] = -1
        self._blank[indexed.BEFORE_OFFSET] = self._blank[indexed.BEFORE_VALUE] = NO_ENTRY
        self._blank[indexed.LIMIT] = limit
        self.state = int64s(indexed.STATE_WIDTH)
        self._rows = int64s(EVENT_ROOM * indexed.EVENT_WIDTH)
        self._windows: EntryWindows | None = None
        self._data = _NOTHING
        self.events: list[IndexEvent] = []
        self.size = self.used = 0
        self.error: OSError | None = None

    def open(self, path: str, base_offset: int) -> bool:
        """Begins with the index at ``path``; False where there is none. ``error`` is set where it cannot be read."""
        self.state[:] = self._blank
        self.state[indexed.BASE] = base_offset
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
        self.state[indexed.TOTAL] = windows.used
        if windows.used:
            self._move()
        return True

    def show(self, rows: memoryview, count: int) -> None:
        """Some batches, in the order of the file."""
        row = 0
        while True:
            row = indexed.follow(self.width, rows, row, count, self._data, self.state, self._rows)
            self._collect()
            if row >= count:
                return
            self._move()

    def drain(self, size: int) -> None:
        """The entries that are left once ``size`` bytes of the log were shown; -1: they are only to be in order."""
        while indexed.drain(self.width, size, self._data, self.state, self._rows):
            self._collect()
            self._move()
        self._collect()

    def count(self, kind: int) -> int:
        return int(self.state[indexed.COUNTS + kind])

    def last_entry(self, kind: int) -> int:
        """Number of the last entry that such an event was about."""
        return int(self.state[indexed.LAST_AT + kind])

    def close(self) -> None:
        if self._windows is not None:
            self._windows.close()
            self._windows = None

    def _move(self) -> None:
        """The window to the entry that comes next. What a shrinking or failing file does not have is not expected."""
        state = self.state
        at, total = state[indexed.NEXT], state[indexed.TOTAL]
        data = b""
        try:
            if self._windows is not None:
                data = self._windows.window(at)
        except OSError as error:
            self.error = error
        loaded = len(data) // self.width
        if loaded < min(indexed.LOOK_AHEAD + 1, total - at):
            state[indexed.TOTAL] = at + loaded
        state[indexed.FIRST], state[indexed.LOADED] = at, loaded
        self._data = data or _NOTHING

    def _collect(self) -> None:
        width = indexed.EVENT_WIDTH
        for i in range(self.state[indexed.EVENTS]):
            self.events.append(IndexEvent(*self._rows[i * width : (i + 1) * width].tolist()))
