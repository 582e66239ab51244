"""Types of bytes that are read, in memory or in a file."""

from typing import Protocol, TypeAlias, overload

BytesLike: TypeAlias = bytes | bytearray | memoryview
"""Bytes in memory: a batch, a record, a small file."""


class Sliceable(Protocol):
    """Bytes in memory or in a file that is read slice by slice (`kseg.stores.source.FileBytes`)."""

    def __len__(self) -> int: ...

    @overload
    def __getitem__(self, key: int, /) -> int: ...

    @overload
    def __getitem__(self, key: slice, /) -> BytesLike: ...


class BytesFrom:
    """Bytes from ``start`` on; a slice copies only its own."""

    def __init__(self, buffer: Sliceable, start: int) -> None:
        self._buffer, self._start = buffer, start

    def __len__(self) -> int:
        return len(self._buffer) - self._start

    @overload
    def __getitem__(self, key: int, /) -> int: ...

    @overload
    def __getitem__(self, key: slice, /) -> BytesLike: ...

    def __getitem__(self, key: int | slice, /) -> int | BytesLike:
        if isinstance(key, int):
            return self._buffer[self._start + key]
        return self._buffer[self._start + (key.start or 0) : self._start + key.stop]
