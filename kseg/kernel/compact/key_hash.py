"""The keyed 128-bit hash of record keys for compaction: SipHash-2-4-128 (Aumasson, Bernstein, 2012).

Each run has a random secret, so nobody can construct colliding keys; a collision would lose a record. Interpreted, the
hash is keyed BLAKE2b of hashlib: hashes need not agree between runs.
"""

import cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy
else:
    from hashlib import blake2b


SECRET_BYTES = 16
# The constants of the algorithm. As names: such literals would be Python objects.
_V0 = cython.declare(cython.ulonglong, 0x736F6D6570736575)
_V1 = cython.declare(cython.ulonglong, 0x646F72616E646F6D ^ 0xEE)
_V2 = cython.declare(cython.ulonglong, 0x6C7967656E657261)
_V3 = cython.declare(cython.ulonglong, 0x7465646279746573)


class Secret:
    """The key of the hash: SECRET_BYTES bytes. Raises ValueError for any other number."""

    def __init__(self, data: bytes):
        if len(data) != SECRET_BYTES:
            raise ValueError(f"a secret has {SECRET_BYTES} bytes")
        self.low = int.from_bytes(data[:8], "little", signed=True)
        self.high = int.from_bytes(data[8:], "little", signed=True)


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
def mix_rounds(state: cython.pointer[SipState], rounds: cython.int) -> cython.void:
    _k: cython.int
    for _k in range(rounds):
        state.v0 += state.v1
        state.v1 = rotated(state.v1, 13) ^ state.v0
        state.v0 = rotated(state.v0, 32)
        state.v2 += state.v3
        state.v3 = rotated(state.v3, 16) ^ state.v2
        state.v0 += state.v3
        state.v3 = rotated(state.v3, 21) ^ state.v0
        state.v2 += state.v1
        state.v1 = rotated(state.v1, 17) ^ state.v2
        state.v2 = rotated(state.v2, 32)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def mix_word(state: cython.pointer[SipState], word: cython.ulonglong) -> cython.void:
    state.v3 ^= word
    mix_rounds(state, 2)
    state.v0 ^= word


def hash_key(p, at, size, secret, found):
    """Computes the hash of ``size`` bytes at p[at]."""
    if cython.compiled:
        state: SipState
        word: cython.ulonglong
        i: cython.longlong = 0
        state.v0 = cython.cast(cython.ulonglong, secret.low) ^ _V0
        state.v1 = cython.cast(cython.ulonglong, secret.high) ^ _V1
        state.v2 = cython.cast(cython.ulonglong, secret.low) ^ _V2
        state.v3 = cython.cast(cython.ulonglong, secret.high) ^ _V3
        while size - i >= 8:
            memcpy(cython.address(word), p + at + i, 8)
            mix_word(cython.address(state), word)
            i += 8
        word = 0
        if size > i:
            memcpy(cython.address(word), p + at + i, size - i)
        mix_word(cython.address(state), word ^ cython.cast(cython.ulonglong, size) << 56)
        state.v2 ^= 0xEE
        mix_rounds(cython.address(state), 4)
        found.high = cython.cast(cython.longlong, state.v0 ^ state.v1 ^ state.v2 ^ state.v3)
        state.v1 ^= 0xDD
        mix_rounds(cython.address(state), 4)
        found.low = cython.cast(cython.longlong, state.v0 ^ state.v1 ^ state.v2 ^ state.v3)
    else:
        key = secret.low.to_bytes(8, "little", signed=True) + secret.high.to_bytes(8, "little", signed=True)
        digest = blake2b(bytes(p[at : at + size]), digest_size=16, key=key).digest()
        found.high = int.from_bytes(digest[:8], "little", signed=True)
        found.low = int.from_bytes(digest[8:], "little", signed=True)


def hash_of(key: cython.const[cython.uchar][::1], secret: Secret) -> tuple[int, int]:
    """Returns the two halves of the hash of a key."""
    found: KeyHash
    if cython.compiled:
        hash_key(cython.address(key[0]) if len(key) else cython.NULL, 0, key.shape[0], secret, cython.address(found))
    else:
        found = KeyHash()
        hash_key(key, 0, len(key), secret, found)
    return found.high, found.low
