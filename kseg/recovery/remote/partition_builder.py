"""Writes a rebuilt partition to an empty folder: remote segments, local segments, side files."""

import os
from dataclasses import dataclass, field

from kseg.changes.content import write_pieces
from kseg.changes.disk import Disk, umask
from kseg.changes.plan import DELETE
from kseg.formats.suffixes import INDEX_SUFFIXES, LOG, SIDE_SUFFIXES, SNAPSHOT
from kseg.logdir.lineage import SegmentOffsets
from kseg.recovery.broker.reindexing import DamagedLogError, reindex
from kseg.recovery.broker.start import BrokerStart
from kseg.recovery.remote.selection import RestoredSegments
from kseg.recovery.remote.staged_log import fetch, new_file, reset_epochs_in_place, trim
from kseg.recovery.segment_span import span_of
from kseg.recovery.workspace import Workspace
from kseg.segment.files import regular_and_other_names, segment_stem
from kseg.sidefiles.leader_epochs import LEADER_EPOCHS, EpochEntry, build_leader_epochs
from kseg.sidefiles.partition_metadata import PARTITION_METADATA, PartitionMetadata, build_partition_metadata
from kseg.stores.buffers import Buffers
from kseg.stores.remote.segment import RemoteSegment
from kseg.stores.remote.transformation import ChunkError


@dataclass(slots=True)
class Rebuilt:
    """``damage``: sentences about what is lost; ``first_base`` and ``end``: the offsets of the new log."""

    segments: int = 0
    first_base: int = -1
    end: int = 0
    size: int = 0
    last_epoch: int = 0
    damage: list[str] = field(default_factory=list)


class PartitionBuilder:
    """Builds one partition in ``folder``. Raises OSError, and the errors of reading the store."""

    def __init__(self, selection: RestoredSegments, folder: str, interval_bytes: int | None, disk: Disk) -> None:
        self._selection, self._folder, self._disk = selection, folder, disk
        self._interval_bytes = interval_bytes
        self._buffers = Buffers()
        self._needs_rebuild = False
        self.rebuilt = Rebuilt(end=selection.log_start)

    def build(self, topic_id: str, resets_epochs: bool) -> Rebuilt:
        for piece in self._selection.pieces:
            self._add_remote(piece)
        self._add_local()
        if resets_epochs:
            for name in self._names(LOG):
                reset_epochs_in_place(self._path(name), self._buffers)
        if self._needs_rebuild:
            self._rebuild_side_files()
        epochs = self._epochs(resets_epochs)
        self.rebuilt.last_epoch = epochs[-1].epoch if epochs else 0
        self._add_file(LEADER_EPOCHS, build_leader_epochs(epochs))
        self._add_file(PARTITION_METADATA, build_partition_metadata(PartitionMetadata(0, topic_id)))
        self.rebuilt.size = sum(os.stat(self._path(name)).st_size for name in self._names(LOG))
        return self.rebuilt

    def _epochs(self, resets_epochs: bool) -> list[EpochEntry]:
        if resets_epochs:
            return [EpochEntry(0, self._selection.log_start)]
        return [entry for entry in self._selection.lineage if entry.start_offset <= self.rebuilt.end]

    def _add_remote(self, piece: SegmentOffsets[RemoteSegment]) -> None:
        candidate = piece.candidate
        segment, base = candidate.segment, max(piece.first, candidate.start_offset)
        path = self._path(segment_stem(base) + LOG)
        self.rebuilt.damage += fetch(segment, path, self._disk)
        span = span_of(path, self._buffers)
        if not span.is_intact:
            self.rebuilt.damage.append(f"{segment.path()}: holds batches that are not intact; they are left out")
        if span.is_intact and piece.is_whole:
            self._add_side_files(segment, base, candidate.end_offset + 1)
        else:
            self._needs_rebuild = True
            span = trim(path, piece.first, piece.last, self._disk)
        self._count_segment(base, max(span.next_offset, piece.last + 1))

    def _add_side_files(self, segment: RemoteSegment, base: int, behind: int) -> None:
        names = {suffix: segment_stem(base) + suffix for suffix in INDEX_SUFFIXES}
        names[SNAPSHOT] = segment_stem(behind) + SNAPSHOT
        for suffix, name in names.items():
            try:
                content = segment.side_file(suffix)
            except ChunkError as error:
                self.rebuilt.damage.append(f"{segment.path(suffix)}: {error}; it is rebuilt from the log")
                self._needs_rebuild = True
                continue
            if content is not None:
                self._add_file(name, content)

    def _add_local(self) -> None:
        selection = self._selection
        if not selection.local:
            return
        start = selection.local[0].base_offset or 0
        directory = selection.local_directory
        for file in selection.local:
            self._copy(file.path, os.path.join(self._folder, file.name))
            span = span_of(file.path, self._buffers)
            if not span.is_intact:
                self.rebuilt.damage.append(f"{file.path}: is damaged, and copied unchanged")
            self._count_segment(file.base_offset or 0, max(span.next_offset, file.base_offset or 0))
        for name in regular_and_other_names(directory)[0]:
            stem, suffix = os.path.splitext(name)
            is_wanted = suffix in SIDE_SUFFIXES and stem.isdigit() and int(stem) >= start
            if is_wanted and not os.path.lexists(self._path(name)):
                self._copy(os.path.join(directory, name), self._path(name))

    def _copy(self, path: str, target: str) -> None:
        self._disk.copy_file(path, target, self._folder, mask=umask())

    def _count_segment(self, base: int, end: int) -> None:
        if self.rebuilt.first_base < 0:
            self.rebuilt.first_base = base
        self.rebuilt.segments += 1
        self.rebuilt.end = max(self.rebuilt.end, end)

    def _rebuild_side_files(self) -> None:
        """Rebuilds indexes and snapshots as a broker's recovery does."""
        workspace = Workspace(self._folder)
        try:
            reindex(workspace, BrokerStart(interval_bytes=self._interval_bytes), with_snapshots=True)
        except DamagedLogError:
            return  # a local segment is damaged, as reported; a recovery of the partition rebuilds the indexes
        for step in workspace.plan().steps:
            path = self._path(step.file)
            if os.path.lexists(path):
                self._disk.unlink(path)
            if step.action != DELETE:
                with new_file(path, self._disk) as descriptor:
                    write_pieces(step.pieces, self._folder, descriptor, self._disk)

    def _add_file(self, name: str, content: bytes) -> None:
        with new_file(self._path(name), self._disk) as descriptor:
            self._disk.write(descriptor, content)

    def _names(self, suffix: str) -> list[str]:
        return sorted(name for name in regular_and_other_names(self._folder)[0] if name.endswith(suffix))

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)
