"""Brings partitions to where they are wanted: under the names that a broker has taken from them, in another topic or
cluster, or out of remote storage."""

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from uuid import uuid4

from kseg.changes.apply import Keeping
from kseg.changes.driver.command import ChangeOptions, Reporter
from kseg.changes.journal import Known, TopicPartition
from kseg.changes.plan import Plan
from kseg.decoders.framed import read_framed
from kseg.decoders.schemas import CLUSTER_METADATA
from kseg.errors import PathError, errors_at, refuse_if
from kseg.formats.schema import MessageError
from kseg.limits import MAX_ROOT_FILE_BYTES
from kseg.node.log_directory import METADATA_PARTITION, records_in, topic_id_at
from kseg.node.node import Nodes
from kseg.options import declaration
from kseg.options.declaration import INPUT, RULES, PathKind, given_in, option, refuse
from kseg.recovery import options as recovery_options
from kseg.recovery.leftovers import deleted_segments, has_records
from kseg.recovery.options import BrokerStart, RepairOptions
from kseg.recovery.planner import RecoveryPlanner, partition_of
from kseg.recovery.result import Recovery
from kseg.segment.files import MAX_NAME_BYTES, is_renamed_directory, list_segments, own_name, parse_partition_name
from kseg.sidefiles import checkpoints
from kseg.sidefiles.checkpoints import LOG_STARTS
from kseg.sidefiles.text_files import PARTITION_METADATA
from kseg.stores.place import Place
from kseg.stores.remote.recognition import is_topic

_MAX_LISTED = 5
_MOVES = {"--undelete", "--as", "--for-cluster"}


@dataclass(frozen=True, slots=True)
class RestoreOptions(RepairOptions):
    """The options of `kseg restore`. ``undeletes``: deleted segments and directories are restored; ``from_remote``:
    remote storage that partitions are rebuilt from; ``name``: the topic's new name, or for one partition TOPIC-N;
    ``new_cluster``: a log directory of the cluster that will serve the partitions; ``resets_epochs``: the leader
    epochs of all batches become 0."""

    undeletes: bool = option(
        "--undelete",
        RULES,
        "Restore directories that end in -delete, -stray or -future, and segments that end in .deleted.",
        bool,
    )
    from_remote: str | None = option(
        "--from-remote",
        INPUT,
        "Rebuild partitions from remote (tiered) storage in --output; PATH: a log directory that is left, if any.",
        metavar="REMOTE",
    )
    private_keys: tuple[str, ...] = declaration.private_keys()
    topics: tuple[str, ...] = declaration.topics("a log directory or remote storage")
    name: str | None = option(
        "--as",
        RULES,
        "Give the topic in --output this name, or one partition the name TOPIC-N.",
        metavar="TOPIC",
        in_python="as_",
    )
    new_cluster: str | None = option(
        "--for-cluster",
        INPUT,
        "Make the partitions fit for the cluster of a broker: topic ids and log starts.",
        PathKind(is_checked=True),
        metavar="LOGDIR",
    )
    resets_epochs: bool = option(
        "--reset-epochs", RULES, "Set the leader epochs of batches to 0, so that groups can continue at once.", bool
    )

    @property
    def for_one_topic(self) -> str:
        return "--as" if self.name else "--topic-id" if self.topic_id else ""

    def check(self, paths: Sequence[str], change: ChangeOptions) -> None:
        """Raises RequestError for options that contradict each other, or lack one."""
        given = given_in(self)
        refuse_if(self.new_cluster and self.topic_id, "--for-cluster excludes --topic-id")
        refuse_if(self.name is not None and not is_topic(self.name), f"--as {self.name!r}: not a topic name")
        if self.from_remote is None:
            refuse(("--private-key",), given, "is for --from-remote")
            refuse_if(not given & _MOVES, "give --undelete, --as, --for-cluster or --from-remote")
            refuse_if(not paths, "Missing argument 'PATH...'.")
            refuse_if(
                self.name is not None and change.output is None,
                "--as needs --output: a log directory has each partition once",
            )
            return
        salvaging = "--records", "--drop-undecodable", "--drop-batch"
        refuse((*salvaging, "--full", "--rebuild-epochs", "--undelete"), given, "excludes --from-remote")
        refuse_if(not change.output and not change.is_dry, "--from-remote needs --output")
        refuse_if(change.keeping != Keeping(), "--from-remote removes nothing: no --quarantine, no --no-quarantine")
        refuse_if(change.links, "--link excludes --from-remote")


class LogBounds(NamedTuple):
    """The offsets of a partition's first segment, of the log's start, and of its end."""

    first_base: int
    log_start: int
    end: int


@dataclass(frozen=True)
class Destination:
    """The topic and the cluster that the options name for restored partitions."""

    options: RestoreOptions
    _nodes: Nodes = field(default_factory=Nodes)

    def rename(self, topic: str, partition: int, is_single: bool) -> TopicPartition:
        """Returns the new topic and number. ``is_single``: no other partition is restored in the run."""
        if self.options.name is None:
            return topic, partition
        found = re.fullmatch(r"(.+)-(0|[1-9][0-9]{0,8})", self.options.name) if is_single else None
        return (found[1], int(found[2])) if found else (self.options.name, partition)

    def given_id(self, topic: str) -> str | None:
        """Returns the id that a topic must get, None for any. Raises PathError."""
        if self.options.topic_id is not None or self.options.new_cluster is None:
            return self.options.topic_id
        settings = self._nodes.at(self.options.new_cluster).topics
        if settings is None:
            raise PathError(f"{self.options.new_cluster}: holds no readable cluster metadata: give --topic-id")
        if topic not in settings.ids:
            raise PathError(f"{self.options.new_cluster}: the cluster has no topic {topic}: create it first")
        return settings.ids[topic]

    def checkpoints(self, bounds: Mapping[TopicPartition, LogBounds]) -> dict[str, bytes]:
        """Returns checkpoint files for the partitions. For a new cluster that is the file of log starts, with the
        entries of its other partitions.

        Raises PathError.
        """
        starts: dict[TopicPartition, int] = {}
        if self.options.new_cluster is not None:
            path = Place(self.options.new_cluster) / LOG_STARTS
            with errors_at(path), suppress(FileNotFoundError):
                content = path.read(MAX_ROOT_FILE_BYTES)
                starts = checkpoints.offsets_of(checkpoints.read_offset_checkpoint(content))
        for partition, found in bounds.items():
            checkpoints.set_log_start(starts, partition, found.log_start, found.first_base)
        files = {LOG_STARTS: checkpoints.build_offset_checkpoint(dict(sorted(starts.items())))}
        if self.options.new_cluster is None:
            offsets = {partition: found.end for partition, found in sorted(bounds.items())}
            ends = checkpoints.build_offset_checkpoint(offsets)
            files |= {checkpoints.RECOVERY_POINTS: ends, checkpoints.HIGH_WATERMARKS: ends}
        return files


# Partition directories that a broker has renamed (-delete, -stray, -future), and the names that they get back.
#
# A broker removes -delete directories when it starts. It renames a log to -stray if its topic id is not in the
# cluster's metadata, and creates an empty log if there is a topic of that name. It shortens the topic if the name has
# more than 255 characters. Source: LocalLog.logDirNameWithSuffixCappedLength of Kafka 4.4.0.


def restored_name(path: str, nodes: Nodes) -> str:
    """Returns the name that a renamed directory had; "" if a broker shortened it and no metadata log has its topic."""
    name, number = own_name(path), parse_partition_name(Place(path).absolute.name)
    if len(os.fsencode(Place(path).absolute.name)) < MAX_NAME_BYTES or number is None:
        return name
    topic_id, metadata = topic_id_at(path), nodes.at(Place(path).absolute.parent).metadata
    topic = None if topic_id is None or metadata is None else _topic_of(topic_id, metadata.path)
    return "" if topic is None else f"{topic}-{number[1]}"


def holder_of(path: str, name: str, nodes: Nodes) -> str | None:
    """Returns the other log directory of the node that has a partition; None if there is none."""
    parent = os.path.realpath(Place(path).absolute.parent)
    others = (one for one in nodes.at(parent).directories if os.path.realpath(one.path) != parent)
    return next((one.path for one in others if name in one.directories), None)


def _topic_of(topic_id: str, log_directory: str) -> str | None:
    """Returns the name of a topic, even a deleted one, by a log directory's metadata log; None for an unknown id."""
    for _, _, value in records_in(list_segments(Place(log_directory) / METADATA_PARTITION)):
        with suppress(MessageError):
            fields = read_framed(value, CLUSTER_METADATA).fields
            if fields.get("topicId") == topic_id and "name" in fields:
                return str(fields["name"])
    return None


class RestorePlanner(RecoveryPlanner):
    """Makes the plans of `kseg restore` without remote storage: those of a recovery, for partitions that get other
    names, log starts, topic ids or leader epochs, and deleted segments back."""

    verb = "restore"

    _options: RestoreOptions

    def __init__(self, options: RestoreOptions, change: ChangeOptions, reporter: Reporter, **more: Any) -> None:
        """``more``: as of `RecoveryPlanner`."""
        self._destination = Destination(options)
        self._bounds: dict[TopicPartition, LogBounds] = {}
        """Those of all restored partitions, under their new names."""
        super().__init__(options, change, reporter, **more)

    def _begin(self, paths: Sequence[str], names_partition: bool) -> list[str]:
        """As in a recovery; directories that cannot be restored fail, empty ones with a restored name are displaced."""
        paths = super()._begin(paths, names_partition)
        self._restores: dict[str, tuple[str, str]] = {}
        """The new name of each restored directory, and that of an empty one that had it, "" if there is none."""
        if not self._options.undeletes:
            return paths
        left_out = set[str]()
        moved = [path for path in paths if is_renamed_directory(path) and has_records(path)]
        names = Counter(map(own_name, moved))
        for path in moved:
            name = own_name(path) if self._options.name is not None else restored_name(path, self.nodes)
            target, error = Place(path).absolute.parent / name, ""
            if not name:
                error = f"{path}: a broker has cut its name, and no metadata log has its topic id: give --as"
            elif not self._is_copy and (holder := holder_of(path, name, self.nodes)) is not None:
                error = f"{path}: {name} lies in {holder}, too: a broker does not start with both"
            elif names[own_name(path)] > 1:
                error = f"{path}: {names[own_name(path)]} directories were {name}: name the one to restore"
            elif not (target in paths if self._is_copy else target.lexists()):
                self._restores[path] = name, ""
            elif target.is_link() or not target.is_dir() or has_records(target):
                error = f"{path}: {name} is there and holds records"
                error += ": take it back under another name, with --output and --as"
            else:
                topic, _, number = name.rpartition("-")  # brokers cut a long topic, too
                ending = f"-{number}.{uuid4().hex}-delete"
                self._restores[path] = name, topic[: MAX_NAME_BYTES - len(ending)] + ending
                left_out.add(Place(path).parent / name)
            if error:
                self.failures.add(PathError(error), path)
                left_out.add(path)
        return [path for path in paths if path not in left_out]

    def plan_root(self, directory: str, known: Known, has_changed: bool) -> Plan:
        plan = super().plan_root(directory, known, has_changed)
        for path, (name, displaced) in () if self._is_copy else self._restores.items():
            if path in self.failures.errors:
                continue
            if displaced:
                plan.move_directory(name, displaced, "is an empty log")
            plan.move_directory(os.path.basename(path), name, "takes the partition back")
            place, (topic, _) = Place(directory).absolute, partition_of(path) or ("", 0)
            cluster = self.nodes.at(place).topics
            if topic and cluster is not None and not cluster.lacking and topic not in cluster.ids:
                self.reporter.warning(
                    f"{os.path.join(place, name)}: the cluster has no topic {topic}: create it, stop the broker, and "
                    "repeat the command: a broker sets the directory aside as -stray until then"
                )
        return plan

    def _moved_entries(self, checkpoint: str, entries: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        if self._options.name is not None:
            sources = [partition for partition in map(partition_of, self._starts) if partition in entries]
            entries = {self._renamed(partition): entries[partition] for partition in sources if partition}
        return super()._moved_entries(checkpoint, entries)

    def _renamed(self, partition: TopicPartition) -> TopicPartition:
        return self._destination.rename(*partition, self._is_single)

    def _new_partition(self, directory: str) -> TopicPartition | None:
        partition = partition_of(self._restores[directory][0] if directory in self._restores else directory)
        return None if partition is None else self._renamed(partition)

    def name_of_copy(self, directory: str, is_single: bool) -> str:
        partition = partition_of(directory)
        if partition is not None and self._options.name is not None:
            topic, number = self._renamed(partition)
            return f"{topic}-{number}"
        if directory in self._restores:
            return self._restores[directory][0]
        return super().name_of_copy(directory, is_single)

    def root_of_copy(self) -> dict[str, bytes] | None:
        return None if self._options.new_cluster is None else self._destination.checkpoints(self._bounds)

    def _given_id(self, topic: str) -> str | None:
        return self._destination.given_id(topic)

    def _moved_start(self, directory: str, start: BrokerStart) -> BrokerStart:
        topic, ids = start.name.rpartition("-")[0], start.topic_ids
        is_of_other = bool(start.name) and not own_name(directory).startswith(f"{topic}-")
        has_id = (Place(directory) / PARTITION_METADATA).lexists()  # that of a partition of a KRaft cluster
        if is_of_other and has_id and (ids is None or ids.find(topic) is None):
            self.reporter.warning(
                f"{directory}: the id of topic {topic} is not known: {start.name} has no {PARTITION_METADATA}, without "
                "which a broker sets it aside: give --for-cluster LOGDIR or --topic-id UUID"
            )
        if self._options.resets_epochs:
            start = replace(start, resets_epochs=True, was_clean=False, recovery_point=0)
        is_new = self._options.new_cluster is not None and not start.log_start_offset
        return self._with_own_start(directory, start, begins_with_epochs=is_new)

    def _with_log_start(self, directory: str, start: BrokerStart, log_start: int, first_base: int) -> BrokerStart:
        """Adds the deleted segments to restore, before which the log may start."""
        if self._options.name is not None:
            self._has_new_start.add(directory)
        if not self._options.undeletes:
            return super()._with_log_start(directory, start, log_start, first_base)
        kept, warn = 0 if self._names_partition or self._options.topics else log_start, self.reporter.warning
        found = deleted_segments(directory, kept)
        for file, reason in found.skipped[:_MAX_LISTED]:
            warn(f"{file}: not restored: {reason}")
        if (more := len(found.skipped) - _MAX_LISTED) > 0:
            warn(f"{directory}: {more} more deleted segments are not restored")
        for segment in found.restored:
            if not segment.is_intact:
                warn(f"{directory}: the segment of offset {segment.base_offset} is damaged: kseg verify")
        if found.restored and found.restored[0].base_offset < max(log_start, first_base):
            first_base = found.restored[0].base_offset
            log_start = max(kept, first_base)
            warn(
                f"{directory}: the log starts at offset {log_start} again; retention deletes old segments again: "
                "change the topic's settings before a broker starts"
            )
        start = replace(start, deleted=found, epochs=max(start.epochs, recovery_options.EPOCHS_REPAIRED))
        return super()._with_log_start(directory, start, log_start, first_base)

    @property
    def _changes_undamaged(self) -> bool:
        options = self._options
        return bool(super()._changes_undamaged or options.name or options.undeletes or options.resets_epochs)

    def _reported(self, found: Recovery) -> Plan:
        plan = super()._reported(found)
        partition = self._new_partition(found.directory)
        if partition is not None and found.directory in self._starts:
            log_start, first_base = self._starts[found.directory]
            self._bounds[partition] = LogBounds(first_base, log_start, found.next_offset)
        return plan
