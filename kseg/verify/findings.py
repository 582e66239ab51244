"""The table of all findings: code, severity, what it is, what it means, what repairs it.

It feeds the output of ``kseg verify``, ``--explain`` and man/kseg-findings.7. Codes are stable names; messages are not.
"""

from kseg.verify.table.comparisons import COMPARISON_KINDS
from kseg.verify.table.kind import ERROR, INFO, SEVERITIES, WARNING, Kind

__all__ = ["ERROR", "INFO", "KINDS", "SEVERITIES", "WARNING", "Kind", "severity_of"]

_RECOVER = "kseg recover"
_SALVAGE = "kseg recover --mode salvage"
_REINDEX = "kseg reindex"

KINDS: dict[str, Kind] = {
    # Bytes of a .log
    "truncated-batch": Kind(
        ERROR,
        "A batch begins here, but bytes of it are missing at its end.",
        "A broker that starts after an unclean stop cuts it off, and all behind it; one that stopped cleanly may not "
        "start. Its records are lost here.",
        _RECOVER,
    ),
    "nonsense-block": Kind(
        ERROR,
        "These bytes belong to no batch.",
        "Consumers stop here with an error. A broker that scans the segment cuts the log here and deletes every later "
        "segment, with all intact batches that follow.",
        _SALVAGE,
    ),
    "zero-block": Kind(
        ERROR,
        "These bytes belong to no batch and are all zero.",
        "As a nonsense block; zeros come from a file system after a power cut, or from a preallocated file that was "
        "not closed.",
        _SALVAGE,
    ),
    "bad-length": Kind(
        ERROR,
        "A batch begins here whose length field is wrong.",
        "Consumers stop here. A broker that scans the segment cuts the log here; a huge length may end its process.",
        _SALVAGE,
    ),
    "bad-magic": Kind(
        ERROR,
        "The format byte (magic) of a batch names no format.",
        "Consumers stop here. The byte lies outside the checksum of v2, so that a broker's scan does not see it.",
        _SALVAGE,
    ),
    "crc-mismatch": Kind(
        ERROR,
        "The checksum of a batch is not that of its bytes.",
        "Consumers that check it stop here, others read wrong records. A broker that scans the segment cuts the log "
        "here.",
        _SALVAGE,
    ),
    "undecodable-records": Kind(
        ERROR,
        "The records of a batch cannot be decoded, though its checksum is right.",
        "Consumers stop here. A broker does not notice: its scan looks at no record. The cleaner stops at it.",
    ),
    "decompression-limit": Kind(
        WARNING,
        "A batch decompresses to more bytes than the limit allows.",
        "Its records were not looked at. Consumers may run out of memory; --max-batch-bytes moves the limit.",
    ),
    "count-mismatch": Kind(
        ERROR,
        "A batch claims more records than its offset range has room for.",
        "Consumers may see an offset twice or stop here. A broker does not notice.",
    ),
    "offsets-not-rising": Kind(
        ERROR,
        "The offsets inside a batch do not rise.",
        "Consumers may skip records or see them twice.",
    ),
    "offset-out-of-range": Kind(
        ERROR,
        "A record's offset lies outside the range of its batch.",
        "Consumers may skip records or see them twice.",
    ),
    "inner-crc-mismatch": Kind(
        ERROR,
        "The checksum of a message inside a compressed v0, v1 or 0.7 message is wrong.",
        "Consumers that check it stop here.",
    ),
    "max-timestamp-mismatch": Kind(
        WARNING,
        "The largest timestamp of the records is not the one that the header of the batch tells.",
        "Searches by time and retention go by the header.",
    ),
    "record-attributes": Kind(
        WARNING,
        "A record has attributes, which no release sets.",
        "Readers ignore them; no known writer makes such records.",
    ),
    "unused-attributes": Kind(
        WARNING,
        "Attribute bits of a batch are set that no release uses.",
        "Readers ignore them; no known writer makes such batches.",
    ),
    # Offsets from batch to batch
    "wrong-base-offset": Kind(
        ERROR,
        "The base offset of an intact batch is wrong: its neighbours leave room for it elsewhere.",
        "Consumers see its records at wrong offsets or skip others. The field lies outside the checksum: a broker does "
        "not notice, or does not start where it is far off.",
        _SALVAGE,
    ),
    "batch-out-of-order": Kind(
        ERROR,
        "A batch does not begin behind the one before it: written twice, or in the wrong place.",
        "Consumers see offsets twice. A broker that scans the segment empties all of it if the batch would be indexed.",
        _SALVAGE,
    ),
    "offset-outside-segment": Kind(
        ERROR,
        "An offset lies below the number in the file's name, or 2^31 or more above it.",
        "A broker cannot index it, and may not start.",
        _SALVAGE,
    ),
    "segments-overlap": Kind(
        ERROR,
        "A segment holds offsets at or above the base offset of the next one.",
        "Consumers see offsets twice or out of order.",
    ),
    "gap-unexplained": Kind(
        ERROR,
        "Offsets are missing, and nothing tells why.",
        "Records are lost here, unless the log was compacted once. A broker does not notice gaps.",
        "kseg recover --from-replica DIR",
    ),
    "gap-truncated": Kind(
        ERROR,
        "Offsets are missing where bytes are damaged or cut off.",
        "The records of these offsets are lost here, unless a replica has them.",
        "kseg recover --from-replica DIR",
    ),
    "gap-compacted": Kind(INFO, "Offsets are missing as the log cleaner leaves them.", "Nothing is wrong."),
    "gap-control": Kind(
        INFO,
        "The offset of a transaction's marker is missing in a compacted log.",
        "Nothing is wrong: the cleaner removed the marker when nothing of the transaction was left.",
    ),
    "gap-aborted": Kind(
        INFO,
        "Offsets are missing before the marker of an aborted transaction in a compacted log.",
        "Nothing is wrong: the cleaner removes the records of aborted transactions.",
    ),
    "gap-salvaged": Kind(
        INFO,
        "Offsets are missing that an earlier salvage could not keep; its manifest accounts for them.",
        "What was cut out lies in the quarantine of the partition.",
    ),
    "leader-epoch-falls": Kind(
        WARNING,
        "The leader epoch of a batch is below that of the batch before it.",
        "The field lies outside the checksum. Followers and clients may truncate or refuse to go on.",
    ),
    "future-timestamp": Kind(
        WARNING,
        "A timestamp lies in the future.",
        "Retention by time keeps the segment, and all behind it, until that time has come and gone.",
    ),
    "old-message-format": Kind(
        INFO,
        "Messages of format v0 or v1, from before Kafka 0.11.",
        "Kafka 4 reads them, and its cleaner rewrites them as v2; it writes no others.",
        "kseg convert --to v2",
    ),
    # The log directory and its own files
    "broker-would-not-start": Kind(
        ERROR,
        "Something here keeps a broker from starting: a name it cannot read, or a partition that is there twice.",
        "The whole broker stops, or takes the log directory offline, until it is renamed or moved away.",
    ),
    "unreadable-checkpoint": Kind(
        ERROR,
        "A checkpoint file of the log directory is not what a broker can read.",
        "A broker takes all its offsets as 0 and then the whole log directory offline. Removed, it is written anew: "
        "an unclean start then scans all segments.",
        _RECOVER,
    ),
    "bad-meta-properties": Kind(
        ERROR,
        "meta.properties, which tells cluster and node of a log directory, is missing or cannot be read.",
        "The broker does not start with this directory. Copy the line of the cluster's id from another node.",
    ),
    "bad-quorum-state": Kind(
        ERROR,
        "quorum-state, which holds the vote of a KRaft node, cannot be read.",
        "The node does not start. Without the file it does, but may vote twice in one epoch.",
    ),
    "bad-metadata-snapshot": Kind(
        ERROR,
        "A snapshot of the cluster's metadata is damaged or not complete.",
        "A KRaft node that has to load it does not start; another of the quorum has the same snapshot.",
    ),
    "metadata-log-behind": Kind(
        WARNING,
        "The newest snapshot of the cluster's metadata is ahead of the log.",
        "A KRaft node drops its log at start and goes on from the snapshot.",
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
        "kseg recover --topic-id UUID",
    ),
    "unknown-file": Kind(INFO, "A file that no broker knows or looks at.", "Nothing happens to it."),
    # A partition against its log directory
    "high-watermark-beyond-end": Kind(
        ERROR,
        "The high watermark is beyond the end of the log.",
        "Records that were acknowledged are missing here. A broker moves the high watermark back without a word.",
        "kseg recover --from-replica DIR",
    ),
    "log-start-beyond-end": Kind(
        ERROR,
        "The log start offset is beyond the end of the log.",
        "A broker's start deletes every segment of the partition.",
        _RECOVER,
    ),
    "recovery-point-beyond-end": Kind(
        WARNING,
        "The recovery point is beyond the end of the log.",
        "Records that were on disk are missing here, and after an unclean stop no segment is scanned.",
        _RECOVER,
    ),
    "cleaner-checkpoint-beyond-end": Kind(
        WARNING,
        "The cleaner's checkpoint is beyond the end of the log.",
        "The cleaner begins anew at the log's start (up to 2.2 it fails on the partition).",
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
        "kseg recover --topic-id UUID",
    ),
    "bad-partition-metadata": Kind(
        ERROR,
        "partition.metadata cannot be read.",
        "A broker takes the whole log directory offline.",
        "kseg recover --topic-id UUID",
    ),
    "topic-id-mismatch": Kind(
        ERROR,
        "The topic id of a partition is not that of its topic.",
        "A start puts the partition aside as -stray and begins an empty one.",
        "kseg recover --topic-id UUID",
    ),
    "unknown-topic": Kind(
        WARNING,
        "The cluster's metadata knows no topic of this name.",
        "The topic was deleted, or the directory belongs to another cluster. A start puts it aside as -stray.",
    ),
    # Files beside the segments of a partition
    "unpadded-name": Kind(
        WARNING,
        "The number in the name of a .log does not have 20 digits.",
        "A broker looks for the name with 20 digits, and makes that file anew: these records are served to nobody.",
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
        _RECOVER,
    ),
    "swap-without-index": Kind(
        WARNING,
        "A segment that waits to be put in place has no index.",
        "A start makes an index of zeros for it that is never rebuilt: reads work, slowly.",
        _RECOVER,
    ),
    "leftover-holds-data": Kind(
        ERROR,
        "A file that a broker's start removes holds records that are nowhere else in the partition.",
        "They are lost with the next start. Copy the file away first.",
        _SALVAGE,
    ),
    # What the log cleaner meets
    "cleaner-blocked": Kind(
        WARNING,
        "The log cleaner cannot read past this place in a compacted partition.",
        "It gives the partition up until the broker's next start: the log grows without bound.",
        _SALVAGE,
    ),
    "cleaner-hides-damage": Kind(
        WARNING,
        "A batch whose checksum is wrong lies where the log cleaner works.",
        "The cleaner looks at no checksum: it writes the damaged records under a new one, and the damage is hidden.",
        _SALVAGE,
    ),
    "record-without-key": Kind(
        WARNING,
        "Records of a compacted partition have no key.",
        "The cleaner drops them the first time it meets them (0.8 stops at them).",
    ),
    "file-shrank": Kind(WARNING, "A file became shorter while it was read.", "Someone is writing here: try --live."),
    "unreadable-bytes": Kind(
        ERROR,
        "Parts of a file could not be read.",
        "The disk or file system fails. What could not be read was judged as zeros.",
    ),
    **COMPARISON_KINDS,
}


def severity_of(code: str) -> str:
    """One of SEVERITIES."""
    return KINDS[code].severity
