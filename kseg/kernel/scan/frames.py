"""Finds the frames of a segment by their lengths and CRCs, and searches for the next intact frame behind damage.

A frame is an entry with a plausible header. v2 batches and v0/v1 messages start with an int64 offset and an int32
length, 0.7 messages with the length. The length counts the bytes behind it. Rows: FRAME_* of `kseg.kernel.layout.rows`.

A frame with a wrong CRC is still a batch if its length is plausible: it leads to the end of the file, to an intact
frame, or to a header that continues it, and no intact frame begins before that. Otherwise the length is suspect.
"""

import os

import cython
from cython import Py_ssize_t, bint, longlong, pointer
from cython.cimports.kseg.kernel.codecs.expand import Expansion, ExpansionBuffer, use_expansion
from cython.cimports.kseg.kernel.native.search import (
    next_candidate,
    search_from,
    search_state,
    zeros_ahead,
    zeros_in_runs,
)
from cython.cimports.kseg.kernel.records.cursor import Area, check_frames, open_area
from cython.cimports.kseg.kernel.records.messages import Message, is_plain
from cython.cimports.kseg.kernel.records.records import (
    FLAG_ATTRIBUTES,
    FLAG_NOT_RISING,
    FLAG_NULL_KEY,
    FLAG_OUT_OF_RANGE,
    walk_records,
)
from cython.cimports.kseg.kernel.scan.headers import claimed_bytes, could_be_frame, frame_bytes, read_frames

from kseg.kernel.files.system import allocate

if not cython.compiled:  # kseg._build declares these constants for C
    # Bytes for each entry of a table of prefix CRCs.
    BLOCK_BYTES = 256

    # Options of a scan. WALK_RECORDS: check the records too. SKIP_CHECKSUMS: don't compute checksums. LONG_RUNS:
    # count compressed bytes twofold instead of eightfold. ONLY_USUAL: a search takes no batch of v2 with a producer id
    # of more bits, larger flags in the first byte of its attributes, or more records than offsets.
    WALK_RECORDS = 1
    SKIP_CHECKSUMS = 2
    LONG_RUNS = 4
    ONLY_USUAL = 8

    USUAL_PRODUCER_BITS = 48
    MOST_USUAL_FLAGS = 15

    PrefixTable = cython.struct()
    Prefixes = cython.struct(castagnoli=PrefixTable, ieee=PrefixTable)

    from kseg import positioned

    bytes_out = memoryview

native_setup()

# A checksum is checked in a time that does not depend on the length that the frame claims.
# CRCs of suspect frames are computed from prefix CRCs: a table with one entry for each 256 bytes from an anchor on,
# filled on demand. A check of any range then costs the same. Reading stays linear in the size of the file, even if
# every byte begins a header that claims the rest of the file.

MAX_DIRECT_BYTES = cython.declare(Py_ssize_t, 1024)


def crc_of(castagnoli: bint, crc: cython.uint, p: Bytes, start: Py_ssize_t, end: Py_ssize_t) -> cython.uint:
    return crc32c(crc, p, start, end) if castagnoli else crc32(crc, p, start, end)


def prefix_through(
    table: pointer[PrefixTable], castagnoli: bint, p: Bytes, anchor: Py_ssize_t, x: Py_ssize_t
) -> cython.uint:
    """Returns the CRC-32C or CRC-32 of the bytes from the anchor to x, of which the table has all whole blocks."""
    n: Py_ssize_t = table.filled
    k: Py_ssize_t = (x - anchor) // BLOCK_BYTES
    while n <= k:
        at = anchor + (n - 1) * BLOCK_BYTES
        table.crcs[n] = crc_of(castagnoli, table.crcs[n - 1], p, at, at + BLOCK_BYTES) if n else 0
        n += 1
    table.filled = n
    return crc_of(castagnoli, table.crcs[k], p, anchor + k * BLOCK_BYTES, x)


def crc_is_right(prefixes: pointer[Prefixes], p: Bytes, i: Py_ssize_t, after: Py_ssize_t, v07: bint) -> bint:
    """Whether the CRC stored in the frame at i, which ends at ``after``, is right. Its magic must be known."""
    castagnoli: bint = not v07 and p[i + ENTRY_MAGIC] == MAGIC_V2
    if castagnoli:
        start = i + V2_ATTRIBUTES
        stored = stored_crc(p, i + V2_CRC)
    elif v07:
        start = i + V07_MIN_BYTES + p[i + V07_MAGIC]
        stored = stored_crc(p, start - CRC_BYTES)
    else:
        start = i + ENTRY_MAGIC
        stored = stored_crc(p, i + LEGACY_CRC)
    if prefixes.anchor < 0 or i < prefixes.anchor or after - start <= MAX_DIRECT_BYTES:
        return stored == crc_of(castagnoli, 0, p, start, after)
    # Behind foreign bytes most headers are right: these bytes are not read for one, if as many were searched before.
    if prefixes.direct_bytes + after - start <= i - prefixes.anchor:
        prefixes.direct_bytes += after - start
        return stored == crc_of(castagnoli, 0, p, start, after)
    table = cython.address(prefixes.castagnoli) if castagnoli else cython.address(prefixes.ieee)
    before = prefix_through(table, castagnoli, p, prefixes.anchor, start)
    through = prefix_through(table, castagnoli, p, prefixes.anchor, after)
    if castagnoli:
        return stored == crc32c_range(before, through, after - start)
    return stored == crc32_range(before, through, after - start)


class FrameScan:
    """``is_07``: a file of 0.7; ``options``: WALK_RECORDS, SKIP_CHECKSUMS, LONG_RUNS and ONLY_USUAL
    combined by or, or 0.

    ``position``: the next byte to read; ``count``: frames written by the last call. ``budget``: bytes per call, 0: no
    limit; compressed bytes count eightfold, with LONG_RUNS twofold. ``last_offset`` of the frame before the position,
    -1 unknown. ``largest``: the largest plausible length of a frame with a wrong CRC; with 0, or without prefix CRCs,
    such a frame ends the scan. ``largest_offset``: a search takes no frame with a larger one, which a checksum does not
    cover.
    """

    def __init__(self, is_07=False, options=0, position=0):
        if not cython.compiled:
            self.expansion, self.prefixes = Expansion(), Prefixes()
        self.is_07, self.options = is_07, options
        self.position = position
        self.count = 0
        self.budget = self.largest = 0
        self.last_offset = -1
        self.largest_offset = (1 << 63) - 1
        self.resumed, self.unexpandable = 0, -1
        use_expansion(cython.address(self.expansion), None)
        self.forget_prefixes()

    def use_prefixes(self, anchor: Py_ssize_t, size: Py_ssize_t) -> None:
        """Uses prefix CRCs for long frames in the ``size`` bytes from ``anchor`` on."""
        self.prefix_entries = size // BLOCK_BYTES + 2
        self._castagnoli_crcs = allocate(CRC_BYTES * self.prefix_entries).cast("I")
        self._ieee_crcs = allocate(CRC_BYTES * self.prefix_entries).cast("I")
        self.prefixes.castagnoli.crcs = uint32s_out(self._castagnoli_crcs)
        self.prefixes.ieee.crcs = uint32s_out(self._ieee_crcs)
        self.prefixes.castagnoli.filled = self.prefixes.ieee.filled = 0
        self.prefixes.anchor = anchor
        self.prefixes.direct_bytes = 0

    def forget_prefixes(self) -> None:
        """Stops using prefix CRCs."""
        self.prefixes.anchor = -1
        self.prefix_entries = 0
        self._castagnoli_crcs = self._ieee_crcs = None

    @property
    def has_prefixes(self) -> bool:
        return self.prefixes.anchor >= 0

    def check(self, length: Py_ssize_t, end: Py_ssize_t) -> None:
        """Raises ValueError if a buffer of ``length`` bytes or the prefix tables end before ``end``."""
        if end > length or self.position < 0:
            raise ValueError("a buffer is too short")
        if self.prefixes.anchor >= 0 and (end - self.prefixes.anchor) // BLOCK_BYTES >= self.prefix_entries:
            raise ValueError("a prefix table is too short")


# Plausibility of bytes without a valid checksum: whether a header continues the preceding batch, and runs of zeros.
#
# The header is at ``p[i]``; no byte at ``end`` or behind is read. ``v07``: a file of 0.7, whose messages begin with
# their length.

INT62_MAX = cython.declare(longlong, 0x3FFFFFFFFFFFFFFF)
# Bits of attributes that no release sets.
UNUSED_FLAG = cython.declare(cython.int, 0x80)
UNUSED_V0 = cython.declare(cython.int, 0xF8)
UNUSED_V1 = cython.declare(cython.int, 0xF0)
KEY_SIZE_BYTES = cython.declare(Py_ssize_t, 4)
SNAPPY_START = cython.declare(longlong, -0x7DACB1BEAFAFA700)
LZ4_START = cython.declare(longlong, 0x04224D18)


def offset_continues(offset, last_offset):
    """Whether a batch may begin at ``offset`` after ``last_offset`` (-1: unknown)."""
    return offset >= 0 and (last_offset < 0 or 0 < offset - last_offset <= INT32_MAX)


def goes_on(p: Bytes, i: Py_ssize_t, end: Py_ssize_t, last_offset: longlong) -> bint:
    """`continues` for the bytes [i, end), of which at most 61 are read."""
    if end - i < MIN_MESSAGE_BYTES or p[i + ENTRY_MAGIC] > MAGIC_V2 or not offset_continues(be64(p, i), last_offset):
        return False
    size = be32(p, i + ENTRY_SIZE) + ENTRY_OVERHEAD
    if p[i + ENTRY_MAGIC] < MAGIC_V2:
        return message_sizes_fit(p, i, end if end - i < V2_HEADER_BYTES else i + V2_HEADER_BYTES, size)
    if size < V2_HEADER_BYTES or end - i < V2_HEADER_BYTES or p[i + V2_ATTRIBUTES] or p[i + V2_FLAGS] & UNUSED_FLAG:
        return False
    if (p[i + V2_FLAGS] & CODEC) > HIGHEST_CODEC:
        return False
    last_delta = be32(p, i + V2_LAST_OFFSET_DELTA)
    count = be32(p, i + V2_COUNT)
    return (
        0 <= count <= last_delta + 1
        and (p[i + V2_FLAGS] & CODEC or count * MIN_RECORD_BYTES <= size - V2_HEADER_BYTES)
        and be32(p, i + V2_LEADER_EPOCH) >= -1
        and be64(p, i + V2_PRODUCER_ID) >= -1
        and be16(p, i + V2_PRODUCER_EPOCH) >= -1
        and be32(p, i + V2_BASE_SEQUENCE) >= -1
    )


def message_sizes_fit(p: Bytes, i: Py_ssize_t, end: Py_ssize_t, size: longlong) -> bint:
    """Whether key and value fill the ``size`` bytes of the v0 or v1 entry exactly, judged by the bytes before end."""
    magic: cython.int = p[i + ENTRY_MAGIC]
    attributes: cython.int = p[i + LEGACY_FLAGS]
    at: Py_ssize_t = i + V0_HEADER_BYTES + V1_TIMESTAMP_BYTES * magic
    least: longlong = at - i + SIZES_BYTES
    if attributes & (UNUSED_V1 if magic else UNUSED_V0) or attributes & CODEC > LZ4 or size < least:
        return False
    if end < at + KEY_SIZE_BYTES:
        return False
    key_size = be32(p, at)
    if not -1 <= key_size <= size - least:
        return False
    key_size = max(key_size, 0)
    if key_size > end - at - SIZES_BYTES:
        return True
    value_size = be32(p, at + KEY_SIZE_BYTES + key_size)
    return value_size >= -1 and size == least + key_size + max(value_size, 0)


def last_offset_at(p: Bytes, i: Py_ssize_t, end: Py_ssize_t) -> longlong:
    """Returns the last offset of the header at i, unchecked; the largest int64 if the sum overflows."""
    last: longlong = be64(p, i)
    if MAGIC_V2 <= p[i + ENTRY_MAGIC] < 128 and end - i >= V2_BASE_TIMESTAMP:
        delta = be32(p, i + V2_LAST_OFFSET_DELTA)
        if delta > 0:
            return last + delta if last <= INT64_MAX - delta else INT64_MAX
        if last >= 0:
            return last + delta
    return last


def compressed_end(p: Bytes, i: Py_ssize_t, end: Py_ssize_t, last_offset: longlong) -> longlong:
    """Returns the end of the compressed v0 or v1 message at i, computed from its key and value sizes.

    Returns i if there is no such message, or if it does not continue ``last_offset`` (-1: unknown).
    """
    if end - i < MIN_MESSAGE_BYTES or p[i + ENTRY_MAGIC] >= MAGIC_V2:
        return i
    at = i + MIN_MESSAGE_BYTES + V1_TIMESTAMP_BYTES * p[i + ENTRY_MAGIC]
    codec = p[i + LEGACY_FLAGS] & CODEC
    if not GZIP <= codec <= LZ4 or end < at or not offset_continues(be64(p, i), last_offset):
        return i
    size = be32(p, at - KEY_SIZE_BYTES)
    if be32(p, at - SIZES_BYTES) != -1 or size < 0:
        return i
    # Random bytes can look like such a header, and must not hide an intact message behind them: if the length is wrong
    # the data must begin with the magic number of gzip, of Kafka's snappy framing or of an lz4 frame.
    if at + size != i + ENTRY_OVERHEAD + be32(p, i + ENTRY_SIZE):
        begins: bint = False
        if codec == GZIP:
            begins = end - at >= 2 and p[at] == 0x1F and p[at + 1] == 0x8B
        elif codec == SNAPPY:
            begins = end - at >= 8 and be64(p, at) == SNAPPY_START
        else:
            begins = end - at >= 4 and be32(p, at) == LZ4_START
        if not begins:
            return i
    return at + size


def claimed_end(buffer: BytesIn, position: Py_ssize_t, end: Py_ssize_t, v07: bint, largest: longlong) -> int:
    """Returns the end of the entry at a position by its length field, 0 if that is not plausible (`claimed_bytes`).

    Raises ValueError if the position or ``end`` is outside the buffer.
    """
    if position < 0 or end > len(buffer):
        raise ValueError("no such bytes")
    size = claimed_bytes(bytes_in(buffer), position, end, v07, largest) if position < end else 0
    return position + size if size else 0


def continues(head: BytesIn, last_offset: longlong) -> bool:
    """Whether ``head``, up to 61 bytes, is plausible as the header of the batch behind ``last_offset`` (-1: unknown).

    Checks fields that are rarely right in random bytes: offset, magic, attributes, and counts or key and value sizes.
    Neither the CRC nor the end of the batch is checked.
    """
    return bool(goes_on(bytes_in(head), 0, len(head), last_offset))


def leading_zeros(buffer: BytesIn) -> int:
    """Returns the number of zero bytes at the start of a buffer."""
    return zeros_ahead(bytes_in(buffer), 0, len(buffer))


def long_zeros(buffer: BytesIn, least: Py_ssize_t) -> int:
    """Returns the number of zero bytes of a buffer in runs of at least ``least``."""
    return zeros_in_runs(bytes_in(buffer), 0, len(buffer), least)


# Checks every record of a frame without keeping it: the main work of a full verification.
#
# Compressed v2 batches are decompressed into an `ExpansionBuffer` (`kseg.kernel.codecs.expand`), which the caller
# extends if necessary. A frame without RECORDS_RIGHT may still be valid: the caller must open gzip, snappy,
# compressed v0 and v1 messages, and malformed records.


def walk_frame(scan: FrameScan, p: Bytes, i: Py_ssize_t, size: longlong) -> cython.int:
    """Checks the records of the frame at i, whose CRC is right. Returns bits of STATE: 0, RECORDS_RIGHT and NULL_KEYS.

    -1: the caller must extend the expansion buffer and call again, or treat the result as 0.
    """
    area = cython.declare(Area)
    message = cython.declare(Message)
    if p[i + ENTRY_MAGIC] < MAGIC_V2:
        if not is_plain(p, i, size, p[i + ENTRY_MAGIC], cython.address(message)):
            return 0
        return RECORDS_RIGHT | NULL_KEYS if message.key_size < 0 else RECORDS_RIGHT
    status = open_area(p, i, size, cython.address(scan.expansion), 0, cython.address(area))
    if status != DONE:
        return -1 if status == NEEDS_BUFFER else 0
    if area.header.count == 0:
        return RECORDS_RIGHT if area.header.last_offset_delta >= -1 else 0
    status = walk_records(area.payload, area.end, cython.address(area.walk), cython.address(area.header))
    if status != DONE or area.walk.flags & (FLAG_NOT_RISING | FLAG_OUT_OF_RANGE | FLAG_ATTRIBUTES):
        return 0
    if area.walk.largest_timestamp != area.header.max_timestamp:
        return 0
    return RECORDS_RIGHT | NULL_KEYS if area.walk.flags & FLAG_NULL_KEY else RECORDS_RIGHT


COMPRESSED_WEIGHT = cython.declare(longlong, 8)
LIGHT_WEIGHT = cython.declare(longlong, 2)


def is_frame(scan: FrameScan, p: Bytes, i: Py_ssize_t, size: longlong, wrong: Py_ssize_t) -> bint:
    """Whether the frame of ``size`` bytes at i is intact. The CRC of the frame at ``wrong`` is known to be wrong."""
    if scan.options & SKIP_CHECKSUMS:
        # An empty message of 0.7 has no field to check but its length.
        return scan.is_07 or could_be_frame(p, i, size, False)
    return i != wrong and crc_is_right(cython.address(scan.prefixes), p, i, i + size, scan.is_07)


def scan_frames(scan: FrameScan, p: Bytes, end: Py_ssize_t, rows: OutColumns, capacity: Py_ssize_t) -> cython.int:
    """`scan` without the GIL; NEEDS_BUFFER: extend the expansion buffer and call again."""
    i: Py_ssize_t = scan.position
    n: Py_ssize_t = scan.resumed
    weight: longlong = 0
    status: cython.int = DONE
    v07: bint = scan.is_07
    compressed_weight: longlong = LIGHT_WEIGHT if scan.options & LONG_RUNS else COMPRESSED_WEIGHT
    judges: bint = scan.largest != 0 and scan.prefixes.anchor >= 0
    intact: Py_ssize_t = -1  # an intact frame whose last offset is not yet in the scan
    wrong: Py_ssize_t = -1  # a frame whose CRC is known to be wrong
    while i < end:
        if n >= capacity or (scan.budget > 0 and weight >= scan.budget):
            status = FULL
            break
        size = frame_bytes(p, i, end, v07)
        if size and is_frame(scan, p, i, size, wrong):
            state = CRC_RIGHT
            if scan.options & WALK_RECORDS and not v07:
                found = walk_frame(scan, p, i, size)
                if found < 0 and i != scan.unexpandable:
                    status = NEEDS_BUFFER
                    break
                if found >= 0:
                    state |= found
            intact = i
        else:
            if not judges:
                status = IRREGULAR
                break
            if intact >= 0 and not v07:
                scan.last_offset = last_offset_at(p, intact, end)
            intact = -1
            size = wrong_batch_bytes(scan, p, i, end)
            if size == 0:
                status = IRREGULAR
                break
            if size < 0:
                size = -size
                wrong = i + size
            if not v07 and goes_on(p, i, end, scan.last_offset):
                scan.last_offset = last_offset_at(p, i, end)
            state = 0
        magic = p[i + V07_MAGIC] if v07 else p[i + ENTRY_MAGIC]
        row = n * FRAME_WIDTH
        rows[row + FRAME_POSITION] = i
        rows[row + FRAME_SIZE] = size
        rows[row + FRAME_MAGIC] = magic if magic < 128 else magic - 256
        rows[row + FRAME_STATE] = state
        n += 1
        weight += size
        if not v07 and p[i + (V2_FLAGS if magic == MAGIC_V2 else LEGACY_FLAGS)] & CODEC:
            weight += size * (compressed_weight - 1)
        i += size
    if intact >= 0 and scan.largest and not v07:
        scan.last_offset = last_offset_at(p, intact, end)
    scan.position = i
    scan.count = n
    scan.resumed = n if status == NEEDS_BUFFER else 0
    if status != NEEDS_BUFFER:
        scan.unexpandable = -1
    return status


def wrong_batch_bytes(scan: FrameScan, p: Bytes, i: Py_ssize_t, end: Py_ssize_t) -> longlong:
    """Returns the size of the broken entry at i if its length is plausible, else 0.

    Negative if it leads to a frame whose CRC is wrong too.
    """
    v07: bint = scan.is_07
    size: longlong = claimed_bytes(p, i, end, v07, scan.largest)
    after: Py_ssize_t = i + size
    if size == 0 or after == end:
        return size
    next_size = frame_bytes(p, after, end, v07)
    if next_size and crc_is_right(cython.address(scan.prefixes), p, after, after + next_size, v07):
        if could_be_frame(p, after, next_size, v07):
            return size
        next_size = 0
    if v07:
        return 0
    last = last_offset_at(p, i, end)
    if not 0 <= last <= INT62_MAX:
        last = -1
    if end - after > SHORT_TAIL_BYTES and not goes_on(p, after, end, last):
        return 0
    # An intact batch before that end shows that the length is wrong, and must not be hidden by it.
    if find_behind(scan, p, i, i + 1, after, end) >= 0:
        return 0
    return -size if next_size else size


def is_usual(scan: FrameScan, p: Bytes, i: Py_ssize_t) -> bint:
    """Whether the offset of a frame is not too large, and, with ONLY_USUAL, its header as brokers write them: by
    chance, few are."""
    if be64(p, i) > scan.largest_offset:
        return False
    if p[i + ENTRY_MAGIC] < MAGIC_V2 or not scan.options & ONLY_USUAL:
        return True
    if be64(p, i + V2_PRODUCER_ID) >> USUAL_PRODUCER_BITS > 0 or p[i + V2_ATTRIBUTES] > MOST_USUAL_FLAGS:
        return False
    return be32(p, i + V2_COUNT) <= be32(p, i + V2_LAST_OFFSET_DELTA) + 1


def find_frame(scan: FrameScan, p: Bytes, start: Py_ssize_t, stop: Py_ssize_t, end: Py_ssize_t) -> Py_ssize_t:
    """Returns the first position in [start, stop) at which an intact frame begins, -1 if there is none."""
    i: Py_ssize_t = start
    v07: bint = scan.is_07
    magic_at: Py_ssize_t = V07_MAGIC if v07 else ENTRY_MAGIC
    search = cython.declare(search_state)
    search_from(cython.address(search), start, scan.largest_offset)
    if stop > end - magic_at:
        stop = end - magic_at
    while i < stop:
        i = next_candidate(p, i, stop, end, v07, cython.address(search))
        if i >= stop:
            break
        size = frame_bytes(p, i, end, v07)
        if size and could_be_frame(p, i, size, v07) and (v07 or is_usual(scan, p, i)):
            if crc_is_right(cython.address(scan.prefixes), p, i, i + size, v07):
                return i
        i += 1
    return -1


def find_behind(
    scan: FrameScan, p: Bytes, i: Py_ssize_t, start: Py_ssize_t, stop: Py_ssize_t, end: Py_ssize_t
) -> Py_ssize_t:
    """Returns the first intact frame in [start, stop), -1 if none; messages inside the broken compressed one at i (-1:
    none) are skipped. Sets ``position`` of the scan to the next position to search.

    lz4 and snappy leave messages readable. Such an inner message is uncompressed, and its offset (absolute in v0,
    relative in v1) is not above the offset of its wrapper; in v0 it is also above the last offset before the wrapper.
    """
    inner_end: longlong = 0 if scan.is_07 or i < 0 else compressed_end(p, i, end, scan.last_offset)
    found: Py_ssize_t = find_frame(scan, p, start, stop, end)
    scan.position = stop
    while 0 <= found < inner_end and p[found + ENTRY_MAGIC] < MAGIC_V2 and p[found + LEGACY_FLAGS] & CODEC == 0:
        ahead = be64(p, found) - be64(p, i)
        if 0 < ahead <= INT32_MAX or (p[i + ENTRY_MAGIC] == 0 and be64(p, found) <= scan.last_offset):
            break
        start = found + frame_bytes(p, found, end, scan.is_07)
        if start > stop:
            scan.position = start
        found = find_frame(scan, p, start, stop, end)
    return found


def scan(scan: FrameScan, buffer: BytesIn, end: Py_ssize_t, rows: Int64sOut, expansion: ExpansionBuffer = None) -> int:
    """Finds frames from the position of the scan on, and writes their rows.

    Returns DONE (frames end exactly at ``end``), FULL (rows are full or the budget is spent: call again) or IRREGULAR
    (no intact frame begins at the position, nor one with a wrong CRC and a plausible length, if ``largest`` is set).
    Without ``expansion`` a walk skips compressed frames. Raises ValueError if a buffer is too short.
    """
    scan.check(len(buffer), end)
    p: Bytes = indexable(bytes_in(buffer))
    row: OutColumns = int64s_out(rows)
    capacity: Py_ssize_t = len(rows) // FRAME_WIDTH
    while True:
        use_expansion(cython.address(scan.expansion), expansion)
        with cython.nogil:
            status = scan_frames(scan, p, end, row, capacity)
        if status != NEEDS_BUFFER:
            return status
        if not expansion.extend(buffer[scan.position + V2_FLAGS] & CODEC):
            scan.unexpandable = scan.position  # the frame is skipped


def find(
    scan: FrameScan, buffer: BytesIn, start: Py_ssize_t, stop: Py_ssize_t, end: Py_ssize_t, behind: Py_ssize_t = -1
) -> int:
    """Returns the first position in [start, stop) at which an intact frame begins, or -1. It may end behind stop.

    ``behind``: position of a broken entry; messages inside it are skipped, judged by ``last_offset`` of the scan. A
    search in parts continues at ``position`` of the scan. Raises ValueError if the buffer is too short.
    """
    scan.check(len(buffer), end)
    if start < 0 or start >= end:
        return -1
    if behind >= start:
        behind = -1
    p: Bytes = bytes_in(buffer)
    with cython.nogil:
        found = find_behind(scan, p, behind, start, stop, end)
    return found


def recodable(
    buffer: BytesIn,
    frames: Int64sIn,
    first: Py_ssize_t,
    stop: Py_ssize_t,
    next_offset: longlong,
    kept: cython.int,
    max_bytes: longlong,
) -> tuple[int, int, int]:
    """Finds the run of intact v2 batches from frame ``first`` on that can be recoded: their codec is not ``kept``.

    ``frames`` are rows FRAME_* of ``buffer``. Offsets of the run do not fall below ``next_offset``. It has at most
    ``max_bytes`` bytes, or is a single batch. Returns its end, the next offset and its size in bytes. Raises ValueError
    if frames lie outside the buffer.
    """
    run_bytes: longlong = 0
    check_frames(len(buffer), frames, first, stop, FRAME_WIDTH)
    p, rows = bytes_in(buffer), int64s_in(frames)
    with cython.nogil:
        while first < stop:
            frame = first * FRAME_WIDTH
            at, size = rows[frame + FRAME_POSITION], rows[frame + FRAME_SIZE]
            if rows[frame + FRAME_MAGIC] != MAGIC_V2 or not rows[frame + FRAME_STATE] & CRC_RIGHT:
                break
            if size < V2_HEADER_BYTES or p[at + V2_FLAGS] & CONTROL or be32(p, at + V2_COUNT) <= 0:
                break
            codec = p[at + V2_FLAGS] & CODEC
            if not could_be_frame(p, at, size, False) or codec == kept or codec > HIGHEST_CODEC:
                break
            base, delta = be64(p, at + V2_BASE_OFFSET), be32(p, at + V2_LAST_OFFSET_DELTA)
            if base < next_offset or delta < 0 or base >= INT64_MAX - delta:
                break
            if run_bytes and run_bytes + size > max_bytes:
                break
            run_bytes += size
            next_offset = base + delta + 1
            first += 1
    return first, next_offset, run_bytes


def move_frames(rows: Int64sOut, by: longlong) -> None:
    """Moves the positions of all frames (FRAME_*) by a number of bytes."""
    at: Py_ssize_t = FRAME_POSITION
    while at < len(rows):
        rows[at] += by
        at += FRAME_WIDTH


# Scans a file window by window in one call, without the GIL.
#
# Threads can thus scan parts of a file in parallel. A window is read, its frames are found and their headers are read
# (`kseg.kernel.scan.headers`) while it is in the processor's cache.


class WindowedScan:
    """A scan over the intact frames of a file of magic 0 to 2, from ``origin`` up to ``end``.

    All positions are relative to ``base``, the start of the segment in the file of the descriptor.

    ``options`` and ``scan``: see `FrameScan`. The window starts at ``origin`` and has ``filled`` bytes. If
    a caller sets ``filled`` to 0, the next call reads the window again from ``position`` on, the next byte to scan, and
    it may be larger then. ``frame_count``: frames found in the last window. ``header_count``: header rows written; the
    caller resets it to 0.
    """

    def __init__(self, descriptor, origin, end, options, base=0):
        self.descriptor = descriptor
        self.base = base
        self.origin = origin
        self.end = end
        self.filled = self.frame_count = self.header_count = 0
        self.has_more = False
        self.scan = FrameScan(False, options)

    @property
    def position(self):
        return self.origin + self.scan.position

    def follow(
        self,
        end_position: longlong,
        window: BytesOut,
        frames: Int64sOut,
        headers: Int64sOut,
        expansion: ExpansionBuffer = None,
    ) -> int:
        """Finds intact frames, and writes their rows to ``frames`` and their header rows to ``headers``.

        Returns DONE (end of file), FULL (the headers are full, or the position has reached ``end_position``),
        NOT_PLAIN (frames of the window, the last ``frame_count`` header rows, lack RECORDS_RIGHT: check them, then
        call again) or IRREGULAR (no intact frame begins at the position, or it does not fit into the window). Without
        ``headers`` every window ends with NOT_PLAIN. Raises OSError, and ValueError for inconsistent buffers.
        """
        status: longlong = NEEDS_BUFFER
        check_length(len(window), 1)
        self.window, self.window_bytes = bytes_out(window), len(window)
        self.frames, self.frame_capacity = int64s_out(frames, FRAME_WIDTH), len(frames) // FRAME_WIDTH
        self.headers, self.header_capacity = int64s_out(headers), len(headers) // BATCH_WIDTH
        if not 0 <= self.filled <= self.window_bytes or not 0 <= self.header_count <= self.header_capacity:
            raise ValueError("no such place in a buffer")
        while status == NEEDS_BUFFER:
            use_expansion(cython.address(self.scan.expansion), expansion)
            with cython.nogil:
                status = follow_windows(self, end_position)
            if status == NEEDS_BUFFER and not expansion.extend(window[self.scan.position + V2_FLAGS] & CODEC):
                self.scan.unexpandable = self.scan.position  # the frame is skipped
        if status < 0:
            raise OSError(-status, os.strerror(-status))
        return status


def read_window(windows: WindowedScan) -> longlong:
    """Moves the rest to the front and reads behind it. Returns the number of bytes read, or an error as read_at."""
    start: Py_ssize_t = windows.scan.position
    rest: Py_ssize_t = windows.filled - start
    if start > 0 and rest > 0:
        put_bytes(windows.window, 0, windows.window, start, rest)
    windows.origin += start
    windows.filled = rest
    windows.scan.position = 0
    size: longlong = windows.window_bytes
    if rest >= ENTRY_OVERHEAD:
        # Up to the end of a frame that fills most of the window, and the next length.
        wanted = be32(windows.window, ENTRY_SIZE) + 2 * ENTRY_OVERHEAD
        if max(size // 2, rest) < wanted <= size:
            size = wanted
    size = min(size, windows.end - windows.origin) - rest
    if cython.compiled:
        got = read_at(windows.descriptor, windows.window + rest, size, windows.base + windows.origin + rest)
    else:
        data = positioned.read_at(windows.descriptor, size, windows.base + windows.origin + rest)
        got = len(data)
        windows.window[rest : rest + got] = data
    if got < 0:
        return got
    windows.filled += got
    return got


def follow_windows(windows: WindowedScan, end_position: longlong) -> longlong:
    """`WindowedScan.follow` without the GIL. Returns its result, NEEDS_BUFFER, or a negated errno."""
    data: Bytes
    while True:
        if not windows.has_more:
            if windows.filled and windows.scan.position == 0:
                return IRREGULAR
            if windows.origin + windows.scan.position >= end_position:
                return FULL
            got = read_window(windows)
            if got < 0:
                return got
            if windows.filled <= 0:
                return DONE
            windows.has_more = True
        capacity = windows.frame_capacity
        if windows.header_capacity:
            if windows.header_count == windows.header_capacity:
                return FULL
            capacity = min(capacity, windows.header_capacity - windows.header_count)
        data = indexable(windows.window)
        status = scan_frames(windows.scan, data, windows.filled, windows.frames, capacity)
        if status == NEEDS_BUFFER:
            return NEEDS_BUFFER
        windows.has_more = status == FULL
        windows.frame_count = windows.scan.count
        if windows.frame_count == 0:
            continue
        if windows.header_capacity:
            row = windows.header_count * BATCH_WIDTH
            read_frames(data, windows.frames, windows.frame_count, False, windows.origin, windows.headers, row)
            windows.header_count += windows.frame_count
        proven: longlong = RECORDS_RIGHT if windows.header_capacity else 0
        if windows.scan.options & WALK_RECORDS:
            for k in range(windows.frame_count):
                proven &= windows.frames[k * FRAME_WIDTH + FRAME_STATE]
        if not proven:
            return NOT_PLAIN
