"""Detects the type of a file from its first bytes: batches, compressed file or archive, text, or other."""

import re

from kseg.errors import PathError, errors_at
from kseg.formats.record_batch import HEADER_BYTES
from kseg.kernel.scan.plausibility import continues
from kseg.stores import trees
from kseg.stores.source import Source
from kseg.stores.windows import FIRST_LOOK_BYTES, next_frame

HEAD_BYTES = 1 << 16
"""Number of bytes read of a file; bzip2 may need all of them to yield its first output."""
_TEXT_BYTES = 512

_NEVER_PACKED = (b"", bytes(4))
"""First bytes of the offsets of batches up to 2^32."""

# Compiled on first use.
_SEGMENT_NAME = (
    r"(.*\.(log|kafka)|[0-9]{20}(-[^.]*)?)"
    r"(\.(gz|bz2|xz|zst|zstd|lz4|zip|tar|bak|old|orig|copy|deleted|cleaned|swap|[0-9]+))*~?"
)
_TEXT = rb"[\t\n\r\x1b -~\x80-\xff]+"


def packing_of(head: bytes) -> str | None:
    """Returns how a file that begins with these bytes is packed: gzip, zstd, lz4, xz, bzip2, tar or zip; else None."""
    from kseg.stores.archives.forms import form_of  # the first bytes decide for most files

    return None if head[:4] in _NEVER_PACKED else form_of(head)


def refuse_empty_pack(path: str) -> None:
    """Raises PathError for an empty file whose name is that of a packed file or archive: none of these has 0 bytes."""
    from kseg.stores.archives.forms import ARCHIVE_SUFFIXES

    if path.endswith(ARCHIVE_SUFFIXES) and trees.find(path) is None and not trees.getsize(path):
        raise PathError(f"{path}: is empty, but by its name a packed file or archive: its bytes are lost")


def is_packed_segment(name: str, head: bytes) -> bool:
    """Whether a packed file holds a segment, judged by its first unpacked bytes or its name."""
    unpacked = _unpacked(head)
    if unpacked and (_is_text(unpacked) or continues(unpacked, -1)):
        return not _is_text(unpacked)
    return named_like_segment(name)


def _unpacked(head: bytes) -> bytes:
    """Returns the first unpacked bytes; none if it is an archive, or if that takes more than these."""
    from kseg.stores.archives.forms import UnpackError, packing_name
    from kseg.stores.archives.unpack import unpacked_bytes

    if packing_name(head) is None:
        return b""
    try:
        return next(unpacked_bytes(head), b"")[:HEADER_BYTES]
    except UnpackError:
        return b""


def named_like_segment(name: str) -> bool:
    """Whether a name resembles a segment's: .log, .kafka or 20 digits, followed at most by suffixes of copies and
    packed files."""
    return re.fullmatch(_SEGMENT_NAME, name) is not None


def read_head(source: Source) -> bytes:
    """Returns the first bytes of a file. Raises PathError if they cannot be read."""
    if source.is_in_place:
        source.need(0, HEAD_BYTES)
        return bytes(source.buffer[:HEAD_BYTES])
    with errors_at(source.path):
        return source.head(HEAD_BYTES)


def holds_batches(source: Source, name: str) -> bool:
    """Whether the file appears to be a segment. Raises PathError.

    This holds if it begins with a batch, if an intact batch follows soon, or if its name resembles a segment's and its
    bytes are neither text nor packed.
    """
    head = read_head(source)
    if not head or packing_of(head) is not None:
        return False
    if _is_text(head):
        return False
    if named_like_segment(name) or continues(head[:HEADER_BYTES], -1):
        return True
    return has_intact_batch(source)


def has_intact_batch(source: Source) -> bool:
    """Whether a batch whose checksum is right starts near the start of the file. Raises PathError."""
    with errors_at(source.path):
        return next_frame(source.extent, 0, source.size, FIRST_LOOK_BYTES) >= 0


def first_base_offset(source: Source) -> int | None:
    """Returns the base offset of the batch at the start of the file; None if there is none. Raises PathError."""
    head = read_head(source)
    return int.from_bytes(head[:8], "big") if continues(head[:HEADER_BYTES], -1) else None


def _is_text(head: bytes) -> bool:
    if re.fullmatch(_TEXT, head[:_TEXT_BYTES]) is None:
        return False
    # The last character may be cut.
    return "\ufffd" not in head[:_TEXT_BYTES].decode("utf-8", "replace")[:-3]
