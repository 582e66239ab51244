"""Replaces keys, values and header values by bytes of the same length, equal ones by equal ones.

A field of up to 8 bytes goes through a keyed permutation (a Feistel network of `hash_key`), so that different fields
stay different. A longer one becomes its keyed hash, repeated: 16 bytes that differ where fields differ, and that a
codec packs well, so that a compressed log does not grow.
"""

import cython
from cython import Py_ssize_t, longlong, ulonglong, void
from cython.cimports.kseg.kernel.codecs.expand import ExpansionBuffer
from cython.cimports.kseg.kernel.compact.key_map import KeyHash, Secret, hash_key
from cython.cimports.kseg.kernel.records.cursor import (
    FrameCursor,
    check_frames,
    extend,
    leave,
    read_rows,
    use_frames,
    use_rows,
)

if not cython.compiled:  # kseg._build declares these constants for C
    # The longest field whose replacement is a permutation: no two such fields get the same bytes.
    LONGEST_PERMUTED = 8
    ROUNDS = 4
    # Of the message that a round of the permutation hashes: its number, the size of the field, half of its bits.
    ROUND_SIZE, ROUND_HALF, ROUND_BYTES = 1, 2, 6
    LETTERS = 26

native_setup()

HASH_BYTES = cython.declare(Py_ssize_t, 16)


def permuted(value: ulonglong, size: cython.int, secret: Secret) -> ulonglong:
    """Returns the permutation of a number of ``size`` bytes."""
    block = cython.declare(cython.uchar[ROUND_BYTES])
    found = cython.declare(KeyHash)
    bits: cython.int = 4 * size
    mask: ulonglong = (cython.cast(ulonglong, 1) << bits) - 1
    left: ulonglong = value >> bits
    right: ulonglong = value & mask
    for k in range(ROUNDS):
        block[0] = k
        block[ROUND_SIZE] = size
        put_big(block, ROUND_HALF, right, 4)
        hash_key(block, 0, ROUND_BYTES, secret, cython.address(found))
        mixed: ulonglong = left ^ (cython.cast(ulonglong, found.high) & mask)
        left = right
        right = mixed
    return left << bits | right


def replace_field(p: Bytes, at: Py_ssize_t, size: longlong, secret: Secret, out: OutBytes) -> void:
    """Writes the replacement of ``size`` bytes at p[at] to out[at]; none if the size is negative. ``out`` may be p."""
    found = cython.declare(KeyHash)
    value: ulonglong = 0
    done: longlong = HASH_BYTES
    if size <= 0:
        return
    if size <= LONGEST_PERMUTED:
        for k in range(size):
            value = value << 8 | p[at + k]
        put_big(out, at, permuted(value, cython.cast(cython.int, size), secret), cython.cast(cython.int, size))
        return
    hash_key(p, at, size, secret, cython.address(found))
    put_big(out, at, found.high, 8)
    if size < HASH_BYTES:
        put_big(out, at + 8, found.low, cython.cast(cython.int, size - 8))
        return
    put_big(out, at + 8, found.low, 8)
    while done < size:
        more = min(done, size - done)
        put_bytes(out, at + done, out, at, more)
        done += more


def replace_text(p: Bytes, at: Py_ssize_t, size: longlong, secret: Secret, out: OutBytes) -> void:
    """As `replace_field`, by letters: header keys are text."""
    replace_field(p, at, size, secret, out)
    for k in range(size):
        out[at + k] = 97 + out[at + k] % LETTERS


class Replacer(FrameCursor):
    """Replaces the fields of window after window; the caller resets the position (`go_to`).

    ``with_header_keys``: header keys are replaced, too. ``replaced``, ``keys``, ``values``, ``header_values``: numbers
    of records and fields replaced so far. ``area_size``: of a batch that NEEDS_PACKING, the size of its records, which
    are replaced at the start of the expansion buffer. ``row_count``: see `read_frames`.
    """

    def __init__(self, secret, with_header_keys):
        FrameCursor.__init__(self)
        self.secret = secret
        self.with_header_keys = with_header_keys
        self.refused = CONTROL
        self.area_size = self.row_count = 0
        self.replaced = self.keys = self.values = self.header_values = 0

    def replace_frames(
        self,
        data: BytesIn,
        frames: Int64sIn,
        count: Py_ssize_t,
        rows: Int64sOut,
        headers: Int64sOut,
        out: BytesOut,
        expansion: ExpansionBuffer,
    ) -> int:
        """Replaces in the frames (FRAME_*) from ``frame`` up to ``count``; ``out`` is a copy of ``data``.

        Returns DONE; NEEDS_PACKING for a compressed batch, which the caller must write; or NOT_PLAIN and others for one
        that it must read itself: its bytes in ``out`` are undefined. Control batches are NOT_PLAIN. Raises ValueError
        if a buffer is too short.
        """
        status: cython.int = NEEDS_BUFFER
        check_length(len(out), len(data))
        use_frames(self, data, frames, count, FRAME_WIDTH, expansion, None)
        self.table.row_count = self.table.header_count = 0
        use_rows(self, rows, headers)
        target = bytes_out(out)
        while status == NEEDS_BUFFER:
            with cython.nogil:
                status = DONE
                while self.frame < self.stop and status == DONE:
                    self.table.row_count = self.table.header_count = 0
                    status = read_rows(self)
                    if status != DONE:
                        continue
                    count = self.table.row_count
                    if self.is_expanded:
                        replace_rows(
                            self, self.area.payload, self.table.rows, count, self.table.headers, self.expansion.out
                        )
                        if self.area.walk.index >= self.area.header.count:
                            self.area_size = self.area.end
                            status = NEEDS_PACKING
                        continue
                    replace_rows(self, self.p, self.table.rows, count, self.table.headers, target)
                    if self.area.walk.index >= self.area.header.count:
                        seal_frame(self.frames, self.frame, target)
                    leave(self, count)
            if status == NEEDS_BUFFER:
                status = extend(self, expansion)
        return status

    def read_frames(
        self, data: BytesIn, frames: Int64sIn, count: Py_ssize_t, rows: Int64sOut, headers: Int64sOut
    ) -> int:
        """Reads the rows of uncompressed frames from ``frame`` up to ``count`` that fit: ``row_count``.

        Returns DONE, or as `replace_frames` if it stopped at another frame. Raises ValueError if a buffer is too short.
        """
        status: cython.int = DONE
        use_frames(self, data, frames, count, FRAME_WIDTH, None, None)
        self.table.row_count = self.table.header_count = 0
        use_rows(self, rows, headers)
        with cython.nogil:
            while self.frame < self.stop and status == DONE and 2 * self.table.row_count < self.table.row_capacity:
                status = read_rows(self)
                if status == DONE:
                    leave(self, self.table.row_count)
        self.row_count = self.table.row_count
        return status

    def seal(self, frames: Int64sIn, first: Py_ssize_t, out: BytesOut) -> None:
        """Writes the checksums of uncompressed frames from ``first`` up to ``frame``. Raises ValueError if there are no
        such frames."""
        check_frames(len(out), frames, first, self.frame, FRAME_WIDTH)
        target, rows = bytes_out(out), int64s_in(frames)
        for k in range(first, self.frame):
            seal_frame(rows, k, target)

    def replace(self, payload: BytesOut, rows: Int64sIn, count: Py_ssize_t, headers: Int64sIn) -> None:
        """Replaces the fields of ``count`` rows in place. Raises ValueError if there are no such rows."""
        out = bytes_out(payload)
        replace_rows(self, out, int64s_in(rows, count * ROW_WIDTH), count, int64s_in(headers), out)

    def replace_bytes(self, data: bytes) -> bytes:
        """Returns the replacement of a field."""
        found = bytearray(data)
        out: BytesOut = found
        replace_field(bytes_out(out), 0, len(found), self.secret, bytes_out(out))
        return bytes(found)


def replace_rows(
    replacer: Replacer, p: Bytes, rows: Columns, count: Py_ssize_t, headers: Columns, out: OutBytes
) -> void:
    """Writes the replacements of all fields of ``count`` rows, whose positions are those of p, to ``out``."""
    for k in range(count):
        row = k * ROW_WIDTH
        replace_field(p, rows[row + ROW_KEY], rows[row + ROW_KEY_SIZE], replacer.secret, out)
        replace_field(p, rows[row + ROW_VALUE], rows[row + ROW_VALUE_SIZE], replacer.secret, out)
        replacer.keys += rows[row + ROW_KEY_SIZE] > 0
        replacer.values += rows[row + ROW_VALUE_SIZE] > 0
        for n in range(rows[row + ROW_HEADER_COUNT]):
            header = (rows[row + ROW_HEADERS] + n) * HEADER_WIDTH
            replace_field(p, headers[header + HEADER_VALUE], headers[header + HEADER_VALUE_SIZE], replacer.secret, out)
            replacer.header_values += headers[header + HEADER_VALUE_SIZE] > 0
            if replacer.with_header_keys:
                replace_text(p, headers[header + HEADER_KEY], headers[header + HEADER_KEY_SIZE], replacer.secret, out)
    replacer.replaced += count


def seal_frame(frames: Columns, k: Py_ssize_t, out: OutBytes) -> void:
    """Writes the checksum of frame ``k``, an uncompressed one."""
    at: Py_ssize_t = k * FRAME_WIDTH
    position: Py_ssize_t = frames[at + FRAME_POSITION]
    end: Py_ssize_t = position + frames[at + FRAME_SIZE]
    if frames[at + FRAME_MAGIC] == MAGIC_V2:
        put_big(out, position + V2_CRC, crc32c(0, out, position + V2_ATTRIBUTES, end), 4)
    else:
        put_big(out, position + LEGACY_CRC, crc32(0, out, position + ENTRY_MAGIC, end), 4)
