"""Files that a quarantine keeps: their folder's name, sizes and digests."""

import hashlib
import os
from typing import NamedTuple

from kseg.changes.disk import open_to_read, stored_end

_HASH_BYTES = 4 << 20


def digest(path: str, position: int, length: int) -> str:
    """SHA-256 of a range of a file, in hex; of what is there where the file is shorter. Raises OSError."""
    found = hashlib.sha256()
    with os.fdopen(open_to_read(path), "rb", 0) as file:
        file.seek(position)
        while length > 0 and (data := file.read(min(length, _HASH_BYTES))):
            found.update(data)
            length -= len(data)
    return found.hexdigest()


class Stored(NamedTuple):
    """A kept file: its bytes, how many of them come before the zeros at its end, and the SHA-256 of those.

    The zeros of a preallocated index are holes, which are not read.
    """

    size: int
    data_size: int
    sha256: str


def is_stored(path: str, known: Stored) -> bool:
    """Whether a file is as it was kept. Raises OSError."""
    if known.data_size == known.size:  # all of it counts, zeros at its end too
        return os.stat(path).st_size == known.size and digest(path, 0, known.size) == known.sha256
    return stored(path) == known


def stored(path: str) -> Stored:
    """Raises OSError."""
    descriptor = open_to_read(path)
    try:
        size = os.fstat(descriptor).st_size
        data_size = _data_size(descriptor, size)
    finally:
        os.close(descriptor)
    return Stored(size, data_size, digest(path, 0, data_size))


def _data_size(descriptor: int, size: int) -> int:
    """Bytes of an open file before the zeros at its end."""
    end = stored_end(descriptor, size)
    while end > 0:
        start = max(end - _HASH_BYTES, 0)
        if data := os.pread(descriptor, end - start, start).rstrip(b"\0"):
            return start + len(data)
        end = start
    return 0


def kept_name(directory: str, number: int, time_ms: int) -> str:
    """The name of the folder for what a change of a directory keeps elsewhere; it tells which directory that is."""
    directory = os.path.abspath(directory)
    place = hashlib.sha256(os.fsencode(directory)).hexdigest()[:32]
    return f"{os.path.basename(directory)}.{number}.{time_ms}.{place}"
