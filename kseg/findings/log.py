"""The form of an entry of the findings table, and the entries about a log: its bytes, offsets, producers and epochs."""

from typing import NamedTuple

ERROR, WARNING, INFO = "error", "warning", "info"
SEVERITIES = (ERROR, WARNING, INFO)

REPLICA, TOPIC_ID, DECISION, BROKER = "replica", "topic id", "decision", "broker"
NEEDS = (REPLICA, TOPIC_ID, DECISION, BROKER)
"""Preconditions of a repair: another replica, the topic's id, a decision of the user, a running broker or cluster."""

RECOVER, SALVAGE = "kseg recover", "kseg recover --mode salvage"
REBUILD_EPOCHS = "kseg recover --rebuild-epochs"
FROM_REPLICA, WITH_TOPIC_ID = "kseg recover --from-replica DIR", "kseg recover --topic-id UUID"
DROP_UNDECODABLE = "kseg recover --mode salvage --drop-undecodable"
REINDEX, SNAPSHOTS = "kseg reindex", "kseg reindex --snapshots"
COMPLETE = "kseg undo --complete"

REFUSED, OFFLINE, DOUBTFUL = "refused", "offline", "doubtful"
RECOVERED, EMPTIED, DELETED = "recovered", "emptied", "deleted"
"""Effects on a node's start: it does not start, takes the log directory offline, or may not start; it scans the
partition, deletes all its segments, or deletes files."""


class Kind(NamedTuple):
    """``means``: the consequences for brokers and consumers.

    ``repair``: the command that repairs it, "" for none. ``needs``: one of NEEDS, None if the command alone repairs it.

    ``is_cut``: a broker's scan truncates the log here. That is the repair if other replicas hold the partition, because
    the broker fetches the truncated records from them; otherwise salvage. ``is_repaired_alone``: only a command on the
    partition itself repairs it. ``is_refused``: commands on the log directory are refused until a user has decided.
    ``start``: the effect on a node's start, "" for none.
    """

    severity: str
    sentence: str
    means: str
    repair: str = ""
    needs: str | None = None
    is_cut: bool = False
    is_repaired_alone: bool = False
    is_refused: bool = False
    start: str = ""


# Findings about the bytes of a segment, and about its offsets from batch to batch.

LOG_KINDS: dict[str, Kind] = {
    # Bytes of a .log
    "truncated-batch": Kind(
        ERROR,
        "The last bytes of a batch are missing.",
        "After an unclean shutdown, a broker truncates the log here; after a clean one, it may not start. The records "
        "of the batch are lost here.",
        SALVAGE,
        is_cut=True,
    ),
    "nonsense-block": Kind(
        ERROR,
        "These bytes belong to no batch.",
        "Consumers stop here with an error. A broker that scans the segment truncates the log here and deletes every "
        "later segment, with all intact batches that follow.",
        SALVAGE,
        is_cut=True,
    ),
    "zero-block": Kind(
        ERROR,
        "These bytes belong to no batch and are all zero.",
        "The same as for nonsense-block. File systems leave zeros after a power failure; so do preallocated files that "
        "were not closed.",
        SALVAGE,
        is_cut=True,
    ),
    "bad-length": Kind(
        ERROR,
        "The length field of a batch is wrong.",
        "Consumers stop here. A broker that scans the segment truncates the log here, or may crash at a huge length.",
        SALVAGE,
        is_cut=True,
    ),
    "bad-magic": Kind(
        ERROR,
        "The format byte (magic) of a batch is unknown.",
        "Consumers stop here. The checksum of v2 does not cover the byte, so a broker's scan does not notice.",
        SALVAGE,
    ),
    "crc-mismatch": Kind(
        ERROR,
        "The checksum of a batch does not match its bytes.",
        "Consumers that check it stop here, others read wrong records. A broker that scans the segment truncates the "
        "log here.",
        SALVAGE,
        is_cut=True,
    ),
    "undecodable-records": Kind(
        ERROR,
        "The records of a batch cannot be decoded, though its checksum is right.",
        "Consumers stop here. A broker does not notice, because its scan reads no records. The cleaner stops here.",
        DROP_UNDECODABLE,
        DECISION,
    ),
    "decompression-limit": Kind(
        ERROR,
        "A batch decompresses to more bytes than the limit allows.",
        "Its records were not checked. Consumers may run out of memory; --max-batch-bytes sets the limit.",
        needs=DECISION,
    ),
    "count-mismatch": Kind(
        ERROR,
        "The record count of a batch exceeds its offset range.",
        "Consumers may see an offset twice or stop here. A broker does not notice.",
        DROP_UNDECODABLE,
        DECISION,
    ),
    "offsets-not-rising": Kind(
        ERROR,
        "The offsets inside a batch do not rise.",
        "Consumers may skip records or see them twice.",
        DROP_UNDECODABLE,
        DECISION,
    ),
    "offset-out-of-range": Kind(
        ERROR,
        "A record's offset is outside the range of its batch.",
        "Consumers may skip records or see them twice.",
        DROP_UNDECODABLE,
        DECISION,
    ),
    "cut-message-set": Kind(
        ERROR,
        "A compressed v0, v1 or 0.7 message ends with an incomplete message.",
        "The last message of the set is lost. Consumers skip it silently, or run out of memory if its size field is "
        "too large. Salvage can remove the whole set, and keeps it in the quarantine; kseg dump prints the messages "
        "before.",
        DROP_UNDECODABLE,
        DECISION,
    ),
    "compressed-twice": Kind(
        ERROR,
        "A message inside a compressed v0 or v1 message is compressed.",
        "Consumers, the cleaner and kafka-dump-log.sh stop here: brokers since 0.10 refuse such messages. kseg reads "
        "their records, and converts them with their offsets.",
        "kseg convert --to v2 --in-place",
    ),
    "bytes-behind-records": Kind(
        WARNING,
        "A batch has bytes after its records.",
        "All records are there. Readers ignore these bytes, and no known writer makes such batches. kseg convert "
        "--codec CODEC --in-place, with another codec, rewrites the batches without them.",
        needs=DECISION,
    ),
    "inner-crc-mismatch": Kind(
        ERROR,
        "The checksum of a message inside a compressed v0, v1 or 0.7 message is wrong.",
        "Consumers that check it stop here.",
        DROP_UNDECODABLE,
        DECISION,
    ),
    "max-timestamp-mismatch": Kind(
        WARNING,
        "The largest timestamp of the records differs from that in the batch header.",
        "Searches by time and retention use the header.",
        needs=DECISION,
    ),
    "record-attributes": Kind(
        WARNING,
        "A record has attributes, although no release sets any.",
        "Readers ignore them; no known writer makes such records.",
        needs=DECISION,
    ),
    "unused-attributes": Kind(
        WARNING,
        "A batch has attribute bits that no release uses.",
        "Readers ignore them; no known writer makes such batches.",
        needs=DECISION,
    ),
    # Offsets from batch to batch
    "wrong-base-offset": Kind(
        ERROR,
        "The base offset of an intact batch is wrong: its neighbours leave a gap at another offset.",
        "Consumers see its records at wrong offsets or skip others. The checksum does not cover the field: a broker "
        "does not notice, or does not start if it is far off.",
        SALVAGE,
    ),
    "batch-out-of-order": Kind(
        ERROR,
        "A batch does not start above the last offset before it: it was written twice or in the wrong place.",
        "Consumers see offsets twice. A broker that scans the segment empties it if it would index the batch.",
        SALVAGE,
    ),
    "offset-outside-segment": Kind(
        ERROR,
        "An offset is below the number in the file's name, or 2^31 or more above it.",
        "A broker cannot index it, and may not start.",
        SALVAGE,
        start=DOUBTFUL,
    ),
    "segments-overlap": Kind(
        ERROR,
        "A segment holds offsets at or above the base offset of the next one.",
        "Consumers see offsets twice or out of order.",
        SALVAGE,
    ),
    "foreign-batches": Kind(
        ERROR,
        "The batches of a segment belong to another partition.",
        "Consumers read the records of another topic or partition here. Producer snapshots, indexes, sequences, leader "
        "epochs, checkpoints and adjacent segments were weighed together; details has each piece of evidence. Salvage "
        "moves these batches to the quarantine and keeps all others. Until then, rebuild no side file of the "
        "partition: side files are the evidence.",
        SALVAGE,
        DECISION,
    ),
    "gap-unexplained": Kind(
        ERROR,
        "Offsets are missing for an unknown reason.",
        "Records are lost here; a broker does not notice gaps. It is a warning in a copy without its log directory, "
        "which may have been compacted. In a compacted log, only level deep finds it, or an emptied segment whose "
        "indexes still have entries.",
        FROM_REPLICA,
        REPLICA,
    ),
    "gap-truncated": Kind(
        ERROR,
        "Offsets are missing next to damaged or truncated bytes.",
        "The records of these offsets are lost here, unless a replica has them.",
        FROM_REPLICA,
        REPLICA,
    ),
    "gap-compacted": Kind(INFO, "Offsets are missing because of compaction.", "Nothing is wrong."),
    "gap-control": Kind(
        INFO,
        "The offset of a transaction's marker is missing in a compacted log.",
        "Nothing is wrong: the cleaner removed the marker after the last record of the transaction.",
    ),
    "gap-aborted": Kind(
        INFO,
        "Offsets are missing before the marker of an aborted transaction in a compacted log.",
        "Nothing is wrong: the cleaner removes the records of aborted transactions.",
    ),
    "gap-salvaged": Kind(
        INFO,
        "Offsets are missing that an earlier salvage or conversion could not keep; its record accounts for them.",
        "The quarantine of the partition holds the removed bytes until kseg undo --purge; the record of the gaps "
        "stays, also in copies that --output makes.",
    ),
    "leader-epoch-falls": Kind(
        WARNING,
        "The leader epoch of a batch is below that of the batch before it.",
        "The checksum does not cover the field. Followers and clients may truncate their logs or stop.",
        SALVAGE,
    ),
    "future-timestamp": Kind(
        WARNING,
        "A timestamp is in the future.",
        "Retention by time keeps the segment and all later ones until that time has passed: see kseg retain --explain.",
        needs=DECISION,
    ),
    "early-timestamp": Kind(
        WARNING,
        "All timestamps of a segment are 0, or in seconds instead of ms.",
        "Retention by time deletes such segments at its next check, also the one written last; searches by time find "
        "nothing. Let producers send ms, or set message.timestamp.type=LogAppendTime.",
        needs=DECISION,
    ),
    "old-message-format": Kind(
        INFO,
        "Messages of format v0 or v1, from before Kafka 0.11.",
        "Kafka 4 reads them, and its cleaner rewrites them as v2.",
        "kseg convert --to v2",
    ),
    # Reading
    "file-shrank": Kind(
        ERROR,
        "A file became shorter while it was read.",
        "The truncated bytes were not checked. Another process writes to the file: check it again later.",
        needs=BROKER,
    ),
    "unreadable-file": Kind(
        ERROR,
        "A file cannot be opened or is not a regular file: a broken or circular link, a directory, a pipe.",
        "It was not checked. A broker that opens it stops, or takes the log directory offline.",
        needs=DECISION,
    ),
    "packed-segment": Kind(
        ERROR,
        "An archive is inside a directory or inside another archive.",
        "Its members were not checked. No broker reads it: check it by its own path, or unpack it.",
        needs=DECISION,
    ),
    "damaged-archive": Kind(
        ERROR,
        "A packed file or an archive is truncated or damaged.",
        "The readable part before the damage was checked, in a tar file also that after it; the rest is lost. Another "
        "copy of the archive may have it.",
        needs=DECISION,
    ),
    "archive-member-skipped": Kind(
        WARNING,
        "A member of an archive was not read.",
        "Its name leads out of the archive or occurs twice, or it is a device, or encrypted, or packed in an "
        "unsupported way.",
        needs=DECISION,
    ),
    "redpanda-segment": Kind(
        WARNING,
        "A segment was written by Redpanda, not by Kafka.",
        "Its batches are checked as Kafka's, with the checksums of their headers: a wrong one is a crc-mismatch. No "
        "broker of Kafka reads it; kseg convert --output DIR writes a segment of Kafka.",
        needs=DECISION,
    ),
    "segment-too-large": Kind(
        ERROR,
        "A segment has more than 2,147,483,647 bytes.",
        "No broker opens it, because positions in a segment are 32-bit numbers; it takes the log directory offline.",
        needs=DECISION,
    ),
    "unreadable-bytes": Kind(
        ERROR,
        "The disk cannot read these bytes.",
        "Consumers stop here; a broker that scans the segment stops, or takes the log directory offline. Position and "
        "length are those of the batches with such bytes; all other batches were checked. Copy the disk first.",
        SALVAGE,
    ),
}


PRODUCER_KINDS: dict[str, Kind] = {
    # Producers and transactions
    "producer-sequence-gap": Kind(
        WARNING,
        "The sequence numbers of a producer do not continue those of its previous batch, in one epoch.",
        "Records of the producer are missing here, or are here twice: a leader rejects such batches.",
        FROM_REPLICA,
        REPLICA,
    ),
    "producer-epoch-falls": Kind(
        WARNING,
        "A batch of a producer has a lower epoch than its previous batch.",
        "A fenced instance of the producer wrote it. A leader rejects such batches.",
        needs=DECISION,
    ),
    "coordinator-epoch-falls": Kind(
        WARNING,
        "A transaction marker has a lower coordinator epoch than an earlier marker.",
        "A leader rejects such markers: it may have ended a transaction against the coordinator of that time.",
        needs=DECISION,
    ),
    "bad-control-record": Kind(
        ERROR,
        "The control record of a producer's batch cannot be read as a transaction marker.",
        "A broker that replays this batch for its producer state does not start. read_committed consumers stop.",
        SALVAGE,
        start=DOUBTFUL,
    ),
    "batch-outside-transaction": Kind(
        ERROR,
        "A non-transactional batch comes from a producer with an open transaction.",
        "A broker that replays this batch for its producer state does not start.",
        SALVAGE,
        start=DOUBTFUL,
    ),
    "open-transaction": Kind(
        INFO,
        "A transaction is open at the end of the log.",
        "read_committed consumers wait at its first offset until its producer or the coordinator ends it.",
    ),
    "hanging-transaction": Kind(
        WARNING,
        "A transaction is open longer than brokers allow by default, or a later epoch of its producer writes.",
        "read_committed consumers wait at its first offset, and the cleaner stops there, until it is aborted with "
        "kafka-transactions.sh.",
        needs=BROKER,
    ),
    "too-many-producers": Kind(
        INFO,
        "There are more producers than kseg tracks.",
        "Sequences, epochs and transactions of the later producers were not checked.",
    ),
    "transaction-index-missing": Kind(
        ERROR,
        "A segment holds markers of aborted transactions, but has no .txnindex.",
        "read_committed consumers get aborted records. A broker does not notice the missing file.",
        REINDEX,
    ),
    "transaction-index-damaged": Kind(
        ERROR,
        "A .txnindex cannot be read completely, or has an impossible entry.",
        "A broker rebuilds it at its start from the segment, or does not start if its version is not 0.",
        REINDEX,
        start=DOUBTFUL,
    ),
    "transaction-index-incomplete": Kind(
        ERROR,
        "An aborted transaction is not in the .txnindex of the segment that holds its marker.",
        "read_committed consumers get its records.",
        REINDEX,
    ),
    "transaction-index-wrong-entry": Kind(
        ERROR,
        "An entry of a .txnindex contradicts the markers in the log.",
        "read_committed consumers may get aborted records, or miss committed ones.",
        REINDEX,
    ),
    # Snapshots of producers
    "producer-snapshot-damaged": Kind(
        WARNING,
        "A .snapshot cannot be read.",
        "A broker deletes it, loads the previous one and replays the log from there.",
        SNAPSHOTS,
    ),
    "producer-snapshot-mismatch": Kind(
        WARNING,
        "A .snapshot and the log disagree about a producer.",
        "A broker that loads it may reject the producer's batches, accept duplicates, or keep transactions open.",
        SNAPSHOTS,
    ),
    "producer-snapshot-beyond-end": Kind(
        ERROR,
        "A .snapshot has an offset beyond the end of the log.",
        "The end of the log is lost here, and only another replica has it (kseg recover --from-replica). A broker's "
        "start silently deletes the snapshot; kseg recover does the same.",
        RECOVER,
        DECISION,
    ),
    "producer-snapshot-missing": Kind(
        WARNING,
        "Batches have producer ids, but there is no .snapshot.",
        "After a clean shutdown, a broker assumes that there are no producers and no open transactions.",
        SNAPSHOTS,
    ),
    # Leader epochs
    "leader-epochs-damaged": Kind(
        ERROR,
        "leader-epoch-checkpoint cannot be read.",
        "A broker does not start with this log directory.",
        REBUILD_EPOCHS,
        start=OFFLINE,
    ),
    "leader-epochs-unsorted": Kind(
        WARNING,
        "Epochs or start offsets of leader-epoch-checkpoint do not rise.",
        "A broker drops entries at its start until they do; followers may truncate too much.",
        REBUILD_EPOCHS,
        is_repaired_alone=True,
    ),
    "leader-epochs-missing": Kind(
        WARNING,
        "Batches have leader epochs, but leader-epoch-checkpoint has none.",
        "Followers and consumers cannot detect by epochs where logs diverge. A start after a clean shutdown does not "
        "repair it.",
        REBUILD_EPOCHS,
    ),
    "leader-epochs-mismatch": Kind(
        WARNING,
        "leader-epoch-checkpoint has no or a wrong start offset for a leader epoch of the batches.",
        "Followers and consumers may truncate too much or too little.",
        REBUILD_EPOCHS,
        is_repaired_alone=True,
    ),
    "leader-epochs-beyond-end": Kind(
        WARNING,
        "An entry of leader-epoch-checkpoint starts after the end of the log.",
        "The log was longer before, or the file belongs to another log. A broker drops the entry at its start.",
        RECOVER,
    ),
}
