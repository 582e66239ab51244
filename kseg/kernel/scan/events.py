"""What a pass over rows notices: events as rows of numbers, and how many there were of each kind."""

import cython


def int64s(count):
    return memoryview(bytearray(8 * count)).cast("q")


class EventLog:
    """The events of one call of a kernel loop: KIND, ABOUT (a row, or the number of an entry), A, B and C of each.

    ``kinds`` are numbered from 1 to ``kinds`` - 1. ``rows`` (EVENT_WIDTH int64 an event) takes what a call has to tell;
    without it events are only counted. Of each kind at most ``limit`` become rows, all are counted.
    """

    def __init__(self, kinds, limit=0, rows=None):
        self.limit = limit
        self.events = 0
        self.use_rows(int64s(0) if rows is None else rows)
        self._totals = int64s(kinds)
        self._last_about = int64s(kinds)

    def use_rows(self, rows) -> None:
        """Events are written here from now on."""
        self._buffer = self._rows = rows

    def written(self) -> list:
        """The events of the last call, as tuples."""
        values = iter(self._buffer[: self.events * EVENT_WIDTH].tolist())
        return list(zip(*[values] * EVENT_WIDTH, strict=True))

    def total_of(self, kind: cython.Py_ssize_t) -> int:
        """Events of a kind since the log was made or cleared, those that were too many to be written included."""
        return self._totals[kind]

    def totals(self) -> list:
        return [self._totals[kind] for kind in range(len(self._totals))]

    def last_about(self, kind: cython.Py_ssize_t) -> int:
        """What the last event of a kind was about."""
        return self._last_about[kind]

    def forget(self, kind: cython.Py_ssize_t) -> None:
        """Counts the events of a kind anew."""
        self._totals[kind] = 0

    def clear(self) -> None:
        """Forgets all events."""
        kind: cython.Py_ssize_t
        self.events = 0
        for kind in range(len(self._totals)):
            self._totals[kind] = self._last_about[kind] = 0


def report(log, kind, about, a, b, c):
    """Notes an event; it is only counted where it is one too many."""
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
