"""Lists the segments of a remote partition with their offsets and leader epochs; unreadable segments with the
reason."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from kseg.errors import PathError
from kseg.formats.rows import Scratch
from kseg.formats.suffixes import INDEX, LOG
from kseg.logdir.lineage import Candidate, Lineage, MissingOffsets, SegmentOffsets, lineage_of, live_segments
from kseg.segment.batches import Batch
from kseg.segment.reader import SegmentReader
from kseg.sidefiles.leader_epochs import EpochEntry, plain_epochs
from kseg.stores.remote.chunk_index import ManifestError
from kseg.stores.remote.segment import EPOCHS, RemoteSegment
from kseg.stores.remote.source import RemoteSource
from kseg.stores.remote.storage import RemotePartition
from kseg.stores.remote.transformation import ChunkError

_INDEX_ENTRY_BYTES = 8


class Unusable(NamedTuple):
    """A segment that cannot be read. ``reason`` is a phrase that follows the segment's name."""

    segment: RemoteSegment
    reason: str


class LivePartition(NamedTuple):
    """The segments that consumers read: ``pieces`` by offset; ``holes``: offsets between them that no segment has.

    ``log_start``: the log start offset when the newest segment was copied.
    """

    pieces: list[SegmentOffsets[RemoteSegment]]
    holes: list[MissingOffsets]
    unusable: list[Unusable]
    lineage: Lineage
    log_start: int


def live_partition(partition: RemotePartition) -> LivePartition:
    """Selects the live segments by the store alone. Raises KeyMissingError, PathError, UnsupportedError."""
    candidates, unusable = candidates_of(partition)
    lineage = lineage_of(candidates)
    log_start = lineage[0].start_offset if lineage else 0
    live = live_segments(candidates, lineage, log_start)
    return LivePartition(live.pieces, live.holes, unusable, lineage, log_start)


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
    return max(map(_event_ms, partition.segments), default=-1)


def _event_ms(segment: RemoteSegment) -> int:
    try:
        metadata = segment.metadata
    except (ManifestError, PathError):
        return -1
    return -1 if metadata is None else metadata.event_timestamp_ms


def candidates_of(partition: RemotePartition) -> tuple[list[Candidate[RemoteSegment]], list[Unusable]]:
    """Reads the manifests and leader epoch files of a partition. Raises KeyMissingError, PathError,
    UnsupportedError."""
    found: list[Candidate[RemoteSegment]] = []
    unusable: list[Unusable] = []
    for segment in partition.segments:
        if segment.missing:
            unusable.append(Unusable(segment, f"has no {', '.join(segment.missing)}"))
            continue
        try:
            found.append(candidate_of(segment))
        except (ManifestError, ChunkError) as error:
            unusable.append(Unusable(segment, str(error)))
    return found, unusable


def candidate_of(segment: RemoteSegment) -> Candidate[RemoteSegment]:
    """Returns a segment's offsets and epochs.

    Raises ManifestError or ChunkError if it is damaged, KeyMissingError, PathError, UnsupportedError.
    """
    metadata = segment.metadata
    end = metadata.end_offset if metadata is not None else _last_offset(segment)
    if end < segment.start_offset:
        raise ManifestError(f"it ends at offset {end}, below its start")
    epochs = plain_epochs(segment.side_file(EPOCHS) or b"")
    if not epochs and metadata is not None:
        epochs = [EpochEntry(epoch, start) for epoch, start in sorted(metadata.epochs.items())]
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
            offsets = [item.last_offset for item in reader if isinstance(item, Batch) and item.is_valid]
            if offsets:
                return offsets[-1]
    raise ManifestError("its log holds no batch")
