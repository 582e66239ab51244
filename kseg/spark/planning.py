"""Plans the tasks of modes records, counts and batches: selects segments and divides them.

The driver reads names and sizes, several directories at a time, and the indexes of at most `MAX_INDEXED_SEGMENTS`
segments. Indexes only decide where segments are divided: the parts cover each segment, and a task verifies where its
records begin. So a wrong index costs time, but no rows.
"""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, groupby
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from kseg.errors import KsegError, PathError
from kseg.export.pushdown import Bounds
from kseg.export.scanning import (
    TASK_BYTES,
    Offsets,
    grouped,
    live_segment_of,
    logs_around,
    matching,
    readable_segments_at,
)
from kseg.formats.rows import Scratch
from kseg.formats.suffixes import INDEX, LOG, LOGS, SNAPSHOT
from kseg.logdir.log_directory import checkpoint_offsets
from kseg.segment.batches import Batch
from kseg.segment.files import LAST_OFFSET, SegmentFile, file_names, segment_file
from kseg.segment.isolation import Transactions
from kseg.segment.reader import Run, SegmentReader, open_segment
from kseg.segment.seek import ByteSpan, index_path, indexed_span, offset_extent, seek_time
from kseg.segment.slices import Slice, runs_of
from kseg.sidefiles.checkpoints import LOG_STARTS
from kseg.sidefiles.producer_state import ProducerSnapshot
from kseg.spark.options import FIRST_OFFSET, LATEST, TASKS, Options, Positions, TopicPartition
from kseg.spark.stores import forget_listing, is_stored, places, remote_storage_at
from kseg.stores import trees
from kseg.stores.source import Source, open_source

if TYPE_CHECKING:
    from kseg.logdir.remote_partitions import LiveSegment


# Finds the batches that a read_committed consumer skips: aborted ones, and all from the last stable offset on.
#
# A transaction ends with the next marker of its producer. A task reads its part, and then later batches while there
# are open transactions with batches in the part. The tail of a log, from the newest producer snapshot at the start of
# a segment on, is read in one pass; so it is not divided between tasks.


class Tail(NamedTuple):
    """The end of a partition's log: from offset ``first`` on, where a segment begins and ``snapshot`` was taken.

    Without a snapshot it is the whole log.
    """

    place: str
    first: int = -1
    snapshot: str | None = None

    def has(self, file: SegmentFile) -> bool:
        """Whether a segment belongs to the tail."""
        return self.snapshot is None or file.base_offset is None or file.base_offset >= self.first


def tail_of(place: str, logs: list[SegmentFile]) -> Tail:
    """Returns the tail of the partition with these segments. Raises PathError if its directory cannot be read."""
    directory = os.path.dirname(logs[0].path)
    bases = {log.base_offset for log in logs}
    stems = [name.removesuffix(SNAPSHOT) for name in file_names(directory) if name.endswith(SNAPSHOT)]
    newest = max((stem for stem in stems if stem.isdigit() and len(stem) == 20 and int(stem) in bases), default=None)
    return Tail(place) if newest is None else Tail(place, int(newest), os.path.join(directory, newest + SNAPSHOT))


class Committed:
    """Finds the transactions of parts, one after the other; the tail of a log is read once."""

    def __init__(self, max_batch_bytes: int) -> None:
        self._scratch = Scratch(max_batch_bytes)
        self._tail: tuple[Tail, Transactions] | None = None

    def transactions(self, file: SegmentFile, part: Slice, tail: Tail, source: Source) -> Transactions:
        """Returns the transactions that hide records of a part of a segment. ``source``: the segment.

        Raises PathError.
        """
        open_before = _open_at(tail)
        if open_before is None:
            return self._at_end(tail._replace(first=-1, snapshot=None), {})
        if tail.has(file):
            return self._at_end(tail, open_before)
        found, last = self._followed(file, part, tail, source)
        if min(open_before.values(), default=last) < last:
            found.add_open(self._at_end(tail, open_before))
        return found

    def _at_end(self, tail: Tail, open_before: dict[int, int]) -> Transactions:
        """Returns the transactions of the tail."""
        if self._tail is None or self._tail[0] != tail:
            found = Transactions(open_before)
            for log in filter(tail.has, logs_around(tail.place)):
                with open_segment(log, self._scratch) as reader:
                    found.read(reader)
            self._tail = tail, found
        return self._tail[1]

    def _followed(self, file: SegmentFile, part: Slice, tail: Tail, source: Source) -> tuple[Transactions, int]:
        """Returns the transactions with batches in a part, and the last offset of the part."""
        found, last = Transactions(), -1
        reader = open_segment(file, self._scratch, source=source)
        for item in runs_of(reader, file, part):
            if isinstance(item, Run):
                found.read_run(reader, item)
                last = max(last, reader.batch(item, item.count - 1, keep=False).last_offset)
        if found.has_open():
            for later, run in self._runs_after(file, part, tail, source):
                found.end_in(later, run)
                if not found.has_open():
                    break
        return found, last

    def _runs_after(
        self, file: SegmentFile, part: Slice, tail: Tail, source: Source
    ) -> Iterator[tuple[SegmentReader, Run]]:
        if part.end is not None:
            reader = open_segment(file, self._scratch, source=source)
            rest = runs_of(reader, file, Slice(part.end, None))
            yield from ((reader, item) for item in rest if isinstance(item, Run))
        for log in logs_around(tail.place):
            if (log.base_offset or 0) > (file.base_offset or 0):
                with open_segment(log, self._scratch) as reader:
                    yield from ((reader, item) for item in reader.runs() if isinstance(item, Run))


def _open_at(tail: Tail) -> dict[int, int] | None:
    """Returns the first offsets of the transactions that are open where the tail begins, by producer id.

    Returns None if the snapshot cannot be used.
    """
    if tail.snapshot is None:
        return {}
    try:
        with open_source(tail.snapshot) as source:
            snapshot = ProducerSnapshot(source.buffer[:])
            if snapshot.kafka_refusal() is not None:
                return None
            entries = list(snapshot)
    except PathError:
        return None
    return {each.producer_id: first for each in entries if (first := each.current_txn_first_offset) >= 0}


PLANNING_THREADS = 32
"""Directories and indexes read at the same time: most of the time is spent waiting for a store."""
MAX_INDEXED_SEGMENTS = 4096

_log = logging.getLogger("kseg.spark")


class TaskPart(NamedTuple):
    """A part of a segment, and the offsets to read of it.

    ``tail``: that of its partition, if only committed records are requested. ``remote``: its segment in remote storage.
    """

    file: SegmentFile
    slice: Slice
    offsets: Offsets
    tail: Tail | None = None
    remote: "LiveSegment | None" = None


class Whole(NamedTuple):
    """A whole segment. ``is_edge``: only some records are requested, so its indexes can reduce the bytes to read.

    ``is_divisible``: a part can be read without the bytes before it; in a store this needs an index. ``block_bytes``:
    parts begin at multiples of it, because a store restores such blocks as a whole.
    """

    part: TaskPart
    size: int
    is_edge: bool
    is_divisible: bool
    block_bytes: int = 1


def parts_of_read(options: Options) -> list[Sequence[TaskPart]]:
    """Returns the tasks. Raises PathError, or UnsupportedError for a file that is not a segment."""
    with remote_storage_at(options), ThreadPoolExecutor(PLANNING_THREADS) as threads:
        planner = SegmentSelector(options)
        found = threads.map(lambda place: _in_place(place, planner, options), places(options.paths))
        return cut_into_tasks(list(chain.from_iterable(found)), options)


def cut_into_tasks(wholes: list[Whole], options: Options) -> list[Sequence[TaskPart]]:
    """Returns the tasks that read these segments."""
    total = sum({whole.part.file.path: whole.size for whole in wholes}.values())
    limit = options.task_bytes(total)
    edges = [i for i, whole in enumerate(wholes) if whole.is_edge and whole.is_divisible and whole.size > limit]
    spans: dict[int, ByteSpan] = {}

    def span_of(i: int) -> ByteSpan:
        part = wholes[i].part
        return indexed_span(part.file, wholes[i].size, *part.offsets, options.wanted.earliest_ms)

    if len(edges) <= MAX_INDEXED_SEGMENTS:
        with ThreadPoolExecutor(PLANNING_THREADS) as threads:
            spans = dict(zip(edges, threads.map(span_of, edges), strict=True))
    pieces = [piece for i, whole in enumerate(wholes) for piece in _pieces(whole, spans.get(i), limit)]
    together = 0 if options.max_task_offsets else options.task_bytes(total + len(pieces) * TASK_BYTES)
    return [list(chain.from_iterable(task)) for task in grouped(_inseparable(pieces), together)]


def _inseparable(pieces: list[tuple[int, TaskPart]]) -> Iterator[tuple[int, list[TaskPart]]]:
    """Yields the parts of a tail as one, because each task would have to read all of it; others alone."""

    def tail_with(piece: tuple[int, TaskPart]) -> Tail | None:
        tail, file = piece[1].tail, piece[1].file
        return tail if tail is not None and tail.has(file) else None

    for tail, some in groupby(pieces, tail_with):
        if tail is None:
            yield from ((size, [part]) for size, part in some)
        else:
            parts = list(some)
            yield sum(size for size, _ in parts), [part for _, part in parts]


def _pieces(whole: Whole, span: ByteSpan | None, limit: int) -> Iterator[tuple[int, TaskPart]]:
    """Yields the parts of a segment, each with the number of bytes to read of it. They are cut in the span."""
    start, end = (0, whole.size) if span is None else span[:2]
    part, wanted = whole.part, max(end - start, 0)
    count = max(1, round(wanted / limit)) if whole.is_divisible else 1
    block = whole.block_bytes
    cuts = sorted({(start + wanted * i // count) // block * block for i in range(1, count)} - {0})
    for begin, stop in zip([0, *cuts], [*cuts, None], strict=True):
        yield wanted // (len(cuts) + 1), part._replace(slice=Slice(begin, stop))


def _in_place(place: str, planner: "SegmentSelector", options: Options) -> list[Whole]:
    """Returns the segments of a file or partition directory."""
    try:
        is_directory = trees.isdir(place)
        if is_directory and not options.keeps(segment_file(os.path.join(place, "0.log"))):
            return []
        return list(planner.wholes(place, readable_segments_at(place), lambda: logs_around(place), is_directory))
    finally:
        forget_listing(place)


class SegmentSelector:
    """Chooses the segments of partitions, and the offsets to read of them. Threads may share it.

    ``is_stream``: retention may have removed segments that were read before.
    """

    def __init__(self, options: Options, is_stream: bool = False) -> None:
        self._options, self._is_stream = options, is_stream
        self._log_starts: dict[str, dict[TopicPartition, int]] = {}
        self._lock = Lock()

    def wholes(
        self,
        place: str,
        files: list[SegmentFile],
        around: Callable[[], list[SegmentFile]],
        is_directory: bool,
        since: int = FIRST_OFFSET,
    ) -> Iterator[Whole]:
        """Yields the segments of a file or directory with wanted offsets, from ``since`` on. ``around`` returns all
        segments of the partition. Raises KsegError if one no longer exists.
        """
        options = self._options
        files = [file for file in files if options.keeps(file)]
        if not files:
            return
        first, last = self._offsets(files[0], around)
        first = max(first, since)
        chosen = matching(files, Bounds(first, last), is_directory and options.mode != "batches")
        if first > last or not chosen:
            return
        is_in_store = is_stored(chosen[0].path)
        logs = [log for log in around() if log.kind == LOG] if options.is_committed else []
        tail = tail_of(place, logs) if logs else None
        for i, file in enumerate(chosen):
            is_last = i + 1 == len(chosen) and last < LAST_OFFSET
            is_edge = is_last or first > (file.base_offset or 0) or options.wanted.earliest_ms > 0
            is_divisible = file.kind == LOG and (not is_in_store or trees.exists(index_path(file, INDEX)))
            part = TaskPart(file, Slice(), Offsets(first, last), tail)
            whole = Whole(part, trees.size_of(file.path), is_edge, is_divisible)
            if (remote := live_segment_of(file)) is not None:
                since = first if options.ignores_log_start else max(first, remote.log_start)
                part = part._replace(offsets=Offsets(since, last), remote=remote)
                whole = Whole(part, whole.size, is_edge, remote.is_whole, remote.chunk_bytes)
            yield from self._limited(whole, chosen[i + 1] if i + 1 < len(chosen) else None)

    def _limited(self, whole: Whole, following: SegmentFile | None) -> Iterator[Whole]:
        """Yields a segment as parts of at most ``maxRecordsPerPartition`` offsets. ``following``: the next segment.

        The first and last part also have offsets that a damaged segment may hold outside of its range.
        """
        limit, part = self._options.max_task_offsets, whole.part
        if limit is None or self._options.mode == "batches" or part.file.base_offset is None:
            yield whole
            return
        end = end_of(part.file) if following is None else following.base_offset or 0
        first, stop = max(part.offsets.first, part.file.base_offset), min(part.offsets.last, end - 1) + 1
        if stop - first > limit * TASKS:
            raise KsegError(f"{part.file.path}: maxRecordsPerPartition {limit} makes more than {TASKS} tasks of it")
        starts = range(first + limit, stop, limit)
        begins, lasts = [part.offsets.first, *starts], [*(start - 1 for start in starts), part.offsets.last]
        for offsets in map(Offsets, begins, lasts):
            yield whole._replace(part=part._replace(offsets=offsets), is_edge=True)

    def _offsets(self, file: SegmentFile, around: Callable[[], list[SegmentFile]]) -> tuple[int, int]:
        """Returns the first and last offset to read in the partition of a segment."""
        options = self._options
        first, last = options.wanted.first_offset, options.wanted.last_offset
        if file.topic is None or file.partition is None:
            return first, last
        partition = (file.topic, file.partition)
        log_start = 0
        if not options.ignores_log_start:
            log_start = self._log_start(os.path.dirname(os.path.dirname(file.path)), partition)
            first = max(first, log_start)
        if options.start != Positions() or options.end != Positions():
            logs = [file for file in around() if file.kind in LOGS and not file.leftover]
            if not self._is_stream and logs:
                self._check_start(partition, max(log_start, logs[0].base_offset or 0))
            first = max(first, self._start_of(partition, logs))
            last = min(last, self._end_of(partition, logs))
        return first, last

    def _start_of(self, partition: TopicPartition, logs: Sequence[SegmentFile]) -> int:
        """Returns the first offset by option ``start``. ``logs``: the segments of the partition in order.

        Raises KsegError if no record has the timestamp, unless nothing of the partition is to be read then.
        """
        start = self._options.start
        timestamp = start.timestamp_of(partition)
        if timestamp is None:
            return start.number_of(partition, FIRST_OFFSET)
        found = self._offset_at(logs, timestamp)
        if found is None and self._options.fails_without_timestamp:
            raise KsegError(
                f"{partition[0]}-{partition[1]} has no record from timestamp {timestamp} on: "
                "startingOffsetsByTimestampStrategy latest reads nothing of it"
            )
        return LAST_OFFSET if found is None else found

    def _end_of(self, partition: TopicPartition, logs: Sequence[SegmentFile]) -> int:
        """Returns the last offset by option ``end``, inclusive."""
        end = self._options.end
        timestamp = end.timestamp_of(partition)
        stop = end.offsets.get(partition, LATEST) if timestamp is None else self._offset_at(logs, timestamp)
        return LAST_OFFSET if stop is None or stop == LATEST else stop - 1

    def _offset_at(self, logs: Sequence[SegmentFile], timestamp: int) -> int | None:
        """Returns the offset of the first record with this timestamp or a later one; None if there is none."""
        scratch = Scratch(self._options.max_batch_bytes)
        for file in logs:
            with open_segment(file, scratch) as reader:
                reader.begin_at(seek_time(reader, file, timestamp).position)
                for item in reader:
                    if not isinstance(item, Batch) or not item.is_valid or item.max_timestamp < timestamp:
                        continue
                    for record in item:
                        if record.timestamp is not None and record.timestamp >= timestamp:
                            return record.offset
        return None

    def _log_start(self, log_directory: str, partition: TopicPartition) -> int:
        """Returns the log start offset, below which consumers see nothing; the lowest number if the checkpoint does not
        list the partition. The checkpoint of each log directory is read once.
        """
        with self._lock:
            if log_directory not in self._log_starts:
                self._log_starts[log_directory] = checkpoint_offsets(os.path.join(log_directory, LOG_STARTS))
        return self._log_starts[log_directory].get(partition, FIRST_OFFSET)

    def _check_start(self, partition: TopicPartition, earliest: int) -> None:
        """Raises KsegError if startingOffsets names an offset that the log no longer has, as failOnDataLoss asks."""
        wanted = self._options.start.offset_of(partition)
        if wanted is None or wanted >= earliest:
            return
        text = f"{partition[0]}-{partition[1]}: startingOffsets begins at {wanted}, and the log at {earliest}"
        if self._options.fails_on_data_loss:
            raise KsegError(f"{text}. With option failOnDataLoss false the read begins there")
        _log.warning("%s", text)


def end_of(log: SegmentFile) -> int:
    """Returns the offset after the last intact batch of a segment. Raises PathError if it cannot be read."""
    with open_segment(log, Scratch()) as reader:
        found = offset_extent(reader, log)
    return log.base_offset or 0 if found is None else found[1] + 1
