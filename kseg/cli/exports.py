"""``kseg convert --to jsonl|csv|parquet|arrow``: the records of segments as a stream in another form."""

from collections.abc import Generator
from contextlib import closing
from typing import Any

import click

from kseg.cli.convert_options import target_of
from kseg.errors import DamageError, PathError
from kseg.export.chunk import NAMES, Chunk
from kseg.export.decoding import LeftOut
from kseg.export.scanning import PartReader, ScanRequest, parts_of_scan
from kseg.limits import CHUNK_BYTES
from kseg.output.change_reporter import Presentation
from kseg.output.notices import Notices
from kseg.output.sink import Sink, open_sink
from kseg.runtime.cores import usable_cores
from kseg.segment.files import SegmentFile
from kseg.segment.passed_over import tell_passed_over
from kseg.segment.paths import expand_path, segments_at

_CHUNK_BYTES = {"parquet": 1 << 20, "arrow": 2 << 20}
"""Size of a chunk for a table. Each record batch of Arrow costs as much as 100 KiB of its bytes."""
_MOST_DECODERS = {"parquet": 2, "arrow": 3, "csv": 3}
"""Threads that decode, whatever the number of cores: each takes some 15 MB, and a row group of Parquet as much."""
_GO_ON = "--skip-damage goes on without these bytes"


def export(options: dict[str, Any], presentation: Presentation, notices: Notices) -> int:
    """Writes the records of all paths to a file, whole or not at all, or to standard output; the exit status."""
    form = options["to"]
    if form == "jsonl":
        return _as_json_lines(options, presentation)
    if form != "csv":
        from kseg.export.tables import check_codec, prepare_pyarrow

        check_codec(form, None if options["codec"] is None else target_of(options["codec"]).name)
        prepare_pyarrow()
    with open_sink(options["output"]) as sink:
        if form != "csv" and sink.is_terminal:
            raise click.UsageError(f"--to {form} is no text for a terminal: give -o FILE, or a pipe")
        reading = _Reading(options, notices)
        if form == "csv":
            _as_csv(reading, sink)
        else:
            _as_table(reading, sink, form, options)
        reading.summarize()
    return 0


def _as_json_lines(options: dict[str, Any], presentation: Presentation) -> int:
    """What ``kseg dump`` writes: it has all there is to tell."""
    from kseg.dump.options import JSON, DumpOptions
    from kseg.dump.run import Dump

    wanted = DumpOptions(
        paths=options["paths"],
        form=JSON,
        contents=True,
        read_committed=options["isolation"] == "read_committed",
        max_batch_bytes=options["max_batch_bytes"],
        jobs=options["jobs"],
        output=options["output"],
        color=presentation.color,
        quiet=presentation.quiet,
    )
    with open_sink(options["output"]) as sink:
        run = Dump(sink, wanted)
        status = run.run()
        if run.status:
            raise PathError("not every path could be read")
        if status and not options["skip_damage"]:
            raise DamageError(f"damage was met: kseg verify tells where; {_GO_ON}")
    return 0


class _Reading:
    """Chunks of all segments of a run. Damage is refused, or counted and told."""

    def __init__(self, options: dict[str, Any], notices: Notices) -> None:
        self._options, self._notices = options, notices
        self._jobs = min(options["jobs"] or usable_cores(), _MOST_DECODERS[options["to"]])
        self._left_out = 0

    def chunks(self, timestamp_scale: int, room: int = CHUNK_BYTES) -> Generator[tuple[SegmentFile, Chunk], None, None]:
        """With the segment that each comes from; ``room``: bytes of its keys and values, where they fit.

        To be closed before anything else is given up. Raises DamageError.
        """
        options = self._options
        for path in options["paths"]:
            parts = expand_path(path)
            for part in [path, *parts] if parts != [path] else parts:
                tell_passed_over(part, part in parts and not segments_at(part), self._notices.warning)
            request = ScanRequest(
                (path,), is_committed=options["isolation"] == "read_committed",
                max_batch_bytes=options["max_batch_bytes"],
            )  # fmt: skip
            reader = PartReader(request, NAMES, timestamp_scale, self._tell, self._jobs, room)
            for _, found in parts_of_scan(request):
                for chunk in reader.chunks(found):
                    yield found.file, chunk

    def _tell(self, file: SegmentFile, left_out: LeftOut) -> None:
        place = f"{file.path}: {left_out.code} at position {left_out.position}, {left_out.length} bytes"
        if not self._options["skip_damage"]:
            raise DamageError(f"{place}: {left_out.message}; {_GO_ON}")
        self._left_out += 1
        if self._left_out <= 20:
            self._notices.warning(f"{place} left out: {left_out.message}")

    def summarize(self) -> None:
        if self._left_out > 20:
            self._notices.warning(f"{self._left_out - 20} more damaged ranges are left out")


def _as_csv(reading: _Reading, sink: Sink) -> None:
    from kseg.export.csv_lines import FIRST_LINE, csv_lines

    sink.write(FIRST_LINE)
    with closing(reading.chunks(1)) as chunks:
        for file, chunk in chunks:
            sink.write_view(csv_lines(chunk, file.topic, file.partition))


def _as_table(reading: _Reading, sink: Sink, form: str, options: dict[str, Any]) -> None:
    from kseg.export.arrow import record_batch, schema
    from kseg.export.tables import TableWriter

    names = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
    codec = options["codec"]
    wanted, target = schema(names), None if codec is None else target_of(codec)
    level = target.level if target is not None and codec is not None and ":" in codec else None
    name = None if target is None else target.name
    with (
        TableWriter(sink, form, wanted, name, level) as writer,
        closing(reading.chunks(1000, _CHUNK_BYTES[form])) as found,
    ):
        for file, chunk in found:
            topic = file.topic
            if topic is not None:
                topic = topic.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            writer.add(record_batch(chunk, wanted, {"topic": topic, "partition": file.partition}))
