"""Two tables in one run: the batches of most files, then the committed offsets of __consumer_offsets."""

from collections.abc import Callable

from kseg.formats.rows import Rows
from kseg.output.committed_offsets import CommittedOffsetsPrinter
from kseg.output.printer import Printer, Style
from kseg.output.table import TablePrinter
from kseg.segment.batches import Batch
from kseg.segment.files import OFFSETS_TOPIC, SegmentFile
from kseg.segment.items import Damage
from kseg.segment.reader import Run, SegmentReader
from kseg.segment.selection import RowSpan


class TopicTables:
    """Prints each file to the table for its topic."""

    def __init__(self, batches: TablePrinter, committed: CommittedOffsetsPrinter) -> None:
        self._batches = batches
        self._committed = committed
        self._of_file: Printer = batches
        self._has_batches = False

    @property
    def style(self) -> Style:
        return self._of_file.style

    @property
    def errors(self) -> int:
        return self._batches.errors + self._committed.errors

    def begin(self, file: SegmentFile) -> None:
        # Leftover files repeat records of the segments, in another order.
        is_committed = file.topic == OFFSETS_TOPIC and not file.leftover
        self._of_file = self._committed if is_committed else self._batches
        self._has_batches |= not is_committed
        self._of_file.begin(file)

    def attend(self, reader: SegmentReader) -> None:
        self._of_file.attend(reader)

    def run(self, reader: SegmentReader, run: Run) -> None:
        self._of_file.run(reader, run)

    def batch(self, batch: Batch, spans: Callable[[Rows], list[RowSpan]] | None = None) -> None:
        self._of_file.batch(batch, spans)

    def damage(self, damage: Damage) -> None:
        self._of_file.damage(damage)

    def unproven(self, batch: Batch, spans: Callable[[Rows], list[RowSpan]] | None = None) -> None:
        self._of_file.unproven(batch, spans)

    def trailing(self, damage: Damage, is_reported: bool = True) -> None:
        self._of_file.trailing(damage, is_reported)

    def finish(self) -> None:
        self._of_file.finish()

    def abandon(self) -> None:
        self._of_file.abandon()

    def close(self) -> None:
        if self._has_batches or not self._committed.files:
            self._batches.close()
        if self._committed.files:
            if self._has_batches:
                self._committed.sink.write(b"\n")
            self._committed.close()
