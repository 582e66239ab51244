"""Checks remote storage: each segment, and the segments of each partition against its leader epochs."""

import os

from kseg.errors import KsegError, PathError
from kseg.logdir.log_directory import read_log_directory
from kseg.logdir.remote_partitions import (
    Candidate,
    Lineage,
    LocalLogs,
    LocalPartition,
    candidate_of,
    lineage_of,
    live_segments,
)
from kseg.stores.buffers import Buffers
from kseg.stores.remote.chunk_index import ManifestError
from kseg.stores.remote.keys import KeyMissingError
from kseg.stores.remote.segment import ChunkError, RemoteSegment
from kseg.stores.remote.storage import RemotePartition, open_storage
from kseg.verification.remote.segments import judge_objects, judge_segment
from kseg.verification.report import Report
from kseg.verification.settings import Advance, CheckSettings


def judge_storage(path: str, settings: CheckSettings, report: Report, progress: Advance) -> None:
    """Checks all partitions of wanted topics at a path. Raises PathError if there is no remote storage.

    Segments that cannot be decrypted are added to ``report.failures``, once for each reason.
    """
    storage = open_storage(path, settings.remote.keys)
    logs = [LocalLogs(other) for other in settings.remote.log_directories if _is_log_directory(other)]
    judge = _Judge(settings, report, progress, logs)
    for partition in storage.partitions:
        if settings.remote.wants(partition.topic):
            judge.partition(partition)
    if storage.others:
        first = storage.others[0].name
        text = f"{len(storage.others)} objects; the first: {first}"
        report.add("remote-other-objects", path, text, details={"count": len(storage.others)})
        report.totals.not_judged += len(storage.others)
    report.failures += judge.failures


def _is_log_directory(path: str) -> bool:
    return os.path.isdir(path) and read_log_directory(path) is not None


class _Judge:
    """Checks partitions of a storage; see `judge_storage`."""

    def __init__(self, settings: CheckSettings, report: Report, progress: Advance, logs: list[LocalLogs]) -> None:
        self._settings, self._report, self._progress, self._logs = settings, report, progress, logs
        self._buffers = Buffers(settings.max_batch_bytes)
        self._unreadable: dict[str, list[str]] = {}

    @property
    def failures(self) -> list[str]:
        """One message for each key or object that cannot be used, with the number of segments."""
        return [
            texts[0] + (f" (so are {len(texts) - 1} more segments)" if len(texts) > 1 else "")
            for texts in self._unreadable.values()
        ]

    def partition(self, partition: RemotePartition) -> None:
        candidates: list[Candidate[RemoteSegment]] = []
        is_complete = True
        for segment in partition.segments:
            try:
                if not judge_objects(segment, self._report):
                    continue
                candidate = self._segment(segment, partition)
            except (KeyMissingError, PathError) as error:
                self._fail(segment, error)
                is_complete = False
                continue
            if candidate is None:
                is_complete = False
            else:
                candidates.append(candidate)
        if is_complete and candidates:
            self._lineage(partition, candidates)

    def _segment(self, segment: RemoteSegment, partition: RemotePartition) -> Candidate[RemoteSegment] | None:
        """Checks a segment. Returns its place in the lineage, None if it is unknown."""
        judge_segment(segment, partition, self._settings, self._report, self._buffers, self._progress)
        try:
            return candidate_of(segment)
        except (ManifestError, ChunkError):
            return None  # reported with the segment

    def _fail(self, segment: RemoteSegment, error: KsegError) -> None:
        self._report.totals.not_judged += 1
        encryption = segment.manifest.encryption if isinstance(error, KeyMissingError) else None
        key = str(error) if encryption is None else f"key {encryption.key_id}"
        self._unreadable.setdefault(key, []).append(str(error))

    def _lineage(self, partition: RemotePartition, candidates: list[Candidate[RemoteSegment]]) -> None:
        lineage, local = lineage_of(candidates), self._local(partition)
        if local is not None and local.lineage[-1].epoch >= lineage[-1].epoch:
            lineage = local.lineage
        else:
            local = None
        live = live_segments(candidates, lineage, lineage[0].start_offset)
        folder = os.path.dirname(candidates[0].segment.path())
        for hole in live.holes:
            text = f"{partition.name}: no segment holds offsets {hole.first} to {hole.last}"
            details = {"firstMissing": hole.first, "lastMissing": hole.last}
            self._report.add("remote-lineage-hole", folder, text, offset=hole.first, details=details)
        for candidate in live.abandoned:
            self._add_abandoned(candidate, lineage)
        for candidate in live.superseded:
            text = f"other segments hold offsets {candidate.start_offset} to {candidate.end_offset} too"
            self._report.add("remote-segment-superseded", candidate.segment.path(), text, offset=candidate.start_offset)
        if local is not None and live.pieces:
            end, start = live.pieces[-1].last, local.segments[0].base_offset or 0
            if start > end + 1:
                text = f"{partition.name}: the store ends at offset {end}, {local.directory} begins at {start}"
                details = {"firstMissing": end + 1, "lastMissing": start - 1}
                self._report.add("remote-local-gap", folder, text, offset=end + 1, details=details)

    def _add_abandoned(self, candidate: Candidate[RemoteSegment], lineage: Lineage) -> None:
        epochs = {entry.epoch for entry in lineage}
        own = [entry.epoch for entry in candidate.epochs]
        lost = next((epoch for epoch in own if epoch not in epochs), own[-1])
        text = (
            f"offsets {candidate.start_offset} to {candidate.end_offset}, at the end of leader epoch {lost}: "
            "in the lineage other epochs have them"
        )
        self._report.add(
            "remote-lineage-conflict", candidate.segment.path(), text, offset=candidate.start_offset,
            details={"leaderEpoch": lost},
        )  # fmt: skip

    def _local(self, partition: RemotePartition) -> LocalPartition | None:
        for logs in self._logs:
            found = logs.partition(partition)
            if found is not None and found.lineage and found.segments:
                return found
        return None
