"""Counts batches by format and codec from their header rows (BATCH_*)."""

import cython
from cython.cimports.kseg.kernel.layout.headers import CODEC, MAGIC_V2
from cython.cimports.kseg.kernel.layout.pointers import int64s_in, int64s_out
from cython.cimports.kseg.kernel.layout.rows import (
    BATCH_ATTRIBUTES,
    BATCH_MAGIC,
    BATCH_SIZE,
    BATCH_STATE,
    BATCH_WIDTH,
    CRC_RIGHT,
)

CODECS = 8
FORMS_WIDTH = 4 * CODECS * 2
"""Columns of a count: batches and bytes, for each codec of each format (v0, v1, v2, 0.7)."""

_CODECS = cython.declare(cython.Py_ssize_t, 8)
_FORM_07 = cython.declare(cython.Py_ssize_t, 3)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def add_rows(
    rows: cython.pointer[cython.const[cython.longlong]],
    count: cython.Py_ssize_t,
    is_07: cython.bint,
    found: cython.pointer[cython.longlong],
) -> cython.void:
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t
    to: cython.Py_ssize_t
    magic: cython.longlong
    for i in range(count):
        at = i * BATCH_WIDTH
        magic = rows[at + BATCH_MAGIC]
        if not rows[at + BATCH_STATE] & CRC_RIGHT or magic < 0 or magic > MAGIC_V2:
            continue
        to = ((_FORM_07 if is_07 else magic) * _CODECS + (rows[at + BATCH_ATTRIBUTES] & CODEC)) * 2
        found[to] += 1
        found[to + 1] += rows[at + BATCH_SIZE]


def count_forms(rows: cython.const[cython.longlong][::1], count: int, is_07: bool, found: cython.longlong[::1]) -> None:
    """Adds the valid batches of ``count`` rows to ``found``, FORMS_WIDTH columns.

    Raises ValueError if a buffer is too short.
    """
    if len(rows) < count * BATCH_WIDTH or len(found) < FORMS_WIDTH:
        raise ValueError("a buffer is too short")
    add_rows(int64s_in(rows), count, is_07, int64s_out(found))
