"""Reads a segment for cleaning: windows of checked batches, decompressed, processed in several threads.

The first damage ends the cleaning with an error.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TypeVar

from kseg.errors import KsegError, PathError, is_system_error
from kseg.formats import record_batch
from kseg.formats.codec_libraries import expansion_buffer
from kseg.formats.rows import Scratch, UndecodableError, int64s
from kseg.kernel import COMPILED
from kseg.kernel.layout.headers import ENTRY_MAGIC, MAGIC_V2
from kseg.kernel.layout.rows import BATCH_WIDTH, ROW_WIDTH
from kseg.kernel.scan import headers
from kseg.kernel.scan.frame_scan import SKIP_CHECKSUMS
from kseg.limits import FRAMES_PER_CALL, MAX_BATCH_BYTES, ROWS_PER_CALL
from kseg.runtime.threads import TASK_BYTES, Pipeline
from kseg.segment.batches import Message
from kseg.segment.items import HARMLESS_CODES
from kseg.segment.reader import SegmentReader
from kseg.segment.survey import HeaderRows, headers_of
from kseg.stores.buffers import Buffers
from kseg.stores.source import Source, check_readable, open_source
from kseg.stores.windows import Windows


class DamagedError(KsegError):
    """A damaged log is not cleaned: rewriting would give damaged records a valid checksum."""

    exit_status = 1

    def __init__(self, path: str, position: int, problem: str = "no intact batch begins there") -> None:
        super().__init__(f"{path}: damaged at position {position}: {problem}; nothing is cleaned, see kseg verify")


@dataclass(slots=True, eq=False)
class Window(HeaderRows):
    """Whole batches of a segment, with positions relative to ``data``.

    ``data`` starts at file position ``origin``. Both buffers are overwritten when the next window is read.
    """

    data: memoryview
    origin: int
    path: str

    @property
    def size(self) -> int:
        """Bytes of its batches."""
        return self.end - self[0].position

    def copy(self) -> "Window":
        """Returns a copy in its own memory."""
        rows = memoryview(bytes(self.rows[: self.count * BATCH_WIDTH])).cast("q")
        return Window(rows, self.count, memoryview(bytes(self.data[: self.end])), self.origin, self.path)

    def damage(self, i: int, problem: str) -> DamagedError:
        """Returns the error for batch i."""
        return DamagedError(self.path, self.origin + self[i].position, problem)


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
        if not is_system_error(error):
            raise
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
                window = Window(rows, count, data, origin, path)
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
    for i, (first, last) in enumerate(zip(window.firsts, window.lasts, strict=True)):
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
    return Window(headers_of(batch.data, [(0, batch.size)]).rows, 1, memoryview(batch.data), position, source.path)


# Batches that the kernel leaves to Python: gzip, snappy, and all that it fails to decompress.


class RecordBuffers:
    """Reused buffers of one thread: rows, key hashes, key offsets and survivor flags of a batch, and its output."""

    def __init__(self, out_bytes: int) -> None:
        self.scratch = Scratch()
        self.expansion = expansion_buffer(MAX_BATCH_BYTES)
        self.out = bytearray(out_bytes)
        self.widen(2 * ROWS_PER_CALL)

    def widen(self, records: int) -> None:
        """Enlarges the buffers for a batch of ``records`` records."""
        self.rows = int64s(records * ROW_WIDTH)
        self.hashes, self.offsets = int64s(2 * records), int64s(records)
        self.keep = bytearray(records)


def batch_bytes(window: Window, i: int) -> memoryview:
    row = window[i]
    return window.data[row.position : row.end]


def open_batch(window: Window, i: int, buffers: RecordBuffers) -> bytes | memoryview | Message:
    """Returns the records of a v2 batch that the kernel does not open, or a v0 or v1 message. Raises DamagedError."""
    if window[i].magic < MAGIC_V2:
        return open_message(window, i, buffers)
    records = open_records(window, i, buffers)
    if problems := record_batch.check_records(records, 0, record_batch.parse_header(batch_bytes(window, i))):
        raise window.damage(i, problems[0][1])
    return records


def open_records(window: Window, i: int, buffers: RecordBuffers) -> bytes | memoryview:
    """Returns the decompressed records of v2 batch i. Raises DamagedError."""
    data = batch_bytes(window, i)
    try:
        payload, start = record_batch.open_records(
            data, record_batch.parse_header(data), buffers.scratch.max_batch_bytes
        )
    except UndecodableError as error:
        raise window.damage(i, str(error)) from error
    return memoryview(payload)[start:]


def open_message(window: Window, i: int, buffers: RecordBuffers) -> Message:
    """Returns message i (v0 or v1). Raises DamagedError if an inner message is not intact."""
    data = batch_bytes(window, i)
    message = Message(data, 0, len(data), data[ENTRY_MAGIC], True, buffers.scratch)
    if problems := [problem for problem in message.check() if problem.code not in HARMLESS_CODES]:
        raise window.damage(i, problems[0].message)
    return message


# Windows in several threads, with results in order; kernel and codecs release the GIL.

OUT_BYTES = 2 << 20
LARGE_BYTES = 4 << 20
"""A window of at least this size, such as one large batch, is processed alone to bound memory."""

T = TypeVar("T")


class CleaningThreads:
    """``buffers``: those of each thread."""

    def __init__(self, jobs: int) -> None:
        jobs = jobs if COMPILED else 1
        self.buffers = [RecordBuffers(OUT_BYTES) for _ in range(jobs)]
        self._idle: SimpleQueue[RecordBuffers] = SimpleQueue()
        for buffers in self.buffers:
            self._idle.put(buffers)
        self._pipeline = Pipeline(jobs)

    def submit(self, window: Window, work: Callable[[RecordBuffers, Window], T]) -> Iterator[T]:
        """Yields results that are ready, in window order. The caller may overwrite the window afterwards."""
        if len(self.buffers) == 1 or window.size >= LARGE_BYTES:
            yield from self.drain()
            yield self._done(window, work)
            return
        kept = window.copy()
        for results in self._pipeline.submit(lambda: self._done(kept, work), TASK_BYTES):
            yield from results

    def drain(self) -> Iterator[T]:
        """Yields all remaining results."""
        for results in self._pipeline.drain():
            yield from results

    def _done(self, window: Window, work: Callable[[RecordBuffers, Window], T]) -> T:
        buffers = self._idle.get()
        try:
            return work(buffers, window)
        finally:
            self._idle.put(buffers)

    def close(self) -> None:
        """Waits for running work; cancels the rest."""
        self._pipeline.__exit__()
