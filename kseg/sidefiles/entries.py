"""Files of entries of one size, end to end: what offset, time and transaction indexes share.

A broker sets the room of the offset and time index of the active segment aside in one piece and cuts it when the
segment is closed (AbstractIndex), so after a crash most of such a file is zeros.
"""

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from kseg.limits import WINDOW_BYTES
from kseg.sidefiles.problems import SideFileProblem

E = TypeVar("E")


class EntryFile(ABC, Generic[E]):
    """Entries of ``buffer`` (bytes, or a source's buffer), parsed as they are asked for.

    ``base_offset`` is the number in the file's name. ``room`` counts the entries that the size has room for,
    `len` those in use: without the zeros at the end. Behind ``written`` bytes there are zeros alone, which are not
    looked at.
    """

    LAYOUT: struct.Struct
    HAS_ROOM_AHEAD = True
    """Whether brokers set room aside."""

    def __init__(self, buffer: Any, base_offset: int = 0, written: int | None = None) -> None:
        self.buffer = buffer
        self.base_offset = base_offset
        self.size = len(buffer)
        self.room = self.size // self.LAYOUT.size
        end = self.size if written is None else written
        self._used = self._count_used(end) if self.HAS_ROOM_AHEAD or end < self.size else self.room

    @abstractmethod
    def _entry(self, fields: tuple[int, ...]) -> E:
        """An entry from its fields as they stand in the file."""

    @abstractmethod
    def _problem(self, entry: E, before: E | None) -> tuple[str, str] | None:
        """Code and sentence of what is wrong with an entry, the one before it known."""

    def __len__(self) -> int:
        return self._used

    def __getitem__(self, i: int) -> E:
        """Entry i of those there is room for; raises IndexError for others."""
        if not 0 <= i < self.room:
            raise IndexError(i)
        start = i * self.LAYOUT.size
        return self._entry(self.LAYOUT.unpack(bytes(self.buffer[start : start + self.LAYOUT.size])))

    def __iter__(self) -> Iterator[E]:
        """The entries in use."""
        return self._range(self._used)

    def as_kafka_lists(self) -> Iterator[E]:
        """The entries that kafka-dump-log prints: room counts as entries, up to the first at the base offset that is
        not the first of all (DumpLogSegments.dumpIndex)."""
        for i, entry in enumerate(self._range(self.room)):
            if i and self.is_at_base(entry):
                return
            yield entry

    def is_at_base(self, entry: E) -> bool:
        return getattr(entry, "offset", None) == self.base_offset

    def items(self) -> Iterator[E | SideFileProblem]:
        """Entries in use and problems, each problem behind the entry that it is about."""
        before: E | None = None
        size = self.LAYOUT.size
        for i, entry in enumerate(self):
            yield entry
            if problem := self._problem(entry, before):
                yield SideFileProblem(problem[0], i * size, size, problem[1])
            before = entry
        yield from self.size_problems()

    def size_problems(self) -> Iterator[SideFileProblem]:
        """What the size alone tells: room that is not in use, part of an entry at the end."""
        used, end = self._used * self.LAYOUT.size, self.room * self.LAYOUT.size
        if used < end:
            yield SideFileProblem("zero-tail", used, end - used, f"{self.room - self._used} entries not in use")
        if end < self.size:
            left = self.size - end
            message = f"{left} bytes at the end are no whole entry of {self.LAYOUT.size}"
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
                return min(-(-(start + len(window)) // self.LAYOUT.size), self.room)
            end = start
        return 0


def int32(value: int, what: str) -> int:
    """The value, to be written as int32; raises ValueError where it is none."""
    if not -(1 << 31) <= value < 1 << 31:
        raise ValueError(f"{what} {value} does not fit in 32 bits")
    return value
