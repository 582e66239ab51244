"""Decompresses lz4 with liblz4 and zstd with libzstd, without the GIL.

Areas are decompressed into a reused buffer: a new output for each batch would double the time, by page faults and
objects. This module accepts only areas that `kseg.formats.compression` accepts, and gives no reasons: callers pass
refused areas to that module. Interpreted, every area is refused.
"""

import cython
from cython import Py_ssize_t, bint, pointer, void

if not cython.compiled:  # kseg._build declares these constants for C
    Expansion = cython.struct()

if cython.compiled:
    from cython.cimports.libc.string import memcpy

FIRST_BYTES = cython.declare(Py_ssize_t, 1 << 20)

_asked = set()
"""Codecs whose library was looked up in this process."""


def expand_area(
    codec: cython.int, magic: cython.int, p: Bytes, n: Py_ssize_t, out: OutBytes, capacity: Py_ssize_t,
    zstd: pointer[void],
) -> Py_ssize_t:  # fmt: skip
    """Returns the number of bytes written to out, REFUSED or BUFFER_FULL."""
    if codec == LZ4:
        return lz4(p, n, magic != 0, out, capacity)
    if codec == ZSTD and magic == MAGIC_V2:
        return zstd_expand(zstd, p, n, out, capacity) if zstd != cython.NULL else BUFFER_FULL
    return REFUSED


def use_expansion(expansion, buffer):
    """Uses a buffer, again after each `extend`; None: nothing is decompressed."""
    expansion.out, expansion.capacity, expansion.zstd = cython.NULL, 0, cython.NULL
    if buffer is not None:
        expansion.out, expansion.capacity, expansion.zstd = bytes_out(buffer.out), buffer.capacity, buffer.zstd
    return 0


class ExpansionBuffer:
    """A reused buffer for the decompressed records of one batch at a time. Not thread-safe.

    It grows up to ``limit`` bytes; ``capacity`` is its size now. ``functions(codec)`` returns the addresses of the
    functions of a codec's library (`use_library`), or None. It is called when the codec is first needed.
    """

    def __init__(self, limit, functions):
        self._limit = max(limit, 1)
        self._functions = functions
        self._buffer = bytearray(1)
        self.capacity = 1
        self.zstd = cython.NULL
        self.out = self._buffer

    def __dealloc__(self):
        zstd_destroy(self.zstd)

    def extend(self, codec) -> bool:
        """Grows the buffer, loads the codec's library or creates a zstd context. Returns whether to try again."""
        if not cython.compiled:
            return False
        if codec == LZ4 and not is_known(False):
            return use_library(LZ4, self._functions)
        if codec == ZSTD and self.zstd == cython.NULL:
            if use_library(ZSTD, self._functions):
                self.zstd = zstd_create()
            return self.zstd != cython.NULL
        if self.capacity >= self._limit:
            return False
        # A new buffer: views of the old one stay valid.
        self._buffer = bytearray(min(max(2 * self.capacity, FIRST_BYTES), self._limit))
        self.out = self._buffer
        self.capacity = len(self._buffer)
        return True

    def view(self) -> memoryview:
        """Returns a view of the whole buffer, in use until the next `extend`."""
        return memoryview(self._buffer)

    def expand(self, codec: cython.int, magic: cython.int, area: BytesIn):
        """Returns a view of the decompressed ``area``, valid until the next call; None if it is refused."""
        if not cython.compiled or len(area) == 0 or not LZ4 <= codec <= ZSTD:
            return None
        p = bytes_in(area)
        n: Py_ssize_t = len(area)
        while True:
            out = bytes_out(self.out)
            with cython.nogil:
                size = expand_area(codec, magic, p, n, out, self.capacity, self.zstd)
            if size >= 0:
                return memoryview(self._buffer)[:size]
            if size != BUFFER_FULL or not self.extend(codec):
                return None


def use_library(codec, functions) -> bool:
    """Looks up the functions of a codec's library, once a codec and process. Returns whether they are known.

    ``functions(codec)`` returns their addresses in the order of codecs.h, or None.
    """
    if cython.compiled:
        if codec not in _asked:
            for number, address in reversed(list(enumerate(functions(codec) or ()))):
                use_function(codec == ZSTD, number, address)
            _asked.add(codec)
        return is_known(codec == ZSTD)
    return False


# Decompresses LZ4 and snappy blocks up to their first fault or missing byte, which the libraries refuse as a whole.
#
#     LZ4 sequence     token (literals << 4 | match - 4) | more literals... | literals | uint16 distance | more match...
#     more             255 as long as there is more, then the rest; present if its 4 bits of the token are 15
#     snappy block     size as a varint | element...
#     snappy element   tag, bits 0-1: 0 literals, 1 to 3 a match whose distance has 11, 16 or 32 bits
#
# Integers are little endian. Sources: the LZ4 block format, the snappy format description.

# 2 ** 31 - 1, more than any length
_ENDLESS = cython.declare(Py_ssize_t, 0x7FFFFFFF)


class BlockOutput:
    """What a block holds before its fault: the bytes of ``out`` from ``position`` on; matches reach before it, too.

    After `read_lz4` or `read_snappy` ``position`` is the end, and ``is_whole`` whether there was no fault.
    """

    def __init__(self, block: BytesIn, out: BytesOut, position=0):
        if not 0 <= position <= len(out):
            raise ValueError("no such position in the output")
        self._block, self._out = block, out
        self.p = bytes_in(block)
        self.size = len(block)
        self.out = bytes_out(out)
        self.capacity = len(out)
        self.position = position
        self.input = 0
        self.is_whole = False

    def read_lz4(self) -> None:
        """Reads an LZ4 block, which ends in literals."""
        with cython.nogil:
            while self.input < self.size:
                token = little_endian(self, 1)
                length = more_of(self, token >> 4)
                if length < 0 or not copy_literals(self, length):
                    break
                if self.input == self.size:
                    self.is_whole = True
                    break
                distance = little_endian(self, 2)
                length = more_of(self, token & 15)
                if distance < 0 or length < 0 or not copy_match(self, distance, length + 4):
                    break

    def read_snappy(self) -> None:
        """Reads a snappy block. A size that is too small is a fault, too."""
        tag: Py_ssize_t = 128
        with cython.nogil:
            while tag >= 128:  # the size, which the caller knows
                tag = little_endian(self, 1)
            self.is_whole = True
            while self.input < self.size and self.is_whole:
                tag = little_endian(self, 1)
                length = (tag >> 2) + 1
                if tag & 3 == 0:
                    if length > 60:
                        length = little_endian(self, length - 60) + 1
                    self.is_whole = length > 0 and copy_literals(self, length)
                    continue
                if tag & 3 == 1:
                    distance = little_endian(self, 1)
                    if distance >= 0:
                        distance |= tag >> 5 << 8
                    length = (tag >> 2 & 7) + 4
                else:
                    distance = little_endian(self, 2 if tag & 3 == 2 else 4)
                self.is_whole = copy_match(self, distance, length)


def copy_literals(output: BlockOutput, count: Py_ssize_t) -> bint:
    """Copies bytes of the block. Returns whether all were there and fitted."""
    n: Py_ssize_t = min(count, output.size - output.input, output.capacity - output.position)
    if cython.compiled:
        if n:
            memcpy(output.out + output.position, output.p + output.input, n)
    else:
        output.out[output.position : output.position + n] = output.p[output.input : output.input + n]
    output.position += n
    output.input += n
    return n == count


def copy_match(output: BlockOutput, distance: Py_ssize_t, count: Py_ssize_t) -> bint:
    """Repeats bytes of the output. Returns whether there were so many, and all fitted."""
    at: Py_ssize_t = output.position
    end: Py_ssize_t = at + min(count, output.capacity - at)
    fits: bint = count <= output.capacity - at
    if distance <= 0 or distance > at:
        return False
    output.position = end
    while at < end:  # a match may overlap with itself
        n = min(distance, end - at)
        if cython.compiled:
            memcpy(output.out + at, output.out + at - distance, n)
        else:
            output.out[at : at + n] = output.out[at - distance : at - distance + n]
        at += n
    return fits


def little_endian(output: BlockOutput, width: Py_ssize_t) -> Py_ssize_t:
    """Reads an integer of the block; -1 if it is cut off."""
    value: Py_ssize_t = 0
    if output.size - output.input < width:
        return -1
    for k in range(width):
        value |= cython.cast(Py_ssize_t, output.p[output.input + k]) << (8 * k)
    output.input += width
    return value


def more_of(output: BlockOutput, length: Py_ssize_t) -> Py_ssize_t:
    """Returns a length of LZ4 with the bytes that continue it; -1 if they are cut off."""
    byte: Py_ssize_t = 255
    if length < 15:
        return length
    while byte == 255:
        byte = little_endian(output, 1)
        if byte < 0 or length > _ENDLESS:
            return -1
        length += byte
    return length
