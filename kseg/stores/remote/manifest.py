"""The ``.rsm-manifest`` of Aiven's plugin: one JSON object that describes a segment's objects.

    version            "1"
    chunkIndex         see `chunk_index`
    segmentIndexes     offset, timestamp, producerSnapshot, leaderEpoch, transaction: {position, size} in .indexes
    compression        whether each chunk is a zstd frame
    encryption         absent, or {dataKey: "<key id>:<base64>", aad: base64}
    remoteLogSegmentMetadata   a copy of Kafka's metadata, which the plugin never reads back

No field is trusted: sizes and counts are bounded, and object names are not read from it.
Source: SegmentManifestV1 of the plugin.
"""

import binascii
import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kseg.formats.suffixes import INDEX, SNAPSHOT, TIME_INDEX, TRANSACTION_INDEX
from kseg.limits import MAX_INDEX_BYTES, MAX_OFFSET, MAX_REMOTE_EPOCHS
from kseg.stores.remote.chunk_index import ChunkIndex, ManifestError, bounded_integer, parse_chunk_index
from kseg.stores.remote.names import is_topic
from kseg.stores.remote.transformation import OVERHEAD_BYTES

PARTS = {
    "offset": INDEX,
    "timestamp": TIME_INDEX,
    "producerSnapshot": SNAPSHOT,
    "leaderEpoch": ".leader_epoch_checkpoint",
    "transaction": TRANSACTION_INDEX,
}
"""Fields of segmentIndexes, and the suffix of the same file in LocalTieredStorage."""


class StoredSideFile(NamedTuple):
    """A side file inside the .indexes object, as stored."""

    position: int
    size: int


class Encryption(NamedTuple):
    """``data_key`` is encrypted with the RSA key pair ``key_id``; ``aad`` is authenticated with every chunk."""

    key_id: str
    data_key: bytes
    aad: bytes


@dataclass(frozen=True, slots=True)
class SegmentMetadata:
    """The broker's metadata at the start of the copy. ``epochs``: first offset in the segment by epoch."""

    topic: str
    topic_id: str
    partition: int
    segment_id: str
    start_offset: int
    end_offset: int
    event_timestamp_ms: int = -1
    epochs: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Manifest:
    """``metadata`` is None if the manifest has none that can be used."""

    chunks: ChunkIndex
    parts: dict[str, StoredSideFile]
    is_compressed: bool = False
    encryption: Encryption | None = None
    metadata: SegmentMetadata | None = None

    @property
    def indexes_bytes(self) -> int:
        """Size of the .indexes object by the manifest."""
        return max((part.position + part.size for part in self.parts.values()), default=0)


def parse_manifest(data: bytes) -> Manifest:
    """Raises ManifestError if the segment cannot be read by it."""
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise ManifestError("not a JSON object")
    if fields.get("version") != "1":
        raise ManifestError(f"version {str(fields.get('version'))[:20]!r}; only version 1 is known")
    if not isinstance(fields.get("compression"), bool):
        raise ManifestError("compression is neither true nor false")
    is_encrypted = fields.get("encryption") is not None
    chunks = parse_chunk_index(fields.get("chunkIndex"))
    if not fields["compression"]:
        _check_sizes(chunks, OVERHEAD_BYTES if is_encrypted else 0)
    return Manifest(
        chunks,
        _parts(fields.get("segmentIndexes")),
        fields["compression"],
        _encryption(fields["encryption"]) if is_encrypted else None,
        _metadata(fields.get("remoteLogSegmentMetadata")),
    )


def _check_sizes(chunks: ChunkIndex, overhead: int) -> None:
    """Raises ManifestError unless each stored chunk has its original size and ``overhead``."""
    for number in {0, len(chunks) - 1}:
        start, end = chunks.original_range(number)
        stored = chunks.positions[number + 1] - chunks.positions[number]
        if stored != end - start + overhead:
            raise ManifestError(f"chunk {number} of {end - start} bytes, not compressed, is stored in {stored} bytes")
    if chunks.stored_bytes != chunks.original_bytes + len(chunks) * overhead:
        raise ManifestError(f"chunks of {chunks.original_bytes} bytes are stored in {chunks.stored_bytes} bytes")


def _parts(fields: Any) -> dict[str, StoredSideFile]:
    if not isinstance(fields, dict):
        raise ManifestError("segmentIndexes is missing")
    found: dict[str, StoredSideFile] = {}
    for name, suffix in PARTS.items():
        part = fields.get(name)
        if part is None and name == "transaction":
            continue
        if not isinstance(part, dict):
            raise ManifestError(f"segmentIndexes has no {name}")
        position = bounded_integer(part, "position", 8 * MAX_INDEX_BYTES, minimum=0)
        found[suffix] = StoredSideFile(position, bounded_integer(part, "size", MAX_INDEX_BYTES, minimum=0))
    return found


def _encryption(fields: Any) -> Encryption:
    if not isinstance(fields, dict) or not all(isinstance(fields.get(name), str) for name in ("dataKey", "aad")):
        raise ManifestError("encryption lacks dataKey or aad")
    key_id, colon, key = fields["dataKey"].rpartition(":")
    if not colon or not key_id.isprintable() or len(key_id) > 1024:
        raise ManifestError("dataKey names no key pair")
    try:
        data_key = binascii.a2b_base64(key, strict_mode=True)
        aad = binascii.a2b_base64(fields["aad"], strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise ManifestError(f"encryption cannot be decoded: {error}") from error
    return Encryption(key_id, data_key, aad)


def _metadata(fields: Any) -> SegmentMetadata | None:
    """Returns None for unexpected metadata: the segment can be read without it."""
    try:
        segment = fields["remoteLogSegmentId"]
        partition = segment["topicIdPartition"]
        topic = partition["topicPartition"]
        epochs = {int(epoch): start for epoch, start in fields["segmentLeaderEpochs"].items()}
        found = SegmentMetadata(
            topic["topic"], partition["topicId"], topic["partition"], segment["id"], fields["startOffset"],
            fields["endOffset"], fields.get("eventTimestampMs", -1), epochs,
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    numbers = [
        found.partition,
        found.start_offset,
        found.end_offset,
        found.event_timestamp_ms,
        *epochs,
        *epochs.values(),
    ]
    are_numbers_right = all(isinstance(n, int) and not isinstance(n, bool) and -1 <= n <= MAX_OFFSET for n in numbers)
    are_names_right = is_topic(found.topic) and isinstance(found.topic_id, str) and isinstance(found.segment_id, str)
    return found if are_numbers_right and are_names_right and len(epochs) <= MAX_REMOTE_EPOCHS else None
