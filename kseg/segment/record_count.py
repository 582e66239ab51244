"""Counts the records of a segment from batch headers, without reading the bodies of large batches."""

from kseg.errors import PathError
from kseg.formats.message_set import MIN_BYTES
from kseg.formats.record_batch import HEADER_BYTES
from kseg.formats.rows import int64s
from kseg.kernel.layout.headers import CODEC, ENTRY_MAGIC, ENTRY_OVERHEAD, ENTRY_SIZE, LEGACY_FLAGS, MAGIC_V2, V2_COUNT
from kseg.kernel.layout.rows import BATCH_COUNT, BATCH_WIDTH, FRAME_WIDTH
from kseg.kernel.scan import frames, headers
from kseg.kernel.scan.frame_scan import SKIP_CHECKSUMS, FrameScan
from kseg.stores.extent import Extent
from kseg.stores.regular_files import open_extent

READ_BYTES = 4 << 10
"""Size of a read: many small batches, or the beginning of a large one."""


class RecordCounter:
    """Counts the records of segments, one after another."""

    def __init__(self) -> None:
        max_frames = READ_BYTES // MIN_BYTES + 1
        self._frames, self._rows = int64s(max_frames * FRAME_WIDTH), int64s(max_frames * BATCH_WIDTH)

    def count(self, path: str) -> int | None:
        """Returns the number of records of a .log, including markers; None if headers do not give it.

        Headers do not give it for compressed v0 and v1 messages, and for damage. Raises PathError if the file cannot be
        read.
        """
        try:
            extent = open_extent(path)
            try:
                return self._count(extent, extent.current_size())
            finally:
                extent.close()
        except OSError as error:
            raise PathError(f"{path}: {error.strerror}") from error

    def _count(self, extent: Extent, end: int) -> int | None:
        position, total = 0, 0
        while position < end:
            data = extent.pread(READ_BYTES, position)
            taken, records = _first(data)
            if not taken:
                taken, records = self._whole(data)
            if records < 0 or not taken or position + taken > end:
                return None
            position, total = position + taken, total + records
        return total

    def _whole(self, data: bytes) -> tuple[int, int]:
        """Returns the end of the last whole batch in ``data``, and the number of records; -1 if a header lacks it."""
        scan, total = FrameScan(options=SKIP_CHECKSUMS), 0
        frames.scan(scan, data, len(data), self._frames)
        if count := scan.count:
            headers.read(data, self._frames, count, False, 0, self._rows)
            counts = self._rows[BATCH_COUNT : count * BATCH_WIDTH : BATCH_WIDTH].tolist()
            total = sum(counts) if min(counts) >= 0 else -1
        return scan.position, total


def _first(data: bytes) -> tuple[int, int]:
    """Returns size and record count of a batch larger than ``data``; (0, -1) if there is none or it lacks a count."""
    size = ENTRY_OVERHEAD + int.from_bytes(data[ENTRY_SIZE:ENTRY_OVERHEAD], "big", signed=True)
    if len(data) >= HEADER_BYTES and size > len(data) and data[ENTRY_MAGIC] == MAGIC_V2:
        return size, int.from_bytes(data[V2_COUNT:HEADER_BYTES], "big", signed=True)
    if len(data) > LEGACY_FLAGS and size > len(data) and data[ENTRY_MAGIC] in (0, 1) and not data[LEGACY_FLAGS] & CODEC:
        return size, 1
    return 0, -1
