"""Room used again from segment to segment: small files cost less to judge than the zeroing of fresh memory."""

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

    def window(self, size: int) -> bytearray:
        """``size`` bytes of any content."""
        if len(self._window) != size:
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
