"""The table of producers that `kseg.kernel.producers` keeps: finding, the list of open transactions, comparing.

``entries``, ``slots`` and ``state`` are those told there.
"""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.kseg.kernel.native import be16, be32, be64
else:
    from kseg.kernel.native import be16, be32, be64

COMPILED = cython.compiled

_SEARCH = cython.declare(cython.Py_ssize_t, 1000)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def home(producer_id: cython.longlong, seed: cython.longlong, mask: cython.longlong) -> cython.longlong:
    """Where the search for a producer begins: the upper bits of the product, which depend on all bits of the id."""
    if cython.compiled:
        return (
            cython.cast(
                cython.longlong,
                (cython.cast(cython.ulonglong, producer_id) * cython.cast(cython.ulonglong, seed)) >> 33,
            )
            & mask
        )
    else:
        return ((producer_id * seed & 0xFFFFFFFFFFFFFFFF) >> 33) & mask


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def find(
    producer_id: cython.longlong,
    entries: cython.pointer[cython.const[cython.longlong]],
    slots: cython.pointer[cython.const[cython.longlong]],
    mask: cython.longlong,
    seed: cython.longlong,
) -> cython.longlong:
    """Slot that holds the producer, or the free one where it belongs. At least one slot is free."""
    at: cython.longlong = home(producer_id, seed, mask)
    while slots[at] and entries[(slots[at] - 1) * 17] != producer_id:
        at = (at + 1) & mask
    return at


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def open_transaction(
    entries: cython.pointer[cython.longlong],
    index: cython.longlong,
    first: cython.longlong,
    state: cython.pointer[cython.longlong],
) -> cython.void:
    """Puts the producer among those with an open transaction, by first offset."""
    behind: cython.longlong = -1
    before: cython.longlong = state[3]
    steps: cython.Py_ssize_t = 0
    # Where offsets rise this is no step; where they fall in file after file it must not become a search.
    while before >= 0 and entries[before * 17 + 7] > first and steps < _SEARCH:
        behind = before
        before = entries[before * 17 + 8]
        steps += 1
    entries[index * 17 + 7] = first
    entries[index * 17 + 8] = before
    entries[index * 17 + 9] = behind
    if before >= 0:
        entries[before * 17 + 9] = index
    else:
        state[2] = index
    if behind >= 0:
        entries[behind * 17 + 8] = index
    else:
        state[3] = index
    state[4] += 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def close_transaction(
    entries: cython.pointer[cython.longlong], index: cython.longlong, state: cython.pointer[cython.longlong]
) -> cython.void:
    before: cython.longlong = entries[index * 17 + 8]
    behind: cython.longlong = entries[index * 17 + 9]
    if before >= 0:
        entries[before * 17 + 9] = behind
    else:
        state[2] = behind
    if behind >= 0:
        entries[behind * 17 + 8] = before
    else:
        state[3] = before
    entries[index * 17 + 7] = entries[index * 17 + 8] = entries[index * 17 + 9] = -1
    state[4] -= 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def index_of(
    producer_id: cython.longlong,
    entries: cython.pointer[cython.longlong],
    room: cython.longlong,
    slots: cython.pointer[cython.longlong],
    mask: cython.longlong,
    state: cython.pointer[cython.longlong],
) -> cython.longlong:
    """Index of the entry of a producer, a new one where it was not seen before; -1 where there is no room for one."""
    k: cython.Py_ssize_t
    slot: cython.longlong = find(producer_id, entries, slots, mask, state[1])
    if not slots[slot]:
        if state[0] >= room:
            return -1
        for k in range(17):
            entries[state[0] * 17 + k] = -1
        entries[state[0] * 17] = producer_id
        entries[state[0] * 17 + 4] = 0
        state[0] += 1
        slots[slot] = state[0]
    return slots[slot] - 1


def index_entries(
    entries: cython.const[cython.longlong][::1], slots: cython.longlong[::1], state: cython.const[cython.longlong][::1]
) -> None:
    """Fills ``slots``, all zero, with the PRODUCERS of ``entries``."""
    i: cython.longlong
    at: cython.longlong
    mask: cython.longlong = len(slots) - 1
    if len(slots) <= state[0] or len(slots) & mask or len(entries) < state[0] * 17:
        raise ValueError("the table of producers has no free slot")
    for i in range(state[0]):
        at = home(entries[i * 17], state[1], mask)
        while slots[at]:
            at = (at + 1) & mask
        slots[at] = i + 1


def begin_transaction(entries: cython.longlong[::1], index: cython.longlong, state: cython.longlong[::1]) -> None:
    """Puts entry ``index``, loaded with a TXN_FIRST, among the open transactions."""
    if not 0 <= index < state[0] or len(entries) < state[0] * 17:
        raise IndexError(index)
    if cython.compiled:
        open_transaction(cython.address(entries[0]), index, entries[index * 17 + 7], cython.address(state[0]))
    else:
        open_transaction(entries, index, entries[index * 17 + 7], state)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def is_same(
    p: cython.pointer[cython.const[cython.uchar]],
    at: cython.Py_ssize_t,
    entries: cython.pointer[cython.const[cython.longlong]],
    e: cython.longlong,
) -> cython.bint:
    return (
        be16(p, at + 8) == entries[e + 1]
        and be32(p, at + 10) == entries[e + 2]
        and be64(p, at + 14) == entries[e + 3]
        and be32(p, at + 22) == entries[e + 4]
        and be64(p, at + 26) == entries[e + 5]
        and be32(p, at + 34) == entries[e + 6]
        and be64(p, at + 38) == entries[e + 7]
    )


def compare(
    snapshot: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    entries: cython.const[cython.longlong][::1],
    slots: cython.const[cython.longlong][::1],
    state: cython.longlong[::1],
    found: cython.longlong[::1],
) -> int:
    """Compares entries ``start`` to ``count`` of a .snapshot file (46 bytes each from byte 10 on) with the replay.

    Writes (number in the file, index in ``entries`` or -1) of those that differ to ``found``; the entry before which
    it stopped for want of room. EVENTS is how many it wrote, ABORTS how many of the producers have an open transaction
    in the replay.
    """
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t
    e: cython.longlong
    mask: cython.longlong = len(slots) - 1
    state[6] = state[7] = 0
    if len(snapshot) < 10 + 46 * count or len(slots) & mask or len(slots) * 17 <= len(entries):
        raise ValueError("a buffer is too short")
    for i in range(start, count):
        if state[6] * 2 + 2 > len(found):
            return i
        at = 10 + 46 * i
        if cython.compiled:
            e = slots[
                find(
                    be64(cython.address(snapshot[0]), at),
                    cython.address(entries[0]),
                    cython.address(slots[0]),
                    mask,
                    state[1],
                )
            ]
            e = (e - 1) * 17
            if e >= 0 and entries[e + 7] >= 0:
                state[7] += 1
            if e >= 0 and is_same(cython.address(snapshot[0]), at, cython.address(entries[0]), e):
                continue
        else:
            e = (slots[find(be64(snapshot, at), entries, slots, mask, state[1])] - 1) * 17
            if e >= 0 and entries[e + 7] >= 0:
                state[7] += 1
            if e >= 0 and is_same(snapshot, at, entries, e):
                continue
        found[state[6] * 2] = i
        found[state[6] * 2 + 1] = e // 17 if e >= 0 else -1
        state[6] += 1
    return count
