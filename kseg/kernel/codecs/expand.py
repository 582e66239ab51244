"""Decompresses lz4 with liblz4 and zstd with libzstd, without the GIL.

Areas are decompressed into a reused buffer: a new output for each batch would double the time, by page faults and
objects. This module accepts only areas that `kseg.formats.compression` accepts, and gives no reasons: callers pass
refused areas to that module. Interpreted, every area is refused.
"""

import cython
from cython import Py_ssize_t, pointer, void

if not cython.compiled:  # kseg._build declares these constants for C
    Expansion = cython.struct()

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
