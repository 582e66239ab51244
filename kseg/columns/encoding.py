"""Tables as row groups of Parquet, by pyarrow, in room that is used again and again.

A stream of pyarrow's own that grows is copied whenever it does, into memory that the system must clear first.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from kseg.kernel.fresh import fresh

_ROOM_BYTES = 8 << 20
"""For twice what a row group holds: what of it is never written takes no memory."""


class Encoded(NamedTuple):
    """A row group of so many rows, as a file of its own; ``room`` is where it lies, for `GroupEncoder.take_back`."""

    file: memoryview
    rows: int
    room: memoryview | None

    @property
    def size(self) -> int:
        return len(self.file)


class GroupEncoder:
    """Makes row groups; on several threads at once. ``options``: of pyarrow's ParquetWriter, for a table."""

    def __init__(self, options: Callable[[Any], dict[str, Any]]) -> None:
        self._options = options
        self._free: deque[memoryview] = deque()

    def encode(self, table: Any) -> Encoded:
        """A table as one row group."""
        import pyarrow as pa

        options = self._options(table)
        room = self._room()
        stream = pa.FixedSizeBufferWriter(pa.py_buffer(room))
        try:
            _write(table, stream, options)
        except OSError:  # it is larger
            self._free.append(room)
            grown = pa.BufferOutputStream()
            _write(table, grown, options)
            return Encoded(memoryview(grown.getvalue()), table.num_rows, None)
        return Encoded(room[: stream.tell()], table.num_rows, room)

    def take_back(self, group: Encoded) -> None:
        """One that nobody looks at again."""
        if group.room is not None:
            self._free.append(group.room)

    def _room(self) -> memoryview:
        try:
            return self._free.pop()
        except IndexError:
            return fresh(_ROOM_BYTES)


def _write(table: Any, stream: Any, options: dict[str, Any]) -> None:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(stream, table.schema, **options) as writer:
        writer.write_table(table, row_group_size=max(table.num_rows, 1))
