"""Writes what new content is made of to an open file."""

import errno
import os
from collections.abc import Iterable

from kseg.changes.disk import Disk, open_to_read
from kseg.changes.plan import Piece, Range, Seen, piece_size, seen
from kseg.errors import KsegError

_SMALL_PIECE_BYTES = 1 << 13
_GATHERED_BYTES = 1 << 18
"""Pieces up to this size are gathered in memory and written together: a copy of its own costs more for each."""
_OPEN_FILES = 8


def write_pieces(pieces: Iterable[Piece], directory: str, target: int, disk: Disk) -> int:
    """Appends pieces to an open file; the bytes that were. Raises OSError, EIO where a range is not there (any more).

    Names of ranges are those of files of the directory, or absolute paths.
    """
    os.lseek(target, 0, os.SEEK_END)
    sources, held, size = _Sources(directory), bytearray(), 0
    try:
        for piece in pieces:
            length = piece_size(piece)
            size += length
            is_small = length < _SMALL_PIECE_BYTES
            if held and (not is_small or len(held) >= _GATHERED_BYTES):
                disk.write(target, memoryview(held))
                held = bytearray()
            if not isinstance(piece, Range):
                if is_small:
                    held += piece
                else:
                    disk.write(target, piece)
            elif is_small:
                held += sources.read(piece)
            else:
                disk.copy_range(sources.open(piece.file), piece.position, length, target)
        if held:
            disk.write(target, memoryview(held))
    finally:
        sources.close()
    return size


class _Sources:
    """Files that ranges are read from; the last ones stay open."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._descriptors: dict[str, int] = {}

    def open(self, file: str) -> int:
        found = self._descriptors.pop(file, None)
        if found is None:
            if len(self._descriptors) >= _OPEN_FILES:
                os.close(self._descriptors.pop(next(iter(self._descriptors))))
            found = open_to_read(os.path.join(self._directory, file))
        self._descriptors[file] = found
        return found

    def read(self, piece: Range) -> bytes:
        data = os.pread(self.open(piece.file), piece.length, piece.position)
        if len(data) < piece.length:
            raise OSError(errno.EIO, "a file is shorter than it was")
        return data

    def close(self) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)


def make_file(
    path: str,
    pieces: Iterable[Piece],
    directory: str,
    disk: Disk,
    model: str,
    takes_attributes: bool = True,
    mtime_ns: int | None = None,
) -> None:
    """A new, lasting file with owner and mode of ``model``, its attributes where they are wanted, and that time.

    Raises OSError, KsegError where the owner cannot be given.
    """
    target = disk.create(path)
    try:
        write_pieces(pieces, directory, target, disk)
        take_after(path, model, disk, descriptor=target)
        if takes_attributes:
            disk.copy_attributes(model, path, target)
        if mtime_ns is not None:
            disk.set_time(target, mtime_ns)
        disk.sync(target)
    finally:
        os.close(target)


def made_file(path: str) -> Seen:
    """What was made there. Raises OSError where nothing is."""
    made = seen(path)
    if made is None:
        raise OSError(errno.EIO, "what was written is not there")
    return made


def take_after(path: str, model: str, disk: Disk, as_directory: bool = False, descriptor: int = -1) -> None:
    """As `Disk.take_after`. Raises KsegError where the owner cannot be given, else OSError."""
    try:
        disk.take_after(path, model, as_directory, descriptor)
    except PermissionError as error:
        raise KsegError(f"{model}: its owner cannot be given to new files: run kseg as the broker's user") from error
