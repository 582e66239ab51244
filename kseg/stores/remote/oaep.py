"""RSA-OAEP (RFC 8017, 7.1.2) with SHA3-512 as hash and in MGF1, and an empty label.

The library cryptography offers OAEP only with SHA-1 and SHA-2, so the padding is removed here. This does not
take constant time: no other party can measure it.
"""

from hashlib import sha3_512
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateNumbers

_HASH_BYTES = 64


def decrypted(numbers: "RSAPrivateNumbers", ciphertext: bytes) -> bytes:
    """Raises ValueError if the ciphertext is not one of this key."""
    modulus = numbers.public_numbers.n
    size = (modulus.bit_length() + 7) // 8
    value = int.from_bytes(ciphertext, "big")
    if len(ciphertext) != size or size < 2 * _HASH_BYTES + 2 or value >= modulus:
        raise ValueError("the ciphertext has another size than the key")
    # By the Chinese remainder theorem, four times as fast as one power.
    first, second = pow(value, numbers.dmp1, numbers.p), pow(value, numbers.dmq1, numbers.q)
    padded = (second + numbers.q * (numbers.iqmp * (first - second) % numbers.p)).to_bytes(size, "big")
    seed_mask, block_mask = padded[1 : 1 + _HASH_BYTES], padded[1 + _HASH_BYTES :]
    seed = _xor(seed_mask, _mask(block_mask, _HASH_BYTES))
    block = _xor(block_mask, _mask(seed, len(block_mask)))
    label, padding, message = block[:_HASH_BYTES], *_split(block[_HASH_BYTES:])
    if padded[0] or label != sha3_512(b"").digest() or padding.strip(b"\0"):
        raise ValueError("the padding is not that of OAEP with SHA3-512")
    return message


def _split(padded: bytes) -> tuple[bytes, bytes]:
    padding, separator, message = padded.partition(b"\x01")
    if not separator:
        raise ValueError("the padding has no end")
    return padding, message


def _mask(seed: bytes, size: int) -> bytes:
    """MGF1 (RFC 8017, B.2.1)."""
    blocks = (sha3_512(seed + i.to_bytes(4, "big")).digest() for i in range(-(-size // _HASH_BYTES)))
    return b"".join(blocks)[:size]


def _xor(one: bytes, other: bytes) -> bytes:
    return (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")).to_bytes(len(one), "big")
