"""The file of ``kseg recover --records``: the readable records of broken batches, as JSON Lines."""

import os
from collections.abc import Iterable, Sequence
from contextlib import nullcontext

from kseg.changes.driver.reporter import Messages
from kseg.errors import RequestError
from kseg.formats.rows import BytesLike, Rows, Scratch
from kseg.output.jsonl import JsonLinesPrinter
from kseg.output.printer import Spans, Style
from kseg.output.sink import STANDARD_OUTPUT, Sink, open_sink
from kseg.segment.batches import Batch


class UnprovenRecords(JsonLinesPrinter):
    """Writes the decodable records of batches, without batch lines. ``count`` returns their number.

    Without a ``sink`` they are only counted.
    """

    def __init__(self, sink: Sink | None, scratch: Scratch) -> None:
        self._lines = _CountedLines(sink)
        super().__init__(self._lines, Style(deep=True, contents=True), scratch)

    @property
    def count(self) -> int:
        return self._lines.count

    def batch(self, batch: Batch, spans: Spans | None = None) -> None:
        self.unproven(batch, spans)

    def _print_rows(self, batch: Batch, rows: Rows, first: int, stop: int) -> None:
        # A damaged batch may have the control flag set by mistake.
        self._render_rows(batch, rows, first, stop)


class _CountedLines(Sink):
    """Counts lines, and passes them to a sink if there is one."""

    def __init__(self, sink: Sink | None) -> None:
        super().__init__(-1, "unproven records")  # no descriptor: all that would write to one is replaced below
        self._sink = sink
        self.count = 0

    def write(self, data: bytes) -> None:
        self.count += data.count(b"\n")
        if self._sink is not None:
            self._sink.write(data)

    def write_view(self, view: BytesLike) -> None:
        self.write(bytes(view))

    def flush(self) -> None:
        if self._sink is not None:
            self._sink.flush()


class RecordsFile:
    """``paths``: the PATHs of the command. Raises RequestError for standard output, for several PATHs, and if the file
    would be in PATH.
    """

    def __init__(self, path: str, paths: Sequence[str]) -> None:
        if path == STANDARD_OUTPUT:
            raise RequestError("--records takes a file: standard output is for the plan")
        if len(paths) > 1:
            raise RequestError("--records takes one PATH, because the file is written before PATH is changed")
        place = os.path.realpath(paths[0])
        if os.path.commonpath([place, os.path.realpath(path)]) == place:
            raise RequestError("--records: the file must not be in PATH, where brokers would find it")
        self._path = path

    def write(self, directories: Iterable[str], is_dry: bool, messages: Messages) -> None:
        """Writes the records of all directories, completely or not at all; a dry run only counts them.

        Raises PathError if a segment cannot be read or the file cannot be made, StoppedHalfwayError if writing fails.
        """
        from kseg.recovery.salvage.segment_sources import broken_batches, files_of

        scratch = Scratch()
        with nullcontext() if is_dry else open_sink(self._path) as sink:
            records = UnprovenRecords(sink, scratch)
            for directory in directories:
                for file in files_of(directory):
                    records.begin(file)
                    for batch in broken_batches(file, scratch):
                        records.batch(batch)
                    records.finish()
        done = "would be" if is_dry else "were"
        messages.warning(f"{self._path}: {records.count} records of broken batches {done} written, unproven")
