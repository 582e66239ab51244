"""Findings about the bytes of a segment, and about its offsets from batch to batch."""

from kseg.findings.kind import (
    BROKER,
    DECISION,
    DOUBTFUL,
    DROP_UNDECODABLE,
    ERROR,
    FROM_REPLICA,
    INFO,
    REPLICA,
    SALVAGE,
    WARNING,
    Kind,
)

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
