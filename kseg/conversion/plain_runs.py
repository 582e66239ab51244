"""Reads uniform uncompressed batches many at a time.

In formats before v2 each uncompressed message is a batch, and one Python call for each would take a hundred times as
long as processing its bytes.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from kseg.errors import DamageError
from kseg.formats.rows import ALL, Rows, Scratch, Sliceable, int64s
from kseg.kernel.layout.headers import APPEND_TIME
from kseg.kernel.layout.rows import FRAME_MAGIC, FRAME_POSITION, FRAME_SIZE, FRAME_WIDTH, HEADER_WIDTH
from kseg.kernel.records.columns import Collector
from kseg.kernel.records.plain import DONE, MORE_HEADERS
from kseg.kernel.records.uniform_runs import UniformRun
from kseg.limits import MAX_HEADERS


class PlainRun(NamedTuple):
    """Frames first to stop (rows FRAME_* of ``buffer``) of one magic.

    ``append_time`` in ms, None for CreateTime; ``timed``: number of batches with a timestamp; ``next_offset``: the
    offset after all of them.
    """

    buffer: Sliceable
    frames: memoryview
    first: int
    stop: int
    magic: int
    append_time: int | None
    timed: int
    next_offset: int

    @property
    def data(self) -> Any:
        """All their bytes."""
        frames, last = self.frames, (self.stop - 1) * FRAME_WIDTH
        start, end = frames[self.first * FRAME_WIDTH + FRAME_POSITION], frames[last + FRAME_POSITION]
        return self.buffer[start : end + frames[last + FRAME_SIZE]]

    def rows(self, scratch: Scratch) -> Iterator[Rows]:
        """Yields all their records. Raises DamageError if the bytes have changed since they were checked."""
        collector, max_headers = Collector(self.first), MAX_HEADERS * HEADER_WIDTH
        while True:
            status = collector.collect(self.buffer, self.frames, self.stop, ALL, scratch.rows, scratch.headers)
            if collector.row_count:
                yield Rows(self.buffer, scratch.rows, scratch.headers, collector.row_count)
                collector.row_count = collector.header_count = 0
            elif status == DONE:
                return
            elif status == MORE_HEADERS and len(scratch.headers) < max_headers:
                scratch.headers = int64s(max_headers)
            else:
                raise DamageError("a batch changed while it was read; nothing was written")


def plain_run(buffer: Sliceable, frames: memoryview, first: int, stop: int, next_offset: int) -> PlainRun | None:
    """Returns the run of uniform uncompressed batches from frame ``first`` on; None if there are fewer than two.

    Their offsets are not below ``next_offset``.
    """
    run = UniformRun(next_offset)
    end = run.find(buffer, frames, first, stop)
    if end - first < 2:
        return None
    return PlainRun(
        buffer, frames, first, end, frames[first * FRAME_WIDTH + FRAME_MAGIC],
        run.time if run.kind == APPEND_TIME else None, run.timed, run.next_offset,
    )  # fmt: skip
