"""Plans the rebuilding of index files for the partitions that a command names."""

from collections.abc import Iterator
from dataclasses import replace

from kseg.changes.driver.planner import ChangeOptions, Planner
from kseg.changes.driver.reporter import Reporter
from kseg.changes.plan import Plan
from kseg.changes.root_files import Known
from kseg.logdir.belonging import foreign_segments
from kseg.logdir.known_topics import KnownTopics
from kseg.logdir.topic_intervals import IntervalMessages
from kseg.logdir.topic_selection import Topics
from kseg.recovery.broker.reindexing import DamagedLogError, reindex
from kseg.recovery.broker.start import BrokerStart
from kseg.recovery.options import ReindexOptions
from kseg.recovery.planner import with_known_interval
from kseg.recovery.workspace import Workspace
from kseg.runtime.threads import usable_cores
from kseg.segment.files import CLEAN_SHUTDOWN, own_partitions


class ReindexPlanner(Planner):
    """Makes the plans of `kseg reindex`."""

    command = "reindex"
    keeps_marker = True

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
        # All plans are made before the first is applied: an unreadable partition must not stop the others half-way.
        plans = []
        for path in self._chosen.named(directory, own_partitions(directory)):
            with self.failures.of(path):
                try:
                    plans.append(self.plan_partition(path, known))
                except DamagedLogError as error:
                    self.reporter.error(error)
                    self.damage_remains = True
        yield from plans
