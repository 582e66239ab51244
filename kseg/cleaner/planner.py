"""Compacts a partition: runs cleaning rounds until the log is clean, and plans the replacement of its segments.

Files are replaced in the order of the broker's own swap (LocalLog.replaceSegments), so that a broker started halfway
completes it: new files are added as .swap, the .log first; the old files are deleted; the new files are renamed.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import NamedTuple

from kseg.changes.apply import MARGIN_BYTES, free_bytes
from kseg.changes.disk_space import BLOCK_BYTES, record_bytes_of
from kseg.changes.driver.command import ChangeOptions, Planner, Progress, Reporter
from kseg.changes.journal import Known, TopicPartition, checkpoint_entries, topic_partition_of
from kseg.changes.plan import Plan
from kseg.changes.quarantine import Staging, staging
from kseg.cleaner import log
from kseg.cleaner.rounds import CleanedGroup, Round, memory_for
from kseg.cleaner.settings import TOPIC_NAMES, CleanerSettings, CompactOptions, default_memory_bytes, settings_for
from kseg.errors import (
    KsegError,
    RequestError,
    StoppedHalfwayError,
    UnsupportedError,
    errors_at,
    is_system_error,
    text_of,
)
from kseg.formats.json_values import name_value
from kseg.formats.suffixes import LOG, SEGMENT_SUFFIXES, SNAPSHOT, SWAP
from kseg.kernel.layout.headers import ENTRY_MAGIC, MAGIC_V2
from kseg.node.index_interval import TopicIntervals
from kseg.node.log_directory import METADATA_PARTITION, BrokerState
from kseg.node.node import POLICY, Policy
from kseg.node.server_properties import DEFAULT, DEFAULTS, SERVER
from kseg.node.topics import MOVED, Topics, warn_left_alone
from kseg.quantities import plural, shell_line, shown_bytes
from kseg.releases.release import RANGE_END, CleanerRules
from kseg.runtime.threads import usable_cores
from kseg.segment.files import own_partitions, segment_stem
from kseg.sidefiles.checkpoints import CLEANER_OFFSETS, HIGH_WATERMARKS, LOG_STARTS, build_offset_checkpoint
from kseg.stores.place import Place
from kseg.stores.windows import Buffers

_LEGACY_GROWTH, _GROWTH = 3, 1.25
"""A v0 message of 26 bytes becomes a v2 batch of 68 bytes or more; delete horizons lengthen record timestamps."""


_FILES = 4
"""Number of files of a new segment, at most."""


def margin_of(files: int, steps: int) -> int:
    """Returns the space for the record of a change with so many new files and steps, and for the ends and folders of
    the files before it begins."""
    return max(MARGIN_BYTES, record_bytes_of(files, steps) + (files + 2) * BLOCK_BYTES)


class SpaceTaken:
    """Tracks the disk space used beyond the partition's own.

    ``frees_each``: the old files of a group are removed before the next group is written. ``peak``: the largest use, in
    bytes; ``replaced``: bytes of the old files that have been replaced. ``margin``: for the record of the largest
    change, and block ends.
    """

    def __init__(self, frees_each: bool) -> None:
        self._frees_each = frees_each
        self._now = self.peak = self.replaced = self._files = self._steps = 0
        self.margin = MARGIN_BYTES

    def add(self, group: CleanedGroup) -> None:
        """Adds the new files of a group; those of an identical copy are removed again at once."""
        size = file_bytes(group.segment)
        self.peak = max(self.peak, self._now + size)
        if not group.is_copy:
            self._now += size
            before = sum(map(file_bytes, group.sources))
            self.replaced += before
            files = len(group.segment.sizes)
            self._files = files + (0 if self._frees_each else self._files)
            steps = 2 * files + sum(len(source.sizes) for source in group.sources)
            self._steps = steps + (0 if self._frees_each else self._steps)
            self.margin = max(self.margin, margin_of(self._files, self._steps))
            if self._frees_each:
                self._now -= before

    @property
    def needed(self) -> "Needed":
        return Needed(self.peak, self.replaced, self.margin)

    def subtract(self, segments: Iterable[log.CleanerSegment]) -> None:
        """Subtracts the new files of an earlier round, which a later round has replaced."""
        self._now -= sum(map(file_bytes, segments))


def file_bytes(segment: log.CleanerSegment) -> int:
    """Returns the size of all of a segment's files."""
    return sum(segment.sizes.values())


def bound(segments: Sequence[log.CleanerSegment], end: int, settings: CleanerSettings, frees_each: bool) -> "Needed":
    """Returns upper bounds without reading records: all records survive and grow by the maximum.

    ``end``: the end of the dirty range; ``frees_each``: see `SpaceTaken`.
    """
    groups = log.group_segments(segments, end, settings)
    sizes = [sum(map(file_bytes, group)) for group in groups]
    counts = [2 * _FILES + sum(len(segment.sizes) for segment in group) for group in groups]
    steps, count = (max(counts, default=0), 1) if frees_each else (sum(counts), len(groups))
    total, largest = sum(sizes), max(sizes, default=0)
    here = largest if frees_each else total
    if settings.until_clean and not frees_each:
        here += largest  # the next round begins before the files of the previous one are removed
    grows = False
    for segment in () if settings.keeps_format else segments:
        with Place(segment.path).open() as stream:
            head = stream.read(ENTRY_MAGIC + 1)
        if grows := len(head) > ENTRY_MAGIC and head[ENTRY_MAGIC] < MAGIC_V2:
            break
    here = round(here * (_LEGACY_GROWTH if grows else _GROWTH))
    return Needed(here, total, margin_of(count * _FILES, steps))


class Needed(NamedTuple):
    """The bytes of new files ``here``, and of old ones that are kept ``elsewhere``; ``margin``: as in `SpaceTaken`."""

    here: int
    elsewhere: int
    margin: int


_WARNING_SHARE = 4
"""The need is a warning from a quarter of the free space on, and a detail below."""


class SpaceCheck:
    """Checks, before a compaction writes its first byte, whether the disk space is enough, and reports the need: an
    upper bound from file sizes, or exact by a pass without writing.

    New files are written before old ones are removed. If hard links keep the old files, no space is freed and all new
    files must fit at once. If each new segment is committed by itself and the old files are removed for good, space for
    one new segment is enough.

    ``commits_each``: each new segment is committed by itself, because the old files leave the file system then."""

    def __init__(self, directory: str, change: ChangeOptions, reporter: Reporter) -> None:
        self._directory, self._change, self._reporter = directory, change, reporter
        keeping = change.keeping
        self._kept_in = keeping.place() if keeping.is_on_another_disk_than(directory) else None
        self.commits_each = change.output is None and (not keeping.keeps or self._kept_in is not None)

    def has_space(self, needed: Needed, each: Needed | None = None) -> bool:
        """Whether the space is enough. ``each``: the need if each new segment is committed by itself, None unless a
        pass over the log has counted both. Raises KsegError if it has, and the space is not enough."""
        free, here = free_bytes(self._change.output or self._directory), needed.here
        lack, is_counted = self.lack(needed, free), each is not None
        if lack and each is not None:
            fits_each = each.here + each.margin <= free
            raise self._refusal(f"{self._directory}: {lack}; nothing was changed", fits_each)
        if lack:
            self._reporter.warning(f"{self._directory}: {lack}: the surviving records are counted first")
            return False
        line = f"{self._directory}: new files may take {shown_bytes(here)}, {shown_bytes(free)} are free"
        if is_counted or here * _WARNING_SHARE > free:
            self._reporter.warning(line)
        else:
            self._reporter.detail(line)
        return True

    def lack(self, needed: Needed, free: int) -> str:
        """Returns why the space is not enough, "" if it is."""
        here, elsewhere, margin = needed
        if here + margin > free:
            lack = f"{here + margin - free} bytes have to be freed first"
            return f"new files may take {here} bytes, {free} bytes are free: {lack}"
        if self._kept_in is not None:
            free = free_bytes(self._kept_in)
            if elsewhere + margin > free:
                return f"{elsewhere} bytes of old files are to be kept in {self._kept_in}, where {free} bytes are free"
        return ""

    def _refusal(self, text: str, fits_each: bool) -> KsegError:
        """Returns the error with what helps. ``fits_each``: whether there is space for one new segment at a time."""
        if self._change.output is not None:
            return KsegError(text)
        if fits_each and not self.commits_each:
            text += "; with --quarantine on another disk, or without kept bytes, space for one segment is enough"
            if (arguments := self._change.arguments) is not None:
                return KsegError.with_command(f"{text}:", shell_line(["kseg", *arguments, "--no-quarantine"]))
            return KsegError(text)
        frees = "kseg retain --no-quarantine and kseg undo --purge free space and need none"
        return KsegError(f"{text}; {frees}, and --output DIR on another disk needs no space here")


@dataclass(slots=True)
class Compaction:
    """The result of a compaction or dry run. ``end``: the new cleaner checkpoint, None if unchanged.

    ``groups``: the groups cleaned in all rounds; ``found``: the dirty range of the first round; ``later``: the JSON of
    the rounds that a dry run only surveys: their offset maps are built, but nothing is cleaned; ``is_whole``: whether
    the last round took the whole dirty range; ``taken``: the disk space that new files took; ``horizons``: as of
    `CleanedGroup`, after the last round.
    """

    directory: str
    taken: SpaceTaken
    found: log.CleanableRange | None = None
    end: int | None = None
    rounds: int = 0
    keys: int = 0
    horizons: Counter[int] = field(default_factory=Counter)
    groups: list[CleanedGroup] = field(default_factory=list)
    later: list[dict[str, int]] = field(default_factory=list)
    is_whole: bool = True
    bytes_before: int = 0
    bytes_after: int = 0

    @property
    def counts(self) -> Counter[str]:
        """The counts of all rounds together."""
        return sum((group.counts for group in self.groups), Counter[str]())


RoundMaker = Callable[..., Round]
"""Makes a round from the arguments of `Round`."""


@dataclass(slots=True)
class Compactor:
    """Compacts one partition. ``known``: the offsets of the partition's checkpoints.

    ``commits_each``: one plan per new segment, so that disk space for one is enough. ``has_space`` (`SpaceCheck`) is
    called before the first write, with an estimate of the disk space. If it returns False, the space is computed by a
    pass without writing, and it is called again. ``rounds`` makes the rounds. ``writes_ahead``: the rounds write all
    new segments before the first is committed.
    """

    directory: str
    known: BrokerState
    settings: CleanerSettings
    staging: Staging | None
    commits_each: bool = False
    watcher: Progress | None = None
    has_space: Callable[[Needed, Needed | None], bool] = lambda *_: True
    rounds: RoundMaker = Round
    writes_ahead: bool = False
    result: Compaction = field(init=False)
    _segments: list[log.CleanerSegment] = field(init=False, default_factory=list)
    _has_committed: bool = field(init=False, default=False)
    _large: log.LargeRecord | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.result = Compaction(self.directory, SpaceTaken(self._frees_each))

    @property
    def _frees_each(self) -> bool:
        return self.commits_each and not self.writes_ahead

    def plans(self) -> Iterator[Plan]:
        """Yields plans; apply each before taking the next. Raises DamagedError, KsegError, OSError."""
        result, settings, now_ms = self.result, self.settings, self.settings.now_ms
        original = self._segments = log.read_segments(self.directory)
        result.bytes_before = result.bytes_after = sum(segment.size for segment in original)
        if not original:
            return
        buffers = Buffers()
        producers = log.read_producers(self.directory, original, now_ms, settings.producer_expiration_ms, buffers)
        known = self.known
        while True:
            found = log.cleanable_range(self._segments, known, producers, settings)
            result.found = result.found or found
            if not (found.is_due or (result.rounds and found.dirty_bytes and found.end > found.start)):
                break
            if not result.rounds and self._is_uncleanable(found, buffers):
                break
            if not result.rounds and self.staging is not None:
                self._check_space(found, producers)
            for group in self._round(found, producers):
                if self.commits_each:
                    yield self._plan([group])
                    self._has_committed = True
                    if self.staging is not None and group.segment.paths:  # its files are in the partition now
                        self.staging.remove(Place(group.segment.path).parent)
                        stem = Place(self.directory) / segment_stem(group.segment.base_offset)
                        group.segment.paths = {suffix: stem + suffix for suffix in group.segment.paths}
            known = known._replace(cleaner_offset=result.end)
            if result.is_whole or not settings.until_clean or self.staging is None or self._large:
                break
        result.bytes_after = sum(segment.size for segment in self._segments)
        if self.staging is None:
            result.bytes_after = result.bytes_before + sum(
                group.segment.size - group.bytes_before for group in result.groups
            )
            if settings.until_clean and not self._large and result.found is not None and not result.is_whole:
                self._survey(result.found, producers)
        if not self.commits_each and result.groups:
            yield self._plan(self._final_groups(original))

    def _is_uncleanable(self, found: log.CleanableRange, buffers: Buffers) -> bool:
        """Whether a too large record ends a round before its first segment; the checkpoint is then its start."""
        limit_bytes = self.settings.record_limit_bytes
        if limit_bytes is None or not (large := log.large_record(self._segments, found, limit_bytes, buffers)):
            return False
        text = (
            f"a record of {large.size} bytes in the batch that ends at offset {large.last_offset} is above "
            f"max.decompressed.message.bytes {limit_bytes}: brokers give up cleaning this partition"
        )
        found.stops.append(log.Stop(log.RECORD_SIZE, f"record above {limit_bytes} bytes", text))
        self._large, self.result.end = large, found.start
        return large.is_dirty

    def _check_space(self, found: log.CleanableRange, producers: log.Producers) -> None:
        settings, frees_each = self.settings, self._frees_each
        covered = log.segments_between(self._segments, 0, found.end)
        if self.has_space(bound(covered, found.end, settings, frees_each), None):
            return
        # Counts the need by a pass without writing.
        one = self.rounds(self._segments, found, producers, settings, None, self.watcher)
        taken, by_segment, largest = SpaceTaken(frees_each), SpaceTaken(True), 0
        for group in one.groups():
            taken.add(group)
            by_segment.add(group)
            largest = max(largest, file_bytes(group.segment))
        counted = [taken.needed, by_segment.needed]
        if settings.until_clean and not one.is_whole:  # the files of later rounds are not counted
            rest = [file_bytes(segment) for segment in log.segments_between(self._segments, one.end, found.end)]
            more = [max(rest) if frees_each else sum(rest) + max(largest, *rest), max(rest)]
            counted = [
                need._replace(here=round(need.here + each * _GROWTH), elsewhere=need.elsewhere + sum(rest))
                for need, each in zip(counted, more, strict=True)
            ]
        self.has_space(counted[0], counted[1])

    def _survey(self, found: log.CleanableRange, producers: log.Producers) -> None:
        """Finds the ends of the later rounds: a range stays dirty, unchanged, until its own round."""
        result = self.result
        while not result.is_whole and result.end is not None:
            rest = replace(found, start=result.end)
            one = Round(self._segments, rest, producers, self.settings, None)
            one.survey()
            result.later.append({"dirtyFrom": rest.start, "dirtyTo": one.end, "keys": one.keys})
            result.end, result.is_whole = one.end, one.is_whole

    def _round(self, found: log.CleanableRange, producers: log.Producers) -> Iterator[CleanedGroup]:
        make_folder = self.staging.make_folder if self.staging else None
        one = self.rounds(list(self._segments), found, producers, self.settings, make_folder, self.watcher)
        result = self.result
        result.rounds += 1
        first = len(result.groups)
        for group in one.groups():
            if self._large and any(source.base_offset == self._large.segment for source in group.sources):
                break
            if len(result.groups) == first and self._frees_each and self.staging is not None:
                one.check_the_rest()  # damage found later would stop it halfway
            result.groups.append(group)
            if group.counts["no_key"] and not self.settings.drops_null_keys:
                left = "segments not yet replaced are left unchanged" if self._has_committed else "nothing was changed"
                raise UnsupportedError(
                    f"{self.directory}: records of segment {group.sources[0].base_offset} have no key, and a cleaner "
                    f"removes those (--drop-null-keys); {left}"
                )
            self.result.taken.add(group)
            if self.staging is not None:
                model = Place(self.directory) / (segment_stem(group.sources[0].base_offset) + LOG)
                for path in group.segment.paths.values():
                    self.staging.adopt(path, model)
            if self.staging is not None and not self.commits_each:
                # Redundant now: the new files of the previous round, and a new .log identical to the old one.
                staged = [each for each in group.sources if each.path.startswith(self.staging.folder + os.sep)]
                for source in staged:
                    self.staging.remove(Place(source.path).parent)
                self.result.taken.subtract(staged)
                if group.is_copy and not staged:
                    os.unlink(group.segment.path)
                    group.segment.paths[LOG] = group.sources[0].path
            yield group
        if self.staging is not None:
            new = result.groups[first:]
            gone = {segment.base_offset for group in new for segment in group.sources}
            kept = [segment for segment in self._segments if segment.base_offset not in gone]
            self._segments = sorted([*kept, *(group.segment for group in new)], key=attrgetter("base_offset"))
        result.end, result.is_whole = (found.start, True) if self._large else (one.end, one.is_whole)
        result.keys = max(result.keys, one.keys)
        result.horizons = sum((group.horizons for group in result.groups[first:]), Counter[int]())

    def _final_groups(self, original: list[log.CleanerSegment]) -> list[CleanedGroup]:
        """Returns groups from the original segments to those of the last round."""
        if self.result.rounds == 1:
            return self.result.groups
        known = {id(segment) for segment in original}
        uppers = [*(segment.base_offset for segment in self._segments[1:]), 1 << 63]
        found = []
        for segment, upper in zip(self._segments, uppers, strict=True):
            if id(segment) not in known:
                sources = log.segments_between(original, segment.base_offset, upper)
                is_old = Place(segment.path).parent == self.directory
                found.append(CleanedGroup(sources, segment, Counter(rewritten=int(not is_old))))
        return found

    def _plan(self, groups: list[CleanedGroup]) -> Plan:
        plan = Plan(self.directory)
        for group in groups:
            put_in_place(plan, group)
            if self.staging is not None and not group.is_copy:
                plan.staged_bytes += file_bytes(group.segment)
        return plan


def put_in_place(plan: Plan, group: CleanedGroup, done: str = "cleaned") -> None:
    """Adds the steps that replace a group's source segments by its new segment. A dry run has no new files: its steps
    are a new .log of the expected size, and deletions. ``done``: what was done, for the reasons."""
    segment, sources, is_dry = group.segment, group.sources, not group.segment.paths
    stem = segment_stem(segment.base_offset)
    names = [str(source.base_offset) for source in sources]
    reason = f"{done}, from segment {names[0]}" if len(names) == 1 else f"{done}, from {len(names)} segments"
    suffixes = [suffix for suffix in SEGMENT_SUFFIXES if suffix in segment.sizes]
    stays = {suffix for suffix in suffixes if group.is_copy and (is_dry or _is_same(group, suffix))}
    new = [suffix for suffix in suffixes if suffix not in stays]
    for suffix in new:
        if is_dry:
            plan.outline(stem + suffix, segment.sizes[suffix], reason)
        else:
            plan.write(stem + suffix + SWAP, (), reason, source=segment.paths[suffix])
    elsewhere = f"its remaining records {'would be' if is_dry else 'are'} in {stem}{LOG}"
    for source in sources[is_dry:]:
        for suffix in SEGMENT_SUFFIXES:
            name = segment_stem(source.base_offset) + suffix
            if (suffix not in stays or len(sources) > 1) and plan.state_of(name) is not None:
                plan.delete(name, elsewhere)
        snapshot = segment_stem(source.base_offset) + SNAPSHOT
        if source is not sources[0] and plan.state_of(snapshot) is not None:
            plan.delete(snapshot, elsewhere if is_dry else "no segment begins at this offset any more")
    for suffix in new if not is_dry else ():
        plan.rename(stem + suffix + SWAP, stem + suffix, "is complete")


def _is_same(group: CleanedGroup, suffix: str) -> bool:
    """Whether the new file of a group from one segment is identical to the old one."""
    source = group.sources[0]
    if suffix == LOG:
        return True
    old, new = source.paths.get(suffix), group.segment.paths.get(suffix)
    if old is None or source.sizes.get(suffix) != group.segment.sizes[suffix]:
        return False
    return new is None or Place(new).has_bytes_of(Place(old))


_MIN_MEMORY_BYTES = 64 << 10


class CompactionPlanner(Planner):
    """Makes the plans of `kseg compact`. ``remote_rounds``: makes rounds that run elsewhere, None for this process.

    Raises RequestError for a release whose rules are unknown.
    """

    command = "compact"
    damage_errors = (log.DamagedError,)
    root_names = (CLEANER_OFFSETS, LOG_STARTS, HIGH_WATERMARKS)
    with_root = True

    def __init__(
        self,
        options: CompactOptions,
        change: ChangeOptions,
        reporter: Reporter,
        remote_rounds: RoundMaker | None = None,
    ) -> None:
        super().__init__(reporter, options.server)
        with errors_at("--era", RequestError, of=ValueError):
            rules = CleanerRules(options.era.release)
        self._options, self._change, self._remote_rounds = options, change, remote_rounds
        self._limits_records = rules.limits_records
        self._topics = Topics(options.topics, self.nodes)
        self._intervals = TopicIntervals(options.interval_bytes, self.nodes, reporter.warning, reporter.detail)
        self._ends: dict[TopicPartition, int] = {}
        memory_bytes = default_memory_bytes() if options.memory_bytes is None else options.memory_bytes
        self._base = CleanerSettings(
            now_ms=int(time.time() * 1000) if options.now_ms is None else options.now_ms,
            memory_bytes=max(memory_bytes, _MIN_MEMORY_BYTES),
            producer_expiration_ms=options.era.expiration_ms,
            kept_end=RANGE_END if options.includes_active else rules.kept_end,
            keeps_format=options.keeps_format or rules.keeps_format,
            includes_active=options.includes_active,
            drops_null_keys=options.drops_null_keys,
            until_clean=options.until_clean,
            jobs=options.jobs or usable_cores(),
            has_horizons=rules.has_horizons,
            heeds_high_watermark=rules.heeds_high_watermark,
        )

    def plan_partition(self, directory: str, known: Known) -> Iterator[Plan]:
        if not self._topics.is_named(directory):
            raise KsegError(f"{directory}: is of no topic that --topic names")
        if not self._options.forces_policy and (against := self._against(directory)):
            raise KsegError(f"{directory}: {_refusal('its topic', *against)}")
        partition = self.nodes.partition(directory)
        is_decided = self._options.topics or self._options.forces_policy or not partition.is_of_broker
        if partition.policy.text is None and not is_decided:
            raise KsegError(f"{directory}: {partition.why_unknown()}; --topic or --force-policy decides")
        yield from self._plans(directory, known)

    def plan_log_directory(self, directory: str, known: Known, done: list[str]) -> Iterator[Plan]:
        self._topics.check(directory)
        selected, refused, left = [], Counter[tuple[str, str, str]](), Counter[str]()
        paths = own_partitions(directory)
        self._topics.warn_if_none(directory, paths, self.reporter.warning)
        for path in paths:
            place, policy = topic_partition_of(path), self._against(path)
            why = self._topics.why_left(path, directory) or ("" if place else MOVED)
            if not why and policy and not self._options.topics:
                why = f"cleanup.policy {policy[0]}"
            if why:
                self.reporter.detail(f"{path}: left alone: {why}")
                left[why] += 1
            elif place and policy and not self._options.forces_policy:
                refused[place[0], *policy] += 1
            else:
                selected.append(path)
        for found, count in refused.items():
            partitions = plural(count, "partition", "partitions")
            self.reporter.error(f"{directory}: {partitions} of {found[0]} refused: {_refusal(*found)}")
            self.failures.refused()
        warn_left_alone(directory, left, self.reporter.warning)
        for path in selected:
            with self.attempt(path):
                yield from self._plans(path, known)

    def plan_root(self, directory: str, known: Known, has_changed: bool) -> Plan:
        plan = Plan(directory)
        entries = checkpoint_entries(directory, CLEANER_OFFSETS, known)
        changed = {place: end for place, end in self._ends.items() if entries.get(place) != end}
        if changed:
            plan.write(CLEANER_OFFSETS, [build_offset_checkpoint(entries | changed)], "up to where logs are clean")
        self._ends = {}
        return plan

    def _against(self, directory: str) -> tuple[str, str] | None:
        """Returns the cleanup.policy of a partition's topic if it is known, or the broker's, and lacks ``compact``; and
        where it comes from, in words. None for others."""
        partition = self.nodes.partition(directory)
        policy = partition.policy
        if policy.text is None and partition.node.server is not None:
            policy = Policy(DEFAULTS[POLICY], DEFAULT)
        if policy.is_compacted is not False:
            return None
        source = {DEFAULT: "Kafka's default", SERVER: "the broker's file"}.get(policy.source, METADATA_PARTITION)
        return str(policy.text), source

    def _plans(self, directory: str, known: Known) -> Iterator[Plan]:
        asked: Mapping[str, float | None] = {
            **{name: getattr(self._options, name) for name in TOPIC_NAMES},
            "interval_bytes": self._intervals.of(directory),
        }
        setting_of = self.nodes.partition(directory).setting_and_source
        settings, shown = settings_for(self._base, asked, setting_of, self._limits_records)
        self.reporter.detail(f"{directory}: {shown}")
        began, is_dry, partition = time.monotonic(), self._change.is_dry, topic_partition_of(directory)
        with ExitStack() as stack:
            stage = None if is_dry else stack.enter_context(staging(directory, self._change.output))
            space = SpaceCheck(directory, self._change, self.reporter)
            progress = stack.enter_context(self.reporter.progress())
            progress.at(directory)
            checkpoints = BrokerState()
            if partition is not None:
                root = Place(directory).absolute.parent
                offsets = (checkpoint_entries(root, name, known).get(partition) for name in self.root_names)
                cleaner, start, watermark = offsets
                checkpoints = BrokerState(cleaner_offset=cleaner, log_start_offset=start, high_watermark=watermark)
            compactor = Compactor(
                directory, checkpoints, settings, stage, space.commits_each, progress, space.has_space,
                self._remote_rounds or Round, self._remote_rounds is not None,
            )  # fmt: skip
            if self._remote_rounds is None:
                self.reporter.detail(f"{directory}: the map of keys may take {shown_bytes(settings.memory_bytes)}")
            has_plan = False
            try:
                for plan in compactor.plans():
                    has_plan = True
                    progress.erase()
                    yield plan
                    if directory in self.failures.errors:
                        return  # the next plan would be made from the files of this plan
            except OSError as error:
                if not is_system_error(error):
                    raise
                if has_plan and not is_dry:
                    raise StoppedHalfwayError(
                        f"{directory}: {text_of(error)}; a part is cleaned: repeat the command, or kseg undo"
                    ) from error
                raise KsegError(f"{directory}: {text_of(error)}; nothing was changed") from error
            if not has_plan and self._change.output:
                yield Plan(directory)  # a copy is wanted in any case
        if partition is not None and compactor.result.end is not None:
            self._ends[partition] = compactor.result.end
        if is_dry and compactor.result.rounds:
            if lack := space.lack(compactor.result.taken.needed, free_bytes(directory)):
                self.reporter.warning(f"{directory}: it would be refused: {lack}")
        self._report(compactor.result, time.monotonic() - began)

    def _report(self, result: Compaction, seconds: float) -> None:
        if (found := result.found) is None:
            return
        counts, stops = result.counts, [stop.text for stop in found.stops]
        if result.rounds and not result.is_whole and not result.later:
            stops.append(f"offsets from {result.end} on, as the map was full (--until-clean, --memory)")
        if not result.rounds and not stops:
            stops.append("nothing is dirty")
        row = {
            "type": "compaction",
            "directory": name_value(result.directory),
            "rounds": result.rounds,
            "dirtyFrom": found.start,
            "dirtyTo": found.end,
            "dirtyRatio": round(found.ratio, 4),
            "checkpoint": result.end if result.end is not None else found.start,
            "keys": result.keys,
            "laterRounds": result.later,
            "oneRoundMemory": memory_for(result.keys + sum(each["keys"] for each in result.later)),
            "peakBytes": result.taken.peak,
            "bytesBefore": result.bytes_before,
            "bytesAfter": result.bytes_after,
            "records": counts["records"],
            "kept": counts["kept"],
            "gone": {
                "superseded": counts["superseded"],
                "tombstones": counts["tombstones"],
                "aborted": counts["discarded_records"],
                "markers": counts["discarded_markers"],
                "noKey": counts["no_key"],
            },
            "waitingMarkers": result.horizons.total(),
            "deleteHorizon": max(result.horizons, default=None),
            "batches": {name: counts[name] for name in ("copied", "rewritten", "emptied", "dropped")},
            "seconds": round(seconds, 3),
            "stops": stops,
        }
        segments = [
            {
                "type": "cleanedSegment",
                "directory": name_value(result.directory),
                "baseOffset": group.segment.base_offset,
                "sources": [source.base_offset for source in group.sources],
                "bytesBefore": group.bytes_before,
                "bytesAfter": group.segment.size,
                "records": group.counts["records"],
                "kept": group.counts["kept"],
            }
            for group in result.groups
        ]
        self.reporter.summary([*segments, row])


def _refusal(topic: str, policy: str, source: str) -> str:
    """Returns why a topic with this cleanup.policy is not compacted."""
    return (
        f"{topic} has cleanup.policy {policy} ({source}), and compaction would remove records that its consumers "
        "expect; --force-policy does it all the same"
    )
