"""A disk that fails: given ranges of files cannot be read any more, by no way that kseg has of reading them."""

import errno
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kseg import positioned
from kseg.stores import extent, source, windows
from kseg.stores.extent import Extent

PAGE = 4096
Ranges = list[tuple[int, int]]


class FailingDisk:
    """``fail(path, start, stop)`` makes bytes unreadable; ``times`` how often a read of them fails (None: for ever)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ranges: dict[tuple[int, int], Ranges] = {}
        self._times: int | None = None
        self._zeroed: list[mmap.mmap] = []
        self._pread, self._preadv = os.pread, os.preadv
        self._scan, self._map, self._was_cut = windows.WindowedScan, source._map, source.system.was_cut
        monkeypatch.setattr(os, "pread", self._failing_pread)
        for place in (positioned, extent):
            monkeypatch.setattr(place, "read_at", self._failing_pread)
        monkeypatch.setattr(os, "preadv", self._failing_preadv)
        monkeypatch.setattr(windows, "WindowedScan", self._failing_scan)
        monkeypatch.setattr(source, "_map", self._failing_map)
        monkeypatch.setattr(source.system, "was_cut", self._failing_was_cut)

    def fail(self, path: Path | str, start: int, stop: int, times: int | None = None) -> None:
        status = os.stat(path)
        self._ranges.setdefault((status.st_dev, status.st_ino), []).append((start, stop))
        self._times = times

    def _of(self, descriptor: int) -> Ranges:
        if self._times == 0:
            return []
        status = os.fstat(descriptor)
        return self._ranges.get((status.st_dev, status.st_ino), [])

    def _readable(self, descriptor: int, size: int, position: int) -> int:
        """How much of a read comes before what fails. Raises OSError where nothing does."""
        for start, stop in self._of(descriptor):
            if position < stop and position + size > start:
                if position >= start:
                    if self._times is not None:
                        self._times -= 1
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                size = start - position
        return size

    def _failing_pread(self, descriptor: int, size: int, position: int) -> bytes:
        return self._pread(descriptor, self._readable(descriptor, size, position), position)

    def _failing_preadv(self, descriptor: int, buffers: Any, position: int) -> int:
        size = self._readable(descriptor, len(buffers[0]), position)
        return self._preadv(descriptor, [memoryview(buffers[0])[:size]], position)

    def _failing_scan(self, descriptor: int, position: int, end: int, *rest: Any) -> Any:
        first = min((start for start, _ in self._of(descriptor)), default=end)
        scan = self._scan(descriptor, position, min(first, end), *rest)
        return _FailingScan(scan, self._fail_once) if first < end else scan

    def _fail_once(self) -> None:
        """Raises the OSError of a disk that cannot give bytes."""
        if self._times is not None:
            self._times -= 1
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def _failing_map(self, extent: Extent, size: int) -> tuple[mmap.mmap, memoryview] | None:
        ranges = self._of(extent.descriptor)
        if not ranges:
            return self._map(extent, size)
        mapping = mmap.mmap(-1, size)
        mapping[:] = self._pread(extent.descriptor, size, extent.start)
        for start, stop in ranges:
            stop = min(stop, size)
            mapping[start:stop] = bytes(stop - start)
        self._zeroed.append(mapping)
        if self._times is not None:
            self._times -= 1
        return mapping, memoryview(mapping)

    def _failing_was_cut(self, buffer: Any) -> bool:
        return any(buffer is mapping for mapping in self._zeroed) or self._was_cut(buffer)


class _FailingScan:
    """A scan of a file that ends where its disk fails, and fails there."""

    def __init__(self, scan: Any, fail: Callable[[], None]) -> None:
        self.__dict__["_scan"], self.__dict__["_fail"] = scan, fail

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scan, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._scan, name, value)

    def follow(self, *arguments: Any) -> int:
        status = int(self._scan.follow(*arguments))
        if status == windows.DONE:
            self._fail()
        return status


FailDisk = Callable[..., None]


@pytest.fixture
def fail_disk(monkeypatch: pytest.MonkeyPatch) -> FailDisk:
    """``fail_disk(path, start, stop)``: these bytes of a file cannot be read from now on."""
    return FailingDisk(monkeypatch).fail
