"""A partition directory as planned: recovery changes the workspace, and its difference to the disk is the plan.

A file is a real one, perhaps truncated or renamed, or new content. Nothing on disk is changed.
"""

import mmap
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from kseg.changes.plan import Content, Piece, Pieces, Plan, Range, Removed, gathered, piece_size
from kseg.errors import KsegError, PathError, UnsupportedError, errors_at
from kseg.formats.rows import Scratch
from kseg.node.index_interval import FilesOnDisk
from kseg.sidefiles.indexes import EntryWindows
from kseg.stores.place import Place
from kseg.stores.source import is_disk_error
from kseg.stores.windows import Buffers


@dataclass(slots=True)
class File:
    """Content of ``size`` bytes, made of ``pieces``; ``origin``: the real file whose first bytes it is, None if it is
    new. Only `spill` changes it."""

    origin: str | None
    size: int
    pieces: Pieces

    @classmethod
    def real(cls, name: str, size: int) -> "File":
        return cls(name, size, (Range(name, 0, size),))


def spill(files: Iterable[File]) -> None:
    """Moves the content of files in memory to one unnamed temporary file, which stays mapped as long as one of them.

    Raises KsegError if TMPDIR has too little space."""
    import tempfile  # most partitions don't need one

    held = [
        file
        for file in files
        if not isinstance(file.pieces, Content) and any(isinstance(piece, bytes) for piece in file.pieces)
    ]
    if not held:
        return
    try:
        with tempfile.TemporaryFile() as store:
            for file in held:
                store.writelines(piece for piece in file.pieces if isinstance(piece, bytes))
            store.flush()
            mapped = memoryview(mmap.mmap(store.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        directory = f"{tempfile.gettempdir()}: {error.strerror or error}"
        raise KsegError(f"{directory}: temporary directory for new indexes (TMPDIR)") from error
    at = 0
    for file in held:
        pieces: list[Piece] = []
        for piece in file.pieces:
            if isinstance(piece, bytes):
                at += len(piece)
                piece = mapped[at - len(piece) : at]
            pieces.append(piece)
        file.pieces = tuple(pieces)  # in place: whoever else has the file lets its bytes go, too


def leading_offset(name: str) -> int | None:
    """Returns the number before the first dot of a name (LogFileUtils.offsetFromFile); None if there is none."""
    stem, dot, _ = name.partition(".")
    digits = stem[1:] if stem[:1] in ("-", "+") else stem
    if not dot or not (digits.isascii() and digits.isdigit()) or len(digits.lstrip("0")) > 19:
        return None
    offset = int(stem)
    return offset if -(1 << 63) <= offset < 1 << 63 else None


class BrokerRefusesError(KsegError):
    """A broker would not start on this; the message gives the reason and a remedy."""


class TransactionConflictError(BrokerRefusesError):
    """Batches of a producer contradict each other: one is outside of its open transaction, or two transactions begin at
    one offset."""


MAX_SIDE_FILE_BYTES = 1 << 28
"""Larger than any index, snapshot or checkpoint."""

SPILL_BYTES = 64 << 20
"""Limit of new content in memory, for all partitions of a run; more is moved to temporary files."""

SPILL_PART_BYTES = 4 << 20
"""Size of one temporary file."""


class Workspace(FilesOnDisk):
    """The regular files of a directory by name; ``jobs`` threads may read a large file.

    Raises PathError if the directory cannot be listed.
    """

    made_bytes = 0
    """New content of all workspaces so far."""

    def __init__(self, directory: str, jobs: int = 1) -> None:
        super().__init__(directory)
        self.jobs = jobs
        self.files = {name: File.real(name, size) for name, size in sorted(self._sizes.items())}
        self.unreadable: set[str] = set()
        """Names of real files with unreadable bytes; if such a file is changed, the whole old file is kept."""
        self._reasons: dict[str, str] = {}
        self._removed: dict[str, list[Removed]] = {}
        self._moved: set[str] = set()
        self._held_bytes = 0
        self._idle_buffers: list[Buffers] = []

    @cached_property
    def scratch(self) -> Scratch:
        return Scratch()  # a MiB, which only markers and old formats need

    @contextmanager
    def borrowed_buffers(self) -> Iterator[Buffers]:
        """Yields buffers that no other pass uses meanwhile: plans of segments of 1 MiB take half the time."""
        buffers = self._idle_buffers.pop() if self._idle_buffers else Buffers()
        try:
            yield buffers
        finally:
            self._idle_buffers.append(buffers)

    def __contains__(self, name: object) -> bool:
        return name in self.files

    def offset_of(self, name: str) -> int:
        """Like `leading_offset`, but raises BrokerRefusesError for a name without a number."""
        offset = leading_offset(name)
        if offset is None:
            where = f"{self.directory}/{name}"
            raise BrokerRefusesError(f"{where}: its name is no offset: a broker does not start with it; move it away")
        return offset

    def is_original(self, name: str) -> bool:
        """Whether it is a real file under some name, not new content."""
        return self.files[name].origin is not None

    def names(self, suffix: str = "") -> list[str]:
        return sorted(name for name in self.files if name.endswith(suffix))

    def size(self, name: str) -> int:
        return self.files[name].size

    def read(self, name: str) -> bytes:
        """Returns the planned content of a side file. Raises UnsupportedError if it is larger than any side file."""
        if self.size(name) > MAX_SIDE_FILE_BYTES:
            raise UnsupportedError(
                f"{os.path.join(self.directory, name)}: has {self.size(name)} bytes, which no file of its kind has; "
                "move it away"
            )
        return self.read_range(name, 0, self.size(name))

    def read_range(self, name: str, position: int, length: int) -> bytes:
        """Returns bytes of the planned content of a file; fewer at its end."""
        found = []
        for piece in self.slice(name, position, length):
            data = super().read_range(*piece) if isinstance(piece, Range) else bytes(piece)
            if isinstance(piece, Range) and len(data) < piece.length:
                path = Place(self.directory) / piece.file
                raise KsegError(f"{path}: has become shorter while it was read")
            found.append(data)
        return found[0] if len(found) == 1 else b"".join(found)

    def slice(self, name: str, position: int, length: int) -> tuple[Piece, ...]:
        """Returns the pieces that make up a range of the planned content of a file."""
        found = []
        for piece in self.files[name].pieces:
            if length <= 0:
                break
            size = piece_size(piece)
            part = _part(piece, min(position, size), min(position + length, size))
            found += [part] * (piece_size(part) > 0)
            length -= piece_size(part)
            position = max(position - size, 0)
        return tuple(found)

    def location(self, name: str) -> tuple[str, int]:
        """Returns the real file that contains the bytes of ``name``, and their position in it.

        Raises ValueError if they are not contiguous in one file.
        """
        pieces = self.files[name].pieces
        if not isinstance(pieces, Content) and len(pieces) == 1 and isinstance(piece := pieces[0], Range):
            return Place(self.directory) / piece.file, piece.position
        raise ValueError(f"{name} is not on disk")

    def path(self, name: str) -> str:
        """Returns the real file that contains the bytes of ``name``, which must not be new content."""
        return self.location(name)[0]

    def delete(self, name: str, reason: str, removed: Iterable[Removed] = ()) -> None:
        """Deletes a file if it exists. ``removed``: the removed ranges to report."""
        file = self.files.pop(name, None)
        if file is not None and file.origin is not None:
            self._reasons[file.origin] = reason
            self._removed.setdefault(file.origin, []).extend(removed)

    def rename(self, name: str, target: str, reason: str) -> None:
        """Renames a file; an existing target is replaced."""
        if target in self.files:
            self.delete(target, reason)
        file = self.files.pop(name)
        self.files[target] = file
        if file.origin is not None:
            self._moved.add(file.origin)
        self._reasons[file.origin or target] = reason

    def truncate(self, name: str, size: int, reason: str, removed: Iterable[Removed] = ()) -> None:
        file = self.files[name]
        if size >= file.size:
            return
        if file.origin is None:
            self.files[name] = File(None, size, self.slice(name, 0, size))
        else:
            self.files[name] = File.real(file.origin, size)
            self._reasons[file.origin] = reason
            self._removed.setdefault(file.origin, []).extend(removed)

    def write(self, name: str, pieces: Iterable[Piece], reason: str, removed: Iterable[Removed] = ()) -> None:
        """Gives a file new content, unless it already has it."""
        content, size = gathered(pieces)
        file = File(None, size, content)
        if name not in self._moved and self._is_on_disk(name, file):
            self.files[name] = File.real(name, file.size)
            self._reasons.pop(name, None)
            return
        self.files[name] = file
        self._reasons[name] = reason
        self._removed.setdefault(name, []).extend(removed)
        if isinstance(content, Content):
            return
        new_bytes = sum(len(piece) for piece in content if isinstance(piece, bytes))
        self._held_bytes += new_bytes
        Workspace.made_bytes += new_bytes
        if self._held_bytes > SPILL_PART_BYTES:
            self._spill()

    def _spill(self) -> None:
        if Workspace.made_bytes > SPILL_BYTES:
            self._held_bytes = 0
            spill(self.files.values())

    def write_index(
        self, name: str, content: bytes, reason: str, keeps_preallocated: Callable[[], bool], last: int = 0
    ) -> None:
        """Like `write`, but if ``keeps_preallocated``, an index that differs only by zeros at its end is left
        unchanged; it may lack the ``last`` bytes of the content."""
        kept = {content, content[: len(content) - last]}
        if not (any(self._is_preallocated(name, each) for each in kept) and keeps_preallocated()):
            self.write(name, [content], reason)

    def _is_preallocated(self, name: str, content: bytes) -> bool:
        """Whether an index on disk is ``content`` followed by zeros; a hole there is not read."""
        file = self.files.get(name)
        if file is None or file.origin is None or file.size <= len(content):
            return False
        path = self.path(name)
        with errors_at(path):
            windows = EntryWindows(path, 1)
        windows.close()
        return windows.used_bytes <= len(content) and self.read_range(name, 0, len(content)) == content

    def plan(self) -> Plan:
        """Returns the steps from the directory to the workspace, in an order in which a broker can start after any of
        them.

        Files are deleted first, from the highest offset down, then renamed, truncated and written.
        """
        self._spill()
        plan = Plan(self.directory, kept_whole=frozenset(self.unreadable))
        plan.take_listing(self.statuses, self.others)
        names = {file.origin: name for name, file in self.files.items() if file.origin is not None}
        replaced = {name for name, file in self.files.items() if file.origin is None}
        for name in sorted(self._sizes, reverse=True):
            if name not in names and name not in replaced:
                plan.delete(name, self._reasons.get(name, ""), self._removed.get(name, ()))
        for origin, name in sorted(names.items(), reverse=True):
            if origin != name:
                plan.rename(origin, name, self._reasons.get(origin, ""))
        for origin, name in sorted(names.items(), reverse=True):
            if self.files[name].size < self._sizes[origin]:
                removed, reason = self._removed.get(origin, ()), self._reasons.get(origin, "")
                if origin in self.unreadable:
                    plan.write(name, [Range(name, 0, self.files[name].size)], reason, removed)
                else:
                    plan.truncate(name, self.files[name].size, reason, removed)
        for name in sorted(replaced):
            file, is_renamed = self.files[name], name in names
            if is_renamed or not self._is_on_disk(name, file):
                plan.write(name, file.pieces, self._reasons.get(name, ""), self._removed.get(name, ()))
        return plan

    def _is_on_disk(self, name: str, file: File) -> bool:
        """Whether a real file already has the new content, each range of it in its own place."""
        if self._sizes.get(name) != file.size:
            return False
        path = Place(self.directory) / name
        try:
            with path.open() as stream:
                for piece in file.pieces:
                    if not isinstance(piece, Range):
                        if stream.read(len(piece)) != piece:
                            return False
                    elif (piece.file, piece.position) != (name, stream.tell()):
                        return False  # batches of another place are written, whatever is here
                    else:
                        stream.seek(piece.length, os.SEEK_CUR)
        except OSError as error:
            if is_disk_error(error):
                return False  # unreadable bytes are written again
            raise PathError(f"{path}: {error.strerror}") from error
        return True


def _part(piece: Piece, start: int, end: int) -> Piece:
    return Range(piece.file, piece.position + start, end - start) if isinstance(piece, Range) else piece[start:end]
