"""Messages of a broker that loads its logs: indexes, segments, producer snapshots."""

from kseg.symptoms.symptom import (
    BROKER,
    HEX,
    REINDEX,
    REPLICA_PLAN,
    SALVAGE_PLAN,
    VERIFY,
    VERIFY_ALL,
    NextCommand,
    Symptom,
)

_SNAPSHOTS = NextCommand("kseg reindex --snapshots {partition}", "rebuilds the producer snapshots from the batches")

LOADING: tuple[Symptom, ...] = (
    Symptom(
        "corrupt-transaction-index",
        BROKER,
        "Unexpected aborted transaction version 101 in transaction index FILE, current version is 0",
        (
            r"Unexpected aborted transaction version -?\d+ in transaction index",
            r"Last offset of aborted transaction .* in index",
            r"Failed to read from the transaction index",
            r"The last offset of appended transactions must increase sequentially",
        ),
        "A .txnindex does not fit its log. A wrong version stops the broker; it rebuilds an index with wrong offsets. "
        "The records are not affected.",
        (VERIFY, REINDEX),
        ("transaction-index-damaged", "transaction-index-wrong-entry", "transaction-index-incomplete"),
    ),
    Symptom(
        "corrupt-time-index",
        BROKER,
        "Corrupt time index found, time index file (FILE) has non-zero size but the last timestamp is X which is less "
        "than the first timestamp Y",
        (r"Corrupt time index found", r"Time index file \S+ is corrupt, found -?\d+ bytes"),
        "A .timeindex does not fit its log. A broker rebuilds it at its start and reads the whole segment for that. "
        "The records are not affected.",
        (VERIFY, REINDEX),
        ("time-index-corrupt", "time-index-bad-size", "time-index-zero-tail", "time-index-below-base"),
    ),
    Symptom(
        "corrupt-index",
        BROKER,
        "Corrupt index found, index file (FILE) has non-zero size but the last offset is X which is no greater than "
        "the base offset X",
        (
            r"Corrupt index found",
            r"Index file \S+ is corrupt, found -?\d+ bytes",
            r"Found a corrupted index file",
            r"CorruptIndexException",
        ),
        "An .index does not fit its log, mostly after an unclean shutdown. A broker since 0.9 rebuilds it "
        "at its start and reads the whole segment for that; 0.8 does not start. The records are not affected: there "
        "is no need to delete index files by hand.",
        (VERIFY, REINDEX),
        ("index-corrupt", "index-misleads", "index-bad-size", "index-zero-tail", "index-beyond-log"),
    ),
    Symptom(
        "missing-index",
        BROKER,
        "Could not find offset index file corresponding to log file FILE, recovering segment and rebuilding index "
        "files...",
        (r"Could not find (?:offset )?index file corresponding to log file",),
        "An .index is missing. A broker rebuilds it at its start and checks the segment: at the first damaged batch it "
        "truncates the log.",
        (VERIFY, REINDEX),
        ("index-missing",),
    ),
    Symptom(
        "orphaned-index",
        BROKER,
        "Found an orphaned index file FILE, with no corresponding log file.",
        (r"Found an orphaned index file",),
        "The .log of this segment is missing, and its records with it. The broker deletes the index and continues "
        "without the segment.",
        (VERIFY, SALVAGE_PLAN, REPLICA_PLAN),
        ("orphan-index", "gap-unexplained", "gap-truncated"),
    ),
    Symptom(
        "invalid-messages",
        BROKER,
        "Found invalid messages in log segment FILE at byte offset POSITION.",
        (r"Found invalid messages in log segment \S+ at byte offset (?P<position>\d+)",),
        "The batch at this position is damaged or incomplete. The broker truncates the log there and deletes every "
        "later segment of the partition, with all valid batches in them.",
        (HEX, VERIFY, SALVAGE_PLAN, REPLICA_PLAN),
        ("crc-mismatch", "truncated-batch", "bad-length", "nonsense-block", "zero-block"),
    ),
    Symptom(
        "corruption-in-segment",
        BROKER,
        "Corruption found in segment N, truncating to offset OFFSET",
        (
            r"Corruption found in segment -?\d+(?: of log \S+)?, truncating to offset (?P<offset>\d+)",
            r"Truncated \d+ invalid bytes at the end of segment",
        ),
        "A segment is damaged. The broker has truncated the log at this offset and has deleted every later segment. If "
        "no other replica has the records, work on a copy from before this start.",
        (
            NextCommand(
                "kseg dump --deep-iteration --offsets {offset}.. {partition}",
                "prints the records from this offset on",
            ),
            VERIFY,
            SALVAGE_PLAN,
            REPLICA_PLAN,
        ),
        ("crc-mismatch", "truncated-batch", "bad-length", "nonsense-block", "zero-block"),
    ),
    Symptom(
        "segment-overflow",
        BROKER,
        "Split operation is only permitted for segments with overflow, and the problem path is FILE",
        (
            r"Split operation is only permitted for segments with overflow",
            r"Detected offset overflow at offset -?\d+ in segment",
            r"LogSegmentOffsetOverflowException",
        ),
        "A batch's offset is too far from the base offset of its segment for the 32-bit index. Brokers since 2.0 split "
        "the segment; where the offset itself is wrong, they do not start.",
        (VERIFY, SALVAGE_PLAN),
        ("offset-outside-segment", "wrong-base-offset", "batch-out-of-order", "broker-would-not-start"),
    ),
    Symptom(
        "invalid-offset",
        BROKER,
        "Found invalid offset during recovery. Deleting the corrupt segment and creating an empty one with starting "
        "offset OFFSET",
        (r"Found invalid offset during recovery",),
        "A batch's offset is lower than the base offset of its segment. The broker deletes the whole segment, and all "
        "later ones.",
        (VERIFY, SALVAGE_PLAN, REPLICA_PLAN),
        ("wrong-base-offset", "offset-outside-segment", "batch-out-of-order"),
    ),
    Symptom(
        "log-start-beyond-end",
        BROKER,
        "Deleting all segments because logEndOffset (X) is smaller than logStartOffset Y.",
        (r"Deleting all segments because logEndOffset",),
        "log-start-offset-checkpoint names an offset beyond the end of the log: segments were deleted by hand, or the "
        "checkpoint is wrong. The broker deletes the rest of the partition.",
        (VERIFY_ALL, SALVAGE_PLAN),
        ("log-start-beyond-end",),
    ),
    Symptom(
        "same-segment-exists",
        BROKER,
        "Trying to roll a new log segment for topic partition orders-0 with start offset N while it already exists",
        (r"Trying to roll a new log segment",),
        "Two segments would have the same base offset: a batch in the log has a wrong offset, or a stray segment is "
        "in the directory.",
        (VERIFY, SALVAGE_PLAN),
        ("segments-overlap", "batch-out-of-order", "offset-outside-segment"),
    ),
    Symptom(
        "producer-snapshot",
        BROKER,
        "Failed to load producer snapshot from 'FILE': Snapshot is corrupt (CRC is no longer valid).",
        (
            r"Failed to load producer snapshot from",
            r"CorruptSnapshotException",
            r"Snapshot is corrupt \(CRC is no longer valid\)",
            r"Snapshot contained an unknown file version",
        ),
        "A producer snapshot is damaged. The broker deletes it and takes an older one, or reads the whole log; "
        "idempotent producers may fail until then.",
        (VERIFY, _SNAPSHOTS),
        ("producer-snapshot-damaged",),
    ),
    Symptom(
        "transaction-not-started",
        BROKER,
        "Attempted to complete transaction X on partition orders-0 which was not started",
        (r"Attempted to complete transaction .* which was not started",),
        "A commit or abort marker has no transaction: batches before it are lost, or the producer state is wrong.",
        (VERIFY, _SNAPSHOTS),
        ("bad-control-record", "batch-outside-transaction"),
    ),
    Symptom(
        "slow-recovery",
        BROKER,
        "Recovering N logs from DIRECTORY since no clean shutdown file was found",
        (
            r"since no clean shutdown file was found",
            r"Recovering unflushed segment \d+",
        ),
        "The broker was not shut down cleanly and now reads every segment above the recovery point. kseg recover does "
        "the same work faster while the broker is down, with the same result, and shows it first.",
        (
            NextCommand("kseg recover --dry-run {logdir}", "shows the changes of the recovery"),
            NextCommand("kseg recover {logdir}", "runs it; the broker then starts without a recovery"),
        ),
        ("unclean-shutdown",),
    ),
    Symptom(
        "not-a-partition",
        BROKER,
        "Found directory DIRECTORY, 'NAME' is not in the form of topic-partition or topic-partition.uniqueId-delete",
        (r"Found directory (?P<logdir>/.*)/[^/]+, '.*' is not in the form of topic-partition",),
        "A directory in log.dirs is not a partition, and the broker does not start. Move it elsewhere: usually it is "
        "lost+found of a file system, or a backup of a partition.",
        (NextCommand("kseg verify {logdir}", "lists everything in the log directory that is not Kafka's"),),
        ("broker-would-not-start",),
    ),
    Symptom(
        "duplicate-log-directories",
        BROKER,
        "Duplicate log directories for orders-0 are found in both DIRECTORY and DIRECTORY.",
        (r"Duplicate log directories (?:found|for)",),
        "One partition is in two directories, after a move between disks that a failure interrupted. The broker does "
        "not start until one of them is moved away.",
        (
            VERIFY,
            NextCommand(
                "kseg verify --against OTHER {partition}", "compares the two: keep the one that has all records"
            ),
        ),
    ),
    Symptom(
        "file-vanished",
        BROKER,
        "java.nio.file.NoSuchFileException: FILE",
        (r"NoSuchFileException: .*\.(?:log|index|timeindex|txnindex|snapshot)\b", r"Failed atomic move of /"),
        "A file that the broker wanted to rename or open is gone: two renames at once, or something else deletes files "
        "in log.dirs.",
        (VERIFY,),
        ("segments-missing", "index-missing", "gap-unexplained"),
    ),
    Symptom(
        "undecodable-batch",
        BROKER,
        "Found invalid compressed record set with no inner records",
        (
            r"Found invalid compressed record set",
            r"Found invalid wrapper offset in compressed v1 message set",
            r"Failed to decompress record stream",
            r"Stream frame descriptor corrupted|Stream unsupported \(invalid magic bytes\)",
            r"Found invalid record (?:structure|count)",
            r"Found invalid number of record headers",
            r"Invalid version found for (?:control record|end transaction marker)",
            r"Invalid control record type for end transaction marker",
            r"Invalid record size: (?:expected to read \d+ bytes|-\d+ is negative)",
            r"Compressed message magic \d+ does not match wrapper magic",
        ),
        "The records of a batch cannot be decoded, though its frame is whole: its writer or a disk has damaged it. "
        "Consumers stop there.",
        (
            NextCommand("kseg verify --level deep {partition}", "decodes every record, and names the batch"),
            SALVAGE_PLAN,
        ),
        ("undecodable-records", "count-mismatch", "inner-crc-mismatch"),
    ),
    Symptom(
        "logs-loading",
        BROKER,
        "There was an error in one of the threads during logs loading: X",
        (
            r"There was an error in one of the threads during logs loading",
            r"Error starting LogManager",
            r"Error while loading log dir",
            r"Fatal error during KafkaServer(?:Startable)? startup",
        ),
        "A log could not be loaded, and the broker does not start. The text after the colon, or the lines before, "
        "name the file.",
        (VERIFY_ALL, NextCommand("kseg recover --dry-run {logdir}", "shows the changes of a recovery")),
        ("broker-would-not-start",),
        is_consequence=True,
    ),
)
"""The first entry that matches is used."""
