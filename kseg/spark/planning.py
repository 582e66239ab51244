"""Plans the tasks of modes records, counts and batches: selects segments and divides them.

The driver reads names and sizes, several directories at a time, and the indexes of at most `MAX_INDEXED_SEGMENTS`
segments. Indexes only decide where segments are divided: the parts cover each segment, and a task verifies where its
records begin. So a wrong index costs time, but no rows.
"""

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, groupby
from typing import TYPE_CHECKING, NamedTuple

from kseg.errors import KsegError
from kseg.export.records import Wanted
from kseg.export.scanning import grouped, live_segment_of, logs_around, matching, readable_segments_at
from kseg.formats.rows import Scratch
from kseg.formats.suffixes import INDEX, LOG, LOGS
from kseg.segment.files import LAST_OFFSET, SegmentFile, segment_file
from kseg.segment.seek import ByteSpan, index_path, indexed_span
from kseg.segment.slices import Slice
from kseg.spark.committed import Tail, tail_of
from kseg.spark.options import Options
from kseg.spark.paths import places
from kseg.spark.positions import LogStarts, PartitionEnds, Positions, TopicPartition
from kseg.spark.stores import forget_listing, is_stored, size_of
from kseg.stores import trees

if TYPE_CHECKING:
    from kseg.logdir.remote_partitions import LiveSegment

PLANNING_THREADS = 32
"""Directories and indexes read at the same time: most of the time is spent waiting for a store."""
MAX_INDEXED_SEGMENTS = 4096

_log = logging.getLogger("kseg.spark")

Keep = Callable[[SegmentFile], bool]


class TaskPart(NamedTuple):
    """A part of a segment, and the first and last offset to read of it.

    ``tail``: that of its partition, if only committed records are requested. ``remote``: its segment in remote storage.
    """

    file: SegmentFile
    slice: Slice
    first_offset: int
    last_offset: int
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


def tasks_of(options: Options, keep: Keep) -> list[Sequence[TaskPart]]:
    """Returns the tasks. Raises PathError, or UnsupportedError for a file that is not a segment."""
    from kseg.spark.stores import remote_storage_at

    with remote_storage_at(options), ThreadPoolExecutor(PLANNING_THREADS) as threads:
        planner = SegmentSelector(options)
        found = threads.map(lambda place: _in_place(place, planner, keep), places(options.paths))
        return cut_into_tasks(list(chain.from_iterable(found)), options)


def cut_into_tasks(wholes: list[Whole], options: Options) -> list[Sequence[TaskPart]]:
    """Returns the tasks that read these segments."""
    limit = options.task_bytes(sum(whole.size for whole in wholes))
    edges = [whole for whole in wholes if whole.is_edge and whole.is_divisible and whole.size > limit]
    spans: dict[str, ByteSpan] = {}
    if len(edges) <= MAX_INDEXED_SEGMENTS:
        with ThreadPoolExecutor(PLANNING_THREADS) as threads:
            found = threads.map(lambda whole: _span(whole, options), edges)
            spans = {whole.part.file.path: span for whole, span in zip(edges, found, strict=True)}
    pieces = [piece for whole in wholes for piece in _pieces(whole, spans.get(whole.part.file.path), limit)]
    return [list(chain.from_iterable(task)) for task in grouped(_inseparable(pieces), limit)]


def _inseparable(pieces: list[tuple[int, TaskPart]]) -> Iterator[tuple[int, list[TaskPart]]]:
    """Yields the parts of a tail as one, because each task would have to read all of it; others alone."""
    for tail, some in groupby(pieces, lambda piece: piece[1].tail if _is_in_tail(piece[1]) else None):
        if tail is None:
            yield from ((size, [part]) for size, part in some)
        else:
            parts = list(some)
            yield sum(size for size, _ in parts), [part for _, part in parts]


def _is_in_tail(part: TaskPart) -> bool:
    return part.tail is not None and part.tail.has(part.file)


def _span(whole: Whole, options: Options) -> ByteSpan:
    part = whole.part
    return indexed_span(part.file, whole.size, part.first_offset, part.last_offset, options.earliest_ms)


def _pieces(whole: Whole, span: ByteSpan | None, limit: int) -> Iterator[tuple[int, TaskPart]]:
    """Yields the parts of a segment, each with the number of bytes to read of it. They are cut in the span."""
    start, end = (0, whole.size) if span is None else span[:2]
    part, wanted = whole.part, max(end - start, 0)
    count = max(1, round(wanted / limit)) if whole.is_divisible else 1
    block = whole.block_bytes
    cuts = sorted({(start + wanted * i // count) // block * block for i in range(1, count)} - {0})
    for begin, stop in zip([0, *cuts], [*cuts, None], strict=True):
        yield wanted // (len(cuts) + 1), part._replace(slice=Slice(begin, stop))


def _in_place(place: str, planner: "SegmentSelector", keep: Keep) -> list[Whole]:
    """Returns the segments of a file or partition directory."""
    try:
        is_directory = trees.isdir(place)
        if is_directory and not planner.wants(place, keep):
            return []
        files = [file for file in readable_segments_at(place) if keep(file)]
        return list(planner.wholes(place, files, lambda: logs_around(place), is_directory))
    finally:
        forget_listing(place)


class SegmentSelector:
    """Chooses the segments of partitions, and the offsets to read of them. Threads may share it.

    ``is_stream``: retention may have removed segments that were read before.
    """

    def __init__(self, options: Options, is_stream: bool = False) -> None:
        self._options, self._is_stream = options, is_stream
        self._log_starts = LogStarts()

    def wants(self, directory: str, keep: Keep) -> bool:
        """Whether rows of a partition are wanted, by the name of its directory."""
        file = segment_file(os.path.join(directory, "0.log"))
        return keep(file) and self._options.subscription.has(file.topic, file.partition)

    def wholes(
        self, place: str, files: list[SegmentFile], around: Callable[[], list[SegmentFile]], is_directory: bool
    ) -> Iterator[Whole]:
        """Yields the segments of a file or directory with wanted offsets. ``around`` returns all segments of the
        partition. Raises KsegError if one no longer exists.
        """
        options = self._options
        files = [file for file in files if options.subscription.has(file.topic, file.partition)]
        if not files:
            return
        first, last = self._offsets(files[0], around)
        chosen = matching(files, Wanted(first, last), is_directory and options.mode != "batches")
        if first > last or not chosen:
            return
        is_in_store = is_stored(chosen[0].path)
        logs = [log for log in around() if log.kind == LOG] if options.is_committed else []
        tail = tail_of(place, logs) if logs else None
        for i, file in enumerate(chosen):
            is_last = i + 1 == len(chosen) and last < LAST_OFFSET
            is_edge = is_last or first > (file.base_offset or 0) or options.earliest_ms > 0
            is_divisible = file.kind == LOG and (not is_in_store or trees.exists(index_path(file, INDEX)))
            part = TaskPart(file, Slice(), first, last, tail)
            if (remote := live_segment_of(file)) is not None:
                yield self._remote_whole(part._replace(remote=remote), remote, is_edge)
            else:
                yield Whole(part, size_of(file.path), is_edge, is_divisible)

    def _remote_whole(self, part: TaskPart, remote: "LiveSegment", is_edge: bool) -> Whole:
        if not self._options.ignores_log_start:
            part = part._replace(first_offset=max(part.first_offset, remote.log_start))
        return Whole(part, size_of(part.file.path), is_edge, remote.is_whole, remote.chunk_bytes)

    def _offsets(self, file: SegmentFile, around: Callable[[], list[SegmentFile]]) -> tuple[int, int]:
        """Returns the first and last offset to read in the partition of a segment."""
        options = self._options
        first, last = options.first_offset, options.last_offset
        if file.topic is None or file.partition is None:
            return first, last
        partition = (file.topic, file.partition)
        log_start = 0
        if not options.ignores_log_start:
            log_start = self._log_starts.of(os.path.dirname(os.path.dirname(file.path)), partition)
            first = max(first, log_start)
        if options.start != Positions() or options.end != Positions():
            logs = _logs(around())
            ends = PartitionEnds(partition, logs, Scratch(options.max_batch_bytes))
            if not self._is_stream and logs:
                self._check_start(partition, max(log_start, logs[0].base_offset or 0))
            first = max(first, ends.first(options.start, options.fails_without_timestamp))
            last = min(last, ends.last(options.end))
        return first, last

    def _check_start(self, partition: TopicPartition, earliest: int) -> None:
        """Raises KsegError if startingOffsets names an offset that the log no longer has, as failOnDataLoss asks."""
        wanted = self._options.start.offset_of(partition)
        if wanted is None or wanted >= earliest:
            return
        text = f"{partition[0]}-{partition[1]}: startingOffsets begins at {wanted}, and the log at {earliest}"
        if self._options.stream.fails_on_data_loss:
            raise KsegError(f"{text}. With option failOnDataLoss false the read begins there")
        _log.warning("%s", text)


def _logs(files: Iterable[SegmentFile]) -> list[SegmentFile]:
    return [file for file in files if file.kind in LOGS and not file.leftover]
