"""Hashes the record keys of one window for the offset map; thread-safe."""

from collections.abc import Callable
from typing import NamedTuple

from kseg.cleaner.opening import RecordBuffers, open_message, open_records, refuse
from kseg.cleaner.reading import Window
from kseg.formats.rows import int64s
from kseg.kernel.compact import keys
from kseg.kernel.compact.key_hash import Secret
from kseg.kernel.layout.headers import MAGIC_V2
from kseg.kernel.layout.rows import BATCH_MAGIC, BATCH_WIDTH
from kseg.kernel.records.opening import DONE, MALFORMED, NEEDS_BUFFER, NEEDS_OPENING, ROWS_FULL


class Hashes(NamedTuple):
    """Hashes of ``keys`` keys in record order; the window's first ``batches`` batches are complete with them."""

    hashes: memoryview
    offsets: memoryview
    keys: int
    batches: int

    def copy(self) -> "Hashes":
        """Returns a copy in its own memory."""
        hashes, offsets = int64s(2 * self.keys), int64s(self.keys)
        hashes[:], offsets[:] = self.hashes[: 2 * self.keys], self.offsets[: self.keys]
        return Hashes(hashes, offsets, self.keys, self.batches)


def read_keys(
    window: Window,
    verdicts: memoryview,
    least: int,
    secret: Secret,
    buffers: RecordBuffers,
    put: Callable[[Hashes], bool],
) -> bool:
    """Passes the keys of offsets ``least`` and above to ``put``; returns False as soon as ``put`` does.

    The hashes are valid only during the call of ``put``. Raises DamagedError.
    """
    reader = keys.KeyReader(secret, least)
    opened: bytes | memoryview | None = None
    while True:
        status = reader.read(
            window.data, window.rows, window.count, verdicts, buffers.rows, buffers.hashes, buffers.offsets,
            buffers.expansion, opened,
        )  # fmt: skip
        opened, i = None, reader.batch
        if status == MALFORMED:
            refuse(window, i, reader.reason)
        if not put(Hashes(buffers.hashes, buffers.offsets, reader.keys, i)):
            return False
        reader.keys = 0
        if status == DONE:
            return True
        if status == ROWS_FULL:
            buffers.widen(reader.needed)
        elif status == NEEDS_OPENING or (status == NEEDS_BUFFER and not buffers.expand(window, i)):
            if window.rows[i * BATCH_WIDTH + BATCH_MAGIC] < MAGIC_V2:
                if not _read_message(window, i, reader, buffers, put):
                    return False
                reader.batch = i + 1
            else:
                opened = open_records(window, i, buffers)


def _read_message(
    window: Window, i: int, reader: keys.KeyReader, buffers: RecordBuffers, put: Callable[[Hashes], bool]
) -> bool:
    """Like `read_keys`, for one v0 or v1 message that the kernel does not decompress."""
    for rows in open_message(window, i, buffers).rows():
        if rows.count > len(buffers.offsets):
            buffers.widen(rows.count)
        count = reader.read_rows(rows.payload, rows.rows, rows.count, buffers.hashes, buffers.offsets)
        if not put(Hashes(buffers.hashes, buffers.offsets, count, i)):
            return False
    return True
