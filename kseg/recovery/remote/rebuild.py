"""Rebuilds the partitions of remote storage, several at a time, each whole or not at all; resumes an interrupted
run."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial

from kseg.changes.apply import check_free
from kseg.changes.resumable_output import ResumableOutput
from kseg.changes.resumable_store_output import ResumableStoreOutput
from kseg.errors import KsegError
from kseg.logdir.local_logs import LocalLogs
from kseg.logdir.remote_partition import last_event_ms, newest_partitions
from kseg.recovery.destination import Destination, LogBounds
from kseg.recovery.remote.partition_builder import PartitionBuilder, Rebuilt
from kseg.recovery.remote.request import RemoteRequest
from kseg.recovery.remote.selection import RestoredSegments, UnusedSegment, select_segments
from kseg.recovery.segment_span import span_of
from kseg.runtime.threads import Threads
from kseg.segment.files import SegmentFile
from kseg.stores.buffers import Buffers
from kseg.stores.remote.storage import RemotePartition, RemoteStorage

Output = ResumableOutput | ResumableStoreOutput


@dataclass(slots=True)
class RebuiltPartition:
    """The result for one partition. ``error``: why it was not rebuilt; ``was_done``: rebuilt by an earlier run."""

    topic_partition: tuple[str, int]
    topic_id: str = ""
    selection: RestoredSegments | None = None
    rebuilt: Rebuilt | None = None
    error: KsegError | None = None
    was_done: bool = False
    log_start: int = 0

    @property
    def name(self) -> str:
        """That of the directory."""
        return f"{self.topic_partition[0]}-{self.topic_partition[1]}"


class Rebuild:
    """One run. Raises PathError if the request names something that cannot be read."""

    def __init__(self, storage: RemoteStorage, request: RemoteRequest) -> None:
        self._request = request
        self._logs = None if request.logs is None else LocalLogs(request.logs)
        self._destination = Destination(request.name, request.new_cluster, request.topic_id)
        self.left_out: list[UnusedSegment] = []
        self.partitions = self._chosen(storage)

    def _chosen(self, storage: RemoteStorage) -> list[RemotePartition]:
        """Returns the requested partitions; of several topics with the same name those of the newest."""
        wanted = [partition for partition in storage.partitions if self._request.wants(partition.topic)]
        chosen, older = newest_partitions(wanted, self._rank)
        for other in older:
            reason = f"of an earlier topic {other.topic}, with the id {other.topic_id}"
            self.left_out += [UnusedSegment(s.path(), s.start_offset, s.start_offset, reason) for s in other.segments]
        return chosen

    def _rank(self, partition: RemotePartition) -> tuple[bool, int]:
        is_local = self._logs is not None and self._logs.partition(partition) is not None
        return is_local, last_event_ms(partition)

    def plans(self) -> Iterator[RebuiltPartition]:
        """Yields the results of a dry run."""
        for partition in self.partitions:
            yield self._attempt(partition, self._selected)

    def carry_out(self, output: Output) -> Iterator[RebuiltPartition]:
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

    def _task(self, partition: RemotePartition, output: Output, _: None) -> RebuiltPartition:
        return self._attempt(partition, partial(self._built, output))

    def _attempt(
        self, partition: RemotePartition, work: Callable[[RemotePartition, RebuiltPartition], None]
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
        is_named = partition.topic in self._request.topics
        outcome.selection = select_segments(partition, self._logs, is_named, _is_intact)
        outcome.log_start = outcome.selection.log_start

    def _built(self, output: Output, partition: RemotePartition, outcome: RebuiltPartition) -> None:
        if outcome.name in output.done:
            facts = output.done[outcome.name]
            outcome.rebuilt, outcome.topic_id, outcome.was_done = Rebuilt(**facts["rebuilt"]), facts["topicId"], True
            outcome.log_start = facts["logStart"]
            return
        self._selected(partition, outcome)
        selection = outcome.selection
        if selection is None or not (selection.pieces or selection.local):
            return
        check_free(output.work_directory, selection.new_bytes)
        with output.partition(outcome.name) as folder:
            builder = PartitionBuilder(selection, folder, self._request.interval_bytes, output.disk)
            outcome.rebuilt = builder.build(outcome.topic_id, self._request.resets_epochs)
            facts = {"rebuilt": asdict(outcome.rebuilt), "topicId": outcome.topic_id, "logStart": selection.log_start}
            output.finish_partition(outcome.name, folder, {**facts, "place": outcome.topic_partition})

    def _write_checkpoints(self, output: Output) -> None:
        bounds = {
            (facts["place"][0], facts["place"][1]): LogBounds(
                facts["rebuilt"]["first_base"], facts["logStart"], facts["rebuilt"]["end"]
            )
            for facts in output.done.values()
        }
        for name, content in self._destination.checkpoints(bounds).items():
            output.write_file(name, content)


def _is_intact(file: SegmentFile) -> bool:
    return span_of(file.path, Buffers()).is_intact
