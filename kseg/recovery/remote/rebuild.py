"""Rebuilds all partitions of a store: several at a time, each whole or not at all, and goes on where a run ended."""

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial

from kseg.changes.apply import check_free
from kseg.changes.resumable_output import ResumableOutput
from kseg.errors import KsegError, PathError
from kseg.limits import MAX_ROOT_FILE_BYTES
from kseg.logdir.known_topics import KnownTopics
from kseg.logdir.local_logs import LocalLogs
from kseg.recovery.remote.rebuilding import PartitionBuilder, Rebuilt
from kseg.recovery.remote.request import RemoteRequest
from kseg.recovery.remote.selection import LeftOut, Selection, select
from kseg.recovery.remote.staged_log import judged
from kseg.runtime.threads import Threads
from kseg.segment.files import SegmentFile
from kseg.sidefiles.checkpoints import OffsetCheckpoint, build_offset_checkpoint, read_offset_checkpoint
from kseg.stores.buffers import Buffers
from kseg.stores.regular_files import read_regular
from kseg.stores.remote.chunk_index import ManifestError
from kseg.stores.remote.segment import RemoteSegment
from kseg.stores.remote.storage import RemotePartition, RemoteStorage

LOG_STARTS = "log-start-offset-checkpoint"
_ENDS = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint")


@dataclass(slots=True)
class Outcome:
    """A partition that was rebuilt, or would be; ``error`` tells why it was not. ``was_done``: by an earlier run."""

    name: str
    topic: str
    topic_id: str = ""
    selection: Selection | None = None
    rebuilt: Rebuilt | None = None
    error: KsegError | None = None
    was_done: bool = False
    log_start: int = 0


class Rebuild:
    """One run. Raises PathError if the request names something that cannot be read."""

    def __init__(self, storage: RemoteStorage, request: RemoteRequest) -> None:
        self._request = request
        self._logs = None if request.logs is None else LocalLogs(request.logs)
        self._topics = KnownTopics()
        self.left_out: list[LeftOut] = []
        self.partitions = self._chosen(storage)

    def _chosen(self, storage: RemoteStorage) -> list[RemotePartition]:
        """Returns the partitions that are wanted; of topics that were deleted and made anew those of the newest."""
        wanted: dict[tuple[str, int], list[RemotePartition]] = {}
        for partition in storage.partitions:
            if self._request.wants(partition.topic):
                wanted.setdefault((partition.topic, partition.number), []).append(partition)
        chosen = []
        for same in wanted.values():
            kept = max(same, key=self._standing)
            chosen.append(kept)
            for other in same:
                if other is not kept:
                    reason = f"of an earlier topic {other.topic}, with the id {other.topic_id}"
                    self.left_out += [LeftOut(s.path(), s.start_offset, s.start_offset, reason) for s in other.segments]
        return chosen

    def _standing(self, partition: RemotePartition) -> tuple[bool, int]:
        is_local = self._logs is not None and self._logs.partition(partition) is not None
        return is_local, max((_event_time(segment) for segment in partition.segments), default=-1)

    def plans(self) -> Iterator[Outcome]:
        """Yields what would be rebuilt, without writing."""
        for partition in self.partitions:
            yield self._attempt(partition, self._selected)

    def carry_out(self, output: ResumableOutput) -> Iterator[Outcome]:
        """Rebuilds the partitions in threads, yields them in order, and writes the checkpoints at the end."""
        failed = False
        with Threads(self._request.jobs, lambda: None) as threads:
            tasks = [threads.begin(partial(self._task, partition, output)) for partition in self.partitions]
            for task in tasks:
                outcome = task.result()
                failed |= outcome.error is not None
                yield outcome
        self._write_checkpoints(output)
        if not failed:
            output.close()

    def _task(self, partition: RemotePartition, output: ResumableOutput, _: None) -> Outcome:
        return self._attempt(partition, partial(self._built, output))

    def _attempt(self, partition: RemotePartition, work: Callable[[RemotePartition, Outcome], None]) -> Outcome:
        topic = self._request.name or partition.topic
        outcome = Outcome(f"{topic}-{partition.number}", topic)
        try:
            work(partition, outcome)
        except KsegError as error:
            outcome.error = error
        return outcome

    def _selected(self, partition: RemotePartition, outcome: Outcome) -> None:
        outcome.topic_id = self._topic_id(outcome.topic, partition)
        is_named = partition.topic in self._request.topics
        outcome.selection = select(partition, self._logs, is_named, _is_intact)
        outcome.log_start = outcome.selection.log_start

    def _built(self, output: ResumableOutput, partition: RemotePartition, outcome: Outcome) -> None:
        if outcome.name in output.done:
            facts = output.done[outcome.name]
            outcome.rebuilt, outcome.topic_id, outcome.was_done = Rebuilt(**facts["rebuilt"]), facts["topicId"], True
            outcome.log_start = facts["logStart"]
            return
        self._selected(partition, outcome)
        selection = outcome.selection
        if selection is None or not (selection.pieces or selection.local):
            return
        check_free(output.directory, selection.new_bytes)
        with output.partition(outcome.name) as folder:
            builder = PartitionBuilder(selection, folder, self._request.interval_bytes, output.disk)
            outcome.rebuilt = builder.build(outcome.topic_id, self._request.resets_epochs)
            facts = {"rebuilt": asdict(outcome.rebuilt), "topicId": outcome.topic_id, "logStart": selection.log_start}
            output.finish_partition(outcome.name, folder, {**facts, "place": [outcome.topic, partition.number]})

    def _topic_id(self, topic: str, partition: RemotePartition) -> str:
        if self._request.topic_id is not None:
            return self._request.topic_id
        if self._request.new_cluster is None:
            return partition.topic_id
        settings = self._topics.settings(self._request.new_cluster)
        if settings is None:
            raise PathError(f"{self._request.new_cluster}: holds no cluster metadata that can be read: give --topic-id")
        if topic not in settings.ids:
            raise PathError(f"{self._request.new_cluster}: the cluster has no topic {topic}: make it first")
        return settings.ids[topic]

    def _write_checkpoints(self, output: ResumableOutput) -> None:
        starts: dict[tuple[str, int], int] = {}
        if self._request.new_cluster is not None:
            starts = _entries(os.path.join(self._request.new_cluster, LOG_STARTS))
        ends: dict[tuple[str, int], int] = {}
        for facts in output.done.values():
            place = (facts["place"][0], facts["place"][1])
            ends[place] = facts["rebuilt"]["end"]
            starts.pop(place, None)
            if facts["logStart"] > facts["rebuilt"]["first_base"]:
                starts[place] = facts["logStart"]
        output.write_file(LOG_STARTS, _checkpoint(starts))
        if self._request.new_cluster is None:
            for name in _ENDS:
                output.write_file(name, _checkpoint(ends))


def _checkpoint(entries: dict[tuple[str, int], int]) -> bytes:
    return build_offset_checkpoint(OffsetCheckpoint(*place, offset) for place, offset in sorted(entries.items()))


def _entries(path: str) -> dict[tuple[str, int], int]:
    try:
        items = read_offset_checkpoint(read_regular(path, MAX_ROOT_FILE_BYTES))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise PathError(f"{path}: {error.strerror}") from error
    return {(item.topic, item.partition): item.offset for item in items if isinstance(item, OffsetCheckpoint)}


def _is_intact(file: SegmentFile) -> bool:
    return judged(file.path, Buffers()).is_intact


def _event_time(segment: RemoteSegment) -> int:
    try:
        metadata = segment.metadata
    except (ManifestError, PathError):
        return -1
    return -1 if metadata is None else metadata.event_timestamp_ms
