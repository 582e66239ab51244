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
