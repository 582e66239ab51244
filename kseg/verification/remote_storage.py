"""Checks remote storage: each segment, and the segments of each partition against its leader epochs."""

import os
from functools import partial

from kseg.errors import PathError
from kseg.formats.suffixes import INDEX_SUFFIXES, LOG, SNAPSHOT
from kseg.node import remote_partitions
from kseg.node.log_directory import BrokerState, read_log_directory
from kseg.node.remote_partitions import Candidate, LocalLogs
from kseg.segment.files import SegmentFile
from kseg.sidefiles.kinds import side_file
from kseg.stores.place import Place
from kseg.stores.remote.keys import KeyMissingError
from kseg.stores.remote.recognition import AIVEN, INDEXES, MANIFEST
from kseg.stores.remote.segment import (
    EPOCHS,
    ChunkError,
    ManifestError,
    RemotePartition,
    RemoteSegment,
    RemoteSource,
    open_storage,
)
from kseg.stores.trees import Tree, VirtualFiles, VirtualLog, VirtualSideFile
from kseg.stores.windows import Buffers
from kseg.verification.partition import CheckSettings, PartitionCheck, judge_segments, partition_for_file
from kseg.verification.report import Report
from kseg.verification.rules import rules_of
from kseg.verification.side_files import judge_side_file

_OTHERS = (SNAPSHOT, EPOCHS)
"""Side files that are checked without the log."""


def judge_objects(segment: RemoteSegment, report: Report) -> bool:
    """Checks that the segment has all its objects and a manifest that can be read. Returns whether it has.

    Raises PathError.
    """
    if segment.missing:
        code, suffix = "remote-orphan-object", next(iter(segment.found), "")
        if segment.layout == AIVEN and MANIFEST in segment.found:
            code, suffix = "remote-objects-missing", MANIFEST
        elif LOG in segment.found:
            code, suffix = "remote-copy-unfinished", LOG
        report.add(code, segment.path(suffix), f"there is no {', '.join(segment.missing)}", offset=segment.start_offset)
        return False
    try:
        metadata = segment.manifest.metadata
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


def judge_segment(
    segment: RemoteSegment, remote: RemotePartition, settings: CheckSettings, report: Report, buffers: Buffers,
) -> None:  # fmt: skip
    """Checks log and side files of a whole segment. Raises KeyMissingError, PathError, UnsupportedError."""
    contents = _side_files(segment, report)
    files = dict[str, Tree]()
    name = os.path.basename(segment.path())
    path = Place(segment.path(), VirtualFiles(files), name)
    source = RemoteSource(segment, path)
    files[name] = VirtualLog(lambda: source.size, lambda: source)
    for suffix, content in contents.items():
        files[path.with_ending(LOG, suffix).name] = VirtualSideFile(partial(bytes, content))
    names = frozenset(files)
    partition = PartitionCheck(
        path.parent, remote.topic, remote.number, False, settings, report, BrokerState(), buffers, names
    )
    partition.are_closed = True
    file = SegmentFile(path, LOG, "", segment.start_offset, None, remote.topic, remote.number)
    judge_segments(partition, [file], rules_of(partition))
    for suffix in _OTHERS:
        found = side_file(path.with_ending(LOG, suffix)) if suffix in contents else None
        if found is not None:
            judge_side_file(partition_for_file(partition, names), found)
    positions = segment.chunks.positions
    for number, reason in sorted(source.failures.items()):
        start, size = positions[number], positions[number + 1] - positions[number]
        text, details = f"chunk {number}: {reason}", {"chunk": number}
        report.add("remote-chunk-damaged", path, text, start, size, segment.start_offset, details=details)
    judged = partition.segments[0]
    metadata = segment.manifest.metadata
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
            path = segment.path(INDEXES if segment.layout == AIVEN else suffix)
            text = f"{suffix.removeprefix('.')}: {error}"
            report.add("remote-chunk-damaged", path, text, part.position, part.size, segment.start_offset)
            continue
        if content is not None:
            found[suffix] = content
    return found


def judge_storage(path: str, settings: CheckSettings, report: Report) -> None:
    """Checks all partitions of wanted topics at a path: each segment by its objects and manifest, then by its log and
    side files like those on a disk. Raises PathError if there is no remote storage.

    Segments that cannot be decrypted are added to ``report.failures``, once for each reason.
    """
    storage = open_storage(path, settings.remote.keys)
    others = [other for other in settings.remote.log_directories if Place(other).is_dir()]
    logs = [LocalLogs(other) for other in others if read_log_directory(other).is_marked]
    buffers = Buffers(settings.max_batch_bytes)
    unreadable: dict[str, list[str]] = {}  # messages by the key or object that cannot be used
    for partition in storage.partitions:
        if not settings.remote.wants(partition.topic):
            continue
        candidates: list[Candidate] = []
        is_complete = True
        for segment in partition.segments:
            try:
                if not judge_objects(segment, report):
                    continue
                judge_segment(segment, partition, settings, report, buffers)
                try:
                    candidates.append(remote_partitions.candidate_of(segment))
                except (ManifestError, ChunkError):
                    is_complete = False  # reported with the segment
            except (KeyMissingError, PathError) as error:
                report.totals.not_judged += 1
                encryption = segment.manifest.encryption if isinstance(error, KeyMissingError) else None
                key = str(error) if encryption is None else f"key {encryption.key_id}"
                unreadable.setdefault(key, []).append(str(error))
                is_complete = False
        if is_complete and candidates:
            _judge_lineage(partition, candidates, logs, report)
    if storage.others:
        first = storage.others[0].name
        text = f"{len(storage.others)} objects; the first: {first}"
        report.add("remote-other-objects", path, text, details={"count": len(storage.others)})
        report.totals.not_judged += len(storage.others)
    # One message for each key or object that cannot be used, with the number of segments.
    for first, *more in unreadable.values():
        report.failures.append(first + (f" (so are {len(more)} more segments)" if more else ""))


def _judge_lineage(
    partition: RemotePartition, candidates: list[Candidate], logs: list[LocalLogs], report: Report
) -> None:
    """Compares the segments of a partition with each other, and with the first of the log directories that has it."""
    in_logs = (each.partition(partition) for each in logs)
    local = next((found for found in in_logs if found is not None and found.lineage and found.segments), None)
    lineage = remote_partitions.lineage_of(candidates)
    if local is not None and local.lineage[-1].epoch >= lineage[-1].epoch:
        lineage = local.lineage
    else:
        local = None
    live = remote_partitions.live_segments(candidates, lineage, lineage[0].start_offset)
    folder = Place(candidates[0].segment.path()).parent
    for hole in remote_partitions.holes_between(live.pieces):
        text = f"{partition.name}: no segment holds offsets {hole.first} to {hole.last}"
        details = {"firstMissing": hole.first, "lastMissing": hole.last}
        report.add("remote-lineage-hole", folder, text, offset=hole.first, details=details)
    epochs = {entry.epoch for entry in lineage}
    for candidate in live.abandoned:
        path, first = candidate.segment.path(), candidate.start_offset
        own = [entry.epoch for entry in candidate.epochs]
        lost = next((epoch for epoch in own if epoch not in epochs), own[-1])
        text = f"offsets {first} to {candidate.end_offset}, at the end of leader epoch {lost}"
        text = f"{text}: in the lineage other epochs have them"
        report.add("remote-lineage-conflict", path, text, offset=first, details={"leaderEpoch": lost})
    for candidate in live.superseded:
        text = f"other segments hold offsets {candidate.start_offset} to {candidate.end_offset} too"
        report.add("remote-segment-superseded", candidate.segment.path(), text, offset=candidate.start_offset)
    if local is not None and live.pieces:
        end, start = live.pieces[-1].last, local.segments[0].base_offset or 0
        if start > end + 1:
            text = f"{partition.name}: the store ends at offset {end}, {local.directory} begins at {start}"
            details = {"firstMissing": end + 1, "lastMissing": start - 1}
            report.add("remote-local-gap", folder, text, offset=end + 1, details=details)
