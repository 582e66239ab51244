"""The 128-bit keyed hash by which compaction tells keys apart: SipHash-2-4-128 (Aumasson, Bernstein, 2012).

With a secret drawn for each run nobody can make two keys that collide, which would lose a record. Interpreted, keyed
BLAKE2b of hashlib stands in: all that counts is that one run has one hash.
"""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy
else:
    from hashlib import blake2b

COMPILED = cython.compiled
SECRET_BYTES = 16
# As names: such literals would be Python objects.
_V0 = cython.declare(cython.ulonglong, 0x736F6D6570736575)
_V1 = cython.declare(cython.ulonglong, 0x646F72616E646F6D ^ 0xEE)
_V2 = cython.declare(cython.ulonglong, 0x6C7967656E657261)
_V3 = cython.declare(cython.ulonglong, 0x7465646279746573)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def rotated(x: cython.ulonglong, bits: cython.int) -> cython.ulonglong:
    return x << bits | x >> (64 - bits)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def mix_rounds(v: cython.pointer[cython.ulonglong], rounds: cython.int) -> cython.void:
    _k: cython.int
    for _k in range(rounds):
        v[0] += v[1]
        v[1] = rotated(v[1], 13) ^ v[0]
        v[0] = rotated(v[0], 32)
        v[2] += v[3]
        v[3] = rotated(v[3], 16) ^ v[2]
        v[0] += v[3]
        v[3] = rotated(v[3], 21) ^ v[0]
        v[2] += v[1]
        v[1] = rotated(v[1], 17) ^ v[2]
        v[2] = rotated(v[2], 32)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def hash_key(
    p: cython.pointer[cython.const[cython.uchar]],
    at: cython.Py_ssize_t,
    size: cython.longlong,
    secret: cython.pointer[cython.const[cython.longlong]],
    out: cython.pointer[cython.longlong],
    place: cython.Py_ssize_t,
) -> cython.void:
    """The hash of ``size`` bytes at p[at] into out[place] and out[place + 1]."""
    if cython.compiled:
        v: cython.ulonglong[4]
        word: cython.ulonglong
        i: cython.longlong = 0
        v[0] = cython.cast(cython.ulonglong, secret[0]) ^ _V0
        v[1] = cython.cast(cython.ulonglong, secret[1]) ^ _V1
        v[2] = cython.cast(cython.ulonglong, secret[0]) ^ _V2
        v[3] = cython.cast(cython.ulonglong, secret[1]) ^ _V3
        while size - i >= 8:
            memcpy(cython.address(word), p + at + i, 8)
            v[3] ^= word
            mix_rounds(v, 2)
            v[0] ^= word
            i += 8
        word = 0
        if size > i:
            memcpy(cython.address(word), p + at + i, size - i)
        word ^= cython.cast(cython.ulonglong, size) << 56
        v[3] ^= word
        mix_rounds(v, 2)
        v[0] ^= word
        v[2] ^= 0xEE
        mix_rounds(v, 4)
        out[place] = cython.cast(cython.longlong, v[0] ^ v[1] ^ v[2] ^ v[3])
        v[1] ^= 0xDD
        mix_rounds(v, 4)
        out[place + 1] = cython.cast(cython.longlong, v[0] ^ v[1] ^ v[2] ^ v[3])
    else:
        key = int(secret[0]).to_bytes(8, "little", signed=True) + int(secret[1]).to_bytes(8, "little", signed=True)
        digest = blake2b(bytes(p[at : at + size]), digest_size=16, key=key).digest()
        out[place] = int.from_bytes(digest[:8], "little", signed=True)
        out[place + 1] = int.from_bytes(digest[8:], "little", signed=True)


def hash_of(key: cython.const[cython.uchar][::1], secret: cython.const[cython.longlong][::1]) -> tuple[int, int]:
    """The hash of one key."""
    out: cython.longlong[2]
    if len(secret) < 2:
        raise ValueError("a buffer is too short")
    if cython.compiled:
        if len(key) == 0:
            hash_key(cython.NULL, 0, 0, cython.address(secret[0]), out, 0)
        else:
            hash_key(cython.address(key[0]), 0, key.shape[0], cython.address(secret[0]), out, 0)
    else:
        out = [0, 0]
        hash_key(key, 0, len(key), secret, out, 0)
    return out[0], out[1]
