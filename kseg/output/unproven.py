"""Prints records of damaged batches as JSON Lines: in the form of a dump, each with ``"proven":false``."""

from collections.abc import Callable

from kseg.formats.rows import BytesLike, Rows, Scratch
from kseg.output.jsonl import JsonLinesPrinter
from kseg.output.printer import Style
from kseg.output.sink import Sink
from kseg.segment.batches import Batch
from kseg.segment.selection import RowSpan


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

    def batch(self, batch: Batch, spans: Callable[[Rows], list[RowSpan]] | None = None) -> None:
        self.unproven(batch, spans)

    def _records(self, batch: Batch, rows: Rows, first: int, stop: int) -> None:
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
