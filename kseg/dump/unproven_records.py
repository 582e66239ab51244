"""The file of ``kseg recover --records``: the readable records of broken batches, as JSON Lines."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

from kseg.changes.driver.command import Messages
from kseg.errors import RequestError
from kseg.formats.rows import Rows, Scratch
from kseg.output.jsonl import JsonLinesPrinter
from kseg.output.printer import Style
from kseg.output.sink import STANDARD_OUTPUT, Sink, open_sink
from kseg.segment.batches import Batch, Message07, Spans, all_rows
from kseg.segment.items import Record


class UnprovenRecords(JsonLinesPrinter):
    """Writes the decodable records of batches, without batch lines. ``count``: their number."""

    def __init__(self, sink: Sink, scratch: Scratch) -> None:
        super().__init__(sink, Style(deep=True, contents=True), scratch)
        self.count = 0

    def batch(self, batch: Batch, spans: Spans = all_rows) -> None:
        self.unproven(batch, spans)

    def _print_rows(self, batch: Batch, rows: Rows, first: int, stop: int) -> None:
        self.count += stop - first
        # A damaged batch may have the control flag set by mistake.
        self._render_rows(batch, rows, first, stop)

    def _object_07(self, batch: Message07, record: Record, is_proven: bool) -> dict[str, Any]:
        self.count += 1
        return super()._object_07(batch, record, is_proven)


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
        with open_sink(os.devnull if is_dry else self._path) as sink:
            records = UnprovenRecords(sink, scratch)
            for directory in directories:
                for file in files_of(directory):
                    records.begin(file)
                    for batch in broken_batches(file, scratch):
                        records.batch(batch)
                    records.finish()
        done = "would be" if is_dry else "were"
        messages.warning(f"{self._path}: {records.count} records of broken batches {done} written, unproven")
