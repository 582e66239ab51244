"""Writes the new content of files: its pieces, or what a delta needs of them."""

import errno
import os
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from kseg.changes.disk import Disk, Model
from kseg.changes.manifest import KEPT as KEPT_FOLDER
from kseg.changes.manifest import Change
from kseg.changes.plan import RENAME, REPLACE, TRUNCATE, FileState, Piece, Plan, Range, file_state, piece_size
from kseg.errors import KsegError
from kseg.stores.extent import Extent
from kseg.stores.no_follow import open_file, open_to_copy
from kseg.stores.place import Place

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
            found = open_to_copy(Place(self._directory) / file)
        self._open[file] = found
        return found

    def read(self, piece: Range) -> bytes:
        file, position, length = piece
        at = position - self._start
        if file != self._file or at < 0 or at + length > len(self._window):
            leads_on = file == self._file and 0 <= at <= _WINDOW_BYTES // 4
            extent, wanted = self.open(file), max(length, _WINDOW_BYTES) if leads_on else length
            try:
                self._window = extent.pread(wanted, position)
            except OSError:
                if wanted == length:
                    raise
                self._window = extent.pread(length, position)  # the bytes after the range are unreadable
            self._file, self._start, at = file, position, 0
        data = self._window[at : at + length]
        if len(data) < length:
            raise OSError(errno.EIO, "a file is shorter than it was")
        return data

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


# Deltas: rewrite a file that reuses most of its old bytes without a second copy of them.
#
# Only those ranges of the old file are kept that the new file lacks (`RemovedRanges`). Batches that move to another
# segment are among the removed ranges of their old segment. So each new file can be written from its own old file and
# from kept bytes: it is written after the commit, in its turn, and replaces the old file before the next one is
# started.
#
# A delta is a text file with one line for each piece of the new content: source, number, position and length in bytes.
# Source ``own`` is the old file; ``kept`` the bytes kept by the step of that number; ``undone`` the bytes kept by that
# step of the change that is being undone; ``added`` new bytes in the staging folder.

# The ranges of an old file that do not occur in its replacement: only these must be kept.


class RemovedRanges:
    """Ranges of a file of ``old_size`` bytes in ascending order, stored end to end in the kept file: ``size`` bytes in
    total.

    ``staying``: position and length of the ranges that the new file reuses, in any order. ``are_within_file``: all of
    these are within the file.
    """

    def __init__(self, old_size: int, staying: Iterable[tuple[int, int]]) -> None:
        self._starts, self._ends, self._places = array("q"), array("q"), array("q")
        starts, ends, before, is_rising, largest = array("q"), array("q"), -1, True, 0
        for position, length in staying:
            end = position + length
            is_rising = is_rising and before <= position
            before, largest = position, end if end > largest else largest
            starts.append(position)
            ends.append(end)
        self.are_within_file = largest <= old_size
        if not is_rising:
            order = sorted(range(len(starts)), key=starts.__getitem__)
            starts, ends = array("q", map(starts.__getitem__, order)), array("q", map(ends.__getitem__, order))
        at = size = 0
        starts.append(old_size)
        ends.append(old_size)
        for start, end in zip(starts, ends, strict=True):
            if at < start:
                self._starts.append(at)
                self._ends.append(start)
                self._places.append(size)
                size += start - at
            at = end if end > at else at
        self.size = size

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yields position in the old file and length of each range."""
        return ((start, end - start) for start, end in zip(self._starts, self._ends, strict=True))

    def split(self, position: int, length: int) -> Iterator[tuple[int, int, int]]:
        """Splits a range of the file into parts: position, length, and position in the kept file, or -1 if it is not
        kept.
        """
        end, i = position + length, max(bisect_right(self._starts, position) - 1, 0)
        while position < end:
            if i == len(self._starts) or self._starts[i] >= end:
                yield position, end - position, -1
                return
            if self._starts[i] > position:
                yield position, self._starts[i] - position, -1
                position = self._starts[i]
            if (stop := min(self._ends[i], end)) > position:
                yield position, stop - position, self._places[i] + position - self._starts[i]
                position = stop
            i += 1


_LINE_BYTES = 128
OWN, KEPT, UNDONE, ADDED = "own", "kept", "undone", "added"

DeltaPiece = tuple[str, int, Piece]
"""Source, number and a piece of new content. A range refers to the old file, or to kept bytes."""


class PlanDeltas:
    """The deltas of a plan. ``removed_ranges``: for each step that rewrites a file from a delta, the ranges to keep."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._directory = Place(plan.directory).absolute
        self._keepers = {step.origin: k for k, step in enumerate(plan.steps) if step.is_kept}
        self._added: dict[tuple[int, bool], int] = {}
        self._kept: dict[int, RemovedRanges] = {}
        self.removed_ranges: dict[int, RemovedRanges] = {}
        for k, step in enumerate(plan.steps):
            if step.origin in plan.kept_whole:
                continue
            if step.action == REPLACE and step.before is not None and step.made_by is None and not step.source:
                ranges = (piece for piece in step.pieces if isinstance(piece, Range))
                staying = (piece[1:] for piece in ranges if step.origin in (piece.file, self._name(piece)))
                removed = RemovedRanges(step.before.size, staying)
                shared_bytes = step.before.size - removed.size
                if removed.are_within_file and 2 * shared_bytes >= max(step.size, step.before.size, 1):
                    self.removed_ranges[k] = removed

    def _name(self, piece: Range) -> str:
        """Returns the name of the file if it is in the directory, otherwise ""."""
        if os.sep not in piece.file:
            return piece.file
        folder, name = os.path.split(piece.file)
        return name if folder == self._directory else ""

    def delta_pieces(self, k: int, borrows: bool) -> Iterator[DeltaPiece]:
        """Yields the pieces of step k's new content. ``borrows``: bytes kept by other steps are readable until the
        change is done.
        """
        step = self._plan.steps[k]
        for piece in step.pieces:
            if not isinstance(piece, Range):
                yield ADDED, 0, piece
            elif (name := self._name(piece)) == step.origin:
                yield OWN, 0, piece
            elif self._plan.restores_from and Place(piece.file).parent == self._plan.restores_from:
                yield UNDONE, int(os.path.basename(piece.file)), piece
            elif borrows and name in self._keepers:  # another step keeps a part of the file
                keeper = self._keepers[name]
                for position, length, kept_at in self._kept_by(keeper).split(piece.position, piece.length):
                    if kept_at < 0:
                        yield ADDED, 0, Range(piece.file, position, length)
                    else:
                        yield KEPT, keeper, Range(piece.file, kept_at, length)
            else:
                yield ADDED, 0, piece

    def _kept_by(self, k: int) -> RemovedRanges:
        """Returns the ranges of its old file that step k keeps."""
        if k in self.removed_ranges:
            return self.removed_ranges[k]
        if k not in self._kept:
            step = self._plan.steps[k]
            size = step.before.size if step.before else 0
            staying = size if step.action == RENAME else step.size if step.action == TRUNCATE else 0
            self._kept[k] = RemovedRanges(size, [(0, staying)])
        return self._kept[k]

    def added(self, k: int, borrows: bool) -> Iterator[Piece]:
        """Yields the pieces that are staged for step k before the commit."""
        return (piece for source, _, piece in self.delta_pieces(k, borrows) if source == ADDED)

    def added_bytes(self, k: int, borrows: bool) -> int:
        if (k, borrows) not in self._added:
            self._added[k, borrows] = sum(map(piece_size, self.added(k, borrows)))
        return self._added[k, borrows]


def deltas_of(plan: Plan) -> PlanDeltas:
    """Returns the deltas of a plan. They are computed again only if the plan has grown."""
    if plan.deltas is None or plan.deltas[0] != len(plan.steps):
        plan.deltas = len(plan.steps), PlanDeltas(plan)
    found = plan.deltas[1]
    assert isinstance(found, PlanDeltas)
    return found


def delta_lines(delta_pieces: Iterator[DeltaPiece]) -> Iterator[bytes]:
    """Yields the lines of the delta file; added pieces are stored end to end."""
    added = 0
    for source, number, piece in delta_pieces:
        length = piece_size(piece)
        position = piece.position if isinstance(piece, Range) and source != ADDED else added
        added += length if source == ADDED else 0
        yield f"{source} {number} {position} {length}\n".encode()


def _read(change: Change, k: int) -> Iterator[tuple[str, int, int, int]]:
    """Yields the parsed lines. Raises OSError, also for a malformed delta."""
    path = change.delta_path(k)
    with os.fdopen(open_file(path), "rb") as file:
        while line := file.readline(_LINE_BYTES):
            try:
                source, *numbers = line.decode("ascii").split()
                number, position, length = map(int, numbers)
            except ValueError as error:
                raise OSError(errno.EIO, "is no delta", path) from error
            if min(number, position, length) < 0:
                raise OSError(errno.EIO, "is no delta", path)
            yield source, number, position, length


def new_content(change: Change, k: int) -> Iterator[Range]:
    """Yields the new content of a step as ranges of files, given by path. Raises OSError."""
    own, added = change.path(change.steps[k].file), change.added(k)
    for source, number, position, length in _read(change, k):
        if source == OWN:
            path = own
        elif source == ADDED:
            path = added
        elif source == KEPT:
            path = change.old(number)
        elif source == UNDONE:
            path = Place(change.folder).parent / str(change.undoes) / KEPT_FOLDER / str(number)
        else:
            raise OSError(errno.EIO, "is no delta", change.delta_path(k))
        yield Range(path, position, length)


def old_content(change: Change, k: int, name: str) -> Iterator[Piece]:
    """Yields the old content of a file, composed of its new version ``name`` and the kept bytes. Raises OSError."""
    before = change.steps[k].before
    size = before.size if before else 0
    olds, news, lengths, at, kept_at = array("q"), array("q"), array("q"), 0, 0
    for source, _, position, length in _read(change, k):
        if source == OWN:
            olds.append(position)
            news.append(at)
            lengths.append(length)
        at += length
    done = 0
    for i in sorted(range(len(olds)), key=olds.__getitem__):
        if olds[i] > done:
            yield Range(change.old(k), kept_at, olds[i] - done)
            kept_at += olds[i] - done
            done = olds[i]
        if (end := olds[i] + lengths[i]) > done:
            yield Range(name, news[i] + done - olds[i], end - done)
            done = end
    if done < size:
        yield Range(change.old(k), kept_at, size - done)
        kept_at += size - done
    if max(done, size) > size or at != change.steps[k].size or kept_at != change.by_delta[k].size:
        raise OSError(errno.EIO, "is no delta from the old file", change.delta_path(k))
