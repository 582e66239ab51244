"""Reads the batches of a segment that a broker's recovery accepts, up to the first that it rejects.

Rules: Kafka's FileLogInputStream and RecordBatch.ensureValid. Only the size and the outer checksum count. Unlike
kseg's readers, a broker does not check the magic byte of v2, which no checksum covers: any magic above 2 is read as v2.
"""

from collections.abc import Callable, Iterator

from kseg.formats.byte_types import BytesLike
from kseg.formats.record_batch import HEADER_BYTES
from kseg.formats.rows import int64s
from kseg.kernel.layout.headers import (
    ENTRY_MAGIC,
    ENTRY_OVERHEAD,
    ENTRY_SIZE,
    LEGACY_CRC,
    MAGIC_V2,
    V2_ATTRIBUTES,
    V2_CRC,
)
from kseg.kernel.layout.rows import (
    BATCH_MAGIC,
    BATCH_POSITION,
    BATCH_SIZE,
    BATCH_WIDTH,
    CRC_RIGHT,
    FRAME_MAGIC,
    FRAME_SIZE,
    FRAME_STATE,
    FRAME_WIDTH,
    be32,
)
from kseg.kernel.scan import headers
from kseg.kernel.scan.checksums import crc32, crc32c
from kseg.segment.parts import in_parts, is_worth_parts
from kseg.segment.survey import HeaderRows
from kseg.stores.buffers import Buffers
from kseg.stores.source import Source
from kseg.stores.windows import LARGEST_WINDOW_BYTES, Windows


class AcceptedBatches:
    """Iterates over `HeaderRows` of a source's first ``size`` bytes; ``position`` is the end of the accepted batches.

    ``max_size``: max.message.bytes of a broker that treats larger messages as corrupt; such a broker does not know v2,
    whose checksum is at another place. ``jobs`` threads read a large file.
    """

    def __init__(
        self, source: Source, size: int, position: int = 0, max_size: int | None = None, jobs: int = 1
    ) -> None:
        self._source = source
        self._size = size
        self._max_size = max_size
        self._max_magic = 127 if max_size is None else 1
        self._jobs = jobs
        self.position = position

    def __iter__(self) -> Iterator[HeaderRows]:
        for found in self._intact():
            kept = self._known(found.rows, self._below_limit(found.rows, found.count))
            if kept:
                yield HeaderRows(found.rows, kept)
            if kept < found.count:
                self.position = found.rows[kept * BATCH_WIDTH + BATCH_POSITION]
                return

    def _intact(self) -> Iterator[HeaderRows]:
        """Yields batches with right checksums, up to the first wrong one."""
        extent = self._source.extent
        if is_worth_parts(self._size - self.position, self._jobs):
            for reached, some in in_parts(extent, self.position, self._size, self._jobs, self._reading):
                self.position = reached
                yield from some
        while self.position < self._size:
            windows = Windows(extent, self.position, self._size, walk=False)
            yield from _headers_in(windows)
            self.position = windows.position
            found = self._beyond_windows()
            if found is None:
                return
            self.position += found.rows[BATCH_SIZE]
            yield found

    def _reading(self) -> Callable[[int, int], tuple[int, list[HeaderRows]]]:
        buffers = Buffers()

        def part(start: int, end: int) -> tuple[int, list[HeaderRows]]:
            windows = Windows(self._source.extent, start, end, walk=False, buffers=buffers)
            found = list(_headers_in(windows))
            return windows.position, found

        return part

    def _below_limit(self, rows: memoryview, count: int) -> int:
        """Returns the number of batches before the first that is larger than an old broker's max.message.bytes."""
        if self._max_size is None:
            return count
        sizes = rows[BATCH_SIZE : count * BATCH_WIDTH : BATCH_WIDTH].tolist()
        return next((i for i, size in enumerate(sizes) if size - ENTRY_OVERHEAD > self._max_size), count)

    def _known(self, rows: memoryview, count: int) -> int:
        """Returns the number of batches before the first with a magic that the broker does not know."""
        if self._max_magic > 1:
            return count
        magics = rows[BATCH_MAGIC : count * BATCH_WIDTH : BATCH_WIDTH].tolist()
        return next((i for i, magic in enumerate(magics) if magic > self._max_magic), count)

    def _beyond_windows(self) -> HeaderRows | None:
        """Returns the batch at the position if its checksum is right and no window contains it: a v2 batch with a wrong
        magic, or one that is larger than the largest window."""
        head = bytes(self._source.buffer[self.position : self.position + HEADER_BYTES])
        if len(head) < HEADER_BYTES or head[ENTRY_MAGIC] > self._max_magic:
            return None
        magic = head[ENTRY_MAGIC]
        size, is_v2 = be32(head, ENTRY_SIZE) + ENTRY_OVERHEAD, magic >= MAGIC_V2
        if size > self._size - self.position or (self._max_size is not None and size - ENTRY_OVERHEAD > self._max_size):
            return None
        if not (size > LARGEST_WINDOW_BYTES or (magic > MAGIC_V2 and size >= HEADER_BYTES)):
            return None
        data: BytesLike = self._source.buffer[self.position : self.position + size]
        if is_v2:
            is_right = crc32c(data[V2_ATTRIBUTES:]) == int.from_bytes(head[V2_CRC:V2_ATTRIBUTES], "big")
        else:
            is_right = crc32(data[ENTRY_MAGIC:]) == int.from_bytes(head[LEGACY_CRC:ENTRY_MAGIC], "big")
        if not is_right:
            return None
        rows, frame = int64s(BATCH_WIDTH), int64s(FRAME_WIDTH)
        frame[FRAME_SIZE], frame[FRAME_MAGIC], frame[FRAME_STATE] = size, magic, CRC_RIGHT
        headers.read(data, frame, 1, False, self.position, rows)
        return HeaderRows(rows, 1)


def _headers_in(windows: Windows) -> Iterator[HeaderRows]:
    for rows, count, _ in windows.headers():
        yield HeaderRows(rows, count)
