"""Rebuilds partitions of remote storage, several at a time, each whole or not at all; resumes interrupted runs."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from kseg.changes.apply import check_free
from kseg.changes.content import write_pieces
from kseg.changes.copies import copied_rows
from kseg.changes.disk import Disk, opened, umask
from kseg.changes.driver.command import ChangeOptions, Failures, Outcome, Reporter, RunState
from kseg.changes.journal import TopicPartition
from kseg.changes.new_directories import ResumableOutput, resumable_output, resumable_store_output
from kseg.changes.plan import CREATE, DELETE, Pieces, Plan, ReplicaOffsets, Step
from kseg.errors import KsegError, refuse_if
from kseg.formats.json_values import name_value
from kseg.formats.suffixes import INDEX_SUFFIXES, LOG, SIDE_SUFFIXES, SNAPSHOT
from kseg.node import remote_partitions
from kseg.node.node import Nodes, is_of_one_node
from kseg.node.remote_partitions import Candidate, LocalLogs, LocalPartition, SegmentOffsets
from kseg.quantities import named_path, shell_line
from kseg.recovery.broker.loading import epoch_positions
from kseg.recovery.leftovers import has_records, span_of
from kseg.recovery.options import BrokerStart
from kseg.recovery.planner import DamagedLogError, reindex
from kseg.recovery.restoring import Destination, LogBounds, RestoreOptions
from kseg.recovery.workspace import Workspace
from kseg.runtime.threads import Threads, usable_cores
from kseg.segment.files import SegmentFile, regular_and_other_names, segment_stem
from kseg.segment.items import Batch
from kseg.segment.reader import open_segment
from kseg.segment.survey import FULL, HeaderRows, open_survey
from kseg.sidefiles.checkpoints import (
    LEADER_EPOCHS,
    OFFSET_CHECKPOINTS,
    EpochEntry,
    build_leader_epochs,
    build_offset_checkpoint,
    starting_at,
)
from kseg.sidefiles.text_files import PARTITION_METADATA, PartitionMetadata, build_partition_metadata
from kseg.stores.archives.spool import current_spool
from kseg.stores.place import Place
from kseg.stores.remote.keys import is_wanted, private_keys
from kseg.stores.remote.segment import ChunkError, RemotePartition, RemoteSegment, open_storage
from kseg.stores.stored_object import is_url, shown
from kseg.stores.windows import Buffers


@dataclass(slots=True)
class RestoredSegments:
    """The contents of a rebuilt partition: ``pieces`` of remote segments, then ``local`` segments, by offset;
    ``holes``: offsets that neither has.

    ``left_out``: remote segments, or parts of them, that are not used. ``remarks``: sentences about the partition.
    ``is_deleted``: the broker had begun to delete all segments.
    """

    pieces: list[SegmentOffsets] = field(default_factory=list)
    local: list[SegmentFile] = field(default_factory=list)
    local_directory: str = ""
    lineage: remote_partitions.Lineage = ()
    log_start: int = 0
    holes: list[remote_partitions.MissingOffsets] = field(default_factory=list)
    left_out: list[ReplicaOffsets] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    is_deleted: bool = False


def select_segments(partition: RemotePartition, logs: LocalLogs | None, is_named: bool) -> RestoredSegments:
    """Selects the segments of a partition.

    ``is_named``: --topic names the topic, so segments of a deleted topic are selected too. Raises KeyMissingError,
    PathError, UnsupportedError.
    """
    selection, local = RestoredSegments(), None
    candidates, unusable = remote_partitions.candidates_of(partition)
    for segment, reason in unusable:
        selection.left_out.append(_unused(segment, reason))
    if logs is not None:
        local = logs.partition(partition)
        kept = []
        for candidate in candidates:
            if not is_named and (partition.topic_id, partition.number, candidate.segment.segment_id) in logs.deleted:
                reason = f"the broker had begun to delete it; --topic {partition.topic} selects it all the same"
                selection.left_out.append(_left_out(candidate, reason))
            else:
                kept.append(candidate)
        selection.is_deleted = bool(candidates) and not kept
        candidates = kept
        selection.log_start = logs.log_starts.get((partition.topic, partition.number), 0)
    selection.lineage = remote_partitions.lineage_of(candidates)
    if local is not None and local.lineage and local.segments:
        _join(selection, candidates, local)
    local_start = (selection.local[0].base_offset or 0) if selection.local else None
    _select_pieces(selection, candidates, local_start)
    return selection


def _join(selection: RestoredSegments, candidates: list[Candidate], local: LocalPartition) -> None:
    """Selects the local log from its start, unless its replica is outdated."""
    if selection.lineage and selection.lineage[-1].epoch > local.lineage[-1].epoch:
        selection.remarks.append(
            f"{local.directory}: its last leader epoch is {local.lineage[-1].epoch}, the store has "
            f"{selection.lineage[-1].epoch}: an outdated replica, which is not used"
        )
        return
    selection.lineage = local.lineage
    selection.local_directory = local.directory
    end = max((candidate.end_offset for candidate in candidates), default=-1)
    selection.local = local.segments
    for number in range(len(local.segments) - 1, 0, -1):
        file, following = local.segments[number - 1], local.segments[number].base_offset or 0
        if following - 1 <= end and not span_of(file.path, Buffers()).is_intact:
            selection.remarks.append(f"{file.path}: is damaged, and replaced from the store")
            selection.local = local.segments[number:]
            break


def _select_pieces(selection: RestoredSegments, candidates: list[Candidate], local_start: int | None) -> None:
    """Sets the pieces below the local log, holes and log start."""
    lineage = selection.lineage
    if lineage:
        selection.log_start = max(selection.log_start, lineage[0].start_offset)
    live = remote_partitions.live_segments(candidates, lineage, selection.log_start)
    pieces = live.pieces
    if local_start is not None:
        below = (piece for piece in pieces if piece.first < local_start)
        pieces = [piece._replace(last=min(piece.last, local_start - 1)) for piece in below]
    selection.holes = remote_partitions.holes_between(pieces, local_start)
    selection.pieces = pieces
    first = pieces[0].first if pieces else (local_start or 0)
    if first > selection.log_start:
        selection.remarks.append(
            f"begins at offset {first}: nothing is left of offsets {selection.log_start} to {first - 1}"
        )
        selection.log_start = first
    selection.lineage = starting_at(lineage, selection.log_start)
    lasts = {id(piece.candidate): piece.last for piece in live.pieces}
    for candidate in live.abandoned:
        reason = "written by a leader whose records were lost: other leader epochs hold these offsets"
        first = lasts.get(id(candidate), candidate.start_offset - 1) + 1
        selection.left_out.append(_left_out(candidate, reason, first))
    for candidate in live.superseded:
        selection.left_out.append(_left_out(candidate, "other segments hold the same records"))


def _left_out(candidate: Candidate, reason: str, first: int | None = None) -> ReplicaOffsets:
    start = candidate.start_offset if first is None else first
    return ReplicaOffsets(start, candidate.end_offset, candidate.segment.path(), reason)


def _unused(segment: RemoteSegment, reason: str) -> ReplicaOffsets:
    """Returns a segment whose end is not known."""
    return ReplicaOffsets(segment.start_offset, segment.start_offset, segment.path(), reason)


@contextmanager
def _new_file(path: str, disk: Disk) -> Iterator[int]:
    with disk.new_file(path) as descriptor:
        disk.set_default_mode(descriptor)
        yield descriptor


def fetch(segment: RemoteSegment, path: str, disk: Disk) -> list[str]:
    """Writes the log of a remote segment to a new file. Returns a sentence for each chunk that cannot be restored.

    Such a chunk is filled with zeros. Raises OSError, and as `RemoteSegment.read_chunks`.
    """
    with _new_file(path, disk) as descriptor:
        disk.truncate(descriptor, segment.size)
        failures = segment.write_chunks(descriptor)
    return [f"{segment.path()}: chunk {number}: {text}" for number, text in failures.items()]


def trim(path: str, first: int, last: int, disk: Disk) -> int:
    """Rewrites a file with only its intact batches of offsets ``first`` to ``last``. Returns the offset after them, -1
    if there are none. Raises OSError, PathError."""
    next_offset, target = -1, path + ".trimmed"
    with _new_file(target, disk) as descriptor, open_segment(path) as reader:
        for item in reader:
            if not isinstance(item, Batch) or not item.is_valid:
                continue
            base = item.last_offset if item.base_offset is None else item.base_offset
            if first <= base and item.last_offset <= last and base >= next_offset:
                disk.write(descriptor, item.data)
                next_offset = item.last_offset + 1
    disk.rename(target, path)
    return next_offset


def reset_epochs_in_place(path: str, buffers: Buffers) -> None:
    """Sets the partition leader epoch of all batches to 0. Raises OSError, PathError."""
    with opened(path, os.O_RDWR) as descriptor:
        with open_survey(path, FULL, buffers) as survey:
            for item in survey:
                for position in epoch_positions(item) if isinstance(item, HeaderRows) else ():
                    os.pwrite(descriptor, bytes(4), position)
        os.fsync(descriptor)


@dataclass(slots=True)
class Rebuilt:
    """``damage``: sentences about what is lost; ``first_base`` and ``end``: the offsets of the new log."""

    segments: int = 0
    first_base: int = -1
    end: int = 0
    size: int = 0
    last_epoch: int = 0
    damage: list[str] = field(default_factory=list)


class PartitionBuilder:
    """Builds one partition in ``folder``. Raises OSError, and the errors of reading the store."""

    def __init__(self, selection: RestoredSegments, folder: str, interval_bytes: int | None, disk: Disk) -> None:
        self._selection, self._folder, self._disk = selection, folder, disk
        self._interval_bytes = interval_bytes
        self._buffers = Buffers()
        self._needs_rebuild = False
        self.rebuilt = Rebuilt(end=selection.log_start)

    def build(self, topic_id: str, resets_epochs: bool) -> Rebuilt:
        for piece in self._selection.pieces:
            self._add_remote(piece)
        self._add_local()
        logs = sorted(name for name in regular_and_other_names(self._folder)[0] if name.endswith(LOG))
        for name in logs if resets_epochs else ():
            reset_epochs_in_place(self._path(name), self._buffers)
        if self._needs_rebuild:
            self._rebuild_side_files()
        epochs = [entry for entry in self._selection.lineage if entry.start_offset <= self.rebuilt.end]
        if resets_epochs:
            epochs = [EpochEntry(0, self._selection.log_start)]
        self.rebuilt.last_epoch = epochs[-1].epoch if epochs else 0
        self._add_file(LEADER_EPOCHS, (build_leader_epochs(epochs),))
        self._add_file(PARTITION_METADATA, (build_partition_metadata(PartitionMetadata(0, topic_id)),))
        self.rebuilt.size = sum(os.stat(self._path(name)).st_size for name in logs)
        return self.rebuilt

    def _add_remote(self, piece: SegmentOffsets) -> None:
        candidate = piece.candidate
        segment, base = candidate.segment, max(piece.first, candidate.start_offset)
        path = self._path(segment_stem(base) + LOG)
        self.rebuilt.damage += fetch(segment, path, self._disk)
        span = span_of(path, self._buffers)
        next_offset = span.next_offset
        if not span.is_intact:
            self.rebuilt.damage.append(f"{segment.path()}: holds batches that are not intact; they are left out")
        if span.is_intact and piece.is_whole:
            self._add_side_files(segment, base, candidate.end_offset + 1)
        else:
            self._needs_rebuild = True
            next_offset = trim(path, piece.first, piece.last, self._disk)
        self._count_segment(base, max(next_offset, piece.last + 1))

    def _add_side_files(self, segment: RemoteSegment, base: int, behind: int) -> None:
        names = {suffix: segment_stem(base) + suffix for suffix in INDEX_SUFFIXES}
        names[SNAPSHOT] = segment_stem(behind) + SNAPSHOT
        for suffix, name in names.items():
            try:
                content = segment.side_file(suffix)
            except ChunkError as error:
                self.rebuilt.damage.append(f"{segment.path(suffix)}: {error}; it is rebuilt from the log")
                self._needs_rebuild = True
                continue
            if content is not None:
                self._add_file(name, (content,))

    def _add_local(self) -> None:
        selection = self._selection
        if not selection.local:
            return
        start, directory = selection.local[0].base_offset or 0, selection.local_directory
        copy = partial(self._disk.copy_file, fallback=self._folder, mask=umask())
        for file in selection.local:
            copy(file.path, self._path(file.name))
            span = span_of(file.path, self._buffers)
            if not span.is_intact:
                self.rebuilt.damage.append(f"{file.path}: is damaged, and copied unchanged")
            self._count_segment(file.base_offset or 0, max(span.next_offset, file.base_offset or 0))
        for name in regular_and_other_names(directory)[0]:
            stem, suffix = os.path.splitext(name)
            is_wanted = suffix in SIDE_SUFFIXES and stem.isdigit() and int(stem) >= start
            if is_wanted and not Place(self._path(name)).lexists():
                copy(Place(directory) / name, self._path(name))

    def _count_segment(self, base: int, end: int) -> None:
        if self.rebuilt.first_base < 0:
            self.rebuilt.first_base = base
        self.rebuilt.segments += 1
        self.rebuilt.end = max(self.rebuilt.end, end)

    def _rebuild_side_files(self) -> None:
        """Rebuilds indexes and snapshots as a broker's recovery does."""
        workspace = Workspace(self._folder)
        try:
            reindex(workspace, BrokerStart(interval_bytes=self._interval_bytes), with_snapshots=True)
        except DamagedLogError:
            return  # a local segment is damaged, as reported; a recovery of the partition rebuilds the indexes
        for step in workspace.plan().steps:
            path = self._path(step.file)
            if Place(path).lexists():
                self._disk.unlink(path)
            if step.action != DELETE:
                self._add_file(step.file, step.pieces)

    def _add_file(self, name: str, pieces: Pieces) -> None:
        with _new_file(self._path(name), self._disk) as descriptor:
            write_pieces(pieces, self._folder, descriptor, self._disk)

    def _path(self, name: str) -> str:
        return Place(self._folder) / name


@dataclass(slots=True)
class RebuiltPartition:
    """The result for one partition. ``error``: why it was not rebuilt; ``was_done``: rebuilt by an earlier run;
    ``rebuilt``: of a partition that is only planned, its end and last leader epoch."""

    topic_partition: tuple[str, int]
    topic_id: str = ""
    selection: RestoredSegments = field(default_factory=RestoredSegments)
    rebuilt: Rebuilt = field(default_factory=Rebuilt)
    error: KsegError | None = None
    was_done: bool = False
    log_start: int = 0

    @property
    def name(self) -> str:
        """That of the directory."""
        return f"{self.topic_partition[0]}-{self.topic_partition[1]}"

    @property
    def is_made(self) -> bool:
        return self.was_done or bool(self.selection.pieces or self.selection.local)

    @property
    def damage_remains(self) -> bool:
        is_missing = not (self.is_made or self.selection.is_deleted)
        return is_missing or bool(self.selection.holes or self.rebuilt.damage)

    def plan(self, directory: str) -> Plan:
        """Returns the plan of the partition's directory; one without steps if no segment is left of it."""
        built, plan = self.rebuilt, Plan(directory)
        if self.is_made:
            size = 0 if self.was_done else built.size
            plan.steps.append(Step(CREATE, "", "rebuilt from remote storage", None, size))
            plan.gaps += [(hole.first, hole.last) for hole in self.selection.holes]
            plan.facts.append({
                "type": "rebuilt", "directory": name_value(directory), "topicId": self.topic_id,
                "logStartOffset": self.log_start, "logEndOffset": built.end, "lastLeaderEpoch": built.last_epoch,
                "segments": built.segments, "newBytes": built.size, "wasThere": self.was_done,
            })  # fmt: skip
        plan.facts += [left.row(directory) for left in self.selection.left_out]
        return plan

    def problems(self) -> Iterator[str]:
        """Yields sentences on what users should know of the partition."""
        yield from self.selection.remarks
        for hole in self.selection.holes:
            yield f"offsets {hole.first} to {hole.last} are missing: no segment holds them"
        yield from self.rebuilt.damage


class Rebuild:
    """One run. ``logs``: the log directories of a node of the old cluster; ``partitions``: the requested ones, of
    several topics with the same name those of the newest; ``beside``: other log directories of the output's node.
    ``left_out``: segments of no selected partition.

    Raises PathError if something that the options name cannot be read, RequestError if no partition is selected, if an
    option for one topic meets several, or if the logs are those of several nodes."""

    def __init__(self, options: RestoreOptions, logs: Sequence[str], change: ChangeOptions) -> None:
        self.options, self.change, self.beside = options, change, list[str]()
        nodes = Nodes(logs)
        refuse_if(len(nodes.given) > 1, "--from-remote takes the log directories of one node")
        self._logs = LocalLogs(*nodes.paths) if logs else None
        self._destination = Destination(options)
        storage = open_storage(options.from_remote or "", private_keys(options.private_keys))
        self.left_out: list[ReplicaOffsets] = []
        self._last_epoch = 0
        self._made: list[str] = []

        def rank(partition: RemotePartition) -> tuple[bool, int]:
            is_local = self._logs is not None and self._logs.partition(partition) is not None
            return is_local, remote_partitions.last_event_ms(partition)

        wanted = [partition for partition in storage.partitions if is_wanted(partition.topic, self.options.topics)]
        self.partitions, older = remote_partitions.newest_partitions(wanted, rank)
        for other in older:
            reason = f"of an earlier topic {other.topic}, with the id {other.topic_id}"
            self.left_out += [_unused(segment, reason) for segment in other.segments]
        refuse_if(not self.partitions, f"{options.from_remote}: holds no partition of a topic that --topic names")
        topics = sorted({partition.topic for partition in self.partitions})
        name = options.for_one_topic
        refuse_if(name and len(topics) > 1, f"{name} is for one topic; selected: {', '.join(topics[:5])}")
        # A log directory of another cluster would get partitions that its metadata do not assign.
        if logs and options.new_cluster is None and not is_url(change.output or ""):
            self.beside += nodes.paths if is_of_one_node(change.output or "", logs) else []

    def run(self, reporter: Reporter) -> Outcome:
        """Rebuilds the partitions, or in a dry run plans them. Reports a plan of each, whose facts tell what was made,
        and which segments are not used."""
        state, failures, is_dry = RunState(reporter, self.change.is_dry), Failures(reporter), self.change.is_dry
        reporter.begin(1, len(self.partitions))
        reporter.plan(Plan("", facts=[left.row("") for left in self.left_out]))
        damage_remains = False
        with ExitStack() as stack:
            if is_dry:
                place = shown(self.change.output or "")
                found: Iterable[RebuiltPartition] = (self._attempt(each, self._selected) for each in self.partitions)
            else:
                output = stack.enter_context(self._output(self.change.output or ""))
                place, found = output.directory, self._carry_out(output)
            for outcome in found:
                directory = Place(place) / outcome.name
                if outcome.error is not None:
                    failures.add(outcome.error, directory)
                    continue
                self._last_epoch = max(self._last_epoch, outcome.rebuilt.last_epoch)
                self._made += [outcome.name] if outcome.is_made else []
                plan = outcome.plan(directory)
                (reporter.plan if outcome.was_done else state.planned)(plan)
                if plan and not is_dry:
                    state.applied(directory=directory)
                for text in outcome.problems():
                    reporter.warning(f"{directory}: {text}")
                damage_remains |= outcome.damage_remains
        return state.outcome(failures, damage_remains)

    def _output(self, place: str) -> AbstractContextManager[ResumableOutput]:
        options = self.options
        facts: dict[str, object] = {  # must be equal when an interrupted run is resumed
            "store": options.from_remote, "topics": list(options.topics),
            "logs": self._logs and list(self._logs.directories),
            "newCluster": options.new_cluster, "topicId": options.topic_id, "name": options.name,
            "resetEpochs": options.resets_epochs,
        }  # fmt: skip
        if not is_url(place):
            return resumable_output(place, facts, self.change.takes_lock, bool(self.beside))
        from kseg.stores.object_urls import UrlObjects  # and fsspec

        return resumable_store_output(UrlObjects(place), current_spool().directory, facts)

    def _carry_out(self, output: ResumableOutput) -> Iterator[RebuiltPartition]:
        """Rebuilds the partitions in threads, yields them in order, and writes the checkpoints at the end."""
        failed = False
        with closing(Threads(self.options.jobs or usable_cores())) as threads:
            work = partial(self._built, output)
            tasks = [threads.begin(partial(self._attempt, each, work)) for each in self.partitions]
            for task in tasks:
                outcome = task.result()
                failed |= outcome.error is not None
                yield outcome
        if output.rows is None:
            for name, content in self._checkpoints(output.done.values()).items():
                output.write_file(name, content)
        if not failed:
            output.close()

    def _checkpoints(self, done: Iterable[Mapping[str, Any]]) -> dict[str, bytes]:
        """Returns the checkpoints of partitions with these facts."""
        bounds = dict[TopicPartition, LogBounds]()
        for facts in done:
            (topic, number), built = facts["place"], facts["rebuilt"]
            bounds[topic, number] = LogBounds(built["first_base"], facts["logStart"], built["end"])
        return self._destination.checkpoints(bounds)

    def _attempt(
        self, partition: RemotePartition, work: Callable[[RemotePartition, RebuiltPartition], None], _: None = None
    ) -> RebuiltPartition:
        is_single = len(self.partitions) == 1
        outcome = RebuiltPartition(self._destination.rename(partition.topic, partition.number, is_single))
        try:
            work(partition, outcome)
        except KsegError as error:
            outcome.error = error
        return outcome

    def _selected(self, partition: RemotePartition, outcome: RebuiltPartition) -> None:
        outcome.topic_id = self._destination.given_id(outcome.topic_partition[0]) or partition.topic_id
        found = select_segments(partition, self._logs, partition.topic in self.options.topics)
        outcome.selection, outcome.log_start = found, found.log_start
        outcome.rebuilt.end = found.pieces[-1].last + 1 if found.pieces else found.log_start
        outcome.rebuilt.last_epoch = found.lineage[-1].epoch if found.lineage else 0

    def _built(self, output: ResumableOutput, partition: RemotePartition, outcome: RebuiltPartition) -> None:
        if outcome.name in output.done:
            facts = output.done[outcome.name]
            outcome.rebuilt, outcome.topic_id, outcome.was_done = Rebuilt(**facts["rebuilt"]), facts["topicId"], True
            outcome.log_start = facts["logStart"]
            return
        self._selected(partition, outcome)
        selection = outcome.selection
        if not (selection.pieces or selection.local):
            return
        check_free(output.work_directory, sum(piece.candidate.segment.size for piece in selection.pieces))
        with output.partition(outcome.name) as folder:
            builder = PartitionBuilder(selection, folder, self.options.interval_bytes, output.disk)
            outcome.rebuilt = builder.build(outcome.topic_id, self.options.resets_epochs)
            facts = {"rebuilt": asdict(outcome.rebuilt), "topicId": outcome.topic_id, "logStart": selection.log_start}
            facts |= {"place": outcome.topic_partition}
            made = dict.fromkeys(OFFSET_CHECKPOINTS, build_offset_checkpoint({})) | self._checkpoints([facts])
            copied = copied_rows("", made, {outcome.name: outcome.name})
            output.finish_partition(outcome.name, folder, facts, copied)

    def next_steps(self) -> list[str]:
        """Returns the text about the remaining steps until a broker serves the rebuilt partitions."""
        options, output = self.options, shown(self.change.output or "")
        if beside := self.beside:
            return ["A node does not start with a partition on two of its disks:", shell_line(
                ["kseg", "verify", *map(named_path, dict.fromkeys([*beside, output]))]
            )]  # fmt: skip
        has_ids = bool(options.new_cluster) or options.topic_id is not None
        lines = ["Remaining steps, for each topic:"]
        if not has_ids:
            lines += [
                "  1. Create the topic in the new cluster, with the same number of partitions.",
                "     It has a new id: repeat this command with --for-cluster LOGDIR, a log directory of a new broker,",
                "     and another --output. Brokers rename directories with the old id to -stray.",
            ]
        else:
            lines.append("  1. Check that the topics in the new cluster have the topic ids in partition.metadata.")
        place, file = options.new_cluster or "the log directory", f"{output}/log-start-offset-checkpoint"
        step = [
            f"  4. Add the entries of {file}, if there are any after its second line, to the",
            "     broker's file of that name, and their number to its second line. Leave its other files as they are.",
        ]
        if options.new_cluster:
            step = [f"  4. Replace the broker's log-start-offset-checkpoint by {file}: it has the entries of both."]
        lines += [
            "  2. Stop the broker cleanly.",
            f"  3. Replace the empty partition directories in {place} by those in {output}.",
            *(f"     {named_path(path)} holds records: move it out of {place} first." for path in self._occupied()),
            *step,
            "  5. Give all files to the broker's user, and start the broker.",
        ]
        if (last := self._last_epoch) and not options.resets_epochs:
            lines += [
                f"The batches have leader epochs up to {last}. While the new leader's epoch is lower, a consumer",
                "with a committed offset waits for ever after its start. Repeat this command with --reset-epochs, or",
                "restart the broker until its leader epoch is higher.",
            ]
        return lines

    def _occupied(self) -> list[str]:
        """Returns the partition directories of the new cluster that hold records. Raises PathError."""
        if self.options.new_cluster is None:
            return []
        paths = (Place(self.options.new_cluster) / name for name in self._made)
        return [path for path in paths if path.is_dir() and has_records(path)]
