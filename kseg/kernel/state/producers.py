"""Replays the producer state of a broker from rows of batch headers (BATCH_*): epochs, sequences, transactions.

The rules are those of ProducerStateManager and ProducerAppendInfo for replicated batches: only a non-transactional
batch inside an open transaction is refused.

With ``as_broker``, checksums and the order of offsets are ignored, as in a broker's own replay: only OUTSIDE and SHARED
events are reported, ``stop`` is ignored, and the replay stops at markers that are not plain (`is_plain_marker`), which
the caller must handle.
"""

import cython
from cython import Py_ssize_t, bint, longlong, ulonglong, void
from cython.cimports.kseg.kernel.records.records import sequence_after
from cython.cimports.kseg.kernel.scan.headers import EventLog, report

from kseg.kernel.scan.headers import int64s

if not cython.compiled:  # kseg._build declares these constants for C
    # Columns of an entry. LAST_SEQUENCE and LAST_OFFSET, of data, are -1 where there is none; OFFSET_DELTA goes with
    # them. TIMESTAMP in ms.
    ID, EPOCH, LAST_SEQUENCE, LAST_OFFSET, OFFSET_DELTA, TIMESTAMP, COORDINATOR_EPOCH = range(7)
    # First offset of the open transaction, -1 none.
    TXN_FIRST = 7
    # Indexes of the entries with the next older and younger open transaction, -1 none.
    TXN_BEFORE = 8
    TXN_BEHIND = 9
    # Largest timestamp of its first batch, in ms.
    TXN_TIMESTAMP = 10
    # Its batches with data so far, and those of them that hold records.
    TXN_BATCHES = 11
    TXN_FILLED = 12
    # Of its first batch.
    TXN_POSITION = 13
    # Last offset of any batch seen, -1 loaded.
    SEEN = 14
    # Timestamp of the first marker of any producer behind its begin, in ms, -1 none.
    TXN_MARKER = 15
    # Of the last batch with data, in ms.
    DATA_TIMESTAMP = 16
    ENTRY_WIDTH = 17

    # Events. A: the sequence expected, B: the one found, C: 1 where offsets are missing since the producer's batch
    # before.
    SEQUENCE = 1
    # A: the producer's epoch before, B: that of the batch, C: 1 for a marker.
    EPOCH_FALLS = 2
    # A: the coordinator's epoch before, B: that of the marker.
    COORDINATOR_FALLS = 3
    # A batch that is not transactional. A: first offset of the producer's open transaction.
    OUTSIDE = 4
    # Data of a later epoch in an open transaction. A: its first offset, B: epoch of the transaction, C: of the batch.
    LOST_MARKER = 5
    # A: type of the marker, -1 where it cannot be read.
    BAD_MARKER = 6
    # A transaction ends while another producer's, that began at the same offset, is open. A: that offset.
    SHARED = 7
    KINDS = 8

    # Columns of a row for an ABORT marker. First offset of its transaction, -1 if none was open.
    ABORT_PRODUCER = 0
    ABORT_FIRST = 1
    # Offset of the marker, last stable offset as LogSegment.recover computes it, position of the marker.
    ABORT_OFFSET, ABORT_STABLE, ABORT_POSITION = 2, 3, 4
    # TXN_FILLED of the transaction, and whether all is known from its first offset on.
    ABORT_FILLED, ABORT_IS_CERTAIN, ABORT_WIDTH = 5, 6, 7

    # A batch of one transaction marker, as brokers write it: its timestamp is the base timestamp.
    PLAIN_MARKER_BYTES = 78

    # Types of control records: transaction markers, and the types of KRaft's log.
    ABORT_MARKER, COMMIT_MARKER, FIRST_KRAFT_TYPE = 0, 1, 2
    LAST_KRAFT_TYPE = 6

    # Sizes of a .snapshot file, and positions of fields in its entries; the first field is the producer id.
    SNAPSHOT_HEADER_BYTES = 10
    SNAPSHOT_EPOCH = 8
    SNAPSHOT_LAST_SEQUENCE = 10
    SNAPSHOT_LAST_OFFSET = 14
    SNAPSHOT_OFFSET_DELTA = 22
    SNAPSHOT_TIMESTAMP = 26
    SNAPSHOT_COORDINATOR_EPOCH = 34
    SNAPSHOT_TXN_FIRST = 38
    SNAPSHOT_ENTRY_BYTES = 46
    # Columns of a row for an entry of such a file that differs.
    DIFFERING_NUMBER, DIFFERING_INDEX, DIFFERING_WIDTH = 0, 1, 2

# The table of producers of a replay: lookup, the list of open transactions, comparison with a snapshot file.

# Where offsets rise the place of a transaction is found at once; where they fall in file after file it must not become
# a search.
_MAX_STEPS = cython.declare(Py_ssize_t, 1000)


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
        self.use(int64s(0), int64s(1))
        self._abort_rows, self.abort_capacity = None, 0

    def use(self, entries: Int64sOut, slots: Int64sOut) -> None:
        """Keeps entries here from now on: ``entries`` holds all so far, ``slots`` are zero and at least one more.

        Raises ValueError if a buffer has another size.
        """
        mask: longlong = len(slots) - 1
        capacity: longlong = len(entries) // ENTRY_WIDTH
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
        slot: longlong = find(self, row[ID])
        if self.producers >= self.capacity or self.slots[slot]:
            raise ValueError("the producer is known, or the table is full")
        for k in range(ENTRY_WIDTH):
            self.entries[self.producers * ENTRY_WIDTH + k] = row[k]
        self.producers += 1
        self.slots[slot] = self.producers

    def row(self, index: longlong) -> list:
        """Returns the entry of the producer that was the index-th to be seen. Raises IndexError."""
        if not 0 <= index < self.producers:
            raise IndexError(index)
        return [self.entries[index * ENTRY_WIDTH + k] for k in range(ENTRY_WIDTH)]

    def begin_transaction(self, index: longlong) -> None:
        """Puts an entry, loaded with a TXN_FIRST, among the open transactions. Raises IndexError."""
        if not 0 <= index < self.producers:
            raise IndexError(index)
        open_transaction(self, index, self.entries[index * ENTRY_WIDTH + TXN_FIRST])

    def write_to(self, events, aborts: Int64sOut) -> None:
        """Sets the buffers for the events (EVENT_WIDTH) and the markers (ABORT_WIDTH) of a call."""
        self._buffer = self._rows = events
        self._abort_rows = aborts
        self.abort_rows, self.abort_capacity = int64s_out(aborts), len(aborts) // ABORT_WIDTH


def home(table: ProducerTable, producer_id: longlong) -> longlong:
    """Returns the slot where the search for an id begins: upper bits of a product that depend on all bits of the id."""
    product: ulonglong = cython.cast(
        ulonglong, cython.cast(ulonglong, producer_id) * cython.cast(ulonglong, table.seed)
    )
    return cython.cast(longlong, product >> 33) & table.mask


def find(table: ProducerTable, producer_id: longlong) -> longlong:
    """Returns the slot that holds the producer, or the free one where it belongs. At least one slot is free."""
    at: longlong = home(table, producer_id)
    while table.slots[at] and table.entries[(table.slots[at] - 1) * ENTRY_WIDTH + ID] != producer_id:
        at = (at + 1) & table.mask
    return at


def open_transaction(table: ProducerTable, index: longlong, first: longlong) -> void:
    """Puts the producer among those with an open transaction, by first offset."""
    entries: OutColumns = table.entries
    behind: longlong = -1
    before: longlong = table.youngest
    steps: Py_ssize_t = 0
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


def close_transaction(table: ProducerTable, index: longlong) -> void:
    entries: OutColumns = table.entries
    e: longlong = index * ENTRY_WIDTH
    before: longlong = entries[e + TXN_BEFORE]
    behind: longlong = entries[e + TXN_BEHIND]
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


def index_of(table: ProducerTable, producer_id: longlong) -> longlong:
    """Returns the index of a producer's entry, creating it if it is missing; -1 if the table is full."""
    entry: longlong = table.producers * ENTRY_WIDTH
    slot: longlong = find(table, producer_id)
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


def is_same(p: Bytes, at: Py_ssize_t, table: ProducerTable, e: longlong) -> bint:
    """Whether the entry of a snapshot at p[at] is the one at ``e``."""
    entries: OutColumns = table.entries
    return (
        be16(p, at + SNAPSHOT_EPOCH) == entries[e + EPOCH]
        and be32(p, at + SNAPSHOT_LAST_SEQUENCE) == entries[e + LAST_SEQUENCE]
        and be64(p, at + SNAPSHOT_LAST_OFFSET) == entries[e + LAST_OFFSET]
        and be32(p, at + SNAPSHOT_OFFSET_DELTA) == entries[e + OFFSET_DELTA]
        and be64(p, at + SNAPSHOT_TIMESTAMP) == entries[e + TIMESTAMP]
        and be32(p, at + SNAPSHOT_COORDINATOR_EPOCH) == entries[e + COORDINATOR_EPOCH]
        and be64(p, at + SNAPSHOT_TXN_FIRST) == entries[e + TXN_FIRST]
    )


def compare(table: ProducerTable, snapshot: BytesIn, start: Py_ssize_t, count: Py_ssize_t, found: Int64sOut) -> int:
    """Compares entries ``start`` to ``count`` of a .snapshot file with the table.

    Writes the differing entries to ``found``: DIFFERING_NUMBER (in the file) and DIFFERING_INDEX (in the table, -1 for
    an unknown producer). Returns the entry before which it stopped because ``found`` was full. ``differing``: number of
    rows written; ``differing_open``: number of compared entries with an open transaction in the table.
    Raises ValueError if ``snapshot`` is too short.
    """
    p = bytes_in(snapshot, SNAPSHOT_HEADER_BYTES + SNAPSHOT_ENTRY_BYTES * count)
    table.differing = table.differing_open = 0
    for i in range(max(start, 0), count):
        to = table.differing * DIFFERING_WIDTH
        if to + DIFFERING_WIDTH > len(found):
            return i
        at = SNAPSHOT_HEADER_BYTES + SNAPSHOT_ENTRY_BYTES * i
        index = table.slots[find(table, be64(p, at))] - 1
        if index >= 0:
            e = index * ENTRY_WIDTH
            table.differing_open += table.entries[e + TXN_FIRST] >= 0
            if is_same(p, at, table, e):
                continue
        found[to + DIFFERING_NUMBER] = i
        found[to + DIFFERING_INDEX] = index
        table.differing += 1
    return count


# Applies a batch to the entry of its producer: steps of `kseg.kernel.state.producers`.


def is_remembered(table: ProducerTable, e: longlong, timestamp: longlong) -> bint:
    """Whether all is known of the producer since its batch before, and a broker has not forgotten it for being idle."""
    entries: OutColumns = table.entries
    if entries[e + EPOCH] < 0 or entries[e + SEEN] < table.after_damage:
        return False
    return timestamp < 0 or entries[e + TIMESTAMP] < 0 or timestamp - entries[e + TIMESTAMP] < table.idle_ms


def replay_data(rows: Columns, i: Py_ssize_t, table: ProducerTable, index: longlong) -> void:
    entries: OutColumns = table.entries
    at: Py_ssize_t = i * BATCH_WIDTH
    e: longlong = index * ENTRY_WIDTH
    first: longlong = rows[at + BATCH_FIRST_OFFSET]
    epoch: longlong = rows[at + BATCH_PRODUCER_EPOCH]
    sequence: longlong = rows[at + BATCH_BASE_SEQUENCE]
    timestamp: longlong = rows[at + BATCH_MAX_TIMESTAMP]
    delta: longlong = difference(rows[at + BATCH_LAST_OFFSET], first)
    is_transactional: bint = (rows[at + BATCH_ATTRIBUTES] & TRANSACTIONAL) != 0
    expected: longlong = 0
    is_known: bint = not table.as_broker and is_remembered(table, e, timestamp)
    if is_known and epoch < entries[e + EPOCH]:
        report(table, EPOCH_FALLS, i, entries[e + EPOCH], epoch, 0)
    elif is_known and sequence > 0 and epoch != entries[e + EPOCH]:
        report(table, SEQUENCE, i, 0, sequence, entries[e + SEEN] < table.after_hole)
    elif is_known and sequence > 0 and entries[e + LAST_SEQUENCE] >= 0:
        expected = sequence_after(entries[e + LAST_SEQUENCE], 1)
        if sequence != expected and entries[e + LAST_OFFSET] >= table.after_damage:
            report(table, SEQUENCE, i, expected, sequence, entries[e + LAST_OFFSET] < table.after_hole)
    if entries[e + TXN_FIRST] >= table.after_damage and entries[e + TXN_FIRST] >= 0:
        if epoch > entries[e + EPOCH] and not table.as_broker:
            report(table, LOST_MARKER, i, entries[e + TXN_FIRST], entries[e + EPOCH], epoch)
        if not is_transactional:
            report(table, OUTSIDE, i, entries[e + TXN_FIRST], 0, 0)
    entries[e + EPOCH] = epoch
    entries[e + LAST_SEQUENCE] = sequence_after(sequence, delta)
    entries[e + LAST_OFFSET] = rows[at + BATCH_LAST_OFFSET]
    entries[e + OFFSET_DELTA] = delta
    entries[e + TIMESTAMP] = entries[e + DATA_TIMESTAMP] = timestamp
    if is_transactional:
        if entries[e + TXN_FIRST] < 0:
            open_transaction(table, index, first)
            entries[e + TXN_TIMESTAMP] = timestamp
            entries[e + TXN_BATCHES] = entries[e + TXN_FILLED] = 0
            entries[e + TXN_POSITION] = rows[at + BATCH_POSITION]
            entries[e + TXN_MARKER] = -1
        entries[e + TXN_BATCHES] += 1
        entries[e + TXN_FILLED] += rows[at + BATCH_COUNT] > 0


def replay_marker(rows: Columns, i: Py_ssize_t, table: ProducerTable, index: longlong) -> void:
    entries: OutColumns = table.entries
    at: Py_ssize_t = i * BATCH_WIDTH
    e: longlong = index * ENTRY_WIDTH
    offset: longlong = rows[at + BATCH_FIRST_OFFSET]
    epoch: longlong = rows[at + BATCH_PRODUCER_EPOCH]
    timestamp: longlong = rows[at + BATCH_MAX_TIMESTAMP]
    other: longlong = table.oldest
    young: longlong = table.youngest
    is_known: bint = not table.as_broker and is_remembered(table, e, timestamp)
    if not rows[at + BATCH_ATTRIBUTES] & LOG_APPEND_TIME:
        timestamp = rows[at + BATCH_BASE_TIMESTAMP]
    if is_known and epoch < entries[e + EPOCH]:
        report(table, EPOCH_FALLS, i, entries[e + EPOCH], epoch, 1)
    if is_known and rows[at + BATCH_COORDINATOR_EPOCH] < entries[e + COORDINATOR_EPOCH]:
        report(table, COORDINATOR_FALLS, i, entries[e + COORDINATOR_EPOCH], rows[at + BATCH_COORDINATOR_EPOCH], 0)
    if table.newest_marker < timestamp <= table.now_ms:
        table.newest_marker = timestamp
    while young >= 0 and entries[young * ENTRY_WIDTH + TXN_MARKER] < 0:
        entries[young * ENTRY_WIDTH + TXN_MARKER] = timestamp
        young = entries[young * ENTRY_WIDTH + TXN_BEFORE]
    if rows[at + BATCH_MARKER] == ABORT_MARKER:
        if other == index:
            other = entries[e + TXN_BEHIND]
        row = table.aborts * ABORT_WIDTH
        first = entries[e + TXN_FIRST]
        table.abort_rows[row + ABORT_PRODUCER] = entries[e + ID]
        table.abort_rows[row + ABORT_FIRST] = first
        table.abort_rows[row + ABORT_OFFSET] = offset
        table.abort_rows[row + ABORT_STABLE] = entries[other * ENTRY_WIDTH + TXN_FIRST] if other >= 0 else offset + 1
        table.abort_rows[row + ABORT_POSITION] = rows[at + BATCH_POSITION]
        table.abort_rows[row + ABORT_FILLED] = entries[e + TXN_FILLED] if first >= 0 else 0
        table.abort_rows[row + ABORT_IS_CERTAIN] = first >= table.after_hole and first >= table.after_damage
        table.aborts += 1
    if entries[e + TXN_FIRST] >= 0:
        table.aborted += rows[at + BATCH_MARKER] == ABORT_MARKER
        table.committed += rows[at + BATCH_MARKER] != ABORT_MARKER
        if table.first_ended < 0 or entries[e + TXN_FIRST] < table.first_ended:
            table.first_ended = entries[e + TXN_FIRST]
        before, behind = entries[e + TXN_BEFORE], entries[e + TXN_BEHIND]
        # Of the other open transactions only neighbours can have the same first offset.
        if table.as_broker and (
            (before >= 0 and entries[before * ENTRY_WIDTH + TXN_FIRST] == entries[e + TXN_FIRST])
            or (behind >= 0 and entries[behind * ENTRY_WIDTH + TXN_FIRST] == entries[e + TXN_FIRST])
        ):
            report(table, SHARED, i, entries[e + TXN_FIRST], 0, 0)
        close_transaction(table, index)
    if epoch != entries[e + EPOCH]:
        entries[e + EPOCH] = epoch
        entries[e + LAST_SEQUENCE] = entries[e + LAST_OFFSET] = entries[e + DATA_TIMESTAMP] = -1
        entries[e + OFFSET_DELTA] = 0
    entries[e + TIMESTAMP] = timestamp
    entries[e + COORDINATOR_EPOCH] = rows[at + BATCH_COORDINATOR_EPOCH]


_MAX_OFFSET = cython.declare(longlong, 1 << 62)


def follow_offsets(table: ProducerTable, first: longlong, last: longlong) -> void:
    """Notes gaps in the offsets: the state of producers is uncertain after them."""
    if table.is_after_damage:
        table.is_after_damage = False
        table.after_damage = first if first > table.largest_offset else table.largest_offset + 1
    elif table.largest_offset >= 0 and first != table.largest_offset + 1:
        if first > table.largest_offset:
            table.after_hole = first
        else:
            table.after_damage = table.largest_offset + 1
    if last > table.largest_offset:
        table.largest_offset = last


def is_plain_marker(rows: Columns, at: Py_ssize_t) -> bint:
    """Whether the control batch is intact, and has the form in which brokers write the end of a transaction."""
    return (
        rows[at + BATCH_STATE] & CRC_RIGHT
        and rows[at + BATCH_SIZE] == PLAIN_MARKER_BYTES
        and rows[at + BATCH_COUNT] == 1
        and ABORT_MARKER <= rows[at + BATCH_MARKER] <= COMMIT_MARKER
        and rows[at + BATCH_COORDINATOR_EPOCH] >= 0
    )


def replay_as_broker(rows: Columns, i: Py_ssize_t, table: ProducerTable) -> bint:
    """Replays row i without checks. False if the replay must stop before it."""
    at: Py_ssize_t = i * BATCH_WIDTH
    is_control: bint = (rows[at + BATCH_ATTRIBUTES] & CONTROL) != 0
    if rows[at + BATCH_MAGIC] < MAGIC_V2 or rows[at + BATCH_PRODUCER_ID] < 0:
        return True
    if table.aborts >= table.abort_capacity:
        return False
    if is_control and rows[at + BATCH_COUNT] != 0 and not is_plain_marker(rows, at):
        return False
    index = index_of(table, rows[at + BATCH_PRODUCER_ID])
    if index < 0:
        return table.is_full
    if not is_control:
        replay_data(rows, i, table, index)
    elif rows[at + BATCH_COUNT] != 0:
        replay_marker(rows, i, table, index)
    table.entries[index * ENTRY_WIDTH + SEEN] = rows[at + BATCH_LAST_OFFSET]
    return True


def replay_one(rows: Columns, i: Py_ssize_t, table: ProducerTable) -> bint:
    """Checks and replays row i. False if the replay must stop before it."""
    at: Py_ssize_t = i * BATCH_WIDTH
    index: longlong = -1
    is_control: bint
    if (
        not rows[at + BATCH_STATE] & CRC_RIGHT
        or not 0 <= rows[at + BATCH_LAST_OFFSET] < _MAX_OFFSET
        or (
            rows[at + BATCH_MAGIC] >= MAGIC_V2
            and not 0 <= rows[at + BATCH_FIRST_OFFSET] <= rows[at + BATCH_LAST_OFFSET]
        )
    ):
        table.is_after_damage = True
        return True
    if table.stop >= 0 and rows[at + BATCH_LAST_OFFSET] >= table.stop:
        return False
    if rows[at + BATCH_MAGIC] < MAGIC_V2:
        follow_offsets(table, table.largest_offset + 1, rows[at + BATCH_LAST_OFFSET])
        return True
    is_control = (rows[at + BATCH_ATTRIBUTES] & CONTROL) != 0
    if not is_control and table.newest_data < rows[at + BATCH_MAX_TIMESTAMP] <= table.now_ms:
        table.newest_data = rows[at + BATCH_MAX_TIMESTAMP]
    if rows[at + BATCH_PRODUCER_ID] < 0:
        # Only KRaft's log has control batches without a producer; their types begin with LEADER_CHANGE.
        is_kraft: bint = FIRST_KRAFT_TYPE <= rows[at + BATCH_MARKER] <= LAST_KRAFT_TYPE
        if is_control and rows[at + BATCH_COUNT] != 0 and not is_kraft:
            report(table, BAD_MARKER, i, rows[at + BATCH_MARKER], 0, 0)
        follow_offsets(table, rows[at + BATCH_FIRST_OFFSET], rows[at + BATCH_LAST_OFFSET])
        return True
    if table.aborts >= table.abort_capacity:
        return False
    # A marker's value ends with the coordinator's epoch; no broker accepts -1.
    if not is_control or (
        ABORT_MARKER <= rows[at + BATCH_MARKER] <= COMMIT_MARKER and rows[at + BATCH_COORDINATOR_EPOCH] >= 0
    ):
        index = index_of(table, rows[at + BATCH_PRODUCER_ID])
        if index < 0 and not table.is_full:
            return False
    elif rows[at + BATCH_COUNT] != 0:
        report(table, BAD_MARKER, i, rows[at + BATCH_MARKER], 0, 0)
    table.batches += 1
    follow_offsets(table, rows[at + BATCH_FIRST_OFFSET], rows[at + BATCH_LAST_OFFSET])
    if index < 0:
        return True
    if is_control:
        replay_marker(rows, i, table, index)
    else:
        replay_data(rows, i, table, index)
    table.entries[index * ENTRY_WIDTH + SEEN] = rows[at + BATCH_LAST_OFFSET]
    return True


def replay(table: ProducerTable, rows: Int64sIn, start: Py_ssize_t, count: Py_ssize_t) -> int:
    """Replays rows ``start`` to ``count`` (BATCH_*). Returns the row before which it stopped.

    It stops at ``count``; at the first batch that reaches the offset ``stop``; if the table of aborts is full; if the
    table of producers is full (unless ``is_full`` is set: then other producers are ignored); with ``as_broker`` at a
    marker that is not plain. Events that do not fit are only counted. Raises ValueError if the buffer is too
    short.
    """
    table.events = table.aborts = 0
    if start < 0 or len(rows) < count * BATCH_WIDTH:
        raise ValueError("a buffer is too short")
    p = int64s_in(rows)
    with cython.nogil:
        while start < count and (replay_as_broker(p, start, table) if table.as_broker else replay_one(p, start, table)):
            start += 1
    return start
