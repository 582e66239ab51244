"""Plans the recovery of the partitions that a command names, as a broker's start or as a salvage."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from kseg.changes.driver.planner import ChangeOptions, Planner
from kseg.changes.driver.reporter import Messages, Reporter
from kseg.changes.journal import Known
from kseg.changes.plan import Plan
from kseg.errors import KsegError, PathError, RequestError
from kseg.logdir.index_interval import IntervalMessages
from kseg.logdir.log_directory import METADATA_PARTITION
from kseg.logdir.topics import CompactedTopics, KnownTopics, Topics
from kseg.recovery.broker.partition import Recovery, plan_partition
from kseg.recovery.broker.partition_plans import plan_partitions
from kseg.recovery.destination import TopicIds
from kseg.recovery.messages import RecoveryMessages, facts
from kseg.recovery.options import EPOCHS_KEPT, EPOCHS_REBUILT, EPOCHS_REPAIRED, BrokerStart, RecoverOptions
from kseg.recovery.overrides import CHECKPOINTS, Overrides, Root, partition_of
from kseg.recovery.workspace import BrokerRefusesError
from kseg.runtime.progress import Progress
from kseg.runtime.threads import usable_cores
from kseg.segment.files import METADATA_TOPIC, QUORUM_STATE, own_partitions
from kseg.segment.paths import segment_bytes
from kseg.sidefiles.checkpoints import LOG_STARTS, RECOVERY_POINTS
from kseg.sidefiles.json_files import read_quorum_state
from kseg.sidefiles.meta_properties import META_PROPERTIES, MetaProperties, missing_in_kraft, read_meta_properties
from kseg.sidefiles.problems import problems_of
from kseg.sidefiles.text_files import MAX_TEXT_BYTES
from kseg.stores import trees
from kseg.stores.regular_files import first_bytes

if TYPE_CHECKING:
    from kseg.recovery.salvage.salvage import Salvage

# Finds files that stop a KRaft node from starting on a log directory, and that kseg cannot repair.
#
# Sources: MetaPropertiesEnsemble and FileQuorumStateStore of Kafka 4.3.1.


def node_file_problems(directory: str) -> Iterator[str]:
    """Yields a sentence for each such file; nothing if the directory is not of KRaft."""
    metadata = os.path.join(directory, METADATA_PARTITION)
    if not trees.isdir(metadata):
        return
    for path, read, help_ in (
        (os.path.join(directory, META_PROPERTIES), read_meta_properties, "kafka-storage.sh format makes a new one"),
        (os.path.join(metadata, QUORUM_STATE), read_quorum_state, "move it away, and the node begins a new one"),
    ):
        if not trees.lexists(path):
            if path.endswith(META_PROPERTIES):
                yield f"{path}: is missing: a node of KRaft does not start without it; {help_}"
            continue
        try:
            items = list(read(first_bytes(path, MAX_TEXT_BYTES)))
        except OSError as error:
            found = [str(error.strerror)]
        else:
            found = [problem.message for problem in problems_of(items)]
            missing = (missing_in_kraft(item) for item in items if isinstance(item, MetaProperties))
            found += [text for text in missing if text is not None]
        if found:
            yield f"{path}: {found[0]}: a node of KRaft does not start with it; {help_}"


CHANGED_TOGETHER = 256
"""Largest number of partitions that are changed together: their bytes are synced at once."""

WriteRecords = Callable[[Iterable[str], bool, Messages], None]
"""Writes the records of broken batches in partition directories somewhere, or in a dry run only counts them."""


class Checks(Protocol):
    """Checks of partitions and log directories, which other packages make."""

    def is_damaged(self, partition: str) -> bool:
        """Whether a partition is damaged; a salvage leaves others as they are."""

    def metadata_refusal(self, directory: str) -> str:
        """Returns why a node does not start on the cluster's metadata in a log directory, "" if it does."""


class RecoveryPlanner(Planner):
    """Makes the plans of `kseg recover`. ``write_records`` is called before anything is changed.

    ``make_checks``: returns checks, for runs that need them; None: all partitions count as damaged.
    """

    root_names = CHECKPOINTS
    with_root = True

    def __init__(
        self,
        options: RecoverOptions,
        change: ChangeOptions,
        reporter: Reporter,
        write_records: WriteRecords | None = None,
        make_checks: Callable[[], Checks] | None = None,
    ) -> None:
        super().__init__(reporter)
        self.command = f"recover --mode {options.mode}" if options.from_replica is None else "recover --from-replica"
        self.reads_all_files = options.is_salvage
        self._options, self._is_dry, self._write_records = options, change.is_dry, write_records
        self._make_checks = make_checks
        if options.is_salvage and make_checks is not None:
            self.left_alone = []
        self._jobs = options.jobs or usable_cores()
        # Salvage writes large files, and states exactly how much disk space that takes.
        self.at_once = 1 if options.is_salvage else CHANGED_TOGETHER
        now_ms = int(time.time() * 1000) if options.now_ms is None else options.now_ms
        self._start = BrokerStart(
            now_ms=now_ms, interval_bytes=options.interval_bytes, era=options.era, jobs=self._jobs
        )
        self._messages = RecoveryMessages(reporter, suggests_replica=options.from_replica is None)
        self._intervals = IntervalMessages(reporter.warning, reporter.detail)
        self._compacted, self._topics = CompactedTopics(), Topics(server=options.server)
        self._globs = Topics(options.topics)
        self._is_copy = change.output is not None
        self._overrides = Overrides(options, self._topics, self._is_copy, reporter, self.failures)
        self._ends: dict[tuple[str, int], int] = {}
        self._log_starts: dict[tuple[str, int], int] = {}
        self._is_single = False

    def plan_partition(self, directory: str, known: Known) -> Plan:
        self._ends.clear()
        self._log_starts.clear()
        self._is_single = True
        self._overrides.choose([directory])
        if error := self.failures.errors.get(directory):
            raise error
        ids = self._topic_ids(os.path.dirname(os.path.abspath(directory)))
        epochs = EPOCHS_REBUILT if self._options.rebuilds_epochs else EPOCHS_KEPT
        root = replace(self._root_of("", known), was_clean=False)
        plan = self._plan(directory, self._start_of(directory, root, ids, epochs))
        self._write_broken_records([directory])
        self._messages.report_unscanned(directory)
        return plan

    def plan_log_directory(self, directory: str, known: Known, done: list[str]) -> Iterator[Plan]:
        # All plans are made before the first is applied: if a broker would not start, nothing may change.
        named = self._globs.named(directory, own_partitions(directory))
        root, paths = self._root_of(directory, known), self._overrides.choose(named)
        self._ends.clear()
        self._log_starts.clear()
        self._is_single = False
        if self._options.drop_batches:
            raise RequestError(f"--drop-batch: {directory} is a log directory: name the partition of the batch")
        if self._options.topic_id or self._options.name:
            check_one_topic(paths, f"{directory} holds several topics: name the partitions of one")
        if not self._options.is_salvage:
            self._refuse_metadata(directory)
        epochs = EPOCHS_REPAIRED if self._options.rebuilds_epochs else EPOCHS_KEPT
        ids = self._topic_ids(directory)
        tasks: list[tuple[str, BrokerStart]] = []
        for path in paths:
            with self.failures.of(path):
                tasks.append((path, self._start_of(path, root, ids, epochs)))
        plans = self._salvages(tasks) if self._options.is_salvage else self._recoveries(tasks)
        self._write_broken_records([plan.directory for plan in plans])
        self._messages.report_unscanned(directory)
        for problem in node_file_problems(directory):
            self.reporter.warning(problem)
            self.damage_remains = True
        yield from plans

    def plan_root(self, directory: str, known: Known, has_changed: bool) -> Plan:
        failed = {partition_of(path) for path in self.failures.paths}
        ends, log_starts = (
            {key: offset for key, offset in found.items() if key not in failed}
            for found in (self._ends, self._log_starts)
        )
        root = self._root_of(directory, known)
        plan = root.plan(ends, log_starts, replaces_unreadable=not (self._is_single or self._options.topics))
        self._overrides.plan_root(plan, root, is_source=not (self._is_copy and self._is_single))
        return plan

    def _root_of(self, directory: str, known: Known) -> Root:
        return Root.of(directory, known, as_broker=not self._options.is_salvage)

    def name_of_copy(self, directory: str, is_single: bool) -> str:
        return self._overrides.name_of(directory)

    def root_of_copy(self) -> dict[str, bytes] | None:
        return self._overrides.root_of_copy()

    def _write_broken_records(self, directories: list[str]) -> None:
        if self._write_records is not None:
            self._write_records(directories, self._is_dry, self.reporter)

    def _topic_ids(self, root: str) -> TopicIds:
        return TopicIds(root, self._overrides.destination.given_id, lambda topic: self._topics.topic_id(root, topic))

    def _start_of(self, directory: str, root: Root, ids: TopicIds, epochs: int) -> BrokerStart:
        key, start = partition_of(directory), replace(self._start, epochs=epochs, topic_ids=ids)
        if key is not None and key[0] == METADATA_TOPIC:
            return start
        scans_all = self._options.scans_all
        start = replace(
            with_known_interval(start, self._topics.metadata, directory),
            was_clean=root.was_clean and not scans_all,
            recovery_point=0 if scans_all else root.offset(RECOVERY_POINTS, key) or 0,
            log_start_offset=root.offset(LOG_STARTS, key) or 0,
        )
        return self._overrides.start(directory, start, ids)

    def _recoveries(self, tasks: list[tuple[str, BrokerStart]]) -> list[Plan]:
        """Plans partitions as a broker. An unreadable one is added to the failures.

        Raises KsegError for the first partition that a broker would refuse: changing the others would remove the clean
        shutdown marker, and then the broker's next start might truncate that one.
        """
        plans = []
        with closing(plan_partitions(tasks, self._jobs)) as outcomes, self._progress(tasks) as progress:
            for (directory, _), outcome in zip(tasks, outcomes, strict=True):
                _advance(progress, directory)
                if isinstance(outcome, PathError):
                    self.failures.add(outcome, directory)
                elif isinstance(outcome, KsegError):
                    raise outcome
                else:
                    plans.append(self._reported(outcome))
        return plans

    def _salvages(self, tasks: list[tuple[str, BrokerStart]]) -> list[Plan]:
        """Salvages partitions. An unreadable or refused one is added to the failures."""
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

    def _progress(self, tasks: list[tuple[str, BrokerStart]]) -> Progress:
        """Returns the progress over the bytes of all partitions, each counted when its plan is made."""
        return self.reporter.progress([directory for directory, _ in tasks])

    def _plan(self, directory: str, start: BrokerStart) -> Plan:
        if self._options.is_salvage:
            found = self._salvage(directory, start)
            if self._leaves_alone(found):
                found.plan = Plan(directory)
            return self._reported(found)
        return self._reported(plan_partition(directory, start))

    @cached_property
    def _checks(self) -> Checks | None:
        return None if self._make_checks is None else self._make_checks()

    def _refuse_metadata(self, directory: str) -> None:
        """Raises BrokerRefusesError if a node does not start on the cluster's metadata."""
        if trees.isdir(os.path.join(directory, METADATA_PARTITION)) and self._checks is not None:
            if why := self._checks.metadata_refusal(directory):
                raise BrokerRefusesError(why)

    def _leaves_alone(self, found: "Salvage") -> bool:
        """Whether a partition is not damaged; then it is added to `left_alone`."""
        if self.left_alone is None or self._checks is None:
            return False
        if found.changes_log or found.log_start is not None or self._changes_more:
            return False
        if found.plan and self._checks.is_damaged(found.directory):
            return False
        self.left_alone.append(found.directory)
        return True

    @property
    def _changes_more(self) -> bool:
        """Whether the options ask for changes that need no damage."""
        options = self._options
        rebuilds = options.rebuilds_epochs and self._is_single
        return bool(rebuilds or options.topic_id or options.name or options.undeletes or options.resets_epochs)

    def _reported(self, found: "Recovery | Salvage") -> Plan:
        """Returns the plan, after reporting why it was made."""
        if any(one.missing for one in found.remains) and self._compacted.is_compacted(found.directory):
            found.remains = [one for one in found.remains if not one.missing]  # the cleaner may have left these gaps
        self._messages.report(found)
        self.damage_remains |= bool(found.remains or found.unrepaired)
        if isinstance(found, Recovery):
            self._intervals.report(found.directory, found.interval if found.plan else None)
        found.plan.facts = facts(found)
        if key := partition_of(found.directory):
            self._ends[key] = found.next_offset
            if not isinstance(found, Recovery) and found.log_start is not None:
                self._log_starts[key] = found.log_start
            self._overrides.add(found.directory, found.next_offset)
        return found.plan

    def _salvage(self, directory: str, start: BrokerStart) -> "Salvage":
        from kseg.recovery.salvage.rejected_batches import Dropping
        from kseg.recovery.salvage.salvage import plan_salvage  # mode broker starts without it

        replica = self._options.from_replica
        dropping = Dropping(self._options.drops_undecodable, self._options.drop_batches)
        if replica is not None:
            from kseg.recovery.replica.replica import plan_from_replica, replica_of  # few recoveries have one

            found, is_compacted = replica_of(directory, replica), self._compacted.is_compacted
            if found is not None:
                return plan_from_replica(directory, found, start, is_compacted(directory), dropping=dropping)
            self.reporter.warning(f"{directory}: {replica} has no replica of it")
        return plan_salvage(
            directory, start, is_compacted=lambda: self._compacted.is_compacted(directory), dropping=dropping
        )


def check_one_topic(paths: Iterable[str], problem: str) -> None:
    """Raises RequestError if partition directories are of several topics, as --topic-id and --as are for one."""
    if len({found[0] for found in map(partition_of, paths) if found}) > 1:
        raise RequestError(f"--topic-id and --as: {problem}")


def with_known_interval(start: BrokerStart, topics: KnownTopics, partition: str) -> BrokerStart:
    """Returns the start with the index.interval.bytes of the partition's topic, if it has none and that is known."""
    if start.interval_bytes is not None:
        return start
    known, source = topics.interval_bytes(partition)
    return start if known is None else replace(start, interval_bytes=known, interval_source=source)


def _advance(progress: Progress, directory: str) -> None:
    if progress.is_on:
        progress.at(directory)
        with suppress(KsegError, OSError):  # reported as a failure of the partition
            progress.advance(segment_bytes(directory))
