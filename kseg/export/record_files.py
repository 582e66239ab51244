"""Exports the records of segments as CSV, Parquet or Arrow."""

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass

from kseg.errors import DamageError
from kseg.export.chunk import NAMES, Chunk
from kseg.export.decoding import LeftOut
from kseg.export.scanning import PartReader, ScanRequest, parts_of_scan
from kseg.export.tables import TableOutput, TableWriter, check_codec, prepare_pyarrow
from kseg.limits import CHUNK_BYTES, MAX_BATCH_BYTES
from kseg.runtime.threads import usable_cores
from kseg.segment.files import SegmentFile
from kseg.segment.paths import expand_path, segments_at, warn_of_skipped_files

CSV = "csv"
_CHUNK_BYTES = {"parquet": 1 << 20, "arrow": 2 << 20}
"""Size of a chunk for a table. Each record batch of Arrow costs as much as 100 KiB of its bytes."""
_MAX_DECODERS = {"parquet": 2, "arrow": 3, "csv": 3}
"""Largest number of decoding threads: each takes some 15 MB, and a row group of Parquet as much."""
_MAX_DAMAGES = 20
SKIP_HINT = "--skip-damage goes on without these bytes"
"""Addition to an error about damage."""


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """``form``: csv, parquet or arrow. ``codec``, ``level``: of a table, None for the default."""

    paths: tuple[str, ...]
    form: str
    codec: str | None = None
    level: int | None = None
    read_committed: bool = False
    skips_damage: bool = False
    max_batch_bytes: int = MAX_BATCH_BYTES
    jobs: int | None = None

    @property
    def is_text(self) -> bool:
        return self.form == CSV

    def check(self) -> None:
        """Raises UnsupportedError for a codec that the form lacks, or if a library is missing."""
        if not self.is_text:
            check_codec(self.form, self.codec)
            prepare_pyarrow()


def export_records(options: ExportOptions, output: TableOutput, warn: Callable[[str], None]) -> None:
    """Writes all records. ``warn`` receives the damage that is left out. Raises DamageError, KsegError."""
    reading = _Reading(options, warn)
    if options.is_text:
        _as_csv(reading, output)
    else:
        _as_table(reading, output, options)
    reading.summarize()


class _Reading:
    """Reads chunks of all segments of a run. Damage is refused, or counted and reported."""

    def __init__(self, options: ExportOptions, warn: Callable[[str], None]) -> None:
        self._options, self._warn = options, warn
        self._jobs = min(options.jobs or usable_cores(), _MAX_DECODERS[options.form])
        self._left_out = 0

    def chunks(
        self, timestamp_scale: int, chunk_bytes: int = CHUNK_BYTES
    ) -> Generator[tuple[SegmentFile, Chunk], None, None]:
        """Yields chunks with the segment that each comes from. ``chunk_bytes``: as in `PartReader`.

        Close the generator before the output. Raises DamageError.
        """
        options = self._options
        for path in options.paths:
            parts = expand_path(path)
            for part in [path, *parts] if parts != [path] else parts:
                warn_of_skipped_files(part, part in parts and not segments_at(part), self._warn)
            request = ScanRequest(
                (path,), is_committed=options.read_committed,
                max_batch_bytes=options.max_batch_bytes,
            )  # fmt: skip
            reader = PartReader(request, NAMES, timestamp_scale, self._refuse_or_count, self._jobs, chunk_bytes)
            for _, found in parts_of_scan(request):
                for chunk in reader.chunks(found):
                    yield found.file, chunk

    def _refuse_or_count(self, file: SegmentFile, left_out: LeftOut) -> None:
        place = f"{file.path}: {left_out.code} at position {left_out.position}, {left_out.length} bytes"
        if not self._options.skips_damage:
            raise DamageError(f"{place}: {left_out.message}; {SKIP_HINT}")
        self._left_out += 1
        if self._left_out <= _MAX_DAMAGES:
            self._warn(f"{place} left out: {left_out.message}")

    def summarize(self) -> None:
        if self._left_out > _MAX_DAMAGES:
            self._warn(f"{self._left_out - _MAX_DAMAGES} more damaged ranges are left out")


def _as_csv(reading: _Reading, output: TableOutput) -> None:
    from kseg.export.csv_lines import FIRST_LINE, csv_lines

    output.write(FIRST_LINE)
    with closing(reading.chunks(1)) as chunks:
        for file, chunk in chunks:
            output.write_view(csv_lines(chunk, file.topic, file.partition))


def _as_table(reading: _Reading, output: TableOutput, options: ExportOptions) -> None:
    from kseg.export.arrow import COLUMNS, record_batch, schema

    wanted = schema(COLUMNS)
    with (
        TableWriter(output, options.form, wanted, options.codec, options.level) as writer,
        closing(reading.chunks(1000, _CHUNK_BYTES[options.form])) as found,
    ):
        for file, chunk in found:
            writer.add(record_batch(chunk, wanted, {"topic": file.topic, "partition": file.partition}))
