"""Buffers reused from segment to segment: zeroing new memory takes longer than reading a small file."""

from collections.abc import Callable
from typing import Any, TypeVar

from kseg.formats.rows import Scratch, int64s
from kseg.limits import MAX_BATCH_BYTES

T = TypeVar("T")


class Buffers:
    """The buffers of one thread for reading any number of segments, one after another.

    ``scratch`` is for records, ``window`` for bytes of a file, `int64s` for columns of the kernel.
    """

    def __init__(self, max_batch_bytes: int = MAX_BATCH_BYTES) -> None:
        self.scratch = Scratch(max_batch_bytes)
        self._columns: dict[str, memoryview] = {}
        self._window = bytearray()
        self._kept: dict[str, Any] = {}

    def window(self, size: int, max_size: int) -> bytearray:
        """Returns ``size`` bytes of any content, or the previous, larger window if it is not above ``max_size``."""
        if not size <= len(self._window) <= max_size:
            self._window = bytearray(size)
        return self._window

    def kept(self, name: str, make: Callable[[], T]) -> T:
        """Returns the object that ``make`` created for the first request of ``name``, in the state of its last use."""
        if name not in self._kept:
            self._kept[name] = make()
        found: T = self._kept[name]
        return found

    def int64s(self, name: str, count: int) -> memoryview:
        """Returns at least ``count`` int64, with any content; one buffer per name."""
        found = self._columns.get(name)
        if found is None or len(found) < count:
            found = self._columns[name] = int64s(count)
        return found
