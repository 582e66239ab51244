"""Compares the records of two replicas, offset by offset: rows ROW_* of one against rows of the other."""

import cython
from cython import Py_ssize_t, bint, longlong

if not cython.compiled:  # kseg._build declares these constants for C
    # Kinds of events.
    DIFFERENT, ONLY_A, ONLY_B = 4, 5, 6

    # Columns of an event: first and last offset of a range without equal records, their number, the differing fields.
    EVENT_KIND, EVENT_FIRST, EVENT_LAST, EVENT_COUNT, EVENT_FIELDS, EVENT_WIDTH = range(6)

    # Bits of the fields that differ, in the order of FIELD_NAMES.
    EPOCH = 1
    KEY = 2
    VALUE = 4
    TIMESTAMP = 8
    HEADERS = 16

FIELD_NAMES = ("leader epoch", "key", "value", "timestamp", "headers")


class Side:
    """Decoded records of one replica: rows ROW_*, payload and headers. ``next``: the first row not compared yet."""

    def __init__(self, payload: BytesIn, rows: Int64sIn, headers: Int64sIn, count: Py_ssize_t, start: Py_ssize_t = 0):
        if len(payload) == 0 or len(headers) == 0 or len(rows) < count * ROW_WIDTH or start < 0:
            raise ValueError("a buffer is too short")
        self._kept = payload, rows, headers
        self.payload, self.rows, self.headers = bytes_in(payload), int64s_in(rows), int64s_in(headers)
        self.count, self.next = count, start


class RecordComparison:
    """Counts of records, and the events of a call: ``events`` rows EVENT_* in ``rows``.

    ``epochs_differ``: set by the caller if all records of a call have different leader epochs. ``last_same``: the last
    equal offset before the first difference, or -1. ``is_open``: the last event includes the last record of the call.
    """

    def __init__(self, rows: Int64sOut):
        self._buffer = rows
        self.rows, self.capacity = int64s_out(rows, EVENT_WIDTH), len(rows) // EVENT_WIDTH
        self.begin(False)

    def begin(self, epochs_differ) -> None:
        """Resets the counts."""
        self.epochs_differ = epochs_differ
        self.is_open = False
        self.same = self.different = self.events = 0
        self.last_same = -1

    def event(self, number: Py_ssize_t) -> tuple:
        """Returns an event: kind, first and last offset, number of records, bits of the fields that differ."""
        at: Py_ssize_t = number * EVENT_WIDTH
        if not 0 <= number < self.events:
            raise IndexError(number)
        return tuple([self.rows[at + column] for column in range(EVENT_WIDTH)])


def is_same_field(a: Side, a_rows: Columns, i: Py_ssize_t, b: Side, b_rows: Columns, j: Py_ssize_t) -> bint:
    """Whether two fields are equal; columns i and j have their positions, the next columns their sizes."""
    return are_same_bytes(a.payload, a_rows[i], a_rows[i + 1], b.payload, b_rows[j], b_rows[j + 1])


def differing_fields(a: Side, i: Py_ssize_t, b: Side, j: Py_ssize_t) -> longlong:
    fields: longlong = 0
    mine: Columns = a.rows
    other: Columns = b.rows
    g: Py_ssize_t = mine[i + ROW_HEADERS] * HEADER_WIDTH
    h: Py_ssize_t = other[j + ROW_HEADERS] * HEADER_WIDTH
    if not is_same_field(a, mine, i + ROW_KEY, b, other, j + ROW_KEY):
        fields |= KEY
    if not is_same_field(a, mine, i + ROW_VALUE, b, other, j + ROW_VALUE):
        fields |= VALUE
    # Records of v0, and records converted from v0, have no timestamp.
    if mine[i + ROW_TIMESTAMP] != other[j + ROW_TIMESTAMP]:
        if mine[i + ROW_TIMESTAMP] != -1 and other[j + ROW_TIMESTAMP] != -1:
            fields |= TIMESTAMP
    if mine[i + ROW_HEADER_COUNT] != other[j + ROW_HEADER_COUNT]:
        return fields | HEADERS
    for _k in range(mine[i + ROW_HEADER_COUNT]):
        if not is_same_field(a, a.headers, g + HEADER_KEY, b, b.headers, h + HEADER_KEY):
            return fields | HEADERS
        if not is_same_field(a, a.headers, g + HEADER_VALUE, b, b.headers, h + HEADER_VALUE):
            return fields | HEADERS
        g += HEADER_WIDTH
        h += HEADER_WIDTH
    return fields


def report(found: RecordComparison, goes_on: bint, kind: longlong, offset: longlong, fields: longlong) -> bint:
    """Adds a record to the last event if it ``goes_on``, else to a new one. False if the event rows are full."""
    at: Py_ssize_t = (found.events - 1) * EVENT_WIDTH
    if goes_on and found.events > 0 and found.rows[at + EVENT_KIND] == kind and found.rows[at + EVENT_FIELDS] == fields:
        found.rows[at + EVENT_LAST] = offset
        found.rows[at + EVENT_COUNT] += 1
        return True
    if found.events >= found.capacity:
        return False
    at += EVENT_WIDTH
    found.rows[at + EVENT_KIND] = kind
    found.rows[at + EVENT_FIRST] = offset
    found.rows[at + EVENT_LAST] = offset
    found.rows[at + EVENT_COUNT] = 1
    found.rows[at + EVENT_FIELDS] = fields
    found.events += 1
    return True


def compare(a: Side, b: Side, found: RecordComparison) -> int:
    """Compares the next rows of both replicas. Returns DONE or FULL."""
    status: cython.int = DONE
    goes_on: bint = False
    found.events = 0
    if a.next >= a.count or b.next >= b.count:
        return DONE
    with cython.nogil:
        while a.next < a.count and b.next < b.count:
            i, j = a.next * ROW_WIDTH, b.next * ROW_WIDTH
            x, y = a.rows[i + ROW_OFFSET], b.rows[j + ROW_OFFSET]
            kind, fields = ONLY_A if x < y else ONLY_B, 0
            if x == y:
                kind = DIFFERENT
                fields = differing_fields(a, i, b, j) | (EPOCH if found.epochs_differ else 0)
            if x != y or fields:
                if not report(found, goes_on, kind, min(x, y), fields):
                    status, goes_on = FULL, True
                    break
                goes_on = True
                found.different += kind == DIFFERENT
            else:
                goes_on = False
                found.same += 1
                if found.different == 0:
                    found.last_same = x
            a.next += x <= y
            b.next += y <= x
    found.is_open = goes_on
    return status
