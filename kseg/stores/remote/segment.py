"""One segment of remote storage: its objects, and from them the bytes of its log and side files, chunk by chunk."""

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from kseg.errors import PathError
from kseg.formats.suffixes import INDEX, LOG, SNAPSHOT, TIME_INDEX, TRANSACTION_INDEX
from kseg.limits import MAX_INDEX_BYTES, MAX_MANIFEST_OBJECT_BYTES, MAX_SEGMENT_BYTES
from kseg.stores.objects import Objects
from kseg.stores.remote.chunk_index import ChunkIndex, ManifestError, chunk_index_of_plain_file
from kseg.stores.remote.keys import PrivateKeys
from kseg.stores.remote.manifest import Manifest, SegmentMetadata, StoredSideFile, parse_manifest
from kseg.stores.remote.names import AIVEN, INDEXES, LOCAL, MANIFEST
from kseg.stores.remote.transformation import ChunkError, Cipher, restored_chunk, restored_part
from kseg.stores.stored_object import StoredObject

READ_BYTES = 8 << 20
"""Adjacent chunks are read together up to this size."""

EPOCHS = ".leader_epoch_checkpoint"
_PARTS = (INDEX, TIME_INDEX, SNAPSHOT, EPOCHS, TRANSACTION_INDEX)
_NEEDED = {AIVEN: (LOG, INDEXES, MANIFEST), LOCAL: (LOG, INDEX, TIME_INDEX, SNAPSHOT, EPOCHS)}
"""Suffixes of the objects of a whole segment, by layout."""


class SegmentObjects(NamedTuple):
    """Identifies a segment in its store: its objects by suffix. It can be pickled, and holds no key."""

    layout: str
    start_offset: int
    segment_id: str
    found: dict[str, StoredObject]


class RemoteSegment:
    """A segment by its objects; ``found`` has them by suffix. They are read on first use."""

    def __init__(
        self, store: Objects, keys: PrivateKeys, layout: str, start_offset: int, segment_id: str,
        found: dict[str, StoredObject],
    ) -> None:  # fmt: skip
        self.store, self._keys = store, keys
        self.layout, self.start_offset, self.segment_id, self.found = layout, start_offset, segment_id, found

    @property
    def objects(self) -> SegmentObjects:
        return SegmentObjects(self.layout, self.start_offset, self.segment_id, self.found)

    def path(self, suffix: str = LOG) -> str:
        """The path of an object, for messages; for a side file inside .indexes a path in the same folder."""
        if suffix in self.found:
            return self.store.path(self.found[suffix].name)
        any_suffix, any_object = next(iter(self.found.items()))
        return self.store.path(any_object.name.removesuffix(any_suffix) + suffix)

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
            if stored.size > MAX_MANIFEST_OBJECT_BYTES:
                raise ManifestError(f"{stored.size} bytes are above the limit of {MAX_MANIFEST_OBJECT_BYTES}")
            return parse_manifest(self.store.read(stored.name, 0, stored.size))
        if LOG not in self.found:
            raise ManifestError("there is no log")
        size = self.found[LOG].size
        if not 0 < size <= MAX_SEGMENT_BYTES:
            raise ManifestError(f"a log of {size} bytes is no segment")
        parts = {suffix: StoredSideFile(0, self.found[suffix].size) for suffix in _PARTS if suffix in self.found}
        return Manifest(chunk_index_of_plain_file(size), parts)

    @property
    def metadata(self) -> SegmentMetadata | None:
        return self.manifest.metadata

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

    def check_key(self) -> None:
        """Raises as `cipher`."""
        _ = self.cipher

    def size_problems(self) -> Iterator[tuple[str, str]]:
        """Yields (suffix, sentence) for objects whose size is not that of the manifest."""
        expected = {LOG: self.chunks.stored_bytes}
        if self.layout == AIVEN:
            expected[INDEXES] = self.manifest.indexes_bytes
        for suffix, size in expected.items():
            if suffix in self.found and self.found[suffix].size != size:
                yield suffix, f"{self.found[suffix].size} bytes, by the manifest {size}"

    def read_chunks(self, first: int = 0, stop: int | None = None) -> Iterator[tuple[int, bytes | ChunkError]]:
        """Yields the original bytes of chunks ``first`` to ``stop``, by number; an error in place of damaged ones.

        Raises PathError if the store cannot read, and as `manifest` and `cipher`.
        """
        chunks, cipher, name = self.chunks, self.cipher, self.found[LOG].name
        is_compressed, positions = self.manifest.is_compressed, chunks.positions
        stop = len(chunks) if stop is None else stop
        while first < stop:
            end = first + 1
            while end < stop and positions[end + 1] - positions[first] <= READ_BYTES:
                end += 1
            start = positions[first]
            data = self.store.read(name, start, positions[end] - start)
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
        if part.size > MAX_INDEX_BYTES:
            raise ChunkError(f"{part.size} bytes are above the limit of {MAX_INDEX_BYTES}")
        stored = self.found.get(INDEXES if self.layout == AIVEN else suffix)
        if stored is None:
            raise PathError(f"{self.path(INDEXES)}: no such object")
        data = self.store.read(stored.name, part.position, part.size) if part.size else b""
        if len(data) < part.size:
            raise ChunkError("the object ends before the side file does")
        return restored_part(data, self.cipher)
