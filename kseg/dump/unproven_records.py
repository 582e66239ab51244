"""The file of ``kseg recover --records``: the readable records of broken batches."""

import os
from collections.abc import Iterable, Sequence
from contextlib import nullcontext

from kseg.changes.driver.reporter import Messages
from kseg.errors import RequestError
from kseg.output.sink import STANDARD_OUTPUT, open_sink


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
        from kseg.formats.rows import Scratch
        from kseg.output.unproven import UnprovenRecords
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
