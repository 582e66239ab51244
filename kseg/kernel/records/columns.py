"""Reads records into columns in the layout of Apache Arrow.

`Collector.collect` reads the rows of many plain frames (`kseg.kernel.records.plain`), `keep` filters rows, `fitting`
finds the rows that fit a size. The other functions fill one column each. Numbers are int64 or int32. A bit of ``valid``
is set for each value that is not null; the first row is the least significant bit of the first byte. Columns of bytes:
`kseg.kernel.records.column_bytes`. The functions raise ValueError if a buffer is too short.

ROW_CHECK of every row, of any format, has the valid bit and the timestamp type, as for v0 in `kseg.kernel.layout.rows`.

``wanted`` (WANTED_*): FIRST and LAST offset, EARLIEST and LATEST timestamp in ms, both ends included.
"""

import cython
from cython.cimports.kseg.kernel.layout.headers import (
    APPEND_TIME,
    CODEC,
    CONTROL,
    CREATE_TIME,
    ENTRY_OFFSET,
    LEGACY_FLAGS,
    LOG_APPEND_TIME,
    MAGIC_V2,
    NO_TIME,
    V1_TIMESTAMP,
    V2_BASE_OFFSET,
    V2_FLAGS,
    V2_LAST_OFFSET_DELTA,
    V2_MAX_TIMESTAMP,
)
from cython.cimports.kseg.kernel.layout.pointers import bytes_in, int64s_in, int64s_out
from cython.cimports.kseg.kernel.layout.rows import (
    CHECK_KIND_BITS,
    CHECK_KIND_SHIFT,
    CHECK_VALID_SHIFT,
    CRC_RIGHT,
    FRAME_MAGIC,
    FRAME_POSITION,
    FRAME_STATE,
    FRAME_WIDTH,
    HEADER_KEY_SIZE,
    HEADER_VALUE_SIZE,
    HEADER_WIDTH,
    ROW_CHECK,
    ROW_HEADER_COUNT,
    ROW_HEADERS,
    ROW_KEY_SIZE,
    ROW_OFFSET,
    ROW_TIMESTAMP,
    ROW_VALUE_SIZE,
    ROW_WIDTH,
    be32,
    be64,
    sum_of,
)
from cython.cimports.kseg.kernel.records.column_bytes import check_capacity
from cython.cimports.kseg.kernel.records.messages import row_check
from cython.cimports.kseg.kernel.records.plain import (
    DONE,
    FULL,
    MORE_HEADERS,
    PassPosition,
    PlainFrames,
    check_frames,
    enter,
    leave,
)

PLENTY = cython.declare(cython.Py_ssize_t, 0x3FFFFFFFFFFFFFFF)
INT64_MAX = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)


def is_outside(p, frame, wanted):
    """Whether the header of an intact frame excludes it: a control batch, or no wanted offset or timestamp."""
    at: cython.Py_ssize_t = frame[FRAME_POSITION]
    first: cython.longlong
    if frame[FRAME_MAGIC] == MAGIC_V2:
        first = be64(p, at + V2_BASE_OFFSET)
        return (
            (p[at + V2_FLAGS] & CONTROL) != 0
            or first > wanted[WANTED_LAST]
            or sum_of(first, be32(p, at + V2_LAST_OFFSET_DELTA)) < wanted[WANTED_FIRST]
            or be64(p, at + V2_MAX_TIMESTAMP) < wanted[WANTED_EARLIEST]
        )
    if frame[FRAME_MAGIC] == 0 or frame[FRAME_MAGIC] == 1:
        # The offset of a compressed message is the last one inside, its timestamp the largest one.
        first = be64(p, at + ENTRY_OFFSET)
        return (
            first < wanted[WANTED_FIRST]
            or (first > wanted[WANTED_LAST] and (p[at + LEGACY_FLAGS] & CODEC) == 0)
            or (frame[FRAME_MAGIC] == 1 and be64(p, at + V1_TIMESTAMP) < wanted[WANTED_EARLIEST])
        )
    return False


def kind_of(check):
    return (check >> CHECK_KIND_SHIFT) & CHECK_KIND_BITS


class Collector(PassPosition):
    """Reads rows of many plain frames into buffers with ``row_count`` rows and ``header_count`` header rows so far."""

    def __init__(self, frame):
        PassPosition.__init__(self)
        self.row_count = self.header_count = 0
        if not cython.compiled:
            self.plain = PlainFrames()
        self.frame = frame

    def collect(
        self,
        buf: cython.const[cython.uchar][::1],
        frames: cython.const[cython.longlong][::1],
        stop: cython.Py_ssize_t,
        wanted: cython.const[cython.longlong][::1],
        rows: cython.longlong[::1],
        headers: cython.longlong[::1],
    ) -> int:
        """Appends the rows of the frames from ``frame`` up to ``stop``.

        Returns DONE; FULL: use the rows and headers, set both counts to 0 and call again; NOT_PLAIN: the caller must
        open the frame; MORE_HEADERS: one record has more headers than fit, ``headers`` must grow to ``needed`` rows.
        Intact frames whose header excludes all ``wanted`` records are skipped; of others every row is written.
        """
        status: cython.int
        row_capacity: cython.Py_ssize_t = len(rows) // ROW_WIDTH
        header_capacity: cython.Py_ssize_t = len(headers) // HEADER_WIDTH
        if len(wanted) < WANTED_WIDTH or not row_capacity or not header_capacity:
            raise ValueError("a buffer is too short")
        if not (0 <= self.row_count <= row_capacity and 0 <= self.header_count <= header_capacity):
            raise ValueError("no such place among the rows")
        check_frames(len(buf), frames, self.frame, stop)
        self.plain.p = bytes_in(buf)
        self.plain.frames = int64s_in(frames)
        self.plain.refused = CODEC | CONTROL
        self.plain.table.rows = int64s_out(rows)
        self.plain.table.row_capacity = row_capacity
        self.plain.table.row_count = self.row_count
        self.plain.table.headers = int64s_out(headers)
        self.plain.table.header_capacity = header_capacity
        self.plain.table.header_count = self.header_count
        asked = int64s_in(wanted)
        with cython.nogil:
            status = collect_rows(self, stop, asked)
        self.row_count = self.plain.table.row_count
        self.header_count = self.plain.table.header_count
        return status


def collect_rows(collector, stop, wanted):
    plain: cython.pointer[PlainFrames] = cython.address(collector.plain)
    frame: cython.pointer[cython.const[cython.longlong]]
    status: cython.int
    at: cython.Py_ssize_t
    k: cython.Py_ssize_t
    kind: cython.longlong
    check: cython.longlong
    while collector.frame < stop:
        at = collector.frame * FRAME_WIDTH
        frame = plain.frames + at if cython.compiled else plain.frames[at : at + FRAME_WIDTH]
        if collector.position == 0 and frame[FRAME_STATE] & CRC_RIGHT and is_outside(plain.p, frame, wanted):
            collector.frame += 1
            continue
        if plain.table.row_count >= plain.table.row_capacity:
            return FULL
        status = enter(plain, at, collector, PLENTY)
        if status == MORE_HEADERS and plain.table.header_count:
            return FULL
        if status != DONE:
            return status
        if frame[FRAME_MAGIC] == MAGIC_V2:
            kind = APPEND_TIME if plain.p[frame[FRAME_POSITION] + V2_FLAGS] & LOG_APPEND_TIME else CREATE_TIME
            check = row_check(0, True, kind)
            for k in range(plain.first_row, plain.table.row_count):
                plain.table.rows[k * ROW_WIDTH + ROW_CHECK] = check
        leave(plain, at, collector, plain.table.row_count)
    return DONE


def stamp(rows: cython.longlong[::1], count: cython.Py_ssize_t, kind: cython.longlong) -> None:
    """Sets ROW_CHECK of rows of a v2 batch that were read elsewhere, as `Collector.collect` does."""
    k: cython.Py_ssize_t
    check: cython.longlong = row_check(0, True, kind)
    check_rows(len(rows), count)
    for k in range(count):
        rows[k * ROW_WIDTH + ROW_CHECK] = check


def count_invalid(rows: cython.const[cython.longlong][::1], count: cython.Py_ssize_t) -> int:
    """Returns the number of rows of messages with a wrong checksum."""
    k: cython.Py_ssize_t
    wrong: cython.Py_ssize_t = 0
    check_rows(len(rows), count)
    for k in range(count):
        wrong += not (rows[k * ROW_WIDTH + ROW_CHECK] >> CHECK_VALID_SHIFT) & 1
    return wrong


def keep(rows: cython.longlong[::1], count: cython.Py_ssize_t, wanted: cython.const[cython.longlong][::1]) -> int:
    """Moves the rows that are valid and wanted to the front. Returns their number.

    A row without a timestamp is wanted only if all timestamps are.
    """
    k: cython.Py_ssize_t
    f: cython.Py_ssize_t
    at: cython.Py_ssize_t
    kept: cython.Py_ssize_t = 0
    check: cython.longlong
    check_rows(len(rows), count)
    if len(wanted) < WANTED_WIDTH:
        raise ValueError("a buffer is too short")
    first: cython.longlong = wanted[WANTED_FIRST]
    last: cython.longlong = wanted[WANTED_LAST]
    earliest: cython.longlong = wanted[WANTED_EARLIEST]
    latest: cython.longlong = wanted[WANTED_LATEST]
    any_time: cython.bint = earliest == -INT64_MAX - 1 and latest == INT64_MAX
    for k in range(count):
        at = k * ROW_WIDTH
        check = rows[at + ROW_CHECK]
        if not (check >> CHECK_VALID_SHIFT) & 1 or rows[at + ROW_OFFSET] < first or rows[at + ROW_OFFSET] > last:
            continue
        if not any_time and (
            kind_of(check) == NO_TIME or rows[at + ROW_TIMESTAMP] < earliest or rows[at + ROW_TIMESTAMP] > latest
        ):
            continue
        if kept != k:
            for f in range(ROW_WIDTH):
                rows[kept * ROW_WIDTH + f] = rows[at + f]
        kept += 1
    return kept


def fitting(
    rows: cython.const[cython.longlong][::1],
    headers: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    parts: cython.int,
    left: cython.longlong,
) -> tuple:
    """Returns the end of the rows from ``first`` on whose parts fit into ``left`` bytes, and the bytes left.

    ``parts``: KEYS, VALUES and HEADERS combined by or: the parts of a row that count.
    """
    k: cython.Py_ssize_t
    h: cython.Py_ssize_t
    at: cython.Py_ssize_t
    size: cython.longlong
    check_rows(len(rows), stop)
    for k in range(first, stop):
        at = k * ROW_WIDTH
        size = 0
        if parts & KEYS and rows[at + ROW_KEY_SIZE] > 0:
            size += rows[at + ROW_KEY_SIZE]
        if parts & VALUES and rows[at + ROW_VALUE_SIZE] > 0:
            size += rows[at + ROW_VALUE_SIZE]
        if parts & HEADERS and rows[at + ROW_HEADER_COUNT]:
            check_headers(len(headers), rows[at + ROW_HEADERS], rows[at + ROW_HEADER_COUNT])
            for h in range(rows[at + ROW_HEADERS], rows[at + ROW_HEADERS] + rows[at + ROW_HEADER_COUNT]):
                size += headers[h * HEADER_WIDTH + HEADER_KEY_SIZE]
                if headers[h * HEADER_WIDTH + HEADER_VALUE_SIZE] > 0:
                    size += headers[h * HEADER_WIDTH + HEADER_VALUE_SIZE]
        if size > left:
            return k, left
        left -= size
    return stop, left


def numbers(
    rows: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    field: cython.Py_ssize_t,
    out: cython.longlong[::1],
    at: cython.Py_ssize_t,
) -> None:
    """Writes one column of the rows as int64 from out[at] on."""
    k: cython.Py_ssize_t
    check_rows(len(rows), stop)
    check_capacity(len(out), at, stop - first)
    if not 0 <= field < ROW_WIDTH:
        raise ValueError("no such field")
    for k in range(first, stop):
        out[at + k - first] = rows[k * ROW_WIDTH + field]


def kinds(
    rows: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    out: cython.int[::1],
    at: cython.Py_ssize_t,
) -> None:
    """Writes timestamp types as Kafka's ids from out[at] on: -1 none, 0 CreateTime, 1 LogAppendTime."""
    k: cython.Py_ssize_t
    check_rows(len(rows), stop)
    check_capacity(len(out), at, stop - first)
    for k in range(first, stop):
        out[at + k - first] = cython.cast(cython.int, kind_of(rows[k * ROW_WIDTH + ROW_CHECK]) - CREATE_TIME)


def times(
    rows: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    scale: cython.longlong,
    out: cython.longlong[::1],
    valid: cython.uchar[::1],
    at: cython.Py_ssize_t,
) -> None:
    """Writes timestamps times ``scale`` (1 for ms, 1000 for us) from out[at] on.

    Null if the format has no timestamp, or if the product overflows int64, as by damage or a wrong clock.
    """
    k: cython.Py_ssize_t
    i: cython.Py_ssize_t
    time: cython.longlong
    limit: cython.longlong
    check_rows(len(rows), stop)
    check_capacity(len(out), at, stop - first)
    check_capacity(8 * len(valid), at, stop - first)
    if scale < 1:
        raise ValueError("no such scale")
    limit = INT64_MAX // scale
    for k in range(first, stop):
        i = at + k - first
        time = rows[k * ROW_WIDTH + ROW_TIMESTAMP]
        out[i] = 0
        if kind_of(rows[k * ROW_WIDTH + ROW_CHECK]) != NO_TIME and -limit <= time <= limit:
            out[i] = time * scale
            valid[i >> 3] |= 1 << (i & 7)


def header_ends(
    rows: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    ends: cython.int[::1],
    at: cython.Py_ssize_t,
) -> int:
    """Writes the ends of the headers of each row from ends[at + 1] on. Returns the last one.

    ends[at] is the end of the preceding headers. Raises ValueError if an end exceeds int32.
    """
    k: cython.Py_ssize_t
    total: cython.longlong
    check_rows(len(rows), stop)
    check_capacity(len(ends), at + 1, stop - first)
    total = ends[at]
    for k in range(first, stop):
        total += rows[k * ROW_WIDTH + ROW_HEADER_COUNT]
        if total > 0x7FFFFFFF:
            raise ValueError("too many headers")
        ends[at + 1 + k - first] = cython.cast(cython.int, total)
    return total


def headers_of(
    rows: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    headers: cython.const[cython.longlong][::1],
    out: cython.longlong[::1],
) -> int:
    """Copies the header rows of the rows to ``out``. Returns their number."""
    k: cython.Py_ssize_t
    h: cython.Py_ssize_t
    f: cython.Py_ssize_t
    at: cython.Py_ssize_t
    count: cython.Py_ssize_t = 0
    check_rows(len(rows), stop)
    for k in range(first, stop):
        at = k * ROW_WIDTH
        if not rows[at + ROW_HEADER_COUNT]:
            continue
        check_headers(len(headers), rows[at + ROW_HEADERS], rows[at + ROW_HEADER_COUNT])
        check_headers(len(out), count, rows[at + ROW_HEADER_COUNT])
        for h in range(rows[at + ROW_HEADERS], rows[at + ROW_HEADERS] + rows[at + ROW_HEADER_COUNT]):
            for f in range(HEADER_WIDTH):
                out[count * HEADER_WIDTH + f] = headers[h * HEADER_WIDTH + f]
            count += 1
    return count


def check_rows(length, stop):
    if stop < 0 or stop > length // ROW_WIDTH:
        raise ValueError("no such rows")


def check_headers(length, first, count):
    if first < 0 or count < 0 or first + count > length // HEADER_WIDTH:
        raise ValueError("no such headers")
