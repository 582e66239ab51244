"""Restores stored bytes: decrypts AES-GCM, then decompresses zstd. Each chunk and each side file is independent.

    stored    IV, 12 bytes | AES-256-GCM ciphertext | tag, 16 bytes          if the segment is encrypted
    plain     zstd frame of the original bytes                              if the segment's log is compressed

An empty side file is stored as no bytes, also in an encrypted segment.
"""

from kseg.formats.decompressed import DecompressedBytes, DecompressionError
from kseg.formats.rows import BytesLike
from kseg.formats.zstd_stream import unzstd

IV_BYTES, TAG_BYTES = 12, 16
OVERHEAD_BYTES = IV_BYTES + TAG_BYTES


class ChunkError(ValueError):
    """Stored bytes that cannot be restored. The text is one line."""


class Cipher:
    """Decrypts the chunks and side files of one segment; threads may share it."""

    def __init__(self, data_key: bytes, aad: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._aes = AESGCM(data_key)
        self._aad = aad

    def decrypted(self, stored: bytes) -> bytes:
        """Raises ChunkError if the bytes or the key are not those of the encryption."""
        from cryptography.exceptions import InvalidTag

        if len(stored) < OVERHEAD_BYTES:
            raise ChunkError(f"{len(stored)} bytes are too few for an encrypted chunk")
        try:
            return self._aes.decrypt(stored[:IV_BYTES], memoryview(stored)[IV_BYTES:], self._aad)
        except InvalidTag:
            raise ChunkError("authentication failed: the bytes are not those that were encrypted") from None


def restored_chunk(stored: bytes, size: int, cipher: Cipher | None, is_compressed: bool) -> bytes:
    """Returns the ``size`` original bytes of a chunk. Raises ChunkError."""
    data: BytesLike = stored if cipher is None else cipher.decrypted(stored)
    if is_compressed:
        try:
            data = unzstd(memoryview(data), DecompressedBytes(size))
        except (DecompressionError, IndexError) as error:
            raise ChunkError(f"cannot be decompressed: {error}") from error
    if len(data) != size:
        raise ChunkError(f"restores to {len(data)} bytes instead of {size}")
    return bytes(data)


def restored_part(stored: bytes, cipher: Cipher | None) -> bytes:
    """Returns the original bytes of a side file. Raises ChunkError."""
    return stored if cipher is None or not stored else cipher.decrypted(stored)
