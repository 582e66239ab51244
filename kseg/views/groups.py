"""``kseg groups``: what __consumer_offsets and __share_group_state tell of consumer and share groups."""

from dataclasses import dataclass

from kseg.errors import UnsupportedError
from kseg.options import declaration
from kseg.options.declaration import CONTENTS, INPUT, JSON, OUTPUT, TABLE, TEXT, option
from kseg.output.groups import CommittedOffsetsPrinter, GroupSizesPrinter
from kseg.output.notices import Notices
from kseg.output.progress import progress_over
from kseg.output.sink import Sink
from kseg.output.terminal import Paint, line_width
from kseg.segment.files import OFFSETS_TOPIC, SegmentFile, parse_partition_name
from kseg.segment.paths import live_parts
from kseg.stores.place import Place
from kseg.views.filters import Filters, Selection
from kseg.views.walk import SegmentWalk, WalkOptions

PIPED_WIDTH = 120


@dataclass(frozen=True, slots=True)
class GroupsOptions(WalkOptions):
    """The options of `kseg groups`, one field each; ``now`` is in ms since the epoch."""

    by_size: bool = option(
        "--by-size", CONTENTS, "List the records and bytes of each group, the largest first, instead of offsets.", bool
    )
    offsets: tuple[int, int] | None = option(
        "--offsets", INPUT, "By the records with offsets in A..B (inclusive), as ..1200 for what was committed then.",
        declaration.OFFSETS,
    )  # fmt: skip
    times: tuple[int, int] | None = option(
        "--time", INPUT, "By the records with timestamps in FROM..TO, as ..-2h.", declaration.TIME_RANGE
    )
    now: int | None = declaration.now("Compute ages at TIME; default: the newest timestamp.")
    form: str = option(
        "--format", OUTPUT, "Form of the output; text is a table.", (TEXT, TABLE, JSON), default=TEXT,
        shows_default=True,
    )  # fmt: skip


class Groups(SegmentWalk[GroupsOptions]):
    """One run over all paths: all partitions of __consumer_offsets make one list."""

    printer: CommittedOffsetsPrinter | GroupSizesPrinter

    def __init__(self, sink: Sink, options: GroupsOptions, notices: Notices | None = None) -> None:
        super().__init__(sink, options, notices)
        as_json, paint = options.form == JSON, Paint(options.color, sink.is_terminal)
        width = line_width(sink, PIPED_WIDTH)
        if options.by_size:
            self.printer = GroupSizesPrinter(sink, self.scratch, as_json=as_json, paint=paint, width=width)
        else:
            self.printer = CommittedOffsetsPrinter(
                sink, self.scratch, as_json=as_json, warn=self.notices.warning, paint=paint, width=width,
                now=options.now,
            )  # fmt: skip
        self.filters = Filters(Selection(options.offsets, options.times), self.scratch, self.notices)
        self._show_progress(progress_over(self._paths, options.quiet, parts_of=self.parts_of))

    def split_parts(self, path: str) -> tuple[list[str], list[str]]:
        parts, moved = live_parts(path)
        if parts == [path]:
            return parts, moved
        places = ((part, parse_partition_name(Place(part).name)) for part in parts)
        return [part for part, place in places if place is not None and place[0] == OFFSETS_TOPIC], []

    def _log_directory(self, path: str) -> None:
        for directory in self.nodes.at(path).directories:
            self.printer.add_directory(directory.path)

    def _file(self, file: SegmentFile, live: bool) -> None:
        if self.options.by_size and file.topic not in (OFFSETS_TOPIC, None):
            raise UnsupportedError(f"{file.path}: is not of {OFFSETS_TOPIC}")
        super()._file(file, live)

    def _end(self) -> None:
        if not self.printer.files and not self.status:
            self._failed(f"no PATH holds a partition of {OFFSETS_TOPIC}", 3)
        super()._end()
