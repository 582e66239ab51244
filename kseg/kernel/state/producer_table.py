"""The table of producers of a replay: lookup, the list of open transactions, comparison with a snapshot file."""

import cython
from cython.cimports.kseg.kernel.layout.pointers import bytes_in, int64s_out
from cython.cimports.kseg.kernel.layout.rows import be16, be32, be64
from cython.cimports.kseg.kernel.scan.events import EventLog

# Where offsets rise the place of a transaction is found at once; where they fall in file after file it must not become
# a search.
_MAX_STEPS = cython.declare(cython.Py_ssize_t, 1000)


def _int64s(count):
    return memoryview(bytearray(8 * count)).cast("q")


class ProducerTable(EventLog):
    """The table of producers and the state of a replay, kept between calls.

    Entries (ENTRY_WIDTH int64 each) are in the order in which producers were first seen. `use` sets the buffers for
    them and for the hash table ``slots``: 2^n int64, index + 1 or 0, open addressing by a hash with the random odd
    number ``seed``, so that no file can choose its producer ids to collide. `write_to` sets the buffers for events and
    ABORT markers. Offsets, indexes and timestamps (ms) are -1 if unset.

    ``producers``: number of entries. ``open``: number of open transactions, with the ``oldest`` and ``youngest`` entry.
    ``stop``: the replay stops before the first batch that reaches this offset. ``largest_offset``: of all batches.
    ``after_hole``, ``after_damage``: first offset after the last gap, and after the last ignored batch;
    ``is_after_damage``: a batch was ignored since. ``is_full``: some producers did not fit. ``idle_ms``: time until a
    broker removes a producer. ``newest_data``, ``newest_marker``: largest timestamps up to ``now_ms``. ``batches``:
    with a producer; ``committed``, ``aborted``: transactions with data; ``first_ended``: smallest first offset of the
    ended transactions. ``aborts``: rows of a call. ``as_broker``: see `kseg.kernel.state.producers`.
    """

    def __init__(self, now_ms, idle_ms, limit, as_broker):
        EventLog.__init__(self, KINDS, limit)
        self.now_ms, self.idle_ms, self.as_broker = now_ms, idle_ms, as_broker
        self.seed = 1
        self.producers = self.open = 0
        self.oldest = self.youngest = -1
        self.stop = self.largest_offset = self.after_hole = self.after_damage = -1
        self.is_after_damage = self.is_full = False
        self.newest_data = self.newest_marker = self.first_ended = -1
        self.batches = self.committed = self.aborted = 0
        self.aborts = self.differing = self.differing_open = 0
        self.use(_int64s(0), _int64s(1))
        self._abort_rows, self.abort_capacity = None, 0

    def use(self, entries: cython.longlong[::1], slots: cython.longlong[::1]) -> None:
        """Keeps entries here from now on: ``entries`` holds all so far, ``slots`` are zero and at least one more.

        Raises ValueError if a buffer has another size.
        """
        i: cython.longlong
        at: cython.longlong
        mask: cython.longlong = len(slots) - 1
        capacity: cython.longlong = len(entries) // ENTRY_WIDTH
        if len(slots) <= capacity or len(slots) & mask or capacity < self.producers:
            raise ValueError("the table of producers has no free slot")
        self._entries, self._slots = entries, slots
        self.entries, self.slots = int64s_out(entries), int64s_out(slots)
        self.capacity, self.mask = capacity, mask
        for i in range(self.producers):
            at = home(self, self.entries[i * ENTRY_WIDTH + ID])
            while self.slots[at]:
                at = (at + 1) & mask
            self.slots[at] = i + 1

    def load(self, row) -> None:
        """Adds an entry as another replay left it. Raises ValueError if the producer is known or the table is full."""
        k: cython.Py_ssize_t
        slot: cython.longlong = find(self, row[ID])
        if self.producers >= self.capacity or self.slots[slot]:
            raise ValueError("the producer is known, or the table is full")
        for k in range(ENTRY_WIDTH):
            self.entries[self.producers * ENTRY_WIDTH + k] = row[k]
        self.producers += 1
        self.slots[slot] = self.producers

    def row(self, index: cython.longlong) -> list:
        """Returns the entry of the producer that was the index-th to be seen. Raises IndexError."""
        if not 0 <= index < self.producers:
            raise IndexError(index)
        return [self.entries[index * ENTRY_WIDTH + k] for k in range(ENTRY_WIDTH)]

    def begin_transaction(self, index: cython.longlong) -> None:
        """Puts an entry, loaded with a TXN_FIRST, among the open transactions. Raises IndexError."""
        if not 0 <= index < self.producers:
            raise IndexError(index)
        open_transaction(self, index, self.entries[index * ENTRY_WIDTH + TXN_FIRST])

    def write_to(self, events, aborts: cython.longlong[::1]) -> None:
        """Sets the buffers for the events (EVENT_WIDTH) and the markers (ABORT_WIDTH) of a call."""
        self.use_rows(events)
        self._abort_rows = aborts
        self.abort_rows, self.abort_capacity = int64s_out(aborts), len(aborts) // ABORT_WIDTH


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def home(table: ProducerTable, producer_id: cython.longlong) -> cython.longlong:
    """Returns the slot where the search for an id begins: upper bits of a product that depend on all bits of the id."""
    if cython.compiled:
        return (
            cython.cast(
                cython.longlong,
                (cython.cast(cython.ulonglong, producer_id) * cython.cast(cython.ulonglong, table.seed)) >> 33,
            )
            & table.mask
        )
    else:
        return ((producer_id * table.seed & 0xFFFFFFFFFFFFFFFF) >> 33) & table.mask


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def find(table: ProducerTable, producer_id: cython.longlong) -> cython.longlong:
    """Returns the slot that holds the producer, or the free one where it belongs. At least one slot is free."""
    at: cython.longlong = home(table, producer_id)
    while table.slots[at] and table.entries[(table.slots[at] - 1) * ENTRY_WIDTH + ID] != producer_id:
        at = (at + 1) & table.mask
    return at


def open_transaction(table, index, first):
    """Puts the producer among those with an open transaction, by first offset."""
    entries: cython.pointer[cython.longlong] = table.entries
    behind: cython.longlong = -1
    before: cython.longlong = table.youngest
    steps: cython.Py_ssize_t = 0
    while before >= 0 and entries[before * ENTRY_WIDTH + TXN_FIRST] > first and steps < _MAX_STEPS:
        behind = before
        before = entries[before * ENTRY_WIDTH + TXN_BEFORE]
        steps += 1
    entries[index * ENTRY_WIDTH + TXN_FIRST] = first
    entries[index * ENTRY_WIDTH + TXN_BEFORE] = before
    entries[index * ENTRY_WIDTH + TXN_BEHIND] = behind
    if before >= 0:
        entries[before * ENTRY_WIDTH + TXN_BEHIND] = index
    else:
        table.oldest = index
    if behind >= 0:
        entries[behind * ENTRY_WIDTH + TXN_BEFORE] = index
    else:
        table.youngest = index
    table.open += 1


def close_transaction(table, index):
    entries: cython.pointer[cython.longlong] = table.entries
    e: cython.longlong = index * ENTRY_WIDTH
    before: cython.longlong = entries[e + TXN_BEFORE]
    behind: cython.longlong = entries[e + TXN_BEHIND]
    if before >= 0:
        entries[before * ENTRY_WIDTH + TXN_BEHIND] = behind
    else:
        table.oldest = behind
    if behind >= 0:
        entries[behind * ENTRY_WIDTH + TXN_BEFORE] = before
    else:
        table.youngest = before
    entries[e + TXN_FIRST] = entries[e + TXN_BEFORE] = entries[e + TXN_BEHIND] = -1
    table.open -= 1


def index_of(table, producer_id):
    """Returns the index of a producer's entry, creating it if it is missing; -1 if the table is full."""
    k: cython.Py_ssize_t
    entry: cython.longlong = table.producers * ENTRY_WIDTH
    slot: cython.longlong = find(table, producer_id)
    if not table.slots[slot]:
        if table.producers >= table.capacity:
            return -1
        for k in range(ENTRY_WIDTH):
            table.entries[entry + k] = -1
        table.entries[entry + ID] = producer_id
        table.entries[entry + OFFSET_DELTA] = 0
        table.producers += 1
        table.slots[slot] = table.producers
    return table.slots[slot] - 1


def is_same(p, at, table, e):
    """Whether the entry of a snapshot at p[at] is the one at ``e``."""
    entries: cython.pointer[cython.longlong] = table.entries
    return (
        be16(p, at + SNAPSHOT_EPOCH) == entries[e + EPOCH]
        and be32(p, at + SNAPSHOT_LAST_SEQUENCE) == entries[e + LAST_SEQUENCE]
        and be64(p, at + SNAPSHOT_LAST_OFFSET) == entries[e + LAST_OFFSET]
        and be32(p, at + SNAPSHOT_OFFSET_DELTA) == entries[e + OFFSET_DELTA]
        and be64(p, at + SNAPSHOT_TIMESTAMP) == entries[e + TIMESTAMP]
        and be32(p, at + SNAPSHOT_COORDINATOR_EPOCH) == entries[e + COORDINATOR_EPOCH]
        and be64(p, at + SNAPSHOT_TXN_FIRST) == entries[e + TXN_FIRST]
    )


def compare(
    table: ProducerTable,
    snapshot: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    found: cython.longlong[::1],
) -> int:
    """Compares entries ``start`` to ``count`` of a .snapshot file with the table.

    Writes the differing entries to ``found``: DIFFERING_NUMBER (in the file) and DIFFERING_INDEX (in the table, -1 for
    an unknown producer). Returns the entry before which it stopped because ``found`` was full. ``differing``: number of
    rows written; ``differing_open``: number of compared entries with an open transaction in the table.
    Raises ValueError if ``snapshot`` is too short.
    """
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t
    to: cython.Py_ssize_t
    index: cython.longlong
    e: cython.longlong
    p: cython.pointer[cython.const[cython.uchar]] = bytes_in(snapshot)
    table.differing = table.differing_open = 0
    if len(snapshot) < SNAPSHOT_HEADER_BYTES + SNAPSHOT_ENTRY_BYTES * count:
        raise ValueError("a buffer is too short")
    for i in range(start, count):
        to = table.differing * DIFFERING_WIDTH
        if to + DIFFERING_WIDTH > len(found):
            return i
        at = SNAPSHOT_HEADER_BYTES + SNAPSHOT_ENTRY_BYTES * i
        index = table.slots[find(table, be64(p, at))] - 1
        if index >= 0:
            e = index * ENTRY_WIDTH
            if table.entries[e + TXN_FIRST] >= 0:
                table.differing_open += 1
            if is_same(p, at, table, e):
                continue
        found[to + DIFFERING_NUMBER] = i
        found[to + DIFFERING_INDEX] = index
        table.differing += 1
    return count
