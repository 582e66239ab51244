"""Changes the codec of v2 batches: selects the batches, checks their records, compresses them and adapts the header.

`expand_batches` only decompresses: many batches into one buffer.
"""

import cython
from cython.cimports.kseg.kernel.codecs.expand import BUFFER_FULL, ExpansionBuffer, expand_batch, pack_area
from cython.cimports.kseg.kernel.native.search import could_be_frame
from cython.cimports.kseg.kernel.records.columns import WANTED_WIDTH, is_outside
from cython.cimports.kseg.kernel.records.plain import check_frames, is_legacy_plain
from cython.cimports.kseg.kernel.records.records import (
    COMPLETE,
    FLAG_NOT_RISING,
    FLAG_OUT_OF_RANGE,
    RecordCursor,
    RecordsHeader,
    begin_records,
    read_records_header,
    walk_records,
)
from cython.cimports.libc.string import memcpy

# Decompresses many v2 batches into one buffer, end to end, for loops over uncompressed frames.
#
# The output of a batch is its header without the codec, then its records. Length and CRC in the header stay those of
# the compressed batch: the bit CRC_RIGHT of FRAME_STATE tells loops not to check them.

NO_CODEC = cython.declare(cython.int, 0xF8)


def expand_frames(p, frames, count, wanted, out, capacity, zstd, expanded):
    """Returns the number of frames expanded; BUFFER_FULL if ``capacity`` is too small for the first."""
    at: cython.Py_ssize_t
    size: cython.Py_ssize_t
    held: cython.Py_ssize_t
    largest: cython.Py_ssize_t = 0
    filled: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t = 0
    while i < count:
        at = frames[i * FRAME_WIDTH + FRAME_POSITION]
        size = frames[i * FRAME_WIDTH + FRAME_SIZE]
        if not frames[i * FRAME_WIDTH + FRAME_STATE] & CRC_RIGHT or frames[i * FRAME_WIDTH + FRAME_MAGIC] != MAGIC_V2:
            return i
        if size <= V2_HEADER_BYTES or not p[at + V2_FLAGS] & CODEC:
            return i
        if not be32(p, at + V2_COUNT):
            return i
        # If the largest batch so far would not fit, the next may not fit either, and decoding it in part is wasted.
        if capacity - filled < V2_HEADER_BYTES + largest:
            return i if i else BUFFER_FULL
        held = 0
        if not is_outside(p, frames, i * FRAME_WIDTH, wanted):
            held = expand_batch(p, at, size, out + filled + V2_HEADER_BYTES, capacity - filled - V2_HEADER_BYTES, zstd)
        if held < 0:
            return i if i or held != BUFFER_FULL else BUFFER_FULL
        memcpy(out + filled, p + at, V2_HEADER_BYTES)
        out[filled + V2_FLAGS] &= NO_CODEC
        expanded[i * FRAME_WIDTH + FRAME_POSITION] = filled
        expanded[i * FRAME_WIDTH + FRAME_SIZE] = V2_HEADER_BYTES + held
        expanded[i * FRAME_WIDTH + FRAME_MAGIC] = 2
        expanded[i * FRAME_WIDTH + FRAME_STATE] = frames[i * FRAME_WIDTH + FRAME_STATE]
        filled += V2_HEADER_BYTES + held
        if held > largest:
            largest = held
        i += 1
    return i


def expand_batches(
    buf: cython.const[cython.uchar][::1],
    frames: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    wanted: cython.const[cython.longlong][::1],
    expansion: ExpansionBuffer,
    expanded: cython.longlong[::1],
) -> int:
    """Expands frames ``first`` to ``stop`` into ``expansion``, and writes their rows FRAME_* to ``expanded``.

    Returns the number of frames expanded; it stops at a frame that it cannot expand and when ``expanded`` is full. 0:
    the caller must open the first frame itself. An interpreted kernel always returns 0. If no record of a frame is
    ``wanted`` (int64[4], see `kseg.kernel.records.columns`), only its header is written.
    Raises ValueError if frames lie outside the buffer.
    """
    found: cython.Py_ssize_t
    p: cython.pointer[cython.const[cython.uchar]]
    asked: cython.pointer[cython.const[cython.longlong]]
    out: cython.pointer[cython.uchar]
    opened: cython.pointer[cython.longlong]
    if not cython.compiled or first >= stop or len(buf) == 0:
        return 0
    if len(expanded) < FRAME_WIDTH or len(wanted) < WANTED_WIDTH:
        raise ValueError("a buffer is too short")
    check_frames(len(buf), frames, first, stop)
    if stop - first > expanded.shape[0] // FRAME_WIDTH:
        stop = first + expanded.shape[0] // FRAME_WIDTH
    p = bytes_in(buf)
    asked = int64s_in(wanted)
    opened = int64s_out(expanded)
    while True:
        out = bytes_out(expansion.out)
        with cython.nogil:
            found = expand_frames(
                p, cython.address(frames[first * FRAME_WIDTH]), stop - first, asked, out, expansion.capacity,
                expansion.zstd, opened,
            )  # fmt: skip
        if found != BUFFER_FULL:
            return found
        if not expansion.extend(buf[frames[first * FRAME_WIDTH + FRAME_POSITION] + V2_FLAGS] & CODEC):
            return 0


LARGEST_OFFSET = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)

native_setup()


class BatchSelection:
    """Selects batches to recode. ``next_offset``: least base offset of the next batch; ``size``: bytes selected."""

    def __init__(self, next_offset=0):
        self.next_offset = next_offset
        self.size = 0

    def select(
        self,
        buffer: cython.const[cython.uchar][::1],
        frames: cython.const[cython.longlong][::1],
        first: cython.Py_ssize_t,
        stop: cython.Py_ssize_t,
        kept: cython.int,
        max_bytes: cython.longlong,
    ) -> int:
        """Returns the end of the run of intact v2 batches from frame ``first`` on whose codec is not ``kept``.

        ``frames`` are rows FRAME_* of ``buffer``. The run has at most ``max_bytes`` bytes, or is a single batch. Raises
        ValueError if frames lie outside the buffer.
        """
        check_frames(len(buffer), frames, first, stop)
        self.size = 0
        return count_selected(self, bytes_in(buffer), int64s_in(frames), first, stop, kept, max_bytes)


def can_recode(p, at, size, kept):
    """Whether a valid v2 batch holds records in a known codec other than ``kept``, and is no control batch."""
    codec: cython.int = p[at + V2_FLAGS] & CODEC
    if size < V2_HEADER_BYTES or p[at + V2_FLAGS] & CONTROL or be32(p, at + V2_COUNT) <= 0:
        return False
    return could_be_frame(p, at, size, False) and codec != kept and codec <= HIGHEST_CODEC


def count_selected(selection, p, frames, first, stop, kept, max_bytes):
    """`BatchSelection.select` for checked buffers: returns the end of the run."""
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t
    frame: cython.Py_ssize_t
    size: cython.longlong
    base: cython.longlong
    delta: cython.longlong
    for i in range(first, stop):
        frame = i * FRAME_WIDTH
        at = frames[frame + FRAME_POSITION]
        size = frames[frame + FRAME_SIZE]
        if (
            frames[frame + FRAME_MAGIC] != MAGIC_V2
            or not frames[frame + FRAME_STATE] & CRC_RIGHT
            or not can_recode(p, at, size, kept)
        ):
            return i
        base = be64(p, at + V2_BASE_OFFSET)
        delta = be32(p, at + V2_LAST_OFFSET_DELTA)
        if base < selection.next_offset or delta < 0 or base >= LARGEST_OFFSET - delta:
            return i
        if selection.size and selection.size + size > max_bytes:
            return i
        selection.size += size
        selection.next_offset = base + delta + 1
    return stop


def check_records(p, at, records, start, end):
    """Whether records[start:end] match the v2 batch header at p[at], with rising offsets in its range."""
    header = cython.declare(RecordsHeader)
    cursor = cython.declare(RecordCursor)
    read_records_header(p, at, cython.address(header))
    if header.count > header.last_offset_delta + 1:
        return False
    begin_records(cython.address(cursor), start, 0)
    if walk_records(records, end, cython.address(cursor), cython.address(header)) != COMPLETE:
        return False
    return not cursor.flags & (FLAG_NOT_RISING | FLAG_OUT_OF_RANGE)


def write_header(out, at, end, codec):
    """Sets length, codec and checksum of the v2 batch out[at:end]."""
    put_big(out, at + ENTRY_SIZE, end - at - ENTRY_OVERHEAD, 4)
    out[at + V2_FLAGS] = out[at + V2_FLAGS] - (out[at + V2_FLAGS] & CODEC) + codec
    put_big(out, at + V2_CRC, crc32c(0, out, at + V2_ATTRIBUTES, end), 4)


class Repacking:
    """Compresses v2 batches again. Not thread-safe. Batches with more than ``largest`` bytes of records are left to the
    caller.

    ``frame``: the next frame; ``size``: bytes in the output. The caller sets both. ``needed``: see FULL.
    """

    def __init__(self, expansion, packer, largest):
        self.expansion = expansion
        self.packer = packer
        self.largest = largest
        self.frame = self.size = 0
        self.needed = 0

    def repack(
        self,
        buffer: cython.const[cython.uchar][::1],
        frames: cython.const[cython.longlong][::1],
        out: cython.uchar[::1],
    ) -> int:
        """Writes the batches of ``buffer`` (rows FRAME_*) from ``frame`` on to ``out``, behind ``size`` bytes.

        Returns DONE, FULL or NEEDS_REPACKING. Batches that the caller must repack have broken or large records,
        or a codec that only Python decompresses. In an interpreted kernel all do.
        """
        status: cython.int = NEEDS_BUFFER
        stop: cython.Py_ssize_t = len(frames) // FRAME_WIDTH
        if self.frame < 0 or not 0 <= self.size <= len(out):
            raise ValueError("no such state")
        if self.frame >= stop:
            return DONE
        check_frames(len(buffer), frames, 0, stop)
        if not cython.compiled or not self.packer.is_usable:
            return NEEDS_REPACKING
        if len(out) == 0:
            self.needed = V2_HEADER_BYTES
            return FULL
        while status == NEEDS_BUFFER:
            with cython.nogil:
                status = pack_frames(
                    self, cython.address(buffer[0]), cython.address(frames[0]), stop, cython.address(out[0]),
                    out.shape[0],
                )  # fmt: skip
            at = frames[self.frame * FRAME_WIDTH + FRAME_POSITION] if status == NEEDS_BUFFER else 0
            if status == NEEDS_BUFFER and not self.expansion.extend(buffer[at + V2_FLAGS] & CODEC):
                return NEEDS_REPACKING
        return status


def pack_frames(repacking, p, frames, stop, out, capacity):
    """`Repacking.repack` without the GIL; NEEDS_BUFFER: extend the expansion buffer and call again."""
    at: cython.Py_ssize_t
    held: cython.Py_ssize_t
    packed: cython.Py_ssize_t
    area: cython.Py_ssize_t
    codec: cython.int
    records: cython.pointer[cython.const[cython.uchar]]
    while repacking.frame < stop:
        at = frames[repacking.frame * FRAME_WIDTH + FRAME_POSITION]
        held = frames[repacking.frame * FRAME_WIDTH + FRAME_SIZE] - V2_HEADER_BYTES
        if held <= 0:
            return NEEDS_REPACKING
        records = p + at + V2_HEADER_BYTES
        codec = p[at + V2_FLAGS] & CODEC
        if codec:
            held = expand_batch(
                p, at, V2_HEADER_BYTES + held, cython.address(repacking.expansion.out[0]),
                repacking.expansion.capacity, repacking.expansion.zstd,
            )  # fmt: skip
            if held < 0:
                return NEEDS_BUFFER if held == BUFFER_FULL else NEEDS_REPACKING
            records = cython.address(repacking.expansion.out[0])
        if held == 0 or held > repacking.largest or not check_records(p, at, records, 0, held):
            return NEEDS_REPACKING
        # An upper bound of the compressed size for libzstd and liblz4.
        repacking.needed = V2_HEADER_BYTES + held + held // 256 + 64
        if capacity - repacking.size < repacking.needed:
            return FULL
        memcpy(out + repacking.size, p + at, V2_HEADER_BYTES)
        area = repacking.size + V2_HEADER_BYTES
        packed = pack_area(repacking.packer, records, held, out + area, capacity - area)
        if packed < 0:
            return NEEDS_REPACKING
        write_header(out, repacking.size, area + packed, repacking.packer.codec)
        repacking.size = area + packed
        repacking.frame += 1
    return DONE


# Finds runs of intact, uncompressed batches with identical header fields, whose records are read in one call.

ALL_BITS = cython.declare(cython.int, 255)


class UniformRun:
    """Finds the longest run of intact, uncompressed batches with identical header fields.

    ``next_offset``: the next batch must not be below. Of the run found: ``kind`` of its timestamps (NO_TIME,
    CREATE_TIME, APPEND_TIME), ``time`` in ms where that is APPEND_TIME, ``timed`` batches that have a timestamp.
    """

    def __init__(self, next_offset=0):
        self.next_offset = next_offset
        self.kind = self.time = self.timed = 0

    def find(
        self,
        buffer: cython.const[cython.uchar][::1],
        frames: cython.const[cython.longlong][::1],
        first: cython.Py_ssize_t,
        stop: cython.Py_ssize_t,
    ) -> int:
        """Returns the end of the run that begins with frame ``first``; ``frames`` are rows FRAME_* of ``buffer``.

        Raises ValueError if frames lie outside the buffer.
        """
        check_frames(len(buffer), frames, first, stop)
        if first >= stop:
            return first
        return count_alike(self, bytes_in(buffer), int64s_in(frames), first, stop)


def is_plain_batch(p, at, size):
    """Whether a v2 batch has valid uncompressed records, and neither producer nor transaction."""
    if size <= V2_HEADER_BYTES or p[at + V2_ATTRIBUTES] or p[at + V2_FLAGS] & (ALL_BITS - LOG_APPEND_TIME):
        return False
    if be64(p, at + V2_PRODUCER_ID) != -1 or be32(p, at + V2_COUNT) <= 0:
        return False
    return check_records(p, at, p, at + V2_HEADER_BYTES, at + size)


def count_alike(run, p, frames, first, stop):
    """`UniformRun.find` for checked buffers: returns the end of the run."""
    i: cython.Py_ssize_t
    frame: cython.Py_ssize_t
    at: cython.Py_ssize_t
    size: cython.Py_ssize_t
    kind: cython.longlong
    time: cython.longlong
    delta: cython.longlong
    magic: cython.longlong = frames[first * FRAME_WIDTH + FRAME_MAGIC]
    run.timed = 0
    for i in range(first, stop):
        frame = i * FRAME_WIDTH
        at = frames[frame + FRAME_POSITION]
        size = frames[frame + FRAME_SIZE]
        if frames[frame + FRAME_MAGIC] != magic or not frames[frame + FRAME_STATE] & CRC_RIGHT:
            return i
        delta = 0
        kind = NO_TIME
        time = -1
        if magic == MAGIC_V2:
            if not is_plain_batch(p, at, size):
                return i
            delta = be32(p, at + V2_LAST_OFFSET_DELTA)
            kind = APPEND_TIME if p[at + V2_FLAGS] & LOG_APPEND_TIME else CREATE_TIME
            time = be64(p, at + V2_MAX_TIMESTAMP)
        elif magic == 0 or magic == 1:
            if not is_legacy_plain(p, at, size, cython.cast(cython.int, magic)):
                return i
            if p[at + LEGACY_FLAGS] & (ALL_BITS - LOG_APPEND_TIME * magic):
                return i
            if magic == 1:
                kind = APPEND_TIME if p[at + LEGACY_FLAGS] & LOG_APPEND_TIME else CREATE_TIME
                time = be64(p, at + V1_TIMESTAMP)
        else:
            return i
        if be64(p, at) < run.next_offset or delta < 0 or be64(p, at) >= LARGEST_OFFSET - delta:
            return i
        if i == first:
            run.kind = kind
            run.time = time
        elif kind != run.kind or (kind == APPEND_TIME and time != run.time):
            return i
        run.next_offset = be64(p, at) + delta + 1
        run.timed += time >= 0
    return stop
