"""Prints records of damaged batches as JSON Lines: in the form of a dump, each with ``"proven":false``."""

from collections.abc import Callable

from kseg.formats.byte_types import BytesLike
from kseg.formats.rows import Rows, Scratch, UndecodableError
from kseg.output.jsonl import JsonLinesPrinter
from kseg.output.printer import Style
from kseg.output.sink import Sink
from kseg.segment.batches import Batch
from kseg.segment.selection import RowSpan

_MARK = b',"proven":false}\n'


class UnprovenRecords(JsonLinesPrinter):
    """Writes the decodable records of batches, without batch lines. ``count`` returns their number.

    Without a ``sink`` they are only counted.
    """

    def __init__(self, sink: Sink | None, scratch: Scratch) -> None:
        self._marking = _Marking(sink)
        super().__init__(self._marking, Style(deep=True, contents=True), scratch)

    @property
    def count(self) -> int:
        return self._marking.count

    def batch(self, batch: Batch, spans: Callable[[Rows], list[RowSpan]] | None = None) -> None:
        try:
            for rows in batch.rows():
                # A damaged batch may have the control flag set by mistake.
                self._render_rows(batch, rows, 0, rows.count)
        except UndecodableError:
            return  # the records before it are written


class _Marking(Sink):
    """Adds the mark to each line, and passes the lines to a sink if there is one."""

    def __init__(self, sink: Sink | None) -> None:
        super().__init__(-1, "unproven records")  # no descriptor: all that would write to one is replaced below
        self._sink = sink
        self._held = b""
        self.count = 0

    def write(self, data: bytes) -> None:
        data = self._held + data
        end = data.rfind(b"\n") + 1
        self.count += data.count(b"\n")
        if self._sink is not None:
            self._sink.write(data[:end].replace(b"}\n", _MARK))
        self._held = data[end:]

    def write_view(self, view: BytesLike) -> None:
        self.write(bytes(view))

    def flush(self) -> None:
        if self._sink is not None:
            self._sink.flush()
