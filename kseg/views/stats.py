"""``kseg stats``: what the bytes of each partition are, its sizes and ages, and what another codec would save."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from kseg.errors import refuse_if
from kseg.formats.json_values import name_value
from kseg.formats.rows import Scratch
from kseg.options import declaration
from kseg.options.declaration import CONTENTS, HTML, JSON, TEXT, Number, Value, option
from kseg.output.fleet_table import FLEET_WIDTH, MAX_SEPARATE_PARTITIONS, SUMMARY_FIELDS, fleet_table
from kseg.output.notices import Notices, Paint
from kseg.output.printer import Printer, Style
from kseg.output.sink import Sink
from kseg.output.summary import summary_lines, summary_panel, total_line
from kseg.output.terminal import line_width
from kseg.runtime.threads import usable_cores
from kseg.segment.files import OFFSETS_TOPIC, Listing, SegmentFile
from kseg.segment.items import Batch, Damage, Spans, all_rows
from kseg.segment.paths import all_bytes, each_once, partition_count
from kseg.segment.reader import Run, SegmentReader
from kseg.segment.recompression import Recompression, Saving
from kseg.segment.summary import LogSummary, Row
from kseg.stores.place import Place
from kseg.stores.remote.keys import RemoteChoice
from kseg.stores.trees import VirtualFiles
from kseg.views.filters import Filters, Selection, without_snapshots
from kseg.views.walk import SegmentWalk, WalkOptions

if TYPE_CHECKING:
    from kseg.formats.compressing import Target
    from kseg.stores.remote.segment import RemotePartition
    from kseg.views.groups import GroupSizes

_MAX_GROUPS = 100


@dataclass(frozen=True, slots=True)
class StatsOptions(WalkOptions):
    """The options of `kseg stats`, one field each; ``now`` is in ms since the epoch."""

    what_if: "tuple[Target, ...]" = option(
        "--what-if",
        CONTENTS,
        "Also the savings of recompression with CODEC, and its speed; may be repeated.",
        Value("CODEC[:LEVEL]", declaration.codec_target),
        is_many=True,
    )
    sample: int | None = option(
        "--sample",
        CONTENTS,
        "Compress about N random batches for --what-if instead of all; print the error of the estimate.",
        Number(1),
        metavar="N",
    )
    sort: str | None = option(
        "--sort",
        CONTENTS,
        "Print one line for each partition, the default for more than ten, and totals; sorted by FIELD: "
        f"{', '.join(SUMMARY_FIELDS)}.",
        SUMMARY_FIELDS,
        metavar="FIELD",
    )
    offsets: tuple[int, int] | None = declaration.offsets("Only batches with offsets in A..B (inclusive).")
    times: tuple[int, int] | None = declaration.times(
        "Only batches with timestamps in FROM..TO, as -2h.. or yesterday."
    )
    topics: tuple[str, ...] = declaration.topics("a log directory or remote storage")
    is_07: bool = declaration.format_of_07()
    private_keys: tuple[str, ...] = declaration.private_keys()
    now: int | None = declaration.now("Compute ages at TIME; default: the current time.")
    jobs: int | None = declaration.jobs()
    form: str = declaration.form(
        TEXT, JSON, HTML, text="Form of the output; html: a page for people (needs kseg[report])."
    )
    remote: RemoteChoice = field(default_factory=RemoteChoice)

    def check(self) -> None:
        """Raises RequestError for options that exclude each other."""
        refuse_if(bool(self.sample) and not self.what_if, "--sample is for --what-if")


class SummaryPrinter(Printer):
    """Counts its input and writes one summary for each directory; `close` writes the last one.

    ``sort``: one table of all summaries is sorted by this field; None: text for each. ``backlog``: returns the backlog
    of the log cleaner in a partition directory, as JSON; None if the partition is not compacted. The second argument
    names the damage that stops a cleaner, "" for none.
    """

    def __init__(
        self, sink: Sink, scratch: Scratch, options: StatsOptions, sort: str | None = None,
        backlog: Callable[[str, str], Row | None] = lambda *_: None,
    ) -> None:  # fmt: skip
        super().__init__(sink, Style(), scratch)
        self._as_json, self._paint = options.form != TEXT, Paint(options.color, sink.is_terminal)
        self._targets, self._sample, self._jobs = options.what_if, options.sample, options.jobs or usable_cores()
        self._sort, self._backlog = sort, backlog
        self._of_fleet: list[Row] = []
        self._damaged: tuple[str, str] | None = None
        """The first file with damage, and a few words on it."""
        self._directory: str | None = None
        self._paths: list[str] = []
        self._is_whole = False
        self._summary = LogSummary(scratch)
        self._recompressions: list[Recompression] = []
        self._savings: list[list[Saving]] = []
        """Those of each directory so far."""
        self._is_first = True
        self._groups: GroupSizes | None = None
        self._listing: Listing | None = None
        self.is_of_directory = False
        """Whether the next PATH is a directory: the summary then has its name, even for a single file."""
        self.listing: Listing | None = None
        """The entries of that directory, if it has been listed."""

    def begin(self, file: SegmentFile) -> None:
        directory = Place(file.path).parent
        is_another = directory != self._directory or self.is_of_directory != self._is_whole
        if self._directory is not None and is_another:
            self._end_directory()
        if self._directory is None:
            self._directory, self._damaged = directory, None
            self._summary = LogSummary(self.scratch)
            self._recompressions = [
                Recompression(target, self.scratch.max_batch_bytes, self._jobs, self._sample)
                for target in self._targets
            ]
        self._paths.append(file.path)
        self._is_whole, self._listing = self.is_of_directory, self.listing
        self._summary.add_file(0)
        if file.topic != OFFSETS_TOPIC:
            self._groups = None
        elif self._groups is None or is_another:
            from kseg.views.groups import GroupSizes  # few partitions need it

            self._groups = GroupSizes()

    def run(self, reader: SegmentReader, run: Run) -> None:
        problems = self._summary.problems.total()
        self._summary.bytes += run.end - run.position
        self._summary.add_run(reader, run)
        for i in range(run.count) if self._recompressions or self._groups is not None else ():
            self._add_to_others(reader.batch(run, i, keep=False))
        self._count_problems(problems)

    def batch(self, batch: Batch, spans: Spans = all_rows) -> None:
        """Counts the whole batch; ``spans`` is ignored."""
        problems = self._summary.problems.total()
        self._summary.bytes += batch.size
        self._summary.add_batch(batch)
        self._add_to_others(batch)
        self._count_problems(problems)

    def _add_to_others(self, batch: Batch) -> None:
        if self._groups is not None:
            self._groups.add(batch)
        for recompression in self._recompressions:
            recompression.add(batch)

    def _count_problems(self, before: int) -> None:
        found = self._summary.problems.total() - before
        self.errors += found
        if found and self._summary.problems["undecodable-records"]:
            self._keep_first_damage("undecodable-records")

    def damage(self, damage: Damage) -> None:
        self.errors += 1
        self._summary.bytes += damage.length
        self._summary.add_damage(damage)
        self._keep_first_damage(damage.code)

    def _keep_first_damage(self, code: str) -> None:
        if self._damaged is None:
            self._damaged = self._paths[-1], f"{code} in {os.path.basename(self._paths[-1])}"

    def close(self) -> None:
        """Writes the summary of everything since the last one, and the table of all."""
        self._end_directory()
        if len(self._savings) > 1 and not self._as_json:
            for line in ["", *map(total_line, zip(*self._savings, strict=True))]:
                self.sink.put(line)
            self.sink.flush()
        if self._sort is not None:
            table = fleet_table(self._of_fleet, self._sort, self._paint, line_width(self.sink, FLEET_WIDTH))
            self.sink.write(table.encode("utf-8", "surrogateescape"))
            self.sink.flush()

    def _end_directory(self) -> None:
        if self._directory is None:
            return
        savings = [recompression.finish() for recompression in self._recompressions]
        self._recompressions = []
        self._savings += [savings] * bool(savings)
        path = self._paths[0] if len(self._paths) == 1 and not self._is_whole else self._directory or "."
        found = {"type": "summary", "path": name_value(path), **self._summary.as_object()}
        if savings:
            found["whatIf"] = _saving_object(savings[0])
        if len(savings) > 1:
            found["whatIfs"] = [_saving_object(saving) for saving in savings]
        # Any damage stops a cleaner but that of the active segment, which it does not read.
        damaged, obstacle = self._damaged or ("", "")
        obstacle = obstacle if damaged != self._paths[-1] else ""
        found["cleaner"] = self._backlog(path, obstacle) if self._is_whole else None
        found["allBytes"] = None if self._listing is None else all_bytes(self._listing)
        found["groups"] = None if self._groups is None else self._groups.largest(_MAX_GROUPS)
        if self._as_json:
            self.sink.put_row(found)
        elif self._sort is not None:
            self._of_fleet.append(found)
        elif self.sink.is_terminal:
            self.sink.write(summary_panel(found, path, savings, self._paint).encode("utf-8", "surrogateescape"))
        else:
            between = [""] * (not self._is_first)
            for line in [*between, *summary_lines(found, path, savings, self._paint)]:
                self.sink.put(line)
        self.sink.flush()
        self._is_first = False
        self._directory, self._paths = None, []


def _saving_object(saving: Saving) -> Row:
    speed = saving.megabytes_per_second
    return {
        "compression": saving.target.name, "level": saving.target.level, "batches": saving.batches,
        "sampledBatches": saving.sampled, "bytesBefore": saving.before, "bytesAfter": saving.after,
        "bytesSaved": saving.before - saving.after, "isExact": saving.is_exact, "error": saving.error,
        "bytesUntouched": saving.untouched, "megabytesPerSecond": None if speed is None else round(speed, 1),
    }  # fmt: skip


class Stats(SegmentWalk[StatsOptions]):
    """One run over all paths. Directories that a broker has moved or deleted are read too: they take space."""

    def __init__(self, sink: Sink, options: StatsOptions, notices: Notices | None = None) -> None:
        super().__init__(sink, options, notices)
        self._paths = each_once(self._paths)
        self.is_07, self.remote = options.is_07, options.remote
        self.printer = SummaryPrinter(sink, self.scratch, options, self._sort(), self._backlog)
        selection = Selection(options.offsets, options.times)
        self.filters = Filters(selection, self.scratch, self.notices, is_07=options.is_07)
        self._show_progress(options.quiet)

    def split_parts(self, path: str) -> tuple[list[str], list[str]]:
        return self.parts_of_topics(path, self.options.topics, with_moved=True)

    def _begin_part(self, listing: Listing | None) -> None:
        self.printer.is_of_directory, self.printer.listing = listing is not None, listing

    def _begin_remote(self, partition: "RemotePartition", files: list[SegmentFile], tree: VirtualFiles) -> None:
        self.printer.is_of_directory, self.printer.listing = True, None

    def _files_of(self, path: str, listing: Listing | None) -> list[SegmentFile]:
        return without_snapshots(super()._files_of(path, listing))

    def _sort(self) -> str | None:
        """Returns the field that sorts one table of all partitions, None if each has a summary of its own."""
        options = self.options
        if options.form != TEXT or options.what_if:
            return None
        if options.sort is None and partition_count(self._paths, self.parts_of) <= MAX_SEPARATE_PARTITIONS:
            return None
        return options.sort or "name"

    @cached_property
    def _now(self) -> int:
        return int(time.time() * 1000) if self.options.now is None else self.options.now

    def _backlog(self, partition: str, damaged: str) -> Row | None:
        from kseg.cleaner.log import backlog_of

        found = backlog_of(partition, self.nodes.partition(partition).state, self._now, damaged)
        return None if found is None else found.as_object()
