"""``kseg reindex``: index files rebuilt from the .log, byte for byte as a broker's recovery builds them."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import click

from kseg.changes.driver.planner import ChangeOptions, Planner
from kseg.changes.driver.reporter import Reporter
from kseg.changes.journal import MARKER
from kseg.changes.plan import Plan
from kseg.changes.root_files import Known
from kseg.cli.changing import run_change
from kseg.cli.changing_options import changing_options, paths_argument
from kseg.cli.eras import IntervalTeller, era_option, with_known_interval
from kseg.cli.options import interval_option, jobs_option
from kseg.kernel.files.guard import keep_freed_memory
from kseg.logdir.known_topics import KnownTopics
from kseg.output.change_reporter import Presentation
from kseg.recovery.broker.reindexing import DamagedLogError, reindex
from kseg.recovery.broker.start import Start
from kseg.recovery.workspace import Workspace
from kseg.runtime.cores import usable_cores
from kseg.segment.files import own_partitions


@click.command("reindex")
@paths_argument
@click.option("--snapshots", is_flag=True, help="Rebuild the producer snapshots too.")
@click.option("--check", is_flag=True, help="Compare only: tell what differs, change nothing; the same as --dry-run.")
@era_option()
@interval_option
@jobs_option
@changing_options
def command(paths: tuple[str, ...], change: ChangeOptions, presentation: Presentation, **options: Any) -> int:
    """Rebuild .index, .timeindex and .txnindex of partitions from the .log alone.

    The bytes are those of a broker's own rebuild. A .log that is damaged is left alone: kseg recover repairs it first.
    """
    keep_freed_memory()
    change = replace(change, is_dry=change.is_dry or options["check"])
    return run_change(paths, partial(ReindexPlanner, options), change, presentation).exit_status


class ReindexPlanner(Planner):
    """Makes the plans of one run."""

    command = "reindex"
    keeps_marker = True

    def __init__(self, options: dict[str, Any], change: ChangeOptions, reporter: Reporter) -> None:
        super().__init__(reporter)
        self._start = Start(
            interval_bytes=options["index_interval_bytes"], era=options["era"], jobs=options["jobs"] or usable_cores()
        )
        self._intervals, self._topics = IntervalTeller(reporter), KnownTopics()
        self._with_snapshots = options["snapshots"]

    def plan_partition(self, directory: str, known: Known) -> Plan:
        workspace = Workspace(directory, self._start.jobs)
        start = replace(self._start, was_clean=known.get(MARKER) is not None)
        start = with_known_interval(start, self._topics, directory)
        interval = reindex(workspace, start, self._with_snapshots)
        plan = workspace.plan()
        self._intervals.tell(directory, interval if plan else None)
        return plan

    def plan_log_directory(self, directory: str, known: Known, done: list[str]) -> Iterator[Plan]:
        # All of them before the first is carried out: one that cannot be read is not to stop the others half-way.
        plans = []
        for path in own_partitions(directory):
            with self.failures.of(path):
                try:
                    plans.append(self.plan_partition(path, known))
                except DamagedLogError as error:
                    self.reporter.error(error)
                    self.damage_remains = True
        yield from plans
