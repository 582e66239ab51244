"""The table of all findings: code, severity, description, consequences, repair.

It feeds the output of ``kseg verify``, ``--explain`` and man/kseg-findings.7. Codes are stable names; messages are not.
`kseg.findings.log` holds the entries about a log itself.
"""

from kseg.findings.log import (
    BROKER,
    COMPLETE,
    DECISION,
    DELETED,
    DROP_UNDECODABLE,
    EMPTIED,
    ERROR,
    FROM_REPLICA,
    INFO,
    LOG_KINDS,
    NEEDS,
    OFFLINE,
    PRODUCER_KINDS,
    RECOVER,
    RECOVERED,
    REFUSED,
    REINDEX,
    REPLICA,
    SALVAGE,
    SEVERITIES,
    TOPIC_ID,
    WARNING,
    WITH_TOPIC_ID,
    Kind,
)

# Findings about offset and time indexes.

INDEX_KINDS: dict[str, Kind] = {
    # Offset and time indexes
    "index-missing": Kind(
        WARNING,
        "A segment has no offset index.",
        "A broker's start scans the segment and rebuilds both indexes; 1.1 creates an empty one.",
        REINDEX,
        start=RECOVERED,
    ),
    "index-corrupt": Kind(
        ERROR,
        "Most entries of an offset index are wrong, in several ways.",
        "Consumers miss records or stop with an error; after a clean shutdown, a broker may compute a wrong log end. "
        "Brokers since 2.3 do not check the index; older ones may rebuild it.",
        REINDEX,
    ),
    "index-misleads": Kind(
        ERROR,
        "An entry of an offset index has a position where no batch starts, or that of a batch after its offset.",
        "Consumers that start there miss records or stop with an error. Brokers since 2.3 do not check it.",
        REINDEX,
    ),
    "index-beyond-log": Kind(
        ERROR,
        "An entry of an offset index has a position after the end of the log: the log has lost its end.",
        "After a clean shutdown, a broker takes the base offset of the last segment as the log end, and assigns "
        "existing offsets to new records.",
        REINDEX,
    ),
    "index-unsorted": Kind(
        ERROR,
        "The entries of an offset index are not in order.",
        "Lookups return wrong positions: consumers miss records or read too much.",
        REINDEX,
    ),
    "index-below-base": Kind(
        ERROR,
        "An entry of an offset index has an offset below the base offset of the segment.",
        "Lookups return wrong positions. Brokers up to 2.2 rebuild the index at their start, later ones do not notice.",
        REINDEX,
    ),
    "index-zero-tail": Kind(
        WARNING,
        "The end of an offset index is zeros, like preallocated space; a broker truncates it for a closed segment.",
        "Lookups may find the zeros and read the segment from its start: correct, but slow.",
        REINDEX,
    ),
    "index-bad-size": Kind(
        WARNING,
        "The size of an offset index is not a multiple of 8.",
        "Brokers since 2.3 ignore the excess bytes; older ones rebuild the index, 0.8 does not start.",
        REINDEX,
    ),
    "index-imprecise": Kind(
        WARNING,
        "The offset of an index entry is neither the last offset of a batch nor the base offset of its batch.",
        "Lookups still work. Only the cleaner leaves such entries: in a compacted log it is an info.",
        REINDEX,
    ),
    "index-sparse": Kind(
        INFO,
        "More than 16 MiB of batches follow the last entry of the offset index.",
        "Consumers that start there wait while the broker reads that far. An index without entries (a warning) was "
        "lost once, or index.interval.bytes is huge.",
        REINDEX,
    ),
    "time-index-missing": Kind(
        WARNING,
        "A segment has no time index.",
        "A broker creates an empty one and never fills it: retention then uses the time of the file's last change, "
        "and searches by time read the segment from its start.",
        REINDEX,
    ),
    "time-index-corrupt": Kind(
        ERROR,
        "Most entries of a time index are wrong, in several ways.",
        "Searches by time return wrong offsets, retention keeps the segment for ever or deletes it at once, and a "
        "broker may fail to append to the last segment.",
        REINDEX,
    ),
    "time-index-mismatch": Kind(
        WARNING,
        "The timestamp of a time index entry is not the largest of the records up to its offset.",
        "If it is too old, searches by time miss records; the last entry decides on retention.",
        REINDEX,
    ),
    "time-index-incomplete": Kind(
        WARNING,
        "The last entry of a closed segment's time index is older than its largest timestamp.",
        "Retention by time deletes the segment too early; without an entry it uses the file's last change.",
        REINDEX,
    ),
    "time-index-beyond-log": Kind(
        ERROR,
        "An entry of a time index has an offset after the end of the log: the log has lost its end.",
        "In the last segment, a broker fails to append to the index, and so to the log; elsewhere (a warning) searches "
        "by time miss the segment.",
        REINDEX,
    ),
    "time-index-unsorted": Kind(
        ERROR,
        "The entries of a time index are not in order.",
        "Searches by time return wrong offsets.",
        REINDEX,
    ),
    "time-index-below-base": Kind(
        ERROR,
        "An entry of a time index has an offset below the base offset of the segment.",
        "Searches by time return wrong offsets. Brokers up to 2.2 rebuild the index at their start, later ones do not "
        "notice.",
        REINDEX,
    ),
    "time-index-zero-tail": Kind(
        ERROR,
        "The end of a time index is zeros, like preallocated space; a broker truncates it for a closed segment.",
        "The last entry of a closed segment has its largest timestamp: retention by time reads 1970 and deletes the "
        "segment.",
        REINDEX,
    ),
    "time-index-bad-size": Kind(
        WARNING,
        "The size of a time index is not a multiple of 12.",
        "Brokers since 2.3 ignore the excess bytes; older ones rebuild the index.",
        REINDEX,
    ),
    "orphan-index": Kind(
        WARNING,
        "An index has no .log of the same name.",
        "A broker deletes it at its start. If there was a .log, its records are lost.",
        RECOVER,
    ),
}


# Findings about partition and log directories: files, checkpoints, leftovers, obstacles of the log cleaner.

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


# Findings from comparing a log with a manifest (--manifest) or another replica (--against).

COMPARISON_KINDS: dict[str, Kind] = {
    # Against a manifest (--manifest)
    "manifest-changed": Kind(
        ERROR,
        "The bytes of a batch differ from those in the manifest.",
        "Bit rot, or the log was changed or cleaned. The checksum of a batch does not cover its first 21 bytes, so "
        "brokers and consumers do not notice changes there.",
        FROM_REPLICA,
        REPLICA,
    ),
    "manifest-missing": Kind(
        ERROR,
        "A batch or segment in the manifest is missing from the log.",
        "Records were lost since, or removed by the cleaner, or a recovery has truncated the log.",
        FROM_REPLICA,
        REPLICA,
    ),
    "manifest-added": Kind(
        WARNING,
        "A batch or segment that is not in the manifest comes before others that are.",
        "Brokers only append: it was inserted, or the log was cleaned.",
        needs=DECISION,
    ),
    "manifest-grown": Kind(
        INFO,
        "The log continues after the end of the manifest.",
        "Nothing is wrong if a broker has written since. New records are not checked: write a new manifest.",
    ),
    "manifest-expired": Kind(
        INFO,
        "The first segments of the manifest are missing from the log.",
        "Nothing is wrong if retention or DeleteRecords removed them.",
    ),
    # Against another replica (--against)
    "replicas-diverge": Kind(
        ERROR,
        "Two replicas have different records, or records of different leader epochs, at one offset.",
        "Consumers read one or the other, depending on which replica leads. A broker notices only while a follower "
        "catches up and epochs differ; then it removes the follower's records. Compare both with kseg dump --offsets.",
        needs=DECISION,
    ),
    "replica-lacks-records": Kind(
        ERROR,
        "Records that one replica has are missing in the middle of the other.",
        "They are lost as soon as the replica that has them is gone: brokers do not search for gaps.",
        FROM_REPLICA,
        REPLICA,
    ),
    "replica-not-compared": Kind(
        WARNING,
        "Damaged bytes of a replica could not be compared.",
        "The other replica has the records if it holds these offsets.",
        FROM_REPLICA,
        REPLICA,
    ),
    "replicas-cleaned-apart": Kind(
        INFO,
        "One of two replicas of a compacted log still has records that the other no longer has.",
        "Nothing is wrong: each broker cleans its own logs.",
    ),
    "replica-starts-later": Kind(
        INFO,
        "One of two replicas starts at a higher offset.",
        "Nothing is wrong: each broker deletes its own old segments.",
    ),
    "replica-ends-earlier": Kind(
        INFO,
        "One of two replicas ends before the other.",
        "A follower was behind, or its log was truncated: it fetches the rest from its leader. Records are lost if it "
        "becomes leader before that.",
    ),
    "replica-missing": Kind(
        INFO,
        "Only one of two log directories holds this partition.",
        "Nothing is wrong unless both brokers are meant to have it.",
    ),
}


# Findings about remote (tiered) storage.

REMOTE_KINDS: dict[str, Kind] = {
    "remote-metadata-incomplete": Kind(
        WARNING,
        "__remote_log_metadata has updates of remote segments whose first event is missing.",
        "The topic has lost its oldest records, by retention or truncation. A broker without its own copy of these "
        "events does not know the segments: nobody reads or deletes them. The topic needs retention.ms=-1.",
        needs=REPLICA,
    ),
    "remote-copy-unfinished": Kind(
        WARNING,
        "A copy of a segment to remote storage was never finished.",
        "Brokers never read it: a killed broker copies the segment again under another id, and this copy stays.",
        needs=DECISION,
    ),
    "remote-orphan-object": Kind(
        WARNING,
        "An object in remote storage belongs to a segment without log and manifest.",
        "Brokers never read it: a deletion was interrupted, and brokers do not remove the rest.",
        needs=DECISION,
    ),
    "remote-other-objects": Kind(
        INFO,
        "Remote storage holds objects that belong to no segment.",
        "Brokers ignore them.",
    ),
    "remote-objects-missing": Kind(
        ERROR,
        "A manifest in remote storage has no log or no indexes.",
        "Consumers of these offsets get an error, unless the deletion of the segment was interrupted.",
        needs=REPLICA,
    ),
    "remote-manifest-damaged": Kind(
        ERROR,
        "The manifest of a remote segment cannot be read, or contradicts itself or its name.",
        "Brokers cannot read the segment, though its objects may be intact.",
        needs=REPLICA,
    ),
    "remote-size-mismatch": Kind(
        ERROR,
        "The size of an object in remote storage differs from its manifest.",
        "Bytes are missing, or it is another object: brokers fail to read some or all of its chunks.",
        needs=REPLICA,
    ),
    "remote-chunk-damaged": Kind(
        ERROR,
        "A chunk of a remote segment cannot be restored: it fails authentication or decompression, or is cut off.",
        "Consumers get an error at its offsets. kseg recover --from-remote keeps the batches of all other chunks.",
        needs=REPLICA,
    ),
    "remote-offsets-mismatch": Kind(
        ERROR,
        "The records of a remote segment exceed the offset range of its manifest.",
        "Brokers look for these records in another segment.",
        needs=DECISION,
    ),
    "remote-lineage-conflict": Kind(
        WARNING,
        "A remote segment was written by a leader whose records were lost in an unclean election.",
        "Brokers select segments by leader epoch and never read it; by offsets alone it would look live.",
        needs=DECISION,
    ),
    "remote-segment-superseded": Kind(
        INFO,
        "Other remote segments hold the same records.",
        "Nothing is wrong: the segment was copied by two leaders.",
    ),
    "remote-lineage-hole": Kind(
        ERROR,
        "No live remote segment holds these offsets.",
        "Consumers get an error there, or skip them.",
        needs=REPLICA,
    ),
    "remote-local-gap": Kind(
        ERROR,
        "The local log starts after the end of remote storage.",
        "The records in between are lost on this broker.",
        needs=BROKER,
    ),
}


__all__ = [
    "BROKER", "DECISION", "DROP_UNDECODABLE", "ERROR", "FROM_REPLICA", "INFO", "KINDS", "NEEDS", "RECOVER", "REINDEX",
    "REPLICA", "SALVAGE", "SEVERITIES", "TOPIC_ID", "WARNING", "Kind", "severity_of",
]  # fmt: skip

KINDS: dict[str, Kind] = {
    **LOG_KINDS,
    **INDEX_KINDS,
    **PRODUCER_KINDS,
    **DIRECTORY_KINDS,
    **COMPARISON_KINDS,
    **REMOTE_KINDS,
}


def severity_of(code: str) -> str:
    """Returns one of SEVERITIES."""
    return KINDS[code].severity
