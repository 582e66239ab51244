"""``kseg recover``: what a broker's start would make of a crashed log, or all that is intact."""

import os
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from kseg.changes.driver.planner import ChangeOptions, Planner
from kseg.changes.driver.reporter import Reporter
from kseg.changes.plan import Plan
from kseg.changes.root_files import Known
from kseg.cli.changing import run_change
from kseg.cli.changing_options import changing_options
from kseg.cli.compaction import CompactedTopics
from kseg.cli.eras import IntervalTeller, era_option, with_known_interval
from kseg.cli.from_remote import check_options, recover_from_remote
from kseg.cli.options import ByteCount, interval_option, jobs_option
from kseg.cli.records import RecordsFile, check_records_path
from kseg.cli.recovery_facts import facts
from kseg.cli.remote_options import rebuild_options
from kseg.cli.topics import Topics
from kseg.errors import KsegError, PathError, RequestError
from kseg.kernel.files.guard import keep_freed_memory
from kseg.output.change_reporter import Presentation
from kseg.output.paint import plural, shown_time
from kseg.output.progress_over import segment_bytes
from kseg.recovery.broker.partition import Recovery, plan_partition
from kseg.recovery.broker.partition_plans import plan_partitions
from kseg.recovery.broker.start import EPOCHS_KEPT, EPOCHS_MENDED, EPOCHS_REBUILT, Start
from kseg.recovery.node_files import node_complaints
from kseg.recovery.root import CHECKPOINTS, LOG_STARTS, RECOVERY_POINTS, Root, partition_of
from kseg.recovery.topic_ids import TopicIds
from kseg.releases.recovery import DEFAULT_MESSAGE_LIMIT_BYTES
from kseg.runtime.cores import usable_cores
from kseg.runtime.progress import Progress
from kseg.segment.files import METADATA_TOPIC, list_segments, own_partitions
from kseg.sidefiles.identifiers import ZERO, is_uuid
from kseg.stores.no_follow import resolved

if TYPE_CHECKING:
    from kseg.recovery.salvage.salvage import Salvage

_SALVAGE_OPTIONS = ("from_replica", "records", "drop_undecodable", "drop_batch")
CHANGES_EACH, MOST_CHANGES = 2, 8
"""Partitions that are changed at once, for each core and in all: most of that time the disk is waited for."""
MOST_REMAINS = 5
MOST_GAPS = 5


def _topic_id(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and (not is_uuid(value) or value == ZERO):
        raise click.BadParameter(f"{value!r} is no topic id: 22 characters of base64url, as kafka-topics.sh shows it")
    return value


@click.command("recover")
@click.argument("paths", nargs=-1, metavar="PATH...", type=click.Path(readable=False))
@click.option(
    "--mode",
    type=click.Choice(["broker", "salvage"]),
    default="broker",
    show_default=True,
    help="broker: as a broker starts after an unclean stop; salvage: cut out only what is damaged.",
)
@click.option(
    "--from-replica",
    type=click.Path(),
    metavar="DIR",
    help="Salvage, and take what is missing from another replica of the partition, or its log directory.",
)
@click.option(
    "--records",
    type=click.Path(),
    metavar="FILE",
    help="Salvage, and write what records of broken batches decode to FILE, as JSON Lines.",
)
@click.option(
    "--drop-undecodable",
    is_flag=True,
    help="Salvage without batches whose records cannot be decoded, though their checksums are right.",
)
@click.option(
    "--drop-batch",
    type=click.IntRange(min=0),
    multiple=True,
    metavar="OFFSET",
    help="Salvage without the batch that holds this offset; may be repeated.",
)
@click.option("--full", is_flag=True, help="Scan every segment, whatever marker and recovery point say.")
@click.option(
    "--rebuild-epochs",
    is_flag=True,
    help="Make leader-epoch-checkpoint anew from the batches; in a log directory only where it is missing or bad.",
)
@click.option(
    "--topic-id", metavar="UUID", callback=_topic_id, help="Write this id of the topic to partition.metadata."
)
@era_option()
@click.option(
    "--max-message-bytes",
    type=ByteCount(),
    default=DEFAULT_MESSAGE_LIMIT_BYTES,
    show_default=True,
    help="With --era 0.8.1 to 0.10.2: a larger message counts as damaged, as for such a broker.",
)
@rebuild_options
@interval_option
@click.option("--now", type=click.IntRange(min=0), metavar="MS", help="What counts as now, in ms since the epoch.")
@jobs_option
@changing_options
def command(paths: tuple[str, ...], change: ChangeOptions, presentation: Presentation, **options: Any) -> int:
    """Repair a partition directory, or all partitions of a log directory, after a crash or disk damage.

    Mode broker leaves byte for byte what a start of the newest broker, or of that of --era, leaves: the log is cut at
    the first batch that is not valid, later segments go, indexes and snapshots are rebuilt. Mode salvage keeps every
    intact batch at its own offset; use it for the last copy, as a replica never fetches the holes again. What goes is
    kept: kseg undo.
    """
    keep_freed_memory()
    check_options(paths, change, options)
    if options["from_remote"] is not None:
        return recover_from_remote(paths, change, presentation, options)
    given = [name for name in _SALVAGE_OPTIONS if options[name] not in (None, False, ())]
    if given:
        mode = click.get_current_context().get_parameter_source("mode")
        if options["mode"] == "broker" and mode is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{given[0].replace('_', '-')} excludes --mode broker")
        options["mode"] = "salvage"
    if options["topic_id"] and len({place[0] for place in map(partition_of, paths) if place}) > 1:
        raise click.UsageError("--topic-id: the paths are of several topics")
    if options["records"] is not None:
        check_records_path(options["records"], paths)
    return run_change(paths, partial(RecoveryPlanner, options), change, presentation).exit_status


class RecoveryPlanner(Planner):
    """Makes the plans of one run."""

    root_names: tuple[str, ...] = CHECKPOINTS
    with_root = True

    def __init__(self, options: dict[str, Any], change: ChangeOptions, reporter: Reporter) -> None:
        super().__init__(reporter)
        self.command = "recover --from-replica" if options["from_replica"] else f"recover --mode {options['mode']}"
        self._options = options
        self.reads_all_files = options["mode"] == "salvage"
        self.jobs = options["jobs"] or usable_cores()
        # Salvage makes large files anew, and says exactly what room that takes.
        is_alone = self.jobs == 1 or options["mode"] == "salvage"
        self.at_once = 1 if is_alone else min(CHANGES_EACH * self.jobs, MOST_CHANGES)
        now = options["now"] if options["now"] is not None else int(time.time() * 1000)
        self._start = Start(
            now_ms=now,
            interval_bytes=options["index_interval_bytes"],
            era=replace(options["era"], message_limit_bytes=options["max_message_bytes"]),
            jobs=self.jobs,
        )
        self._intervals = IntervalTeller(reporter)
        self._compacted = CompactedTopics()
        path = options["records"]
        self._records = None if path is None else RecordsFile(path, change.is_dry, reporter)
        self._topics = Topics()
        self._ends: dict[tuple[str, int], int] = {}
        self._segments = self._unscanned = 0
        self._is_alone = False

    def plan_partition(self, directory: str, known: Known) -> Plan:
        self._ends.clear()
        self._is_alone = True
        start = self._start_of(directory, Root.of("", known))
        epochs = EPOCHS_REBUILT if self._options["rebuild_epochs"] else EPOCHS_KEPT
        ids = self._topic_ids(os.path.dirname(os.path.abspath(directory)))
        plan = self._plan(directory, replace(start, was_clean=False, epochs=epochs, topic_ids=ids))
        if self._records is not None:
            self._records.write([directory])
        self._tell_unscanned(directory)
        return plan

    def plan_log_directory(self, directory: str, known: Known, done: list[str]) -> Iterator[Plan]:
        # All of them before the first is carried out: where a broker would not start, nothing is to change.
        root, paths = Root.of(directory, known), own_partitions(directory)
        self._ends.clear()
        self._is_alone = False
        if self._options["drop_batch"]:
            raise RequestError(f"--drop-batch: {directory} is a log directory: name the partition of the batch")
        if self._options["topic_id"] and len({place[0] for place in map(partition_of, paths) if place}) > 1:
            raise RequestError(f"--topic-id: {directory} holds several topics: name the partitions of one")
        epochs = EPOCHS_MENDED if self._options["rebuild_epochs"] else EPOCHS_KEPT
        ids = self._topic_ids(directory)
        tasks = [(path, replace(self._start_of(path, root), epochs=epochs, topic_ids=ids)) for path in paths]
        plans = self._plans(tasks)
        if self._records is not None:
            self._records.write([plan.directory for plan in plans])
        self._tell_unscanned(directory)
        for complaint in node_complaints(directory):
            self.reporter.warning(complaint)
            self.damage_remains = True
        yield from plans

    def _topic_ids(self, root: str) -> TopicIds:
        return TopicIds(root, self._options["topic_id"], lambda topic: self._topics.topic_id(root, topic))

    def plan_root(self, directory: str, known: Known, has_changed: bool) -> Plan:
        failed = {partition_of(place) for place in self.failures.places}
        ends = {key: end for key, end in self._ends.items() if key not in failed}
        return Root.of(directory, known).plan(ends, mends_unreadable=not self._is_alone)

    def _start_of(self, directory: str, root: Root) -> Start:
        key = partition_of(directory)
        if key is not None and key[0] == METADATA_TOPIC:
            return self._start
        point = 0 if self._options["full"] else root.offset(RECOVERY_POINTS, key) or 0
        return replace(
            with_known_interval(self._start, self._topics.metadata, directory),
            was_clean=root.was_clean and not self._options["full"],
            recovery_point=point,
            log_start_offset=root.offset(LOG_STARTS, key) or 0,
        )

    def _plans(self, tasks: list[tuple[str, Start]]) -> list[Plan]:
        """What cannot be read is a failure, and so is what salvage refuses.

        Mode broker raises KsegError for the first partition that a broker would refuse: a change of the others takes
        the marker of a clean stop away, and the broker's next start may cut that one then.
        """
        if self._options["mode"] == "salvage":
            return self._salvages(tasks)
        plans = []
        with closing(plan_partitions(tasks, self.jobs)) as outcomes, self._progress(tasks) as progress:
            for (directory, _), outcome in zip(tasks, outcomes, strict=True):
                _advance(progress, directory)
                if isinstance(outcome, PathError):
                    self.failures.add(outcome, directory)
                elif isinstance(outcome, KsegError):
                    raise outcome
                else:
                    plans.append(self._taken_up(outcome))
        return plans

    def _salvages(self, tasks: list[tuple[str, Start]]) -> list[Plan]:
        plans = []
        with self._progress(tasks) as progress:
            for directory, start in tasks:
                try:
                    plans.append(self._plan(directory, start))
                except KsegError as error:
                    self.failures.add(error, directory)
                except OSError as error:
                    self.failures.add(PathError(f"{error.filename or directory}: {error.strerror or error}"), directory)
                _advance(progress, directory)
        return plans

    def _progress(self, tasks: list[tuple[str, Start]]) -> Progress:
        """Progress over the bytes of all partitions, each counted when its plan is made."""
        return self.reporter.progress([directory for directory, _ in tasks])

    def _plan(self, directory: str, start: Start) -> Plan:
        if self._options["mode"] == "salvage":
            return self._taken_up(self._salvage(directory, start))
        return self._taken_up(plan_partition(directory, start))

    def _taken_up(self, found: "Recovery | Salvage") -> Plan:
        """The plan, after what it was made for is told."""
        plan = found.plan
        if isinstance(found, Recovery):
            self._tell_cuts(found)
            self._tell_remains(found)
            self._intervals.tell(found.directory, found.interval if plan else None)
            self._count_unscanned(found)
        else:
            self._tell_salvage(found)
            self._tell_remains(found)
        plan.facts = facts(found)
        if key := partition_of(found.directory):
            self._ends[key] = found.next_offset
        return plan

    def _salvage(self, directory: str, start: Start) -> "Salvage":
        from kseg.recovery.salvage.rejected_batches import Dropping
        from kseg.recovery.salvage.salvage import plan_salvage  # mode broker starts without it

        replica = self._options["from_replica"] and resolved(self._options["from_replica"])
        dropping = Dropping(self._options["drop_undecodable"], frozenset(self._options["drop_batch"]))
        if not replica:
            return plan_salvage(
                directory, start, is_compacted=lambda: self._compacted.is_compacted(directory), dropping=dropping
            )
        from kseg.recovery.replica.replica import plan_from_replica, replica_of  # few recoveries have one

        found = replica_of(directory, replica)
        if found is None:
            self.reporter.warning(f"{directory}: {replica} has no replica of it")
            return plan_salvage(
                directory, start, is_compacted=lambda: self._compacted.is_compacted(directory), dropping=dropping
            )
        return plan_from_replica(directory, found, start, self._compacted.is_compacted(directory), dropping=dropping)

    def _tell_cuts(self, recovered: Recovery) -> None:
        """What is cut, and what of it the other mode would keep."""
        for cut in recovered.cuts:
            loss = cut.loss
            behind = f" and {plural(len(cut.dropped), 'later segment', 'later segments')}" if cut.dropped else ""
            code = f" ({loss.code})" if loss.code else ""
            self.reporter.warning(
                f"{recovered.directory}/{cut.file}: not valid at position {cut.position}{code}: "
                f"{cut.length} bytes{behind} are cut, the log ends at offset {cut.next_offset}"
            )
            if loss.batches:
                times = ""
                if loss.last_timestamp >= 0:
                    times = f", {shown_time(max(loss.first_timestamp, 0))} to {shown_time(loss.last_timestamp)}"
                self.reporter.warning(
                    f"{recovered.directory}: intact in what goes: {plural(loss.batches, 'batch', 'batches')}, "
                    f"{plural(loss.records, 'record', 'records')}, offsets {loss.first_offset} to {loss.last_offset}"
                    f"{times}; --mode salvage would keep them, a replica that is in sync has them"
                )

    def _count_unscanned(self, recovered: Recovery) -> None:
        segments = {file.path for file in list_segments(recovered.directory) if file.kind in (".log", ".kafka")}
        self._segments += len(segments)
        looked_into = [*recovered.scanned, *(name for cut in recovered.cuts for name in cut.dropped)]
        scanned = {os.path.join(recovered.directory, name) for name in looked_into}
        self._unscanned += len(segments - scanned)

    def _tell_unscanned(self, directory: str) -> None:
        """Damage in what a broker does not look into stays, and nothing else here says so."""
        if self._unscanned:
            self.reporter.warning(
                f"{directory}: {self._unscanned} of {plural(self._segments, 'segment', 'segments')} not looked into, "
                "as a broker trusts what was flushed before the stop: --full looks into all"
            )
        self._segments = self._unscanned = 0

    def _tell_remains(self, recovered: "Recovery | Salvage") -> None:
        """What a broker does not mind and consumers do; gaps only where no cleaner is known to have left them."""
        remains = recovered.remains
        if any(one.missing for one in remains) and self._compacted.is_compacted(recovered.directory):
            remains = recovered.remains = [one for one in remains if not one.missing]
        for one in remains[:MOST_REMAINS]:
            missing = f", offsets missing: {one.missing[0]} to {one.missing[1]}" if one.missing else ""
            self.reporter.warning(
                f"{recovered.directory}/{one.file}: stays as it is: {one.code}: the batch at position {one.position}, "
                f"offset {one.offset}, {one.text}{missing}; a broker keeps it, kseg verify tells more"
            )
        if len(remains) > MOST_REMAINS:
            self.reporter.warning(
                f"{recovered.directory}: at least {len(remains) - MOST_REMAINS} more stay as they are"
            )
        if recovered.complaint:
            self.reporter.warning(f"{recovered.directory}: {recovered.complaint}")
        self.damage_remains |= bool(remains or recovered.complaint)

    def _tell_salvage(self, salvaged: "Salvage") -> None:
        for offset in salvaged.not_dropped:
            self.reporter.warning(f"{salvaged.directory}: no intact batch holds offset {offset}: nothing to drop there")
        for file, cut in salvaged.cuts[:20]:
            place = f"{salvaged.directory}/{file}: position {cut.position}, {cut.length} bytes"
            self.reporter.warning(f"{place}: {cut.code}: {cut.message}")
        if more := max(len(salvaged.cuts) - 20, 0) + salvaged.more_cuts:
            self.reporter.warning(f"{salvaged.directory}: {more} more damaged ranges")
        if salvaged.mended:
            self.reporter.warning(f"{salvaged.directory}: headers mended: {salvaged.mended}")
        if salvaged.moved:
            self.reporter.warning(f"{salvaged.directory}: stretches of batches put in their places: {salvaged.moved}")
        if salvaged.plan.gaps:
            gaps = salvaged.plan.gaps
            shown = ", ".join(f"{first} to {last}" for first, last in gaps[:MOST_GAPS])
            shown += f" and {len(gaps) - MOST_GAPS} more gaps" if len(gaps) > MOST_GAPS else ""
            missing = plural(sum(last - first + 1 for first, last in gaps), "offset stays", "offsets stay")
            hint = "" if self._options["from_replica"] else "; a replica may have them: --from-replica DIR"
            cleaned = (
                " where bytes were damaged, those among them that a log cleaner took" if salvaged.is_compacted else ""
            )
            self.reporter.warning(f"{salvaged.directory}: {missing} missing{cleaned}: {shown}{hint}")


def _advance(progress: Progress, directory: str) -> None:
    if progress.is_on:
        progress.at(directory)
        with suppress(KsegError, OSError):  # reported as a failure of the partition
            progress.advance(segment_bytes(directory))
