"""Plain frames, which kernel loops read without their caller, and the walk over their records.

A frame is plain if its CRC is right, it is uncompressed, and every record is well-formed with a right offset. Control
batches are plain only if the loop accepts them (``refused``). Other frames are left to the caller, whole.

A loop may have to stop at any record because its output is full: `leave` saves the position, `enter` continues there.
"""

import cython
from cython.cimports.kseg.kernel.records.messages import row_check
from cython.cimports.kseg.kernel.records.records import (
    COMPLETE,
    FLAG_NOT_RISING,
    FLAG_OUT_OF_RANGE,
    MORE,
    TOO_MANY_HEADERS,
    RecordCursor,
    append_records,
    begin_records,
    increment_sequence,
    read_records_header,
    walk_records,
)

SIZE_BYTES = cython.declare(cython.Py_ssize_t, 4)  # before a key or value
MAX_VARINT_BYTES = cython.declare(cython.int, 5)
LINE_MARGIN = cython.declare(cython.Py_ssize_t, 1024)
MIN_LINE_BYTES = cython.declare(cython.Py_ssize_t, 80)
MIN_ROWS = cython.declare(cython.Py_ssize_t, 16)
HEADER_MARGIN = cython.declare(cython.Py_ssize_t, 32)


class PassPosition:
    """The position of a pass over plain frames.

    ``frame``: the next frame; ``record``: its next record, at byte ``position``, 0: the frame is not begun.
    ``records``: number of records of all frames so far. ``needed``: required size of a buffer that is too short.
    """

    def __init__(self):
        self.frame = self.position = self.record = self.records = self.needed = 0

    def go_to(self, frame):
        """Sets the next frame, not begun."""
        self.frame = frame
        self.record = self.position = 0


def sequence_after(base, delta):
    """Returns the sequence ``delta`` after ``base``, -1 if there is none."""
    return -1 if base == -1 else increment_sequence(base, delta)


def is_legacy_plain(p, position, size, magic):
    """Whether a v0 or v1 entry is uncompressed, and its key and value fill it exactly."""
    key: cython.Py_ssize_t = SIZE_BYTES + (V0_HEADER_BYTES if magic == 0 else V1_HEADER_BYTES)
    value: cython.Py_ssize_t = key + SIZE_BYTES
    key_size: cython.longlong
    value_size: cython.longlong
    if size < value or p[position + LEGACY_FLAGS] & CODEC:
        return False
    key_size = be32(p, position + key - SIZE_BYTES)
    if key_size < -1 or key_size > size - value:
        return False
    if key_size > 0:
        value += key_size
    value_size = be32(p, position + value - SIZE_BYTES)
    if value_size < -1:
        return False
    return value + (value_size if value_size > 0 else 0) == size


def legacy_row(p, position, magic, rows, row):
    """Writes the row of a plain v0 or v1 entry with a right CRC from column ``row`` on."""
    key: cython.Py_ssize_t = position + SIZE_BYTES + (V0_HEADER_BYTES if magic == 0 else V1_HEADER_BYTES)
    value: cython.Py_ssize_t = key + SIZE_BYTES
    kind: cython.longlong = NO_TIME
    timestamp: cython.longlong = -1
    key_size: cython.longlong = be32(p, key - SIZE_BYTES)
    if magic:
        timestamp = be64(p, position + V1_TIMESTAMP)
        kind = APPEND_TIME if p[position + LEGACY_FLAGS] & LOG_APPEND_TIME else CREATE_TIME
    if key_size > 0:
        value += key_size
    rows[row + ROW_OFFSET] = be64(p, position + ENTRY_OFFSET)
    rows[row + ROW_TIMESTAMP] = timestamp
    rows[row + ROW_SEQUENCE] = -1
    rows[row + ROW_KEY] = key
    rows[row + ROW_KEY_SIZE] = key_size
    rows[row + ROW_VALUE] = value
    rows[row + ROW_VALUE_SIZE] = be32(p, value - SIZE_BYTES)
    rows[row + ROW_HEADERS] = 0
    rows[row + ROW_HEADER_COUNT] = 0
    rows[row + ROW_CHECK] = row_check(stored_crc(p, position + LEGACY_CRC), True, kind)


def has_plain_header(p, frames, at):
    """Whether a batch has no problem in its header, and the header alone suffices to print its line.

    ``at``: its first column in ``frames``.
    """
    position: cython.Py_ssize_t = frames[at + FRAME_POSITION]
    size: cython.Py_ssize_t = frames[at + FRAME_SIZE]
    magic: cython.longlong = frames[at + FRAME_MAGIC]
    if not frames[at + FRAME_STATE] & CRC_RIGHT:
        return False
    if magic == MAGIC_V2:
        return (
            size >= V2_HEADER_BYTES
            and (p[position + V2_FLAGS] & CODEC) <= HIGHEST_CODEC
            and be32(p, position + V2_COUNT) >= 0
        )
    if magic == 0 or magic == 1:
        return is_legacy_plain(p, position, size, cython.cast(cython.int, magic))
    return False


def next_rows(plain, at):
    """Appends rows of the frame from the cursor on; the status is that of `kseg.kernel.records.records`."""
    position: cython.Py_ssize_t = plain.frames[at + FRAME_POSITION]
    magic: cython.int = cython.cast(cython.int, plain.frames[at + FRAME_MAGIC])
    row: cython.Py_ssize_t = plain.table.row_count * ROW_WIDTH
    if magic >= MAGIC_V2:
        return append_records(
            plain.p, position + plain.frames[at + FRAME_SIZE], cython.address(plain.cursor),
            cython.address(plain.header), cython.address(plain.table),
        )  # fmt: skip
    if plain.cursor.index == 0:
        legacy_row(plain.p, position, magic, plain.table.rows, row)
        plain.cursor.index = 1
        plain.table.row_count += 1
    return COMPLETE


def open_frame(plain, at):
    """Checks the whole frame and appends its first rows. COMPLETE, MORE, TOO_MANY_HEADERS; -1 if it is not plain."""
    position: cython.Py_ssize_t = plain.frames[at + FRAME_POSITION]
    size: cython.Py_ssize_t = plain.frames[at + FRAME_SIZE]
    magic: cython.longlong = plain.frames[at + FRAME_MAGIC]
    status: cython.int
    if not plain.frames[at + FRAME_STATE] & CRC_RIGHT:
        return -1
    if magic == MAGIC_V2:
        if size < V2_HEADER_BYTES or plain.p[position + V2_FLAGS] & plain.refused:
            return -1
        read_records_header(plain.p, position, cython.address(plain.header))
        if plain.header.count > 0 and plain.header.count > plain.header.last_offset_delta + 1:
            return -1
        if plain.header.count == 0 and size != V2_HEADER_BYTES:
            return -1
        begin_records(cython.address(plain.cursor), position + V2_HEADER_BYTES, 0)
    elif magic == 0 or magic == 1:
        if not is_legacy_plain(plain.p, position, size, cython.cast(cython.int, magic)):
            return -1
        plain.header.count = 1
        begin_records(cython.address(plain.cursor), position, 0)
    else:
        return -1
    status = next_rows(plain, at)
    if status == MORE and walk_rest(plain, position + size) != COMPLETE:
        return -1
    return -1 if plain.cursor.flags & (FLAG_NOT_RISING | FLAG_OUT_OF_RANGE) else status


def walk_rest(plain, end):
    """Checks the records from the cursor to the end of the batch. Changes only the flags of the cursor."""
    rest = cython.declare(RecordCursor)
    status: cython.int
    begin_records(cython.address(rest), plain.cursor.position, 0)
    rest.index = plain.cursor.index
    rest.last_delta = plain.cursor.last_delta
    status = walk_records(plain.p, end, cython.address(rest), cython.address(plain.header))
    plain.cursor.flags |= rest.flags
    return status


def enter(plain, at, progress, left):
    """Appends the next rows of the frame whose columns begin ``at``. Returns DONE, NOT_PLAIN or MORE_HEADERS.

    ``left``: bytes left in the output. Within a batch it reads no more rows than will fit, as it would read the others
    again.
    """
    capacity: cython.Py_ssize_t = plain.table.row_capacity
    first_header: cython.Py_ssize_t = plain.table.header_count
    line_bytes: cython.Py_ssize_t
    fitting: cython.Py_ssize_t
    status: cython.int
    plain.first_row = plain.table.row_count
    if progress.position == 0:
        status = open_frame(plain, at)
    else:
        plain.header.count = 1
        if plain.frames[at + FRAME_MAGIC] >= MAGIC_V2:
            read_records_header(plain.p, plain.frames[at + FRAME_POSITION], cython.address(plain.header))
        begin_records(cython.address(plain.cursor), progress.position, 0)
        plain.cursor.index = progress.record
        line_bytes = MIN_LINE_BYTES
        if plain.header.count > 0:
            line_bytes += plain.frames[at + FRAME_SIZE] // plain.header.count
        fitting = plain.first_row + left // line_bytes + MIN_ROWS
        if fitting < capacity:
            plain.table.row_capacity = fitting
        status = next_rows(plain, at)
        plain.table.row_capacity = capacity
    if status == COMPLETE or status == MORE:
        return DONE
    # Drop rows of a frame that is not plain or will be read again.
    plain.table.row_count = plain.first_row
    plain.table.header_count = first_header
    if status == TOO_MANY_HEADERS:
        progress.needed = 2 * plain.table.header_capacity + 8
        return MORE_HEADERS
    return NOT_PLAIN


def behind_row(p, table, row):
    """Returns the position behind a v2 record."""
    at: cython.Py_ssize_t = row * ROW_WIDTH
    h: cython.Py_ssize_t
    _: cython.int
    end: cython.longlong
    if table.rows[at + ROW_HEADER_COUNT]:
        h = (table.rows[at + ROW_HEADERS] + table.rows[at + ROW_HEADER_COUNT] - 1) * HEADER_WIDTH
        end = table.headers[h + HEADER_VALUE]
        return end + table.headers[h + HEADER_VALUE_SIZE] if table.headers[h + HEADER_VALUE_SIZE] > 0 else end
    end = table.rows[at + ROW_VALUE]
    if table.rows[at + ROW_VALUE_SIZE] > 0:
        end += table.rows[at + ROW_VALUE_SIZE]
    # The header count follows: a varint of value 0, which may be over-long.
    for _ in range(MAX_VARINT_BYTES - 1):
        if p[end] < 128:
            break
        end += 1
    return end + 1


def leave(plain, at, progress, stop):
    """Saves the position behind row ``stop`` - 1 of the rows that `enter` has appended."""
    taken: cython.Py_ssize_t = stop - plain.first_row
    is_done: cython.bint = False
    if stop == plain.table.row_count:
        is_done = plain.cursor.index >= plain.header.count
        progress.record = plain.cursor.index
        progress.position = plain.cursor.position
    elif taken:
        progress.record += taken
        progress.position = behind_row(plain.p, cython.address(plain.table), stop - 1)
    progress.records += taken
    if is_done:
        progress.frame += 1
        progress.record = 0
        progress.position = 0


def needed_bytes(table, row, capacity):
    """Returns the size of output to request if a record does not fit an empty output of ``capacity`` bytes.

    It suffices for a record without escapes, and is at least twice the capacity. The worst case of escaping, six times
    the size, would be wasted for most records.
    """
    at: cython.Py_ssize_t = row * ROW_WIDTH
    h: cython.Py_ssize_t = table.rows[at + ROW_HEADERS] * HEADER_WIDTH
    _: cython.longlong
    needed: cython.longlong = LINE_MARGIN + HEADER_MARGIN * table.rows[at + ROW_HEADER_COUNT]
    if table.rows[at + ROW_KEY_SIZE] > 0:
        needed += table.rows[at + ROW_KEY_SIZE]
    if table.rows[at + ROW_VALUE_SIZE] > 0:
        needed += table.rows[at + ROW_VALUE_SIZE]
    for _ in range(table.rows[at + ROW_HEADER_COUNT]):
        needed += table.headers[h + HEADER_KEY_SIZE]
        if table.headers[h + HEADER_VALUE_SIZE] > 0:
            needed += table.headers[h + HEADER_VALUE_SIZE]
        h += HEADER_WIDTH
    return needed if needed > 2 * capacity else 2 * capacity


def check_frames(length, frames, first, stop):
    """Raises ValueError unless there are rows of frames first to stop that lie within ``length`` bytes."""
    last: cython.Py_ssize_t = (stop - 1) * FRAME_WIDTH
    if first < 0 or len(frames) < stop * FRAME_WIDTH:
        raise ValueError("no such frames")
    if first < stop and (
        frames[first * FRAME_WIDTH + FRAME_POSITION] < 0
        or frames[last + FRAME_POSITION] + frames[last + FRAME_SIZE] > length
    ):
        raise ValueError("frames reach beyond the buffer")
