"""Checks one partition, or some of its files: each segment is read once for all rules.

`PartitionCheck` and `CheckedSegment` are the context of the rules.
"""

import stat
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from kseg.errors import KsegError, PathError, text_of
from kseg.formats.suffixes import DELETED, INDEX, LOG, SIDE_SUFFIXES, TIME_INDEX
from kseg.limits import MAX_BATCH_BYTES, MAX_SEGMENT_BYTES
from kseg.node.log_directory import BrokerState
from kseg.node.server_properties import ServerProperties
from kseg.releases.release import Era
from kseg.segment.files import PARTITION_FILES, Listing, SegmentFile, directory_name, segment_stem
from kseg.segment.items import Damage
from kseg.segment.paths import packing_of, read_head, some
from kseg.segment.survey import BatchProblem, HeaderRows, open_survey
from kseg.stores.place import LINK_REFUSAL, Place
from kseg.stores.remote.keys import RemoteChoice
from kseg.stores.source import Source, open_source
from kseg.stores.windows import Buffers
from kseg.verification.report import Report

if TYPE_CHECKING:
    from kseg.changes.accepted_gaps import AcceptedGaps
    from kseg.verification.gaps import Outlook


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """``level``: QUICK, FULL or DEEP of `kseg.segment.survey`; ``now_ms``: the current time, in ms since the epoch;
    ``era``: the release whose start is judged; ``server``: the broker's own settings; ``takes_census``: `Totals` gets
    ``partitions``; ``may_fork``: whether worker processes may be started.
    """

    level: int
    now_ms: int
    jobs: int = 1
    max_batch_bytes: int = MAX_BATCH_BYTES
    is_live: bool = False
    era: Era = field(default_factory=Era)
    remote: RemoteChoice = field(default_factory=RemoteChoice)
    server: ServerProperties | None = None
    takes_census: bool = False
    may_fork: bool = True


class Rule:
    """Base of the rules, which receive a partition's segments in order and report findings. All methods are optional;
    state is kept from segment to segment.

    `kseg.verification.rules` tells which rules are only for whole partitions: these have a ``directory``.
    """

    def __init__(self, partition: "PartitionCheck") -> None:
        self.partition = partition
        self.report = partition.report

    def begin(self, segment: "CheckedSegment") -> None:
        """Called before the items of a segment."""

    def headers(self, segment: "CheckedSegment", headers: HeaderRows) -> None:
        """Called for batches, in the order of the file. The rows are overwritten after the call."""

    def damage(self, segment: "CheckedSegment", damage: Damage) -> None:
        """Called for bytes that belong to no batch."""

    def problem(self, segment: "CheckedSegment", problem: BatchProblem) -> None:
        """Called for a problem in a batch's records, after `headers` of that batch."""

    def unread(self, segment: "CheckedSegment") -> None:
        """Called instead of `begin` to `end` for a segment that cannot be opened."""

    def end(self, segment: "CheckedSegment") -> None:
        """Called after the items of a segment; `CheckedSegment` has its totals."""

    def finish(self) -> None:
        """Called after all segments."""


class FinalCheck(Rule):
    """A check that needs only the results of the rules before it, or other files of the partition."""

    def __init__(self, partition: "PartitionCheck", judge: "Callable[[PartitionCheck], None]") -> None:
        super().__init__(partition)
        self._judge = judge

    def finish(self) -> None:
        self._judge(self.partition)


def packed(source: Source) -> str | None:
    """Returns how a file that is not checked is compressed; None if it is not compressed. Raises PathError."""
    packing = packing_of(read_head(source))
    if packing is None:
        return None
    return f"packed with {packing}, and not judged: give its own path, of a copy outside of any other archive"


def add_unread(path: str, report: Report, error: BaseException | None = None) -> None:
    """Reports a path that could not be opened as a file. ``error``: the reason, whose message may begin with the path;
    without it, `why_no_file` finds the reason."""
    reason = why_no_file(path) if error is None else text_of(error).removeprefix(f"{path}: ")
    report.add("unreadable-file", path, reason, details={"reason": reason})
    report.totals.not_judged += 1


def why_no_file(path: str) -> str:
    """Returns why a path cannot be read as a file."""
    try:
        mode = Place(path).status().st_mode
        if Place(path).is_link():
            return LINK_REFUSAL
    except FileNotFoundError:
        return "a link that leads nowhere"
    except OSError as error:
        return error.strerror or str(error)
    for is_kind, name in (
        (stat.S_ISDIR, "a directory"), (stat.S_ISFIFO, "a FIFO"), (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"),
    ):  # fmt: skip
        if is_kind(mode):
            return f"{name}, not a file"
    return "not a regular file"


_OF_CONFLUENT = (".tierstate", ".tierstate.mutable", ".checksum", ".checksums", ".adler")
"""Suffixes of files of tiered storage and of checksums that Confluent Server writes."""


def unknown_text(names: list[str]) -> str:
    """Returns a sentence on files that Kafka's brokers do not know, by who has made them."""
    makers = {
        "deleted, but still open over NFS": [name for name in names if name.startswith(".nfs")],
        "of Confluent Server": [name for name in names if name.endswith(_OF_CONFLUENT)],
    }
    known = {name for some_names in makers.values() for name in some_names}
    makers["that no broker knows"] = [name for name in names if name not in known]
    return "; ".join(f"files {who}: {some(found)}" for who, found in makers.items() if found)


def add_archive(place: Place, report: Report) -> None:
    """Reports damage to an archive or compressed file itself."""
    for problem in () if place.tree is None else place.tree.problems:
        report.add(problem.code, place, problem.message, problem.position)
        report.totals.not_judged += problem.is_unread


@dataclass(slots=True)
class CheckedSegment:
    """A .log or .kafka file that is checked. Totals are those of the items so far; an offset is -1 if there is none
    yet.

    ``end``: position after the last batch, intact or not; ``base_behind``: base offset of the next segment, None if
    there is none; ``is_unread``: the file could not be opened.
    """

    file: SegmentFile
    size: int
    is_last: bool
    source: Source | None = None
    base_behind: int | None = None
    batches: int = 0
    records: int = 0
    first_offset: int = -1
    last_offset: int = -1
    least_timestamp: int = -1
    largest_timestamp: int = -1
    magics: tuple[int, int, int] = (0, 0, 0)
    end: int = 0
    is_damaged: bool = False
    is_unread: bool = False
    path: str = field(init=False)
    base_offset: int | None = field(init=False)

    def __post_init__(self) -> None:
        self.path, self.base_offset = self.file.path, self.file.base_offset

    @property
    def next_offset(self) -> int | None:
        """The offset after the last batch; the base offset if there is none."""
        return self.last_offset + 1 if self.last_offset >= 0 else self.base_offset

    def has_grown(self) -> bool:
        """Whether the file has grown since it was opened, which was before its side files were read."""
        try:
            return Place(self.path).status().st_size > self.size
        except OSError:
            return False  # the file was removed; the findings are about its earlier content

    def beside(self, suffix: str) -> str:
        """Returns the path of the segment's file with another suffix, and the same leftover suffix."""
        leftover = self.file.leftover
        return Place(self.file.path).with_ending(self.file.kind + leftover, suffix + leftover)


class LogSpan(NamedTuple):
    """Log start and end offset, the number of records in the segments, and where the first leader epoch of
    leader-epoch-checkpoint begins; None if they were not counted or read."""

    start: int
    end: int
    records: int | None = None
    first_epoch: int | None = None


@dataclass
class PartitionCheck:
    """The context of the rules for files of a partition. ``directory`` is None for a stream; ``is_whole`` is false if
    only some files were named. ``broker``: the state recorded in the log directory; all unknown if there is none.
    """

    directory: str | None
    topic: str | None
    number: int | None
    is_whole: bool
    settings: CheckSettings
    report: Report
    broker: BrokerState
    buffers: Buffers
    listed: frozenset[str] | None = None
    """The regular files in ``directory`` at the start of the check, if they were listed."""
    listing: Listing | None = None
    """Its entries, if all of it is checked."""
    segments: list[CheckedSegment] = field(default_factory=list)
    topic_id: str | None = None
    """The topic id in partition.metadata, once `kseg.verification.metadata` has read it."""
    first_epoch: int | None = None
    """Where the first leader epoch begins, once `EpochRule` has read it."""
    holds_gaps: bool = False
    """Whether the cleaner left gaps, in batches or between them."""
    first_open_offset: int | None = None
    """Where the oldest open transaction begins, once `ProducerRule` has ended."""
    cleaner_obstacle: str = ""
    """The damage that stops the log cleaner, once `CleanerRule` has found it."""
    held_elsewhere: list[tuple[str, int, int]] = field(default_factory=list)
    """Names of files, and the first and last offset of each gap that a salvage fills from them."""
    are_closed: bool = False
    """Whether no broker appends to the segments any more, even to the last."""
    outlook: "Outlook | None" = None
    """What a salvage restores; `kseg.verification.gaps` computes it if it is needed."""

    @property
    def name(self) -> str:
        return self.directory or "-"

    @property
    def own_name(self) -> str:
        """The base name of ``directory``."""
        return directory_name(self.directory or "")

    @property
    def others(self) -> Collection[str]:
        """The names in the directory that are not of regular files, if all of it is checked."""
        return () if self.listing is None else self.listing.others

    def path(self, name: str) -> Place:
        """Returns the path of a file in the directory."""
        return Place(self.directory or "") / name

    @property
    def extent(self) -> LogSpan | None:
        """The extent of the log, after all segments were read; None if there are none or the last is unread."""
        if not self.segments or self.segments[-1].is_unread or self.segments[-1].next_offset is None:
            return None
        start = max(self.segments[0].base_offset or 0, self.broker.log_start_offset or 0)
        records = sum(segment.records for segment in self.segments)
        return LogSpan(start, self.segments[-1].next_offset, records, self.first_epoch)

    @property
    def names(self) -> frozenset[str]:
        """Names of the files in the directory, listed once; none for a stream."""
        if self.listed is None:
            try:
                self.listed = frozenset(Place(self.directory).names() if self.directory else ())
            except OSError:
                self.listed = frozenset()  # removed after its segments were listed; these report it
        return self.listed

    @cached_property
    def endings(self) -> frozenset[str]:
        """The names in the directory from their first dot on: few, however many files there are."""
        return frozenset([name.partition(".")[2] for name in self.names])

    @cached_property
    def odd_names(self) -> frozenset[str]:
        """Names in the directory that are neither regular names of its segments and indexes, nor files that each
        partition has. Valid when all segments were read."""
        stems = [segment_stem(segment.file.base_offset or 0) for segment in self.segments]
        usual = [stem + suffix for stem in stems if stem + LOG in self.names for suffix in (LOG, INDEX, TIME_INDEX)]
        return self.names.difference(usual, PARTITION_FILES)

    @cached_property
    def accepted_gaps(self) -> "AcceptedGaps | None":
        """The gaps that were accepted with an earlier salvage, conversion or erasure, if they can be read."""
        from kseg.changes.accepted_gaps import accepted_gaps  # few partitions have gaps

        try:
            return accepted_gaps(self.directory) if self.directory is not None else None
        except KsegError:
            return None  # such errors are reported where changes are checked

    @property
    def is_bare(self) -> bool:
        """Whether there are only segments, outside of a log directory: a copy, in which no side file counts as
        missing."""
        return not self.broker.is_known and not any(
            "." + ending.removesuffix(DELETED).rpartition(".")[2] in SIDE_SUFFIXES for ending in self.endings
        )

    @property
    def is_compacted(self) -> bool:
        """Whether the log is compacted, by its policy, the cleaner's checkpoint, or gaps that the cleaner left."""
        return bool(self.broker.is_compacted) or self.broker.cleaner_offset is not None or self.holds_gaps


def partition_for_file(partition: PartitionCheck, listed: frozenset[str] | None = None) -> PartitionCheck:
    """Returns a context for one file of a partition. ``listed``: the names of other files to consider."""
    return PartitionCheck(
        partition.directory, partition.topic, partition.number, False, replace(partition.settings, is_live=False),
        partition.report, partition.broker, partition.buffers, listed, holds_gaps=partition.holds_gaps,
    )  # fmt: skip


def judge_segments(partition: PartitionCheck, files: Iterable[SegmentFile], rules: list[Rule]) -> None:
    """Applies the rules to the segments. A segment that cannot be opened is reported for a whole partition; otherwise
    PathError is raised."""
    files = list(files)
    for file, behind in zip_longest(files, files[1:]):
        segment = CheckedSegment(file, 0, behind is None, None, behind and behind.base_offset)
        partition.segments.append(segment)
        try:
            if file.name in partition.others:
                raise PathError(f"{file.path}: {why_no_file(file.path)}")
            source = open_source(file.path)
        except PathError as error:
            if not partition.is_whole:
                raise
            segment.is_unread = segment.is_damaged = True
            add_unread(file.path, partition.report, error)
            if not Place(file.path).is_link() and file.name not in partition.others:
                partition.report.failures.append(str(error))  # another user may be able to read it
        else:
            with source:
                segment.size, segment.source = source.size, source
                _judge(partition, segment, source, rules)
                segment.source = None
            continue
        for rule in rules:
            rule.unread(segment)
    for rule in rules:
        rule.finish()


def _judge(partition: PartitionCheck, segment: CheckedSegment, source: Source, rules: list[Rule]) -> None:
    settings = partition.settings
    survey = open_survey(
        segment.file, settings.level, partition.buffers, settings.jobs, source=source,
        base_offset=segment.base_offset, live=settings.is_live and segment.is_last,
    )  # fmt: skip
    for rule in rules:
        rule.begin(segment)
    reported = 0
    for item in survey:
        if isinstance(item, HeaderRows):
            for rule in rules:
                rule.headers(segment, item)
        elif isinstance(item, Damage):
            segment.is_damaged = True
            if item.position == 0 and item.end == survey.reader.end and (text := packed(source)) is not None:
                partition.report.totals.not_judged += 1
                item = item._replace(code="packed-segment", message=text)
            for rule in rules:
                rule.damage(segment, item)
        elif isinstance(item, BatchProblem):
            for rule in rules:
                rule.problem(segment, item)
        partition.report.advance(segment.end - reported)
        reported = segment.end
    for rule in rules:
        rule.end(segment)
    partition.report.advance(segment.size - reported)
    if segment.size > MAX_SEGMENT_BYTES and segment.file.kind == LOG:
        partition.report.add("segment-too-large", segment.path, f"{segment.size} bytes")
    totals = partition.report.totals
    totals.files += 1
    totals.bytes += segment.size
    totals.batches += segment.batches
    totals.records += segment.records
    if source.current_size() < source.size:
        partition.report.add("file-shrank", segment.path, f"it had {source.size} bytes, now {source.current_size()}")
