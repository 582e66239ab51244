"""Compacts a partition: rounds of the cleaner until all is clean, and the plan that puts the results in place.

Files come and go in the order of the broker's own swap (LocalLog.replaceSegments), so that a broker that starts in the
middle completes it: new files as .swap, the .log first; the old ones go; the new ones get their names.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from kseg.changes.plan import Plan
from kseg.changes.staging import Staging
from kseg.cleaner.log import LOG, SNAPSHOT, SUFFIXES, Segment, read_segments, segments_between
from kseg.cleaner.producers import Producers, read_producers
from kseg.cleaner.ranges import CleanableRange, LogLimits, cleanable_range
from kseg.cleaner.rounds import CleanedGroup, Round, Watcher
from kseg.cleaner.settings import CleanerSettings
from kseg.errors import UnsupportedError
from kseg.segment.buffers import Buffers

_SWAP = ".swap"
_COMPARE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """What the files of the log directory say about a partition; None: nothing."""

    cleaner: int | None = None
    log_start: int | None = None
    high_watermark: int | None = None


@dataclass(slots=True)
class Compaction:
    """What became, or would become, of a partition. ``end``: the cleaner's checkpoint afterwards, None: as it was.

    ``groups``: what was cleaned in all rounds; ``found``: the dirty range of the first one.
    """

    directory: str
    found: CleanableRange | None = None
    end: int | None = None
    rounds: int = 0
    keys: int = 0
    groups: list[CleanedGroup] = field(default_factory=list)
    is_whole: bool = True
    bytes_before: int = 0
    bytes_after: int = 0

    @property
    def counts(self) -> Counter[str]:
        """Of all rounds."""
        total: Counter[str] = Counter()
        for group in self.groups:
            total.update(group.counts)
        return total


RoundMaker = Callable[
    [Sequence[Segment], CleanableRange, Producers, CleanerSettings, Callable[[], str] | None, Watcher | None], Round
]


class Compactor:
    """Cleans one partition. ``commits_each``: a plan for each new segment, so that the room for one is enough."""

    def __init__(
        self,
        directory: str,
        checkpoints: Checkpoints,
        settings: CleanerSettings,
        staging: Staging | None,
        commits_each: bool = False,
        watcher: Watcher | None = None,
        tell_peak: Callable[[int], None] = lambda _: None,
        rounds: RoundMaker = Round,
        writes_ahead: bool = False,
    ) -> None:
        """``tell_peak`` is told `peak_bytes` before the first byte is written. ``rounds``: where they are done;
        ``writes_ahead``: which writes all new segments before the first can be put in place."""
        self._watcher, self._tell_peak = watcher, tell_peak
        self._rounds, self._writes_ahead = rounds, writes_ahead
        self._checkpoints, self._settings, self._staging = checkpoints, settings, staging
        self._directory, self._commits_each = directory, commits_each
        self._segments: list[Segment] = []
        self.result = Compaction(directory)

    def plans(self) -> Iterator[Plan]:
        """Plans, each to be carried out before the next is asked for. Raises DamagedError, KsegError, OSError."""
        result, settings = self.result, self._settings
        original = self._segments = read_segments(self._directory)
        result.bytes_before = result.bytes_after = sum(segment.size for segment in original)
        if not original:
            return
        buffers = Buffers()
        producers = read_producers(self._directory, original, settings.now_ms, settings.producer_expiration_ms, buffers)
        limits = self._limits(producers)
        checkpoint = self._checkpoints.cleaner
        while True:
            found = cleanable_range(self._segments, checkpoint, limits, settings)
            result.found = result.found or found
            if not (found.is_due or (result.rounds and found.dirty_bytes and found.end > found.start)):
                break
            if not result.rounds:
                self._tell_peak(self.peak_bytes)
            for group in self._round(found, producers):
                if self._commits_each:
                    yield self._plan([group])
                    self._settle(group)
            checkpoint = result.end
            if result.is_whole or not settings.until_clean or self._staging is None:
                break
        result.bytes_after = sum(segment.size for segment in self._segments)
        if self._staging is None:
            result.bytes_after = result.bytes_before + sum(
                group.segment.size - group.bytes_before for group in result.groups
            )
        if not self._commits_each and result.groups:
            yield self._plan(self._final_groups(original))

    @property
    def peak_bytes(self) -> int:
        """Room that the new files take at most: all of them, or, where each is put in place by itself, the largest."""
        sizes = [segment.size for segment in self._segments]
        if self._writes_ahead or not self._commits_each:
            return sum(sizes)
        return max([min(self._settings.segment_bytes, sum(sizes)), *sizes], default=0)

    def _limits(self, producers: Producers) -> LogLimits:
        known, end = self._checkpoints, producers.end_offset
        start = max(known.log_start or 0, self._segments[0].base_offset)
        stable, why = end, ""
        if known.high_watermark is not None and known.high_watermark < stable:
            stable, why = known.high_watermark, "above the high watermark: replicas may not have it"
        if producers.first_unstable is not None and producers.first_unstable < stable:
            stable, why = producers.first_unstable, "a transaction that begins there is open"
        return LogLimits(start, end, stable, why)

    def _round(self, found: CleanableRange, producers: Producers) -> Iterator[CleanedGroup]:
        make_folder = self._staging.make_folder if self._staging else None
        one = self._rounds(list(self._segments), found, producers, self._settings, make_folder, self._watcher)
        result = self.result
        result.rounds += 1
        first = len(result.groups)
        for group in one.groups():
            result.groups.append(group)
            if group.counts["no_key"] and not self._settings.drops_null_keys and self._staging is not None:
                raise UnsupportedError(
                    f"{self._directory}: records of segment {group.sources[0].base_offset} have no key, and a cleaner "
                    "drops those (--drop-null-keys); nothing of it is changed"
                )
            self._adopt(group)
            yield group
        if self._staging is not None:
            self._replace(result.groups[first:])
        result.end, result.is_whole, result.keys = one.end, one.is_whole, max(result.keys, one.keys)

    def _adopt(self, group: CleanedGroup) -> None:
        """Gives new files owner and mode of those that they stand for."""
        if self._staging is not None:
            model = os.path.join(self._directory, f"{group.sources[0].base_offset:020d}{LOG}")
            for path in group.segment.paths.values():
                self._staging.adopt(path, model)

    def _replace(self, groups: list[CleanedGroup]) -> None:
        """The segments as a round leaves them."""
        gone = {segment.base_offset for group in groups for segment in group.sources}
        kept = [segment for segment in self._segments if segment.base_offset not in gone]
        new = [group.segment for group in groups]
        self._segments = sorted([*kept, *new], key=lambda segment: segment.base_offset)

    def _settle(self, group: CleanedGroup) -> None:
        """The new segment lies in the partition now."""
        staging, segment = self._staging, group.segment
        if staging is not None and segment.paths:
            staging.remove(os.path.dirname(segment.path))
            segment.paths = {
                suffix: os.path.join(self._directory, f"{segment.base_offset:020d}{suffix}") for suffix in segment.paths
            }

    def _final_groups(self, original: list[Segment]) -> list[CleanedGroup]:
        """Groups from the segments that were there to those of the last round."""
        if self.result.rounds == 1:
            return self.result.groups
        known = {id(segment) for segment in original}
        uppers = [*(segment.base_offset for segment in self._segments[1:]), 1 << 63]
        found = []
        for segment, upper in zip(self._segments, uppers, strict=True):
            if id(segment) not in known:
                sources = segments_between(original, segment.base_offset, upper)
                found.append(CleanedGroup(sources, segment, Counter(rewritten=1)))
        return found

    def _plan(self, groups: list[CleanedGroup]) -> Plan:
        plan = Plan(self._directory)
        for group in groups:
            put_in_place(plan, group)
        return plan


def put_in_place(plan: Plan, group: CleanedGroup) -> None:
    """Adds the steps that replace the sources of a group by its new segment."""
    segment, sources = group.segment, group.sources
    stem = f"{segment.base_offset:020d}"
    names = [str(source.base_offset) for source in sources]
    reason = f"cleaned, from segment {names[0]}" if len(names) == 1 else f"cleaned, from {len(names)} segments"
    suffixes = [suffix for suffix in SUFFIXES if suffix in segment.sizes]
    stays = {suffix for suffix in suffixes if group.is_copy and _is_same(plan, group, suffix)}
    if not segment.paths:
        _tell(plan, group, stem, reason)
        return
    for suffix in suffixes:
        if suffix not in stays:
            plan.write(stem + suffix + _SWAP, (), reason, source=segment.paths[suffix])
    for source in sources:
        for suffix in SUFFIXES:
            name = f"{source.base_offset:020d}{suffix}"
            if (suffix not in stays or len(sources) > 1) and plan.seen(name) is not None:
                plan.delete(name, f"its records that stay are in {stem}{LOG}")
        snapshot = f"{source.base_offset:020d}{SNAPSHOT}"
        if source is not sources[0] and plan.seen(snapshot) is not None:
            plan.delete(snapshot, "no segment begins there any more")
    for suffix in suffixes:
        if suffix not in stays:
            plan.rename(stem + suffix + _SWAP, stem + suffix, "is complete")


def _tell(plan: Plan, group: CleanedGroup, stem: str, reason: str) -> None:
    """The steps of a dry run, which has no new files: what goes, and a new .log of the size that it will have."""
    if not group.is_copy:
        plan.outline(stem + LOG, group.segment.size, reason)
    for source in group.sources[1:]:
        for suffix in (*SUFFIXES, SNAPSHOT):
            name = f"{source.base_offset:020d}{suffix}"
            if plan.seen(name) is not None:
                plan.delete(name, f"its records that stay would be in {stem}{LOG}")


def _is_same(plan: Plan, group: CleanedGroup, suffix: str) -> bool:
    """Whether a file came out as it is."""
    source = group.sources[0]
    if suffix == LOG:
        return True
    old, new = source.paths.get(suffix), group.segment.paths.get(suffix)
    if old is None or source.sizes.get(suffix) != group.segment.sizes[suffix]:
        return False
    if new is None:
        return True
    with open(old, "rb") as one, open(new, "rb") as other:
        while data := one.read(_COMPARE_BYTES):
            if data != other.read(_COMPARE_BYTES):
                return False
    return True
