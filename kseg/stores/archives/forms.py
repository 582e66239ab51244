"""Recognises packed files and archives by their first bytes."""

import re

# The error of packed bytes that cannot be decompressed.


class UnpackError(Exception):
    """The packed bytes end or are not valid at ``position`` of the packed file."""

    def __init__(self, position: int, message: str) -> None:
        super().__init__(message)
        self.position = position

    @classmethod
    def cut(cls, compression: str, position: int) -> "UnpackError":
        """A frame that the end of the file cuts."""
        return cls(position, f"{compression}: it ends in the middle of a compressed frame")

    @classmethod
    def of_library(cls, compression: str, position: int, error: Exception) -> "UnpackError":
        """A frame that its library refuses."""
        return cls(position, f"{compression}: {str(error) or type(error).__name__}")


GZIP, ZSTD, LZ4, XZ, BZIP2 = "gzip", "zstd", "lz4", "xz", "bzip2"
_MAGICS = {b"\x1f\x8b": GZIP, b"\x28\xb5\x2f\xfd": ZSTD, b"\x04\x22\x4d\x18": LZ4, b"\xfd7zXZ\0": XZ, b"BZh": BZIP2}
PACKED_SUFFIXES = (".gz", ".xz", ".bz2", ".zst", ".zstd", ".lz4", ".zip")
ARCHIVE_SUFFIXES = (*PACKED_SUFFIXES, ".tar", ".tgz", ".txz", ".tbz2")
TAR, ZIP = "tar", "zip"
REDPANDA = "redpanda"
"""A segment of Redpanda is read as if it were packed (`kseg.stores.redpanda`)."""
REDPANDA_NAME = re.compile(r"([0-9]+)-([0-9]+)-v[0-9]+\.log")
"""BASE-TERM-v1.log: the name of a segment of Redpanda."""
REDPANDA_SEGMENT = "redpanda-segment"
"""The code of the problem that names such a segment."""
ZIP_MAGIC, EMPTY_ZIP_MAGIC = b"PK\x03\x04", b"PK\x05\x06"
BLOCK_BYTES = 512
"""Size of a block of a tar file, and of its headers."""
TAR_MAGIC_AT, TAR_MAGIC = 257, b"ustar"
TAR_REGULAR = b"0\0" + b"7"
"""Types of members of a tar file that are regular files."""
HEAD_BYTES = 1 << 10
_SKIPPABLE = b"\x2a\x4d\x18"
"""End of the magic of a frame without data, which zstd and lz4 have in common; the first byte is 50 to 5f."""


def form_of(head: bytes) -> str | None:
    """Returns how a file with these first bytes is packed: a compression, TAR, ZIP or REDPANDA; None if it is not."""
    if head.startswith((ZIP_MAGIC, EMPTY_ZIP_MAGIC)):
        return ZIP
    if is_tar_header(head[:BLOCK_BYTES]):
        return TAR
    name = packing_name(head)
    if name is not None or head[:4] == bytes(4) or not 0 < int.from_bytes(head[16:17]) < 64:
        return name  # a Kafka segment begins with zeros
    from kseg.stores.redpanda import is_header

    return REDPANDA if is_header(head) else None


def is_skippable(head: bytes) -> bool:
    """Whether bytes begin with the magic of a frame without data of zstd or lz4."""
    return head[1:4] == _SKIPPABLE and 0x50 <= head[0] <= 0x5F


def packing_name(head: bytes) -> str | None:
    """Returns the compression of bytes that begin like these; None if they are not compressed."""
    if is_skippable(head):
        return ZSTD
    return next((name for magic, name in _MAGICS.items() if head.startswith(magic)), None)


def is_tar_header(block: bytes) -> bool:
    """Whether a block has the checksum of a tar header; a block of zeros has not."""
    stored = tar_number(block[148:156]) if len(block) == BLOCK_BYTES else None
    if stored is None or not any(block):
        return False
    rest = block[:148] + b" " * 8 + block[156:]
    return stored in (sum(rest), sum(rest) - 256 * sum(byte > 127 for byte in rest))


def tar_number(field: bytes) -> int | None:
    """Returns the octal number in a field of a tar header, or a binary one (GNU) of at most 63 bits; None if it is
    neither."""
    if field[:1] == b"\x80":
        found = int.from_bytes(field[1:], "big")
        return found if found < 1 << 63 else None
    text = field.strip(b" \0")
    if not text:
        return 0
    return int(text, 8) if text.isdigit() and not text.strip(b"01234567") else None


def tar_padded(size: int) -> int:
    """Returns the bytes that the data of a tar member takes: whole blocks."""
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES
