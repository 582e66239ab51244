"""Remote storage as the log directory that its brokers had: partitions with the segments that consumers read.

    REMOTE/<topic>-<partition>/<start offset>.log       a live segment (`lineage`), restored chunk by chunk
                              /<start offset>.index     and .timeindex, .txnindex: its side files
                              /<end offset + 1>.snapshot
                              /leader-epoch-checkpoint  the lineage

A segment of which only some offsets are live has no side files, and its log has only these batches.
"""

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from itertools import zip_longest
from threading import RLock
from typing import Any, NamedTuple

from kseg.decoders.framed import read_framed
from kseg.decoders.schemas import REMOTE_LOG_METADATA
from kseg.errors import KsegError, PathError, errors_at
from kseg.formats.rows import Scratch
from kseg.formats.schema import MessageError
from kseg.formats.suffixes import INDEX, LOG, SNAPSHOT
from kseg.limits import MAX_OFFSET, MAX_ROOT_FILE_BYTES
from kseg.node.log_directory import partitions_in, records_in
from kseg.segment.files import REMOTE_METADATA_TOPIC, SegmentFile, list_segments, segment_stem
from kseg.segment.items import Batch
from kseg.segment.paths import is_log_directory
from kseg.segment.reader import SegmentReader, open_segment
from kseg.sidefiles import checkpoints
from kseg.sidefiles.text_files import PARTITION_METADATA, topic_id_in
from kseg.stores.archives.spool import current_spool
from kseg.stores.extent import Extent
from kseg.stores.place import Place
from kseg.stores.remote.keys import PrivateKeys
from kseg.stores.remote.segment import (
    EPOCHS,
    ChunkError,
    ManifestError,
    RemotePartition,
    RemoteSegment,
    RemoteSource,
    RemoteStorage,
    SegmentObjects,
)
from kseg.stores.source import Source
from kseg.stores.trees import DIRECTORY, FILE, Tree, TreeNode, VirtualSideFile

Lineage = Sequence[checkpoints.EpochEntry]


class Candidate(NamedTuple):
    """A whole remote segment. ``epochs`` are the entries of its leader epoch file, from the log's first epoch on."""

    segment: RemoteSegment
    start_offset: int
    end_offset: int
    epochs: Lineage


class SegmentOffsets(NamedTuple):
    """Offsets ``first`` to ``last`` of a segment."""

    candidate: Candidate
    first: int
    last: int

    @property
    def is_whole(self) -> bool:
        return self.first <= self.candidate.start_offset and self.last >= self.candidate.end_offset


class MissingOffsets(NamedTuple):
    """Offsets that no segment holds."""

    first: int
    last: int


class LiveSegments(NamedTuple):
    """``pieces`` by offset. ``abandoned``: segments that hold records of leaders outside the lineage. ``superseded``:
    segments whose offsets are all taken from other segments."""

    pieces: list[SegmentOffsets]
    abandoned: list[Candidate]
    superseded: list[Candidate]


def holes_between(pieces: Sequence[SegmentOffsets], end: int | None = None) -> list[MissingOffsets]:
    """Returns the offsets that are missing between pieces, and from the last one to ``end``, if it is given."""
    starts = [piece.first for piece in pieces[1:]] + ([] if end is None else [end])
    holes = [MissingOffsets(piece.last + 1, start - 1) for piece, start in zip(pieces, starts, strict=False)]
    return [hole for hole in holes if hole.first <= hole.last]


def lineage_of(candidates: Iterable[Candidate]) -> Lineage:
    """Returns the lineage by the store alone: that of the segment with the latest epoch and highest end offset."""
    newest = max(
        (found for found in candidates if found.epochs),
        key=lambda found: (found.epochs[-1].epoch, found.end_offset),
        default=None,
    )
    return [] if newest is None else newest.epochs


def live_segments(candidates: Sequence[Candidate], lineage: Lineage, log_start: int = 0) -> LiveSegments:
    """Chooses segments for all offsets of the lineage from ``log_start`` on.

    A segment is found by leader epoch and offset, never by the offset alone: after an unclean election the same offsets
    are written and copied twice. The lineage (the entries of a leader-epoch-checkpoint) gives the epoch of each offset.
    Segments that hold the same offsets of the same epoch have the same records; of these the one with the highest end
    offset is taken. Sources: RemoteLogMetadataCache and RemoteLogManager of Kafka.
    """
    usable: list[SegmentOffsets] = []
    abandoned: list[Candidate] = []
    for candidate in candidates:
        ranges = _in_lineage(candidate, lineage)
        if sum(last - first + 1 for first, last in ranges) < candidate.end_offset - candidate.start_offset + 1:
            abandoned.append(candidate)
        usable += [SegmentOffsets(candidate, first, last) for first, last in ranges if last >= log_start]
    pieces = _covering(usable)
    others = {id(piece.candidate): piece.candidate for piece in usable}
    for candidate in (*abandoned, *(piece.candidate for piece in pieces)):
        others.pop(id(candidate), None)
    return LiveSegments(pieces, abandoned, list(others.values()))


def _in_lineage(candidate: Candidate, lineage: Lineage) -> list[tuple[int, int]]:
    """Returns the offsets of a segment that were written in the epochs that the lineage has for them.

    The lineage begins at the log start offset. Lower offsets of a segment across the log start count as part of it:
    they are never read.
    """
    found: list[tuple[int, int]] = []
    spans = {epoch: (first, last) for epoch, first, last in epochs_within(lineage, 0, MAX_OFFSET)}
    for epoch, first, last in epochs_within(candidate.epochs, candidate.start_offset, candidate.end_offset):
        is_before = lineage and epoch < lineage[0].epoch
        span = (0, lineage[0].start_offset - 1) if is_before else spans.get(epoch, (MAX_OFFSET, -1))
        first, last = max(first, span[0]), min(last, span[1])
        if first > last:
            continue
        if found and found[-1][1] + 1 == first:
            first = found.pop()[0]
        found.append((first, last))
    return found


def epochs_within(epochs: Lineage, start: int, end: int) -> list[tuple[int, int, int]]:
    """Returns the epochs between two offsets as (epoch, first offset, last offset).

    Offsets below the first entry, which is at the log start offset, count as its epoch.
    """
    found: list[tuple[int, int, int]] = []
    for number, (entry, following) in enumerate(zip_longest(epochs, epochs[1:])):
        first = max(entry.start_offset, start) if number else start
        last = end if following is None else min(following.start_offset - 1, end)
        if first <= last:
            found.append((entry.epoch, first, last))
    return found


def _covering(usable: list[SegmentOffsets]) -> list[SegmentOffsets]:
    """Covers all offsets with as few pieces as possible, each cut to begin where the one before ends."""
    pieces: list[SegmentOffsets] = []
    waiting = sorted(usable, key=lambda piece: piece.first, reverse=True)
    open_pieces: list[SegmentOffsets] = []
    offset = waiting[-1].first if waiting else 0
    while waiting or open_pieces:
        while waiting and waiting[-1].first <= offset:
            open_pieces.append(waiting.pop())
        open_pieces = [piece for piece in open_pieces if piece.last >= offset]
        if not open_pieces:
            offset = waiting[-1].first if waiting else offset
            continue
        best = max(open_pieces, key=lambda piece: (piece.last, piece.first == offset, piece.candidate.end_offset))
        pieces.append(best._replace(first=offset))
        offset = best.last + 1
    return pieces


_INDEX_ENTRY_BYTES = 8


Unusable = tuple[RemoteSegment, str]
"""A segment that cannot be read, and the reason: a phrase that follows the segment's name."""


def newest_partitions(
    partitions: Iterable[RemotePartition], rank: Callable[[RemotePartition], Any] | None = None
) -> tuple[list[RemotePartition], list[RemotePartition]]:
    """Returns one partition for each topic and number, and the others: those of earlier topics with the same name.

    ``rank``: of several the one with the highest is taken; by default the one that was copied to last.
    """
    same: dict[tuple[str, int], list[RemotePartition]] = {}
    for partition in partitions:
        same.setdefault((partition.topic, partition.number), []).append(partition)
    newest = [max(some, key=rank or last_event_ms) if len(some) > 1 else some[0] for some in same.values()]
    kept = {id(partition) for partition in newest}
    return newest, [partition for some in same.values() for partition in some if id(partition) not in kept]


def last_event_ms(partition: RemotePartition) -> int:
    """Returns when the newest segment was copied, by the manifests; -1 without one."""
    found = -1
    for segment in partition.segments:
        with suppress(ManifestError, PathError):
            if (metadata := segment.manifest.metadata) is not None:
                found = max(found, metadata.event_timestamp_ms)
    return found


def candidates_of(partition: RemotePartition) -> tuple[list[Candidate], list[Unusable]]:
    """Returns the segments of a partition by their manifests and leader epoch files; unreadable ones with the reason.
    Raises KeyMissingError, PathError, UnsupportedError."""
    found: list[Candidate] = []
    unusable: list[Unusable] = []
    for segment in partition.segments:
        if segment.missing:
            unusable.append((segment, f"has no {', '.join(segment.missing)}"))
            continue
        try:
            found.append(candidate_of(segment))
        except (ManifestError, ChunkError) as error:
            unusable.append((segment, str(error)))
    return found, unusable


def candidate_of(segment: RemoteSegment) -> Candidate:
    """Returns a segment's offsets and epochs.

    Raises ManifestError or ChunkError if it is damaged, KeyMissingError, PathError, UnsupportedError.
    """
    metadata = segment.manifest.metadata
    end = metadata.end_offset if metadata is not None else _last_offset(segment)
    if end < segment.start_offset:
        raise ManifestError(f"it ends at offset {end}, below its start")
    epochs = checkpoints.plain_epochs(segment.side_file(EPOCHS) or b"")
    if not epochs and metadata is not None:
        epochs = [checkpoints.EpochEntry(epoch, start) for epoch, start in sorted(metadata.epochs.items())]
    if not epochs:
        raise ManifestError("its leader epochs cannot be read")
    return Candidate(segment, segment.start_offset, end, epochs)


def _last_offset(segment: RemoteSegment) -> int:
    """Returns the segment's last offset, read from the last offset index entry on."""
    index = segment.side_file(INDEX) or b""
    position = int.from_bytes(index[-4:], "big") if len(index) >= _INDEX_ENTRY_BYTES else 0
    with RemoteSource(segment, segment.path(LOG)) as source:
        for start in dict.fromkeys((position, 0)):
            reader = SegmentReader(source, base_offset=segment.start_offset, scratch=Scratch())
            reader.begin_at(start if start < source.size else 0)
            offsets = [batch.last_offset for batch in reader.intact()]
            if offsets:
                return offsets[-1]
    raise ManifestError("its log holds no batch")


_COPY_FINISHED, _DELETE_STARTED, _DELETE_FINISHED = 1, 2, 3
"""States of RemoteLogSegmentState."""


def copied_offsets(log_directories: Iterable[str]) -> dict[tuple[str, int], int] | None:
    """Returns the last offset of each partition in segments whose copy is finished and that are not deleted; None if no
    partition of __remote_log_metadata is there, or none can be read (KIP-405)."""
    paths: list[str] = []
    with suppress(KsegError, OSError):
        paths = [path for one in log_directories for _, path in partitions_in(one, REMOTE_METADATA_TOPIC)]
    if not paths:
        return None
    ends, states = dict[str, tuple[tuple[str, int], int]](), dict[str, int]()
    for fields in _of_segments(value for path in paths for _, _, value in records_in(list_segments(path))):
        segment = fields["remoteLogSegmentId"]
        place = segment["topicIdPartition"]
        if "endOffset" in fields:
            ends[segment["id"]] = (place["name"], place["partition"]), fields["endOffset"]
        states[segment["id"]] = fields["remoteLogSegmentState"]
    found: dict[tuple[str, int], int] = {}
    for segment_id, (partition, end) in ends.items():
        if states[segment_id] == _COPY_FINISHED:
            found[partition] = max(end, found.get(partition, end))
    return found


def _of_segments(values: Iterable[bytes | None]) -> Iterator[dict[str, Any]]:
    """Yields the fields of the records of __remote_log_metadata that are about a segment."""
    for value in values:
        with suppress(MessageError):
            fields = read_framed(value, REMOTE_LOG_METADATA).fields
            if "remoteLogSegmentId" in fields:
                yield fields


class LocalPartition(NamedTuple):
    """A partition directory: its lineage, empty if the file is malformed, and its segments by base offset."""

    directory: str
    lineage: Lineage
    segments: list[SegmentFile]


class LocalLogs:
    """The local side of tiered partitions in the log directories of a node: segments, lineage, log start offsets, and
    deletions of remote segments (RemoteLogMetadataTopic, RemoteLogSegmentState). Raises PathError if a path is no log
    directory, or one of its files cannot be read."""

    def __init__(self, *directories: str) -> None:
        for path in directories:
            if not Place(path).is_dir():
                raise PathError(f"{path}: no such directory")
            if not is_log_directory(path):
                raise PathError(f"{path}: is no log directory")
        self.directories = directories

    @cached_property
    def log_starts(self) -> dict[tuple[str, int], int]:
        """By topic and partition: where the partition lies now, else where it has left its entry."""
        left, own = dict[tuple[str, int], int](), dict[tuple[str, int], int]()
        for directory in self.directories:
            content = self._read(Place(directory) / checkpoints.LOG_STARTS)
            found = checkpoints.offsets_of(checkpoints.read_offset_checkpoint(content))
            left |= found
            own |= {place: found[place] for place, _ in partitions_in(directory) if place in found}
        return left | own

    @cached_property
    def deleted(self) -> set[tuple[str, int, str]]:
        """Remote segments whose deletion has begun, as (topic id, partition, segment id)."""
        states: dict[tuple[str, int, str], int] = {}
        paths = (path for each in self.directories for _, path in partitions_in(each, REMOTE_METADATA_TOPIC))
        for path in paths:
            for fields in _of_segments(record_values(path)):
                segment = fields["remoteLogSegmentId"]
                topic = segment["topicIdPartition"]
                key = topic["id"], topic["partition"], segment["id"]
                states[key] = max(states.get(key, 0), fields["remoteLogSegmentState"])
        return {key for key, state in states.items() if state in (_DELETE_STARTED, _DELETE_FINISHED)}

    def partition(self, remote: RemotePartition) -> LocalPartition | None:
        """Returns the local log of a partition; None if there is none, or if its topic id differs."""
        for path in (Place(each) / remote.name for each in self.directories):
            if not path.is_dir() or path.is_link():
                continue
            lineage = checkpoints.plain_epochs(self._read(path / checkpoints.LEADER_EPOCHS)) or []
            segments = [file for file in list_segments(path) if file.kind == LOG and file.base_offset is not None]
            if topic_id_in(self._read(path / PARTITION_METADATA)) in (None, remote.topic_id):
                return LocalPartition(path, lineage, segments)
        return None

    def _read(self, path: str) -> bytes:
        with errors_at(path), suppress(FileNotFoundError):
            return Place(path).read(MAX_ROOT_FILE_BYTES)
        return b""


def record_values(directory: str) -> Iterator[bytes]:
    """Yields the values of the records in a partition's intact batches. Raises PathError."""
    for file in list_segments(directory):
        with open_segment(file.path, base_offset=file.base_offset) as reader:
            for item in reader:
                if isinstance(item, Batch) and not item.check():
                    yield from (record.value for record in item if record.value is not None)


def _warn(message: str, *values: object) -> None:
    import logging  # few commands read remote storage

    logging.getLogger("kseg").warning(message, *values)


class LiveSegment(NamedTuple):
    """A .log in the tree. ``first`` and ``last``: its live offsets; ``log_start``: consumers read from here on.

    ``chunk_bytes``: the size of its chunks when they are restored. It can be pickled, so that another process reads the
    segment without listing the store.
    """

    objects: SegmentObjects
    first: int
    last: int
    is_whole: bool
    log_start: int
    chunk_bytes: int


class RemoteTree(Tree):
    """The tree of the storage in ``store``. Partitions are listed, and their manifests read, on first use.

    Its methods raise KeyMissingError, PathError and UnsupportedError besides OSError.
    """

    def __init__(self, store: Place, keys: PrivateKeys) -> None:
        super().__init__()
        self.keys = keys
        self._store = store
        self._lock = RLock()
        self._partitions: dict[str, RemotePartition] | None = None
        self._listed: dict[str, list[str]] = {}
        self._files: dict[str, Tree] = {}
        self._live: dict[str, LiveSegment] = {}

    def node(self, inner: str) -> TreeNode | None:
        if inner in self._files:
            return self._files[inner].node("")
        if not inner:
            return TreeNode(DIRECTORY)
        partition, slash, _ = inner.partition("/")
        if partition not in self._names():
            return None
        if not slash:
            return TreeNode(DIRECTORY)
        self._list(partition)
        return self._files[inner].node("") if inner in self._files else None

    def nodes(self, inner: str) -> Iterable[tuple[str, TreeNode]]:
        """Returns nodes without sizes: those of side files are known when they are read."""
        if not inner:
            return [(name, TreeNode(DIRECTORY)) for name in self._names()]
        if inner not in self._names():
            raise self._missing(inner)
        return [(name, TreeNode(FILE)) for name in self._list(inner)]

    def open(self, inner: str) -> Extent:
        return self._file(inner).open("")

    def source(self, inner: str, path: str) -> Source | None:
        return self._file(inner).source("", path)

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def live(self, inner: str) -> LiveSegment | None:
        """Returns a .log of the tree, None for any other path."""
        self.node(inner)
        return self._live.get(inner)

    def use(self, inner: str, live: LiveSegment) -> None:
        """Makes the files of a segment readable without listing its partition. ``inner``: the path of its .log."""
        with self._lock:
            if inner not in self._files:
                self._add(inner, live, RemoteSegment(self._store, self.keys, *live.objects))

    def _names(self) -> Mapping[str, RemotePartition]:
        with self._lock:
            if self._partitions is None:
                chosen, older = newest_partitions(RemoteStorage(self._store, self.keys).partitions)
                for found in older:
                    _warn("%s: left out: of an earlier topic with this name", self._store / found.folder)
                self._partitions = {found.name: found for found in chosen}
            return self._partitions

    def _file(self, inner: str) -> Tree:
        if self.node(inner) is None or inner not in self._files:
            raise self._missing(inner)
        return self._files[inner]

    def _missing(self, inner: str) -> OSError:
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._store / inner)

    def _list(self, name: str) -> list[str]:
        """Returns the names of a partition's files."""
        with self._lock:
            if name not in self._listed:
                self._add_partition(name, *candidates_of(self._names()[name]))
                self._listed[name] = [inner.rpartition("/")[2] for inner in self._files if inner.startswith(name + "/")]
            return self._listed[name]

    def _add_partition(self, name: str, candidates: list[Candidate], unusable: list[Unusable]) -> None:
        for segment, reason in unusable:
            _warn("%s: left out: %s", segment.path(), reason)
        lineage = lineage_of(candidates)
        log_start = lineage[0].start_offset if lineage else 0
        found = live_segments(candidates, lineage, log_start)
        for hole in holes_between(found.pieces):
            _warn("%s: no segment has offsets %s to %s", self._store / name, hole.first, hole.last)
        for piece in found.pieces:
            segment, base = piece.candidate.segment, max(piece.first, piece.candidate.start_offset)
            chunk_bytes = segment.chunks.original_chunk_bytes
            live = LiveSegment(segment.objects, base, piece.last, piece.is_whole, log_start, chunk_bytes)
            self._add(f"{name}/{segment_stem(base)}{LOG}", live, segment)
            if piece.is_whole:
                snapshot = VirtualSideFile(partial(segment.content, SNAPSHOT))
                self._files[f"{name}/{segment_stem(piece.last + 1)}{SNAPSHOT}"] = snapshot
        self._files[f"{name}/{checkpoints.LEADER_EPOCHS}"] = VirtualSideFile(
            lambda: checkpoints.build_leader_epochs(lineage)
        )

    def _add(self, inner: str, live: LiveSegment, segment: RemoteSegment) -> None:
        self._live[inner] = live
        if not live.is_whole:
            self._files[inner] = _CutLog(segment, live)
            return
        for path, file in segment.files(self._store / inner, is_in_place=True).items():
            suffix = os.path.splitext(path)[1]
            if suffix == LOG or suffix in segment.manifest.parts:
                self._files[inner.removesuffix(LOG) + suffix] = file


def live_segment_at(path: str) -> LiveSegment | None:
    """Returns the remote segment at a path in a `RemoteTree`, None for any other path."""
    place = Place(path)
    return place.tree.live(place.inner) if isinstance(place.tree, RemoteTree) else None


class _CutLog(Tree):
    """A log without the batches outside its live offsets. Damage in it is kept."""

    def __init__(self, segment: RemoteSegment, live: LiveSegment) -> None:
        super().__init__()
        self._segment, self._live_offsets = segment, live
        self._extent: Extent | None = None

    def node(self, inner: str) -> TreeNode | None:
        return TreeNode(FILE, self._segment.size if self._extent is None else self._extent.current_size())

    def open(self, inner: str) -> Extent:
        if self._extent is None:
            self._extent = current_spool().add(self._kept())
        return Extent(os.dup(self._extent.descriptor), self._extent.start, self._extent.size)

    def close(self) -> None:
        if self._extent is not None:
            self._extent.close()
            self._extent = None

    def _kept(self) -> Iterator[bytes]:
        first, last = self._live_offsets.first, self._live_offsets.last
        with RemoteSource(self._segment, self._segment.path()) as source:
            for item in SegmentReader(source, scratch=Scratch()):
                if isinstance(item, Batch) and item.is_valid:
                    base = item.last_offset if item.base_offset is None else item.base_offset
                    if base < first or item.last_offset > last:
                        continue
                yield bytes(source.buffer[item.position : item.end])
