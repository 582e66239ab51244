"""``kseg stats``: what the bytes of each partition are, its sizes and ages, and what another codec would save."""

import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from kseg.errors import refuse_if
from kseg.options import declaration
from kseg.options.declaration import CONTENTS, HTML, INPUT, JSON, OUTPUT, TEXT, Number, Value, option
from kseg.output.fleet_table import FLEET_WIDTH, MAX_SEPARATE_PARTITIONS, SUMMARY_FIELDS, fleet_table
from kseg.output.notices import Notices
from kseg.output.progress import progress_over
from kseg.output.sink import Sink
from kseg.output.summary import BacklogOf, SummaryPrinter
from kseg.output.terminal import Paint, line_width
from kseg.runtime.threads import usable_cores
from kseg.segment.files import Listing, SegmentFile
from kseg.segment.paths import partition_count
from kseg.stores.remote.keys import RemoteChoice
from kseg.stores.trees import VirtualFiles
from kseg.views.filters import Filters, Selection, without_snapshots
from kseg.views.walk import StoredSegmentWalk, WalkOptions, parts_of_path

if TYPE_CHECKING:
    from kseg.formats.compressing import Target
    from kseg.stores.remote.segment import RemotePartition


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
    offsets: tuple[int, int] | None = option(
        "--offsets", INPUT, "Only batches with offsets in A..B (inclusive).", declaration.OFFSETS
    )
    times: tuple[int, int] | None = option(
        "--time", INPUT, "Only batches with timestamps in FROM..TO, as -2h.. or yesterday.", declaration.TIME_RANGE
    )
    topics: tuple[str, ...] = declaration.topics("a log directory or remote storage")
    is_07: bool = declaration.format_of_07()
    private_keys: tuple[str, ...] = declaration.private_keys()
    now: int | None = declaration.now("Compute ages at TIME; default: the current time.")
    jobs: int | None = declaration.jobs()
    form: str = option(
        "--format", OUTPUT, "Form of the output; html: a page for people (needs kseg[report]).", (TEXT, JSON, HTML),
        default=TEXT, shows_default=True,
    )  # fmt: skip
    remote: RemoteChoice = field(default_factory=RemoteChoice)

    def check(self) -> None:
        """Raises RequestError for options that exclude each other."""
        refuse_if(bool(self.sample) and not self.what_if, "--sample is for --what-if")


class Stats(StoredSegmentWalk[StatsOptions]):
    """One run over all paths. Directories that a broker has moved or deleted are read too: they take space."""

    def __init__(self, sink: Sink, options: StatsOptions, notices: Notices | None = None) -> None:
        super().__init__(sink, options, notices)
        self.is_07, self.remote = options.is_07, options.remote
        paint, jobs = Paint(options.color, sink.is_terminal), options.jobs or usable_cores()
        self.printer: SummaryPrinter = SummaryPrinter(
            sink, self.scratch, as_json=options.form != TEXT, paint=paint, what_if=options.what_if,
            sample=options.sample, jobs=jobs, fleet=self._fleet_table(paint), backlog=self._backlogs(),
        )  # fmt: skip
        selection = Selection(options.offsets, options.times)
        self.filters = Filters(selection, self.scratch, self.notices, is_07=options.is_07)
        self._show_progress(progress_over(self._paths, options.quiet, parts_of=self.parts_of))

    def split_parts(self, path: str) -> tuple[list[str], list[str]]:
        return parts_of_path(path, self.options.topics, with_moved=True)

    def _begin_part(self, listing: Listing | None) -> None:
        self.printer.is_of_directory, self.printer.listing = listing is not None, listing

    def _begin_remote(self, partition: "RemotePartition", files: list[SegmentFile], tree: VirtualFiles) -> None:
        self.printer.is_of_directory, self.printer.listing = True, None

    def _files_of(self, path: str, listing: Listing | None) -> list[SegmentFile]:
        return without_snapshots(super()._files_of(path, listing))

    def _fleet_table(self, paint: Paint) -> Any:
        """Returns None if each partition has a summary of its own."""
        options = self.options
        if options.form != TEXT or options.what_if:
            return None
        if options.sort is None and partition_count(options.paths, self.parts_of) <= MAX_SEPARATE_PARTITIONS:
            return None
        width = line_width(self.sink, FLEET_WIDTH)
        return partial(fleet_table, sort=options.sort or "name", paint=paint, width=width)

    def _backlogs(self) -> BacklogOf:
        """Returns the function for backlogs of the log cleaner."""
        from kseg.cleaner.log import backlog_of

        now = int(time.time() * 1000) if self.options.now is None else self.options.now

        def backlog(partition: str, damaged: str) -> dict[str, Any] | None:
            found = backlog_of(partition, self.nodes.partition(partition).state, now, damaged)
            return None if found is None else found.as_object()

        return backlog
