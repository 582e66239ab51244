"""Side files from header rows (BATCH_*): changes of the leader epoch; index entries as Kafka's LogSegment.recover makes
them, and the check of the entries of an index.

A batch gets an offset entry if it starts more than ``interval`` bytes after the previous indexed batch (for the first
one: after the start of the file). At the same time the time index gets the largest timestamp so far, including this
batch, if it is larger than that of the previous entry. Entries have the big-endian layout of the files: a relative
offset (int32; the low 32 bits if it does not fit) and a position (int32); a timestamp (int64) and a relative offset
(int32).
"""

import cython
from cython import Py_ssize_t, bint, longlong, void
from cython.cimports.kseg.kernel.scan.headers import EventLog, report

if not cython.compiled:  # kseg._build declares these constants for C
    # Columns of a change of the leader epoch. The epoch is -1 for a message of v0 or v1, which has none.
    CHANGE_EPOCH = 0
    # Offset of its first batch.
    CHANGE_OFFSET = 1
    # Last offset of the epoch before that, -1 none.
    CHANGE_LAST_OFFSET = 2
    CHANGE_WIDTH = 3

    # The kinds of indexes; the number is the size of an entry in bytes.
    OFFSETS = 8
    TIMES = 12
    # Number of entries after the next one that must be in the window too, if the file has them.
    LOOK_AHEAD = 2

    # The offset is below the base offset of the segment.
    BELOW_BASE = 1
    # The position is negative.
    NEGATIVE = 2
    # The entry is not in order with its neighbours. C: offset of the last entry in order.
    UNSORTED = 3
    # The position is inside a batch. C: position of the next batch.
    NO_BATCH = 4
    # The first offset of the batch is larger than the entry's. C: that offset; for a compressed v0 or v1 message, the
    # offset before it.
    TOO_LOW = 5
    # The offset is neither the first nor the last offset of the batch; lookups still work. C: its last offset.
    IMPRECISE = 6
    # The log ends before the position or the offset. C: last offset of the log.
    BEYOND = 7
    # A record up to the offset has a later timestamp. C: the largest timestamp up to the offset.
    TOO_OLD = 8
    # All records up to the offset have earlier timestamps. C: the largest timestamp up to the offset.
    TOO_NEW = 9
    KINDS = 10

# Finds where the leader epoch changes from batch to batch (rows BATCH_*).


class EpochState:
    """The state of the search, kept between calls.

    ``epoch`` and ``last_offset`` of the preceding batch, -1 if none; the epoch of v0 and v1 is -1 too. ``found``:
    changes written by a call.
    """

    def __init__(self):
        self.epoch = self.last_offset = -1
        self.found = 0


def changes(rows: Int64sIn, start: Py_ssize_t, count: Py_ssize_t, state: EpochState, found: Int64sOut) -> int:
    """Writes the changes in rows ``start`` to ``count`` to ``found`` (CHANGE_*).

    Returns the row before which it stopped because ``found`` is full, else ``count``. Raises ValueError if a buffer is
    too short.
    """
    state.found = 0
    if start < 0 or len(rows) < count * BATCH_WIDTH or len(found) < CHANGE_WIDTH:
        raise ValueError("a buffer is too short")
    p, out, capacity = int64s_in(rows), int64s_out(found), len(found) // CHANGE_WIDTH
    with cython.nogil:
        while start < count:
            at = start * BATCH_WIDTH
            if p[at + BATCH_STATE] & CRC_RIGHT:
                epoch = p[at + BATCH_LEADER_EPOCH] if p[at + BATCH_MAGIC] >= MAGIC_V2 else -1
                if epoch != state.epoch:
                    if state.found == capacity:
                        break
                    to = state.found * CHANGE_WIDTH
                    out[to + CHANGE_EPOCH] = epoch
                    out[to + CHANGE_OFFSET] = p[at + BATCH_FIRST_OFFSET]
                    out[to + CHANGE_LAST_OFFSET] = state.last_offset if state.epoch >= 0 else -1
                    state.found += 1
                    state.epoch = epoch
                state.last_offset = p[at + BATCH_LAST_OFFSET]
            start += 1
    return start


class IndexBuild:
    """The state of the indexes of a segment, kept between calls. -1 means none.

    ``uses_first_offset``: entries have the first offset of a batch (1.1 and older); ``has_times``: there is a time
    index (not in 0.10.0); ``takes_any``: offsets that do not fit into the segment do not end the call (1.1 and older).

    ``last_position``: position of the last indexed batch, 0 at first. ``largest_timestamp``, with the last offset of
    its batch. ``last_offset``: of the offset index; ``last_timestamp`` and ``last_time_offset``: of the time index.
    ``offsets``, ``times``: number of entries that the call wrote; ``row``: of the batch that could not be indexed.
    """

    def __init__(self, base, interval, uses_first_offset=False, has_times=True, takes_any=False):
        self.base, self.interval = base, interval
        self.uses_first_offset, self.has_times, self.takes_any = uses_first_offset, has_times, takes_any
        self.last_position = 0
        self.largest_timestamp = self.largest_timestamp_offset = -1
        self.last_offset = self.last_timestamp = self.last_time_offset = -1
        self.offsets = self.times = self.row = 0


def index(rows: Int64sIn, count: Py_ssize_t, build: IndexBuild, offsets: BytesOut, times: BytesOut) -> int:
    """Writes the entries for the first ``count`` rows to ``offsets`` and ``times``, which hold ``count`` entries each.

    Returns DONE, or why the batch of ``row`` cannot be indexed. OFFSET_OUTSIDE: its last offset is below the base
    offset, or at least 2^31 above it. OFFSET_FALLS: an offset is not larger than the previous one, in the time index
    smaller. Earlier entries are written.
    Raises ValueError if a buffer is too short.
    """
    status: cython.int = DONE
    build.offsets = build.times = 0
    p = int64s_in(rows, count * BATCH_WIDTH)
    offset_entries = bytes_out(offsets, OFFSET_ENTRY_BYTES * count)
    time_entries = bytes_out(times, TIME_ENTRY_BYTES * count)
    with cython.nogil:
        for i in range(count):
            at = i * BATCH_WIDTH
            last = p[at + BATCH_LAST_OFFSET]
            build.row = i
            if not build.takes_any and (last < build.base or last - build.base > INT32_MAX):
                status = OFFSET_OUTSIDE
                break
            if p[at + BATCH_MAX_TIMESTAMP] > build.largest_timestamp:
                build.largest_timestamp = p[at + BATCH_MAX_TIMESTAMP]
                build.largest_timestamp_offset = last
            if p[at + BATCH_POSITION] - build.last_position <= build.interval:
                continue
            entry = last
            if build.uses_first_offset and p[at + BATCH_FIRST_OFFSET] >= 0:
                entry = p[at + BATCH_FIRST_OFFSET]
            if build.last_offset >= 0 and entry <= build.last_offset:
                status = OFFSET_FALLS
                break
            to = OFFSET_ENTRY_BYTES * build.offsets
            put_big(offset_entries, to, difference(entry, build.base), 4)
            put_big(offset_entries, to + OFFSET_ENTRY_POSITION, p[at + BATCH_POSITION], 4)
            build.offsets += 1
            build.last_offset = entry
            build.last_position = p[at + BATCH_POSITION]
            if build.has_times and build.largest_timestamp > build.last_timestamp:
                if build.last_time_offset >= 0 and build.largest_timestamp_offset < build.last_time_offset:
                    status = OFFSET_FALLS
                    break
                to = TIME_ENTRY_BYTES * build.times
                put_big(time_entries, to, build.largest_timestamp, 8)
                put_big(time_entries, to + TIME_ENTRY_OFFSET, difference(build.largest_timestamp_offset, build.base), 4)
                build.times += 1
                build.last_timestamp = build.largest_timestamp
                build.last_time_offset = build.largest_timestamp_offset
    return status


# Checks the entries of an offset or time index against the batches of its segment, in one pass.
#
# Entries and batches have the same order, so only the current entry is held until its batch is reached.

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

    def begin(self, base: longlong, total: longlong):
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

    def move(self, first: longlong, loaded: longlong, window: BytesIn):
        """Sets the ``window``, with ``loaded`` entries from number ``first`` on; it has at least the bytes of one."""
        self.data = bytes_in(window, max(1, loaded) * self.width)
        self._window = window
        self.first, self.loaded = first, loaded
        self.is_short = False


def offset_of(walk: EntryWalk, entry: longlong) -> longlong:
    """Returns the absolute offset of an entry of the window; -1 if it exceeds the largest offset."""
    at: Py_ssize_t = (entry - walk.first) * walk.width
    relative: longlong = be32(walk.data, at if walk.width == OFFSETS else at + TIME_ENTRY_OFFSET)
    if relative > 0 and walk.base > INT64_MAX - relative:
        return -1
    return walk.base + relative


def value_of(walk: EntryWalk, entry: longlong) -> longlong:
    """Returns the position or the timestamp of an entry of the window."""
    at: Py_ssize_t = (entry - walk.first) * walk.width
    return be32(walk.data, at + OFFSET_ENTRY_POSITION) if walk.width == OFFSETS else be64(walk.data, at)


def follows(
    width: cython.int, offset_before: longlong, value_before: longlong, offset: longlong, value: longlong
) -> bint:
    """Whether an entry may follow another: values and offsets must rise; in a time index offsets may be equal."""
    return value > value_before and (offset > offset_before or (width == TIMES and offset == offset_before))


def is_out_of_line(walk: EntryWalk, offset: longlong, value: longlong) -> bint:
    """Whether the two entries after the current one continue the entry before it, but not the current one."""
    remaining: longlong = walk.total - walk.next
    if remaining < LOOK_AHEAD:
        return False
    for k in range(LOOK_AHEAD):
        next_offset = offset_of(walk, walk.next + k)
        next_value = value_of(walk, walk.next + k)
        if next_offset < walk.base or follows(walk.width, offset, value, next_offset, next_value):
            return False
        if not follows(walk.width, walk.before_offset, walk.before_value, next_offset, next_value):
            return False
    return True


def take(walk: EntryWalk) -> void:
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
        elif not follows(walk.width, walk.before_offset, walk.before_value, offset, value) or is_out_of_line(
            walk, offset, value
        ):
            kind = UNSORTED
        if kind:
            report(walk, kind, i, offset, value, walk.before_offset)
            continue
        walk.is_held = True
        walk.held_entry = i
        walk.held_offset = walk.before_offset = offset
        walk.held_value = walk.before_value = value


def is_believed(rows: Columns, i: Py_ssize_t, count: Py_ssize_t, walk: EntryWalk) -> bint:
    """Whether the offsets of row i fit between those of its neighbours; `kseg.kernel.scan.headers` reports others."""
    at: Py_ssize_t = i * BATCH_WIDTH
    first: longlong = rows[at + BATCH_FIRST_OFFSET]
    last: longlong = rows[at + BATCH_LAST_OFFSET]
    after: Py_ssize_t = at + BATCH_WIDTH
    if rows[at + BATCH_MAGIC] < MAGIC_V2 and first < 0:
        first = last
    if not rows[at + BATCH_STATE] & CRC_RIGHT or first <= walk.last_offset or first < walk.base or last < first:
        return False
    if last - walk.base > INT32_MAX:
        return False
    return i + 1 >= count or not rows[after + BATCH_STATE] & CRC_RIGHT or rows[after + BATCH_LAST_OFFSET] > last


def report_held(walk: EntryWalk, kind: longlong, c: longlong) -> void:
    """Adds an event about the held entry, or about the entry that was held last."""
    report(walk, kind, walk.held_entry, walk.held_offset, walk.held_value, c)


def judge_offset(row: Columns, at: Py_ssize_t, walk: EntryWalk) -> void:
    """Checks the offset of the held entry of an offset index, whose position is that of this row."""
    first: longlong = row[at + BATCH_FIRST_OFFSET]
    last: longlong = row[at + BATCH_LAST_OFFSET]
    is_known: bint = first >= 0 or row[at + BATCH_MAGIC] >= MAGIC_V2
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


def offsets_row(rows: Columns, at: Py_ssize_t, believed: bint, walk: EntryWalk) -> void:
    """Checks an offset index against one batch. Must be repeated if it ends with ``is_short``."""
    position: longlong = rows[at + BATCH_POSITION]
    last: longlong = rows[at + BATCH_LAST_OFFSET]
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
    if not walk.is_short and position - walk.indexed > walk.farthest:
        walk.farthest = position - walk.indexed
        walk.farthest_at = walk.indexed


def times_row(rows: Columns, at: Py_ssize_t, believed: bint, walk: EntryWalk) -> void:
    """Checks a time index against one batch. Must be repeated if it ends with ``is_short``."""
    first: longlong = rows[at + BATCH_FIRST_OFFSET]
    last: longlong = rows[at + BATCH_LAST_OFFSET]
    own: longlong = rows[at + BATCH_MAX_TIMESTAMP]
    # The cleaner does not index the empty batches that it keeps; a broker's recovery does.
    is_counted: bint = (
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
    if rows[at + BATCH_MAGIC] >= MAGIC_V2:
        walk.has_v2 = True
    if not is_counted:
        walk.has_unseen = True
    else:
        if own > walk.largest:
            walk.largest = own
        if believed and own > walk.certain:
            walk.certain = own


def follow(walk: EntryWalk, rows: Int64sIn, start: Py_ssize_t, count: Py_ssize_t) -> int:
    """Checks the index against rows ``start`` to ``count`` (BATCH_*). Returns the row to continue with after the window
    was moved, or ``count``. Raises ValueError if the buffer is too short."""
    walk.is_short = False
    walk.events = 0
    if start < 0 or len(rows) < count * BATCH_WIDTH:
        raise ValueError("a buffer is too short")
    p = int64s_in(rows)
    with cython.nogil:
        while start < count:
            at = start * BATCH_WIDTH
            believed = is_believed(p, start, count, walk)
            if walk.width == OFFSETS:
                offsets_row(p, at, believed, walk)
            else:
                times_row(p, at, believed, walk)
            if walk.is_short:
                break
            walk.end = p[at + BATCH_POSITION] + p[at + BATCH_SIZE]
            walk.is_doubted = not believed
            if believed:
                walk.last_offset = p[at + BATCH_LAST_OFFSET]
            start += 1
    return start


def drain(walk: EntryWalk, size: longlong) -> bool:
    """Reports the entries without a batch. Returns True if the window must be moved and the call repeated.

    ``size``: size of the log in bytes, all of whose batches were read; -1 if entries need no comparison with it.
    """
    walk.is_short = False
    walk.events = 0
    with cython.nogil:
        take(walk)
        while walk.is_held:
            walk.is_held = False
            if size >= 0 and (walk.held_offset > walk.last_offset if walk.width == TIMES else walk.held_value >= size):
                report_held(walk, BEYOND, walk.last_offset)
            elif size >= 0 and walk.width == OFFSETS and walk.held_value < walk.end:
                report_held(walk, NO_BATCH, walk.end)
            take(walk)
    return walk.is_short
