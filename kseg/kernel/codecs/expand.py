"""Expands compressed areas into a buffer that is used again: lz4 by liblz4, zstd by libzstd, both without the GIL.

A fresh output for each batch costs page faults and objects, as much again as decoding it. What is refused here is for
`kseg.formats.compression` to judge: here nothing is taken that it does not take, and no reason is given. Interpreted,
everything is refused.
"""

import cython
from cython.cimports.kseg.kernel.layout.headers import CODEC, LZ4, MAGIC_V2, V2_FLAGS, V2_HEADER_BYTES, ZSTD

if cython.compiled:
    from cython.cimports.kseg.kernel.codecs import decoders as codecs


FIRST_BYTES = cython.declare(cython.Py_ssize_t, 1 << 20)

_asked = set()
"""Codecs whose functions were asked for in this process."""


def expand_area(codec, magic, p, n, out, capacity, zstd):
    """Bytes written to out, REFUSED or BUFFER_FULL."""
    if cython.compiled:
        if codec == LZ4:
            return codecs.lz4(p, n, magic != 0, out, capacity)
        if codec == ZSTD and magic == MAGIC_V2:
            return codecs.zstd(zstd, p, n, out, capacity) if zstd != cython.NULL else BUFFER_FULL
    return REFUSED


def expand_batch(p, at, size, out, capacity, zstd):
    """The same of the records of the v2 batch at p[at], which is ``size`` bytes with its header."""
    if cython.compiled:
        return expand_area(
            p[at + V2_FLAGS] & CODEC, 2, p + at + V2_HEADER_BYTES, size - V2_HEADER_BYTES, out, capacity, zstd
        )
    return REFUSED


class ExpansionBuffer:
    """The expanded records of one compressed batch after the other; for one thread at a time.

    It grows as they need it, up to ``limit`` bytes. ``functions`` gives the addresses of the functions of a codec's
    library (`use_library`), or None; it is asked when the codec is first met. ``capacity``: bytes there is room for
    now.
    """

    def __init__(self, limit, functions):
        self._limit = max(limit, 1)
        self._functions = functions
        self._buffer = bytearray(1)
        self.capacity = 1
        if cython.compiled:
            self.zstd = cython.NULL
            self.out = self._buffer

    def __dealloc__(self):
        if cython.compiled:
            codecs.zstd_destroy(self.zstd)

    def extend(self, codec) -> bool:
        """Grows, loads the codec's library or creates a context for zstd; returns whether to try again."""
        if not cython.compiled:
            return False
        if codec == LZ4 and not codecs.lz4_is_known():
            use_library(LZ4, self._functions)
            return codecs.lz4_is_known()
        if codec == ZSTD and self.zstd == cython.NULL:
            use_library(ZSTD, self._functions)
            self.zstd = codecs.zstd_create()
            return self.zstd != cython.NULL
        if self.capacity >= self._limit:
            return False
        # A new buffer: views of the old one stay good.
        self._buffer = bytearray(min(max(2 * self.capacity, FIRST_BYTES), self._limit))
        self.out = self._buffer
        self.capacity = len(self._buffer)
        return True

    def view(self) -> memoryview:
        """The whole buffer, until the next `extend`."""
        return memoryview(self._buffer)

    def expand(self, codec: cython.int, magic: cython.int, area: cython.const[cython.uchar][::1]):
        """A view of the bytes that ``area`` holds, valid until the next call; None where it is refused."""
        size: cython.Py_ssize_t
        if not cython.compiled or len(area) == 0 or not LZ4 <= codec <= ZSTD:
            return None
        if cython.compiled:
            while True:
                with cython.nogil:
                    size = expand_area(
                        codec,
                        magic,
                        cython.address(area[0]),
                        area.shape[0],
                        cython.address(self.out[0]),
                        self.capacity,
                        self.zstd,
                    )
                if size >= 0:
                    return memoryview(self._buffer)[:size]
                if size != BUFFER_FULL or not self.extend(codec):
                    return None


def use_library(codec, functions) -> None:
    """Makes the functions known to which ``functions(codec)`` gives the addresses. Asks once a codec in a process.

    Of ZSTD: create, free, decompress, frame size, is error and error code of ZSTD_*. Of LZ4: create, free, frame info,
    decompress and is error of LZ4F_*.
    """
    if cython.compiled:
        if codec in _asked:
            return
        addresses = functions(codec)
        if addresses is not None:
            if codec == ZSTD:
                create, destroy, decompress, frame_size, is_error, error_code = addresses
                codecs.zstd_use(create, destroy, decompress, frame_size, is_error, error_code)
            else:
                create, destroy, frame_info, decompress, is_error = addresses
                codecs.lz4_use(create, destroy, frame_info, decompress, is_error)
        _asked.add(codec)
