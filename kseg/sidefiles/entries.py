"""Base class of files of fixed-size entries: the offset, time and transaction indexes.

A broker preallocates the offset index and time index of the active segment, and truncates them when the segment is
closed (AbstractIndex). After a crash most of such a file is therefore zeros.
"""

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Generic, TypeVar

from kseg.formats.rows import Sliceable
from kseg.limits import WINDOW_BYTES
from kseg.sidefiles.problems import SideFileProblem

E = TypeVar("E")


class EntryFile(ABC, Generic[E]):
    """The entries of ``buffer`` (bytes, or the buffer of a source), parsed on access.

    ``base_offset`` is the number in the file name. ``capacity`` is the number of entries that fit in the file size;
    `len` is the number in use, without the zeros at the end. All bytes after the first ``written`` are known to be
    zeros and are not read.
    """

    LAYOUT: struct.Struct
    IS_PREALLOCATED = True
    """Whether brokers preallocate this kind of file."""

    def __init__(self, buffer: Sliceable, base_offset: int = 0, written: int | None = None) -> None:
        self.buffer = buffer
        self.base_offset = base_offset
        self.size = len(buffer)
        self.capacity = self.size // self.LAYOUT.size
        end = self.size if written is None else written
        self._used = self._count_used(end) if self.IS_PREALLOCATED or end < self.size else self.capacity

    @abstractmethod
    def _entry(self, fields: tuple[int, ...]) -> E:
        """Returns an entry, given its fields as stored in the file."""

    @abstractmethod
    def _problem(self, entry: E, before: E | None) -> tuple[str, str] | None:
        """Returns the code and message of an entry's problem, given the previous entry, or None."""

    def __len__(self) -> int:
        return self._used

    def __getitem__(self, i: int) -> E:
        """Entry i, in use or not. Raises IndexError if it is beyond the end of the file."""
        if not 0 <= i < self.capacity:
            raise IndexError(i)
        start = i * self.LAYOUT.size
        return self._entry(self.LAYOUT.unpack(bytes(self.buffer[start : start + self.LAYOUT.size])))

    def __iter__(self) -> Iterator[E]:
        """Yields the entries in use."""
        return self._range(self._used)

    def as_kafka_lists(self) -> Iterator[E]:
        """Yields the entries that kafka-dump-log prints (DumpLogSegments.dumpIndex).

        Preallocated zeros count as entries. Stops before the first entry at the base offset, except entry 0.
        """
        for i, entry in enumerate(self._range(self.capacity)):
            if i and self.is_at_base(entry):
                return
            yield entry

    def is_at_base(self, entry: E) -> bool:
        return getattr(entry, "offset", None) == self.base_offset

    def items(self) -> Iterator[E | SideFileProblem]:
        """Yields the entries in use, each followed by its problem if it has one, then the problems of the size."""
        before: E | None = None
        size = self.LAYOUT.size
        for i, entry in enumerate(self):
            yield entry
            if problem := self._problem(entry, before):
                yield SideFileProblem(problem[0], i * size, size, problem[1])
            before = entry
        yield from self.size_problems()

    def size_problems(self) -> Iterator[SideFileProblem]:
        """Yields problems that follow from the size: unused preallocated bytes, a partial entry at the end."""
        used, end = self._used * self.LAYOUT.size, self.capacity * self.LAYOUT.size
        if used < end:
            yield SideFileProblem("zero-tail", used, end - used, f"{self.capacity - self._used} entries not in use")
        if end < self.size:
            left = self.size - end
            message = f"{left} trailing bytes, less than an entry of {self.LAYOUT.size}"
            yield SideFileProblem("bad-size", end, left, message)

    def _range(self, stop: int) -> Iterator[E]:
        size = self.LAYOUT.size
        step = WINDOW_BYTES // size * size
        for start in range(0, stop * size, step):
            window = bytes(self.buffer[start : min(start + step, stop * size)])
            yield from map(self._entry, self.LAYOUT.iter_unpack(window))

    def _count_used(self, end: int) -> int:
        while end:
            start = max(0, end - WINDOW_BYTES)
            window = bytes(self.buffer[start:end]).rstrip(b"\0")
            if window:
                return min(-(-(start + len(window)) // self.LAYOUT.size), self.capacity)
            end = start
        return 0
