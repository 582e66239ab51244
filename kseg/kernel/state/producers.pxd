from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *
from kseg.kernel.scan.headers cimport EventLog

# The table of producers that a replay keeps: its columns, and the events of a replay.

cpdef enum:
    # Columns of an entry. LAST_SEQUENCE and LAST_OFFSET, of data, are -1 where there is none; OFFSET_DELTA goes with
    # them. TIMESTAMP in ms.
    ID, EPOCH, LAST_SEQUENCE, LAST_OFFSET, OFFSET_DELTA, TIMESTAMP, COORDINATOR_EPOCH
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

cpdef enum:
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

cpdef enum:
    # Columns of a row for an ABORT marker. First offset of its transaction, -1 if none was open.
    ABORT_PRODUCER = 0
    ABORT_FIRST = 1
    # Offset of the marker, last stable offset as LogSegment.recover computes it, position of the marker.
    ABORT_OFFSET = 2, ABORT_STABLE, ABORT_POSITION
    # TXN_FILLED of the transaction, and whether all is known from its first offset on.
    ABORT_FILLED = 5, ABORT_IS_CERTAIN, ABORT_WIDTH

cpdef enum:
    # A batch of one transaction marker, as brokers write it: its timestamp is the base timestamp.
    PLAIN_MARKER_BYTES = 78

cdef enum:
    # Types of control records: transaction markers, and the types of KRaft's log.
    ABORT_MARKER, COMMIT_MARKER, FIRST_KRAFT_TYPE
    LAST_KRAFT_TYPE = 6

cdef enum:
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
    DIFFERING_NUMBER = 0, DIFFERING_INDEX, DIFFERING_WIDTH

cdef class ProducerTable(EventLog):
    cdef readonly long long producers, open, oldest, youngest, capacity
    cdef public long long seed, idle_ms, now_ms, stop, largest_offset, after_hole, after_damage
    cdef public bint as_broker, is_after_damage, is_full
    cdef public long long newest_data, newest_marker, batches, committed, aborted, first_ended
    cdef public Py_ssize_t aborts, differing, differing_open
    cdef object _entries, _slots, _abort_rows
    cdef long long* entries
    cdef long long* slots
    cdef long long mask
    cdef long long* abort_rows
    cdef Py_ssize_t abort_capacity

cdef long long index_of(ProducerTable table, long long producer_id) noexcept nogil
cdef void open_transaction(ProducerTable table, long long index, long long first) noexcept nogil
cdef void close_transaction(ProducerTable table, long long index) noexcept nogil
cdef bint is_same(const unsigned char* p, Py_ssize_t at, ProducerTable table, long long e) noexcept nogil

cdef void replay_data(const long long* rows, Py_ssize_t i, ProducerTable table, long long index) noexcept nogil
cdef void replay_marker(const long long* rows, Py_ssize_t i, ProducerTable table, long long index) noexcept nogil

cdef void follow_offsets(ProducerTable table, long long first, long long last) noexcept nogil
cdef bint replay_as_broker(const long long* rows, Py_ssize_t i, ProducerTable table) noexcept nogil
cdef bint replay_one(const long long* rows, Py_ssize_t i, ProducerTable table) noexcept nogil

cdef long long home(ProducerTable table, long long producer_id) noexcept nogil
cdef long long find(ProducerTable table, long long producer_id) noexcept nogil
cdef bint is_remembered(ProducerTable table, long long e, long long timestamp) noexcept nogil
cdef bint is_plain_marker(const long long* rows, Py_ssize_t at) noexcept nogil
