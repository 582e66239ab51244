"""The bases of the dump printers.

For text and JSON Lines, runs of frames are rendered in the kernel; other batches are rendered one by one.
"""

from collections.abc import Callable
from threading import Lock, Semaphore, Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from kseg.formats.compression import expansion_buffer
from kseg.formats.rows import BytesLike, Rows, Scratch, Sliceable, int64s
from kseg.kernel.layout import rows as layout
from kseg.kernel.layout.rows import DONE, FULL, MORE_HEADERS, NEEDS_DECODING, TOO_SMALL
from kseg.kernel.render.lines import CONTENTS
from kseg.kernel.render.rendering import Renderer
from kseg.limits import LARGEST_BUFFER_BYTES, MAX_HEADERS, OUTPUT_BYTES
from kseg.output.sink import Sink
from kseg.segment.files import SegmentFile
from kseg.segment.items import TIMESTAMP_TYPES, Batch, Damage, Record, Spans, all_rows, records_of
from kseg.segment.reader import Run, SegmentReader

if TYPE_CHECKING:
    from queue import SimpleQueue


class Style(NamedTuple):
    """The parts of a batch to print: its records (``deep``), their keys and values (``contents``).

    A ``decoder`` (`kseg.decoders`) turns keys and values into text and objects. ``choose`` may return a decoder for a
    single file; with that of an internal topic, records are printed with contents.
    """

    deep: bool = False
    contents: bool = False
    skip_metadata: bool = False
    escape: bool = False
    decoder: Any = None
    choose: Callable[[SegmentFile], Any] | None = None

    def of(self, file: SegmentFile) -> "Style":
        """Returns the style for one file."""
        found = self.choose(file) if self.choose is not None else None
        if found is None or not (self.contents or getattr(found, "implies_contents", True)):
            return self
        return self._replace(deep=True, contents=True, decoder=found)


class Printer:
    """Base of the forms: `begin` a file, then `run`, `batch` and `damage` in the order of its items, then `finish`.

    ``errors`` counts damage and invalid batches, ``files`` those that were begun, in forms that need it.
    """

    def __init__(self, sink: Sink, style: Style, scratch: Scratch) -> None:
        self.sink = sink
        self.style = self._style = style
        self.scratch = scratch
        self.errors = self.files = 0

    def enter(self, file: SegmentFile) -> None:
        """Selects the file of the following items. Another printer may have printed its start."""
        self.style = self._style.of(file)

    def begin(self, file: SegmentFile) -> None:
        self.files += 1
        self.enter(file)

    def attend(self, reader: SegmentReader) -> None:
        """Selects the reader of the following items; they belong to the file begun last."""

    def run(self, reader: SegmentReader, run: Run) -> None:
        """Prints a run of frames."""
        for i in range(run.count):
            self.batch(reader.batch(run, i, keep=False))

    def batch(self, batch: Batch, spans: Spans = all_rows) -> None:
        """Prints one batch. ``spans`` selects the rows (first, stop) of the records to print, None: all."""
        raise NotImplementedError

    def damage(self, damage: Damage) -> None:
        raise NotImplementedError

    def unproven(self, batch: Batch, spans: Spans = all_rows) -> None:
        """Prints the readable records of a broken batch, whose damage was printed before."""

    def trailing(self, damage: Damage, is_reported: bool = True) -> None:
        """Prints damage at the end, for which kafka-dump-log has its own line, unless --max-bytes: ``is_reported``."""
        self.damage(damage)

    def finish(self) -> None:
        """Ends a file."""
        self.sink.flush()

    def abandon(self) -> None:
        """Called after an error between `begin` and `finish`."""

    def close(self) -> None:
        """Ends the dump."""


class RenderingPrinter(Printer):
    """Base of text and JSON Lines, whose lines the kernel renders."""

    _line_end = b"\n"

    def __init__(self, sink: Sink, style: Style, scratch: Scratch) -> None:
        super().__init__(sink, style, scratch)
        self._out = bytearray(OUTPUT_BYTES)
        self._renderer = Renderer()
        self._program: Any = None
        self._expansion = expansion_buffer(scratch.max_batch_bytes)

    def enter(self, file: SegmentFile) -> None:
        super().enter(file)
        self._file = file
        # The decoder program of the kernel; None if it has none, or for terminals, which need escaping.
        self._program = None if self.style.escape else getattr(self.style.decoder, "program", None)

    def finish(self) -> None:
        self._flush()

    def run(self, reader: SegmentReader, run: Run) -> None:
        """Prints a run of frames. The kernel prints those that it can, `batch` those that it skips."""
        first, is_plain = 0, not reader.is_07 and (self.style.decoder is None or self._program is not None)
        while first < run.count:
            buffer, rows, origin, stop = reader.window(run, first) if is_plain else (None, run.rows, 0, run.count)
            while first < stop:
                if buffer is not None:
                    first = self._print(buffer, rows, origin, first, stop)
                if first < stop:
                    self.batch(reader.batch(run, first, keep=False, scratch=self.scratch, shared=self._expansion))
                    first += 1

    def _print(self, buffer: Sliceable, rows: memoryview, origin: int, first: int, stop: int) -> int:
        """Prints frames of a run from ``first`` up to ``stop``, or the first that the kernel skips. Returns that."""
        renderer = self._renderer
        renderer.go_to(first)
        renderer.origin = origin
        while True:
            status = renderer.print_batches(
                buffer, rows, stop, self.scratch.rows, self.scratch.headers, self._out, self._expansion
            )
            if status == DONE:
                return stop
            if status == FULL:
                self._flush()
            elif status == TOO_SMALL:
                self._grow(renderer.needed)
            elif status == NEEDS_DECODING:
                payload = self._expansion.view() if renderer.is_expanded else buffer
                self._finish_row(payload, self.scratch.rows, self.scratch.headers)
            elif status == MORE_HEADERS and renderer.needed <= MAX_HEADERS:
                self.scratch.headers = int64s(MAX_HEADERS * layout.HEADER_WIDTH)
            elif renderer.is_open:
                renderer.go_to(renderer.frame + 1)  # the file has changed since the run was read
            else:
                return int(renderer.frame)

    def _finish_row(self, buffer: Sliceable, rows: memoryview, headers: memoryview) -> None:
        """Completes the line of a record whose key and value the kernel leaves to the decoder."""
        at = self._renderer.row
        (record,) = records_of(Rows(buffer, rows, headers, at + 1).part(at, at + 1))
        self._put(self._rest_of_record(self._renderer.is_control, record) + self._line_end)

    def _rest_of_record(self, is_control: bool, record: Record) -> bytes:
        """Returns what the kernel does not write: the meaning of a control record, or the decoded key and value."""
        raise NotImplementedError

    def _render_rows(self, batch: Batch, rows: Rows, first: int, stop: int, decodes: bool = False) -> None:
        """Prints the rows from ``first`` to ``stop`` of a batch; flushes or enlarges the output buffer as needed.

        ``decodes``: keys and values are decoded by the decoder program.
        """
        renderer, kind = self._renderer, TIMESTAMP_TYPES.index(batch.timestamp_type)
        renderer.record, renderer.origin = first, batch.position
        while True:
            status = renderer.print_records(
                rows.payload, rows.rows, rows.headers, stop, min(max(batch.magic, 0), 2), kind, self._out, decodes
            )
            if status == DONE:
                return
            if status == FULL:
                self._flush()
            elif status == NEEDS_DECODING:
                self._finish_row(rows.payload, rows.rows, rows.headers)
            else:
                self._grow(renderer.needed)

    def _grow(self, needed: int) -> None:
        self._flush()
        if needed > LARGEST_BUFFER_BYTES:
            self.sink.wait()  # only one thread at a time holds a buffer of this size
        if needed > len(self._out):
            self._out = bytearray(needed)

    def _put(self, data: bytes) -> None:
        """Appends bytes to the output of the kernel."""
        if len(data) > len(self._out) - self._renderer.written:
            self._flush()
            if len(data) > len(self._out):
                self.sink.write(data)
                return
        at = self._renderer.written
        self._out[at : at + len(data)] = data
        self._renderer.written = at + len(data)

    def _flush(self) -> None:
        written = self._renderer.written
        if written:
            self.sink.write_view(memoryview(self._out)[:written])
            self._renderer.written = 0
            if len(self._out) > LARGEST_BUFFER_BYTES:
                self._out = bytearray(OUTPUT_BYTES)

    def _print_rows(self, batch: Batch, rows: Rows, first: int, stop: int) -> None:
        """Prints rows of a batch: control records and those that only the decoder can show one by one."""
        if not batch.is_control and (self.style.decoder is None or self._program is not None):
            self._render_rows(batch, rows, first, stop, self._program is not None)
            return
        for i, record in enumerate(records_of(rows, TIMESTAMP_TYPES.index(batch.timestamp_type))):
            if first <= i < stop:
                self._begin_record(batch, rows, i, record)
                self._put(self._rest_of_record(batch.is_control, record) + self._line_end)

    def _begin_record(self, batch: Batch, rows: Rows, i: int, record: Record) -> None:
        """Writes the line of row i up to `_rest_of_record`, without contents."""
        renderer = self._renderer
        flags, renderer.flags = renderer.flags, renderer.flags & ~CONTENTS
        self._render_rows(batch, rows, i, i + 1)
        renderer.flags = flags
        self._unwrite(len(self._line_end))

    def _unwrite(self, count: int) -> None:
        """Removes the last bytes of the output. They are still in the buffer: a line is never flushed at its end."""
        self._renderer.written -= count


# A dump on several threads: rendering in the kernel and decompression release the GIL.
#
# The input is split into tasks. Threads take tasks in any order, but output is written in task order: each thread fills
# its own output buffer, and waits for its task's turn only when the buffer is full, the task is done, or it needs more
# memory than LARGEST_BUFFER_BYTES. So memory use is that of a serial dump plus a constant for each thread.

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
        self._slots.acquire()
        self._raise()
        before, self._last = self._last, Lock()
        self._last.acquire()
        self._tasks.put((task, self._file, before, self._last))

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
