"""``kseg recover --records``: what of the records in broken batches can still be read goes into a file of its own."""

import os
from collections.abc import Iterable, Sequence
from contextlib import nullcontext

import click

from kseg.changes.driver.reporter import Reporter
from kseg.output.sink import STANDARD_OUTPUT, open_sink


def check_records_path(path: str, paths: Sequence[str]) -> None:
    """Raises UsageError if the file lies in a path that is recovered, or cannot be written completely."""
    if path == STANDARD_OUTPUT:
        raise click.UsageError("--records takes a file: standard output is for the plan")
    if len(paths) > 1:
        raise click.UsageError("--records takes one PATH, for it is written before anything is changed there")
    place = os.path.realpath(paths[0])
    if os.path.commonpath([place, os.path.realpath(path)]) == place:
        raise click.UsageError("--records: the file lies in PATH, which may hold nothing that brokers do not know")


class RecordsFile:
    """The file of one run."""

    def __init__(self, path: str, is_dry: bool, reporter: Reporter) -> None:
        self._path, self._is_dry, self._reporter = path, is_dry, reporter

    def write(self, directories: Iterable[str]) -> None:
        """Writes the records of all of them, whole or not; a dry run only counts them."""
        from kseg.formats.rows import Scratch
        from kseg.output.unproven import UnprovenRecords
        from kseg.recovery.salvage.broken_batches import broken_batches, files_of

        scratch = Scratch()
        with nullcontext() if self._is_dry else open_sink(self._path) as sink:
            records = UnprovenRecords(sink, scratch)
            for directory in directories:
                for file in files_of(directory):
                    records.begin(file)
                    for batch in broken_batches(file, scratch):
                        records.batch(batch)
                    records.finish()
        done = "would be" if self._is_dry else "were"
        self._reporter.warning(
            f"{self._path}: {records.count} records of broken batches {done} written, which nothing proves"
        )
