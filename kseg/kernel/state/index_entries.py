"""Checks the entries of an offset or time index against the batches of its segment (rows BATCH_*), in one pass.

Entries and batches have the same order, so only the current entry is held until its batch is reached.
"""

import cython
from cython.cimports.kseg.kernel.scan.chain import EventLog, report

NO_ENTRY = -(1 << 63)
"""Offset and value of the last entry in order, as long as there is none."""


class EntryWalk(EventLog):
    """The state of the check of one index file, kept between calls.

    ``width`` is OFFSETS or TIMES; ``limit`` and ``rows`` are as in `EventLog`. Of its events, ABOUT is the number of an
    entry, A its offset, B its position or timestamp (ms); the kind defines C. `begin` resets the state for a file: the
    base offset of its segment and the number of used entries. `move` sets the window of entries, from number ``first``.

    ``next``: number of the next entry; ``is_short``: the window must be moved there first. ``held_entry``,
    ``held_offset`` and ``held_value``: the held entry, if ``is_held``. ``before_offset`` and ``before_value``: the last
    entry in order, NO_ENTRY if there is none.
    ``end``: position after the last batch. ``last_offset``: the last plausible one; ``is_doubted``: the offsets of the
    last batch are not plausible. ``largest``: largest timestamp so far; ``has_unseen``: it may be too low (v0, damage,
    empty batches). ``certain``: largest timestamp of the batches with plausible offsets. ``has_v2``: the segment has
    batches of v2 (time index only). ``pending``: offset of entry ``pending_entry``, which covers several batches, not
    all of them read yet. ``indexed``: position of the last batch with an entry. ``farthest``: the largest distance in
    bytes of a batch from the last indexed one before it, whose position is ``farthest_at``.
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

    def move(self, first: cython.longlong, loaded: cython.longlong, window: BytesIn):
        """Sets the ``window``, with ``loaded`` entries from number ``first`` on; it has at least the bytes of one."""
        if len(window) < max(1, loaded) * self.width:
            raise ValueError("a buffer is too short")
        self._window = window
        self.data = bytes_in(window)
        self.first, self.loaded = first, loaded
        self.is_short = False


def offset_of(walk, entry):
    """Returns the absolute offset of an entry of the window; -1 if it exceeds the largest offset."""
    at: cython.Py_ssize_t = (entry - walk.first) * walk.width
    relative: cython.longlong = be32(walk.data, at if walk.width == OFFSETS else at + TIME_ENTRY_OFFSET)
    if relative > 0 and walk.base > INT64_MAX - relative:
        return -1
    return walk.base + relative


def value_of(walk, entry):
    """Returns the position or the timestamp of an entry of the window."""
    at: cython.Py_ssize_t = (entry - walk.first) * walk.width
    return be32(walk.data, at + OFFSET_ENTRY_POSITION) if walk.width == OFFSETS else be64(walk.data, at)


def follows(width, offset_before, value_before, offset, value):
    """Whether an entry may follow another: values and offsets must rise; in a time index offsets may be equal."""
    return value > value_before and (offset > offset_before or (width == TIMES and offset == offset_before))


def is_out_of_line(walk, offset, value):
    """Whether the two entries after the current one continue the entry before it, but not the current one."""
    remaining: cython.longlong = walk.total - walk.next
    if remaining < LOOK_AHEAD:
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
    """Holds the next entry in order, if there is one. Sets ``is_short`` if the window ends too early."""
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


def is_believed(rows, i, count, walk):
    """Whether the offsets of row i fit between those of its neighbours; `kseg.kernel.scan.chain` reports others."""
    at: cython.Py_ssize_t = i * BATCH_WIDTH
    first: cython.longlong = rows[at + BATCH_FIRST_OFFSET]
    last: cython.longlong = rows[at + BATCH_LAST_OFFSET]
    after: cython.Py_ssize_t = at + BATCH_WIDTH
    if rows[at + BATCH_MAGIC] < MAGIC_V2 and first < 0:
        first = last
    if not rows[at + BATCH_STATE] & CRC_RIGHT or first <= walk.last_offset or first < walk.base or last < first:
        return False
    if last - walk.base > INT32_MAX:
        return False
    return i + 1 >= count or not rows[after + BATCH_STATE] & CRC_RIGHT or rows[after + BATCH_LAST_OFFSET] > last


def report_held(walk, kind, c):
    """Adds an event about the held entry, or about the entry that was held last."""
    report(walk, kind, walk.held_entry, walk.held_offset, walk.held_value, c)


def judge_offset(row, at, walk):
    """Checks the offset of the held entry of an offset index, whose position is that of this row."""
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
    """Checks an offset index against one batch. Must be repeated if it ends with ``is_short``."""
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
    """Checks a time index against one batch. Must be repeated if it ends with ``is_short``."""
    at: cython.Py_ssize_t = i * BATCH_WIDTH
    first: cython.longlong = rows[at + BATCH_FIRST_OFFSET]
    last: cython.longlong = rows[at + BATCH_LAST_OFFSET]
    own: cython.longlong = rows[at + BATCH_MAX_TIMESTAMP]
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


def follow(walk: EntryWalk, rows: Int64sIn, start: cython.Py_ssize_t, count: cython.Py_ssize_t) -> int:
    """Checks the index against rows ``start`` to ``count`` (BATCH_*). Returns the row to continue with after the window
    was moved, or ``count``. Raises ValueError if the buffer is too short."""
    walk.is_short = False
    walk.events = 0
    if start >= count:
        return count
    if start < 0 or len(rows) < count * BATCH_WIDTH:
        raise ValueError("a buffer is too short")
    p = int64s_in(rows)
    with cython.nogil:
        while start < count:
            if walk.width == OFFSETS:
                offsets_row(p, start, count, walk)
            else:
                times_row(p, start, count, walk)
            if walk.is_short:
                break
            start += 1
    return start


def drain(walk: EntryWalk, size: cython.longlong) -> bool:
    """Reports the entries without a batch. Returns True if the window must be moved and the call repeated.

    ``size``: size of the log in bytes, all of whose batches were read; -1 if entries need no comparison with it.
    """
    walk.is_short = False
    walk.events = 0
    with cython.nogil:
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
    return walk.is_short
