"""The keys of one window, hashed for the offset map; may run on any thread."""

from collections.abc import Callable
from typing import NamedTuple

from kseg.cleaner.opening import RecordRooms, open_message, open_records, refuse
from kseg.cleaner.reading import Window
from kseg.formats.rows import int64s
from kseg.kernel import keys
from kseg.kernel.native import BATCH_MAGIC, BATCH_WIDTH


class Hashes(NamedTuple):
    """So many ``keys`` in the order of records; the first ``batches`` of the window are in them, or before them."""

    hashes: memoryview
    offsets: memoryview
    keys: int
    batches: int

    def copy(self) -> "Hashes":
        """The same in memory of its own."""
        hashes, offsets = int64s(2 * self.keys), int64s(self.keys)
        hashes[:], offsets[:] = self.hashes[: 2 * self.keys], self.offsets[: self.keys]
        return Hashes(hashes, offsets, self.keys, self.batches)


def read_keys(
    window: Window,
    verdicts: memoryview,
    least: int,
    secret: memoryview,
    rooms: RecordRooms,
    put: Callable[[Hashes], bool],
) -> bool:
    """Hands keys of offsets ``least`` and above to ``put``, valid while it runs; False as soon as that says so.

    Raises DamagedError.
    """
    state = int64s(8)
    opened: bytes | memoryview | None = None
    while True:
        status = keys.read(
            window.data, window.rows, window.count, verdicts, least, secret, rooms.rows, rooms.hashes, rooms.offsets,
            state, rooms.room, opened,
        )  # fmt: skip
        opened, i = None, state[keys.BATCH]
        if status == keys.BAD:
            refuse(window, i, state[keys.REASON])
        if not put(Hashes(rooms.hashes, rooms.offsets, state[keys.KEYS], i)):
            return False
        state[keys.KEYS] = 0
        if status == keys.DONE:
            return True
        if status == keys.ROWS:
            rooms.widen(state[keys.NEEDED])
        elif status == keys.OPEN or (status == keys.ROOM and not rooms.expand(window, i)):
            if window.rows[i * BATCH_WIDTH + BATCH_MAGIC] < 2:
                if not _read_message(window, i, least, secret, rooms, put):
                    return False
                state[keys.BATCH] = i + 1
            else:
                opened = open_records(window, i, rooms)


def _read_message(
    window: Window, i: int, least: int, secret: memoryview, rooms: RecordRooms, put: Callable[[Hashes], bool]
) -> bool:
    """As `read_keys`, for one message v0 or v1 that the kernel does not open."""
    for rows in open_message(window, i, rooms).rows():
        if rows.count > len(rooms.offsets):
            rooms.widen(rows.count)
        count = keys.of_rows(rows.payload, rows.rows, rows.count, least, secret, rooms.hashes, rooms.offsets)
        if not put(Hashes(rooms.hashes, rooms.offsets, count, i)):
            return False
    return True
