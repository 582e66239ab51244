"""``kseg reindex``: index files rebuilt from the .log, byte for byte as a broker's recovery builds them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import click

from kseg.changes.journal import MARKER
from kseg.changes.plan import Plan
from kseg.cli.changing import Known, run_work
from kseg.cli.changing_options import changing_options, paths_argument
from kseg.cli.eras import IntervalTeller, era_option, with_known_interval
from kseg.cli.failures import Failures
from kseg.cli.options import interval_option, jobs_option
from kseg.kernel.files.guard import keep_freed_memory
from kseg.logdir.known_topics import KnownTopics
from kseg.output.notices import Notices
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
def command(**options: Any) -> int:
    """Rebuild .index, .timeindex and .txnindex of partitions from the .log alone.

    The bytes are those of a broker's own rebuild. A .log that is damaged is left alone: kseg recover repairs it first.
    """
    keep_freed_memory()
    options["dry_run"] = options["dry_run"] or options["check"]
    notices = Notices(options["color"], options["quiet"], options["verbose"])
    return run_work(options["paths"], ReindexWork(options, notices), options, keeps_marker=True)


class ReindexWork:
    """Makes the plans of one run."""

    command = "reindex"
    root_names: tuple[str, ...] = ()
    damage_remains = False
    reads_all_files = False
    at_once = 1

    def __init__(self, options: dict[str, Any], notices: Notices) -> None:
        self._start = Start(
            interval_bytes=options["index_interval_bytes"], era=options["era"], jobs=options["jobs"] or usable_cores()
        )
        self._intervals, self._topics = IntervalTeller(notices), KnownTopics()
        self._notices, self.failures = notices, Failures(notices)
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
                    self._notices.error(error)
                    self.damage_remains = True
        yield from plans

    def plan_root(self, directory: str, known: Known, has_changed: bool) -> Plan:
        return Plan(directory)
