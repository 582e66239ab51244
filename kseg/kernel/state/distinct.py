"""Counts distinct values in bounded memory, by their 64-bit hashes.

``distinct`` (int64) is exact as long as at most CAP hashes were met; beyond, the 16384 registers of a HyperLogLog
estimate (Flajolet and others, 2007; standard error 0.8 %):

    0 COUNT of hashes held  1 CAP  2 OVERFLOWED  3 TABLE_MASK  8.. REGISTERS, then the table
"""

import cython
from cython.cimports.kseg.kernel.layout.rows import be64

LOW_64_BITS = 0xFFFFFFFFFFFFFFFF
MIX_A = cython.declare(cython.ulonglong, 0x9E3779B97F4A7C15)
MIX_B = cython.declare(cython.ulonglong, 0xD6E8FEB86659FD93)


def layout() -> tuple[int, int]:
    """Returns the columns at which the registers and the table begin."""
    return REGISTERS, TABLE


def add(distinct: cython.longlong[::1], value: cython.const[cython.uchar][::1]) -> None:
    """Counts one value."""
    check_distinct(distinct)
    if cython.compiled:
        if len(value) == 0:
            add_hash(cython.address(distinct[0]), mixed(0))
        else:
            add_hash(cython.address(distinct[0]), hash_of(cython.address(value[0]), 0, len(value)))
    else:
        add_hash(distinct, hash_of(value, 0, len(value)))


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def mixed(h: cython.ulonglong) -> cython.ulonglong:
    """Spreads 64 bits over 64 bits, one to one."""
    h ^= h >> 32
    if cython.compiled:
        h = h * MIX_B
    else:
        h = h * MIX_B & LOW_64_BITS
    h ^= h >> 29
    if cython.compiled:
        h = h * MIX_A
    else:
        h = h * MIX_A & LOW_64_BITS
    return h ^ (h >> 32)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def hash_of(
    p: cython.pointer[cython.const[cython.uchar]], i: cython.Py_ssize_t, size: cython.longlong
) -> cython.ulonglong:
    h: cython.ulonglong = cython.cast(cython.ulonglong, size)
    tail: cython.ulonglong = 0
    end: cython.Py_ssize_t = i + size
    while end - i >= 8:
        if cython.compiled:
            h = mixed(h ^ cython.cast(cython.ulonglong, be64(p, i))) + MIX_A
        else:
            h = mixed(h ^ be64(p, i) & LOW_64_BITS) + MIX_A & LOW_64_BITS
        i += 8
    while i < end:
        tail = tail << 8 | p[i]
        i += 1
    return mixed(h ^ tail)


def add_hash(distinct, h):
    rank: cython.longlong = 1
    register: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, h >> (64 - REGISTER_BITS)) + REGISTERS
    rest: cython.ulonglong = h
    held: cython.longlong
    signed: cython.longlong
    at: cython.Py_ssize_t
    while rank <= 64 - REGISTER_BITS and not (rest >> (64 - REGISTER_BITS - rank)) & 1:
        rank += 1
    if rank > distinct[register]:
        distinct[register] = rank
    if distinct[OVERFLOWED]:
        return
    if h == 0:
        h = 1
    if cython.compiled:
        signed = cython.cast(cython.longlong, h)
    else:
        signed = h - (1 << 64) if h >> 63 else h
    at = signed & distinct[TABLE_MASK]
    while True:
        held = distinct[TABLE + at]
        if held == signed:
            return
        if held == 0:
            break
        at = (at + 1) & distinct[TABLE_MASK]
    if distinct[COUNT] >= distinct[CAP]:
        distinct[OVERFLOWED] = 1
        return
    distinct[TABLE + at] = signed
    distinct[COUNT] += 1


def check_distinct(distinct):
    """Raises ValueError if hashes could be written outside the buffer, or if no slot would stay free."""
    if len(distinct) < TABLE or distinct[TABLE_MASK] < 0 or distinct[CAP] > distinct[TABLE_MASK]:
        raise ValueError("a table has too few slots")
    if TABLE + distinct[TABLE_MASK] >= len(distinct):
        raise ValueError("a buffer is too short")
