"""Unpacks a file and checks segments on the way: batches that are proven intact are not written to the spool.

A full verification reads only their header rows, which are kept instead. Anything that begins with intact batches is
taken for a segment: whatever was wrongly left out is unpacked again when a reader opens it
(`kseg.stores.archives.opening`).
"""

import sys
from collections.abc import Iterator
from typing import NamedTuple

from kseg.formats.rows import int64s
from kseg.kernel.layout.rows import BATCH_POSITION, BATCH_SIZE, BATCH_WIDTH, FRAME_WIDTH
from kseg.kernel.scan import frames, headers
from kseg.kernel.scan.frame_scan import FrameScan
from kseg.limits import FRAMES_PER_CALL
from kseg.stores.archives.forms import (
    BLOCK_BYTES,
    HEAD_BYTES,
    TAR,
    TAR_REGULAR,
    ZIP,
    form_of,
    is_tar_header,
    tar_number,
    tar_padded,
)
from kseg.stores.archives.spool import Spool
from kseg.stores.archives.unpack_error import UnpackError
from kseg.stores.archives.unpacked_stream import UnpackedStream
from kseg.stores.extent import Extent
from kseg.stores.windows import LARGEST_WINDOW_BYTES, ROW_BYTES, claimed_bytes

WINDOW_BYTES = 1 << 19
KEPT_BYTES = 64 << 10
"""So many bytes of the start of each member are kept: readers look there for the type of the file."""
_LEAST_BATCH_BYTES = 4 * ROW_BYTES
"""Rows of smaller batches (on average) would need too much of the spool: their bytes are written to it instead."""
_HELD_BYTES = 64 << 10
"""Rows that are written together."""
_FIRST_ROWS = 64
"""Rows without regard to the size of their batches."""
_BEFORE_OTHERS = b"xgLK"
"""Types of tar members: data about the next member."""

PlacedBytes = tuple[int, memoryview | bytes]
"""Bytes for the spool, and their position in the unpacked file; valid until the next piece."""


class ProvenRun(NamedTuple):
    """Proven batches of the unpacked file, ``end`` exclusive; ``first_row`` is the number of the first of ``rows``."""

    start: int
    end: int
    first_row: int
    rows: int


class ProvingUnpacker:
    """One pass over an unpacked file. ``runs``: proven batches by the start of the first. ``size``: bytes unpacked so
    far. ``error``: the damage at which it ended, None if there is none.
    """

    def __init__(self, stream: UnpackedStream, spool: Spool) -> None:
        self.runs: dict[int, ProvenRun] = {}
        self.error: UnpackError | None = None
        self.rows = Extent(spool.new_file(0))
        self._row_count = 0
        self._held_rows = bytearray()
        self._written_bytes = 0
        self._stream, self._spool = stream, spool
        self._window = bytearray(WINDOW_BYTES)
        self._origin = self._at = self._filled = 0
        """Position of the window in the file; the next byte and the end of the bytes in the window."""
        self._frames = int64s(FRAMES_PER_CALL * FRAME_WIDTH)
        self._headers = int64s(FRAMES_PER_CALL * BATCH_WIDTH)

    @property
    def size(self) -> int:
        return self._origin + self._filled

    @property
    def _position(self) -> int:
        return self._origin + self._at

    def pieces(self) -> Iterator[PlacedBytes]:
        """Yields all bytes but those of proven batches. Raises SpoolFullError, KsegError, OSError."""
        form = form_of(self._peek(HEAD_BYTES))
        if form == TAR:
            yield from self._tar()
        elif form != ZIP:
            yield from self._file(sys.maxsize)
        yield from self._kept(sys.maxsize)
        self._write_rows()

    def _write_rows(self) -> None:
        self._spool.write(self.rows, memoryview(self._held_rows), self._written_bytes)
        self._written_bytes += len(self._held_rows)
        self._held_rows = bytearray()

    def _refill(self, wanted: int = 0) -> bool:
        """Reads more bytes behind those from the position on, in a window of ``wanted`` bytes or more. Returns whether
        there were any.
        """
        rest = self._filled - self._at
        window = self._window if wanted <= len(self._window) else bytearray(wanted)
        view = memoryview(window)
        view[:rest] = memoryview(self._window)[self._at : self._filled]
        self._window = window
        self._origin, self._at, self._filled = self._position, 0, rest
        try:
            got = self._stream.readinto(view[rest:]) if self.error is None else 0
        except UnpackError as error:
            self.error, got = error, 0
        self._filled += got
        return got > 0

    def _peek(self, size: int) -> bytes:
        """Returns the next bytes, fewer at the end."""
        if self._filled - self._at < size:
            self._refill()
        return bytes(memoryview(self._window)[self._at : min(self._at + size, self._filled)])

    def _kept(self, size: int) -> Iterator[PlacedBytes]:
        """Yields the next ``size`` bytes."""
        while size > 0 and (self._at < self._filled or self._refill()):
            count = min(size, self._filled - self._at)
            yield self._position, memoryview(self._window)[self._at : self._at + count]
            self._at += count
            size -= count

    def _tar(self) -> Iterator[PlacedBytes]:
        while block := self._peek(BLOCK_BYTES):
            size = (tar_number(block[124:136]) or 0) if is_tar_header(block) else 0
            kind = block[156:157]
            yield from self._kept(len(block))
            end = self._position + tar_padded(size)
            if kind in TAR_REGULAR:
                yield from self._file(size)
            if kind in TAR_REGULAR or kind in _BEFORE_OTHERS:
                yield from self._kept(end - self._position)

    def _file(self, size: int) -> Iterator[PlacedBytes]:
        """Yields the bytes of a file of at most ``size`` bytes, except its proven batches; ends behind the last."""
        start, end, first_row = self._position, self._position + size, self._row_count
        if size < KEPT_BYTES or len(head := self._peek(KEPT_BYTES)) < KEPT_BYTES:
            return
        yield start, head
        last, last_batch, scan = start, b"", FrameScan()
        while count := self._scan(scan, end):
            rows = self._headers[: count * BATCH_WIDTH]
            headers.read(self._window, self._frames, count, False, self._origin - start, rows)
            self._held_rows += rows.cast("B")
            if len(self._held_rows) >= _HELD_BYTES:
                self._write_rows()
            self._row_count += count
            last_row = (count - 1) * BATCH_WIDTH
            last = start + rows[last_row + BATCH_POSITION]
            at = last - self._origin
            last_batch = bytes(memoryview(self._window)[at : at + rows[last_row + BATCH_SIZE]])
            self._at = scan.position
            found = self._row_count - first_row
            if found > _FIRST_ROWS and self._position - start < found * _LEAST_BATCH_BYTES:
                break
        if last_batch:
            yield last, last_batch
            self.runs[start] = ProvenRun(start, self._position, first_row, self._row_count - first_row)

    def _scan(self, scan: FrameScan, end: int) -> int:
        """Returns the number of intact frames from the position on in the window, which is filled as needed."""
        while True:
            left = end - self._position
            stop = min(self._filled, self._at + left)
            scan.position = self._at
            frames.scan(scan, self._window, stop, self._frames)
            if scan.count or stop == self._at + left:
                return int(scan.count)
            rest, claimed = stop - self._at, 0
            if rest == len(self._window):
                claimed = claimed_bytes(self._window)
                if not rest < claimed <= min(LARGEST_WINDOW_BYTES, left):
                    return 0
            if not self._refill(claimed):
                return 0
