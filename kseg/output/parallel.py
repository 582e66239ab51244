"""A dump on several threads: rendering in the kernel and decompression release the GIL.

The input is split into tasks. Threads take tasks in any order, but output is written in task order: each thread fills
its own output buffer, and waits for its task's turn only when the buffer is full, the task is done, or it needs more
memory than LARGEST_BUFFER_BYTES. So memory use is that of a serial dump plus a constant for each thread.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Any

from kseg.formats.rows import BytesLike
from kseg.output.printer import Printer
from kseg.output.sink import Sink
from kseg.runtime.threads import Future, Threads
from kseg.segment.batches import Batch, Spans, all_rows
from kseg.segment.files import SegmentFile
from kseg.segment.items import Damage
from kseg.segment.reader import Run, SegmentReader

SERIAL_BYTES = 1 << 20
"""Threads are started after this many bytes: for less input they would cost more time than they save."""

TASKS_PER_THREAD = 4

PrintPart = Callable[[Printer], None]


class TurnSink(Sink):
    """A sink of one printer. Writes wait until all earlier tasks have been written."""

    def __init__(self, sink: Sink) -> None:
        self.is_terminal = sink.is_terminal
        self._sink = sink
        self.before: Any = None
        """The lock that is released when the turn of the current task comes."""
        self.file: SegmentFile | None = None
        """That of the last task."""

    def wait(self) -> None:
        """Returns when all earlier tasks have been written."""
        if self.before is not None:
            self.before.acquire()
            self.before = None

    def write(self, data: bytes) -> None:
        self.wait()
        self._sink.write(data)

    def write_view(self, view: BytesLike) -> None:
        self.wait()
        self._sink.write_view(view)

    def flush(self) -> None:
        """Does nothing: this sink has no buffer."""


class ParallelPrinter:
    """Prints the same output as a single printer. Call `abandon` before the input is closed."""

    files = 0

    def __init__(self, sink: Sink, make: Callable[[Sink], Printer], jobs: int) -> None:
        self._sink = sink
        self._make = make
        self._printers = [make(sink)]
        self._max_pending = jobs * TASKS_PER_THREAD
        self._threads: Threads[tuple[Printer, TurnSink]] = Threads(jobs, self._own)
        self._pending: deque[Future[None]] = deque()
        self._last: Any = Lock()
        self._file: SegmentFile | None = None
        self._rendered = 0
        self._is_dropping = False

    @property
    def style(self) -> Any:
        return self._printers[0].style

    @property
    def errors(self) -> int:
        return sum(printer.errors for printer in self._printers)

    def begin(self, file: SegmentFile) -> None:
        self._file = file
        self._submit(lambda printer: printer.begin(file), 0)

    def attend(self, reader: SegmentReader) -> None:
        """As `Printer.attend`, but does nothing: each task has its own reader."""

    def close(self) -> None:
        """As `Printer.close`, but does nothing: `finish` has written everything."""

    def run(self, reader: SegmentReader, run: Run) -> None:
        """Prints a run of frames. The rows are copied, because the reader overwrites them."""
        kept = run.copied()
        self._submit(lambda printer: printer.run(reader, kept), run.end - run.position)

    def damage(self, damage: Damage) -> None:
        self._submit(lambda printer: printer.damage(damage), 0)

    def unproven(self, batch: Batch, spans: Spans = all_rows) -> None:
        def task(printer: Printer) -> None:
            batch.scratch = printer.scratch  # that of the reader is for one thread
            printer.unproven(batch, spans)

        self._submit(task, batch.size)

    def trailing(self, damage: Damage, is_reported: bool = True) -> None:
        self._submit(lambda printer: printer.trailing(damage, is_reported), 0)

    def finish(self) -> None:
        """Waits until a file is completely written. Raises the first error of a thread."""
        if len(self._printers) == 1:
            self._printers[0].finish()
        while self._pending:
            self._pending.popleft().result()

    def abandon(self) -> None:
        """Drops the tasks that have not started, and returns when no thread reads a file any more."""
        self._is_dropping = True
        with self._last:  # tasks end in order
            self._pending.clear()
        self._is_dropping = False

    def _submit(self, task: PrintPart, size: int) -> None:
        if len(self._printers) == 1:
            if self._rendered < SERIAL_BYTES:
                self._rendered += size
                task(self._printers[0])
                return
            self._printers[0].finish()
        while len(self._pending) >= self._max_pending:
            self._pending.popleft().result()
        before, self._last = self._last, Lock()
        self._last.acquire()
        self._pending.append(self._threads.begin(partial(self._print, task, self._file, before, self._last)))

    def _own(self) -> tuple[Printer, TurnSink]:
        """Returns the printer of a thread and its sink."""
        sink = TurnSink(self._sink)
        printer = self._make(sink)
        printer.scratch.before_large = sink.wait
        self._printers.append(printer)
        return printer, sink

    def _print(
        self, task: PrintPart, file: SegmentFile | None, before: Any, after: Any, own: tuple[Printer, TurnSink]
    ) -> None:
        """Runs a task in a thread; after an error the later ones are dropped."""
        printer, sink = own
        sink.before = before
        try:
            if not self._is_dropping:
                if file is not None and file is not sink.file:
                    printer.enter(file)
                    sink.file = file
                task(printer)
                printer.finish()
        except BaseException:
            self._is_dropping = True
            raise
        finally:
            sink.wait()
            after.release()
