"""``kseg convert --to jsonl|csv|parquet|arrow``: the records of segments as a stream in another form."""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from typing import Any

import click

from kseg.cli.convert_options import target_of
from kseg.columns.ahead import RUN_BYTES as RUN_BYTES_AHEAD
from kseg.columns.ahead import Becoming
from kseg.columns.chunk import NAMES, Chunk, Chunks
from kseg.columns.decoding import LeftOut
from kseg.columns.records import RecordColumns, Wanted
from kseg.convert.request import DamagedError
from kseg.errors import PathError
from kseg.formats.rows import Scratch
from kseg.limits import CHUNK_BYTES, LONG_RUN_BYTES
from kseg.output.notices import Notices
from kseg.output.sink import Sink, open_sink
from kseg.runtime.cores import usable_cores
from kseg.segment.files import SegmentFile
from kseg.segment.isolation import Transactions
from kseg.segment.parts import is_worth_parts
from kseg.segment.passed_over import tell_passed_over
from kseg.segment.paths import expand_path, segments_at
from kseg.segment.reader import SegmentReader
from kseg.segment.source import open_source

_CHUNK_BYTES = {"parquet": 1 << 20, "arrow": 2 << 20}
"""Of a chunk for a table. Several row groups of Parquet are in memory at once, each as its chunks and as what it
becomes; each record batch of Arrow costs as much as 100 KiB of its bytes."""
_MOST_DECODERS, _MOST_ENCODERS = 3, 2
"""Threads that decode, whatever the number of cores, and those that encode what they have decoded: each takes some
15 MB, or 25."""
_GROUPS_RUN_BYTES = 6 << 20
"""Of a run (`SegmentReader`) that becomes row groups of its own: about two of them, for few that are small."""
_GO_ON = "--skip-damage goes on without these bytes"


def export(options: dict[str, Any], notices: Notices) -> int:
    """Writes the records of all paths to a file, whole or not at all, or to standard output; the exit status."""
    form = options["to"]
    if form == "jsonl":
        return _as_json_lines(options)
    if form != "csv":
        from kseg.columns.tables import check_codec, need_pyarrow

        check_codec(form, None if options["codec"] is None else target_of(options["codec"]).name)
        need_pyarrow()
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


def _as_json_lines(options: dict[str, Any]) -> int:
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
        color=options["color"],
        quiet=options["quiet"],
    )
    with open_sink(options["output"]) as sink:
        run = Dump(sink, wanted)
        status = run.run()
        if run.status:
            raise PathError("not every path could be read")
        if status and not options["skip_damage"]:
            raise DamagedError(f"damage was met: kseg verify tells where; {_GO_ON}")
    return 0


class _Reading:
    """Chunks of all segments of a run. Damage is refused, or counted and told."""

    def __init__(self, options: dict[str, Any], notices: Notices) -> None:
        self._options, self._notices = options, notices
        jobs = options["jobs"] or usable_cores()
        self._jobs = min(jobs, _MOST_ENCODERS if options["to"] == "parquet" else _MOST_DECODERS)
        self._left_out = 0
        self._path = ""

    def chunks(
        self,
        timestamp_scale: int,
        room: int = CHUNK_BYTES,
        become: Callable[[SegmentFile], Becoming[Any]] | None = None,
    ) -> Generator[tuple[SegmentFile, Any], None, None]:
        """With the segment that each comes from; ``room``: bytes of its keys and values, where they fit.

        ``become``: what takes the place of the chunks of a segment that is worth threads. To be closed before anything
        else is given up. Raises DamagedError.
        """
        scratch = Scratch(self._options["max_batch_bytes"])
        for path in self._options["paths"]:
            parts = expand_path(path)
            if parts != [path]:
                tell_passed_over(path, False, self._notices.warning)
            for part in parts:
                files = segments_at(part)
                tell_passed_over(part, not files, self._notices.warning)
                transactions = None
                if self._options["isolation"] == "read_committed":
                    transactions = Transactions.of_segments(files, scratch)
                for file in files:
                    chunks, wanted = Chunks(NAMES, timestamp_scale, room=room), Wanted(transactions=transactions)
                    for item in self._of(file, scratch, wanted, chunks, None if become is None else become(file)):
                        yield file, item

    def _of(
        self, file: SegmentFile, scratch: Scratch, wanted: Wanted, chunks: Chunks, become: Becoming[Any] | None
    ) -> Iterator[Any]:
        self._path = file.path
        with open_source(file.path) as source:
            jobs = self._jobs if is_worth_parts(source.size, self._jobs) else 1
            ahead_bytes = RUN_BYTES_AHEAD if become is None else _GROUPS_RUN_BYTES
            run_bytes = LONG_RUN_BYTES if jobs == 1 else ahead_bytes
            reader = SegmentReader(
                source, file.kind == ".kafka", file.base_offset or 0, scratch=scratch, run_bytes=run_bytes
            )
            columns = RecordColumns(reader, file, chunks, self._tell, wanted, jobs=jobs)
            yield from columns if jobs == 1 or become is None else columns.each(become, ahead_bytes)

    def _tell(self, left_out: LeftOut) -> None:
        place = f"{self._path}: {left_out.code} at position {left_out.position}, {left_out.length} bytes"
        if not self._options["skip_damage"]:
            raise DamagedError(f"{place}: {left_out.message}; {_GO_ON}")
        self._left_out += 1
        if self._left_out <= 20:
            self._notices.warning(f"{place} left out: {left_out.message}")

    def summarize(self) -> None:
        if self._left_out > 20:
            self._notices.warning(f"{self._left_out - 20} more damaged ranges are left out")


def _as_csv(reading: _Reading, sink: Sink) -> None:
    from kseg.output.csv_lines import FIRST_LINE, csv_lines

    sink.write(FIRST_LINE)
    with closing(reading.chunks(1)) as chunks:
        for file, chunk in chunks:
            sink.write_view(csv_lines(chunk, file.topic, file.partition))


def _as_table(reading: _Reading, sink: Sink, form: str, options: dict[str, Any]) -> None:
    from kseg.columns.arrow import record_batch, schema
    from kseg.columns.encoding import Encoded
    from kseg.columns.tables import PARQUET, TableWriter, encoders

    names = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
    codec = options["codec"]
    wanted, target = schema(names), None if codec is None else target_of(codec)
    level = target.level if target is not None and codec is not None and ":" in codec else None

    def batches(file: SegmentFile, chunks: Iterable[Chunk]) -> Iterator[Any]:
        topic = file.topic
        if topic is not None:
            topic = topic.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        for chunk in chunks:
            yield record_batch(chunk, wanted, {"topic": topic, "partition": file.partition})

    def groups(file: SegmentFile) -> Becoming[Encoded]:
        return lambda chunks: writer.encoded(batches(file, chunks))

    with (
        encoders(options["jobs"] or usable_cores()) as pipeline,
        closing(reading.chunks(1000, _CHUNK_BYTES[form], groups if form == PARQUET else None)) as found,
    ):
        writer = TableWriter(sink, form, wanted, None if target is None else target.name, level, pipeline)
        for file, item in found:
            if isinstance(item, Encoded):
                writer.put(item)
            else:
                for batch in batches(file, [item]):
                    writer.add(batch)
        writer.finish()
