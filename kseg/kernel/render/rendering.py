"""Prints batches and records as text or JSON Lines, in one pass over plain frames.

`kseg.kernel.render.lines` writes the lines. Keys and values of internal topics are decoded by a program
(`kseg.formats.program`).
"""

import cython
from cython import Py_ssize_t, bint, longlong, pointer
from cython.cimports.kseg.kernel.codecs.expand import ExpansionBuffer
from cython.cimports.kseg.kernel.native.escape import put
from cython.cimports.kseg.kernel.records.cursor import FrameCursor, extend, leave, read_rows, use_frames, use_rows
from cython.cimports.kseg.kernel.records.messages import is_plain, kind_of
from cython.cimports.kseg.kernel.records.records import content_bytes, header_bytes
from cython.cimports.kseg.kernel.render.lines import (
    CONTENTS,
    DEEP,
    LINE_ONLY,
    SKIP_METADATA,
    Line,
    put_contents,
    put_fields,
    put_json_batch,
    put_metadata,
    put_text_batch,
)
from cython.cimports.kseg.kernel.render.schema import UNREADABLE, Job, put_decoded

MIN_OUTPUT_BYTES = 4096
NO_ROW = cython.declare(Py_ssize_t, -1)
PADDED_HEADER_BYTES = cython.declare(Py_ssize_t, 64)
# Free bytes that a new line requires, besides its context, and the bytes reserved behind its limit.
TEXT_MARGIN = cython.declare(Py_ssize_t, 1024)
JSON_MARGIN = cython.declare(Py_ssize_t, 1536)
DECODED_MARGIN = cython.declare(Py_ssize_t, 2048)
TAIL = cython.declare(Py_ssize_t, 512)
DECODED_TAIL = cython.declare(Py_ssize_t, 1024)
# Bytes of a line without key, value and headers, and of a header without its key and value.
LINE_MARGIN = cython.declare(Py_ssize_t, 1024)
HEADER_MARGIN = cython.declare(Py_ssize_t, 32)


class Renderer(FrameCursor):
    """Prints batches and records into output buffers of the caller.

    ``flags``: DEEP and others of `kseg.kernel.render.lines`. ``context``: texts about the file for JSON lines:
    bytes for a batch, a record and a place; None for text. ``program``: decodes keys and values.

    ``written``: bytes used of the output. ``batches`` and ``records``: numbers printed. ``origin`` is added to printed
    positions. After NEEDS_DECODING the caller must finish the line of record ``row``, whose beginning is written;
    ``is_control``: it is a control record.
    """

    def __init__(self, flags=0, context=None, program=None):
        FrameCursor.__init__(self)
        if not cython.compiled:
            self.line, self.job = Line(), Job()
        self.is_begun = False
        self.written = self.row = self.batches = self.origin = 0
        self.show(flags, context, program)

    def show(self, flags, context=None, program=None):
        """Sets the contents and the form of the output. Raises TypeError if a text of ``context`` is not bytes."""
        self.flags = flags
        self._context, self._program = context, program
        self.is_control = False
        self.line.is_json = context is not None
        self.job.as_jackson = context is None
        self.line.margin = TEXT_MARGIN
        if context is not None:
            if not all(isinstance(piece, bytes) for piece in context):
                raise TypeError("the pieces of a context are bytes")
            batch: bytes = context[0]
            record: bytes = context[1]
            place: bytes = context[2]
            self.line.context.batch, self.line.context.batch_size = batch, len(batch)
            self.line.context.record, self.line.context.record_size = record, len(record)
            self.line.context.place, self.line.context.place_size = place, len(place)
            self.line.margin = JSON_MARGIN + len(batch) + len(record) + len(place)
        if program is not None:
            names: bytes = program[1]
            self.job.code, self.job.names = int64s_in(program[0]), names
            self.line.margin += DECODED_MARGIN

    def _take_output(self, rows: Int64sOut, headers: Int64sOut, out: BytesOut, decodes: bint):
        if not 0 <= self.written <= len(out) or len(out) < MIN_OUTPUT_BYTES:
            raise ValueError("the output is too small, or there is no such place in it")
        if decodes and self._program is None:
            raise ValueError("there is no program to decode with")
        self.decodes = decodes
        self.line.out = self.job.out = bytes_out(out)
        self.line.capacity = len(out)
        self.line.limit = self.job.limit = len(out) - (DECODED_TAIL if decodes else TAIL)
        self.line.rows = int64s_out(rows)
        self.line.headers = int64s_out(headers)
        self.row = NO_ROW

    def print_batches(
        self,
        buf: BytesIn,
        frames: Int64sIn,
        stop: Py_ssize_t,
        rows: Int64sOut,
        headers: Int64sOut,
        out: BytesOut,
        expansion: ExpansionBuffer = None,
    ) -> int:
        """Prints the frames from ``frame`` up to ``stop`` into ``out``. ``rows`` and ``headers`` are buffers for rows.

        Returns DONE; FULL: use out[:written], set ``written`` to 0 and call again; NOT_PLAIN: the caller must print the
        frame (unless it `is_open`, as the bytes changed during the read); TOO_SMALL: the empty ``out`` must grow to
        ``needed`` bytes; MORE_HEADERS: ``headers`` must grow to ``needed`` rows; NEEDS_DECODING: finish the line, then
        call again. Raises ValueError for inconsistent buffers.

        Without DEEP a batch is plain in JSON if its header has no problem. A v0 or v1 wrapper is never plain: its base
        offset is inside the compressed set.
        """
        status: cython.int = NEEDS_BUFFER
        if not self.is_open:
            self.table.row_count = 0
        use_rows(self, rows, headers)
        use_frames(self, buf, frames, stop, FRAME_WIDTH, expansion, None)
        self._take_output(rows, headers, out, self._program is not None)
        self.length = len(buf)
        self.refused = 0 if self.decodes else CONTROL
        while status == NEEDS_BUFFER:
            with cython.nogil:
                status = write_batches(self)
            if status == NEEDS_BUFFER:
                status = extend(self, expansion)
        return status

    def print_records(
        self,
        payload: BytesIn,
        rows: Int64sOut,
        headers: Int64sOut,
        stop: Py_ssize_t,
        magic: cython.int,
        kind: cython.int,
        out: BytesOut,
        decodes: bint = False,
    ) -> int:
        """Prints rows ``record`` to ``stop`` of one batch; their positions count from the start of ``payload``.

        ``origin``: position of the batch. ``kind``: its timestamp type; in JSON, rows of v0 and v1 have their own.
        Returns DONE, FULL, TOO_SMALL or, with ``decodes``, NEEDS_DECODING. Raises ValueError for inconsistent buffers.
        """
        first: Py_ssize_t = self.record
        if not 0 <= first <= stop <= len(rows) // ROW_WIDTH or not NO_TIME <= kind <= APPEND_TIME:
            raise ValueError("no such rows, or no such timestamp type")
        self._take_output(rows, headers, out, decodes)
        self.table.rows, self.table.headers = int64s_out(rows), int64s_out(headers)
        self.line.p = self.job.p = bytes_in(payload)
        self.line.magic = magic
        self.line.kind = kind
        self.line.position = self.origin
        self.is_control = False
        with cython.nogil:
            reached = write_rows(self, first, stop)
        self.record = reached + (self.row != NO_ROW)
        self.records += self.record - first
        if self.row != NO_ROW:
            return NEEDS_DECODING
        return DONE if reached == stop else full(self, reached)


def full(renderer: Renderer, row: Py_ssize_t) -> cython.int:
    """Returns the status if the line of a row does not fit, and sets ``needed`` to the size of output to request.

    It suffices for a record without escapes, and is at least twice the capacity. The worst case of escaping, six times
    the size, would be wasted for most records.
    """
    at: Py_ssize_t = row * ROW_WIDTH
    rows: OutColumns = renderer.table.rows
    count: longlong = rows[at + ROW_HEADER_COUNT]
    needed: longlong = LINE_MARGIN + HEADER_MARGIN * count + content_bytes(rows, at)
    needed += header_bytes(renderer.table.headers, rows[at + ROW_HEADERS], count)
    renderer.needed = max(needed, 2 * renderer.line.capacity)
    return FULL if renderer.written else TOO_SMALL


def has_plain_header(renderer: Renderer) -> bint:
    """Whether the next batch has no problem in its header, and the header alone suffices to print its line."""
    at: Py_ssize_t = renderer.frame * FRAME_WIDTH
    position: Py_ssize_t = renderer.frames[at + FRAME_POSITION]
    size: Py_ssize_t = renderer.frames[at + FRAME_SIZE]
    magic: longlong = renderer.frames[at + FRAME_MAGIC]
    if not renderer.frames[at + FRAME_STATE] & CRC_RIGHT or magic < 0 or magic > MAGIC_V2:
        return False
    if magic < MAGIC_V2:
        return is_plain(
            renderer.p, position, size, cython.cast(cython.int, magic), cython.address(renderer.message)
        )  # fmt: skip
    return (
        size >= V2_HEADER_BYTES
        and (renderer.p[position + V2_FLAGS] & CODEC) <= HIGHEST_CODEC
        and be32(renderer.p, position + V2_COUNT) >= 0
    )


def put_batch(renderer: Renderer, at: Py_ssize_t) -> Py_ssize_t:
    """Prints the line of the frame whose columns begin ``at``. Returns the position behind it."""
    line: pointer[Line] = cython.address(renderer.line)
    position: Py_ssize_t = renderer.frames[at + FRAME_POSITION]
    header = cython.declare(cython.uchar[64])
    if line.is_json:
        return put_json_batch(line, renderer.written, renderer.p, renderer.frames, at, renderer.origin)
    if renderer.length - position >= V2_HEADER_BYTES:
        return put_text_batch(line, renderer.written, renderer.p, position, renderer.frames, at, renderer.origin)
    # The missing bytes of a truncated header read as zeros.
    for k in range(put_bytes(header, 0, renderer.p, position, renderer.length - position), PADDED_HEADER_BYTES):
        header[k] = 0
    return put_text_batch(line, renderer.written, header, 0, renderer.frames, at, renderer.origin)


def write_rows(renderer: Renderer, first: Py_ssize_t, stop: Py_ssize_t) -> Py_ssize_t:
    """Prints rows and advances ``written``. Returns the first row that does not fit, else ``stop``.

    If it sets the row of the renderer, it returns that row, whose line is printed up to its key.
    """
    line: pointer[Line] = cython.address(renderer.line)
    job: pointer[Job] = cython.address(renderer.job)
    is_bare: bint = renderer.flags & SKIP_METADATA
    decodes: bint = renderer.decodes
    o: Py_ssize_t = renderer.written
    row: Py_ssize_t = first
    line.flags = renderer.flags
    job.is_control = renderer.is_control
    if decodes:
        line.flags = renderer.flags & SKIP_METADATA
        if line.is_json and renderer.is_control:
            line.flags |= CONTENTS
    while row < stop and o + line.margin <= line.capacity:
        if line.is_json:
            begun = put_fields(line, row * ROW_WIDTH, o)
        else:
            begun = put_metadata(line, row * ROW_WIDTH, o)
            if begun >= 0:
                begun = put_contents(line, row * ROW_WIDTH, begun)
        if begun < 0:
            break
        if decodes:
            renderer.written = begun
            begun = put_decoded(job, line.rows, row * ROW_WIDTH, is_bare, begun)
            if begun == UNREADABLE:
                renderer.row = row
                return row
            if begun < 0:
                break
        o = put(line.out, begun, b"}\n") if line.is_json else put(line.out, begun, b"\n")
        row += 1
    renderer.written = o
    return row


def open_rows(renderer: Renderer) -> cython.int:
    """Reads the next rows of the next frame, unless some are left. Returns DONE, or as `read_rows`."""
    status: cython.int = DONE
    if not renderer.is_open or renderer.first_row == renderer.table.row_count:
        if renderer.line.is_json and not has_plain_header(renderer):
            return NOT_PLAIN
        renderer.table.row_count = renderer.table.header_count = 0
        status = read_rows(renderer)
    renderer.line.p = renderer.job.p = renderer.area.payload
    return status


def write_batches(renderer: Renderer) -> cython.int:
    is_deep: bint = renderer.flags & DEEP and not renderer.flags & LINE_ONLY
    while renderer.frame < renderer.stop:
        at = renderer.frame * FRAME_WIDTH
        if is_deep:
            renderer.is_begun = renderer.is_begun and renderer.is_open
            status = open_rows(renderer)
            if status != DONE:
                return status
        elif renderer.line.is_json:
            if not has_plain_header(renderer):
                return NOT_PLAIN
        elif not renderer.frames[at + FRAME_STATE] & CRC_RIGHT and not renderer.flags & LINE_ONLY:
            return NOT_PLAIN
        if not (is_deep and renderer.is_begun):
            if renderer.written + renderer.line.margin > renderer.line.capacity:
                renderer.needed = 2 * renderer.line.capacity
                return FULL if renderer.written else TOO_SMALL
            renderer.written = put_batch(renderer, at)
            renderer.batches += 1
            if not is_deep:
                renderer.frame += 1
                continue
            renderer.is_begun = True
        position = renderer.frames[at + FRAME_POSITION]
        magic = renderer.frames[at + FRAME_MAGIC]
        renderer.line.magic = cython.cast(cython.int, magic)
        renderer.line.kind = kind_of(renderer.p, position, renderer.line.magic)
        renderer.line.position = position + renderer.origin
        renderer.is_control = magic == MAGIC_V2 and (renderer.p[position + V2_FLAGS] & CONTROL) != 0
        reached = write_rows(renderer, renderer.first_row, renderer.table.row_count)
        status = NEEDS_DECODING if renderer.row != NO_ROW else DONE
        if status == DONE and reached < renderer.table.row_count:
            status = full(renderer, reached)
        leave(renderer, reached + (renderer.row != NO_ROW))
        if status != DONE:
            return status
    return DONE
