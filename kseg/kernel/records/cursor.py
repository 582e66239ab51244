"""Opens frame after frame, of any format and codec that the kernel reads, and reads their records into rows.

A frame is plain if its CRC is right, the kernel can decompress it, and every record is well-formed with a right offset.
Other frames are left to the caller, whole. The loops over records are classes that inherit `FrameCursor`.
"""

import cython
from cython import Py_ssize_t, bint, longlong, pointer, void
from cython.cimports.kseg.kernel.codecs.expand import Expansion, expand_area, use_expansion
from cython.cimports.kseg.kernel.records.messages import Message, is_plain, kind_of, put_row, row_check, time_of
from cython.cimports.kseg.kernel.records.records import (
    FLAG_NOT_RISING,
    FLAG_OUT_OF_RANGE,
    RecordCursor,
    RecordsHeader,
    RecordTable,
    append_records,
    begin_records,
    read_records_header,
    walk_records,
)

if not cython.compiled:  # kseg._build declares these constants for C
    # Where the records of an area are.
    IN_BUFFER, EXPANDED, OPENED = 0, 1, 2

    Area = cython.struct(header=RecordsHeader, walk=RecordCursor)


class FrameCursor:
    """The position of a pass over frames.

    ``frame``: the next frame; ``is_open``: some of its records are read. ``record``: the next row of a call.
    ``records``: number of records of all frames so far. ``needed``: required size of a buffer that is too short.
    ``is_expanded``: the rows of the last call refer to the expansion buffer.
    While a frame is open, calls must get the same bytes and rows.
    """

    def __init__(self, frame=0):
        if not cython.compiled:
            self.expansion, self.area, self.message, self.table = Expansion(), Area(), Message(), RecordTable()
        self.frame = frame
        self.record = self.records = self.needed = 0
        self.is_open = self.is_expanded = False
        self.refused = 0

    def go_to(self, frame):
        """Sets the next frame, not begun."""
        self.frame = frame
        self.record = 0
        self.is_open = False


def use_frames(cursor, buffer, frames, stop, width, expansion, opened):
    """Sets the frames of a call. Raises ValueError unless they lie within the buffer."""
    check_frames(len(buffer), frames, cursor.frame, stop, width)
    cursor.p, cursor.frames, cursor.stop, cursor.width = bytes_in(buffer), int64s_in(frames), stop, width
    cursor.opened_size = -1
    if opened is not None:
        cursor.opened, cursor.opened_size = bytes_in(opened), len(opened)
    use_expansion(cython.address(cursor.expansion), expansion)
    if cursor.area.source == EXPANDED:
        cursor.area.payload = cursor.expansion.out
    else:
        cursor.area.payload = cursor.p if cursor.area.source == IN_BUFFER else cursor.opened
    return 0


def extend(cursor, expansion):
    """Extends the buffer for the next frame. Returns NEEDS_BUFFER if the loop must try again, else NOT_PLAIN."""
    position: Py_ssize_t = cursor.frames[cursor.frame * cursor.width + FRAME_POSITION]
    if not expansion.extend(cursor.p[position + V2_FLAGS] & CODEC):
        return NOT_PLAIN
    use_expansion(cython.address(cursor.expansion), expansion)
    return NEEDS_BUFFER


def use_rows(cursor, rows, headers):
    """Sets the buffers for rows. Raises ValueError if they are shorter than the rows in use."""
    cursor.table.rows, cursor.table.row_capacity = int64s_out(rows), len(rows) // ROW_WIDTH
    cursor.table.headers, cursor.table.header_capacity = int64s_out(headers), len(headers) // HEADER_WIDTH
    return check_length(cursor.table.row_capacity, max(cursor.table.row_count, 1))


def begin_area(area: pointer[Area]) -> cython.int:
    """Begins with the first record. NOT_PLAIN if there are more records than offsets, or than fit into the bytes."""
    count: longlong = area.header.count
    begin_records(cython.address(area.walk), area.first, -1)
    if count == 0:
        return DONE if area.first == area.end else NOT_PLAIN
    if 0 < count <= (area.end - area.first) // MIN_RECORD_BYTES and count <= area.header.last_offset_delta + 1:
        return DONE
    return NOT_PLAIN


def open_area(
    p: Bytes, at: Py_ssize_t, size: Py_ssize_t, expansion: pointer[Expansion], used: Py_ssize_t, area: pointer[Area]
) -> cython.int:
    """Opens the v2 batch at p[at], decompressed behind ``used`` bytes of a buffer. DONE, NOT_PLAIN or NEEDS_BUFFER."""
    if size < V2_HEADER_BYTES:
        return NOT_PLAIN
    read_records_header(p, at, cython.address(area.header))
    area.source, area.payload, area.first, area.end = IN_BUFFER, p, at + V2_HEADER_BYTES, at + size
    if p[at + V2_FLAGS] & CODEC:
        if area.header.count == 0 or not cython.compiled or expansion.out == cython.NULL:
            return NOT_PLAIN
        held = expand_area(
            p[at + V2_FLAGS] & CODEC, MAGIC_V2, p + at + V2_HEADER_BYTES, size - V2_HEADER_BYTES, expansion.out + used,
            expansion.capacity - used, expansion.zstd,
        )  # fmt: skip
        if held < 0:
            return NEEDS_BUFFER if held == BUFFER_FULL else NOT_PLAIN
        area.source, area.payload, area.first, area.end = EXPANDED, expansion.out, used, used + held
    return begin_area(area)


def rest_is_right(area: pointer[Area]) -> bint:
    """Checks the records behind the last one that was read, and their offsets. Reads no further."""
    rest = cython.declare(RecordCursor)
    begin_records(cython.address(rest), area.walk.position, 0)
    rest.index = area.walk.index
    rest.last_delta = area.walk.last_delta
    if walk_records(area.payload, area.end, cython.address(rest), cython.address(area.header)) != DONE:
        return False
    return not (area.walk.flags | rest.flags) & (FLAG_NOT_RISING | FLAG_OUT_OF_RANGE)


def open_frame(cursor: FrameCursor) -> cython.int:
    """Opens the next frame. Returns DONE, NOT_PLAIN, NEEDS_BUFFER, or FULL if the rows of others must be used first.

    All rows refer to the same payload: the buffer, or the expansion buffer.
    """
    area: pointer[Area] = cython.address(cursor.area)
    at: Py_ssize_t = cursor.frame * cursor.width
    position: Py_ssize_t = cursor.frames[at + FRAME_POSITION]
    size: Py_ssize_t = cursor.frames[at + FRAME_SIZE]
    magic: longlong = cursor.frames[at + FRAME_MAGIC]
    used: Py_ssize_t = 0
    if not cursor.frames[at + FRAME_STATE] & CRC_RIGHT or size < ENTRY_OVERHEAD:
        return NOT_PLAIN
    if cursor.table.row_count:
        must_expand: bint = magic == MAGIC_V2 and (cursor.p[position + V2_FLAGS] & CODEC) != 0
        if must_expand != cursor.is_expanded:
            return FULL
        if cursor.is_expanded:
            used = cursor.used
            # If the batch before would not fit, the next may not fit either, and decoding it in part is wasted.
            if cursor.expansion.capacity - used < used - area.first:
                return FULL
    if magic == MAGIC_V2:
        if size < V2_HEADER_BYTES or cursor.p[position + V2_FLAGS] & cursor.refused:
            return NOT_PLAIN
        if cursor.opened_size < 0:
            return open_area(cursor.p, position, size, cython.address(cursor.expansion), used, area)
        read_records_header(cursor.p, position, cython.address(area.header))
        area.source, area.payload, area.first, area.end = OPENED, cursor.opened, 0, cursor.opened_size
        cursor.opened_size = -1
        return begin_area(area)
    if magic > 1 or magic < 0 or not is_plain(
        cursor.p, position, size, cython.cast(cython.int, magic), cython.address(cursor.message)
    ):  # fmt: skip
        return NOT_PLAIN
    area.source, area.payload = IN_BUFFER, cursor.p
    area.header.count = 1
    begin_records(cython.address(area.walk), position, 0)
    return DONE


def read_rows(cursor: FrameCursor) -> cython.int:
    """Opens the next frame unless it is open, and appends its next rows.

    Returns DONE, or as `open_frame`; MORE_HEADERS: one record has more headers than fit. The first call for a frame
    checks all its records.
    """
    area: pointer[Area] = cython.address(cursor.area)
    first_header: Py_ssize_t = cursor.table.header_count
    was_open: bint = cursor.is_open
    status: cython.int = DONE
    if not was_open:
        status = open_frame(cursor)
        if status != DONE:
            return status
    cursor.first_row = cursor.table.row_count
    if cursor.frames[cursor.frame * cursor.width + FRAME_MAGIC] < MAGIC_V2:
        at = area.walk.position
        magic = cursor.message.magic
        put_row(
            cython.address(cursor.message), be64(cursor.p, at + ENTRY_OFFSET), time_of(cursor.p, at, magic),
            row_check(stored_crc(cursor.p, at + LEGACY_CRC), True, kind_of(cursor.p, at, magic)), cursor.table.rows,
            cursor.table.row_count,
        )  # fmt: skip
        cursor.table.row_count += 1
        area.walk.index = 1
        cursor.is_open, cursor.is_expanded = True, False
        return DONE
    status = append_records(
        area.payload, area.end, cython.address(area.walk), cython.address(area.header), cython.address(cursor.table)
    )
    if (status == DONE or (status == FULL and (was_open or rest_is_right(area)))) and not area.walk.flags & (
        FLAG_NOT_RISING | FLAG_OUT_OF_RANGE
    ):
        cursor.is_open = True
        cursor.is_expanded, cursor.used = area.source == EXPANDED, area.end
        return DONE
    cursor.table.row_count = cursor.first_row
    cursor.table.header_count = first_header
    if status == MORE_HEADERS:
        cursor.needed = 2 * cursor.table.header_capacity + 8
        return status
    return NOT_PLAIN


def leave(cursor: FrameCursor, stop: Py_ssize_t) -> void:
    """Marks the rows up to ``stop`` as used. Behind the last one of a frame the next frame follows."""
    cursor.records += stop - cursor.first_row
    cursor.first_row = stop
    if stop == cursor.table.row_count and cursor.area.walk.index >= cursor.area.header.count:
        cursor.frame += 1
        cursor.is_open = False


def check_frames(length, frames, first, stop, width):
    """Raises ValueError unless there are rows of frames first to stop that lie within ``length`` bytes."""
    last: Py_ssize_t = (stop - 1) * width
    if first < 0 or len(frames) < stop * width:
        raise ValueError("no such frames")
    if first < stop and (
        frames[first * width + FRAME_POSITION] < 0 or frames[last + FRAME_POSITION] + frames[last + FRAME_SIZE] > length
    ):
        raise ValueError("frames reach beyond the buffer")
