"""The key map of a compaction: the last offset of each key, by the hash of the key.

A hash table with linear probing. A slot is three int64: the two halves of the hash, and the offset + 1; 0 means a free
slot. As in Kafka's SkimpyOffsetMap an entry takes 24 bytes, of which 16 identify the key.

Distributed maps are exchanged as entries: three int64 too, but with the offset itself. `KeyMap.scatter` partitions them
by the half of the hash that does not choose the slot, so that each partition fills its own table evenly.
"""

from hashlib import blake2b

import cython
from cython import Py_ssize_t, bint, longlong, pointer, ulonglong, void
from cython.cimports.kseg.kernel.codecs.expand import ExpansionBuffer
from cython.cimports.kseg.kernel.records.cursor import FrameCursor, extend, leave, read_rows, use_frames, use_rows
from cython.cimports.libc.string import memcpy

if not cython.compiled:  # kseg._build declares these constants for C
    # Columns of a slot and of an entry: the halves of the hash, and the offset. A slot has the offset + 1; with 0 it is
    # free.
    SLOT_HIGH, SLOT_LOW, SLOT_OFFSET, ENTRY_WIDTH = range(4)

    # Verdict: skip the keys of the batch, which is aborted.
    SKIP = 1

    SipState = cython.struct()
    KeyHash = cython.struct()

# The keyed 128-bit hash of record keys for compaction: SipHash-1-3-128 (Aumasson, Bernstein, 2012).
#
# Each run has a random secret, so nobody can construct colliding keys; a collision would lose a record. Interpreted,
# the hash is keyed BLAKE2b of hashlib: hashes need not agree between runs.

SECRET_BYTES = 16
# The constants of the algorithm. As names: such literals would be Python objects.
_V0 = cython.declare(ulonglong, 0x736F6D6570736575)
_V1 = cython.declare(ulonglong, 0x646F72616E646F6D ^ 0xEE)
_V2 = cython.declare(ulonglong, 0x6C7967656E657261)
_V3 = cython.declare(ulonglong, 0x7465646279746573)


class Secret:
    """The key of the hash: SECRET_BYTES bytes. Raises ValueError for any other number."""

    def __init__(self, data: bytes):
        if len(data) != SECRET_BYTES:
            raise ValueError(f"a secret has {SECRET_BYTES} bytes")
        self.low = int.from_bytes(data[:8], "little", signed=True)
        self.high = int.from_bytes(data[8:], "little", signed=True)


def rotated(x: ulonglong, bits: cython.int) -> ulonglong:
    return x << bits | x >> (64 - bits)


def mix_rounds(state: pointer[SipState], rounds: cython.int) -> void:
    for _k in range(rounds):
        state.v0 += state.v1
        state.v1 = rotated(state.v1, 13) ^ state.v0
        state.v0 = rotated(state.v0, 32)
        state.v2 += state.v3
        state.v3 = rotated(state.v3, 16) ^ state.v2
        state.v0 += state.v3
        state.v3 = rotated(state.v3, 21) ^ state.v0
        state.v2 += state.v1
        state.v1 = rotated(state.v1, 17) ^ state.v2
        state.v2 = rotated(state.v2, 32)


def mix_word(state: pointer[SipState], word: ulonglong) -> void:
    state.v3 ^= word
    mix_rounds(state, 1)
    state.v0 ^= word


def hash_key(p: Bytes, at: Py_ssize_t, size: longlong, secret: Secret, found: pointer[KeyHash]) -> void:
    """Computes the hash of ``size`` bytes at p[at]."""
    if cython.compiled:
        state: SipState
        word: ulonglong
        i: longlong = 0
        state.v0 = cython.cast(ulonglong, secret.low) ^ _V0
        state.v1 = cython.cast(ulonglong, secret.high) ^ _V1
        state.v2 = cython.cast(ulonglong, secret.low) ^ _V2
        state.v3 = cython.cast(ulonglong, secret.high) ^ _V3
        while size - i >= 8:
            memcpy(cython.address(word), p + at + i, 8)
            mix_word(cython.address(state), word)
            i += 8
        word = 0
        if size > i:
            memcpy(cython.address(word), p + at + i, size - i)
        mix_word(cython.address(state), word ^ cython.cast(ulonglong, size) << 56)
        state.v2 ^= 0xEE
        mix_rounds(cython.address(state), 3)
        found.high = cython.cast(longlong, state.v0 ^ state.v1 ^ state.v2 ^ state.v3)
        state.v1 ^= 0xDD
        mix_rounds(cython.address(state), 3)
        found.low = cython.cast(longlong, state.v0 ^ state.v1 ^ state.v2 ^ state.v3)
    else:
        key = secret.low.to_bytes(8, "little", signed=True) + secret.high.to_bytes(8, "little", signed=True)
        digest = blake2b(bytes(p[at : at + size]), digest_size=16, key=key).digest()
        found.high = int.from_bytes(digest[:8], "little", signed=True)
        found.low = int.from_bytes(digest[8:], "little", signed=True)


def hash_of(key: BytesIn, secret: Secret) -> tuple[int, int]:
    """Returns the two halves of the hash of a key."""
    found = cython.declare(KeyHash)
    hash_key(bytes_in(key), 0, len(key), secret, cython.address(found))
    return found.high, found.low


PREFETCH_KEYS = cython.declare(Py_ssize_t, 12)
"""How many keys ahead a slot is prefetched: a cache miss costs as much as a dozen hashes."""


class KeyMap:
    """``slots``: size of the table; ``max_count``: maximum number of keys; ``count``: number of keys.

    ``latest_offset``: the last offset of the log that the map covers, initially -1. `use` sets the table. Methods that
    access it raise ValueError without one, and if a buffer is too short.
    """

    def __init__(self, secret):
        self.secret = secret
        self._table = None
        self.slots = self.max_count = self.count = 0
        self.latest_offset = -1

    def use(self, table: Int64sOut, slots: longlong, max_count: longlong) -> None:
        """Sets the table: int64, three a slot, all zeros.

        Raises ValueError if slots lie outside the buffer, or if no slot would stay free.
        """
        if slots < 1 or slots >> 32 or len(table) < ENTRY_WIDTH * slots or max_count >= slots:
            raise ValueError("a table has too few slots")
        self._table = table
        self.slots = slots
        self.max_count = max_count

    def clear(self) -> None:
        """Releases the table."""
        self._table = None
        self.slots = self.max_count = self.count = 0

    def put(self, hashes: Int64sIn, offsets: Int64sIn, count: Py_ssize_t) -> int:
        """Puts keys by hashes (two int64 each) and offsets until the map is full. Returns the number of keys put."""
        k: Py_ssize_t = 0
        self.check()
        if len(hashes) < 2 * count or len(offsets) < count:
            raise ValueError("a buffer is too short")
        with cython.nogil:
            for k in range(min(PREFETCH_KEYS, count)):
                prefetch_slot(self, hashes[2 * k])
            k = 0
            while k < count and self.count < self.max_count:
                if k + PREFETCH_KEYS < count:
                    prefetch_slot(self, hashes[2 * (k + PREFETCH_KEYS)])
                at = find_entry(self, hashes[2 * k], hashes[2 * k + 1])
                if self._table[at + SLOT_OFFSET] == 0:
                    self.count += 1
                    self._table[at + SLOT_HIGH] = hashes[2 * k]
                    self._table[at + SLOT_LOW] = hashes[2 * k + 1]
                self._table[at + SLOT_OFFSET] = offsets[k] + 1
                k += 1
        return k

    def find(self, high: longlong, low: longlong) -> int:
        """Returns the offset of a hash, -1 if it is not in the map."""
        self.check()
        return self._table[find_entry(self, high, low) + SLOT_OFFSET] - 1

    def scatter(self, bounds: Int64sOut, out: Int64sOut) -> None:
        """Writes the entries to ``out``, bucket by bucket: ``bounds[b]`` to ``bounds[b + 1]`` are those of bucket b.

        ``bounds``: zeros, two more than there are buckets.
        """
        buckets: longlong = len(bounds) - 2
        self.check()
        if len(bounds) < 3 or len(bounds) >> 32 or len(out) < ENTRY_WIDTH * self.count or max(bounds) or min(bounds):
            raise ValueError("a buffer is too short")
        with cython.nogil:
            for i in range(self.slots):
                at = ENTRY_WIDTH * i
                if self._table[at + SLOT_OFFSET] != 0:
                    bounds[slot_of(self._table[at + SLOT_LOW], buckets) + 2] += 1
            for b in range(2, buckets + 2):
                bounds[b] += bounds[b - 1]
            for i in range(self.slots):
                at = ENTRY_WIDTH * i
                if self._table[at + SLOT_OFFSET] != 0:
                    b = slot_of(self._table[at + SLOT_LOW], buckets) + 1
                    copy_entry(self, at, out, ENTRY_WIDTH * bounds[b])
                    bounds[b] += 1

    def merge(self, entries: Int64sIn, least: longlong) -> bool:
        """Puts the entries with an offset of at least ``least`` (0 or above); the largest offset of each key is kept.

        Returns False if the map was full.
        """
        fits: bint = True
        count: Py_ssize_t = len(entries) // ENTRY_WIDTH
        self.check()
        if least < 0:
            raise ValueError("offsets begin at 0")
        with cython.nogil:
            for k in range(count):
                entry = ENTRY_WIDTH * k
                if k + PREFETCH_KEYS < count:
                    prefetch_slot(self, entries[entry + PREFETCH_KEYS * ENTRY_WIDTH])
                if entries[entry + SLOT_OFFSET] < least:
                    continue
                at = find_entry(self, entries[entry + SLOT_HIGH], entries[entry + SLOT_LOW])
                if self._table[at + SLOT_OFFSET] == 0:
                    if self.count >= self.max_count:
                        fits = False
                        break
                    self.count += 1
                    self._table[at + SLOT_HIGH] = entries[entry + SLOT_HIGH]
                    self._table[at + SLOT_LOW] = entries[entry + SLOT_LOW]
                if self._table[at + SLOT_OFFSET] <= entries[entry + SLOT_OFFSET]:
                    self._table[at + SLOT_OFFSET] = entries[entry + SLOT_OFFSET] + 1
        return fits

    def move(self, old: Int64sIn, first: Py_ssize_t, stop: Py_ssize_t) -> None:
        """Moves the entries of slots ``first`` to ``stop`` of another table, which must be absent here; `count` must
        include them already. Slots are in the order of hashes, so both tables are accessed sequentially.
        """
        self.check()
        if not 0 <= first <= stop <= len(old) // ENTRY_WIDTH or self.count >= self.slots:
            raise ValueError("no such slots, or too few free ones")
        with cython.nogil:
            for i in range(first, stop):
                entry = ENTRY_WIDTH * i
                if old[entry + SLOT_OFFSET] != 0:
                    at = find_entry(self, old[entry + SLOT_HIGH], old[entry + SLOT_LOW])
                    self._table[at + SLOT_HIGH] = old[entry + SLOT_HIGH]
                    self._table[at + SLOT_LOW] = old[entry + SLOT_LOW]
                    self._table[at + SLOT_OFFSET] = old[entry + SLOT_OFFSET]

    def look_up(self, entries: Int64sIn, out: Int64sOut) -> int:
        """Writes the entries of this map for the keys of ``entries`` to ``out``. Returns their number."""
        count: Py_ssize_t = len(entries) // ENTRY_WIDTH
        found: Py_ssize_t = 0
        self.check()
        check_length(len(out), ENTRY_WIDTH * count)
        with cython.nogil:
            for k in range(count):
                entry = ENTRY_WIDTH * k
                if k + PREFETCH_KEYS < count:
                    prefetch_slot(self, entries[entry + PREFETCH_KEYS * ENTRY_WIDTH])
                at = find_entry(self, entries[entry + SLOT_HIGH], entries[entry + SLOT_LOW])
                if self._table[at + SLOT_OFFSET] != 0:
                    copy_entry(self, at, out, ENTRY_WIDTH * found)
                    found += 1
        return found

    def check(self) -> None:
        """Raises ValueError without a table."""
        if self.slots == 0:
            raise ValueError("a table has too few slots")


def slot_of(half: longlong, slots: longlong) -> longlong:
    return cython.cast(longlong, ((cython.cast(ulonglong, half) >> 32) * cython.cast(ulonglong, slots)) >> 32)


def prefetch_slot(key_map: KeyMap, high: longlong) -> void:
    """Prefetches the slot of a hash."""
    prefetch(cython.address(key_map._table[0]), ENTRY_WIDTH * slot_of(high, key_map.slots))


def find_entry(key_map: KeyMap, high: longlong, low: longlong) -> longlong:
    """Returns the index in the table of the entry of a hash, or of the free slot for it."""
    slots: longlong = key_map.slots
    i: longlong = slot_of(high, slots)
    at: longlong = ENTRY_WIDTH * i
    while key_map._table[at + SLOT_OFFSET] != 0 and (
        key_map._table[at + SLOT_HIGH] != high or key_map._table[at + SLOT_LOW] != low
    ):
        i += 1
        if i == slots:
            i = 0
        at = ENTRY_WIDTH * i
    return at


def last_offset(key_map: KeyMap, key: pointer[KeyHash]) -> longlong:
    """Returns the offset of a hash, -1 if it is not in the map."""
    return key_map._table[find_entry(key_map, key.high, key.low) + SLOT_OFFSET] - 1


def copy_entry(key_map: KeyMap, at: longlong, out: Int64sOut, to: longlong) -> void:
    """Copies an entry of the table to out[to], with the offset instead of the offset + 1."""
    out[to + SLOT_HIGH] = key_map._table[at + SLOT_HIGH]
    out[to + SLOT_LOW] = key_map._table[at + SLOT_LOW]
    out[to + SLOT_OFFSET] = key_map._table[at + SLOT_OFFSET] - 1


# Hashes the keys of v2 batches and of plain messages v0 and v1.


class KeyReader(FrameCursor):
    """Reads the keys of records whose offset is ``least`` or above, window by window.

    ``keys``: the number written so far; the caller resets it, and the position for each window.
    """

    def __init__(self, secret, least):
        FrameCursor.__init__(self)
        self.secret = secret
        self.least = least
        self.keys = 0

    def read(
        self,
        data: BytesIn,
        batches: Int64sIn,
        count: Py_ssize_t,
        verdicts: Int64sIn,
        rows: Int64sOut,
        hashes: Int64sOut,
        offsets: Int64sOut,
        expansion: ExpansionBuffer,
        opened: BytesIn = None,
    ) -> int:
        """Hashes the keys of the batches from ``frame`` up to ``count``; their rows BATCH_* have positions in ``data``.

        ``verdicts``: SKIP or 0 for each batch. ``opened``: the records of the next batch, if the caller had to
        decompress it. Returns DONE, FULL (``hashes`` or ``offsets``) or NOT_PLAIN. Raises ValueError if a buffer is too
        short.
        """
        status: cython.int = NEEDS_BUFFER
        capacity: Py_ssize_t = min(len(offsets), len(hashes) // 2)
        if self.keys < 0 or len(verdicts) < count:
            raise ValueError("a buffer is too short")
        use_frames(self, data, batches, count, BATCH_WIDTH, expansion, opened)
        self.table.row_count = 0
        use_rows(self, rows, rows[:0])
        self.table.header_capacity = -1
        row_capacity: Py_ssize_t = self.table.row_capacity
        self.verdicts = int64s_in(verdicts)
        while status == NEEDS_BUFFER:
            with cython.nogil:
                status = DONE
                while self.frame < self.stop and status == DONE:
                    if not self.is_open and has_no_keys(self):
                        self.frame += 1
                    elif self.keys >= capacity:
                        status = FULL
                    else:
                        self.table.row_count = 0
                        self.table.row_capacity = min(row_capacity, capacity - self.keys)
                        status = read_rows(self)
                        if status == DONE:
                            count = self.table.row_count
                            hash_rows(self, self.area.payload, self.table.rows, count, hashes, offsets)
                            leave(self, count)
            if status == NEEDS_BUFFER:
                status = extend(self, expansion)
        return status

    def read_rows(
        self, payload: BytesIn, rows: Int64sIn, count: Py_ssize_t, hashes: Int64sOut, offsets: Int64sOut
    ) -> int:
        """Hashes the keys of ``count`` rows (ROW_*), written from the start. Returns the number of keys.

        Raises ValueError if a buffer is too short.
        """
        if len(rows) < count * ROW_WIDTH or len(hashes) < 2 * count or len(offsets) < count:
            raise ValueError("a buffer is too short")
        self.keys = 0
        hash_rows(self, bytes_in(payload), int64s_in(rows), count, hashes, offsets)
        count, self.keys = self.keys, 0
        return count


def hash_rows(
    reader: KeyReader, payload: Bytes, rows: Columns, count: longlong, hashes: Int64sOut, offsets: Int64sOut
) -> void:
    """Adds the records of a batch that have a key and an offset of ``least`` or above."""
    keys: Py_ssize_t = reader.keys
    key = cython.declare(KeyHash)
    for k in range(count):
        row = k * ROW_WIDTH
        if rows[row + ROW_KEY_SIZE] >= 0 and rows[row + ROW_OFFSET] >= reader.least:
            hash_key(payload, rows[row + ROW_KEY], rows[row + ROW_KEY_SIZE], reader.secret, cython.address(key))
            hashes[2 * keys] = key.high
            hashes[2 * keys + 1] = key.low
            offsets[keys] = rows[row + ROW_OFFSET]
            keys += 1
    reader.keys = keys


def has_no_keys(reader: KeyReader) -> bint:
    """Whether the header of the next batch shows that no key of it is wanted."""
    at: Py_ssize_t = reader.frame * BATCH_WIDTH
    return reader.frames[at + BATCH_MAGIC] == MAGIC_V2 and (
        reader.verdicts[reader.frame] & SKIP
        or reader.frames[at + BATCH_ATTRIBUTES] & CONTROL
        or reader.frames[at + BATCH_COUNT] == 0
        or reader.frames[at + BATCH_LAST_OFFSET] < reader.least
    )
