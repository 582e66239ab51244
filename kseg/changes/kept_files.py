"""Names, sizes and digests of the files in a quarantine."""

import hashlib
import os
from typing import NamedTuple

from kseg.changes.disk import open_to_read, stored_end

_HASH_BYTES = 4 << 20


def digest(path: str, position: int, length: int) -> str:
    """Returns the SHA-256 of a range of a file in hex. If the file is shorter, only the existing bytes count. Raises
    OSError.
    """
    found = hashlib.sha256()
    with os.fdopen(open_to_read(path), "rb", 0) as file:
        file.seek(position)
        while length > 0 and (data := file.read(min(length, _HASH_BYTES))):
            found.update(data)
            length -= len(data)
    return found.hexdigest()


class Stored(NamedTuple):
    """A kept file: its size, the size without trailing zeros, and the SHA-256 of the bytes before them.

    The trailing zeros of a preallocated index are a hole, which is not read.
    """

    size: int
    data_size: int
    sha256: str


def is_unchanged(path: str, known: Stored) -> bool:
    """Whether a file is unchanged since it was kept. Raises OSError."""
    if known.data_size == known.size:  # the digest covers the whole file, trailing zeros included
        return os.stat(path).st_size == known.size and digest(path, 0, known.size) == known.sha256
    return stored(path) == known


def stored(path: str) -> Stored:
    """Returns size and digest of a file. Raises OSError."""
    descriptor = open_to_read(path)
    try:
        size = os.fstat(descriptor).st_size
        data_size = _data_size(descriptor, size)
    finally:
        os.close(descriptor)
    return Stored(size, data_size, digest(path, 0, data_size))


def _data_size(descriptor: int, size: int) -> int:
    """Returns the size of an open file without trailing zeros."""
    end = stored_end(descriptor, size)
    while end > 0:
        start = max(end - _HASH_BYTES, 0)
        if data := os.pread(descriptor, end - start, start).rstrip(b"\0"):
            return start + len(data)
        end = start
    return 0


def kept_name(directory: str, number: int, time_ms: int) -> str:
    """Returns the name of the folder for bytes that are kept elsewhere. It identifies the directory and the change."""
    directory = os.path.abspath(directory)
    place = hashlib.sha256(os.fsencode(directory)).hexdigest()[:32]
    return f"{os.path.basename(directory)}.{number}.{time_ms}.{place}"
