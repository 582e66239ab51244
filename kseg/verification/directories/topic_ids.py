"""Checks partition.metadata: a broker that finds another topic's id there renames the partition and starts an empty
one.

Sources: PartitionMetadataFile, UnifiedLog.initializeTopicId, LogManager.isStrayReplica of Kafka 4.3.1.
"""

import os

from kseg.findings.log import OFFLINE, REFUSED
from kseg.logdir.log_directory import BrokerState, is_moved
from kseg.sidefiles.identifiers import ZERO
from kseg.sidefiles.partition_metadata import PARTITION_METADATA, PartitionMetadata, read_partition_metadata
from kseg.sidefiles.problems import SideFileProblem
from kseg.stores.regular_files import first_bytes
from kseg.verification.report import Report
from kseg.verification.rule import Rule

_MAX_BYTES = 1 << 16


class TopicIdRule(Rule):
    """Reads the file after all segments; stores the id in ``partition.topic_id``."""

    def finish(self) -> None:
        partition = self.partition
        if not partition.is_whole or partition.directory is None:
            return
        if is_moved(partition.own_name):
            return
        if PARTITION_METADATA not in partition.names:
            if partition.broker.is_kraft and any(segment.size for segment in partition.segments):
                self.report.add(
                    "no-partition-metadata",
                    partition.name,
                    f"the log holds records, but there is no {PARTITION_METADATA}",
                )
            return
        path = os.path.join(partition.directory, PARTITION_METADATA)
        found: PartitionMetadata | SideFileProblem | None = None
        try:
            for found in read_partition_metadata(first_bytes(path, _MAX_BYTES)):
                if isinstance(found, SideFileProblem):
                    # Kafka's reader foresees malformed lines, but neither missing ones nor ids that are no UUID.
                    stops = found.code == "missing-field" or (found.code == "bad-value" and ZERO not in found.message)
                    details = {"reason": REFUSED if stops else OFFLINE}
                    place = found.position, found.length
                    self.report.add("bad-partition-metadata", path, found.message, *place, details=details)
        except OSError as error:
            self.report.add("bad-partition-metadata", path, str(error.strerror))
        if not isinstance(found, PartitionMetadata):
            return
        partition.topic_id = found.topic_id
        judge_topic_id(path, partition.topic, found.topic_id, partition.broker, self.report)


def judge_topic_id(path: str, topic: str | None, topic_id: str, state: BrokerState, report: Report) -> None:
    """Compares the topic id in a partition.metadata with __cluster_metadata. ``state``: what that says about the
    partition."""
    wanted, own = state.topic_id, {"topicId": topic_id}
    if wanted == "":
        report.add("unknown-topic", path, f"__cluster_metadata has no topic {topic}", details=own)
    elif wanted is not None and wanted != topic_id:
        text = f"topic id {topic_id}; in __cluster_metadata {topic} has {wanted}"
        report.add("topic-id-mismatch", path, text, details=own | {"expectedTopicId": wanted})
    elif state.is_assigned is False:
        text = f"__cluster_metadata does not assign this partition of {topic} to the node"
        report.add("unassigned-replica", path, text, details=own)
