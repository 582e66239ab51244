"""``reindex``: rebuilds the index files of partitions from the .log alone, as a broker's recovery does."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from kseg.changes.driver.planner import ChangeOptions, Planner, Reporter
from kseg.changes.journal import Known
from kseg.changes.plan import Plan
from kseg.errors import KsegError
from kseg.formats.suffixes import LOG
from kseg.logdir.belonging import foreign_segments
from kseg.logdir.index_interval import Interval, IntervalMessages, chosen_interval
from kseg.logdir.topics import KnownTopics, Topics
from kseg.recovery.broker.producer_state import ProducerStateManager
from kseg.recovery.broker.segments import BrokerSegment, ReplayResult, replay_nothing
from kseg.recovery.options import BrokerStart, ReindexOptions
from kseg.recovery.planner import with_known_interval
from kseg.recovery.workspace import Workspace, offset_of
from kseg.runtime.threads import usable_cores
from kseg.segment.files import CLEAN_SHUTDOWN, own_partitions
from kseg.segment.survey import HeaderRows
from kseg.stores.source import check_readable

_NO_LIMIT = (1 << 31) - 1
"""Messages are indexed even if they are too large for an old broker."""


class DamagedLogError(KsegError):
    """A .log is damaged, so its index could cover only a part of it; or its batches belong to another partition."""

    exit_status = 1


def reindex(workspace: Workspace, start: BrokerStart, with_snapshots: bool = False) -> Interval:
    """Rebuilds the indexes of all segments of a workspace; ``with_snapshots``: also the producer snapshots at segment
    bases and at the log end. Returns the interval of the indexes.

    After a clean stop no index keeps the zeros of a preallocated file, but for the metadata log since 4.4. If the log
    does not begin at offset 0, earlier producers come from the snapshot at its first segment's base. Raises
    DamagedLogError if a .log is damaged, PathError if it cannot be read.
    """
    segments = [BrokerSegment(workspace, name.removesuffix(LOG), offset_of(name)) for name in workspace.names(LOG)]
    segments.sort(key=lambda segment: segment.base_offset)
    interval = chosen_interval(workspace, start.interval_bytes, start.interval_source)
    era = replace(start.era, message_limit_bytes=_NO_LIMIT)
    with_snapshots = with_snapshots and era.has_producers
    if not segments:
        return interval
    manager = ProducerStateManager(workspace, 0, era)
    base = segments[0].base_offset
    if base in manager.offsets and era.has_producers:
        manager.load_at(base)
    manager.end_offset = manager.snapshot_offset = base

    def each(headers: HeaderRows, segment: BrokerSegment) -> ReplayResult:
        if not era.has_producers:
            return replay_nothing(headers)
        manager.end_offset = headers[-1].last_offset + 1
        return manager.replay(headers, segment.read)

    for segment in segments:
        if with_snapshots:
            manager.end_offset = max(manager.end_offset, segment.base_offset)
            manager.take_snapshot()
        segment.keeps_preallocated = not start.was_clean
        found = segment.recover(interval.size, era, partial(each, segment=segment))
        if found.valid_bytes < segment.size or found.is_refused:
            check_readable(workspace.path(segment.log))
            raise DamagedLogError(
                f"{workspace.directory}/{segment.log}: is damaged at position {found.valid_bytes}, its index would end "
                "there: kseg verify shows details, kseg recover repairs it; the partition is left as it is"
            )
    if with_snapshots:
        manager.take_snapshot()
        manager.remove_stray_snapshots({segment.base_offset for segment in segments})
    return interval


class ReindexPlanner(Planner):
    """Makes the plans of `kseg reindex`."""

    command = "reindex"
    keeps_marker = True
    damage_errors = (DamagedLogError,)

    def __init__(self, options: ReindexOptions, change: ChangeOptions, reporter: Reporter) -> None:
        super().__init__(reporter)
        self._start = BrokerStart(
            interval_bytes=options.interval_bytes, era=options.era, jobs=options.jobs or usable_cores()
        )
        self._with_snapshots, self._chosen = options.with_snapshots, Topics(options.topics)
        self._intervals, self._topics = IntervalMessages(reporter.warning, reporter.detail), KnownTopics()

    def plan_partition(self, directory: str, known: Known) -> Plan:
        workspace = Workspace(directory, self._start.jobs)
        start = replace(self._start, was_clean=known.get(CLEAN_SHUTDOWN) is not None)
        interval = reindex(workspace, with_known_interval(start, self._topics, directory), self._with_snapshots)
        plan = self.chosen(workspace.plan())
        replaces = any(step.is_kept for step in plan.steps)
        if replaces and (foreign := foreign_segments(directory)):
            raise DamagedLogError(
                f"{foreign[0].path}: its batches belong to another partition ({foreign[0].reason}); the side files are "
                "the evidence and stay as they are: kseg verify shows details, kseg recover --mode salvage keeps the "
                "partition's own batches"
            )
        self._intervals.report(directory, interval if plan else None)
        return plan

    def chosen(self, plan: Plan) -> Plan:
        """Returns the plan, or only some of its steps in a subclass."""
        return plan

    def plan_log_directory(self, directory: str, known: Known, done: list[str]) -> Iterator[Plan]:
        named = self._chosen.named(directory, own_partitions(directory))
        yield from self.planned(named, lambda path: self.plan_partition(path, known))
