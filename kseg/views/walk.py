"""The walk over the files at PATHs, of dumps and views: partitions by name, segments by base offset.

`PathWalk` finds the partitions, and reports failures; `SegmentWalk` passes the batches and damage of their segments to
a printer.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kseg.errors import KsegError, PathError, RequestError, StoppedHalfwayError, UnsupportedError
from kseg.formats.rows import Scratch
from kseg.formats.suffixes import CHECKPOINT, LOG
from kseg.kernel.scan.frames import LONG_RUNS
from kseg.node.paths import expanded
from kseg.options import declaration
from kseg.output.notices import Color, Notices
from kseg.output.progress import PIECE_BYTES, Progress, progress_over
from kseg.output.sink import Sink
from kseg.segment import paths
from kseg.segment.files import Listing, SegmentFile, listing_of
from kseg.segment.items import Batch, Damage
from kseg.segment.reader import Run, SegmentReader, open_segment
from kseg.stores.place import Place
from kseg.stores.remote.keys import RemoteChoice
from kseg.stores.source import Source, open_source
from kseg.stores.stored_object import is_url
from kseg.stores.trees import Tree, VirtualFiles
from kseg.views.filters import Filters

if TYPE_CHECKING:
    from kseg.node.node import Nodes
    from kseg.stores.remote.segment import RemotePartition, RemoteSegment


@dataclass(frozen=True, slots=True)
class WalkOptions:
    """The options of each command that reads segments at PATHs."""

    paths: Sequence[str]
    live: bool = declaration.live()
    max_batch_bytes: int = declaration.batch_limit()
    output: str | None = None
    color: Color = "auto"
    quiet: bool = False
    verbose: bool = False


OptionsT = TypeVar("OptionsT", bound=WalkOptions)


class PathWalk(Generic[OptionsT]):
    """One run over all PATHs. ``notices``: gets the messages instead of standard error."""

    status = 0
    _hint_of_unread = ""
    """Another way to have moved directories read."""

    def __init__(self, sink: Sink, options: OptionsT, notices: Notices | None = None) -> None:
        self.sink, self.options = sink, options
        self.notices = notices or Notices(options.color, options.quiet, options.verbose)
        self.scratch = Scratch(options.max_batch_bytes)
        self._paths = expanded(options.paths)

    @cached_property
    def nodes(self) -> "Nodes":
        """The nodes at the PATHs."""
        from kseg.node.node import Nodes  # few dumps need to know more than the files

        return Nodes(self.options.paths)

    def split_parts(self, path: str) -> tuple[list[str], list[str]]:
        """Returns the partitions and files of a PATH, and those that are not read because a broker has moved or deleted
        them. Raises PathError."""
        return paths.live_parts(path)

    def parts_of_topics(
        self, path: str, topics: Sequence[str], with_moved: bool = False
    ) -> tuple[list[str], list[str]]:
        """Returns what `live_parts` does, of these topics only if there are any. ``with_moved``: directories that a
        broker has moved or deleted are read too. Raises PathError."""
        if topics:
            from kseg.node.topics import Topics

            parts, moved = Topics(tuple(topics), self.nodes).parts(path)
        else:
            parts, moved = paths.live_parts(path)
        if not with_moved:
            return parts, moved
        wanted = {*parts, *moved}
        return [part for part in paths.expand_path(path) if part in wanted], []

    def parts_of(self, path: str) -> list[str]:
        """Returns the partitions and files of a PATH. Raises PathError."""
        return self.split_parts(path)[0]

    def _failed(self, error: object, status: int) -> None:
        self.notices.error(error)
        self.sink.failures.append(str(error))
        self.status = max(self.status, status)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Reports errors of a path or file, after which the next one follows."""
        try:
            yield
        except (StoppedHalfwayError, RequestError):
            raise
        except KsegError as error:
            self._failed(error, error.exit_status)

    def _path(self, path: str) -> None:
        if is_url(path) or Place(path).is_dir():
            from kseg.stores.remote.recognition import is_remote_storage  # most paths are files

            if is_remote_storage(path):
                with self._failures():
                    self._remote(path)
                return
        try:
            parts, moved = self.split_parts(path)
        except KsegError as error:
            self._failed(error, error.exit_status)
            return
        if parts != [path]:
            paths.warn_of_skipped_files(path, False, self.notices.warning)
            self._log_directory(path)
        paths.warn_of_unread(moved, self._paths, self.notices.warning, self._hint_of_unread)
        for part in parts:
            with self._failures():
                self._part(part)
        if parts != [path]:
            self._end_of_log_directory(path)

    def _remote(self, path: str) -> None:
        """Reads remote storage."""
        raise UnsupportedError(f"{path}: remote storage holds segments only: kseg dump and kseg stats read it")

    def _log_directory(self, path: str) -> None:
        """Called before the partitions of a log directory."""

    def _end_of_log_directory(self, path: str) -> None:
        """Called after them."""

    def _part(self, path: str) -> None:
        """Reads a partition directory, or one file."""
        raise NotImplementedError


class SegmentWalk(PathWalk[OptionsT]):
    """Passes the batches and damage of all segments to ``printer``."""

    printer: Any
    remote: RemoteChoice | None = None
    """Which segments of remote storage are read, in place, also those of lost leaders. None: remote storage is not
    read."""
    progress: Progress
    filters: Filters
    is_07 = False
    max_bytes: int | None = None
    damaged_ranges = 0

    def run(self) -> int:
        """Reads every path. Returns the highest exit status."""
        with self.progress:
            self._all_paths()
            self.progress.erase()
            self._end()
        self.filters.summarize()
        return max(self.status, int(self.printer.errors > 0))

    def _all_paths(self) -> None:
        for path in self._paths:
            self._path(path)

    @property
    def is_selective(self) -> bool:
        """Whether batches are passed on one by one."""
        return self.filters.are_set

    def _show_progress(self, is_quiet: bool, everything: bool = False) -> None:
        self.progress = progress_over(self._paths, is_quiet, everything, self.parts_of)
        self.notices.before = self.progress.erase

    def _end(self) -> None:
        """Called after all paths."""
        self.printer.close()

    def _failed(self, error: object, status: int) -> None:
        self.printer.finish()
        super()._failed(error, status)

    def _part(self, path: str) -> None:
        listing = listing_of(path) if Place(path).is_dir() else None
        files = self._files_of(path, listing)
        if listing is not None:
            paths.warn_of_skipped_files(path, not files, self.notices.warning, listing=listing)
        self._begin_part(listing)
        self._segments(self._with_live(self.filters.among(files)))
        self._end_of_place(files, path)

    def _files_of(self, path: str, listing: Listing | None) -> list[SegmentFile]:
        """Returns the segments of a partition, whose entries are given, or a file."""
        return paths.segments_at(path, listing=listing)

    def _begin_part(self, listing: Listing | None) -> None:
        """Called before the segments of a partition, whose entries are given, or of a file."""

    def _end_of_place(self, files: Sequence[SegmentFile], path: str) -> None:
        """Called after the segments of a partition, or a file; ``files``: those that are there."""
        if self.status < 3:
            self.filters.end_of_place(files, path)

    def _with_live(self, files: list[SegmentFile]) -> list[tuple[SegmentFile, bool]]:
        """Returns the segments of a partition, each with a flag: whether a broker is still writing to it."""
        written_to = next((file for file in reversed(files) if file.kind != CHECKPOINT and not file.leftover), None)
        live = self.options.live
        return [(file, live and (file is written_to or len(files) == 1)) for file in files]

    def _segments(self, files: list[tuple[SegmentFile, bool]]) -> None:
        for file, is_live in files:
            with self._failures():
                try:
                    self._file(file, is_live)
                except (BrokenPipeError, KsegError):
                    raise
                except OSError as error:
                    self._failed(f"{file.path}: {error.strerror}", 4)

    def _file(self, file: SegmentFile, live: bool) -> None:
        paths.refuse_empty_pack(file.path)
        if file.is_packed:
            raise UnsupportedError(f"{file.path}: is not packed despite its suffix: rename it")
        output = self.options.output
        if output and Place(output).is_same_file(file.path):
            raise RequestError(f"{output}: would be replaced by its own dump")
        self.progress.at(file.path)
        if not file.is_segment and self._side_file(file):
            return
        self._segment(file, live)

    def _segment(self, file: SegmentFile, live: bool) -> None:
        with open_source(file.path) as source:
            self._source(file, source, live)
            if source.current_size() < source.size:
                self._failed(shrank(file.path, source), 1)

    def _side_file(self, file: SegmentFile) -> bool:
        """Reads a file whose name is not a segment's. Returns False if it may be a segment. Raises UnsupportedError."""
        from kseg.sidefiles.kinds import side_file

        if file.kind or side_file(file.path) is not None:
            raise UnsupportedError(
                f"{file.path}: {file.kind or file.name} holds no batches: kseg dump prints side files"
            )
        return False

    def _source(self, file: SegmentFile, source: Source, live: bool) -> None:
        try:
            self.printer.begin(file)
            self._read(file, source, live)
            self.printer.finish()
        except BaseException:
            self.printer.abandon()
            raise

    def _read(self, file: SegmentFile, source: Source, live: bool) -> None:
        reader = self.reader(file, source, live)
        self.filters.begin(reader, file)
        self._items(file, reader)

    def reader(self, file: SegmentFile, source: Source, live: bool) -> SegmentReader:
        """Returns a reader of a segment with the limits of the options."""
        return open_segment(
            file, self.scratch, source=source, is_07=self.is_07, live=live, max_bytes=self.max_bytes,
            scan_options=LONG_RUNS,
        )  # fmt: skip

    def _items(self, file: SegmentFile, reader: SegmentReader) -> None:
        batches, ranges = 0, self.damaged_ranges
        self.printer.attend(reader)
        for item in reader.runs():
            if self._is_behind(reader, item.position):
                break
            if isinstance(item, Damage):
                self.damage(reader, item)
                self.progress.advance(item.length)
                continue
            batches += item.count
            if not all(self._run(reader, run) for run in item.pieces(PIECE_BYTES)):
                break
        self._report_items(file, reader.end, batches, self.damaged_ranges - ranges)

    def _is_behind(self, reader: SegmentReader, position: int) -> bool:
        """Whether what starts at a position is no longer wanted."""
        return False

    def _report_items(self, file: SegmentFile, size: int, batches: int, ranges: int) -> None:
        self.notices.detail(f"{file.path}: bytes: {size}, batches: {batches}, damaged ranges: {ranges}")

    def _run(self, reader: SegmentReader, run: Run) -> bool:
        """Passes on a run, or what matches in it. Returns False if no more matches can follow."""
        self.progress.advance(run.end - run.position)
        if self.is_selective:
            return all(self._batch(reader.batch(run, i, keep=False)) for i in range(run.count))
        self.printer.run(reader, run)
        return True

    def _batch(self, batch: Batch) -> bool:
        """Passes on a batch if it matches. Returns False if no more matches can follow."""
        if self.filters.is_behind(batch):
            return False
        if self.filters.holds(batch):
            self.printer.batch(batch, self.filters.selection.spans)
        return True

    def damage(self, reader: SegmentReader, damage: Damage) -> None:
        """Counts damage and passes it on."""
        self.damaged_ranges += 1
        self.printer.damage(damage)

    @property
    def is_in_place(self) -> bool:
        """Whether parts of a segment are read, so that it is not fetched whole."""
        return self.filters.selection.has_range

    def _remote(self, path: str) -> None:
        if self.remote is None:
            super()._remote(path)
            return
        from kseg.stores.remote.segment import open_storage

        for partition in open_storage(path, self.remote.keys).partitions:
            if self.remote.wants(partition.topic):
                self._remote_partition(path, partition)

    def _remote_partition(self, path: str, partition: "RemotePartition") -> None:
        found, unread = list[tuple[SegmentFile, "RemoteSegment", "RemoteSegment | None"]](), list[str]()
        opened = dict[str, Tree]()
        tree = VirtualFiles(opened)
        for segment, following in zip_longest(partition.segments, partition.segments[1:]):
            file = remote_file(partition, segment, tree)
            if segment.missing:
                unread.append(f"{file.path}: left out: there is no {', '.join(segment.missing)}")
                continue
            opened |= segment.files(file.path, self.is_in_place)
            found.append((file, segment, following))
        for text in unread:  # not before: a key of a manifest may be missing, and then nothing is read
            self.notices.warning(text)
        files = [file for file, _, _ in found]
        self._begin_remote(partition, files, tree)
        offsets = self.filters.selection.offsets
        self._segments([(each[0], False) for each in found if _may_match(each[1], each[2], offsets)])
        self._end_of_place(files, path)

    def _begin_remote(self, partition: "RemotePartition", files: list[SegmentFile], tree: VirtualFiles) -> None:
        """Called before the segments of a remote partition, which may select some of their offsets."""


def shrank(path: str, source: Source) -> str:
    """Returns the message about a file that became shorter while it was read."""
    return f"{path}: the file shrank while it was read: {source.current_size()} of {source.size} bytes are left"


def remote_file(partition: "RemotePartition", segment: "RemoteSegment", tree: VirtualFiles) -> SegmentFile:
    """Returns the log of a remote segment as a file in ``tree``."""
    path = Place(segment.path(), tree, os.path.basename(segment.path()))
    return SegmentFile(path, LOG, "", segment.start_offset, None, partition.topic, partition.number)


def _may_match(segment: "RemoteSegment", following: "RemoteSegment | None", offsets: tuple[int, int] | None) -> bool:
    """Whether a segment can hold any of the offsets; ``following``: the next one."""
    from kseg.stores.remote.segment import ManifestError

    if offsets is None:
        return True
    try:
        metadata = segment.manifest.metadata
    except (ManifestError, PathError):
        return True  # reported when it is opened
    end = None if metadata is None else metadata.end_offset
    if end is None and following is not None and following.start_offset > segment.start_offset:
        end = following.start_offset - 1
    return segment.start_offset <= offsets[1] and (end is None or end >= offsets[0])
