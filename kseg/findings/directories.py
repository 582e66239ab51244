"""Findings about partition and log directories: their files, checkpoints, leftovers, and what the cleaner meets."""

from kseg.findings.kind import (
    BROKER,
    COMPLETE,
    DECISION,
    ERROR,
    INFO,
    RECOVER,
    REPLICA,
    SALVAGE,
    TOPIC_ID,
    WARNING,
    WITH_TOPIC_ID,
    Kind,
)

DIRECTORY_KINDS: dict[str, Kind] = {
    # What kseg itself has left
    "pending-change": Kind(
        WARNING,
        "A command of kseg was interrupted in this partition.",
        "The next command that changes the partition completes it, or takes back what never began.",
        COMPLETE,
    ),
    # The log directory and its own files
    "broker-would-not-start": Kind(
        ERROR,
        "Something here keeps a broker from starting: a name it cannot read, or a partition that is there twice.",
        "The whole broker stops, or takes the log directory offline, until it is renamed or moved away.",
        needs=DECISION,
        is_refused=True,
    ),
    "unreadable-checkpoint": Kind(
        ERROR,
        "A checkpoint file of the log directory is not what a broker can read.",
        "A broker takes all its offsets as 0 and then the whole log directory offline. Removed, it is written anew: "
        "an unclean start then scans all segments.",
        RECOVER,
    ),
    "bad-meta-properties": Kind(
        ERROR,
        "meta.properties, which tells cluster and node of a log directory, is missing or cannot be read.",
        "The broker does not start with this directory. Copy the line of the cluster's id from another node.",
        needs=BROKER,
    ),
    "bad-quorum-state": Kind(
        ERROR,
        "quorum-state, which holds the vote of a KRaft node, cannot be read.",
        "The node does not start. Without the file it does, but may vote twice in one epoch.",
        needs=DECISION,
    ),
    "bad-metadata-snapshot": Kind(
        ERROR,
        "A snapshot of the cluster's metadata is damaged or not complete.",
        "A KRaft node that has to load it does not start. Copy the file of the same name from another node of the "
        "quorum.",
        needs=REPLICA,
    ),
    "metadata-log-behind": Kind(
        WARNING,
        "The newest snapshot of the cluster's metadata is ahead of the log.",
        "A KRaft node drops its log at start and goes on from the snapshot.",
        needs=BROKER,
    ),
    "unclean-shutdown": Kind(
        INFO,
        "The log directory was not closed cleanly, or is in use.",
        "A broker's start scans every segment from its recovery point on and rebuilds indexes.",
    ),
    "partition-missing": Kind(
        INFO,
        "A partition that had records here has no directory any more.",
        "A broker begins an empty one and fetches all from the leader, if there is one.",
    ),
    "segments-missing": Kind(
        ERROR,
        "A partition has no segment.",
        "All its records are lost here: brokers keep at least one segment, if only an empty one. A broker begins a new "
        "log at offset 0, or the log start offset, and so does kseg recover. Only another replica has the records "
        "(kseg recover --from-replica).",
        RECOVER,
        DECISION,
    ),
    "delete-directory": Kind(
        INFO,
        "A partition that is being deleted.",
        "A broker removes it for good soon after its start.",
    ),
    "future-directory": Kind(
        INFO,
        "A copy of a partition on its way from another log directory.",
        "A broker goes on copying, then puts it in the place of the other.",
    ),
    "stray-directory": Kind(
        WARNING,
        "A partition that a broker put aside, as it was not assigned to it (any more).",
        "Its records are served to nobody. Rename it back only if the topic's id is right.",
        needs=DECISION,
    ),
    "unknown-file": Kind(INFO, "A file that no broker knows or looks at.", "Nothing happens to it."),
    # A partition against its log directory
    "high-watermark-beyond-end": Kind(
        ERROR,
        "The high watermark is beyond the end of the log.",
        "Records that were acknowledged are missing here, and only another replica has them (kseg recover "
        "--from-replica). A broker's start moves the high watermark back without a word; kseg recover does the same.",
        RECOVER,
        DECISION,
    ),
    "log-start-beyond-end": Kind(
        ERROR,
        "The log start offset is beyond the end of the log.",
        "A broker's start deletes every segment of the partition.",
        RECOVER,
    ),
    "recovery-point-beyond-end": Kind(
        WARNING,
        "The recovery point is beyond the end of the log.",
        "Records that were on disk are missing here, and after an unclean stop no segment is scanned.",
        RECOVER,
    ),
    "cleaner-checkpoint-beyond-end": Kind(
        WARNING,
        "The cleaner's checkpoint is beyond the end of the log.",
        "The cleaner begins anew at the log's start (up to 2.2 it fails on the partition).",
        RECOVER,
    ),
    "segments-below-log-start": Kind(
        INFO,
        "Whole segments lie below the log start offset.",
        "Nobody can read them; retention removes them.",
        "kseg retain",
    ),
    "no-partition-metadata": Kind(
        ERROR,
        "A partition of a KRaft node has no partition.metadata.",
        "A start puts the partition aside as -stray and begins an empty one.",
        WITH_TOPIC_ID,
        TOPIC_ID,
    ),
    "bad-partition-metadata": Kind(
        ERROR,
        "partition.metadata cannot be read.",
        "A broker takes the whole log directory offline.",
        WITH_TOPIC_ID,
        TOPIC_ID,
        is_refused=True,
    ),
    "topic-id-mismatch": Kind(
        ERROR,
        "The topic id of a partition is not that of its topic.",
        "A start puts the partition aside as -stray and begins an empty one.",
        WITH_TOPIC_ID,
        TOPIC_ID,
    ),
    "unknown-topic": Kind(
        WARNING,
        "The cluster's metadata knows no topic of this name.",
        "The topic was deleted, or the directory belongs to another cluster. A start puts it aside as -stray.",
        needs=DECISION,
    ),
    "bad-clean-shutdown": Kind(
        INFO,
        "The content of .kafka_cleanshutdown is not what brokers since 3.7 write.",
        "That the file is there is all that counts; the controller is told no broker epoch.",
    ),
    # Files beside the segments of a partition
    "unpadded-name": Kind(
        WARNING,
        "The number in the name of a .log does not have 20 digits.",
        "A broker looks for the name with 20 digits, and makes that file anew: these records are served to nobody. "
        "Salvage gives it its name, unless other files hold the same offsets.",
        SALVAGE,
        DECISION,
        is_refused=True,
    ),
    "leftover-deleted": Kind(
        INFO,
        "Files that retention, the cleaner or a recovery has marked as deleted.",
        "A broker's start removes them.",
    ),
    "leftover-cleaned": Kind(
        INFO,
        "Copies of segments that the cleaner, or the split of a segment, did not finish.",
        "A broker's start removes them; the segments they are copies of stay.",
    ),
    "unfinished-swap": Kind(
        WARNING,
        "A new segment that was about to take the place of older ones.",
        "A broker's start finishes that: it removes what lies in its range of offsets and renames the copy.",
        RECOVER,
    ),
    "swap-without-index": Kind(
        WARNING,
        "A segment that waits to be put in place has no index.",
        "A start makes an index of zeros for it that is never rebuilt: reads work, slowly.",
        RECOVER,
    ),
    "leftover-holds-data": Kind(
        WARNING,
        "A file that a broker's start removes holds records that are nowhere else in the partition.",
        "They are lost with the next start: copy the file away first. A recovery, or a truncation to what the leader "
        "has, leaves such .deleted files on purpose; of a .cleaned or .swap file it is an error.",
        SALVAGE,
    ),
    # What the log cleaner meets
    "cleaner-blocked": Kind(
        WARNING,
        "The log cleaner cannot read past this place in a compacted partition.",
        "It gives the partition up until the broker's next start: the log grows without bound.",
        SALVAGE,
    ),
    "cleaner-hides-damage": Kind(
        WARNING,
        "A batch whose checksum is wrong lies where the log cleaner works.",
        "The cleaner looks at no checksum: it writes the damaged records under a new one, and the damage is hidden.",
        SALVAGE,
    ),
    "record-without-key": Kind(
        WARNING,
        "Records of a compacted partition have no key.",
        "The cleaner drops them the first time it meets them (0.8 stops at them), and so does "
        "kseg compact --drop-null-keys.",
        needs=DECISION,
    ),
}
