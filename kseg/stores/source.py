"""Byte sources of a segment: a mapped file, a file read in windows, or standard input.

If a mapped file is truncated, access to the mapping kills the process with SIGBUS. A file is therefore mapped only if
the compiled kernel can guard the mapping (`kseg.kernel.files.system`: lost pages read as zeros); otherwise pread is
used.
"""

import errno
import mmap
import os
import stat
import sys
from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from io import BufferedReader, RawIOBase
from operator import itemgetter
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO, cast, overload

from kseg.errors import PathError, UnreadableError, errors_at
from kseg.kernel.files import system
from kseg.limits import FIRST_WINDOW_BYTES, WINDOW_BYTES
from kseg.stores.extent import Extent, end_of_data, next_data, unnamed_file
from kseg.stores.place import Place

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

    from kseg.stores.windows import ProvenBatches

# Reads around bytes that a failing disk cannot read, and lists their ranges.
#
# A disk fails by sectors, Linux by pages of its cache: a failed read is repeated page by page. A page counts as
# unreadable after two failed reads.

PAGE_BYTES = 4096
_PIECE_BYTES = 1 << 20
_RANGES_NAMED = 4

_DISK_ERRORS = {
    getattr(errno, name)
    for name in ("EIO", "EBADMSG", "EUCLEAN", "ENODATA", "EREMOTEIO", "EILSEQ", "ENOLINK", "ETIMEDOUT")
    if hasattr(errno, name)
}
"""Errors of file systems and block devices for lost bytes (Linux: blk_errors; EBADMSG and EUCLEAN for a failed checksum
of their own)."""

UnreadableRange = tuple[int, int]
"""First byte, and the byte after the last."""


def is_disk_error(error: OSError) -> bool:
    """Whether the error means lost bytes, and not, for example, a missing permission."""
    return error.errno in _DISK_ERRORS


def unreadable_ranges(extent: Extent, size: int) -> list[UnreadableRange]:
    """Returns the unreadable ranges of the first ``size`` bytes, in order. Reads all but holes.

    Raises OSError for any failure other than the disk's.
    """
    found: list[UnreadableRange] = []
    start = 0
    while start < size:
        data = next_data(extent, start, size)
        if data - start >= _PIECE_BYTES:
            start = data // PAGE_BYTES * PAGE_BYTES
            continue
        _note(found, _read_piece(extent, start, min(start + _PIECE_BYTES, size))[1])
        start += _PIECE_BYTES
    return found


def unreadable_error(path: str, ranges: list[UnreadableRange]) -> UnreadableError:
    """Returns an error that lists the ranges and names the commands that help."""
    return UnreadableError(
        f"{path}: {named(ranges)}; kseg recover --mode salvage keeps what can be read, --from-replica fills the rest"
    )


def read_around(extent: Extent, start: int, stop: int) -> bytes:
    """Returns the bytes of a range, with zeros for unreadable or truncated bytes. Raises OSError as
    `unreadable_ranges`."""
    pieces = []
    for at in range(start, stop, _PIECE_BYTES):
        end = min(at + _PIECE_BYTES, stop)
        pieces.append(_read_piece(extent, at, end)[0].ljust(end - at, b"\0"))
    return b"".join(pieces)


def overlapping(ranges: list[UnreadableRange], start: int, stop: int) -> list[UnreadableRange]:
    """Returns the parts of the sorted ranges that are in ``[start, stop)``."""
    found = []
    for i in range(bisect_right(ranges, start, key=itemgetter(1)), len(ranges)):
        first, behind = ranges[i]
        if first >= stop:
            break
        found.append((max(first, start), min(behind, stop)))
    return found


def named(ranges: list[UnreadableRange]) -> str:
    """Returns a sentence about unreadable ranges."""
    count = sum(behind - first for first, behind in ranges)
    places = ", ".join(f"{first} to {behind - 1}" for first, behind in ranges[:_RANGES_NAMED])
    more = f" and {len(ranges) - _RANGES_NAMED} more ranges" if len(ranges) > _RANGES_NAMED else ""
    return f"{count} bytes could not be read (bytes {places}{more})"


def _read_piece(extent: Extent, start: int, stop: int) -> tuple[bytes, list[UnreadableRange]]:
    """Returns the bytes up to the end of the file, and the unreadable ranges, which are zeros."""
    try:
        return extent.read(start, stop), []
    except OSError as error:
        if not is_disk_error(error):
            raise
    data, lost = bytearray(), list[UnreadableRange]()
    while start < stop:
        behind = min(start - start % PAGE_BYTES + PAGE_BYTES, stop)
        for _ in range(2):
            try:
                page = extent.read(start, behind)
                break
            except OSError as error:
                if not is_disk_error(error):
                    raise
        else:
            _note(lost, [(start, behind)])
            page = bytes(behind - start)
        data += page
        if len(page) < behind - start:
            break
        start = behind
    return bytes(data), lost


def _note(found: list[UnreadableRange], more: list[UnreadableRange]) -> None:
    """Appends ranges to the found ones, merging adjacent ones."""
    for first, behind in more:
        if found and found[-1][1] == first:
            found[-1] = (found[-1][0], behind)
        else:
            found.append((first, behind))


STANDARD_INPUT = "-"

SMALL_BYTES = 32 << 10
"""A file of at most this size is read at once, which is faster than mapping it."""

_lingering: list[mmap.mmap] = []
_lock = Lock()


class FileBytes:
    """A file as a sequence of bytes, read by pread. Bytes lost by truncation or a disk error read as zeros.

    ``has_failed``: the disk failed to read something.
    """

    def __init__(self, extent: Extent, size: int) -> None:
        self.has_failed = False
        self._extent = extent
        self._size = size
        self._window = 0, b""
        """Its position and bytes, which change together: threads may share a file."""
        self._ahead = FIRST_WINDOW_BYTES

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, key: int, /) -> int: ...

    @overload
    def __getitem__(self, key: slice, /) -> bytes: ...

    def __getitem__(self, key: int | slice, /) -> bytes | int:
        if isinstance(key, int):
            return self._read(key, key + 1)[0]
        start, stop, _ = key.indices(self._size)
        return self._read(start, max(start, stop))

    def _read(self, start: int, stop: int) -> bytes:
        first, window = self._window
        if start < first or stop > first + len(window):
            end = self._end_of_window(start, stop, first <= start <= first + len(window))
            data, lost = _read_piece(self._extent, start, end)
            self.has_failed |= bool(lost)
            first, window = self._window = start, data.ljust(end - start, b"\0")
        return window[start - first : stop - first]

    def _end_of_window(self, start: int, stop: int, leads_on: bool) -> int:
        """Returns the end of the next window: it grows for sequential reads; for random access it stays small."""
        self._ahead = min(2 * self._ahead, WINDOW_BYTES) if leads_on else FIRST_WINDOW_BYTES
        return min(max(stop, start + self._ahead), self._size)


class Source:
    """The bytes of one segment, as ``buffer``: sliceable, of fixed length, safe if the file shrinks or the disk fails.

    The source closes its ``extent``. ``size`` is the file's size on opening; later appends are not seen. ``unreadable``
    are the ranges that the disk cannot read, which read as zeros; it is filled once `look_for_unreadable` has found one
    of them.
    """

    is_in_place = False
    """Whether reading less saves requests and work for a store."""
    proven: "ProvenBatches | None" = None
    """Batches at the start that need not be read."""

    def __init__(self, extent: Extent, path: str, size: int | None = None) -> None:
        self.path = path
        self._extent = extent
        self.size = extent.current_size() if size is None else size
        self._mapping: mmap.mmap | None = None
        self._buffer: memoryview | FileBytes | bytes | None = None
        self.unreadable: list[UnreadableRange] = []
        self._was_looked_through = False

    @property
    def buffer(self) -> memoryview | FileBytes | bytes:
        """The bytes, mapped on first use. Raises PathError if they cannot be read."""
        if self._buffer is None:
            self._buffer = self._opened()
        return self._buffer

    def _opened(self) -> memoryview | FileBytes | bytes:
        if not self.size or self._extent.descriptor < 0:
            return b""
        if self.size <= SMALL_BYTES:
            with errors_at(self.path):
                data, lost = _read_piece(self._extent, 0, self.size)
            if lost:
                self._look_through()
            return memoryview(data.ljust(self.size, b"\0"))
        if not system.CAN_GUARD:
            return FileBytes(self._extent, self.size)
        with errors_at(self.path):
            self._mapping, buffer = _map(self._extent, self.size) or _map_copy(self.extent, self.size)
        return buffer

    def look_for_unreadable(self) -> bool:
        """Whether bytes read since the last call may be zeros in place of unreadable bytes.

        The caller must then read them again, from a new ``buffer``. From then on ``unreadable`` holds the ranges; the
        file is read through for them, once. Raises PathError if that fails for another reason.
        """
        if isinstance(self._buffer, FileBytes):
            has_failed = self._buffer.has_failed
        else:
            has_failed = self._mapping is not None and system.was_cut(self._mapping)
        if self._was_looked_through or not has_failed or self.current_size() < self.size:
            return False
        self._look_through()
        mapping, self._mapping = self._mapping, None
        if mapping is not None:
            # A new mapping is needed: the old one keeps zeros for pages that are readable again. Views of it may exist.
            self._buffer = None
            _unmap(mapping)
        return True

    def _look_through(self) -> None:
        self._was_looked_through = True
        with errors_at(self.path):
            self.unreadable = unreadable_ranges(self._extent, self.size)

    def behind_proven(self) -> "Source":
        """Returns a source for readers of only the last proven batch and the bytes after it; `close` closes it, too."""
        return self

    def head(self, size: int) -> bytes:
        """Returns the first ``size`` bytes, fewer of a shorter file. ``size`` is at most 64 KiB. Raises OSError."""
        return read_around(self.extent, 0, min(self.size, size)) if self.size else b""

    def need(self, start: int, end: int) -> None:
        """Makes these bytes of ``buffer`` readable. A source that is read in place fetches them first."""

    def reach(self, position: int, end: int) -> int:
        """Makes bytes from ``position`` on readable, as many as is cheap. Returns where they end, at most ``end``."""
        return end

    def reach_further(self, position: int, end: int) -> None:
        """Makes `reach` return more, twice as much with each call."""

    @property
    def extent(self) -> Extent:
        """The bytes on disk, for readers by position."""
        return self._extent

    def end_of_data(self) -> int:
        """Returns the size without a hole at the end, or up to a MiB more; bytes after it were never written."""
        if self.size <= SMALL_BYTES or self._extent.descriptor < 0:
            return self.size
        return end_of_data(self._extent, 0, self.size)

    def current_size(self) -> int:
        """Returns the readable size of the file: less than ``size`` if it has been truncated."""
        return min(self.size, self._extent.current_size())

    def expect_jumps(self, is_so: bool) -> None:
        """Turns read-ahead for a mapped file off or on: off while little is read in many places."""
        if self._mapping is not None and hasattr(mmap, "MADV_RANDOM"):
            self._mapping.madvise(mmap.MADV_RANDOM if is_so else mmap.MADV_NORMAL)

    def forget(self, start: int, end: int) -> None:
        """Takes these bytes of a mapped file out of this process's memory: they are read again when they are needed."""
        if self._mapping is not None and hasattr(mmap, "MADV_DONTNEED"):
            before = len(self._mapping) - self.size
            first = (before + start) // mmap.PAGESIZE * mmap.PAGESIZE
            self._mapping.madvise(mmap.MADV_DONTNEED, first, before + end - first)

    def close(self) -> None:
        if isinstance(self._buffer, memoryview):
            with suppress(BufferError):  # slices of it exist: `_unmap` handles them
                self._buffer.release()
        self._buffer = b""
        if self._mapping is not None:
            _unmap(self._mapping)
            self._mapping = None
        self._extent.close()

    def __enter__(self) -> "Source":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class FetchedSource(Source):
    """A file whose blocks are fetched to a temporary file, when they are needed (`need`) or all at once."""

    largest_step = sys.maxsize
    """Most blocks that `reach_further` fetches."""

    def __init__(self, path: str, size: int, block_bytes: int, is_in_place: bool = True) -> None:
        super().__init__(Extent(-1), path, size)
        self.is_in_place = is_in_place
        self._block_bytes = block_bytes
        self._is_fetched = bytearray(-(-size // block_bytes))
        self._further = 1

    def _new_file(self) -> int:
        """Returns the descriptor of a temporary file of ``size`` bytes. Raises KsegError."""
        raise NotImplementedError

    def _fetch(self, first: int, stop: int, descriptor: int) -> None:
        """Writes blocks ``first`` to ``stop`` (exclusive) to the file. Raises KsegError."""
        raise NotImplementedError

    def _opened(self) -> memoryview | FileBytes | bytes:
        if not self.is_in_place or self.size <= SMALL_BYTES:
            self.need(0, self.size)
        extent = self._file()
        opened = super()._opened()
        return _FetchedBytes(self, extent) if self.is_in_place and isinstance(opened, FileBytes) else opened

    @property
    def extent(self) -> Extent:
        self.need(0, self.size)
        return self._file()

    def _file(self) -> Extent:
        if self._extent.descriptor < 0:
            self._extent = Extent(self._new_file(), 0, self.size)
        return self._extent

    def need(self, start: int, end: int) -> None:
        first, stop = max(start, 0) // self._block_bytes, -(-min(end, self.size) // self._block_bytes)
        while (first := self._is_fetched.find(0, first, stop)) >= 0:
            behind = self._is_fetched.find(1, first, stop)
            behind = stop if behind < 0 else behind
            self._fetch(first, behind, self._file().descriptor)
            self._is_fetched[first:behind] = b"\1" * (behind - first)
            first = behind

    def reach(self, position: int, end: int) -> int:
        self.need(position, position + 1)
        missing = self._is_fetched.find(0, position // self._block_bytes)
        return end if missing < 0 else min(end, missing * self._block_bytes)

    def reach_further(self, position: int, end: int) -> None:
        reached = self.reach(position, end)
        self.need(reached, min(reached + self._further * self._block_bytes, end))
        self._further = min(2 * self._further, self.largest_step)

    def current_size(self) -> int:
        return self.size

    def close(self) -> None:
        """Closes the temporary file. The next pass fetches anew."""
        super().close()
        self._buffer = None
        self._is_fetched = bytearray(len(self._is_fetched))


class _FetchedBytes(FileBytes):
    """The bytes of a source that is read in place and cannot be mapped: its windows have only fetched bytes."""

    def __init__(self, source: FetchedSource, extent: Extent) -> None:
        super().__init__(extent, source.size)
        self._source = source

    def _end_of_window(self, start: int, stop: int, _leads_on: bool) -> int:
        if stop > start:
            self._source.need(start, stop)
        return max(stop, self._source.reach(start, min(start + FIRST_WINDOW_BYTES, self._size)))


def _map(extent: Extent, size: int) -> tuple[mmap.mmap, memoryview] | None:
    """Returns a guarded mapping, and the extent's bytes in it, which may begin behind its start.

    Returns None if it is not possible: no address space, no file system support, guard table full.
    """
    before = extent.start % mmap.ALLOCATIONGRANULARITY
    try:
        mapping = mmap.mmap(extent.descriptor, before + size, access=mmap.ACCESS_READ, offset=extent.start - before)
    except (OSError, ValueError):
        return None
    try:
        system.guard(mapping)
    except RuntimeError:
        mapping.close()
        return None
    return mapping, memoryview(mapping)[before:]


def _map_copy(extent: Extent, size: int) -> tuple[mmap.mmap, memoryview]:
    """Maps an unnamed temporary copy, which nobody can truncate, so that it needs no guard. The compiled kernel takes
    no `FileBytes`."""
    starts = range(0, size, WINDOW_BYTES)
    copy = unnamed_file(read_around(extent, start, min(start + WINDOW_BYTES, size)) for start in starts)
    try:
        mapping = mmap.mmap(copy, size, access=mmap.ACCESS_READ)
    finally:
        os.close(copy)
    return mapping, memoryview(mapping)


def _unmap(mapping: mmap.mmap) -> None:
    """Unmaps a mapping. While views of it exist (as in the frames of an exception) it stays guarded, and a later call
    unmaps it.
    """
    _lingering.append(mapping)
    if not _lock.acquire(blocking=False):
        return  # perhaps this thread holds it and collects garbage: it would wait for itself
    try:
        for held in list(_lingering):
            system.unguard(held)
            try:
                held.close()
            except BufferError:
                with suppress(RuntimeError):  # the guard table is full
                    system.guard(held)
            else:
                _lingering.remove(held)
    finally:
        _lock.release()


def is_stream(path: str) -> bool:
    """Whether the bytes at a path that the user has named can be read only once: standard input or a FIFO."""
    return path == STANDARD_INPUT or Place(path, is_named=True).is_expected_pipe()


def open_source(path: str) -> Source:
    """Opens a regular file, standard input for ``-``, or a FIFO that is named. Raises PathError if it cannot."""
    place = Place(path)
    with errors_at(path):
        if path == STANDARD_INPUT and place.tree is None:
            return Source(Extent(seekable_descriptor(standard_input())), path)
        if place.is_expected_pipe():
            with open(path, "rb") as pipe:
                return Source(Extent(seekable_descriptor(pipe)), path)
        if place.tree is not None:
            return place.tree.source(place.inner, path) or Source(place.open_extent(), path)
        descriptor, status = place.open_with_status()
        return Source(Extent(descriptor), path, status.st_size)


def check_readable(path: str) -> None:
    """Reads a whole file. Raises UnreadableError if its disk cannot read all bytes, PathError if it cannot be opened.

    For callers that would take unreadable bytes for damage.
    """
    with open_source(path) as source, errors_at(path):
        found = unreadable_ranges(source.extent, source.size)
    if found:
        raise unreadable_error(path, found)


def seekable_descriptor(stream: BinaryIO) -> int:
    """Returns a descriptor of the stream's bytes: its own if it is a file, else of an unnamed temporary copy."""
    if stat.S_ISREG(os.fstat(stream.fileno()).st_mode) and os.lseek(stream.fileno(), 0, os.SEEK_CUR) == 0:
        return os.dup(stream.fileno())
    return unnamed_file(iter(partial(stream.read, WINDOW_BYTES), b""))


def standard_input() -> BinaryIO:
    """Returns standard input as a stream whose reads wait for bytes, also if it is non-blocking. Raises PathError."""
    if sys.stdin is None:
        raise PathError("standard input is closed")
    return cast(BinaryIO, BufferedReader(_Waiting(cast(BufferedReader, sys.stdin.buffer))))


class _Waiting(RawIOBase):
    """The bytes of a stream, which it does not close."""

    def __init__(self, stream: BufferedReader) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        read: Callable[[WriteableBuffer], int | None] = self._stream.readinto1
        # A non-blocking stream without bytes returns None here, where other reads return nothing, as at the end.
        while (size := read(buffer)) is None:
            wait_for_bytes(self._stream)
        return size


def wait_for_bytes(stream: BufferedReader) -> None:
    """Waits until a non-blocking stream has bytes or is at its end. Raises OSError, ValueError."""
    from select import select

    select([stream], [], [])
