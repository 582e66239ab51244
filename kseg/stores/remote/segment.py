"""Segments of remote storage: their objects by partition, and from them the bytes of logs and side files by chunks."""

import binascii
import errno
import json
import os
import struct
from array import array
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import accumulate
from typing import Any, NamedTuple

from kseg import limits
from kseg.errors import PathError, errors_at
from kseg.formats.compression import DecompressedBytes, DecompressionError, unzstd
from kseg.formats.rows import BytesLike
from kseg.formats.suffixes import INDEX, INDEX_SUFFIXES, LOG, SNAPSHOT, TIME_INDEX, TRANSACTION_INDEX
from kseg.positioned import write_all
from kseg.stores.extent import unnamed_file
from kseg.stores.object_urls import directory_at
from kseg.stores.objects import objects_below
from kseg.stores.place import Place
from kseg.stores.remote.keys import PrivateKeys
from kseg.stores.remote.recognition import AIVEN, INDEXES, LOCAL, MANIFEST, is_topic, parse_object_name
from kseg.stores.source import SMALL_BYTES, FetchedSource
from kseg.stores.stored_object import StoredObject
from kseg.stores.trees import Tree, VirtualLog, VirtualSideFile

# Restores stored bytes: decrypts AES-GCM, then decompresses zstd. Each chunk and each side file is independent.
#
# stored IV, 12 bytes | AES-256-GCM ciphertext | tag, 16 bytes if the segment is encrypted plain zstd frame of the
# original bytes if the segment's log is compressed
#
# An empty side file is stored as no bytes, also in an encrypted segment.

IV_BYTES, TAG_BYTES = 12, 16
OVERHEAD_BYTES = IV_BYTES + TAG_BYTES


class ChunkError(ValueError):
    """Stored bytes that cannot be restored. The text is one line."""


class ManifestError(ValueError):
    """A manifest that is inconsistent, or has values that no plugin writes. The text is one line."""


class Cipher:
    """Decrypts the chunks and side files of one segment; threads may share it."""

    def __init__(self, data_key: bytes, aad: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._aes = AESGCM(data_key)
        self._aad = aad

    def decrypted(self, stored: bytes) -> bytes:
        """Raises ChunkError if the bytes or the key are not those of the encryption."""
        from cryptography.exceptions import InvalidTag

        if len(stored) < OVERHEAD_BYTES:
            raise ChunkError(f"{len(stored)} bytes are too few for an encrypted chunk")
        try:
            return self._aes.decrypt(stored[:IV_BYTES], memoryview(stored)[IV_BYTES:], self._aad)
        except InvalidTag:
            raise ChunkError("authentication failed: the bytes are not those that were encrypted") from None


def restored_chunk(stored: bytes, size: int, cipher: Cipher | None, is_compressed: bool) -> bytes:
    """Returns the ``size`` original bytes of a chunk. Raises ChunkError."""
    data: BytesLike = stored if cipher is None else cipher.decrypted(stored)
    if is_compressed:
        try:
            data = unzstd(memoryview(data), DecompressedBytes(size))
        except (DecompressionError, IndexError) as error:
            raise ChunkError(f"cannot be decompressed: {error}") from error
    if len(data) != size:
        raise ChunkError(f"restores to {len(data)} bytes instead of {size}")
    return bytes(data)


_INT32 = struct.Struct(">i")
_BASE = struct.Struct(">iB")
_MAX_OVERHEAD_BYTES = 4 << 20
"""Limit of the bytes that compression and encryption add to a chunk."""
_PLAIN_CHUNK_BYTES = 4 << 20


class ChunkIndex:
    """The sizes of a segment's chunks, which are adjacent in the .log object. Each but the last restores to
    ``original_chunk_bytes``; ``positions`` are those of the stored chunks and the end of the last one.

    Source: FixedSizeChunkIndex, VariableSizeChunkIndex and ChunkSizesBinaryCodec of Aiven's plugin.
    """

    def __init__(self, original_chunk_bytes: int, original_bytes: int, stored_sizes: "array[int]") -> None:
        self.original_chunk_bytes = original_chunk_bytes
        self.original_bytes = original_bytes
        self.positions = array("q", accumulate(stored_sizes, initial=0))

    def __len__(self) -> int:
        return len(self.positions) - 1

    @property
    def stored_bytes(self) -> int:
        return self.positions[-1]

    def original_range(self, chunk: int) -> tuple[int, int]:
        """Returns the bytes of the segment in a chunk: the first, and the one after the last."""
        start = chunk * self.original_chunk_bytes
        return start, min(start + self.original_chunk_bytes, self.original_bytes)


def parse_chunk_index(fields: Any) -> ChunkIndex:
    """Reads ``chunkIndex`` of a manifest. Raises ManifestError."""
    if not isinstance(fields, dict):
        raise ManifestError("chunkIndex is missing")
    chunk_bytes = bounded_integer(fields, "originalChunkSize", limits.MAX_SEGMENT_BYTES)
    file_bytes = bounded_integer(fields, "originalFileSize", limits.MAX_SEGMENT_BYTES)
    if (largest := min(chunk_bytes, file_bytes)) > limits.MAX_CHUNK_BYTES:
        raise ManifestError(f"a chunk of {largest} bytes is above the limit of {limits.MAX_CHUNK_BYTES}")
    count = -(-file_bytes // chunk_bytes)
    if count > limits.MAX_CHUNKS:
        raise ManifestError(f"{count} chunks are above the limit of {limits.MAX_CHUNKS}")
    kind = fields.get("type")
    if kind == "fixed":
        size = bounded_integer(fields, "transformedChunkSize", limits.MAX_SEGMENT_BYTES)
        sizes = array("q", [size]) * (count - 1)
        sizes.append(bounded_integer(fields, "finalTransformedChunkSize", limits.MAX_SEGMENT_BYTES))
    elif kind == "variable":
        sizes = variable_sizes(_unpacked(fields.get("transformedChunks")))
    else:
        raise ManifestError(f"chunkIndex has the unknown type {str(kind)[:20]!r}")
    if len(sizes) != count:
        raise ManifestError(f"the chunk index has {len(sizes)} chunks, the sizes of file and chunks make {count}")
    if max(sizes) > limits.MAX_CHUNK_BYTES + _MAX_OVERHEAD_BYTES:
        raise ManifestError(f"a stored chunk of {max(sizes)} bytes is above the limit of {limits.MAX_CHUNK_BYTES}")
    return ChunkIndex(chunk_bytes, file_bytes, sizes)


def bounded_integer(fields: dict[str, Any], name: str, maximum: int, minimum: int = 1) -> int:
    """Returns an integer field within bounds. Raises ManifestError."""
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
        raise ManifestError(f"{name} is {str(value)[:40]}, not a number from {minimum} to {maximum}")
    return value


def variable_sizes(data: bytes) -> "array[int]":
    """Decodes the sizes of a variable chunk index. Raises ManifestError.

        int32 count | int32 size                       if count is 1; nothing follows a count of 0
        int32 count | int32 base | int8 width | count - 1 unsigned differences from base | int32 last size

    All integers are big-endian.
    """
    sizes = array("q")
    try:
        (count,) = _INT32.unpack_from(data)
        if count < 0:
            raise ManifestError(f"the chunk index has {count} chunks")
        if count > 1:
            base, width = _BASE.unpack_from(data, 4)
            end = 9 + (count - 1) * width
            if not 1 <= width <= 4 or end + 4 != len(data):
                raise ManifestError(f"the chunk index has {len(data)} bytes for {count} chunks of width {width}")
            sizes.extend(base + int.from_bytes(data[at : at + width], "big") for at in range(9, end, width))
            sizes.append(_INT32.unpack_from(data, end)[0])
        elif count == 1:
            sizes.append(_INT32.unpack_from(data, 4)[0])
    except struct.error as cause:
        raise ManifestError("the chunk index ends too early") from cause
    if len(sizes) and min(sizes) < 1:
        raise ManifestError("the chunk index has a chunk without bytes")
    return sizes


def _unpacked(text: Any) -> bytes:
    """Decodes base64 and zstd. Raises ManifestError."""
    try:
        data = binascii.a2b_base64(text, strict_mode=True) if isinstance(text, str) else b""
        return bytes(unzstd(memoryview(data), DecompressedBytes(4 * limits.MAX_CHUNKS + 16)))
    except (binascii.Error, ValueError, IndexError, DecompressionError) as cause:
        raise ManifestError(f"transformedChunks cannot be decoded: {cause}") from cause


# The ``.rsm-manifest`` of Aiven's plugin: one JSON object that describes a segment's objects.
#
# version            "1"
# chunkIndex         see `ChunkIndex`
# segmentIndexes     offset, timestamp, producerSnapshot, leaderEpoch, transaction: {position, size} in .indexes
# compression        whether each chunk is a zstd frame
# encryption         absent, or {dataKey: "<key id>:<base64>", aad: base64}
# remoteLogSegmentMetadata   a copy of Kafka's metadata, which the plugin never reads back
#
# No field is trusted: sizes and counts are bounded, and object names are not read from it.
# Source: SegmentManifestV1 of the plugin.

EPOCHS = ".leader_epoch_checkpoint"
PARTS = {
    "offset": INDEX,
    "timestamp": TIME_INDEX,
    "producerSnapshot": SNAPSHOT,
    "leaderEpoch": EPOCHS,
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
        # Each stored chunk has its original size and what encryption adds.
        overhead = OVERHEAD_BYTES if is_encrypted else 0
        for number in {0, len(chunks) - 1}:
            start, end = chunks.original_range(number)
            stored = chunks.positions[number + 1] - chunks.positions[number]
            if stored != end - start + overhead:
                text = f"chunk {number} of {end - start} bytes, not compressed, is stored in {stored} bytes"
                raise ManifestError(text)
        if chunks.stored_bytes != chunks.original_bytes + len(chunks) * overhead:
            raise ManifestError(f"chunks of {chunks.original_bytes} bytes are stored in {chunks.stored_bytes} bytes")
    return Manifest(
        chunks,
        _parts(fields.get("segmentIndexes")),
        fields["compression"],
        _encryption(fields["encryption"]) if is_encrypted else None,
        _metadata(fields.get("remoteLogSegmentMetadata")),
    )


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
        position = bounded_integer(part, "position", 8 * limits.MAX_INDEX_BYTES, minimum=0)
        found[suffix] = StoredSideFile(position, bounded_integer(part, "size", limits.MAX_INDEX_BYTES, minimum=0))
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
    offsets = (found.start_offset, found.end_offset)
    numbers = [found.partition, *offsets, found.event_timestamp_ms, *epochs, *epochs.values()]
    are_numbers_right = all(type(n) is int and -1 <= n <= limits.MAX_OFFSET for n in numbers)
    are_names_right = is_topic(found.topic) and isinstance(found.topic_id, str) and isinstance(found.segment_id, str)
    return found if are_numbers_right and are_names_right and len(epochs) <= limits.MAX_REMOTE_EPOCHS else None


READ_BYTES = 8 << 20
"""Adjacent chunks are read together up to this size."""

_NEEDED = {AIVEN: (LOG, INDEXES, MANIFEST), LOCAL: (LOG, INDEX, TIME_INDEX, SNAPSHOT, EPOCHS)}
"""Suffixes of the objects of a whole segment, by layout."""


SegmentObjects = tuple[str, int, str, dict[str, StoredObject]]
"""Identifies a segment in its store: layout, start offset, id, and objects by suffix. It can be pickled, and holds no
key."""


class RemoteSegment:
    """A segment by its objects in ``store``; ``found`` has them by suffix. They are read on first use."""

    def __init__(
        self, store: Place, keys: PrivateKeys, layout: str, start_offset: int, segment_id: str,
        found: dict[str, StoredObject],
    ) -> None:  # fmt: skip
        self.store, self._keys = store, keys
        self.layout, self.start_offset, self.segment_id, self.found = layout, start_offset, segment_id, found

    @property
    def objects(self) -> SegmentObjects:
        return self.layout, self.start_offset, self.segment_id, self.found

    def path(self, suffix: str = LOG) -> Place:
        """The place of an object; for a side file inside .indexes one in the same folder, for messages."""
        if suffix in self.found:
            return self.store / self.found[suffix].name
        any_suffix, any_object = next(iter(self.found.items()))
        return self.store / (any_object.name.removesuffix(any_suffix) + suffix)

    def _read(self, suffix: str, start: int, length: int) -> bytes:
        with errors_at(path := self.path(suffix)):
            return path.read_range(start, length)

    @property
    def missing(self) -> list[str]:
        """Suffixes of the objects that a whole segment has and this one lacks."""
        return [suffix for suffix in _NEEDED[self.layout] if suffix not in self.found]

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest; for LocalTieredStorage, which has none, a manifest made from the files.

        Raises ManifestError, PathError.
        """
        if self.layout == AIVEN:
            if MANIFEST not in self.found:
                raise ManifestError("there is no manifest")
            stored = self.found[MANIFEST]
            if stored.size > limits.MAX_MANIFEST_OBJECT_BYTES:
                raise ManifestError(f"{stored.size} bytes are above the limit of {limits.MAX_MANIFEST_OBJECT_BYTES}")
            return parse_manifest(self._read(MANIFEST, 0, stored.size))
        if LOG not in self.found:
            raise ManifestError("there is no log")
        size = self.found[LOG].size
        if not 0 < size <= limits.MAX_SEGMENT_BYTES:
            raise ManifestError(f"a log of {size} bytes is no segment")
        parts = {
            suffix: StoredSideFile(0, self.found[suffix].size) for suffix in PARTS.values() if suffix in self.found
        }
        # The log is stored as it is: its chunks are parts of it.
        sizes = (min(_PLAIN_CHUNK_BYTES, size - start) for start in range(0, size, _PLAIN_CHUNK_BYTES))
        return Manifest(ChunkIndex(_PLAIN_CHUNK_BYTES, size, array("q", sizes)), parts)

    @property
    def chunks(self) -> ChunkIndex:
        return self.manifest.chunks

    @property
    def size(self) -> int:
        """Size of the original log in bytes."""
        return self.chunks.original_bytes

    @cached_property
    def cipher(self) -> Cipher | None:
        """Raises KeyMissingError, PathError, UnsupportedError."""
        encryption = self.manifest.encryption
        if encryption is None:
            return None
        return Cipher(self._keys.data_key(encryption, self.path(MANIFEST)), encryption.aad)

    def size_problems(self) -> Iterator[tuple[str, str]]:
        """Yields (suffix, sentence) for objects whose size is not that of the manifest."""
        expected = {LOG: self.chunks.stored_bytes}
        if self.layout == AIVEN:
            ends = (part.position + part.size for part in self.manifest.parts.values())
            expected[INDEXES] = max(ends, default=0)
        for suffix, size in expected.items():
            if suffix in self.found and self.found[suffix].size != size:
                yield suffix, f"{self.found[suffix].size} bytes, by the manifest {size}"

    def read_chunks(self, first: int = 0, stop: int | None = None) -> Iterator[tuple[int, bytes | ChunkError]]:
        """Yields the original bytes of chunks ``first`` to ``stop``, by number; an error in place of damaged ones.

        Raises PathError if the store cannot read, and as `manifest` and `cipher`.
        """
        chunks, cipher = self.chunks, self.cipher
        is_compressed, positions = self.manifest.is_compressed, chunks.positions
        stop = len(chunks) if stop is None else stop
        while first < stop:
            end = first + 1
            while end < stop and positions[end + 1] - positions[first] <= READ_BYTES:
                end += 1
            start = positions[first]
            data = self._read(LOG, start, positions[end] - start)
            for number in range(first, end):
                stored = data[positions[number] - start : positions[number + 1] - start]
                begin, behind = chunks.original_range(number)
                try:
                    if len(stored) < positions[number + 1] - positions[number]:
                        raise ChunkError("the object ends before the chunk does")
                    yield number, restored_chunk(stored, behind - begin, cipher, is_compressed)
                except ChunkError as error:
                    yield number, error
            first = end

    def side_file(self, suffix: str) -> bytes | None:
        """Returns the original bytes of a side file, None if the segment has none.

        Raises ChunkError for damaged bytes, and as `read_chunks`.
        """
        part = self.manifest.parts.get(suffix)
        if part is None:
            return None
        if part.size > limits.MAX_INDEX_BYTES:
            raise ChunkError(f"{part.size} bytes are above the limit of {limits.MAX_INDEX_BYTES}")
        stored = INDEXES if self.layout == AIVEN else suffix
        if stored not in self.found:
            raise PathError(f"{self.path(INDEXES)}: no such object")
        data = self._read(stored, part.position, part.size) if part.size else b""
        if len(data) < part.size:
            raise ChunkError("the object ends before the side file does")
        return data if self.cipher is None or not data else self.cipher.decrypted(data)

    def files(self, path: str, is_in_place: bool) -> dict[str, Tree]:
        """Returns the log at ``path``, and the indexes beside it, by name; nothing is read yet."""

        def size() -> int:
            try:
                return self.size
            except ManifestError as error:
                raise PathError(f"{self.path()}: its manifest cannot be used: {error}") from error

        def opened() -> RemoteSource:
            size()
            _ = self.cipher  # a missing key is an error of opening, not of reading
            return RemoteSource(self, path, is_in_place)

        name = os.path.basename(path)
        stem, found = name.removesuffix(LOG), {name: VirtualLog(size, opened)}
        return found | {stem + suffix: VirtualSideFile(partial(self.content, suffix)) for suffix in INDEX_SUFFIXES}

    def content(self, suffix: str) -> bytes:
        """As `side_file`. Raises OSError if it cannot be restored: the log is then read without it."""
        try:
            content = self.side_file(suffix)
        except (ChunkError, ManifestError) as error:
            raise OSError(errno.EIO, str(error)) from error
        if content is None:
            raise FileNotFoundError(errno.ENOENT, "no such part of the segment")
        return content

    def write_chunks(self, descriptor: int, first: int = 0, stop: int | None = None) -> dict[int, str]:
        """Writes chunks at their positions in a file, except damaged ones. Returns the errors by number.

        Raises OSError if the file cannot be written, and as `read_chunks`.
        """
        failures: dict[int, str] = {}
        for number, data in self.read_chunks(first, stop):
            if isinstance(data, ChunkError):
                failures[number] = str(data)
            else:
                write_all(descriptor, data, self.chunks.original_range(number)[0])
        return failures


class RemoteSource(FetchedSource):
    """A remote segment as a source: the log is spooled to an unnamed temporary file, chunk by chunk.

    In place, only requested chunks are spooled (`reach`, `need`); ``extent``, for full passes and several threads,
    spools the whole log. A damaged chunk reads as zeros, and its bytes are listed as unreadable, like those of a
    failing disk. ``failures``: the errors of damaged chunks that were read, by number.
    """

    def __init__(self, segment: RemoteSegment, path: str, is_in_place: bool = False) -> None:
        chunk_bytes = segment.chunks.original_chunk_bytes
        super().__init__(path, segment.size, chunk_bytes, is_in_place and segment.size > SMALL_BYTES)
        self.failures: dict[int, str] = {}
        self._segment = segment
        self._failures_listed = 0

    def _new_file(self) -> int:
        with errors_at(f"{self.path}: no temporary file"):
            return unnamed_file(size=self.size)

    def _fetch(self, first: int, stop: int, descriptor: int) -> None:
        with errors_at(f"{self.path}: cannot be spooled"):
            self.failures |= self._segment.write_chunks(descriptor, first, stop)

    def look_for_unreadable(self) -> bool:
        if len(self.failures) == self._failures_listed:
            return False
        self._failures_listed = len(self.failures)
        self.unreadable = [self._segment.chunks.original_range(number) for number in sorted(self.failures)]
        return True


@dataclass(slots=True)
class RemotePartition:
    """The segments of a partition, by start offset; ``folder``: the common start of its objects' names."""

    topic: str
    topic_id: str
    number: int
    folder: str
    segments: list[RemoteSegment] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name that a broker gives the partition's directory."""
        return f"{self.topic}-{self.number}"


class RemoteStorage:
    """All objects below ``store``. Raises PathError if they cannot be listed, or none is one of remote storage.

    ``others``: objects with other names than those of remote storage.
    """

    def __init__(self, store: Place, keys: PrivateKeys) -> None:
        self.others: list[StoredObject] = []
        partitions: dict[tuple[str, str, int], RemotePartition] = {}
        segments: dict[tuple[str, int, str], RemoteSegment] = {}
        for item in objects_below(store):
            name = parse_object_name(item.name)
            if name is None:
                self.others.append(item)
                continue
            key = (name.layout, name.topic_id, name.partition)
            partition = partitions.get(key)
            if partition is None:
                partition = RemotePartition(name.topic, name.topic_id, name.partition, name.folder)
                partitions[key] = partition
            segment = segments.get((name.topic_id, name.partition, name.segment_id))
            if segment is None or segment.start_offset != name.start_offset:
                segment = RemoteSegment(store, keys, name.layout, name.start_offset, name.segment_id, {})
                segments[name.topic_id, name.partition, name.segment_id] = segment
                partition.segments.append(segment)
            # After a change of key.prefix a segment's objects may have different ones.
            segment.found.setdefault(name.suffix, item)
        if not partitions:
            raise PathError(
                f"{store}: no remote storage: no object is named as Kafka's LocalTieredStorage or Aiven's plugin do"
            )
        _name_topics(partitions.values())
        self.partitions = sorted(partitions.values(), key=lambda found: (found.topic, found.number, found.topic_id))
        for partition in self.partitions:
            partition.segments.sort(key=lambda found: (found.start_offset, found.segment_id))


def open_storage(path: str, keys: PrivateKeys) -> RemoteStorage:
    """Raises PathError if there is no remote storage at ``path``."""
    return RemoteStorage(directory_at(path), keys)


def _name_topics(partitions: Iterable[RemotePartition]) -> None:
    """Removes key prefixes from the names of topics; a prefix is known from a manifest, which has the topic's name."""
    prefixes: dict[str, None] = {}
    unnamed: list[tuple[RemotePartition, str]] = []
    for partition in partitions:
        whole = partition.folder.removesuffix("-" + partition.topic_id)
        topic = None
        for segment in partition.segments:
            with suppress(ManifestError, PathError):
                metadata = segment.manifest.metadata
                if metadata is not None and metadata.topic_id == partition.topic_id:
                    topic = metadata.topic
                    break
        if topic is not None and whole.endswith(topic):
            partition.topic = topic
            prefixes[whole.removesuffix(topic)] = None
        else:
            unnamed.append((partition, whole))
    for partition, whole in unnamed:
        for prefix in sorted(prefixes, key=len, reverse=True):
            if whole.startswith(prefix) and is_topic(whole.removeprefix(prefix)):
                partition.topic = whole.removeprefix(prefix)
                break
