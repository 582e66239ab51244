"""Side files from header rows: changes of the leader epoch; index entries as Kafka's LogSegment.recover makes them.

A batch gets an offset entry if it starts more than ``interval`` bytes after the previous indexed batch (for the first
one: after the start of the file). At the same time the time index gets the largest timestamp so far, including this
batch, if it is larger than that of the previous entry. Entries have the big-endian layout of the files: a relative
offset (int32; the low 32 bits if it does not fit) and a position (int32); a timestamp (int64) and a relative offset
(int32).
"""

import cython

# Finds where the leader epoch changes from batch to batch (rows BATCH_*).


class EpochState:
    """The state of the search, kept between calls.

    ``epoch`` and ``last_offset`` of the preceding batch, -1 if none; the epoch of v0 and v1 is -1 too. ``found``:
    changes written by a call.
    """

    def __init__(self):
        self.epoch = self.last_offset = -1
        self.found = 0


def changes(
    rows: Int64sIn, start: cython.Py_ssize_t, count: cython.Py_ssize_t, state: EpochState, found: Int64sOut
) -> int:
    """Writes the changes in rows ``start`` to ``count`` to ``found`` (CHANGE_*).

    Returns the row before which it stopped because ``found`` is full, else ``count``. Raises ValueError if a buffer is
    too short.
    """
    state.found = 0
    if count <= start:
        return start
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


def index(rows: Int64sIn, count: cython.Py_ssize_t, build: IndexBuild, offsets: BytesOut, times: BytesOut) -> int:
    """Writes the entries for the first ``count`` rows to ``offsets`` and ``times``, which hold ``count`` entries each.

    Returns DONE, or OUTSIDE or NOT_RISING if the batch of ``row`` cannot be indexed; earlier entries are written.
    Raises ValueError if a buffer is too short.
    """
    status: cython.int = DONE
    build.offsets = build.times = 0
    if count <= 0:
        return DONE
    if len(rows) < count * BATCH_WIDTH:
        raise ValueError("a buffer is too short")
    if len(offsets) < OFFSET_ENTRY_BYTES * count or len(times) < TIME_ENTRY_BYTES * count:
        raise ValueError("a buffer is too short")
    p, offset_entries, time_entries = int64s_in(rows), bytes_out(offsets), bytes_out(times)
    with cython.nogil:
        for i in range(count):
            at = i * BATCH_WIDTH
            last = p[at + BATCH_LAST_OFFSET]
            build.row = i
            if not build.takes_any and (last < build.base or last - build.base > INT32_MAX):
                status = OUTSIDE
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
                status = NOT_RISING
                break
            put_big(offset_entries, OFFSET_ENTRY_BYTES * build.offsets, difference(entry, build.base), 4)
            put_big(
                offset_entries, OFFSET_ENTRY_BYTES * build.offsets + OFFSET_ENTRY_POSITION, p[at + BATCH_POSITION], 4
            )
            build.offsets += 1
            build.last_offset = entry
            build.last_position = p[at + BATCH_POSITION]
            if build.has_times and build.largest_timestamp > build.last_timestamp:
                if build.last_time_offset >= 0 and build.largest_timestamp_offset < build.last_time_offset:
                    status = NOT_RISING
                    break
                at = TIME_ENTRY_BYTES * build.times
                put_big(time_entries, at, build.largest_timestamp, 8)
                put_big(time_entries, at + TIME_ENTRY_OFFSET, difference(build.largest_timestamp_offset, build.base), 4)
                build.times += 1
                build.last_timestamp = build.largest_timestamp
                build.last_time_offset = build.largest_timestamp_offset
    return status
