"""Compares rows of batch headers (BATCH_*) of a disk image: where files begin, which batches are known
already, and which pieces exclude each other; finds the blocks at which other files may begin."""

import cython
from cython import Py_ssize_t, bint, longlong, ulonglong

if not cython.compiled:  # kseg._build declares these constants for C
    # What a block may be that begins as side files or directories do.
    MAY_BE_FILE = 1
    MAY_BE_DIRECTORY = 2

    # The numbers of `summarize`: a hash and sums, then the least, then the largest of all batches.
    (
        PIECE_HASH, PIECE_RECORDS, PIECE_GAPS, PIECE_FEWEST_RECORDS, PIECE_FIRST_TIME, PIECE_OLDEST_TIME,
        PIECE_LEAST_MAGIC, PIECE_LAST_TIME, PIECE_LARGEST_PRODUCER, PIECE_LARGEST_MARKER, PIECE_WIDTH
    ) = range(11)  # fmt: skip

_MULTIPLIER = cython.declare(ulonglong, 0x9E3779B97F4A7C15)
_NUMBER_BITS = cython.declare(cython.int, 40)
_NUMBERS = cython.declare(longlong, (1 << 40) - 1)
_MAX_STEPS = cython.declare(cython.int, 512)
"""More slots are not compared: a table that is two thirds full has no such run of them, unless keys collide."""


class KeyIndex:
    """A hash table of numbered batches, by the key that copies and versions of a batch share: offsets and producer, or
    the time if it has none; of a message of v0 or v1 the offset and the checksum.

    ``table``: 2^n zeros, at most two thirds of which are taken. A slot holds 24 bits of a hash, and the number + 1.
    ``seed`` is random, so that no image can choose its keys to collide.
    """

    def __init__(self, table: Int64sOut, seed: longlong):
        if len(table) == 0 or len(table) & (len(table) - 1):
            raise ValueError("the number of slots is no power of two")
        self._table = table
        self.table = int64s_out(table)
        self.mask = len(table) - 1
        self.seed = cython.cast(ulonglong, seed)

    def add(
        self,
        buffer: BytesIn,
        origin: longlong,
        rows: Int64sIn,
        start: Py_ssize_t,
        stop: Py_ssize_t,
        number: longlong,
        beside: bint = False,
    ) -> int:
        """Adds the batches ``start`` to ``stop`` (exclusive) until the key of one is known; row 0 has that ``number``.

        Returns the row of that one, ``stop`` if there is none. With ``beside`` all are added, beside those of the same
        key. ``buffer`` has the bytes of the image from ``origin`` on; only those of v0 and v1 messages are read. Raises
        ValueError if a buffer is too short.
        """
        while start < stop and put(self, key_of(self, buffer, origin, rows, start), number + start, beside):
            start += 1
        return start

    def alike(self, buffer: BytesIn, origin: longlong, rows: Int64sIn, i: Py_ssize_t) -> list:
        """Returns the numbers of the batches with the key of batch i, in the order in which they were added."""
        key: ulonglong = key_of(self, buffer, origin, rows, i)
        at: longlong = cython.cast(longlong, key & self.mask)
        found = []
        for _step in range(_MAX_STEPS):
            if self.table[at] == 0:
                break
            if cython.cast(ulonglong, self.table[at]) >> _NUMBER_BITS == key >> _NUMBER_BITS:
                found.append((self.table[at] & _NUMBERS) - 1)
            at = (at + 1) & self.mask
        return found


def mixed(state: ulonglong, value: longlong) -> ulonglong:
    state = cython.cast(ulonglong, (state ^ cython.cast(ulonglong, value)) * _MULTIPLIER)
    return state ^ state >> 29


def key_of(index, buffer, origin, rows, i):
    """Raises ValueError if the row, or a v0 or v1 message, lies outside its buffer."""
    row: Py_ssize_t = i * BATCH_WIDTH
    state: ulonglong = index.seed
    if i < 0 or len(rows) < row + BATCH_WIDTH:
        raise ValueError("a buffer is too short")
    if rows[row + BATCH_MAGIC] < MAGIC_V2:
        if not origin <= rows[row + BATCH_POSITION] <= origin + len(buffer) - V0_HEADER_BYTES:
            raise ValueError("a batch lies outside the buffer")
        state = mixed(state, stored_crc(bytes_in(buffer), rows[row + BATCH_POSITION] - origin + LEGACY_CRC))
        return mixed(mixed(state, rows[row + BATCH_LAST_OFFSET]), 0)
    state = mixed(mixed(state, rows[row + BATCH_FIRST_OFFSET]), rows[row + BATCH_LAST_OFFSET])
    state = mixed(mixed(state, rows[row + BATCH_LEADER_EPOCH]), rows[row + BATCH_PRODUCER_ID])
    if rows[row + BATCH_PRODUCER_EPOCH] < 0:
        state = mixed(state, rows[row + BATCH_MAX_TIMESTAMP])
    else:
        state = mixed(state, rows[row + BATCH_PRODUCER_EPOCH])
    return mixed(mixed(state, rows[row + BATCH_BASE_SEQUENCE]), 0)


def put(index: KeyIndex, key: ulonglong, number: longlong, beside: bint) -> bint:
    """Adds a batch. False if its key is known, and it is not to stand ``beside`` those of that key."""
    at: longlong = cython.cast(longlong, key & index.mask)
    for _step in range(_MAX_STEPS):
        if index.table[at] == 0:
            index.table[at] = cython.cast(longlong, key >> _NUMBER_BITS << _NUMBER_BITS | number + 1)
            break
        if not beside and cython.cast(ulonglong, index.table[at]) >> _NUMBER_BITS == key >> _NUMBER_BITS:
            return False
        at = (at + 1) & index.mask
    return True


# Pieces


def common_prefix(one: BytesIn, other: BytesIn) -> int:
    """Returns the length of the common prefix of two buffers."""
    p, q = bytes_in(one), bytes_in(other)
    size: longlong = min(len(one), len(other))
    at: longlong = 0
    step: longlong = 4096
    with cython.nogil:
        while at < size:
            step = min(step, size - at)
            if are_same_bytes(p, at, step, q, at, step):
                at += step
            elif step == 1:
                break
            else:
                step >>= 1
    return at


def first_of(rows: Columns, row: Py_ssize_t) -> longlong:
    """The first offset; of a compressed v0 or v1 message, whose first offset is inside, the last one."""
    return rows[row + BATCH_FIRST_OFFSET] if rows[row + BATCH_FIRST_OFFSET] >= 0 else rows[row + BATCH_LAST_OFFSET]


def fits(rows: Columns, row: Py_ssize_t, largest: longlong) -> bint:
    """Whether a log can hold the batch: its offsets are not negative, do not fall, and are at most ``largest``."""
    if rows[row + BATCH_FIRST_OFFSET] < 0 and rows[row + BATCH_MAGIC] >= MAGIC_V2:
        return False
    return 0 <= first_of(rows, row) <= rows[row + BATCH_LAST_OFFSET] <= largest


def breaks(rows: Int64sIn, count: Py_ssize_t, block: longlong, largest: longlong, out: Int64sOut) -> int:
    """Writes the numbers of batches that do not continue the one before to ``out``: int64, ``count`` of them.

    At a multiple of ``block`` bytes, where a file may begin, a missing offset is more likely another file. Adjacent
    batches that no log can hold, by their offsets (see `fits`), stay together. Returns how many there are. Raises
    ValueError if a buffer is too short.
    """
    n: Py_ssize_t = 0
    before: Py_ssize_t = 0
    if count < 0 or block < 1 or len(rows) < count * BATCH_WIDTH or len(out) < count:
        raise ValueError("a buffer is too short")
    p, found = int64s_in(rows), int64s_out(out)
    with cython.nogil:
        for i in range(1, count):
            row = before + BATCH_WIDTH
            first, last = first_of(p, row), p[before + BATCH_LAST_OFFSET]
            both_fit: bint = fits(p, before, largest)
            if (
                p[row + BATCH_POSITION] != p[before + BATCH_POSITION] + p[before + BATCH_SIZE]
                or both_fit != fits(p, row, largest)
                or (both_fit and first <= last)
                or (both_fit and p[row + BATCH_LEADER_EPOCH] < p[before + BATCH_LEADER_EPOCH])
                or (
                    both_fit
                    and first != last + 1
                    and p[row + BATCH_POSITION] % block == 0
                    and p[row + BATCH_FIRST_OFFSET] >= 0
                )
            ):
                found[n] = i
                n += 1
            before = row
    return n


def summarize(rows: Int64sIn, count: Py_ssize_t) -> list:
    """Returns the PIECE_* numbers of ``count`` batches; -1 for a least or largest one that none has.

    The hash leaves out positions, counts of records are negative where headers do not tell them, FIRST_TIME and
    LAST_TIME are of the largest timestamps of batches, OLDEST_TIME of base timestamps. Raises ValueError if the buffer
    is too short.
    """
    found = cython.declare(longlong[PIECE_WIDTH])
    state: ulonglong = 0
    last: longlong = -1
    p = int64s_in(rows, count * BATCH_WIDTH)
    for i in range(PIECE_WIDTH):
        found[i] = 0 if i <= PIECE_GAPS else INT64_MAX if i < PIECE_LAST_TIME else -1
    with cython.nogil:
        for i in range(count):
            row = i * BATCH_WIDTH
            for column in range(BATCH_WIDTH):
                if column != BATCH_POSITION:
                    state = mixed(state, p[row + column])
            found[PIECE_RECORDS] += p[row + BATCH_COUNT]
            found[PIECE_FEWEST_RECORDS] = min(found[PIECE_FEWEST_RECORDS], p[row + BATCH_COUNT])
            found[PIECE_LEAST_MAGIC] = min(found[PIECE_LEAST_MAGIC], p[row + BATCH_MAGIC])
            found[PIECE_GAPS] += last >= 0 and p[row + BATCH_FIRST_OFFSET] > last + 1
            found[PIECE_LAST_TIME] = max(found[PIECE_LAST_TIME], p[row + BATCH_MAX_TIMESTAMP])
            if p[row + BATCH_MAX_TIMESTAMP] > 0:
                found[PIECE_FIRST_TIME] = min(found[PIECE_FIRST_TIME], p[row + BATCH_MAX_TIMESTAMP])
            if p[row + BATCH_BASE_TIMESTAMP] >= 0:
                found[PIECE_OLDEST_TIME] = min(found[PIECE_OLDEST_TIME], p[row + BATCH_BASE_TIMESTAMP])
            found[PIECE_LARGEST_PRODUCER] = max(found[PIECE_LARGEST_PRODUCER], p[row + BATCH_PRODUCER_ID])
            found[PIECE_LARGEST_MARKER] = max(found[PIECE_LARGEST_MARKER], p[row + BATCH_MARKER])
            last = p[row + BATCH_LAST_OFFSET]
        found[PIECE_HASH] = cython.cast(longlong, state >> 1)
    return [-1 if found[i] == INT64_MAX else found[i] for i in range(PIECE_WIDTH)]


def may_be_versions(a: Columns, i: Py_ssize_t, b: Columns, k: Py_ssize_t) -> bint:
    """Whether two batches of one offset may be versions of each other. With equally many records they are copies: two
    logs that the same program wrote differ in the times of their markers."""
    if first_of(a, i) != first_of(b, k) or a[i + BATCH_LAST_OFFSET] != b[k + BATCH_LAST_OFFSET]:
        return False
    if a[i + BATCH_LEADER_EPOCH] != b[k + BATCH_LEADER_EPOCH] or a[i + BATCH_PRODUCER_ID] != b[k + BATCH_PRODUCER_ID]:
        return False
    if a[i + BATCH_PRODUCER_EPOCH] != b[k + BATCH_PRODUCER_EPOCH]:
        return False
    if a[i + BATCH_BASE_SEQUENCE] != b[k + BATCH_BASE_SEQUENCE]:
        return False
    if a[i + BATCH_COUNT] != b[k + BATCH_COUNT]:
        return True
    if a[i + BATCH_MAX_TIMESTAMP] != b[k + BATCH_MAX_TIMESTAMP]:
        return False
    return a[i + BATCH_COUNT] != 1 or a[i + BATCH_SIZE] == b[k + BATCH_SIZE]


def contradict(
    mine: Int64sIn, i: Py_ssize_t, stop: Py_ssize_t, others: Int64sIn, k: Py_ssize_t, other_stop: Py_ssize_t
) -> bool:
    """Whether among batches i to ``stop`` (exclusive) of one piece, and k to ``other_stop`` of another, two overlap
    without being versions of each other. Raises ValueError if a buffer is too short."""
    found: bint = False
    if i < 0 or k < 0 or len(mine) < stop * BATCH_WIDTH or len(others) < other_stop * BATCH_WIDTH:
        raise ValueError("a buffer is too short")
    a, b = int64s_in(mine), int64s_in(others)
    i, stop, k, other_stop = i * BATCH_WIDTH, stop * BATCH_WIDTH, k * BATCH_WIDTH, other_stop * BATCH_WIDTH
    with cython.nogil:
        while i < stop and k < other_stop and not found:
            if a[i + BATCH_LAST_OFFSET] < first_of(b, k):
                i += BATCH_WIDTH
            elif b[k + BATCH_LAST_OFFSET] < first_of(a, i):
                k += BATCH_WIDTH
            else:
                found = not may_be_versions(a, i, b, k)
                i += BATCH_WIDTH
                k += BATCH_WIDTH
    return found


# Side files


def rises(p: Bytes, at: Py_ssize_t, width: cython.int) -> bint:
    """Whether three entries of an index begin here, whose two fields rise: the second is an int32."""
    last: longlong = 0
    last_second: longlong = -1
    for _entry in range(3):
        first = be64(p, at) if width == TIME_ENTRY_BYTES else be32(p, at)
        second = be32(p, at + width - 4)
        if first <= last or second <= last_second:
            return False
        last, last_second = first, second
        at += width
    return True


def mark_of(p: Bytes, at: Py_ssize_t) -> cython.int:
    mark: cython.int = 0
    entry_bytes: cython.int = p[at + 4] + 256 * p[at + 5]
    if p[at] == 0:
        # A producer snapshot of version 1, or an index.
        if p[at + 1] == 1 or (p[at + 1] == 0 and (rises(p, at, TIME_ENTRY_BYTES) or rises(p, at, OFFSET_ENTRY_BYTES))):
            mark = MAY_BE_FILE
    elif p[at] == 48 or p[at] == 118 or p[at] == 35 or p[at] == 88 or p[at] == 73:
        mark = MAY_BE_FILE
    # The length of a first entry and of its name, the type of a directory, and a character.
    if entry_bytes % 4 == 0 and 8 + p[at + 6] <= entry_bytes <= 4096 and p[at + 8] > 32:
        if p[at + 4] == 12 or p[at + 7] == 2:
            mark |= MAY_BE_DIRECTORY
    return mark


def mark_blocks(buffer: BytesIn, stop: Py_ssize_t, step: Py_ssize_t, out: Int64sOut) -> int:
    """Writes pairs to ``out``: the position of each block that may begin a side file or a directory, and MAY_BE_FILE
    (0, v, #, X or I, or bytes of a producer snapshot or an index) and MAY_BE_DIRECTORY (of ext4) combined by or.

    Blocks begin every ``step`` bytes below ``stop``. Returns the number of values. Raises ValueError if a buffer is too
    short.
    """
    n: Py_ssize_t = 0
    at: Py_ssize_t = 0
    end: Py_ssize_t = len(buffer)
    if step < 1 or stop > end or len(out) < 2 * (stop // step + 1):
        raise ValueError("a buffer is too short")
    p, marks = bytes_in(buffer), int64s_out(out)
    with cython.nogil:
        while at < stop:
            mark = mark_of(p, at) if at + 3 * TIME_ENTRY_BYTES <= end else MAY_BE_FILE | MAY_BE_DIRECTORY
            if mark:
                marks[n] = at
                marks[n + 1] = mark
                n += 2
            at += step
    return n
