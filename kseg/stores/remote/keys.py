"""RSA private keys, and the data keys of segments that they open (library: cryptography, extra ``kseg[remote]``).

A data key is encrypted as `oaep` describes (RsaEncryptionProvider of Aiven's plugin).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING

from kseg.errors import KsegError, PathError, RequestError, UnsupportedError
from kseg.stores.place import Place

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateNumbers

    from kseg.stores.remote.segment import Encryption


_MAX_PEM_BYTES = 1 << 20
_AES_KEY_BYTES = (16, 24, 32)


class KeyMissingError(KsegError):
    """A segment cannot be decrypted: its private key was not given, or another one was."""


class PrivateKeys:
    """The private keys of a run by id. Files are read and data keys are decrypted once, on first use."""

    def __init__(self, files: dict[str, str] | None = None) -> None:
        self._files = files or {}
        key_in = lru_cache(_private_key)
        self._data_key = lru_cache(1 << 12)(lambda path, data_key: decrypted(key_in(path), data_key))

    def __reduce__(self) -> tuple[object, ...]:
        return PrivateKeys, (self._files,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PrivateKeys) and self._files == other._files

    def __hash__(self) -> int:
        return hash(PrivateKeys)

    def add(self, others: "PrivateKeys") -> None:
        """Adds the keys of other ids."""
        self._files = others._files | self._files

    def data_key(self, encryption: "Encryption", path: str) -> bytes:
        """Returns the data key of the segment at ``path``. Raises KeyMissingError, PathError."""
        if encryption.key_id not in self._files:
            raise KeyMissingError(
                f"{path}: encrypted with the key pair {encryption.key_id!r}: give its private key, "
                f"--private-key {encryption.key_id}=PEM"
            )
        try:
            found = self._data_key(self._files[encryption.key_id], encryption.data_key)
        except ValueError:
            found = b""
        if len(found) not in _AES_KEY_BYTES:
            raise KeyMissingError(
                f"{path}: the private key {self._files[encryption.key_id]} does not open the data key that the key "
                f"pair {encryption.key_id!r} has encrypted"
            )
        return found


def private_keys(given: Iterable[str]) -> PrivateKeys:
    """Returns the keys of ``ID=PEM`` options. Raises RequestError."""
    files: dict[str, str] = {}
    for text in given:
        key_id, sign, path = text.partition("=")
        if not sign or not key_id or not path:
            raise RequestError(f"--private-key {text!r} has not the form ID=PEM")
        if files.setdefault(key_id, Place(path, is_named=True)) != path:
            raise RequestError(f"--private-key: {key_id} is given twice")
    return PrivateKeys(files)


def _private_key(path: str) -> "RSAPrivateNumbers":
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError as error:
        text = "encrypted segments need the package cryptography: pip install 'kseg[remote]'"
        raise UnsupportedError(text) from error
    try:
        # A key that is not valid opens nothing; to check its primes takes longer than to use it.
        key = load_pem_private_key(Place(path).read(_MAX_PEM_BYTES), None, unsafe_skip_rsa_key_validation=True)
    except OSError as error:
        raise PathError(f"{path}: {error.strerror or error}") from error
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise KeyMissingError(f"{path}: no private key in PEM format without a password") from error
    if not isinstance(key, RSAPrivateKey):
        raise KeyMissingError(f"{path}: not an RSA key")
    return key.private_numbers()


@dataclass(frozen=True, slots=True)
class RemoteChoice:
    """``topics`` are globs, none for all topics. ``log_directories`` may hold local parts of the same partitions."""

    keys: PrivateKeys = field(default_factory=PrivateKeys)
    topics: tuple[str, ...] = ()
    log_directories: tuple[str, ...] = ()

    def wants(self, topic: str) -> bool:
        return is_wanted(topic, self.topics)


def is_wanted(topic: str, globs: tuple[str, ...]) -> bool:
    return not globs or any(fnmatchcase(topic, glob) for glob in globs)


# RSA-OAEP (RFC 8017, 7.1.2) with SHA3-512 as hash and in MGF1, and an empty label.
#
# The library cryptography offers OAEP only with SHA-1 and SHA-2, so the padding is removed here. This does not take
# constant time: no other party can measure it.

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
    padding, separator, message = block[_HASH_BYTES:].partition(b"\x01")
    if not separator:
        raise ValueError("the padding has no end")
    if padded[0] or block[:_HASH_BYTES] != _sha3_512(b"") or padding.strip(b"\0"):
        raise ValueError("the padding is not that of OAEP with SHA3-512")
    return message


def _mask(seed: bytes, size: int) -> bytes:
    """MGF1 (RFC 8017, B.2.1)."""
    blocks = (_sha3_512(seed + i.to_bytes(4, "big")) for i in range(-(-size // _HASH_BYTES)))
    return b"".join(blocks)[:size]


def _sha3_512(data: bytes) -> bytes:
    from hashlib import sha3_512  # only encrypted segments need OpenSSL

    return sha3_512(data).digest()


def _xor(one: bytes, other: bytes) -> bytes:
    return (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")).to_bytes(len(one), "big")
