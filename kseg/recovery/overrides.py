"""Overrides the names, topic ids and log starts of partitions in one run of `kseg recover`."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from uuid import uuid4

from kseg.changes.driver.reporter import Failures, Messages
from kseg.changes.journal import RootFile, TopicPartition
from kseg.changes.plan import Plan
from kseg.errors import KsegError, PathError
from kseg.formats.suffixes import LOG
from kseg.logdir.topics import Topics
from kseg.recovery.deleted_segments import deleted_segments, first_epoch_start
from kseg.recovery.destination import Destination, LogBounds, TopicIds
from kseg.recovery.options import EPOCHS_REPAIRED, BrokerStart, RecoverOptions
from kseg.segment.files import CLEAN_SHUTDOWN, list_segments, own_name, parse_partition_name
from kseg.sidefiles.checkpoints import (
    LOG_STARTS,
    OFFSET_CHECKPOINTS,
    OffsetCheckpoint,
    build_offset_checkpoint,
    read_offset_checkpoint,
)
from kseg.sidefiles.partition_metadata import PARTITION_METADATA
from kseg.sidefiles.problems import SideFileProblem
from kseg.stores import trees

# The files of a log directory itself that a broker's start reads and a recovery may change.

CHECKPOINTS = tuple(OFFSET_CHECKPOINTS)


@dataclass(slots=True)
class Root:
    """``offsets``: for each checkpoint file, the offset of each (topic, partition). ``unreadable``: checkpoints that a
    broker treats as empty, with the reason."""

    directory: str
    was_clean: bool = False
    offsets: dict[str, dict[tuple[str, int], int]] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, directory: str, known: Mapping[str, RootFile | None], as_broker: bool) -> "Root":
        """Parses the contents of the files as a command has read them.

        ``as_broker``: an unreadable checkpoint has no entries; otherwise those that can be read.
        """
        root = cls(directory, known.get(CLEAN_SHUTDOWN) is not None)
        for name in CHECKPOINTS:
            root.offsets[name] = {}
            if (file := known.get(name)) is None:
                continue
            found = root.offsets[name]
            for item in read_offset_checkpoint(file.content):
                if isinstance(item, SideFileProblem):
                    root.unreadable.setdefault(name, item.message)
                else:
                    found[item.topic, item.partition] = item.offset
            if name in root.unreadable and as_broker:
                found.clear()
        return root

    def offset(self, checkpoint: str, partition: tuple[str, int] | None) -> int | None:
        return self.offsets[checkpoint].get(partition) if partition else None

    def plan(
        self,
        ends: Mapping[tuple[str, int], int],
        log_starts: Mapping[tuple[str, int], int],
        replaces_unreadable: bool = True,
    ) -> Plan:
        """Returns the changes after which no recovery point or high watermark is beyond its log end, and no checkpoint
        is unreadable. ``log_starts``: the new log start offsets of partitions that get one.

        Without ``replaces_unreadable`` unreadable ones are kept, because they have entries of other partitions too.
        """
        plan = Plan(self.directory)
        for name in CHECKPOINTS:
            beyond = {key: end for key, end in ends.items() if self.offsets[name].get(key, -1) > end}
            changed = log_starts if name == LOG_STARTS else beyond
            is_wanted, reason = bool(changed), "pointed beyond the end of a log"
            if name in self.unreadable:
                is_wanted = replaces_unreadable
                reason = f"cannot be read ({self.unreadable[name]}): a broker takes it for empty and then stops"
            if is_wanted:
                entries = {**self.offsets[name], **changed}
                rows = [OffsetCheckpoint(*key, offset) for key, offset in entries.items()]
                plan.write(name, [build_offset_checkpoint(rows)], reason)
        return plan


def partition_of(directory: str) -> tuple[str, int] | None:
    """Returns topic and partition number from the name of a directory, even if a broker has renamed it (-delete,
    -future, -stray)."""
    return parse_partition_name(os.path.basename(os.path.abspath(directory)))


# Partition directories that a broker has renamed (-delete, -stray, -future), and their restored names.
#
# A broker removes -delete directories when it starts. It renames a log to -stray if its topic id is not in the
# cluster's metadata, and creates an empty log if there is a topic of that name.


class DirectoryRestore(NamedTuple):
    """``path`` is renamed to ``name``, and an empty directory that has this name to ``displaced``."""

    path: str
    name: str
    displaced: str = ""


def is_renamed_directory(path: str) -> bool:
    """Whether a broker has renamed a partition directory."""
    return own_name(path) != os.path.basename(os.path.abspath(path))


def plan_restores(paths: Sequence[str], is_copy: bool) -> tuple[list[DirectoryRestore], list[tuple[str, KsegError]]]:
    """Returns the renames of directories among ``paths``, and the errors of others; empty directories are skipped.

    ``is_copy``: the names are those in an output, with all of ``paths``.
    """
    found: list[DirectoryRestore] = []
    errors: list[tuple[str, KsegError]] = []
    moved = [path for path in paths if is_renamed_directory(path) and has_records(path)]
    names = Counter(own_name(path) for path in moved)
    for path in moved:
        name = own_name(path)
        target = os.path.join(os.path.dirname(os.path.abspath(path)), name)
        if names[name] > 1:
            text = f"{path}: {names[name]} directories were {name}: name the one to restore"
            errors.append((path, PathError(text)))
        elif not (target in paths if is_copy else trees.lexists(target)):
            found.append(DirectoryRestore(path, name))
        elif trees.islink(target) or not trees.isdir(target) or has_records(target):
            text = f"{path}: {name} is there and holds records: take it back under another name, with --output and --as"
            errors.append((path, PathError(text)))
        else:
            found.append(DirectoryRestore(path, name, f"{name}.{uuid4().hex}-delete"))
    return found, errors


def has_records(path: str) -> bool:
    """Whether a partition directory has a segment that is not empty, deleted ones included."""
    return any(trees.status(file.path).st_size for file in list_segments(path, everything=True))


_MAX_LISTED = 5


class Overrides:
    """``topics``: of the log directories; ``is_copy``: partitions are written to an output."""

    def __init__(
        self, options: RecoverOptions, topics: Topics, is_copy: bool, messages: Messages, failures: Failures
    ) -> None:
        self.destination = Destination(options.name, options.new_cluster, options.topic_id)
        self._options, self._topics, self._is_copy = options, topics, is_copy
        self._messages, self._failures = messages, failures
        self._is_single = False
        self._restores: dict[str, DirectoryRestore] = {}
        self._starts: dict[str, tuple[int, int]] = {}
        """The log start and the first base offset of each partition."""
        self._has_new_start: set[str] = set()
        self._bounds: dict[TopicPartition, LogBounds] = {}

    def choose(self, paths: Sequence[str]) -> list[str]:
        """Selects the partitions to recover among those at one PATH; errors of others are reported."""
        self._restores.clear()
        self._starts.clear()
        self._has_new_start.clear()
        self._is_single = len(paths) == 1
        if not self._options.undeletes:
            return list(paths)
        found, errors = plan_restores(paths, self._is_copy)
        for path, error in errors:
            self._failures.add(error, path)
        self._restores = {each.path: each for each in found}
        failed = {path for path, _ in errors}
        displaced = {os.path.join(os.path.dirname(each.path), each.name) for each in found if each.displaced}
        return [path for path in paths if path not in failed and path not in displaced]

    def start(self, path: str, start: BrokerStart, ids: TopicIds) -> BrokerStart:
        """Returns the start of a partition with its new name, log start, and restored segments. ``ids``: those of its
        log directory. Raises PathError."""
        options, name = self._options, self.name_of(path)
        start = replace(start, name=name if name != os.path.basename(os.path.abspath(path)) else "")
        if not (start.name or options.undeletes or options.resets_epochs or self.destination.is_other):
            return start
        if start.name:
            self._warn_without_id(path, start.name, ids)
        if options.resets_epochs:
            start = replace(start, resets_epochs=True, was_clean=False, recovery_point=0)
        bases = [file.base_offset or 0 for file in list_segments(path) if file.kind == LOG]
        first_base, log_start = min(bases, default=0), start.log_start_offset
        if (is_renamed_directory(path) and start.name) or (options.new_cluster is not None and not log_start):
            log_start = max(first_epoch_start(path), first_base)
        if options.undeletes:
            start, log_start, first_base = self._with_deleted(path, start, log_start, first_base)
        if log_start != start.log_start_offset or is_renamed_directory(path) or self.destination.name is not None:
            self._has_new_start.add(path)
        self._starts[path] = log_start, first_base
        return replace(start, log_start_offset=log_start)

    def _with_deleted(
        self, path: str, start: BrokerStart, log_start: int, first_base: int
    ) -> tuple[BrokerStart, int, int]:
        found = deleted_segments(path)
        for file, reason in found.skipped[:_MAX_LISTED]:
            self._messages.warning(f"{file}: not restored: {reason}")
        if len(found.skipped) > _MAX_LISTED:
            self._messages.warning(f"{path}: {len(found.skipped) - _MAX_LISTED} more deleted segments are not restored")
        for segment in found.restored:
            if not segment.is_intact:
                self._messages.warning(f"{path}: the segment of offset {segment.base_offset} is damaged: kseg verify")
        if found.restored and found.restored[0].base_offset < max(log_start, first_base):
            log_start = first_base = found.restored[0].base_offset
            self._messages.warning(
                f"{path}: the log starts at offset {log_start} again; retention deletes old segments again: "
                "change the topic's settings before a broker starts"
            )
        return replace(start, deleted=found, epochs=max(start.epochs, EPOCHS_REPAIRED)), log_start, first_base

    def name_of(self, path: str) -> str:
        """Returns the name that a partition directory gets."""
        partition = partition_of(path)
        if partition is not None and self.destination.name is not None:
            topic, number = self.destination.rename(*partition, self._is_single)
            return f"{topic}-{number}"
        gets_own_name = path in self._restores or (self._is_copy and self._is_single)
        return own_name(path) if gets_own_name else os.path.basename(os.path.abspath(path))

    def add(self, path: str, next_offset: int) -> None:
        """Adds the bounds of a recovered partition to the checkpoints of an output."""
        partition = partition_of(path)
        if partition is not None and path in self._starts:
            log_start, first_base = self._starts[path]
            self._bounds[self._new_partition(partition)] = LogBounds(first_base, log_start, next_offset)

    def root_of_copy(self) -> dict[str, bytes] | None:
        """Returns the checkpoints of an output for a new cluster, else None."""
        return None if self.destination.new_cluster is None else self.destination.checkpoints(self._bounds)

    def plan_root(self, plan: Plan, root: Root, is_source: bool) -> None:
        """Adds new entries of checkpoints, and the renames of directories, to the plan of a log directory.

        ``is_source``: the log directory is that of the partitions, not an output.
        """
        planned = {step.file for step in plan.steps}
        for name in root.offsets:
            entries = dict(root.offsets[name])
            if self.destination.name is not None and is_source:
                entries = {
                    self._new_partition(partition): entries[partition]
                    for partition in self._sources()
                    if partition in entries
                }
            if name == LOG_STARTS:
                self._add_starts(entries)
            if entries != root.offsets[name] and name not in root.unreadable and name not in planned:
                rows = [OffsetCheckpoint(*partition, offset) for partition, offset in entries.items()]
                plan.write(name, [build_offset_checkpoint(rows)], "for partitions with another name or log start")
        for each in [] if self._is_copy else self._restores.values():
            if each.path in self._failures.paths:
                continue
            if each.displaced:
                plan.move_directory(each.name, each.displaced, "is an empty log")
            plan.move_directory(os.path.basename(each.path), each.name, "takes the partition back")
            self._warn_of_topic(each)

    def _sources(self) -> list[TopicPartition]:
        return [partition for partition in map(partition_of, self._starts) if partition is not None]

    def _new_partition(self, partition: TopicPartition) -> TopicPartition:
        return self.destination.rename(*partition, self._is_single)

    def _add_starts(self, entries: dict[TopicPartition, int]) -> None:
        for path in sorted(self._has_new_start):
            (log_start, first_base), partition = self._starts[path], partition_of(path)
            if partition is None or path in self._failures.paths:
                continue
            entries.pop(self._new_partition(partition), None)
            if log_start > first_base:
                entries[self._new_partition(partition)] = log_start

    def _warn_without_id(self, path: str, name: str, ids: TopicIds) -> None:
        """Warns if a partition of a KRaft cluster gets the name of a topic whose id is not known."""
        topic = name.rpartition("-")[0]
        is_of_other = not own_name(path).startswith(f"{topic}-")
        if is_of_other and trees.lexists(os.path.join(path, PARTITION_METADATA)) and ids.find(topic) is None:
            self._messages.warning(
                f"{path}: the id of topic {topic} is not known: {name} has no {PARTITION_METADATA}, without which a "
                "broker sets it aside: give --for-cluster LOGDIR or --topic-id UUID"
            )

    def _warn_of_topic(self, each: DirectoryRestore) -> None:
        """Warns if the cluster has no topic of the name."""
        root, partition = os.path.dirname(os.path.abspath(each.path)), partition_of(each.path)
        known = self._topics.known(root)
        if partition is not None and known is not None and known.is_complete and partition[0] not in known.ids:
            self._messages.warning(
                f"{os.path.join(root, each.name)}: the cluster has no topic {partition[0]}: create it, stop the "
                "broker, and repeat the command: a broker sets the directory aside as -stray until then"
            )
