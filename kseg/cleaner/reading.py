"""Reads a segment in windows of checked batches for cleaning; the first damage ends the cleaning with an error."""

from collections.abc import Iterator
from dataclasses import dataclass

from kseg.errors import KsegError, PathError
from kseg.formats.rows import Scratch, int64s
from kseg.kernel.layout.rows import (
    BATCH_FIRST_OFFSET,
    BATCH_LAST_OFFSET,
    BATCH_POSITION,
    BATCH_SIZE,
    BATCH_WIDTH,
    CRC_RIGHT,
    FRAME_MAGIC,
    FRAME_SIZE,
    FRAME_STATE,
    FRAME_WIDTH,
)
from kseg.kernel.scan import headers
from kseg.kernel.scan.frame_scan import SKIP_CHECKSUMS
from kseg.limits import FRAMES_PER_CALL
from kseg.segment.reader import SegmentReader
from kseg.stores.buffers import Buffers
from kseg.stores.source import Source, check_readable, open_source
from kseg.stores.windows import Windows


class DamagedError(KsegError):
    """A damaged log is not cleaned: rewriting would give damaged records a valid checksum."""

    exit_status = 1

    def __init__(self, path: str, position: int, problem: str = "no intact batch begins there") -> None:
        super().__init__(f"{path}: damaged at position {position}: {problem}; nothing is cleaned, see kseg verify")


@dataclass(slots=True)
class Window:
    """Whole batches of a segment: ``count`` rows (BATCH_*) in ``rows``, with positions relative to ``data``.

    ``data`` starts at file position ``origin``. Both buffers are overwritten when the next window is read.
    """

    data: memoryview
    rows: memoryview
    count: int
    origin: int
    path: str

    @property
    def size(self) -> int:
        """Bytes of its batches."""
        last, first = (self.count - 1) * BATCH_WIDTH, self.rows[BATCH_POSITION]
        return int(self.rows[last + BATCH_POSITION] + self.rows[last + BATCH_SIZE] - first)

    def copy(self) -> "Window":
        """Returns a copy in its own memory."""
        end = self.rows[(self.count - 1) * BATCH_WIDTH + BATCH_POSITION]
        end += self.rows[(self.count - 1) * BATCH_WIDTH + BATCH_SIZE]
        rows = memoryview(bytes(self.rows[: self.count * BATCH_WIDTH])).cast("q")
        return Window(memoryview(bytes(self.data[:end])), rows, self.count, self.origin, self.path)

    def damage(self, i: int, problem: str) -> DamagedError:
        """Returns the error for batch i."""
        return DamagedError(self.path, self.origin + self.rows[i * BATCH_WIDTH + BATCH_POSITION], problem)


def windows(path: str, buffers: Buffers, skips_checksums: bool = False) -> Iterator[Window]:
    """Yields all batches of a segment in windows. ``skips_checksums``: checksums are not verified.

    Raises DamagedError if a batch is not intact, and PathError if the file cannot be read.
    """
    try:
        yield from _windows(path, buffers, skips_checksums)
    except DamagedError:
        check_readable(path)
        raise
    except OSError as error:
        check_readable(path)
        raise PathError(f"{path}: {error.strerror or error}") from error


def _windows(path: str, buffers: Buffers, skips_checksums: bool) -> Iterator[Window]:
    with open_source(path) as source:
        position, last_offset = 0, -1
        while position < source.size:
            scan_options = SKIP_CHECKSUMS if skips_checksums else 0
            found = Windows(source.extent, position, source.size, scan_options, buffers=buffers)
            for data, frames, count, origin in found:
                rows = buffers.int64s("batches", FRAMES_PER_CALL * BATCH_WIDTH)
                headers.read(data, frames, count, False, 0, rows)
                window = Window(data, rows, count, origin, path)
                last_offset = _last_offset(window, last_offset)
                yield window
            position = found.position
            if position < source.size:
                window = _large_batch(source, position)
                last_offset = _last_offset(window, last_offset)
                yield window
                position += len(window.data)


def _last_offset(window: Window, before: int) -> int:
    """Returns the window's last offset. Raises DamagedError if offsets do not rise: cleaning depends on their order."""
    end = window.count * BATCH_WIDTH
    firsts = window.rows[BATCH_FIRST_OFFSET:end:BATCH_WIDTH].tolist()
    lasts = window.rows[BATCH_LAST_OFFSET:end:BATCH_WIDTH].tolist()
    for i, (first, last) in enumerate(zip(firsts, lasts, strict=True)):
        if not before < (last if first < 0 else first) <= last:  # a compressed message does not store its first
            raise window.damage(i, "offsets do not rise")
        before = last
    return int(before)


def _large_batch(source: Source, position: int) -> Window:
    """Reads the single intact batch at a position, larger than a window. Raises DamagedError if it is not intact."""
    reader = SegmentReader(source, scratch=Scratch())
    run = reader.frame_at(position)
    if run is None:
        raise DamagedError(source.path, position)
    batch = reader.batch(run, 0)
    frame, rows = int64s(FRAME_WIDTH), int64s(BATCH_WIDTH)
    frame[FRAME_SIZE], frame[FRAME_MAGIC], frame[FRAME_STATE] = batch.size, batch.magic, CRC_RIGHT
    headers.read(batch.data, frame, 1, False, 0, rows)
    return Window(memoryview(batch.data), rows, 1, position, source.path)
