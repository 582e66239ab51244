"""Selects the segments of a scan, and reads them as chunks of columns: for Python, Arrow, Spark and ``kseg convert``.

A scan has the records that a consumer sees. In a partition directory, snapshots of cluster metadata are skipped,
because they repeat records of the log.
"""

import logging
import os
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar

from kseg.errors import UnsupportedError
from kseg.export.arrow import valid_text
from kseg.export.chunk import Chunk, Chunks
from kseg.export.pushdown import Bounds
from kseg.export.records import RUN_BYTES as PREFETCH_RUN_BYTES
from kseg.export.records import ChunkPrefetcher, LeftOut, RecordColumns, ReportLeftOut, Wanted, begins_compressed
from kseg.formats.rows import Scratch
from kseg.formats.suffixes import CHECKPOINT, LOG
from kseg.kernel import COMPILED
from kseg.limits import CHUNK_BYTES, LONG_RUN_BYTES, MAX_BATCH_BYTES
from kseg.logdir.topics import check_topics
from kseg.segment.files import LAST_OFFSET, SegmentFile, between, segment_file
from kseg.segment.isolation import Transactions
from kseg.segment.paths import expand_path, roots_of, segments_at
from kseg.segment.reader import open_segment
from kseg.segment.slices import PART_BYTES, Slice, is_worth_parts, slices
from kseg.stores import trees
from kseg.stores.remote.keys import PrivateKeys
from kseg.stores.source import STANDARD_INPUT, Source, open_source

if TYPE_CHECKING:
    from kseg.logdir.remote_partitions import LiveSegment

T = TypeVar("T")

MEDIUM_BYTES = 256 << 10
"""Segments from this size on are worth a thread of their own."""
TASK_BYTES = 1 << 18
"""Cost of opening a file, in bytes read."""
_MAX_LOGGED = 10


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """``paths``: segments, partitions and log directories, globs expanded. ``topics``: globs, one of which must match.
    ``partitions``: numbers. Both select everything if None, and nothing if empty. Files without a topic match no topic
    and no partition.

    ``wanted`` has no transactions: those of each partition are found if ``is_committed``. ``is_live``: a partial batch
    at the end of a segment is being written and is no damage. ``keys``: for encrypted remote storage. ``mode``: that of
    `kseg.scan`. ``level`` and ``now_ms``: how mode findings verifies; None for the present. ``names``: topics that a
    filter leaves, None for all; they need not be there.
    """

    paths: tuple[str, ...]
    wanted: Wanted = Wanted()  # noqa: RUF009 - it cannot be changed
    topics: tuple[str, ...] | None = None
    partitions: frozenset[int] | None = None
    is_committed: bool = False
    is_live: bool = False
    max_batch_bytes: int = MAX_BATCH_BYTES
    keys: PrivateKeys = field(default_factory=PrivateKeys)
    mode: str = "records"
    level: str = "full"
    now_ms: int | None = None
    names: frozenset[str] | None = None

    def within(self, bounds: Bounds) -> Self:
        """Returns the request for the rows within bounds; in other modes by topics and partitions alone."""
        wanted = self.wanted
        if self.mode != "records":
            bounds = Bounds(topics=bounds.topics, partitions=bounds.partitions)
        keys = None if wanted.key is None else frozenset([wanted.key])
        bounds &= Bounds(*wanted[:4], self.names, self.partitions, keys)
        if bounds.is_empty:
            return replace(self, partitions=frozenset())
        key = next(iter(bounds.keys)) if bounds.keys is not None and len(bounds.keys) == 1 else None
        wanted = Wanted(*bounds[:4], wanted.transactions, key)
        return replace(self, wanted=wanted, names=bounds.topics, partitions=bounds.partitions)

    def keeps(self, file: SegmentFile) -> bool:
        """Whether the file is in a requested topic and partition."""
        return self.has(file.topic, file.partition)

    def has(self, topic: str | None, partition: int | None) -> bool:
        """Whether a topic and partition are requested."""
        globs = self.topics
        if globs is not None and (topic is None or not any(fnmatchcase(topic, glob) for glob in globs)):
            return False
        if self.names is not None and (topic is None or valid_text(topic) not in self.names):
            return False
        return self.partitions is None or partition in self.partitions


ReportDamage = Callable[[SegmentFile, LeftOut], None]
"""Gets each range that is skipped because of damage, in order."""


class Offsets(NamedTuple):
    """A range of offsets, inclusive."""

    first: int = -(1 << 63)
    last: int = LAST_OFFSET


class ScanPart(NamedTuple):
    """A part of a segment. ``transactions``: those of its partition, if only committed records are requested.

    ``offsets``: the range to read of its partition, within that of the request.
    """

    file: SegmentFile
    slice: Slice = Slice()
    transactions: Transactions | None = None
    offsets: Offsets = Offsets()


def parts_of_scan(request: ScanRequest, slice_bytes: int | None = None) -> Iterator[tuple[int, ScanPart]]:
    """Yields the parts of all segments that can contain matches, in order, each with its size in bytes.

    ``slice_bytes``: the approximate size of a part; None: a part is a segment, and sizes are 0. Raises PathError, or
    UnsupportedError for a file that is not a segment, and as `check_topics`.
    """
    for place in places_of_scan(request):
        yield from _parts_of_place(place, request, slice_bytes)


def roots_of_scan(request: ScanRequest) -> Iterator[str]:
    """Yields the paths, archives replaced by what is in them. Raises PathError."""
    return chain.from_iterable(map(roots_of, request.paths))


def places_of_scan(request: ScanRequest) -> Iterable[str]:
    """Returns the partitions and files at the paths. Raises PathError, and as `check_topics`."""
    places: Iterable[str] = chain.from_iterable(map(expand_path, roots_of_scan(request)))
    if request.topics is not None:
        places = list(places)
        check_topics(places, request.topics)
    return places


def _parts_of_place(place: str, request: ScanRequest, slice_bytes: int | None) -> Iterator[tuple[int, ScanPart]]:
    if trees.isdir(place) and not request.keeps(segment_file(os.path.join(place, "0.log"))):
        return
    files = [file for file in readable_segments_at(place) if request.keeps(file)]
    # Snapshots of cluster metadata repeat records of the log, and have batches of their own.
    is_partition = [file.path for file in files] != [place] and request.mode != "batches"
    chosen = matching(files, request.wanted, is_partition=is_partition)
    transactions = None
    if request.is_committed and chosen:
        transactions = Transactions.of_segments(logs_around(place), Scratch(request.max_batch_bytes))
    for file in chosen:
        live = live_segment_of(file)
        offsets = Offsets() if live is None else Offsets(live.log_start)
        for size, part in _slices(file, slice_bytes):
            yield size, ScanPart(file, part, transactions, offsets)


def live_segment_of(file: SegmentFile) -> "LiveSegment | None":
    """Returns the segment of remote storage that is mounted at the file's path; None for other files."""
    if trees.find(file.path) is None:
        return None
    from kseg.logdir.remote_partitions import live_segment_at  # few read remote storage

    return live_segment_at(file.path)


def logs_around(place: str) -> list[SegmentFile]:
    """Returns the .log files of the whole partition, even if ``place`` is one of its segments."""
    files = segments_at(place)
    if [file.path for file in files] == [place] and place != STANDARD_INPUT:
        files = segments_at(os.path.dirname(os.path.abspath(place)))
    return [file for file in files if file.kind == LOG]


def _slices(file: SegmentFile, slice_bytes: int | None) -> list[tuple[int, Slice]]:
    if slice_bytes is None:
        return [(0, Slice())]
    with open_source(file.path) as source:
        size = source.size
    parts = slices(size, slice_bytes) if file.kind == LOG else [Slice()]
    return [((part.end or size) - part.start, part) for part in parts]


def readable_segments_at(place: str) -> list[SegmentFile]:
    """Returns the segments of a file or partition directory. Raises UnsupportedError if one is not a segment."""
    files = segments_at(place)
    for file in files:
        if file.is_packed:
            raise UnsupportedError(f"{file.path}: is not packed, whatever its suffix says: give it another name")
        if file.kind and not file.is_segment:
            raise UnsupportedError(f"{file.path}: {file.kind} files hold no records")
    return files


def matching(files: list[SegmentFile], wanted: Wanted, is_partition: bool) -> list[SegmentFile]:
    """Returns the segments whose names allow wanted offsets; ``is_partition``: they are those of a directory."""
    if is_partition:
        files = [file for file in files if file.kind != CHECKPOINT]
    return between(files, wanted.first_offset, wanted.last_offset) if len(files) > 1 else files


class PartReader:
    """Reads parts of a scan. ``report`` is called for each range skipped because of damage, in order.

    ``columns`` are names of `kseg.export.chunk.NAMES`; others are ignored. ``jobs``: threads for a large segment;
    ``chunk_bytes``: size of the keys, values and headers of a chunk.
    """

    def __init__(
        self,
        request: ScanRequest,
        columns: Collection[str],
        timestamp_scale: int,
        report: ReportDamage,
        jobs: int = 1,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        self._request, self._columns, self._scale = request, columns, timestamp_scale
        self._report, self._jobs, self._chunk_bytes = report, jobs, chunk_bytes
        self._scratch = Scratch(request.max_batch_bytes)

    def chunks_of(self, parts: Iterable[ScanPart]) -> Iterator["PartChunk"]:
        """Yields the chunks of all parts in order. Threads decode ahead: parts of large segments, or whole ones."""
        prefetcher: ChunkPrefetcher[PartReader, PartChunk] = ChunkPrefetcher(self._jobs, self._another)
        opened: deque[Source] = deque(maxlen=self._jobs + 2)  # more than the prefetcher holds
        try:
            with prefetcher:
                for part in parts:
                    opened.append(open_source(part.file.path))
                    if self._is_worth_a_thread(opened[-1]):
                        read = partial(_chunks_in, part=part, source=opened[-1])
                        yield from prefetcher.take(read, partial(self._report, part.file))
                    else:
                        yield from prefetcher.rest()
                        yield from _chunks_in(self, part, opened[-1])
                yield from prefetcher.rest()
        finally:
            for source in opened:
                source.close()

    def _is_worth_a_thread(self, source: Source) -> bool:
        """Whether a thread should decode the whole segment: larger ones are read in parts."""
        is_medium = MEDIUM_BYTES <= source.size <= PART_BYTES
        return COMPILED and self._jobs > 1 and is_medium and begins_compressed(source)

    def _another(self, report: ReportLeftOut) -> "PartReader":
        """Returns a reader with buffers of its own, for a thread."""
        return PartReader(
            self._request, self._columns, self._scale, lambda _, left_out: report(left_out), 1, self._chunk_bytes
        )

    def chunks(self, part: ScanPart, source: Source | None = None) -> Iterator[Chunk]:
        """Yields the chunks of a part. ``source``: its segment, if it is open already."""
        if source is None:
            with open_source(part.file.path) as opened:
                yield from self.chunks(part, opened)
            return
        file, request = part.file, self._request
        jobs = self._jobs if is_worth_parts(source.size, self._jobs) else 1
        run_bytes = LONG_RUN_BYTES if jobs == 1 else PREFETCH_RUN_BYTES
        reader = open_segment(file, self._scratch, source=source, live=request.is_live, run_bytes=run_bytes)
        chunks = Chunks(self._columns, self._scale, chunk_bytes=self._chunk_bytes)
        wanted = request.wanted._replace(
            first_offset=max(request.wanted.first_offset, part.offsets.first),
            last_offset=min(request.wanted.last_offset, part.offsets.last),
            transactions=part.transactions,
        )
        yield from RecordColumns(reader, file, chunks, partial(self._report, file), wanted, part.slice, jobs)


class PartChunk(NamedTuple):
    """A chunk, and the part that it is from."""

    part: ScanPart
    chunk: Chunk

    @property
    def size(self) -> int:
        return self.chunk.size


def _chunks_in(reader: PartReader, part: ScanPart, source: Source) -> Iterator[PartChunk]:
    with source:
        for chunk in reader.chunks(part, source):
            yield PartChunk(part, chunk)


class DamageLog:
    """Logs ranges that a reader skips because of damage, up to ten of each segment."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._path = ""
        self._reported = 0

    def __call__(self, file: SegmentFile, left_out: LeftOut) -> None:
        if file.path != self._path:
            self._path, self._reported = file.path, 0
        self._reported += 1
        if self._reported <= _MAX_LOGGED:
            more = "; there may be more" if self._reported == _MAX_LOGGED else ""
            self._logger.warning("left out: %s%s", damage_text(file, left_out), more)


def damage_text(file: SegmentFile, left_out: LeftOut) -> str:
    """Returns a damaged range as text."""
    return f"{file.path}: position {left_out.position}: {left_out.code}: {left_out.message}"


def grouped(parts: Iterable[tuple[int, T]], limit: int) -> list[Sequence[T]]:
    """Groups consecutive parts, each with its size, to about ``limit`` bytes. Each group is a task.

    The last part of a group may go beyond the limit by up to half of its own size, so that segments a little larger
    than a half or a third of the limit are still read together.
    """
    groups: list[list[T]] = []
    left = 0
    for size, part in parts:
        cost = size + TASK_BYTES
        if not groups or cost // 2 > left:
            groups.append([])
            left = limit
        groups[-1].append(part)
        left -= cost
    return list(groups)
