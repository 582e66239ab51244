"""Checks the partition __cluster_metadata for problems that stop a node of KRaft, or make it drop the log.

Sources: KafkaRaftLog, Snapshots, FileQuorumStateStore of Kafka 4.3.1.
"""

import os

from kseg.segment.files import METADATA_TOPIC, QUORUM_STATE, SegmentFile, segments_among
from kseg.sidefiles.lines import MAX_TEXT_BYTES
from kseg.sidefiles.problems import problems_of
from kseg.stores.regular_files import open_regular
from kseg.verification.rule import Rule


class MetadataLogRule(Rule):
    """Checks quorum-state and snapshots of __cluster_metadata after its log was read."""

    def finish(self) -> None:
        partition = self.partition
        if partition.topic != METADATA_TOPIC or not partition.is_whole:
            return
        from kseg.verification.directories.snapshots import (  # only one partition of a node needs it
            is_snapshot,
            judge_snapshot,
        )

        self._quorum_state()
        files = segments_among(partition.name, partition.names)
        snapshots = [
            file for file in files if is_snapshot(file) and judge_snapshot(file.path, self.report, self.partition.level)
        ]
        self._compare_with_log(snapshots)

    def _quorum_state(self) -> None:
        if QUORUM_STATE not in self.partition.names:
            return
        from kseg.sidefiles.quorum_state import read_quorum_state

        path = os.path.join(self.partition.name, QUORUM_STATE)
        try:
            with open_regular(path) as stream:
                found = problems_of(read_quorum_state(stream.read(MAX_TEXT_BYTES)))
        except OSError as error:
            self.report.add("bad-quorum-state", path, str(error.strerror))
            return
        for problem in found:
            self.report.add("bad-quorum-state", path, problem.message, problem.position, problem.length)

    def _compare_with_log(self, snapshots: list[SegmentFile]) -> None:
        segments = self.partition.segments
        if not segments and any(file.base_offset for file in snapshots):  # a new node has that of offset 0
            text = "no .log file is left: a node begins an empty log, without what the snapshots hold"
            self.report.add("metadata-lost", self.partition.name, text)
        start = segments[0].base_offset or 0 if segments else 0
        newest = max(snapshots, key=lambda file: (file.base_offset or 0, file.epoch or 0), default=None)
        if start > 0 and (newest is None or (newest.base_offset or 0) < start):
            text = f"the log starts at offset {start}, and no complete snapshot reaches that offset"
            self.report.add("broker-would-not-start", self.partition.name, text, offset=start)
        end = segments[-1].next_offset if segments else None
        if newest is not None and end is not None and (newest.base_offset or 0) > end:
            text = f"the snapshot replaces all records below offset {newest.base_offset}, the log ends at {end}"
            details = {"offset": newest.base_offset, "logEndOffset": end}
            self.report.add("metadata-log-behind", newest.path, text, offset=newest.base_offset, details=details)
