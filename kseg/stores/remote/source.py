"""A remote segment as a source: read in place, each chunk when a byte of it is asked for.

Whoever asks for a descriptor (full passes, several threads) gets one of an unnamed temporary file with the whole log.
A chunk that does not restore reads as zeros, and its bytes are listed as unreadable, as those of a failing disk are.
"""

import os
import tempfile
from collections import OrderedDict

from kseg.stores.remote.segment import RemoteSegment
from kseg.stores.remote.transformation import ChunkError
from kseg.stores.source import FileBytes, Source

_KEPT_BYTES = 16 << 20
"""Restored chunks that are kept for further reads; the last one is kept whatever its size."""


class RemoteSource(Source):
    """``failures``: the reason for each chunk, by number, that was read and did not restore.

    With ``is_in_place`` only the chunks that are needed are read, as long as nothing asks for ``descriptor``.
    """

    def __init__(self, segment: RemoteSegment, path: str, is_in_place: bool = True) -> None:
        super().__init__(-1, path, segment.size)
        self.segment = segment
        self.failures: dict[int, str] = {}
        self._failures_told = 0
        self._is_in_place = is_in_place

    def _opened(self) -> "memoryview | FileBytes | bytes":
        if self._is_in_place and self._descriptor < 0:
            return _ChunkBytes(self.segment, self.failures)
        self._spool()
        return super()._opened()

    @property
    def descriptor(self) -> int:
        self._spool()
        return self._descriptor

    def _spool(self) -> None:
        if self._descriptor < 0:
            with tempfile.TemporaryFile() as spool:
                self.failures |= write_log(self.segment, spool.fileno())
                self._descriptor = os.dup(spool.fileno())

    def look_for_unreadable(self) -> bool:
        if len(self.failures) == self._failures_told:
            return False
        self._failures_told = len(self.failures)
        chunks = self.segment.chunks
        self.unreadable = [chunks.original_range(number) for number in sorted(self.failures)]
        self._buffer = None
        return True

    def current_size(self) -> int:
        return self.size


class _ChunkBytes(FileBytes):
    """The log as a sequence of bytes; keeps the chunks that were restored last."""

    def __init__(self, segment: RemoteSegment, failures: dict[int, str]) -> None:
        super().__init__(-1, segment.size)
        self._segment, self._failures = segment, failures
        self._kept: OrderedDict[int, bytes] = OrderedDict()
        self._kept_bytes = 0

    def _pread(self, start: int, wanted: int) -> bytes:
        chunks, found = self._segment.chunks, bytearray()
        first, last = chunks.at(start), chunks.at(start + wanted - 1)
        for number in range(first, last + 1):
            begin, _ = chunks.original_range(number)
            found += self._chunk(number)[max(start - begin, 0) : start + wanted - begin]
        return bytes(found)

    def _chunk(self, number: int) -> bytes:
        if number in self._kept:
            self._kept.move_to_end(number)
            return self._kept[number]
        _, data = next(self._segment.read_chunks(number, number + 1))
        if isinstance(data, ChunkError):
            begin, behind = self._segment.chunks.original_range(number)
            self._failures[number], data = str(data), bytes(behind - begin)
        self._kept[number] = data
        self._kept_bytes += len(data)
        while len(self._kept) > 1 and self._kept_bytes > _KEPT_BYTES:
            self._kept_bytes -= len(self._kept.popitem(last=False)[1])
        return data


def write_log(segment: RemoteSegment, descriptor: int) -> dict[int, str]:
    """Writes the log to a file, with a hole for each chunk that does not restore; returns the reasons by number.

    Raises OSError if the file cannot be written, and as `RemoteSegment.read_chunks`.
    """
    failures: dict[int, str] = {}
    os.ftruncate(descriptor, segment.size)
    for number, data in segment.read_chunks():
        if isinstance(data, ChunkError):
            failures[number] = str(data)
            continue
        position, left = segment.chunks.original_range(number)[0], memoryview(data)
        while left:
            written = os.pwrite(descriptor, left, position)
            position, left = position + written, left[written:]
    return failures
