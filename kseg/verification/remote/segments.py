"""Checks one segment of remote storage: its objects and manifest, then its log and side files like those on a disk."""

import os
from functools import partial

from kseg.formats.suffixes import INDEX_SUFFIXES, LOG, SNAPSHOT
from kseg.logdir.log_directory import BrokerState
from kseg.segment.files import SegmentFile
from kseg.sidefiles.kinds import side_file
from kseg.stores import trees
from kseg.stores.buffers import Buffers
from kseg.stores.remote.chunk_index import ManifestError
from kseg.stores.remote.segment import AIVEN, EPOCHS, INDEXES, MANIFEST, ChunkError, RemoteSegment
from kseg.stores.remote.source import RemoteSource
from kseg.stores.remote.storage import RemotePartition
from kseg.stores.virtual_files import VirtualLog, VirtualSideFile
from kseg.verification.partition import judge_segments, partition_for_file
from kseg.verification.report import Report
from kseg.verification.rules import rules_of
from kseg.verification.settings import Advance, CheckSettings, partition_to_check
from kseg.verification.side_files import judge_side_file

_OTHERS = (SNAPSHOT, EPOCHS)
"""Side files that are checked without the log."""


def judge_objects(segment: RemoteSegment, report: Report) -> bool:
    """Checks that the segment has all its objects and a manifest that can be read. Returns whether it has.

    Raises PathError.
    """
    if segment.missing:
        report.add(*_missing(segment), offset=segment.start_offset)
        return False
    try:
        metadata = segment.metadata
    except ManifestError as error:
        report.add("remote-manifest-damaged", segment.path(MANIFEST), str(error), offset=segment.start_offset)
        return False
    if metadata is not None and (metadata.segment_id, metadata.start_offset) != (
        segment.segment_id,
        segment.start_offset,
    ):
        text = f"it is the manifest of the segment {metadata.segment_id} at offset {metadata.start_offset}"
        report.add("remote-manifest-damaged", segment.path(MANIFEST), text, offset=segment.start_offset)
        return False
    for suffix, text in segment.size_problems():
        report.add("remote-size-mismatch", segment.path(suffix), text, offset=segment.start_offset)
    return True


def _missing(segment: RemoteSegment) -> tuple[str, str, str]:
    """Returns code, path and message for a segment that lacks objects."""
    text = f"there is no {', '.join(segment.missing)}"
    if segment.layout == AIVEN and MANIFEST in segment.found:
        return "remote-objects-missing", segment.path(MANIFEST), text
    if LOG in segment.found:
        return "remote-copy-unfinished", segment.path(LOG), text
    return "remote-orphan-object", segment.path(next(iter(segment.found))), text


def judge_segment(
    segment: RemoteSegment, remote: RemotePartition, settings: CheckSettings, report: Report, buffers: Buffers,
    progress: Advance,
) -> None:  # fmt: skip
    """Checks log and side files of a whole segment. Raises KeyMissingError, PathError, UnsupportedError."""
    path = segment.path()
    contents = _side_files(segment, report)
    source = RemoteSource(segment, path)
    stem = path.removesuffix(LOG)
    files: dict[str, trees.Tree] = {path: VirtualLog(lambda: source.size, lambda: source)}
    files |= {stem + suffix: VirtualSideFile(partial(bytes, content)) for suffix, content in contents.items()}
    names = frozenset(map(os.path.basename, files))
    with trees.given(files):
        partition = partition_to_check(
            os.path.dirname(path), (remote.topic, remote.number), False, settings, report, BrokerState(), buffers, names
        )
        partition.are_closed = True
        file = SegmentFile(path, LOG, "", segment.start_offset, None, remote.topic, remote.number)
        judge_segments(partition, [file], rules_of(partition), progress)
        for suffix in _OTHERS:
            found = side_file(stem + suffix) if suffix in contents else None
            if found is not None:
                judge_side_file(partition_for_file(partition, names), found, lambda _: None)
    _add_chunks(segment, source.failures, report)
    judged = partition.segments[0]
    metadata = segment.metadata
    if metadata is not None and judged.last_offset > metadata.end_offset:
        text = f"its last record has offset {judged.last_offset}, by the manifest it ends at {metadata.end_offset}"
        report.add("remote-offsets-mismatch", path, text, offset=judged.last_offset)


def _side_files(segment: RemoteSegment, report: Report) -> dict[str, bytes]:
    """Returns the side files by suffix, without unreadable ones, which are reported."""
    found: dict[str, bytes] = {}
    for suffix in (*INDEX_SUFFIXES, *_OTHERS):
        try:
            content = segment.side_file(suffix)
        except ChunkError as error:
            part = segment.manifest.parts[suffix]
            is_own = segment.layout != AIVEN
            path = segment.path(suffix if is_own else INDEXES)
            text = f"{suffix.removeprefix('.')}: {error}"
            report.add("remote-chunk-damaged", path, text, part.position, part.size, segment.start_offset)
            continue
        if content is not None:
            found[suffix] = content
    return found


def _add_chunks(segment: RemoteSegment, failures: dict[int, str], report: Report) -> None:
    positions = segment.chunks.positions
    for number, reason in sorted(failures.items()):
        start, end = positions[number], positions[number + 1]
        report.add(
            "remote-chunk-damaged", segment.path(), f"chunk {number}: {reason}", start, end - start,
            segment.start_offset, details={"chunk": number},
        )  # fmt: skip
