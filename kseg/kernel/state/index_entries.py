"""Follows the entries of an offset or a time index along the batches of its segment (rows BATCH_*), in one pass.

Entries are sorted as batches are, so one is held until its batch comes by.
"""

import cython
from cython.cimports.kseg.kernel.layout.headers import MAGIC_V2, OFFSET_ENTRY_POSITION, TIME_ENTRY_OFFSET
from cython.cimports.kseg.kernel.layout.pointers import bytes_in
from cython.cimports.kseg.kernel.layout.rows import (
    BATCH_COUNT,
    BATCH_FIRST_OFFSET,
    BATCH_LAST_OFFSET,
    BATCH_MAGIC,
    BATCH_MAX_TIMESTAMP,
    BATCH_POSITION,
    BATCH_SIZE,
    BATCH_STATE,
    BATCH_WIDTH,
    CRC_RIGHT,
    be32,
    be64,
)
from cython.cimports.kseg.kernel.scan.events import EventLog, report

NO_ENTRY = -(1 << 63)
"""Stands for offset and value of the last entry in order before there was one."""

_MAX_RELATIVE = cython.declare(cython.longlong, 0x7FFFFFFF)
_LARGEST = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)


class EntryWalk(EventLog):
    """One index file along the batches of its segment, kept from call to call.

    ``width`` is OFFSETS or TIMES; ``limit`` and ``rows`` as in `EventLog`, whose ABOUT is the number of an entry, A its
    offset, B its position or timestamp (ms), C what the kind says. `begin` resets all else for a file of a segment with
    that base offset and so many entries in use; `move` gives it a window of entries, from number ``first`` on.

    ``next`` is the entry to be taken next; ``is_short`` is set where the window must be moved there to go on.
    ``held_entry``, ``held_offset`` and ``held_value`` are the entry that is held (``is_held``), ``before_offset`` and
    ``before_value`` the last one in order, NO_ENTRY before there was one.
    ``end``: position behind the last batch. ``last_offset`` that is believed; ``is_doubted``: the last batch's are not.
    ``largest``: timestamp so far; ``has_unseen``: it may be too low (v0, damage, empty batches). ``certain``: the
    largest of the batches whose offsets are believed. ``has_v2``: there are batches of v2 (time index only).
    ``pending``: offset of an entry, number ``pending_entry``, that stands for several batches, not all of them seen.
    ``indexed``: position of the last batch that an entry leads to. ``farthest``: most bytes between a batch and the
    last one before it that an entry leads to, which is at ``farthest_at``.
    """

    def __init__(self, width, limit, rows):
        if width not in (OFFSETS, TIMES):
            raise ValueError("no such index")
        EventLog.__init__(self, KINDS, limit, rows)
        self.width = width
        self.begin(0, 0)

    def begin(self, base: cython.longlong, total: cython.longlong):
        self.clear()
        self.base, self.total = base, total
        self.next = 0
        self.move(0, 0, bytes(TIMES))
        self.is_held = False
        self.held_entry = self.held_offset = self.held_value = 0
        self.before_offset = self.before_value = NO_ENTRY
        self.end = 0
        self.last_offset = self.largest = self.certain = self.pending = -1
        self.pending_entry = self.indexed = self.farthest = self.farthest_at = 0
        self.has_unseen = self.is_doubted = self.has_v2 = False

    def move(self, first: cython.longlong, loaded: cython.longlong, window: cython.const[cython.uchar][::1]):
        """``loaded`` entries are in the ``window``, which is at least as long as one."""
        if len(window) < max(1, loaded) * self.width:
            raise ValueError("a buffer is too short")
        self._window = window
        self.data = bytes_in(window)
        self.first, self.loaded = first, loaded
        self.is_short = False


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def offset_of(walk: EntryWalk, entry: cython.longlong) -> cython.longlong:
    """The absolute offset of an entry of the window; -1 where it is beyond what offsets can be."""
    at: cython.Py_ssize_t = (entry - walk.first) * walk.width
    relative: cython.longlong = be32(walk.data, at if walk.width == OFFSETS else at + TIME_ENTRY_OFFSET)
    if relative > 0 and walk.base > _LARGEST - relative:
        return -1
    return walk.base + relative


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def value_of(walk: EntryWalk, entry: cython.longlong) -> cython.longlong:
    """The position, or the timestamp, of an entry of the window."""
    at: cython.Py_ssize_t = (entry - walk.first) * walk.width
    return be32(walk.data, at + OFFSET_ENTRY_POSITION) if walk.width == OFFSETS else be64(walk.data, at)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def follows(
    width: cython.int,
    offset_before: cython.longlong,
    value_before: cython.longlong,
    offset: cython.longlong,
    value: cython.longlong,
) -> cython.bint:
    """Whether an entry may come behind another: values rise, and offsets do; those of a time index may stay."""
    return value > value_before and (offset > offset_before or (width == TIMES and offset == offset_before))


def is_out_of_line(walk, offset, value):
    """Whether the two entries behind the one just taken go on from what is before it, and not from it."""
    k: cython.longlong
    next_offset: cython.longlong
    next_value: cython.longlong
    behind: cython.longlong = walk.total - walk.next
    if behind < LOOK_AHEAD:
        return False
    for k in range(LOOK_AHEAD):
        next_offset = offset_of(walk, walk.next + k)
        next_value = value_of(walk, walk.next + k)
        if follows(walk.width, offset, value, next_offset, next_value):
            return False
        if next_offset < walk.base:
            return False
        if not follows(walk.width, walk.before_offset, walk.before_value, next_offset, next_value):
            return False
    return True


def take(walk):
    """Holds the next entry that is in order, if there is one; sets ``is_short`` where the window ends too soon."""
    i: cython.longlong
    offset: cython.longlong
    value: cython.longlong
    kind: cython.longlong
    while not walk.is_held and walk.next < walk.total:
        i = walk.next
        if min(i + LOOK_AHEAD, walk.total - 1) >= walk.first + walk.loaded or i < walk.first:
            walk.is_short = True
            return
        offset = offset_of(walk, i)
        value = value_of(walk, i)
        walk.next += 1
        kind = 0
        if offset < walk.base:
            kind = BELOW_BASE
        elif walk.width == OFFSETS and value < 0:
            kind = NEGATIVE
        elif not follows(walk.width, walk.before_offset, walk.before_value, offset, value):
            kind = UNSORTED
        elif is_out_of_line(walk, offset, value):
            kind = UNSORTED
        if kind:
            report(walk, kind, i, offset, value, walk.before_offset)
            continue
        walk.is_held = True
        walk.held_entry = i
        walk.held_offset = walk.before_offset = offset
        walk.held_value = walk.before_value = value


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def is_believed(
    rows: cython.pointer[cython.const[cython.longlong]],
    i: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    walk: EntryWalk,
) -> cython.bint:
    """Whether the offsets of row i fit between those before and behind; that they do not, others tell."""
    at: cython.Py_ssize_t = i * BATCH_WIDTH
    first: cython.longlong = rows[at + BATCH_FIRST_OFFSET]
    last: cython.longlong = rows[at + BATCH_LAST_OFFSET]
    after: cython.Py_ssize_t = at + BATCH_WIDTH
    if rows[at + BATCH_MAGIC] < MAGIC_V2 and first < 0:
        first = last
    if not rows[at + BATCH_STATE] & CRC_RIGHT or first <= walk.last_offset or first < walk.base or last < first:
        return False
    if last - walk.base > _MAX_RELATIVE:
        return False
    return i + 1 >= count or not rows[after + BATCH_STATE] & CRC_RIGHT or rows[after + BATCH_LAST_OFFSET] > last


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def report_held(walk: EntryWalk, kind: cython.longlong, c: cython.longlong) -> cython.void:
    """An event about the entry that is, or was, held."""
    report(walk, kind, walk.held_entry, walk.held_offset, walk.held_value, c)


def judge_offset(row, at, walk):
    """The held entry of an offset index, which leads to this row."""
    first: cython.longlong = row[at + BATCH_FIRST_OFFSET]
    last: cython.longlong = row[at + BATCH_LAST_OFFSET]
    is_known: cython.bint = first >= 0 or row[at + BATCH_MAGIC] >= MAGIC_V2
    if walk.held_offset > last:
        walk.pending = walk.held_offset
        walk.pending_entry = walk.held_entry
    elif walk.held_offset != last:
        if is_known and walk.held_offset < first:
            report_held(walk, TOO_LOW, first)
        elif not is_known and walk.held_offset <= walk.last_offset:
            report_held(walk, TOO_LOW, walk.last_offset)
        elif is_known and walk.held_offset != first:
            report_held(walk, IMPRECISE, last)


def offsets_row(rows, i, count, walk):
    """One batch for an offset index. To be repeated from its beginning where it ends with ``is_short``."""
    at: cython.Py_ssize_t = i * BATCH_WIDTH
    position: cython.longlong = rows[at + BATCH_POSITION]
    last: cython.longlong = rows[at + BATCH_LAST_OFFSET]
    believed: cython.bint = is_believed(rows, i, count, walk)
    if believed and 0 <= walk.pending <= last:
        if walk.pending != last:
            report(walk, IMPRECISE, walk.pending_entry, walk.pending, -1, last)
        walk.pending = -1
    take(walk)
    while walk.is_held and walk.held_value <= position:
        walk.is_held = False
        if walk.held_value == position:
            if walk.pending >= 0:
                report(walk, IMPRECISE, walk.pending_entry, walk.pending, -1, walk.last_offset)
                walk.pending = -1
            if believed:
                judge_offset(rows, at, walk)
            walk.indexed = position
        elif walk.held_value < walk.end:
            report_held(walk, NO_BATCH, walk.end)
        take(walk)
    if walk.is_short:
        return
    if position - walk.indexed > walk.farthest:
        walk.farthest = position - walk.indexed
        walk.farthest_at = walk.indexed
    walk.end = position + rows[at + BATCH_SIZE]
    walk.is_doubted = not believed
    if believed:
        walk.last_offset = last


def times_row(rows, i, count, walk):
    """One batch for a time index. To be repeated from its beginning where it ends with ``is_short``."""
    at: cython.Py_ssize_t = i * BATCH_WIDTH
    first: cython.longlong = rows[at + BATCH_FIRST_OFFSET]
    last: cython.longlong = rows[at + BATCH_LAST_OFFSET]
    own: cython.longlong = rows[at + BATCH_MAX_TIMESTAMP]
    lower: cython.longlong
    believed: cython.bint = is_believed(rows, i, count, walk)
    # The cleaner does not index the empty batches that it keeps; a broker's recovery does.
    is_counted: cython.bint = (
        rows[at + BATCH_STATE] & CRC_RIGHT and rows[at + BATCH_MAGIC] != 0 and rows[at + BATCH_COUNT] != 0
    )
    take(walk)
    while believed and walk.is_held and walk.held_offset <= last:
        walk.is_held = False
        lower = walk.certain
        if is_counted and own > lower and (walk.held_offset == last or 0 <= first <= walk.held_offset):
            lower = own
        if walk.held_value < lower:
            report_held(walk, TOO_OLD, lower)
        elif is_counted and not walk.has_unseen and walk.held_value > walk.largest and walk.held_value > own:
            report_held(walk, TOO_NEW, max(walk.largest, own))
        take(walk)
    if walk.is_short:
        return
    walk.end = rows[at + BATCH_POSITION] + rows[at + BATCH_SIZE]
    walk.is_doubted = not believed
    if believed:
        walk.last_offset = last
    if rows[at + BATCH_MAGIC] >= MAGIC_V2:
        walk.has_v2 = True
    if not is_counted:
        walk.has_unseen = True
    else:
        if own > walk.largest:
            walk.largest = own
        if believed and own > walk.certain:
            walk.certain = own


def follow_rows(rows, start, count, walk):
    i: cython.Py_ssize_t
    walk.is_short = False
    walk.events = 0
    for i in range(start, count):
        if walk.width == OFFSETS:
            offsets_row(rows, i, count, walk)
        else:
            times_row(rows, i, count, walk)
        if walk.is_short:
            return i
    return count


def follow(
    walk: EntryWalk, rows: cython.const[cython.longlong][::1], start: cython.Py_ssize_t, count: cython.Py_ssize_t
) -> int:
    """Shows rows ``start`` to ``count`` (BATCH_*) to the index; the row to go on with once the window was moved,
    ``count`` where none is left."""
    walk.events = 0
    if start >= count:
        return count
    if start < 0 or len(rows) < count * BATCH_WIDTH:
        raise ValueError("a buffer is too short")
    if cython.compiled:
        with cython.nogil:
            start = follow_rows(cython.address(rows[0]), start, count, walk)
    else:
        start = follow_rows(rows, start, count, walk)
    return start


def drain_entries(walk, size):
    walk.is_short = False
    walk.events = 0
    take(walk)
    while walk.is_held:
        walk.is_held = False
        if size >= 0 and walk.width == TIMES and walk.held_offset > walk.last_offset:
            report_held(walk, BEYOND, walk.last_offset)
        elif size >= 0 and walk.width == OFFSETS and walk.held_value >= size:
            report_held(walk, BEYOND, walk.last_offset)
        elif size >= 0 and walk.width == OFFSETS and walk.held_value < walk.end:
            report_held(walk, NO_BATCH, walk.end)
        take(walk)


def drain(walk: EntryWalk, size: cython.longlong) -> bool:
    """The entries that no batch was met for; True where the window must be moved and this be called again.

    ``size``: bytes of the log, of which all batches were shown; -1 where it is not to be compared with.
    """
    with cython.nogil:
        drain_entries(walk, size)
    return walk.is_short
