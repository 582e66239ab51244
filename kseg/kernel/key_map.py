"""The map of a compaction: for the hash of each key (`kseg.kernel.key_hash`) the last offset at which it was seen.

``table`` holds SLOTS entries of three int64: the two halves of a hash, and the offset + 1; 0 there: a free slot. Slots
are probed one after the other. As in Kafka's SkimpyOffsetMap an entry takes 24 bytes, and keys are told apart by 16.

``state`` (int64[4], in and out): 0 SLOTS, below 2^32   1 MOST keys that it may hold   2 COUNT of keys that it holds

A map that is spread over machines travels as entries: three int64 each as well, but with the offset itself. `scatter`
deals them out by the half of the hash that does not choose the slot, else a share would fill one stretch of slots.
"""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.kseg.kernel.native import prefetch
else:
    from kseg.kernel.native import prefetch

COMPILED = cython.compiled
ENTRY_WIDTH = 3
SLOTS, MOST, COUNT = 0, 1, 2
AHEAD = cython.declare(cython.Py_ssize_t, 12)
"""How many keys before its own a slot is asked for: a cache miss costs as much as a dozen of hashes."""


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def slot_of(h: cython.longlong, slots: cython.longlong) -> cython.longlong:
    if cython.compiled:
        return cython.cast(
            cython.longlong, ((cython.cast(cython.ulonglong, h) >> 32) * cython.cast(cython.ulonglong, slots)) >> 32
        )
    else:
        return ((h & 0xFFFFFFFFFFFFFFFF) >> 32) * slots >> 32


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def ask_for(
    table: cython.pointer[cython.const[cython.longlong]], slots: cython.longlong, h: cython.longlong
) -> cython.void:
    """Lets the processor fetch the slot of a hash."""
    prefetch(table, 3 * slot_of(h, slots))


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def find_entry(
    table: cython.pointer[cython.const[cython.longlong]],
    slots: cython.longlong,
    h: cython.longlong,
    g: cython.longlong,
) -> cython.longlong:
    """Where the entry of a hash lies, or the free slot where it would."""
    i: cython.longlong = slot_of(h, slots)
    while table[3 * i + 2] != 0 and (table[3 * i] != h or table[3 * i + 1] != g):
        i += 1
        if i == slots:
            i = 0
    return 3 * i


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_hashes(
    hashes: cython.pointer[cython.const[cython.longlong]],
    offsets: cython.pointer[cython.const[cython.longlong]],
    count: cython.Py_ssize_t,
    table: cython.pointer[cython.longlong],
    state: cython.pointer[cython.longlong],
) -> cython.Py_ssize_t:
    k: cython.Py_ssize_t
    at: cython.longlong
    slots: cython.longlong = state[0]
    for k in range(min(AHEAD, count)):
        ask_for(table, slots, hashes[2 * k])
    for k in range(count):
        if k + AHEAD < count:
            ask_for(table, slots, hashes[2 * (k + AHEAD)])
        if state[2] >= state[1]:
            return k
        at = find_entry(table, slots, hashes[2 * k], hashes[2 * k + 1])
        if table[at + 2] == 0:
            state[2] += 1
            table[at] = hashes[2 * k]
            table[at + 1] = hashes[2 * k + 1]
        table[at + 2] = offsets[k] + 1
    return count


def put(
    hashes: cython.const[cython.longlong][::1],
    offsets: cython.const[cython.longlong][::1],
    count: cython.Py_ssize_t,
    table: cython.longlong[::1],
    state: cython.longlong[::1],
) -> int:
    """Puts keys by their hashes (two int64 each) and offsets, until the map holds MOST; how many it took."""
    taken: cython.Py_ssize_t
    if count <= 0:
        return 0
    check(table, state)
    if len(hashes) < 2 * count or len(offsets) < count:
        raise ValueError("a buffer is too short")
    if cython.compiled:
        with cython.nogil:
            taken = put_hashes(
                cython.address(hashes[0]),
                cython.address(offsets[0]),
                count,
                cython.address(table[0]),
                cython.address(state[0]),
            )
        return taken
    else:
        return put_hashes(hashes, offsets, count, table, state)


def find(table: cython.longlong[::1], state: cython.longlong[::1], h: cython.longlong, g: cython.longlong) -> int:
    """The offset of a hash, -1 for one that is not in the map."""
    check(table, state)
    if cython.compiled:
        return table[find_entry(cython.address(table[0]), state[0], h, g) + 2] - 1
    else:
        return table[find_entry(table, state[0], h, g) + 2] - 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def scatter_entries(
    table: cython.pointer[cython.const[cython.longlong]],
    slots: cython.longlong,
    buckets: cython.longlong,
    bounds: cython.pointer[cython.longlong],
    out: cython.pointer[cython.longlong],
) -> cython.void:
    i: cython.longlong
    b: cython.longlong
    at: cython.longlong
    for i in range(slots):
        if table[3 * i + 2] != 0:
            bounds[slot_of(table[3 * i + 1], buckets) + 2] += 1
    for b in range(2, buckets + 2):
        bounds[b] += bounds[b - 1]
    for i in range(slots):
        if table[3 * i + 2] != 0:
            b = slot_of(table[3 * i + 1], buckets) + 1
            at = 3 * bounds[b]
            bounds[b] += 1
            out[at], out[at + 1], out[at + 2] = table[3 * i], table[3 * i + 1], table[3 * i + 2] - 1


def scatter(
    table: cython.longlong[::1], state: cython.longlong[::1], bounds: cython.longlong[::1], out: cython.longlong[::1]
) -> None:
    """Writes the entries to ``out``, one bucket behind the other: entries ``bounds[b]`` to ``bounds[b + 1]`` are those
    of bucket b. ``bounds``: zeros, two more than there are buckets."""
    check(table, state)
    if len(bounds) < 3 or len(bounds) >> 32 or len(out) < 3 * state[2] or max(bounds) or min(bounds):
        raise ValueError("a buffer is too short")
    if state[2] < 1:
        return
    if cython.compiled:
        with cython.nogil:
            scatter_entries(
                cython.address(table[0]),
                state[0],
                bounds.shape[0] - 2,
                cython.address(bounds[0]),
                cython.address(out[0]),
            )
    else:
        scatter_entries(table, state[0], len(bounds) - 2, bounds, out)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def merge_entries(
    entries: cython.pointer[cython.const[cython.longlong]],
    count: cython.Py_ssize_t,
    least: cython.longlong,
    table: cython.pointer[cython.longlong],
    state: cython.pointer[cython.longlong],
) -> cython.bint:
    k: cython.Py_ssize_t
    at: cython.longlong
    for k in range(count):
        if k + AHEAD < count:
            ask_for(table, state[0], entries[3 * (k + AHEAD)])
        if entries[3 * k + 2] < least:
            continue
        at = find_entry(table, state[0], entries[3 * k], entries[3 * k + 1])
        if table[at + 2] == 0:
            if state[2] >= state[1]:
                return False
            state[2] += 1
            table[at] = entries[3 * k]
            table[at + 1] = entries[3 * k + 1]
        if table[at + 2] <= entries[3 * k + 2]:
            table[at + 2] = entries[3 * k + 2] + 1
    return True


def merge(
    entries: cython.const[cython.longlong][::1],
    least: cython.longlong,
    table: cython.longlong[::1],
    state: cython.longlong[::1],
) -> bool:
    """Puts entries whose offset is ``least`` (0 or above) or more, in any order: of each key the largest offset stays.
    False where the map was full."""
    count: cython.Py_ssize_t = len(entries) // 3
    fits: cython.bint
    check(table, state)
    if least < 0:
        raise ValueError("offsets begin at 0")
    if count == 0:
        return True
    if cython.compiled:
        with cython.nogil:
            fits = merge_entries(
                cython.address(entries[0]), count, least, cython.address(table[0]), cython.address(state[0])
            )
        return fits
    else:
        return merge_entries(entries, count, least, table, state)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def move_entries(
    old: cython.pointer[cython.const[cython.longlong]],
    count: cython.Py_ssize_t,
    table: cython.pointer[cython.longlong],
    slots: cython.longlong,
) -> cython.void:
    k: cython.Py_ssize_t
    at: cython.longlong
    for k in range(count):
        if old[3 * k + 2] != 0:
            at = find_entry(table, slots, old[3 * k], old[3 * k + 1])
            table[at] = old[3 * k]
            table[at + 1] = old[3 * k + 1]
            table[at + 2] = old[3 * k + 2]


def move(
    old: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    table: cython.longlong[::1],
    state: cython.longlong[::1],
) -> None:
    """Puts what slots ``first`` to ``stop`` of another table hold into one that has none of it, and room: COUNT says
    how much. Slots keep the order of hashes, so both tables are gone through from one end to the other."""
    check(table, state)
    if not 0 <= first <= stop <= len(old) // 3 or state[2] >= state[0]:
        raise ValueError("no such slots, or no room for them")
    if first == stop:
        return
    if cython.compiled:
        with cython.nogil:
            move_entries(cython.address(old[3 * first]), stop - first, cython.address(table[0]), state[0])
    else:
        move_entries(old[3 * first :], stop - first, table, state[0])


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def look_up_entries(
    entries: cython.pointer[cython.const[cython.longlong]],
    count: cython.Py_ssize_t,
    table: cython.pointer[cython.const[cython.longlong]],
    slots: cython.longlong,
    out: cython.pointer[cython.longlong],
) -> cython.Py_ssize_t:
    k: cython.Py_ssize_t
    at: cython.longlong
    found: cython.Py_ssize_t = 0
    for k in range(count):
        if k + AHEAD < count:
            ask_for(table, slots, entries[3 * (k + AHEAD)])
        at = find_entry(table, slots, entries[3 * k], entries[3 * k + 1])
        if table[at + 2] != 0:
            out[3 * found] = table[at]
            out[3 * found + 1] = table[at + 1]
            out[3 * found + 2] = table[at + 2] - 1
            found += 1
    return found


def look_up(
    entries: cython.const[cython.longlong][::1],
    table: cython.longlong[::1],
    state: cython.longlong[::1],
    out: cython.longlong[::1],
) -> int:
    """Writes to ``out`` what the map has for the keys of entries, without those that are not in it; how many."""
    count: cython.Py_ssize_t = len(entries) // 3
    found: cython.Py_ssize_t
    check(table, state)
    if len(out) < 3 * count:
        raise ValueError("a buffer is too short")
    if count == 0:
        return 0
    if cython.compiled:
        with cython.nogil:
            found = look_up_entries(
                cython.address(entries[0]), count, cython.address(table[0]), state[0], cython.address(out[0])
            )
        return found
    else:
        return look_up_entries(entries, count, table, state[0], out)


@cython.cfunc
def check(table: cython.longlong[::1], state: cython.longlong[::1]) -> cython.void:
    """Raises ValueError where slots lie outside the buffer, or a search would have no end."""
    if len(state) < 4 or state[0] < 1 or state[0] >> 32 or len(table) < 3 * state[0] or state[1] >= state[0]:
        raise ValueError("a table has no room")
