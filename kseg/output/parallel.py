"""A dump on several threads: rendering in the kernel and decompression release the GIL.

The input is split into tasks. Threads take tasks in any order, but output is written in task order: each thread fills
its own output buffer, and waits for its task's turn only when the buffer is full, the task is done, or it needs more
memory than LARGEST_BUFFER_BYTES. So memory use is that of a serial dump plus a constant for each thread.
"""

from collections.abc import Callable
from threading import Lock, Semaphore, Thread
from typing import TYPE_CHECKING, Any

from kseg.formats.rows import BytesLike
from kseg.output.printer import Printer
from kseg.output.sink import Sink
from kseg.segment.batches import Batch, Spans, all_rows
from kseg.segment.files import SegmentFile
from kseg.segment.items import Damage
from kseg.segment.reader import Run, SegmentReader

if TYPE_CHECKING:
    from queue import SimpleQueue

SERIAL_BYTES = 1 << 20
"""Threads are started after this many bytes: for less input they would cost more time than they save."""

TASKS_PER_THREAD = 4

PrintPart = Callable[[Printer], None]


class TurnSink(Sink):
    """A sink of one printer. Writes wait until all earlier tasks have been written."""

    def __init__(self, sink: Sink) -> None:
        self.is_terminal = sink.is_terminal
        self._sink = sink
        self._before: Any = None

    def enter(self, before: Any) -> None:
        """Starts a task whose turn comes when ``before`` is released."""
        self._before = before

    def wait(self) -> None:
        """Returns when all earlier tasks have been written."""
        if self._before is not None:
            self._before.acquire()
            self._before = None

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

    # The thread that submits tasks runs none: Ctrl-C, which is raised in it, must not interrupt the order of turns.

    def __init__(self, sink: Sink, make: Callable[[Sink], Printer], jobs: int) -> None:
        self._sink = sink
        self._make = make
        self._jobs = jobs
        self._printers = [make(sink)]
        self._threads: list[Thread] = []
        self._tasks: SimpleQueue[tuple[PrintPart, SegmentFile | None, Any, Any]]
        self._slots = Semaphore(jobs * TASKS_PER_THREAD)
        self._last: Any = Lock()
        self._file: SegmentFile | None = None
        self._rendered = 0
        self._failure: BaseException | None = None
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
        if self._threads:
            self._drain()
            self._raise()
        else:
            self._printers[0].finish()

    def abandon(self) -> None:
        """Drops the tasks that have not started, and returns when no thread reads a file any more."""
        if self._threads:
            self._is_dropping = True
            self._drain()
            self._is_dropping = False

    def _drain(self) -> None:
        with self._last:  # tasks end in order
            return

    def _raise(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _submit(self, task: PrintPart, size: int) -> None:
        if not self._threads and self._rendered < SERIAL_BYTES:
            self._rendered += size
            task(self._printers[0])
            return
        if not self._threads:
            self._start()
        self._slots.acquire()
        self._raise()
        before, self._last = self._last, Lock()
        self._last.acquire()
        self._tasks.put((task, self._file, before, self._last))

    def _start(self) -> None:
        from queue import SimpleQueue

        self._tasks = SimpleQueue()
        self._printers[0].finish()
        for _ in range(self._jobs):
            sink = TurnSink(self._sink)
            printer = self._make(sink)
            printer.scratch.before_large = sink.wait
            self._printers.append(printer)
            thread = Thread(target=self._work, args=(printer, sink), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _work(self, printer: Printer, sink: TurnSink) -> None:
        file = None
        while True:
            task, its_file, before, after = self._tasks.get()
            sink.enter(before)
            try:
                if self._failure is None and not self._is_dropping:
                    if its_file is not None and its_file is not file:
                        printer.enter(its_file)
                        file = its_file
                    task(printer)
                    printer.finish()
            except BaseException as error:  # noqa: BLE001 - raised in the thread that submits tasks
                self._failure = self._failure or error
            sink.wait()
            after.release()
            self._slots.release()
