"""The segments of remote storage for a dump: named by their objects, opened in place."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import zip_longest

from kseg.dump.options import DumpOptions
from kseg.errors import PathError
from kseg.formats.suffixes import LOG
from kseg.logdir.remote_partitions import candidates_of, lineage_of, live_segments
from kseg.segment.files import SegmentFile
from kseg.stores import trees
from kseg.stores.remote.segment import ManifestError, RemotePartition, RemoteSegment, open_storage


@dataclass(slots=True)
class RemotePlace:
    """A partition: its segments (``all_files``), those that can hold matches (``files``), and sentences about segments
    that cannot be read (``unread``).
    """

    files: list[SegmentFile]
    all_files: list[SegmentFile]
    unread: list[str]
    _segments: dict[str, RemoteSegment]
    _partition: RemotePartition
    _is_in_place: bool

    def opened(self) -> AbstractContextManager[None]:
        """Lets the segments and their indexes be opened under their paths inside the block."""
        files = dict[str, trees.Tree]()
        for path, segment in self._segments.items():
            files |= segment.files(path, self._is_in_place)
        return trees.given(files)

    def live(self) -> list[SegmentFile]:
        """Returns the segments that a consumer would read. Raises KeyMissingError, PathError, UnsupportedError."""
        candidates, _ = candidates_of(self._partition)
        pieces = live_segments(candidates, lineage_of(candidates)).pieces
        return [_file(self._partition, piece.candidate.segment) for piece in pieces]


def remote_places(path: str, options: DumpOptions) -> Iterator[RemotePlace]:
    """Yields the partitions of wanted topics. Raises PathError if there is no remote storage at the path."""
    is_in_place = any(value is not None for value in (options.offsets, options.times, options.limit, options.positions))
    for partition in open_storage(path, options.remote.keys).partitions:
        if not options.remote.wants(partition.topic):
            continue
        files, all_files = list[SegmentFile](), list[SegmentFile]()
        unread, segments = list[str](), dict[str, RemoteSegment]()
        for segment, following in zip_longest(partition.segments, partition.segments[1:]):
            file = _file(partition, segment)
            if segment.missing:
                unread.append(f"{file.path}: left out: there is no {', '.join(segment.missing)}")
                continue
            segments[file.path] = segment
            all_files.append(file)
            if _may_match(segment, following, options):
                files.append(file)
        yield RemotePlace(files, all_files, unread, segments, partition, is_in_place)


def _may_match(segment: RemoteSegment, following: RemoteSegment | None, options: DumpOptions) -> bool:
    if options.offsets is None:
        return True
    try:
        metadata = segment.metadata
    except (ManifestError, PathError):
        return True  # reported when it is opened
    first, last = options.offsets
    end = None if metadata is None else metadata.end_offset
    if end is None and following is not None and following.start_offset > segment.start_offset:
        end = following.start_offset - 1
    return segment.start_offset <= last and (end is None or end >= first)


def _file(partition: RemotePartition, segment: RemoteSegment) -> SegmentFile:
    return SegmentFile(segment.path(), LOG, "", segment.start_offset, None, partition.topic, partition.number)
