"""Plans the recovery of the partitions that a command names, as a broker's start or a salvage, and `kseg reindex`."""

import os
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Protocol, TypeVar

from kseg.changes.copies import Rows
from kseg.changes.driver.command import ChangeOptions, Messages, Planner, Reporter
from kseg.changes.journal import Known, TopicPartition, known_root_files, topic_partition_of
from kseg.changes.plan import Plan
from kseg.errors import KsegError, PathError, RequestError
from kseg.formats.suffixes import LOG
from kseg.node.belonging import Siblings, foreign_segments
from kseg.node.index_interval import Interval, TopicIntervals, interval_of
from kseg.node.log_directory import ABANDONED_SUFFIXES, METADATA_PARTITION, topic_id_at
from kseg.node.node import Nodes
from kseg.node.topics import Topics
from kseg.quantities import plural
from kseg.recovery import options as recovery_options
from kseg.recovery.broker.loading import plan_partition
from kseg.recovery.broker.producer_state import ProducerStateManager
from kseg.recovery.broker.segments import BrokerSegment, ReplayResult
from kseg.recovery.options import BrokerStart, ReindexOptions, RepairOptions, TopicIds
from kseg.recovery.result import Recovery, Salvage
from kseg.recovery.workspace import SPILL_BYTES, BrokerRefusesError, File, Workspace, spill
from kseg.runtime.process_pool import Put, in_processes
from kseg.runtime.threads import usable_cores
from kseg.segment import files as segment_files
from kseg.segment.files import METADATA_TOPIC, directory_name, is_renamed_directory, list_segments, own_name
from kseg.segment.paths import segment_bytes, some
from kseg.segment.survey import HeaderRows
from kseg.sidefiles import checkpoints, text_files
from kseg.sidefiles.checkpoints import OFFSET_CHECKPOINTS
from kseg.sidefiles.problems import problems_of
from kseg.sidefiles.text_files import META_PROPERTIES
from kseg.stores.place import Place
from kseg.stores.source import check_readable


@dataclass(slots=True)
class Root:
    """The files of a log directory itself that a broker's start reads and a recovery may change. ``offsets``: for each
    checkpoint file, the offset of each (topic, partition). ``unreadable``: checkpoints that a broker treats as empty,
    with the reason."""

    was_clean: bool
    offsets: Rows = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, known: Known, takes_readable: bool = False) -> "Root":
        """Parses the files. ``takes_readable``: takes readable entries of a damaged checkpoint; a broker takes none."""
        root = cls(known.get(segment_files.CLEAN_SHUTDOWN) is not None)
        for name in OFFSET_CHECKPOINTS:
            file = known.get(name)
            items = list(checkpoints.read_offset_checkpoint(file.content if file else b""))
            if problems := problems_of(items):
                root.unreadable[name] = problems[0].message
            root.offsets[name] = {} if problems and not takes_readable else checkpoints.offsets_of(items)
        return root


def rows_at(directory: str) -> Rows:
    """Returns the rows that a broker takes from the checkpoints of a log directory now. Raises KsegError."""
    return Root.of(known_root_files(directory, OFFSET_CHECKPOINTS)).offsets


class MovedRows:
    """The rows of checkpoints that partitions have left on other disks of their nodes, and those to be removed there.

    A partition that was moved by hand has no row on its new disk: a broker then starts it with recovery point, high
    watermark and log start 0. A row on its own disk wins. Everything is read anew: files change during a run. Source:
    LogManager and LogCleanerManager of Kafka 4.4.0.
    """

    def __init__(self, nodes: Nodes, warn: Callable[[str], None]) -> None:
        self._nodes, self._warn = nodes, warn

    def is_possible(self, directory: str) -> bool:
        """Whether a row can have moved to another log directory: the node of ``directory`` has several."""
        return bool(self._disks(directory)[1])

    def _disks(self, directory: str) -> tuple[str, list[str]]:
        """Returns the path of a log directory as its node has it, and the other disks of the node."""
        node = self._nodes.at(directory)
        own = node.directory_at(directory)
        if own is None:
            return directory, []
        # Those whose ids do not say that they are of another node.
        of_node = [one for one in node.directories if None in (one.meta, own.meta) or one.ids == own.ids]
        return own.path, [one.path for one in of_node if one is not own]

    def _homes(self, disks: Iterable[str]) -> dict[TopicPartition, list[str]]:
        """Returns the disks on which each partition stands; those that a broker has renamed do not count."""
        found: dict[TopicPartition, list[str]] = {}
        for disk in disks:
            for path in segment_files.own_partitions(disk):
                if (place := topic_partition_of(path)) is not None and place[0] != METADATA_TOPIC:
                    found.setdefault(place, []).append(disk)
        return found

    def carried(self, directory: str, places: Collection[TopicPartition], own: Rows) -> Rows:
        """Returns the rows of other disks for these partitions of a log directory that have none in ``own``. Warns of
        those that it does not take, because the rows of several disks differ."""
        here, others = self._disks(directory)
        if not others:
            return {}
        homes, rows = self._homes([here, *others]), {disk: rows_at(disk) for disk in (here, *others)}
        found: Rows = {}
        for place in sorted(places):
            if homes.get(place) != [here]:
                continue  # on two disks, and no broker starts
            for name in OFFSET_CHECKPOINTS:
                if place in own[name]:
                    continue
                # An interrupted run may have put the row here, and removed it there.
                at = [here] if place in rows[here][name] else [disk for disk in others if place in rows[disk][name]]
                offsets = [rows[disk][name][place] for disk in at]
                if len(set(offsets)) > 1 and name != checkpoints.CLEANER_OFFSETS:
                    self._warn(
                        f"{os.path.join(directory, name)}: has no entry for {names_of([place])}, and those of other "
                        "disks differ: none is taken"
                    )
                elif offsets:
                    found.setdefault(name, {})[place] = offsets[-1]  # the last disk wins, as for the log cleaner
        return found

    def plan_left(
        self, directory: str, places: Collection[TopicPartition], own: Rows, planned: Mapping[str, Rows]
    ) -> Plan:
        """Plans the checkpoints of a log directory, which have the rows ``own``, without those of ``places`` that stand
        on another disk, with a row there. ``planned``: the rows by disk that a dry run would leave."""
        plan, (here, others) = Plan(directory), self._disks(directory)
        disks = [here, *others]
        homes, rows = self._homes(disks), {disk: planned.get(os.path.realpath(disk)) or rows_at(disk) for disk in disks}
        for name in OFFSET_CHECKPOINTS:
            left = set[TopicPartition]()
            for place in rows[here][name].keys() & set(places):
                home = homes.get(place, [])
                if len(home) == 1 and home != [here] and place in rows[home[0]][name]:
                    left.add(place)
            if left:
                reason = f"without the entries of partitions that stand on another disk: {names_of(left)}"
                content = {place: offset for place, offset in own[name].items() if place not in left}
                plan.write(name, [checkpoints.build_offset_checkpoint(content)], reason)
        return plan


def names_of(places: Iterable[TopicPartition]) -> str:
    """Returns the names of partitions, for messages."""
    return some(sorted("{}-{}".format(*place) for place in places))


def partition_of(directory: str) -> tuple[str, int] | None:
    """Returns topic and partition of a directory's name, even if a broker has renamed it (-delete, -future, -stray)."""
    return segment_files.parse_partition_name(directory_name(directory))


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

    ``make_checks``: returns checks by these nodes, for runs that need them; None: all partitions count as damaged.
    ``siblings``: as of `foreign_segments`, for several dry runs.
    """

    verb = "recover"
    with_root = True

    def __init__(
        self,
        options: RepairOptions,
        change: ChangeOptions,
        reporter: Reporter,
        write_records: WriteRecords = lambda *_: None,
        make_checks: Callable[[Nodes], Checks] | None = None,
        siblings: Siblings | None = None,
    ) -> None:
        super().__init__(reporter, options.server)
        how = f"--mode {options.mode}" if options.from_replica is None else "--from-replica"
        self.command = f"{self.verb} {how}"
        self.reads_all_files = options.is_salvage
        self._options, self._is_dry, self._write_records = options, change.is_dry, write_records
        self._make_checks, self._siblings = make_checks, siblings
        if options.is_salvage and make_checks is not None:
            self.left_alone = []
        # Salvage writes large files, and states exactly how much disk space that takes.
        self.at_once = 1 if options.is_salvage else CHANGED_TOGETHER
        now_ms = int(time.time() * 1000) if options.now_ms is None else options.now_ms
        era = replace(options.era, message_limit_bytes=options.max_message_bytes)
        self._start = BrokerStart(
            now_ms=now_ms, interval_bytes=options.interval_bytes, era=era, jobs=options.jobs or usable_cores()
        )
        self._intervals = TopicIntervals(options.interval_bytes, self.nodes, reporter.warning, reporter.detail)
        self._topics = Topics(options.topics, self.nodes)
        self._is_copy = change.output is not None
        """Whether partitions are written to an output."""
        self._moved = MovedRows(self.nodes, reporter.warning)
        self._rows: dict[str, Rows] = {}
        """The rows that the checkpoints of each log directory are to have, by its real path."""
        self._places = set[TopicPartition]()
        """The partitions of all log directories that were planned."""
        self._begin([], False)

    @property
    def root_names(self) -> tuple[str, ...]:  # type: ignore[override]
        """The checkpoints, and meta.properties if it has to be written for a log directory of the nodes."""
        restores = any(node.restored_ids for node in self.nodes.given)
        return (*OFFSET_CHECKPOINTS, *([META_PROPERTIES] if restores else []))

    def _begin(self, paths: Sequence[str], names_partition: bool) -> list[str]:
        """Begins with the partitions at a PATH, and returns those to recover. ``names_partition``: PATH is one."""
        self._names_partition, self._is_single = names_partition, len(paths) == 1
        self._ends: dict[TopicPartition, int] = {}
        self._log_starts: dict[TopicPartition, int] = {}
        """The new log start offsets of partitions whose log would end before them."""
        self._starts: dict[str, tuple[int, int]] = {}
        """The log start and the first base offset of each partition."""
        self._has_new_start: set[str] = set()
        self._carried: Rows = {}
        """The rows that partitions have left on other disks."""
        self._segments = self._unscanned = 0
        """Numbers of segments, and of those that were not scanned."""
        return list(paths)

    def plan_partition(self, directory: str, known: Known) -> Plan:
        self._begin([directory], True)
        if error := self.failures.errors.get(directory):
            raise error
        ids = self._topic_ids(Place(directory).absolute.parent)
        epochs = recovery_options.EPOCHS_REBUILT if self._options.rebuilds_epochs else recovery_options.EPOCHS_KEPT
        root = replace(self._root_of(known), was_clean=False)
        plan = self._plan(directory, self._start_of(directory, root, ids, epochs))
        self._write_records([directory], self._is_dry, self.reporter)
        self._warn_of_unscanned(directory)
        return plan

    def plan_log_directory(self, directory: str, known: Known, done: list[str]) -> Iterator[Plan]:
        # All plans are made before the first is applied: if a broker would not start, nothing may change.
        root = self._root_of(known)
        named = self._topics.named(directory, segment_files.own_partitions(directory))
        if self._options.topics and not named:
            return  # another PATH has them
        paths = self._begin(named, False)
        if self._options.drop_batches:
            raise RequestError(f"--drop-batch: {directory} is a log directory: name the partition of the batch")
        check_one_topic(self._options, paths, f"{directory} holds several topics: name the partitions of one")
        if not self._options.is_salvage and (Place(directory) / METADATA_PARTITION).is_dir():
            if self._checks is not None and (why := self._checks.metadata_refusal(directory)):
                raise BrokerRefusesError(why)
        self._carry(directory, root, paths)
        epochs = recovery_options.EPOCHS_REPAIRED if self._options.rebuilds_epochs else recovery_options.EPOCHS_KEPT
        ids = self._topic_ids(directory)
        tasks: list[tuple[str, BrokerStart]] = []
        for path in paths:
            with self.failures.of(path):
                tasks.append((path, self._start_of(path, root, ids, epochs)))
        plans = self._plans(tasks)
        self._write_records([plan.directory for plan in plans], self._is_dry, self.reporter)
        self._warn_of_unscanned(directory)
        is_restored = self.nodes.at(directory).restored_properties(directory) is not None
        for problem in recovery_options.node_file_problems(directory, with_properties=not is_restored):
            self.reporter.warning(problem)
            self.damage_remains = True
        yield from plans

    def _carry(self, directory: str, root: Root, paths: Iterable[str]) -> None:
        """Adds the rows that partitions of a log directory have left on other disks of the node."""
        places = {place for path in paths if (place := topic_partition_of(path)) is not None}
        self._places |= places
        self._carried = self._moved.carried(directory, places, root.offsets)
        for name, rows in self._carried.items():
            root.offsets[name] |= rows

    def plan_root_again(self, directory: str, planned: Known, is_dry: bool) -> Plan:
        rows = self._rows if is_dry else {}
        return self._moved.plan_left(directory, self._places, self._root_of(planned).offsets, rows)

    def changes_root_again(self, directory: str) -> bool:
        return self._moved.is_possible(directory)

    def plan_root(self, directory: str, known: Known, has_changed: bool) -> Plan:
        """Returns the changes after which no recovery point or high watermark is beyond its log end, no checkpoint is
        unreadable, and partitions with another name or log start have their entries; and the renames of directories.

        A single partition, or those of some topics, leave unreadable checkpoints, which have entries of others too.
        """
        failed = {partition_of(path) for path in self.failures.errors}
        root, plan, moved = self._root_of(known), Plan(directory), dict[str, bytes]()
        rows = self._rows[os.path.realpath(directory)] = dict(root.offsets)
        for name, in_file in root.offsets.items():
            carried = {key: at for key, at in self._carried.get(name, {}).items() if key not in failed}
            offsets, changed = {**in_file, **carried}, self._log_starts
            if name != checkpoints.LOG_STARTS:
                changed = {key: end for key, end in self._ends.items() if offsets.get(key, -1) > end}
            changed = {key: offset for key, offset in changed.items() if key not in failed}
            is_wanted, reason = bool(changed), "pointed beyond the end of a log"
            if name in root.unreadable:
                is_wanted = not (self._names_partition or self._options.topics)
                reason = f"cannot be read ({root.unreadable[name]}): a broker takes it for empty and then stops"
            rows[name] = {**offsets, **changed}
            if is_wanted:
                plan.write(name, [checkpoints.build_offset_checkpoint(rows[name])], reason)
            elif name not in root.unreadable and (entries := self._moved_entries(name, offsets)) != in_file:
                if entries == offsets:
                    reason = f"with the entries that partitions left on another disk: {names_of(carried)}"
                    plan.write(name, [checkpoints.build_offset_checkpoint(entries)], reason)
                else:
                    moved[name] = checkpoints.build_offset_checkpoint(entries)
        for name, content in moved.items():
            plan.write(name, [content], "for partitions with another name or log start")
        properties = self.nodes.at(directory).restored_properties(directory)
        if properties is not None and not (self._names_partition or self._options.topics):
            reason = "has to have the directory.id to which the cluster's metadata assign the partitions here"
            plan.write(META_PROPERTIES, [text_files.build_meta_properties(properties)], reason)
        return plan

    def _moved_entries(self, checkpoint: str, entries: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Returns the entries of a checkpoint under the new names of partitions, and with new log starts."""
        entries = dict(entries)
        for path in sorted(self._has_new_start) if checkpoint == checkpoints.LOG_STARTS else ():
            partition = self._new_partition(path)
            if partition is not None and path not in self.failures.errors:
                checkpoints.set_log_start(entries, partition, *self._starts[path])
        return entries

    def _new_partition(self, directory: str) -> TopicPartition | None:
        """Returns the topic and number that a directory is for afterwards."""
        return partition_of(directory)

    def _root_of(self, known: Known) -> Root:
        """Returns the files as the command has read them. A salvage takes what can be read of a damaged checkpoint."""
        return Root.of(known, takes_readable=self._options.is_salvage)

    def name_of_copy(self, directory: str, is_single: bool) -> str:
        """Returns the name that a partition directory gets."""
        return own_name(directory) if self._is_copy and self._is_single else directory_name(directory)

    def _topic_ids(self, root: str) -> TopicIds:
        return TopicIds(self.nodes.at(root), root, self._given_id)

    def _given_id(self, _topic: str) -> str | None:
        return self._options.topic_id

    def _start_of(self, directory: str, root: Root, ids: TopicIds, epochs: int) -> BrokerStart:
        """Returns the start of a partition, with its new name, log start, and restored segments. Raises PathError."""
        key, options = partition_of(directory) or ("", -1), self._options
        start = replace(self._start, epochs=epochs, topic_ids=ids)
        if key[0] == METADATA_TOPIC:
            return start
        name = self.name_of_copy(directory, self._is_single)
        start = replace(
            with_known_interval(start, self.nodes, directory),
            was_clean=root.was_clean and not options.scans_all,
            recovery_point=0 if options.scans_all else root.offsets[checkpoints.RECOVERY_POINTS].get(key, 0),
            log_start_offset=root.offsets[checkpoints.LOG_STARTS].get(key, 0),
            name=name if name != directory_name(directory) else "",
        )
        return self._moved_start(directory, start)

    def _moved_start(self, directory: str, start: BrokerStart) -> BrokerStart:
        """Returns the start of a partition. Records the log start for a new name, which no checkpoint knows."""
        return self._with_own_start(directory, start) if start.name else start

    def _with_own_start(self, directory: str, start: BrokerStart, begins_with_epochs: bool = False) -> BrokerStart:
        """Returns the start with the log start of the partition itself. ``begins_with_epochs``: it is the start of the
        first leader epoch, as in a directory that a broker has renamed."""
        bases = [file.base_offset or 0 for file in list_segments(directory) if file.kind == LOG]
        first_base, log_start = min(bases, default=0), start.log_start_offset
        if begins_with_epochs or (start.name and is_renamed_directory(directory)):
            log_start = max(recovery_options.first_epoch_start(directory), first_base)
        return self._with_log_start(directory, start, log_start, first_base)

    def _with_log_start(self, directory: str, start: BrokerStart, log_start: int, first_base: int) -> BrokerStart:
        if log_start != start.log_start_offset or is_renamed_directory(directory):
            self._has_new_start.add(directory)
        self._starts[directory] = log_start, first_base
        return replace(start, log_start_offset=log_start)

    def _plans(self, tasks: list[tuple[str, BrokerStart]]) -> list[Plan]:
        """Plans partitions. An unreadable one, or in a salvage a refused one, is added to the failures.

        Raises KsegError for the first partition that a broker would refuse: changing the others would remove the clean
        shutdown marker, and then the broker's next start might truncate that one.
        """
        outcomes: Generator[Outcome | Plan] = (outcome_of(self._plan, *task) for task in tasks)
        if not self._options.is_salvage:
            outcomes = plan_partitions(tasks, self._start.jobs)
        plans = []
        with closing(outcomes), self.reporter.progress([directory for directory, _ in tasks]) as progress:
            for (directory, _), outcome in zip(tasks, outcomes, strict=True):
                if progress.is_on:
                    progress.at(directory)
                    with suppress(KsegError, OSError):  # reported as a failure of the partition
                        progress.advance(segment_bytes(directory))
                if not isinstance(outcome, KsegError):
                    plans.append(outcome if isinstance(outcome, Plan) else self._reported(outcome))
                elif self._options.is_salvage or isinstance(outcome, PathError):
                    self.failures.add(outcome, directory)
                else:
                    raise outcome
        return plans

    def _plan(self, directory: str, start: BrokerStart) -> Plan:
        plan = self._salvage if self._options.is_salvage else plan_partition
        return self._reported(plan(directory, start))

    @cached_property
    def _checks(self) -> Checks | None:
        return None if self._make_checks is None else self._make_checks(self.nodes)

    def _who_has(self, directory: str) -> str:
        place, node = partition_of(directory), self.nodes.partition(directory).node
        if place is None or node.topics is None or place[0] == METADATA_TOPIC:
            return ""
        others = node.topics.others_in_sync(place, topic_id_at(directory), node.number)
        if others is None:
            return ""
        named = f"also broker {some(sorted(map(str, others)))}" if others else "no other broker"
        return f"; in sync by the cluster's metadata is {named}"

    def _leaves_alone(self, found: Salvage) -> bool:
        """Whether a partition is not damaged; then it is added to `left_alone`."""
        changes_log = any(step.file.endswith(LOG) or step.target.endswith(LOG) for step in found.plan.steps)
        if self.left_alone is None or self._checks is None or changes_log or found.log_start is not None:
            return False
        # Only level deep of a check finds what the cleaner cannot have removed from a compacted log.
        has_lost = found.is_compacted and found.plan.gaps
        if self._changes_undamaged or has_lost or (found.plan and self._checks.is_damaged(found.directory)):
            return False
        self.left_alone.append(found.directory)
        return True

    @property
    def _changes_undamaged(self) -> bool:
        """Whether options change partitions that need no repair."""
        return bool(self._options.topic_id) or (self._options.rebuilds_epochs and self._names_partition)

    def _reported(self, found: Recovery) -> Plan:
        """Returns the plan, after reporting why it was made; none for a partition that is left alone."""
        if isinstance(found, Salvage) and self._leaves_alone(found):
            found.plan = Plan(found.directory)
        if any(one.missing for one in found.remains) and self.nodes.partition(found.directory).is_compacted:
            found.remains = [one for one in found.remains if not one.missing]  # the cleaner may have left these gaps
        for text in found.warnings(self._who_has, suggests_replica=self._options.from_replica is None):
            self.reporter.warning(text)
        self.damage_remains |= bool(found.remains or found.unrepaired)
        found.plan.facts = list(found.facts())
        name = self.name_of_copy(found.directory, self._is_single)
        # Entries of its name are those of the topic that is there, not of one that was deleted or set aside.
        key = None if name.endswith(ABANDONED_SUFFIXES) else partition_of(found.directory)
        if key is not None:
            self._ends[key] = found.next_offset
        if not isinstance(found, Salvage):
            self._segments, self._unscanned = self._segments + len(found.logs), self._unscanned + found.unscanned
            self._intervals.report(found.directory, found.interval if found.plan else None)
        elif key is not None and found.log_start is not None:
            self._log_starts[key] = found.log_start
        return found.plan

    def _warn_of_unscanned(self, directory: str) -> None:
        """Damage in segments that are not scanned stays unnoticed."""
        if self._unscanned:
            self.reporter.warning(
                f"{directory}: {self._unscanned} of {plural(self._segments, 'segment', 'segments')} skipped: "
                "below the recovery point, or the stop was clean; --full scans all"
            )

    def _salvage(self, directory: str, start: BrokerStart) -> Salvage:
        from kseg.recovery.salvage.salvage import Attempt, plan_salvage  # mode broker starts without it
        from kseg.recovery.salvage.segment_scan import BatchFilter

        replica, partition = self._options.from_replica, self.nodes.partition(directory)
        batch_filter = BatchFilter(self._options.drops_undecodable, self._options.drop_batches)
        if replica is not None:
            from kseg.recovery.replica import plan_from_replica, replica_of  # few recoveries have one

            if (found := replica_of(directory, replica)) is not None:
                return plan_from_replica(directory, found, start, partition.is_compacted, batch_filter)
            self.reporter.warning(f"{directory}: {replica} has no replica of it")
        make_attempt = partial(Attempt, siblings=self._siblings)
        return plan_salvage(directory, start, lambda: partition.is_compacted, batch_filter, make_attempt)


def check_one_topic(options: RepairOptions, paths: Iterable[str], problem: str) -> None:
    """Raises RequestError if an option is for one topic, and partition directories are of several."""
    if (name := options.for_one_topic) and len({found[0] for found in map(partition_of, paths) if found}) > 1:
        raise RequestError(f"{name}: {problem}")


def with_known_interval(start: BrokerStart, nodes: Nodes, partition: str) -> BrokerStart:
    """Returns the start with the index.interval.bytes of the partition's topic, if it has none and that is known."""
    if start.interval_bytes is not None:
        return start
    known, source = nodes.partition(partition).interval_bytes
    return start if known is None else replace(start, interval_bytes=known, interval_source=source)


MIN_PARTITIONS = 8
"""With fewer small partitions, starting processes takes longer than they save."""

LARGEST_BYTES = 64 << 20
"""Limit of the bytes in the segments of a small partition."""

_DIED = (
    "a process that planned a partition has died (killed for want of memory?); nothing was changed; --jobs 1 works "
    "without such processes"
)

T = TypeVar("T")

PartitionStart = tuple[str, BrokerStart]
"""A partition directory, and the facts that a broker's start knows."""

Outcome = Recovery | KsegError
"""A plan, or the error."""


def plan_partitions(tasks: Sequence[PartitionStart], jobs: int) -> Generator[Outcome]:
    """Yields the outcomes in the order of the tasks; many small partitions are planned in several processes. ``jobs``:
    their number.

    Raises KsegError if a process dies. The caller must close the generator; this ends the processes.
    """
    small = [number for number, (directory, _) in enumerate(tasks) if _is_small(directory)]
    if jobs == 1 or len(small) < MIN_PARTITIONS or not all(Place(directory).is_forkable for directory, _ in tasks):
        yield from (outcome_of(plan_partition, *task) for task in tasks)
        return
    chosen = frozenset(small)

    def plan(at: int, put: Put) -> None:
        put(_plan_to_send(*tasks[small[at]]))

    with closing(in_processes(min(jobs, len(small)), len(small), lambda _: plan, _DIED)) as sent:
        for number, task in enumerate(tasks):
            yield _received(next(sent)) if number in chosen else outcome_of(plan_partition, *task)


def _is_small(directory: str) -> bool:
    """Whether the segments have at most `LARGEST_BYTES`."""
    try:
        with Place(directory).entries() as entries:
            logs = (entry for entry in entries if entry.name.endswith(LOG))
            return sum(entry.stat(follow_symlinks=False).st_size for entry in logs) <= LARGEST_BYTES
    except OSError:
        return False  # `plan_partition` reports the error


def outcome_of(plan: Callable[[str, BrokerStart], T], directory: str, start: BrokerStart) -> T | KsegError:
    """Returns the plan, or the error of making it."""
    try:
        return plan(directory, start)
    except KsegError as error:
        return error
    except OSError as error:
        return PathError(f"{error.filename or directory}: {error.strerror or error}")


def _plan_to_send(directory: str, start: BrokerStart) -> Outcome:
    """Returns an outcome without views of this process's memory or temporary files."""
    found = outcome_of(plan_partition, directory, replace(start, jobs=1))
    steps = found.plan.steps if isinstance(found, Recovery) else []
    for i, step in enumerate(steps):
        pieces = tuple(bytes(piece) if isinstance(piece, memoryview) else piece for piece in step.pieces)
        steps[i] = replace(step, pieces=pieces)
    return found


def _received(found: Outcome) -> Outcome:
    """Returns an outcome. Content of all partitions beyond SPILL_BYTES is moved to temporary files."""
    if isinstance(found, Recovery):
        steps = found.plan.steps
        Workspace.made_bytes += sum(len(p) for step in steps for p in step.pieces if isinstance(p, bytes))
        if Workspace.made_bytes > SPILL_BYTES:
            files = [File(None, step.size, step.pieces) for step in steps]
            spill(files)
            steps[:] = [replace(step, pieces=file.pieces) for step, file in zip(steps, files, strict=True)]
    return found


_NO_LIMIT = (1 << 31) - 1
"""Messages are indexed even if they are too large for an old broker."""


class DamagedLogError(KsegError):
    """A .log is damaged, so its index could cover only a part of it; or its batches belong to another partition."""

    exit_status = 1


def reindex(workspace: Workspace, start: BrokerStart, with_snapshots: bool = False) -> Interval:
    """Rebuilds the indexes of all segments of a workspace from the .log alone; ``with_snapshots``: also the producer
    snapshots at segment bases and at the log end. Returns the interval of the indexes.

    After a clean stop no index keeps the zeros of a preallocated file, but for the metadata log since 4.4. If the log
    does not begin at offset 0, earlier producers come from the snapshot at its first segment's base. Raises
    DamagedLogError if a .log is damaged, PathError if it cannot be read.
    """
    names = workspace.names(LOG)
    segments = [BrokerSegment(workspace, name.removesuffix(LOG), workspace.offset_of(name)) for name in names]
    segments.sort(key=lambda segment: segment.base_offset)
    interval = interval_of(workspace, start.interval_bytes, start.interval_source)
    era = replace(start.era, message_limit_bytes=_NO_LIMIT)
    with_snapshots = with_snapshots and era.has_producers
    if not segments:
        return interval
    manager = ProducerStateManager(workspace, 0, era, {}, partial(BrokerSegment, workspace))
    base = segments[0].base_offset
    if base in manager.offsets and era.has_producers:
        manager.load_at(base)
    manager.end_offset = manager.snapshot_offset = base

    def each(headers: HeaderRows, segment: BrokerSegment) -> ReplayResult:
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
        self._with_snapshots, self._chosen = options.with_snapshots, Topics(options.topics, self.nodes)
        self._intervals = TopicIntervals(options.interval_bytes, self.nodes, reporter.warning, reporter.detail)

    def plan_partition(self, directory: str, known: Known) -> Plan:
        workspace = Workspace(directory, self._start.jobs)
        start = replace(self._start, was_clean=known.get(segment_files.CLEAN_SHUTDOWN) is not None)
        interval = reindex(workspace, with_known_interval(start, self.nodes, directory), self._with_snapshots)
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
        named = self._chosen.named(directory, segment_files.own_partitions(directory))
        yield from self.planned(named, lambda path: self.plan_partition(path, known))
