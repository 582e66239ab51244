"""Writes the pieces of new content to files."""

import errno
import os
from collections.abc import Iterable

from kseg.changes.disk import Disk, Model
from kseg.changes.plan import FileState, Piece, Range, file_state, piece_size
from kseg.errors import KsegError
from kseg.stores.extent import Extent
from kseg.stores.no_follow import open_to_copy

_SMALL_PIECE_BYTES = 1 << 13
_GATHERED_BYTES = 1 << 18
"""Pieces below _SMALL_PIECE_BYTES are collected up to this size and written with one call, which is cheaper than a copy
for each."""
_WINDOW_BYTES = 1 << 16
_OPEN_FILES = 8


def write_pieces(pieces: Iterable[Piece], directory: str, target: int, disk: Disk) -> int:
    """Writes pieces to an open file, from its position on. Returns the number of bytes.

    The files of ranges are names in the directory, or absolute paths. Raises OSError; EIO if a range does not exist
    (any more).
    """
    if isinstance(pieces, tuple) and len(pieces) == 1 and not isinstance(pieces[0], Range):
        if pieces[0]:
            disk.write(target, pieces[0])
        return len(pieces[0])
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
    """The files that ranges are read from. The most recently used ones stay open.

    Small ranges near each other are read together.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._open: dict[str, Extent] = {}
        self._file, self._start, self._window = "", 0, b""

    def open(self, file: str) -> Extent:
        found = self._open.pop(file, None)
        if found is None:
            if len(self._open) >= _OPEN_FILES:
                self._open.pop(next(iter(self._open))).close()
            found = open_to_copy(os.path.join(self._directory, file))
        self._open[file] = found
        return found

    def read(self, piece: Range) -> bytes:
        file, position, length = piece
        at = position - self._start
        if file != self._file or at < 0 or at + length > len(self._window):
            leads_on = file == self._file and 0 <= at <= _WINDOW_BYTES // 4
            self._fill(file, position, length, max(length, _WINDOW_BYTES) if leads_on else length)
            at = 0
        data = self._window[at : at + length]
        if len(data) < length:
            raise OSError(errno.EIO, "a file is shorter than it was")
        return data

    def _fill(self, file: str, position: int, length: int, wanted: int) -> None:
        """Reads a window from a position on; only the range itself if the bytes after it are unreadable."""
        extent = self.open(file)
        try:
            window = extent.pread(wanted, position)
        except OSError:
            if wanted == length:
                raise
            window = extent.pread(length, position)
        self._file, self._start, self._window = file, position, window

    def close(self) -> None:
        for extent in self._open.values():
            extent.close()


def make_file(
    path: str,
    pieces: Iterable[Piece],
    directory: str,
    disk: Disk,
    model: str | Model,
    takes_attributes: bool = True,
    mtime_ns: int | None = None,
) -> FileState:
    """Creates and syncs a file with owner and mode of ``model``; extended attributes and modification time are
    optional. Returns its state.

    Raises OSError, or KsegError if the owner cannot be set.
    """
    with disk.new_file(path, mtime_ns=mtime_ns) as target:
        write_pieces(pieces, directory, target, disk)
        status = copy_owner(path, model, disk, descriptor=target)
        if takes_attributes:
            disk.copy_attributes(model, path, target)
    return FileState(status.st_ino, status.st_size, status.st_mtime_ns if mtime_ns is None else mtime_ns)


def created_state(path: str) -> FileState:
    """Returns the state of a file that was just written. Raises OSError if it does not exist."""
    made = file_state(path)
    if made is None:
        raise OSError(errno.EIO, "the file just written does not exist")
    return made


def copy_owner(
    path: str, model: str | Model, disk: Disk, as_directory: bool = False, descriptor: int = -1
) -> os.stat_result:
    """As `Disk.copy_owner`. Raises KsegError if the owner cannot be set, otherwise OSError."""
    try:
        return disk.copy_owner(path, model, as_directory, descriptor)
    except PermissionError as error:
        named = model.path if isinstance(model, Model) else model
        raise KsegError(f"{named}: its owner cannot be given to new files: run kseg as the broker's user") from error
