"""Areas into zstd frames by libzstd, many in one call and without the GIL. Interpreted there is no such way."""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.kseg.kernel import zstd_packer

COMPILED = cython.compiled


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def pack_area(
    context: cython.p_void,
    p: cython.pointer[cython.const[cython.uchar]],
    n: cython.Py_ssize_t,
    out: cython.pointer[cython.uchar],
    capacity: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Bytes written to out, -1 where it cannot be done."""
    return zstd_packer.pack(context, p, n, out, capacity) if cython.compiled else -1


class Packer:
    """What compresses areas at a level of zstd; for one thread at a time.

    ``functions``: addresses of libzstd's functions to create and free a context, set a parameter, compress, and tell an
    error. `is_usable` is false where they do not do it, and of an interpreted kernel.
    """

    def __init__(self, level: cython.int, functions: tuple):
        if cython.compiled:
            create, destroy, set_parameter, compress, is_error = functions
            zstd_packer.use(create, destroy, set_parameter, compress, is_error)
            self.context = zstd_packer.create(level)

    def __dealloc__(self):
        if cython.compiled:
            zstd_packer.destroy(self.context)

    @property
    def is_usable(self) -> bool:
        return self.context != cython.NULL if cython.compiled else False
