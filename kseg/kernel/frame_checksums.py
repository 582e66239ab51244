"""Whether the checksum of a frame is right, at a cost that does not depend on what lengths claim.

CRCs of frames that nothing vouches for come out of prefix CRCs: one table entry for each 256 bytes from an anchor on,
filled as far as it is asked for. Any claimed range then costs the same, so that reading stays linear in the file even
where every byte opens a header that claims the rest of it.

``state`` is that of `kseg.kernel.frames`: of it ANCHOR (2), FILLED (3, 4) and NEAR (10 to 17) are used here.
"""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.kseg.kernel.native import be32, crc32, crc32_range, crc32c, crc32c_range, native_setup

    native_setup()
else:
    from kseg.kernel.native import be32, crc32, crc32_range, crc32c, crc32c_range

COMPILED = cython.compiled

BLOCK_BYTES = cython.declare(cython.Py_ssize_t, 256)
DIRECT_BYTES_MAX = cython.declare(cython.Py_ssize_t, 1024)
LOW_32_BITS = cython.declare(cython.longlong, 0xFFFFFFFF)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def crc_of(
    castagnoli: cython.bint,
    crc: cython.uint,
    p: cython.pointer[cython.const[cython.uchar]],
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
) -> cython.uint:
    return crc32c(crc, p, start, end) if castagnoli else crc32(crc, p, start, end)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def prefix(
    castagnoli: cython.bint,
    p: cython.pointer[cython.const[cython.uchar]],
    x: cython.Py_ssize_t,
    is_end: cython.bint,
    table: cython.pointer[cython.uint],
    state: cython.pointer[cython.longlong],
) -> cython.uint:
    """CRC-32C, or CRC-32, of the bytes from the anchor to x, the end of a frame or else the start of what it covers."""
    filled: cython.int = 3 if castagnoli else 4
    near: cython.int = 10 if castagnoli else 14
    anchor: cython.Py_ssize_t = state[2]
    n: cython.Py_ssize_t = state[filled]
    k: cython.Py_ssize_t
    if n == 0:
        n = 1
        table[0] = 0
        state[near] = state[near + 2] = -1
    if is_end:
        near += 2
    if 0 <= state[near] <= x <= state[near] + BLOCK_BYTES:
        state[near + 1] = crc_of(castagnoli, state[near + 1], p, state[near], x)
    else:
        k = (x - anchor) // BLOCK_BYTES
        while n <= k:
            table[n] = crc_of(castagnoli, table[n - 1], p, anchor + (n - 1) * BLOCK_BYTES, anchor + n * BLOCK_BYTES)
            n += 1
        state[near + 1] = crc_of(castagnoli, table[k], p, anchor + k * BLOCK_BYTES, x)
    state[filled] = n
    state[near] = x
    return cython.cast(cython.uint, state[near + 1])


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def crc_is_right(
    p: cython.pointer[cython.const[cython.uchar]],
    i: cython.Py_ssize_t,
    after: cython.Py_ssize_t,
    v07: cython.bint,
    table_c: cython.pointer[cython.uint],
    table_ieee: cython.pointer[cython.uint],
    state: cython.pointer[cython.longlong],
) -> cython.bint:
    """Whether the CRC stored in the frame at i is that of its bytes up to after; its magic is known."""
    castagnoli: cython.bint = not v07 and p[i + 16] == 2
    table: cython.pointer[cython.uint] = table_c if castagnoli else table_ieee
    stored: cython.longlong
    start: cython.Py_ssize_t
    before: cython.uint
    through: cython.uint
    if castagnoli:
        start = i + 21
        stored = be32(p, i + 17) & LOW_32_BITS
    elif v07:
        start = i + 9 + p[i + 4]
        stored = be32(p, start - 4) & LOW_32_BITS
    else:
        start = i + 16
        stored = be32(p, i + 12) & LOW_32_BITS
    if state[2] < 0 or i < state[2] or after - start <= DIRECT_BYTES_MAX:
        return stored == crc_of(castagnoli, 0, p, start, after)
    before = prefix(castagnoli, p, start, False, table, state)
    through = prefix(castagnoli, p, after, True, table, state)
    if castagnoli:
        return stored == crc32c_range(before, through, after - start)
    return stored == crc32_range(before, through, after - start)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def tables_reach(size: cython.Py_ssize_t, entries: cython.Py_ssize_t) -> cython.bint:
    """Whether prefix tables of so many entries hold the CRCs of so many bytes from the anchor on."""
    return size // BLOCK_BYTES < entries
