"""Reads records into columns in the layout of Apache Arrow.

`Collector.collect` reads the rows of many plain frames (`kseg.kernel.records.cursor`), `keep` filters rows, `fitting`
finds the rows that fit a size. The other functions fill one column each. Numbers are int64 or int32. A bit of ``valid``
is set for each value that is not null; the first row is the least significant bit of the first byte. The functions
raise ValueError if a buffer is too short.

ROW_CHECK of every row, of any format, has the valid bit and the timestamp type, as for v0 in `kseg.kernel.layout.rows`.

``wanted`` (WANTED_*): FIRST and LAST offset, EARLIEST and LATEST timestamp in ms, both ends included.
"""

import cython
from cython import Py_ssize_t, bint, longlong
from cython.cimports.kseg.kernel.codecs.expand import ExpansionBuffer
from cython.cimports.kseg.kernel.records.cursor import FrameCursor, extend, leave, read_rows, use_frames, use_rows
from cython.cimports.kseg.kernel.records.messages import kind_in, kind_of, row_check, time_of
from cython.cimports.kseg.kernel.records.records import header_bytes

if not cython.compiled:  # kseg._build declares these constants for C
    # Columns of ``wanted``.
    WANTED_FIRST, WANTED_LAST, WANTED_EARLIEST, WANTED_LATEST, WANTED_WIDTH = range(5)

    # Parts of a row.
    KEYS = 1
    VALUES = 2
    HEADERS = 4

# Keys, values or headers of rows, copied end to end, and rows selected by their key. Ends are Arrow's offsets: int32,
# one more than there are rows. Rows that point outside the payload are a ValueError.


def gather(
    payload: BytesIn,
    rows: Int64sIn,
    first: Py_ssize_t,
    stop: Py_ssize_t,
    width: Py_ssize_t,
    field: Py_ssize_t,
    data: BytesOut,
    ends: Int32sOut,
    valid: BytesOut,
    at: Py_ssize_t,
) -> int:
    """Copies the bytes of ``field`` of the rows: a column of positions in ``payload``, the next column has the sizes.

    They are written from data[ends[at]] on, their ends to ends[at + 1] and on. Returns the last end; -1 if ``data`` is
    too short, and then the written bytes are undefined. ``width``: columns of the rows, of records or headers.
    """
    capacity: Py_ssize_t = len(data)
    length: Py_ssize_t = len(payload)
    if not (0 <= field < width - 1 and 0 <= first <= stop <= len(rows) // width):
        raise ValueError("no such rows")
    check_range(len(ends), at + 1, stop - first)
    check_range(8 * len(valid), at, stop - first)
    if ends[at] < 0 or ends[at] > capacity or capacity > INT32_MAX:
        raise ValueError("no such place in the data")
    p, fields, out, out_ends, bits = (
        bytes_in(payload), int64s_in(rows[first * width + field :]), bytes_out(data), int32s_out(ends), bytes_out(valid)
    )  # fmt: skip
    filled = ends[at]
    with cython.nogil:
        for k in range(stop - first):
            position = fields[k * width]
            size = fields[k * width + 1]
            if size >= 0:
                if position < 0 or size > length or position > length - size:
                    filled = NO_SUCH_BYTES
                    break
                if size > capacity - filled:
                    filled = OUTPUT_FULL
                    break
                filled = put_bytes(out, filled, p, position, size)
                bits[(at + k) >> 3] |= 1 << ((at + k) & 7)
            out_ends[at + k + 1] = cython.cast(cython.int, filled)
    if filled == NO_SUCH_BYTES:
        raise ValueError("a row points outside the payload")
    return filled


def keep_key(payload: BytesIn, rows: Int64sOut, count: Py_ssize_t, key: BytesIn) -> int:
    """Moves the rows with this key to the front. Returns their number. A null key equals no key."""
    kept: Py_ssize_t = 0
    length: Py_ssize_t = len(payload)
    size: Py_ssize_t = len(key)
    if count < 0 or count > len(rows) // ROW_WIDTH:
        raise ValueError("no such rows")
    p, out, wanted = bytes_in(payload), int64s_out(rows), bytes_in(key)
    with cython.nogil:
        for k in range(count):
            at = k * ROW_WIDTH
            if out[at + ROW_KEY_SIZE] != size:
                continue
            position = out[at + ROW_KEY]
            if position < 0 or size > length or position > length - size:
                kept = NO_SUCH_BYTES
                break
            if not are_same_bytes(p, position, size, wanted, 0, size):
                continue
            if kept != k:
                for f in range(ROW_WIDTH):
                    out[kept * ROW_WIDTH + f] = out[at + f]
            kept += 1
    if kept == NO_SUCH_BYTES:
        raise ValueError("a row points outside the payload")
    return kept


def check_range(length, first, count):
    """Raises ValueError unless a table of ``length`` rows has ``count`` of them from ``first`` on."""
    if first < 0 or count < 0 or first > length - count:
        raise ValueError("no such rows, or no such place in a column")


ALL_BITS = cython.declare(cython.int, 255)


class Collector(FrameCursor):
    """Reads rows of many plain frames into buffers with ``row_count`` rows and ``header_count`` header rows so far.

    A uniform collector reads only uncompressed frames without a producer, and with equal ``magic``, ``kind`` of
    timestamps (NO_TIME, CREATE_TIME, APPEND_TIME) and, if that is APPEND_TIME, ``time`` in ms; their offsets are not
    below ``next_offset``, which follows them. It leaves the frame behind them to the caller.
    """

    def __init__(self, frame, next_offset=None):
        FrameCursor.__init__(self, frame)
        self.row_count = self.header_count = 0
        self.is_uniform = next_offset is not None
        self.next_offset = self.reached = next_offset or 0
        self.is_begun = False
        self.magic = self.kind = self.time = 0

    def collect(
        self,
        buf: BytesIn,
        frames: Int64sIn,
        stop: Py_ssize_t,
        wanted: Int64sIn,
        rows: Int64sOut,
        headers: Int64sOut,
        expansion: ExpansionBuffer = None,
    ) -> int:
        """Appends the rows of the frames from ``frame`` up to ``stop``.

        Returns DONE; FULL: use the rows and headers, set both counts to 0 and call again; NOT_PLAIN: the caller must
        open the frame; MORE_HEADERS: one record has more headers than fit, ``headers`` must grow to ``needed`` rows.
        Positions of rows are in ``buf``, or in ``expansion`` if the collector `is_expanded`. Intact
        frames whose header excludes all ``wanted`` records are skipped; of others every row is written.
        """
        status: cython.int = NEEDS_BUFFER
        asked = int64s_in(wanted, WANTED_WIDTH)
        check_length(len(headers), HEADER_WIDTH)
        if not (self.row_count >= 0 and 0 <= self.header_count <= len(headers) // HEADER_WIDTH):
            raise ValueError("no such place among the rows")
        self.table.row_count, self.table.header_count = self.row_count, self.header_count
        use_rows(self, rows, headers)
        use_frames(self, buf, frames, stop, FRAME_WIDTH, expansion, None)
        self.refused = ALL_BITS - LOG_APPEND_TIME if self.is_uniform else CONTROL
        while status == NEEDS_BUFFER:
            with cython.nogil:
                status = collect_rows(self, asked)
            if status == NEEDS_BUFFER:
                status = extend(self, expansion)
        self.row_count, self.header_count = self.table.row_count, self.table.header_count
        return status


def is_outside(collector: Collector, wanted: Columns) -> bint:
    """Whether the header of the next frame excludes it: a control batch, or no wanted offset or timestamp."""
    p: Bytes = collector.p
    at: Py_ssize_t = collector.frames[collector.frame * FRAME_WIDTH + FRAME_POSITION]
    magic: longlong = collector.frames[collector.frame * FRAME_WIDTH + FRAME_MAGIC]
    if magic < 0 or magic > MAGIC_V2:
        return False
    first = be64(p, at)
    if magic == MAGIC_V2:
        return (
            (p[at + V2_FLAGS] & CONTROL) != 0
            or first > wanted[WANTED_LAST]
            or sum_of(first, be32(p, at + V2_LAST_OFFSET_DELTA)) < wanted[WANTED_FIRST]
            or be64(p, at + V2_MAX_TIMESTAMP) < wanted[WANTED_EARLIEST]
        )
    # The offset of a compressed message is the last one inside, its timestamp the largest one.
    return (
        first < wanted[WANTED_FIRST]
        or (first > wanted[WANTED_LAST] and (p[at + LEGACY_FLAGS] & CODEC) == 0)
        or (magic == 1 and be64(p, at + V1_TIMESTAMP) < wanted[WANTED_EARLIEST])
    )


def continues_run(collector: Collector) -> bint:
    """Whether the next frame may be read in the call of a uniform collector; sets the fields that it decides on."""
    p: Bytes = collector.p
    row: Py_ssize_t = collector.frame * FRAME_WIDTH
    at: Py_ssize_t = collector.frames[row + FRAME_POSITION]
    magic: longlong = collector.frames[row + FRAME_MAGIC]
    delta: longlong = 0
    if not collector.is_begun:
        collector.magic = magic
    if not collector.frames[row + FRAME_STATE] & CRC_RIGHT or not 0 <= magic <= MAGIC_V2 or magic != collector.magic:
        return False
    if magic < MAGIC_V2:
        if p[at + LEGACY_FLAGS] & (ALL_BITS - LOG_APPEND_TIME * magic):
            return False
    elif be64(p, at + V2_PRODUCER_ID) != -1 or be32(p, at + V2_COUNT) <= 0 or p[at + V2_ATTRIBUTES]:
        return False
    else:
        delta = be32(p, at + V2_LAST_OFFSET_DELTA)
    if be64(p, at) < collector.next_offset or delta < 0 or be64(p, at) >= INT64_MAX - delta:
        return False
    kind = kind_of(p, at, magic)
    if not collector.is_begun:
        collector.kind, collector.time = kind, time_of(p, at, magic)
    elif kind != collector.kind or (kind == APPEND_TIME and time_of(p, at, magic) != collector.time):
        return False
    collector.reached = be64(p, at) + delta + 1
    return True


def collect_rows(collector: Collector, wanted: Columns) -> cython.int:
    while collector.frame < collector.stop:
        at = collector.frame * FRAME_WIDTH
        if collector.is_uniform:
            if not collector.is_open and not continues_run(collector):
                return NOT_PLAIN
        elif not collector.is_open and collector.frames[at + FRAME_STATE] & CRC_RIGHT and is_outside(collector, wanted):
            collector.frame += 1
            continue
        if collector.table.row_count >= collector.table.row_capacity:
            return FULL
        status = read_rows(collector)
        if status != DONE:
            # The rows before must be used first: they need the buffer.
            return FULL if status != NOT_PLAIN and collector.table.row_count else status
        collector.is_begun = True
        collector.next_offset = collector.reached
        if collector.frames[at + FRAME_MAGIC] == MAGIC_V2:
            check = row_check(0, True, APPEND_TIME if collector.area.header.is_append_time else CREATE_TIME)
            for k in range(collector.first_row, collector.table.row_count):
                collector.table.rows[k * ROW_WIDTH + ROW_CHECK] = check
        leave(collector, collector.table.row_count)
    return DONE


def stamp(rows: Int64sOut, count: Py_ssize_t, kind: longlong) -> None:
    """Sets ROW_CHECK of rows of a v2 batch that were read elsewhere, as `Collector.collect` does."""
    check: longlong = row_check(0, True, kind)
    check_range(len(rows) // ROW_WIDTH, 0, count)
    for k in range(count):
        rows[k * ROW_WIDTH + ROW_CHECK] = check


def count_invalid(rows: Int64sIn, count: Py_ssize_t) -> int:
    """Returns the number of rows of messages with a wrong checksum."""
    wrong: Py_ssize_t = 0
    check_range(len(rows) // ROW_WIDTH, 0, count)
    for k in range(count):
        wrong += not (rows[k * ROW_WIDTH + ROW_CHECK] >> CHECK_VALID_SHIFT) & 1
    return wrong


def keep(rows: Int64sOut, count: Py_ssize_t, wanted: Int64sIn) -> int:
    """Moves the rows that are valid and wanted to the front. Returns their number.

    A row without a timestamp is wanted only if all timestamps are.
    """
    kept: Py_ssize_t = 0
    check_range(len(rows) // ROW_WIDTH, 0, count)
    check_length(len(wanted), WANTED_WIDTH)
    first: longlong = wanted[WANTED_FIRST]
    last: longlong = wanted[WANTED_LAST]
    earliest: longlong = wanted[WANTED_EARLIEST]
    latest: longlong = wanted[WANTED_LATEST]
    any_time: bint = earliest == -INT64_MAX - 1 and latest == INT64_MAX
    for k in range(count):
        at = k * ROW_WIDTH
        check = rows[at + ROW_CHECK]
        if not (check >> CHECK_VALID_SHIFT) & 1 or rows[at + ROW_OFFSET] < first or rows[at + ROW_OFFSET] > last:
            continue
        time = rows[at + ROW_TIMESTAMP]
        if not any_time and (time == -1 or kind_in(check) == NO_TIME or time < earliest or time > latest):
            continue
        if kept != k:
            for f in range(ROW_WIDTH):
                rows[kept * ROW_WIDTH + f] = rows[at + f]
        kept += 1
    return kept


def fitting(
    rows: Int64sIn, headers: Int64sIn, first: Py_ssize_t, stop: Py_ssize_t, parts: cython.int, left: longlong
) -> tuple:
    """Returns the end of the rows from ``first`` on whose parts fit into ``left`` bytes, and the bytes left.

    ``parts``: KEYS, VALUES and HEADERS combined by or: the parts of a row that count.
    """
    check_range(len(rows) // ROW_WIDTH, first, stop - first)
    for k in range(first, stop):
        at = k * ROW_WIDTH
        size = max(rows[at + ROW_KEY_SIZE], 0) if parts & KEYS else 0
        if parts & VALUES:
            size += max(rows[at + ROW_VALUE_SIZE], 0)
        if parts & HEADERS and rows[at + ROW_HEADER_COUNT]:
            check_range(len(headers) // HEADER_WIDTH, rows[at + ROW_HEADERS], rows[at + ROW_HEADER_COUNT])
            size += header_bytes(int64s_in(headers), rows[at + ROW_HEADERS], rows[at + ROW_HEADER_COUNT])
        if size > left:
            return k, left
        left -= size
    return stop, left


def kinds(rows: Int64sIn, first: Py_ssize_t, stop: Py_ssize_t, out: Int32sOut, at: Py_ssize_t) -> None:
    """Writes timestamp types as Kafka's ids from out[at] on: -1 none, 0 CreateTime, 1 LogAppendTime."""
    check_range(len(rows) // ROW_WIDTH, first, stop - first)
    check_range(len(out), at, stop - first)
    for k in range(first, stop):
        out[at + k - first] = cython.cast(cython.int, kind_in(rows[k * ROW_WIDTH + ROW_CHECK]) - CREATE_TIME)


def times(
    rows: Int64sIn,
    first: Py_ssize_t,
    stop: Py_ssize_t,
    scale: longlong,
    out: Int64sOut,
    valid: BytesOut,
    at: Py_ssize_t,
) -> int:
    """Writes timestamps times ``scale`` (1 for ms, 1000 for us) from out[at] on. Returns how many overflow.

    Null if there is none (-1, or a format without timestamps), or if the product overflows int64, as by damage or a
    wrong clock.
    """
    overflows: Py_ssize_t = 0
    check_range(len(rows) // ROW_WIDTH, first, stop - first)
    check_range(len(out), at, stop - first)
    check_range(8 * len(valid), at, stop - first)
    if scale < 1:
        raise ValueError("no such scale")
    limit = INT64_MAX // scale
    for k in range(first, stop):
        i = at + k - first
        time = rows[k * ROW_WIDTH + ROW_TIMESTAMP]
        out[i] = 0
        if time != -1 and kind_in(rows[k * ROW_WIDTH + ROW_CHECK]) != NO_TIME:
            if -limit <= time <= limit:
                out[i] = time * scale
                valid[i >> 3] |= 1 << (i & 7)
            else:
                overflows += 1
    return overflows


def header_ends(rows: Int64sIn, first: Py_ssize_t, stop: Py_ssize_t, ends: Int32sOut, at: Py_ssize_t) -> int:
    """Writes the ends of the headers of each row from ends[at + 1] on. Returns the last one.

    ends[at] is the end of the preceding headers. Raises ValueError if an end exceeds int32.
    """
    check_range(len(rows) // ROW_WIDTH, first, stop - first)
    check_range(len(ends), at, stop - first + 1)
    total = ends[at]
    for k in range(first, stop):
        total += rows[k * ROW_WIDTH + ROW_HEADER_COUNT]
        if total > 0x7FFFFFFF:
            raise ValueError("too many headers")
        ends[at + 1 + k - first] = cython.cast(cython.int, total)
    return total


def headers_of(rows: Int64sIn, first: Py_ssize_t, stop: Py_ssize_t, headers: Int64sIn, out: Int64sOut) -> int:
    """Copies the header rows of the rows to ``out``. Returns their number."""
    count: Py_ssize_t = 0
    check_range(len(rows) // ROW_WIDTH, first, stop - first)
    for k in range(first, stop):
        at = k * ROW_WIDTH
        if not rows[at + ROW_HEADER_COUNT]:
            continue
        check_range(len(headers) // HEADER_WIDTH, rows[at + ROW_HEADERS], rows[at + ROW_HEADER_COUNT])
        check_range(len(out) // HEADER_WIDTH, count, rows[at + ROW_HEADER_COUNT])
        for h in range(rows[at + ROW_HEADERS], rows[at + ROW_HEADERS] + rows[at + ROW_HEADER_COUNT]):
            for f in range(HEADER_WIDTH):
                out[count * HEADER_WIDTH + f] = headers[h * HEADER_WIDTH + f]
            count += 1
    return count


# Offsets of records by the headers of their v2 batches. The records are neither read nor decompressed.
#
# A header gives them if its batch is intact and has as many records as offsets: a broker assigns consecutive offsets,
# and only compaction makes gaps. Rows of headers: BATCH_*. Times of ``wanted`` are ignored.


def is_given(rows: Columns, batch: Py_ssize_t, max_batch_bytes: longlong) -> bint:
    """Whether the header of a batch gives the offsets of its records."""
    at: Py_ssize_t = batch * BATCH_WIDTH
    first: longlong = rows[at + BATCH_FIRST_OFFSET]
    last: longlong = rows[at + BATCH_LAST_OFFSET]
    codec: longlong = rows[at + BATCH_ATTRIBUTES] & CODEC
    record_bytes: longlong = max_batch_bytes if codec else rows[at + BATCH_SIZE] - V2_HEADER_BYTES
    if not rows[at + BATCH_STATE] & CRC_RIGHT or rows[at + BATCH_MAGIC] != MAGIC_V2 or codec > HIGHEST_CODEC:
        return False
    if first < 0 or last < first or rows[at + BATCH_COUNT] != last - first + 1:
        return False
    return rows[at + BATCH_COUNT] <= record_bytes // MIN_RECORD_BYTES


class HeaderOffsets:
    """The position of a pass over headers: ``batch`` is the next one, ``delta`` its first offset that is not passed.

    No batch is taken by its header if it has more records than fit into ``max_batch_bytes``.
    """

    def __init__(self, max_batch_bytes):
        self.batch = 0
        self.delta = 0
        self.max_batch_bytes = max_batch_bytes

    def fill(self, rows: Int64sIn, stop: Py_ssize_t, wanted: Int64sIn, out: Int64sOut, at: Py_ssize_t) -> int:
        """Writes the wanted offsets from out[at] on, and returns where they end.

        It stops where ``out`` is full, at a batch whose header does not give its offsets, and at the batch ``stop``.
        Raises ValueError if a buffer is too short.
        """
        check_length(len(wanted), WANTED_WIDTH)
        if not 0 <= at <= len(out):
            raise ValueError("no such place in the column")
        check_range(len(rows) // BATCH_WIDTH, self.batch, stop - self.batch)
        headers, asked, offsets = int64s_in(rows), int64s_in(wanted), int64s_out(out)
        capacity: Py_ssize_t = len(out)
        with cython.nogil:
            while self.batch < stop and is_given(headers, self.batch, self.max_batch_bytes):
                row = self.batch * BATCH_WIDTH
                first = max(headers[row + BATCH_FIRST_OFFSET] + self.delta, asked[WANTED_FIRST])
                last = min(headers[row + BATCH_LAST_OFFSET], asked[WANTED_LAST])
                if not headers[row + BATCH_ATTRIBUTES] & CONTROL and first <= last:
                    count = min(last - first + 1, capacity - at)
                    for k in range(count):
                        offsets[at + k] = first + k
                    at += count
                    if count < last - first + 1:
                        self.delta = first + count - headers[row + BATCH_FIRST_OFFSET]
                        break
                self.batch += 1
                self.delta = 0
        return at

    def next_given(self, rows: Int64sIn, stop: Py_ssize_t) -> int:
        """Returns the next batch from ``batch`` on whose header gives the offsets, or ``stop``."""
        batch: Py_ssize_t = self.batch
        check_range(len(rows) // BATCH_WIDTH, batch, stop - batch)
        headers = int64s_in(rows)
        while batch < stop and not is_given(headers, batch, self.max_batch_bytes):
            batch += 1
        return batch
