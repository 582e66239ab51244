"""Lists the segments of a remote partition with their offsets and leader epochs; unreadable segments with the
reason."""

from typing import NamedTuple

from kseg.formats.rows import Scratch
from kseg.logdir.lineage import Candidate
from kseg.segment.batches import Batch
from kseg.segment.reader import SegmentReader
from kseg.sidefiles.leader_epochs import EpochEntry, plain_epochs
from kseg.stores.remote.chunk_index import ManifestError
from kseg.stores.remote.names import LOG
from kseg.stores.remote.segment import EPOCHS, RemoteSegment
from kseg.stores.remote.source import RemoteSource
from kseg.stores.remote.storage import RemotePartition
from kseg.stores.remote.transformation import ChunkError

_INDEX_ENTRY_BYTES = 8


class Unusable(NamedTuple):
    """A segment that cannot be read. ``reason`` is a phrase that follows the segment's name."""

    segment: RemoteSegment
    reason: str


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
    index = segment.side_file(".index") or b""
    position = int.from_bytes(index[-4:], "big") if len(index) >= _INDEX_ENTRY_BYTES else 0
    with RemoteSource(segment, segment.path(LOG)) as source:
        for start in dict.fromkeys((position, 0)):
            reader = SegmentReader(source, base_offset=segment.start_offset, scratch=Scratch())
            reader.begin_at(start if start < source.size else 0)
            offsets = [item.last_offset for item in reader if isinstance(item, Batch) and item.is_valid]
            if offsets:
                return offsets[-1]
    raise ManifestError("its log holds no batch")
