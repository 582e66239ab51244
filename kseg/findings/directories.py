"""Findings about partition and log directories: files, checkpoints, leftovers, obstacles of the log cleaner."""

from kseg.findings.kind import (
    BROKER,
    COMPLETE,
    DECISION,
    DELETED,
    EMPTIED,
    ERROR,
    INFO,
    OFFLINE,
    RECOVER,
    REFUSED,
    REPLICA,
    SALVAGE,
    TOPIC_ID,
    WARNING,
    WITH_TOPIC_ID,
    Kind,
)

DIRECTORY_KINDS: dict[str, Kind] = {
    # Leftovers of kseg
    "pending-change": Kind(
        WARNING,
        "A command of kseg was interrupted in this partition.",
        "The next command that changes the partition completes it, or rolls it back if it had not started.",
        COMPLETE,
    ),
    # The log directory and its own files
    "broker-would-not-start": Kind(
        ERROR,
        "A broker cannot start with this: a name that it cannot parse, or a partition in two places.",
        "The whole broker stops, or takes the log directory offline, until it is renamed or moved away.",
        needs=DECISION,
        is_refused=True,
        start=REFUSED,
    ),
    "unreadable-checkpoint": Kind(
        ERROR,
        "A broker cannot read a checkpoint file of the log directory.",
        "A broker assumes 0 for all its offsets, and takes the whole log directory offline. If the file is removed, "
        "the broker writes a new one; after an unclean shutdown it then scans all segments.",
        RECOVER,
        start=OFFLINE,
    ),
    "bad-meta-properties": Kind(
        ERROR,
        "meta.properties, with the cluster and node of a log directory, is missing or cannot be read.",
        "The broker does not start with this directory. Copy the line with the cluster id from another node.",
        needs=BROKER,
        start=OFFLINE,
    ),
    "node-identity-mismatch": Kind(
        ERROR,
        "meta.properties contradicts another log directory of the node, or server.properties.",
        "The node does not start: all its log directories need the same cluster.id and its node.id, and each a "
        "directory.id of its own. Find out to which node the directory belongs before you edit the file.",
        needs=DECISION,
        start=REFUSED,
    ),
    "unknown-node": Kind(
        WARNING,
        "The cluster's metadata has no node with the node.id of meta.properties.",
        "The directory belongs to another node, or the node was unregistered. Under this id, a broker's start sets all "
        "partitions aside as -stray.",
        needs=DECISION,
    ),
    "metadata-lost": Kind(
        ERROR,
        "The cluster's metadata are gone, or lack most topics that have partitions here.",
        "On the only controller, a start begins an empty cluster, and sets all partitions aside as -stray. Copy "
        "__cluster_metadata-0 from another controller or broker before the start.",
        needs=REPLICA,
    ),
    "bad-quorum-state": Kind(
        ERROR,
        "quorum-state, with the vote of a KRaft node, cannot be read.",
        "The node does not start. Without the file it starts, but may vote twice in one epoch.",
        needs=DECISION,
        start=REFUSED,
    ),
    "bad-metadata-snapshot": Kind(
        ERROR,
        "A snapshot of the cluster's metadata is damaged or incomplete.",
        "A KRaft node that must load it does not start. Copy the file of the same name from another node of the "
        "quorum.",
        needs=REPLICA,
        start=REFUSED,
    ),
    "metadata-log-behind": Kind(
        WARNING,
        "The newest snapshot of the cluster's metadata is ahead of the log.",
        "A KRaft node deletes its log at its start and continues from the snapshot.",
        needs=BROKER,
    ),
    "unclean-shutdown": Kind(
        INFO,
        "The log directory was not closed cleanly, or is in use.",
        "A broker's start scans every segment from its recovery point on and rebuilds indexes.",
    ),
    "partition-missing": Kind(
        INFO,
        "A partition that had records here no longer has a directory.",
        "A broker creates an empty one and fetches everything from the leader, if there is one.",
    ),
    "segments-missing": Kind(
        ERROR,
        "A partition has no segment.",
        "All its records are lost here: brokers keep at least one segment, even if it is empty. A broker creates a new "
        "log at offset 0 or at the log start offset; so does kseg recover. Only another replica has the records "
        "(kseg recover --from-replica).",
        RECOVER,
        DECISION,
    ),
    "delete-directory": Kind(
        INFO,
        "A partition that is being deleted.",
        "A broker removes it soon after its start. kseg recover --undelete takes it back.",
    ),
    "future-directory": Kind(
        INFO,
        "An unfinished copy of a partition from another log directory.",
        "A broker continues the copy, then replaces the other directory by it.",
    ),
    "stray-directory": Kind(
        WARNING,
        "A partition that a broker set aside because it was not assigned to it.",
        "Brokers do not serve its records. kseg recover --undelete takes it back, with the id of the current topic.",
        needs=DECISION,
    ),
    "unknown-file": Kind(INFO, "A file that brokers ignore.", "It stays as it is."),
    # A partition against its log directory
    "high-watermark-beyond-end": Kind(
        ERROR,
        "The high watermark is beyond the end of the log.",
        "Acknowledged records are missing here, and only another replica has them (kseg recover --from-replica). A "
        "broker's start silently moves the high watermark back; kseg recover does the same.",
        RECOVER,
        DECISION,
    ),
    "log-start-beyond-end": Kind(
        ERROR,
        "The log start offset is beyond the end of the log.",
        "A broker's start deletes every segment of the partition; so does kseg recover. With --mode salvage it keeps "
        "the records and moves the log start offset back.",
        RECOVER,
        DECISION,
        start=EMPTIED,
    ),
    "recovery-point-beyond-end": Kind(
        WARNING,
        "The recovery point is beyond the end of the log.",
        "Records that were on disk are missing here. After an unclean shutdown, no segment is scanned.",
        RECOVER,
    ),
    "cleaner-checkpoint-beyond-end": Kind(
        WARNING,
        "The cleaner's checkpoint is beyond the end of the log.",
        "The cleaner restarts at the start of the log (up to 2.2 it fails on the partition).",
        RECOVER,
    ),
    "commit-beyond-end": Kind(
        WARNING,
        "A consumer group has committed an offset beyond the end of the log.",
        "Records that the group has read are missing here, or the commit was set by hand. The group resets its offset "
        "by auto.offset.reset, and may read everything again or skip records.",
        needs=DECISION,
    ),
    "commit-below-start": Kind(
        INFO,
        "A consumer group has committed an offset below the log start.",
        "Retention removed records before the group read them. The group resets its offset by auto.offset.reset; its "
        "lag is at most the length of the log.",
    ),
    "segments-below-log-start": Kind(
        INFO,
        "Whole segments are below the log start offset.",
        "Consumers cannot read them; retention removes them.",
        "kseg retain",
        DECISION,
    ),
    "no-partition-metadata": Kind(
        ERROR,
        "A partition of a KRaft node has no partition.metadata.",
        "A broker's start sets the partition aside as -stray and creates an empty one.",
        WITH_TOPIC_ID,
        TOPIC_ID,
    ),
    "bad-partition-metadata": Kind(
        ERROR,
        "partition.metadata cannot be read.",
        "A broker takes the whole log directory offline; if a line is missing or the id is no UUID, it does not start.",
        WITH_TOPIC_ID,
        TOPIC_ID,
        is_refused=True,
        start=OFFLINE,
    ),
    "topic-id-mismatch": Kind(
        ERROR,
        "The topic id of a partition differs from that of its topic.",
        "A broker's start sets the partition aside as -stray and creates an empty one.",
        WITH_TOPIC_ID,
        TOPIC_ID,
    ),
    "unknown-topic": Kind(
        WARNING,
        "The cluster's metadata has no topic of this name.",
        "The topic was deleted, or the directory belongs to another cluster. A broker's start sets it aside as -stray.",
        needs=DECISION,
    ),
    "unassigned-replica": Kind(
        WARNING,
        "The cluster's metadata do not assign the partition to this node.",
        "It was moved to other brokers, or the directory belongs to another node. A broker's start sets it aside as "
        "-stray.",
        needs=DECISION,
    ),
    "bad-clean-shutdown": Kind(
        INFO,
        "The content of .kafka_cleanshutdown differs from that of brokers since 3.7.",
        "Brokers only check that the file exists; the controller gets no broker epoch.",
    ),
    # Files beside the segments of a partition
    "unpadded-name": Kind(
        WARNING,
        "The number in the name of a .log does not have 20 digits.",
        "A broker looks for the name with 20 digits, and creates that file: it does not serve these records. Salvage "
        "renames the file, unless other files hold the same offsets.",
        SALVAGE,
        DECISION,
        is_refused=True,
    ),
    "leftover-deleted": Kind(
        INFO,
        "Files that retention, the cleaner or a recovery marked as deleted.",
        "A broker's start removes them. kseg recover --undelete takes segments back whose offsets the log lacks.",
        start=DELETED,
    ),
    "leftover-cleaned": Kind(
        INFO,
        "Unfinished copies of segments, of the cleaner or of the split of a segment.",
        "A broker's start removes them; the original segments stay.",
    ),
    "unfinished-swap": Kind(
        WARNING,
        "A new segment that has not yet replaced older ones.",
        "A broker's start completes the replacement: it removes the segments in its offset range and renames it.",
        RECOVER,
    ),
    "swap-without-index": Kind(
        WARNING,
        "A .swap segment has no index.",
        "A broker's start creates an index of zeros for it, which is never rebuilt: reads work, but slowly.",
        RECOVER,
    ),
    "leftover-holds-data": Kind(
        WARNING,
        "A file that a broker's start removes holds records that no other file of the partition has.",
        "They are lost at the next start: copy the file first. A recovery, or a truncation to the leader's log, leaves "
        "such .deleted files on purpose; for a .cleaned or .swap file it is an error.",
        SALVAGE,
    ),
    # Obstacles of the log cleaner
    "cleaner-blocked": Kind(
        WARNING,
        "The log cleaner cannot read past this place in a compacted partition.",
        "It skips the partition until the broker's next start: the log grows without bound.",
        SALVAGE,
    ),
    "cleaner-hides-damage": Kind(
        WARNING,
        "A batch with a wrong checksum is in the part of the log that the log cleaner rewrites.",
        "The cleaner checks no checksum: it writes the damaged records with a new one, which hides the damage.",
        SALVAGE,
    ),
    "record-without-key": Kind(
        WARNING,
        "Records of a compacted partition have no key.",
        "The cleaner deletes them at its first pass (0.8 stops at them); so does kseg compact --drop-null-keys.",
        needs=DECISION,
    ),
}
