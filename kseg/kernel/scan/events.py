"""A log of the events of a pass over rows: events as rows of int64, and the number of events of each kind."""

import cython


def int64s(count):
    return memoryview(bytearray(8 * count)).cast("q")


class EventLog:
    """The events of one call of a kernel loop. Columns of an event: KIND, ABOUT (a row or entry number), A, B and C.

    Kinds are numbered from 1 to ``kinds`` - 1. Events are written to ``rows`` (EVENT_WIDTH int64 each), at most
    ``limit`` of each kind; without ``rows`` and beyond the limit they are only counted.
    """

    def __init__(self, kinds, limit=0, rows=None):
        self.limit = limit
        self.events = 0
        self.use_rows(int64s(0) if rows is None else rows)
        self._totals = int64s(kinds)
        self._last_about = int64s(kinds)

    def use_rows(self, rows) -> None:
        """Sets the buffer for events."""
        self._buffer = self._rows = rows

    def written(self) -> list:
        """Returns the events of the last call as tuples."""
        values = iter(self._buffer[: self.events * EVENT_WIDTH].tolist())
        return list(zip(*[values] * EVENT_WIDTH, strict=True))

    def total_of(self, kind: cython.Py_ssize_t) -> int:
        """Returns the number of events of a kind since the log was created or cleared, written or not."""
        return self._totals[kind]

    def totals(self) -> list:
        return [self._totals[kind] for kind in range(len(self._totals))]

    def last_about(self, kind: cython.Py_ssize_t) -> int:
        """Returns ABOUT of the last event of a kind."""
        return self._last_about[kind]

    def forget(self, kind: cython.Py_ssize_t) -> None:
        """Resets the number of events of a kind."""
        self._totals[kind] = 0

    def clear(self) -> None:
        """Resets all events."""
        kind: cython.Py_ssize_t
        self.events = 0
        for kind in range(len(self._totals)):
            self._totals[kind] = self._last_about[kind] = 0


def report(log, kind, about, a, b, c):
    """Logs an event; only counts it if the limit or the end of the rows is reached."""
    at: cython.Py_ssize_t = log.events * EVENT_WIDTH
    log._totals[kind] += 1
    log._last_about[kind] = about
    if log._totals[kind] > log.limit or at + EVENT_WIDTH > log._rows.shape[0]:
        return
    log._rows[at] = kind
    log._rows[at + 1] = about
    log._rows[at + 2] = a
    log._rows[at + 3] = b
    log._rows[at + 4] = c
    log.events += 1
