"""Room used again from segment to segment: small files cost less to judge than the zeroing of fresh memory."""

from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from kseg.formats.rows import Scratch, int64s
from kseg.limits import MAX_BATCH_BYTES

T = TypeVar("T")


class Buffers:
    """What one thread needs to pass over any number of segments, one after the other.

    ``scratch`` is for records, ``window`` for bytes of a file, `int64s` for columns of the kernel.
    """

    def __init__(self, max_batch_bytes: int = MAX_BATCH_BYTES) -> None:
        self.scratch = Scratch(max_batch_bytes)
        self._columns: dict[str, memoryview] = {}
        self._window = bytearray()
        self._kept: dict[str, Any] = {}

    def window(self, size: int, most: int) -> bytearray:
        """``size`` bytes of any content, or as many as were asked for last if that is no more than ``most``."""
        if not size <= len(self._window) <= most:
            self._window = bytearray(size)
        return self._window

    def kept(self, name: str, make: Callable[[], T]) -> T:
        """What ``make`` made when the name was first asked for, as its last user left it."""
        if name not in self._kept:
            self._kept[name] = make()
        found: T = self._kept[name]
        return found

    def int64s(self, name: str, count: int) -> memoryview:
        """At least ``count`` int64, whatever the last use of that name left in them."""
        found = self._columns.get(name)
        if found is None or len(found) < count:
            found = self._columns[name] = int64s(count)
        return found


class RowPool:
    """Columns of int64 that threads take and give back: fresh ones cost more to zero than to fill."""

    def __init__(self) -> None:
        self._free: dict[int, deque[memoryview]] = {}

    def take(self, count: int) -> memoryview:
        """At least ``count`` int64 with whatever their last use left in them."""
        size = 1 << max(count - 1, 1).bit_length()
        try:
            return self._free[size].pop()
        except (KeyError, IndexError):
            return int64s(size)

    def give_back(self, rows: memoryview) -> None:
        """What `take` gave, or the beginning of it: it may be written over from now on."""
        whole = memoryview(rows.obj).cast("q")
        self._free.setdefault(len(whole), deque()).append(whole)
