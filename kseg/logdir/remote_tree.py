"""Remote storage mounted as the log directory that its brokers had: partitions with the segments that consumers read.

    REMOTE/<topic>-<partition>/<start offset>.log       a live segment (`lineage`), restored chunk by chunk
                              /<start offset>.index     and .timeindex, .txnindex: its side files
                              /<end offset + 1>.snapshot
                              /leader-epoch-checkpoint  the lineage

A segment of which only some offsets are live has no side files, and its log has only these batches.
"""

import errno
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from threading import RLock
from typing import NamedTuple

from kseg.formats.rows import Scratch
from kseg.formats.suffixes import LOG, SNAPSHOT
from kseg.logdir.remote_partition import LivePartition, live_partition, newest_partitions
from kseg.segment.batches import Batch
from kseg.segment.files import segment_stem
from kseg.segment.reader import SegmentReader
from kseg.sidefiles.leader_epochs import LEADER_EPOCHS, build_leader_epochs
from kseg.stores import trees
from kseg.stores.archives.spool import current_spool
from kseg.stores.extent import Extent
from kseg.stores.objects import Objects
from kseg.stores.remote.files import files_of, side_file_of
from kseg.stores.remote.keys import PrivateKeys
from kseg.stores.remote.segment import RemoteSegment, SegmentObjects
from kseg.stores.remote.source import RemoteSource
from kseg.stores.remote.storage import RemotePartition, storage_in
from kseg.stores.source import Source
from kseg.stores.trees import DIRECTORY, FILE, ArchiveProblem, Node, Tree
from kseg.stores.virtual_files import VirtualFile, VirtualSideFile

_log = logging.getLogger("kseg")


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


class RemoteTree:
    """The tree of the storage in ``store``. Partitions are listed, and their manifests read, on first use.

    Its methods raise KeyMissingError, PathError and UnsupportedError besides OSError.
    """

    is_archive = is_shared = False

    def __init__(self, store: Objects, keys: PrivateKeys) -> None:
        self.owner = os.geteuid() if hasattr(os, "geteuid") else 0
        self.problems: list[ArchiveProblem] = []
        self.keys = keys
        self._store = store
        self._lock = RLock()
        self._partitions: dict[str, RemotePartition] | None = None
        self._listed: dict[str, list[str]] = {}
        self._files: dict[str, Tree] = {}
        self._live: dict[str, LiveSegment] = {}

    def node(self, inner: str) -> Node | None:
        if inner in self._files:
            return self._files[inner].node("")
        if not inner:
            return Node(DIRECTORY)
        partition, slash, _ = inner.partition("/")
        if partition not in self._names():
            return None
        if not slash:
            return Node(DIRECTORY)
        self._list(partition)
        return self._files[inner].node("") if inner in self._files else None

    def nodes(self, inner: str) -> Iterable[tuple[str, Node]]:
        """Returns nodes without sizes: those of side files are known when they are read."""
        if not inner:
            return [(name, Node(DIRECTORY)) for name in self._names()]
        if inner not in self._names():
            raise self._missing(inner)
        return [(name, Node(FILE)) for name in self._list(inner)]

    def open(self, inner: str) -> Extent:
        return self._file(inner).open("")

    def source(self, inner: str, path: str) -> Source | None:
        found: Source | None = self._file(inner).source("", path)
        return found

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
                chosen, older = newest_partitions(storage_in(self._store, self.keys).partitions)
                for found in older:
                    _log.warning("%s: left out: of an earlier topic with this name", self._store.path(found.folder))
                self._partitions = {found.name: found for found in chosen}
            return self._partitions

    def _file(self, inner: str) -> Tree:
        if self.node(inner) is None or inner not in self._files:
            raise self._missing(inner)
        return self._files[inner]

    def _missing(self, inner: str) -> OSError:
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._store.path(inner))

    def _list(self, name: str) -> list[str]:
        """Returns the names of a partition's files."""
        with self._lock:
            if name not in self._listed:
                self._add_partition(name, live_partition(self._names()[name]))
                self._listed[name] = [inner.rpartition("/")[2] for inner in self._files if inner.startswith(name + "/")]
            return self._listed[name]

    def _add_partition(self, name: str, found: LivePartition) -> None:
        for segment, reason in found.unusable:
            _log.warning("%s: left out: %s", segment.path(), reason)
        for hole in found.holes:
            _log.warning("%s: no segment has offsets %s to %s", self._store.path(name), hole.first, hole.last)
        for piece in found.pieces:
            segment, base = piece.candidate.segment, max(piece.first, piece.candidate.start_offset)
            chunk_bytes = segment.chunks.original_chunk_bytes
            live = LiveSegment(segment.objects, base, piece.last, piece.is_whole, found.log_start, chunk_bytes)
            self._add(f"{name}/{segment_stem(base)}{LOG}", live, segment)
            if piece.is_whole:
                self._files[f"{name}/{segment_stem(piece.last + 1)}{SNAPSHOT}"] = side_file_of(segment, SNAPSHOT)
        self._files[f"{name}/{LEADER_EPOCHS}"] = VirtualSideFile(lambda: build_leader_epochs(found.lineage))

    def _add(self, inner: str, live: LiveSegment, segment: RemoteSegment) -> None:
        self._live[inner] = live
        if not live.is_whole:
            self._files[inner] = _CutLog(segment, live)
            return
        for path, file in files_of(segment, self._store.path(inner), is_in_place=True).items():
            suffix = os.path.splitext(path)[1]
            if suffix == LOG or suffix in segment.manifest.parts:
                self._files[inner.removesuffix(LOG) + suffix] = file


def live_segment_at(path: str) -> LiveSegment | None:
    """Returns the remote segment at a path in a mounted `RemoteTree`, None for any other path."""
    place = trees.find(path)
    return place.tree.live(place.inner) if place is not None and isinstance(place.tree, RemoteTree) else None


class _CutLog(VirtualFile):
    """A log without the batches outside its live offsets. Damage in it is kept."""

    def __init__(self, segment: RemoteSegment, live: LiveSegment) -> None:
        super().__init__()
        self._segment, self._live_offsets = segment, live
        self._extent: Extent | None = None

    def node(self, inner: str) -> Node | None:
        return Node(FILE, self._segment.size if self._extent is None else self._extent.current_size())

    def open(self, inner: str) -> Extent:
        if self._extent is None:
            self._extent = current_spool().add(self._kept())
        return Extent(os.dup(self._extent.descriptor), self._extent.start, self._extent.size)

    def source(self, inner: str, path: str) -> None:
        return None

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
