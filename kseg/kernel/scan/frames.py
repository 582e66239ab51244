"""Finds the frames of a segment by their lengths and CRCs, and searches for the next intact frame behind damage.

A frame is an entry with a plausible header. v2 batches and v0/v1 messages start with an int64 offset and an int32
length, 0.7 messages with the length. The length counts the bytes behind it. Rows: FRAME_* of `kseg.kernel.layout.rows`.

A frame with a wrong CRC is still a batch if its length is plausible: it leads to the end of the file, to an intact
frame, or to a header that continues it, and no intact frame begins before that. Otherwise the length is suspect.
"""

import cython
from cython.cimports.kseg.kernel.codecs.expand import ExpansionBuffer
from cython.cimports.kseg.kernel.native.search import (
    could_be_frame,
    frame_bytes,
    next_candidate,
    search_from,
    search_state,
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
from cython.cimports.kseg.kernel.scan.frame_scan import (
    LONG_RUNS,
    MOST_USUAL_FLAGS,
    ONLY_USUAL,
    SKIP_CHECKSUMS,
    USUAL_PRODUCER_BITS,
    WALK_RECORDS,
    FrameScan,
    crc_is_right,
)
from cython.cimports.kseg.kernel.scan.plausibility import (
    SHORT_TAIL_BYTES,
    claimed_bytes,
    compressed_end,
    goes_on,
    last_offset_at,
    last_offset_claimed,
)

# Checks every record of a frame without keeping it: the main work of a full verification.
#
# Compressed v2 batches are decompressed into an `ExpansionBuffer` (`kseg.kernel.codecs.expand`), which the caller
# extends if necessary. A frame without RECORDS_RIGHT may still be valid: the caller must open gzip, snappy,
# compressed v0 and v1 messages, and malformed records.


def walk_frame(scan, p, i, size):
    """Checks the records of the frame at i, whose CRC is right. Returns bits of STATE: 0, RECORDS_RIGHT and NULL_KEYS.

    -1: the caller must extend the expansion buffer and call again, or treat the result as 0.
    """
    area = cython.declare(Area)
    message = cython.declare(Message)
    if p[i + ENTRY_MAGIC] < MAGIC_V2:
        if not is_plain(p, i, size, p[i + ENTRY_MAGIC], cython.address(message)):
            return 0
        scan.records += 1
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
    scan.records += area.header.count
    return RECORDS_RIGHT | NULL_KEYS if area.walk.flags & FLAG_NULL_KEY else RECORDS_RIGHT


COMPRESSED_WEIGHT = cython.declare(cython.longlong, 8)
LIGHT_WEIGHT = cython.declare(cython.longlong, 2)


def is_frame(scan, p, i, size, wrong):
    """Whether the frame of ``size`` bytes at i is intact. The CRC of the frame at ``wrong`` is known to be wrong."""
    if scan.options & SKIP_CHECKSUMS:
        # An empty message of 0.7 has no field to check but its length.
        return scan.is_07 or could_be_frame(p, i, size, False)
    return i != wrong and crc_is_right(cython.address(scan.prefixes), p, i, i + size, scan.is_07)


def weight_of(scan, p, i, size):
    """Returns the number of bytes that a frame takes from the budget."""
    if scan.is_07 or not (p[i + V2_FLAGS] if p[i + ENTRY_MAGIC] == MAGIC_V2 else p[i + LEGACY_FLAGS]) & CODEC:
        return size
    return size * (LIGHT_WEIGHT if scan.options & LONG_RUNS else COMPRESSED_WEIGHT)


def scan_frames(scan, p, end, rows, capacity):
    """`scan` without the GIL; NEEDS_BUFFER: extend the expansion buffer and call again."""
    i: cython.Py_ssize_t = scan.position
    n: cython.Py_ssize_t = scan.resumed
    weight: cython.longlong = 0
    status: cython.int = DONE
    v07: cython.bint = scan.is_07
    judges: cython.bint = scan.largest != 0 and scan.prefixes.anchor >= 0
    intact: cython.Py_ssize_t = -1  # an intact frame whose last offset is not yet in the scan
    wrong: cython.Py_ssize_t = -1  # a frame whose CRC is known to be wrong
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
        weight += weight_of(scan, p, i, size)
        i += size
    if intact >= 0 and scan.largest and not v07:
        scan.last_offset = last_offset_at(p, intact, end)
    scan.position = i
    scan.count = n
    scan.resumed = n if status == NEEDS_BUFFER else 0
    if status != NEEDS_BUFFER:
        scan.unexpandable = -1
    return status


def wrong_batch_bytes(scan, p, i, end):
    """Returns the size of the broken entry at i if its length is plausible, else 0.

    Negative if it leads to a frame whose CRC is wrong too.
    """
    v07: cython.bint = scan.is_07
    size: cython.longlong = claimed_bytes(p, i, end, v07, scan.largest)
    after: cython.Py_ssize_t = i + size
    if size == 0 or after == end:
        return size
    next_size = frame_bytes(p, after, end, v07)
    if next_size and crc_is_right(cython.address(scan.prefixes), p, after, after + next_size, v07):
        if could_be_frame(p, after, next_size, v07):
            return size
        next_size = 0
    if v07 or (end - after > SHORT_TAIL_BYTES and not goes_on(p, after, end, last_offset_claimed(p, i, end))):
        return 0
    # An intact batch before that end shows that the length is wrong, and must not be hidden by it.
    if find_behind(scan, p, i, i + 1, after, end) >= 0:
        return 0
    return -size if next_size else size


def is_usual(scan, p, i):
    """Whether the offset of a frame is not too large, and, with ONLY_USUAL, its header as brokers write them: by
    chance, few are."""
    if be64(p, i) > scan.largest_offset:
        return False
    if p[i + ENTRY_MAGIC] < MAGIC_V2 or not scan.options & ONLY_USUAL:
        return True
    if be64(p, i + V2_PRODUCER_ID) >> USUAL_PRODUCER_BITS > 0 or p[i + V2_ATTRIBUTES] > MOST_USUAL_FLAGS:
        return False
    return be32(p, i + V2_COUNT) <= be32(p, i + V2_LAST_OFFSET_DELTA) + 1


def find_frame(scan, p, start, stop, end):
    """Returns the first position in [start, stop) at which an intact frame begins, -1 if there is none."""
    i: cython.Py_ssize_t = start
    v07: cython.bint = scan.is_07
    magic_at: cython.Py_ssize_t = V07_MAGIC if v07 else ENTRY_MAGIC
    search = cython.declare(search_state)
    search_from(cython.address(search), start, scan.largest_offset)
    if stop > end - magic_at:
        stop = end - magic_at
    while i < stop:
        i = next_candidate(p, i, stop, end, v07, cython.address(search))
        if i >= stop:
            break
        if v07 or is_usual(scan, p, i):
            if crc_is_right(cython.address(scan.prefixes), p, i, i + frame_bytes(p, i, end, v07), v07):
                return i
        i += 1
    return -1


def find_behind(scan, p, i, start, stop, end):
    """Returns the first intact frame in [start, stop), -1 if none; messages inside the broken compressed one at i (-1:
    none) are skipped. Sets ``position`` of the scan to the next position to search.

    lz4 and snappy leave messages readable. Such an inner message is uncompressed, and its offset (absolute in v0,
    relative in v1) is not above the offset of its wrapper; in v0 it is also above the last offset before the wrapper.
    """
    inner_end: cython.longlong = 0 if scan.is_07 or i < 0 else compressed_end(p, i, end, scan.last_offset)
    found: cython.Py_ssize_t = find_frame(scan, p, start, stop, end)
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


def scan(
    scan: FrameScan, buffer: BytesIn, end: cython.Py_ssize_t, rows: Int64sOut, expansion: ExpansionBuffer = None
) -> int:
    """Finds frames from the position of the scan on, and writes their rows.

    Returns DONE (frames end exactly at ``end``), FULL (rows are full or the budget is spent: call again) or IRREGULAR
    (no intact frame begins at the position, nor one with a wrong CRC and a plausible length, if ``largest`` is set).
    Without ``expansion`` a walk skips compressed frames. Raises ValueError if a buffer is too short.
    """
    scan.check(len(buffer), end)
    if scan.position >= end:
        scan.count = 0
        return DONE
    p: cython.pointer[cython.const[cython.uchar]] = indexable(bytes_in(buffer))
    row: cython.pointer[cython.longlong] = int64s_out(rows)
    capacity: cython.Py_ssize_t = len(rows) // FRAME_WIDTH
    while True:
        scan.use_expansion(expansion)
        with cython.nogil:
            status = scan_frames(scan, p, end, row, capacity)
        if status != NEEDS_BUFFER:
            return status
        if not expansion.extend(buffer[scan.position + V2_FLAGS] & CODEC):
            scan.unexpandable = scan.position  # the frame is skipped


def all_proven(rows, count):
    """Whether all these frames have RECORDS_RIGHT."""
    all_right: cython.longlong = RECORDS_RIGHT
    for k in range(count):
        all_right &= rows[k * FRAME_WIDTH + FRAME_STATE]
    return all_right != 0


def find(
    scan: FrameScan,
    buffer: BytesIn,
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    behind: cython.Py_ssize_t = -1,
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
    p: cython.pointer[cython.const[cython.uchar]] = bytes_in(buffer)
    with cython.nogil:
        found = find_behind(scan, p, behind, start, stop, end)
    return found


def recodable(
    buffer: BytesIn,
    frames: Int64sIn,
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    next_offset: cython.longlong,
    kept: cython.int,
    max_bytes: cython.longlong,
) -> tuple[int, int, int]:
    """Finds the run of intact v2 batches from frame ``first`` on that can be recoded: their codec is not ``kept``.

    ``frames`` are rows FRAME_* of ``buffer``. Offsets of the run do not fall below ``next_offset``. It has at most
    ``max_bytes`` bytes, or is a single batch. Returns its end, the next offset and its size in bytes. Raises ValueError
    if frames lie outside the buffer.
    """
    run_bytes: cython.longlong = 0
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
