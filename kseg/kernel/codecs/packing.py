"""Compresses record areas with liblz4 or libzstd, or copies them, without the GIL. Compiled kernel only."""

import cython

if cython.compiled:
    from cython.cimports.kseg.kernel.codecs import packers
    from cython.cimports.libc.string import memcpy


NONE, LZ4, ZSTD = 0, 3, 4
"""Codecs of a `Packer`, by their numbers in the attributes of a batch."""

LZ4_BITS = cython.declare(cython.int, 3)
ZSTD_BITS = cython.declare(cython.int, 4)


def pack_area(codec, context, p, n, out, capacity):
    """Returns the number of bytes written to out, -1 on failure."""
    if cython.compiled:
        if codec == ZSTD_BITS:
            return packers.zstd_pack(context, p, n, out, capacity)
        if codec == LZ4_BITS:
            return packers.lz4_pack(context, p, n, out, capacity)
        if codec == 0 and n <= capacity:
            memcpy(out, p, n)
            return n
    return -1


class Packer:
    """Compresses areas with a codec at a level. Not thread-safe.

    ``functions``: addresses of functions of the library, none for NONE. liblz4: compress frame, is error. libzstd:
    create context, free context, set parameter, compress, is error. `is_usable` is false if no context can be created,
    and in an interpreted kernel.
    """

    def __init__(self, codec: cython.int, level: cython.int, functions: tuple):
        if cython.compiled:
            self.codec = codec
            if codec == ZSTD_BITS:
                create, destroy, set_parameter, compress, is_error = functions
                packers.zstd_use(create, destroy, set_parameter, compress, is_error)
                self.context = packers.zstd_create(level)
            elif codec == LZ4_BITS:
                compress, is_error = functions
                packers.lz4_use(compress, is_error)
                self.context = packers.lz4_create(level)

    def __dealloc__(self):
        if cython.compiled:
            if self.codec == ZSTD_BITS:
                packers.zstd_destroy(self.context)
            elif self.codec == LZ4_BITS:
                packers.lz4_destroy(self.context)

    @property
    def is_usable(self) -> bool:
        return self.codec == NONE or self.context != cython.NULL if cython.compiled else False
