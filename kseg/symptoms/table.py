"""The table of symptoms. It feeds ``kseg symptoms`` and man/kseg-symptoms.7.

The messages are those of Kafka's sources, 0.8 to 4.4, of librdkafka, sarama and kafka-python. Entries are
tried in this order: messages that name a file come before those that only report the consequence.
"""

from kseg.symptoms.loading import (
    CLIENT,
    HEX,
    LOADING,
    METADATA,
    REPLICA_PLAN,
    SALVAGE_PLAN,
    TOOL,
    VERIFY,
    VERIFY_ALL,
    NextCommand,
    Symptom,
)

# Messages of a broker at work: replication, the log cleaner, coordinators, remote storage, transactions.

_AGAINST = NextCommand("kseg verify --against REPLICA {partition}", "lists the differences of the two replicas")
_COMPACT_PLAN = NextCommand("kseg compact --dry-run {partition}", "shows the effect of a compaction, and its obstacles")

RUNNING: tuple[Symptom, ...] = (
    Symptom(
        "record-above-limit",
        "Invalid record size: N exceeds the configured maximum record size of M.",
        (r"Invalid record size: \d+ exceeds the configured maximum record size",),
        "A record in a compressed batch is larger than the topic's max.decompressed.message.bytes (since 4.4, and in "
        "4.2.2). Producers of such records are refused. If older records exceed the limit, the log cleaner gives up "
        "the partition, and searches by time fail, until the setting is raised.",
        (
            NextCommand("kseg compact --dry-run {partition}", "names the record that ends a cleaning"),
            NextCommand("kseg dump --summary {partition}", "shows how sizes are distributed"),
        ),
        ("cleaner-blocked",),
    ),
    Symptom(
        "cleaner-stopped",
        "Unexpected exception thrown when cleaning log X. Marking its partition (orders-0) as uncleanable",
        (
            r"Unexpected exception thrown when cleaning log .*Marking its partition "
            r"\((?P<partition>\S+)\) as uncleanable",
            r"Unexpected exception thrown when cleaning log",
            r"kafka-log-cleaner-thread-\d+\][:,]? *Error due to",
            r"uncleanable-(?:partitions-count|bytes)",
            r"max-dirty-percent|max-clean-time-secs|time-since-last-run-ms|DeadThreadCount",
            r"Attempted to add a new entry to a full offset map",
            r"Failed to read from segment .* while loading offset map",
            r"This log contains a message larger than maximum allowable size",
            r"Log segment may be corrupt, batch size",
            r"(?:Invalid batch size|Could not determine next batch size|but not processed) .*for ",
            r"Found \d+ invalid messages during compaction",
        ),
        "The log cleaner cannot clean a partition and skips it until the next restart; in old releases the "
        "whole thread ends. The log grows without limit, __consumer_offsets among them.",
        (
            VERIFY,
            _COMPACT_PLAN,
            NextCommand("kseg compact {partition}", "compacts the log while the broker is down"),
        ),
        ("cleaner-blocked", "cleaner-hides-damage", "crc-mismatch", "undecodable-records"),
    ),
    Symptom(
        "retention-blocked",
        "(no message) Old segments of a topic are not deleted",
        (),
        "Retention deletes whole segments, from the oldest on, by the newest timestamp in each. A timestamp in the "
        "future, a cleanup.policy without delete, or a high watermark that does not move keeps a segment and all later "
        "ones, and the broker logs nothing.",
        (
            NextCommand(
                "kseg retain --explain {partition}",
                "shows which segments are deleted when, and which record decides",
            ),
            NextCommand("kseg verify {partition}", "finds timestamps in the future"),
        ),
        ("future-timestamp",),
    ),
    Symptom(
        "log-directory-lost",
        "(no message) A log directory was deleted, or its file system is lost",
        (),
        "The batches are on the disk until other files overwrite them. Stop the machine, or unmount the file system, "
        "at once, and take an image of the whole device, for example by ddrescue; work on the image.",
        (
            NextCommand("kseg recover --carve --dry-run --output OUT IMAGE", "shows the logs that an image holds"),
            NextCommand("kseg recover --carve --output OUT IMAGE", "writes them to OUT, one directory each"),
            NextCommand("kseg verify OUT", "checks the result, and names what is missing"),
        ),
        (),
    ),
    Symptom(
        "cleaner-offset-reset",
        "Resetting first dirty offset of orders-0 to log start offset X since the checkpointed offset Y is invalid.",
        (r"Resetting first dirty offset of (?P<partition>\S+)", r"The last checkpoint dirty offset for partition"),
        "cleaner-offset-checkpoint does not fit the log. The cleaner restarts at the start of the log.",
        (VERIFY_ALL, _COMPACT_PLAN),
        ("cleaner-checkpoint-beyond-end",),
    ),
    Symptom(
        "offsets-not-loaded",
        "Error loading offsets from __consumer_offsets-12",
        (
            r"Error loading offsets from (?P<partition>\S+)",
            r"Error loading transactions from transaction log (?P<partition>\S+)",
            r"Failed to load metadata from (?P<partition>__\S+)",
            r"Could not load records from (?P<partition>\S+)",
        ),
        "A partition of an internal topic is damaged, so that the coordinator does not load it: groups or "
        "transactional producers of this partition cannot work.",
        (
            VERIFY,
            NextCommand("kseg dump --decode auto --print-data-log {partition}", "prints its records, decoded"),
            SALVAGE_PLAN,
        ),
        ("crc-mismatch", "undecodable-records", "bad-length"),
    ),
    Symptom(
        "hanging-transaction",
        "PartitionsWithLateTransactionsCount above 0; the last stable offset does not move",
        (
            r"PartitionsWithLateTransactionsCount",
            r"LastStableOffsetLag",
            r"ProducerId\s+ProducerEpoch\s+CoordinatorEpoch\s+StartOffset",
            r"INVALID_TXN_STATE|InvalidTxnStateException",
            r"Detected invalid coordinator epoch for producerId \d+ at offset (?P<offset>\d+) in partition "
            r"(?P<partition>[\w.-]+-\d+)",
            r"TransactionCoordinatorFenced|Invalid coordinator epoch for producerId",
        ),
        "A transaction has no commit or abort marker. Consumers with isolation.level=read_committed stop before it, "
        "and the log cleaner too.",
        (
            NextCommand(
                "kseg dump --open-transactions {partition}",
                "lists open transactions with their ids, and the command that aborts each on a live cluster",
            ),
            VERIFY,
        ),
        ("open-transaction", "hanging-transaction"),
    ),
    Symptom(
        "truncation-below-high-watermark",
        "Truncating orders-0 to offset OFFSET below high watermark N",
        (r"Truncating (?P<partition>\S+) to offset (?P<offset>\d+) below high watermark",),
        "A follower truncates records that consumers may have read: the new leader lacked them. They are lost after an "
        "unclean leader election.",
        (
            NextCommand(
                "kseg dump --deep-iteration --offsets {offset}.. {partition}", "prints the records from there on"
            ),
            _AGAINST,
        ),
        ("replicas-diverge", "high-watermark-beyond-end"),
    ),
    Symptom(
        "truncated-fully",
        "Truncate fully and reset fetch offset for partition orders-0",
        (r"Truncate fully and reset fetch offset for partition (?P<partition>\S+)",),
        "This replica ends before the start of its leader: it was down longer than the retention. Its records are "
        "deleted and fetched again.",
        (VERIFY, _AGAINST),
        ("replica-ends-earlier", "replica-starts-later"),
    ),
    Symptom(
        "unclean-election",
        "UNCLEAN partition change for orders-0",
        (r"UNCLEAN partition change for (?P<partition>[\w.-]+-\d+)", r"[Uu]nclean leader election"),
        "A replica that was not in sync has become leader. Records that only the old leader has are truncated when it "
        "comes back: copy its partition first.",
        (_AGAINST, REPLICA_PLAN),
        ("replicas-diverge", "replica-lacks-records"),
    ),
    Symptom(
        "replication-invalid-messages",
        "Found invalid messages during fetch for partition orders-0 offset OFFSET",
        (
            r"Found invalid messages during fetch for partition \[(?P<topic>[^,\]]+),(?P<number>\d+)\] offset "
            r"(?P<offset>\d+)",
            r"Found invalid messages during fetch for partition (?P<partition>\S+) offset (?P<offset>\d+)",
        ),
        "The leader's log is damaged at this offset, and its followers cannot continue. Look at the leader's "
        "directory, not at this broker's.",
        (
            VERIFY,
            NextCommand("kseg dump --deep-iteration --offsets {offset} {partition}", "prints the batch, on the leader"),
            REPLICA_PLAN,
        ),
        ("crc-mismatch", "bad-length", "undecodable-records"),
    ),
    Symptom(
        "replication-failed",
        "Partition orders-0 marked as failed",
        (
            r"Partition (?P<partition>\S+) marked as failed",
            r"Failed to truncate (?P<partition>\S+) at offset",
            r"Error while processing data for partition (?P<partition>\S+)",
            r"UnexpectedAppendOffsetException|Unexpected offset in append to (?P<partition>[\w.-]+-\d+)",
            r"OffsetsOutOfOrderException|Out of order offsets found in append to",
            r"Non-monotonic update of high watermark",
        ),
        "A follower no longer replicates this partition. The error before it names the reason: offsets that do not "
        "rise, a damaged batch of the leader, or a full disk.",
        (VERIFY, _AGAINST),
        ("batch-out-of-order", "segments-overlap", "replicas-diverge"),
    ),
    Symptom(
        "no-replica-online",
        "kafka.common.NoReplicaOnlineException: No replica for partition [orders,0] is alive.",
        (
            r"NoReplicaOnlineException: .* partition \[(?P<topic>[^,\]]+),(?P<number>\d+)\]",
            r"NoReplicaOnlineException",
            r"state change for partition \[(?P<topic>[^,\]]+),(?P<number>\d+)\] from OfflinePartition",
            r"state change for partition (?P<partition>\S+) from OfflinePartition",
        ),
        "No broker serves this partition: its brokers are down, or did not load its log. Look at the logs of the "
        "brokers that hold it.",
        (VERIFY,),
        is_consequence=True,
    ),
    Symptom(
        "remote-copy-failed",
        "Error occurred while copying log segments of partition: orders-0",
        (
            r"Error occurred while copying log segments of partition: *(?:\S+:)?(?P<partition>[\w.-]+-\d+)",
            r"Error occurred while copying log segments of partition",
            r"RemoteStorageException|RemoteResourceNotFoundException",
        ),
        "A segment could not be copied to remote storage, or not read from there. Until it is copied, local retention "
        "keeps it.",
        (VERIFY, NextCommand("kseg verify REMOTE", "checks the remote storage: orphans, unfinished copies, gaps")),
        ("index-corrupt", "transaction-index-damaged"),
    ),
)
"""The first entry that matches is used."""


# Messages of consumers, producers and Kafka's tools.

_EXPLAIN = NextCommand(
    "kseg retain --explain {partition}", "shows which segments are deleted when, and which record decides"
)
_AROUND = NextCommand("kseg dump --deep-iteration --offsets {offset} {partition}", "prints the batch with this offset")
_UPGRADE = NextCommand("kseg convert --to v2 --output NEW {partition}", "writes the log in format v2")

CLIENTS: tuple[Symptom, ...] = (
    Symptom(
        "offset-out-of-range",
        "Fetch position X is out of range for partition orders-0, resetting offset",
        (
            r"Fetch position FetchPosition\{offset=(?P<offset>\d+).* is out of range for partition "
            r"(?P<partition>[\w.-]+-\d+)",
            r"[Ff]etch (?:position|offset) (?P<offset>\d+) is out of range for partition (?P<partition>[\w.-]+-\d+)",
            r"Received request for offset (?P<offset>\d+) for partition (?P<partition>[\w.-]+-\d+)",
            r"Offsets? out of range with no configured reset policy for partitions: \{(?P<partition>[\w.-]+-\d+)="
            r"(?:FetchPosition\{offset=)?(?P<offset>\d+)",
            r"OffsetOutOfRange(?:Exception|Error)?",
            r"OFFSET_OUT_OF_RANGE|Offset out of range",
        ),
        "The offset that a consumer asks for is not in the log: retention has deleted it, or the log was truncated "
        "after a crash or an unclean leader election.",
        (
            _EXPLAIN,
            NextCommand("kseg dump --summary {partition}", "shows the first and last offset, and their times"),
            VERIFY,
        ),
        ("gap-truncated", "gap-unexplained", "segments-below-log-start"),
        speaker=CLIENT,
    ),
    Symptom(
        "log-truncation",
        "Truncated partition orders-0 detected with divergent offset X",
        (r"LogTruncationException", r"Truncated partitions? .*detected"),
        "The log was truncated below the consumer's position: records that it has read are no longer there.",
        (VERIFY, NextCommand("kseg verify --against REPLICA {partition}", "shows which replica has more records")),
        ("replicas-diverge", "gap-truncated"),
        speaker=CLIENT,
    ),
    Symptom(
        "consumer-corrupt-record",
        "Record batch for partition orders-0 at offset OFFSET is invalid, cause: Record is corrupt",
        (
            r"Record (?:batch )?for partition (?P<partition>[\w.-]+-\d+) at offset (?P<offset>\d+) is invalid",
            r"Received exception when fetching the next record from (?P<partition>[\w.-]+-\d+)",
            r"Encountered corrupt message when fetching offset (?P<offset>\d+) for topic-partition "
            r"(?P<partition>[\w.-]+-\d+)",
            r"Encountered corrupt message when fetching topic-partition (?P<partition>[\w.-]+-\d+)",
            r"MessageSet at offset (?P<offset>\d+) \(-?\d+ bytes\) failed CRC32C? check",
            r"CRC didn't match expected 0x[0-9a-f]+ got",
            r"Record batch for partition TopicPartition\(topic='(?P<topic>[^']+)', partition=(?P<number>\d+)\) at "
            r"offset (?P<offset>\d+) failed crc check",
            r"CORRUPT_MESSAGE",
            r"CorruptRecordError",
        ),
        "A batch in the broker's log is damaged, and the consumer stops before it. The batch is the broker's: a seek "
        "past it is the only way for the client until the log is repaired. kseg verify names the next valid offset.",
        (_AROUND, VERIFY, SALVAGE_PLAN),
        ("crc-mismatch", "undecodable-records", "bad-length", "bad-magic", "inner-crc-mismatch"),
        speaker=CLIENT,
    ),
    Symptom(
        "message-without-key",
        "Compacted topic cannot accept message without key in topic partition orders-0.",
        (r"Compacted topic cannot accept message without key(?: in topic partition (?P<partition>[\w.-]+-\d+))?",),
        "A producer sends records without a key to a compacted topic. Records without a key that are already in the "
        "log are removed by the cleaner.",
        (
            NextCommand("kseg compact --dry-run {partition}", "counts the records without a key"),
            NextCommand(
                "kseg verify --level deep {partition}", "decodes every record, and names the first without a key"
            ),
        ),
        ("record-without-key",),
        speaker=CLIENT,
    ),
    Symptom(
        "compressed-twice",
        "Inner messages must not be compressed",
        (r"Inner messages must not be compressed",),
        "A compressed set of messages of format v0 or v1 is in another one, as some old producers wrote it. Consumers, "
        "the log cleaner and kafka-dump-log.sh stop there; the records are intact.",
        (
            NextCommand("kseg verify --level deep {partition}", "names the sets, and the command that rewrites them"),
            NextCommand("kseg dump --print-data-log {partition}", "prints their records"),
        ),
        ("compressed-twice",),
        speaker=CLIENT,
    ),
    Symptom(
        "corrupt-record",
        "org.apache.kafka.common.errors.CorruptRecordException: Record is corrupt (stored crc = X, computed crc = Y)",
        (
            r"Found record size -?\d+ smaller than minimum record overhead \(\d+\) in file (?P<file>/\S+?)\.?$",
            r"CorruptRecordException",
            r"(?:Record|Message)(?: batch)? is corrupt \((?:stored crc|crc could not be retrieved|the size)",
            r"Failed to (?:load|read) record batch at position (?P<position>\d+) from",
            r"Unexpected EOF while attempting to read the next batch",
            r"(?:Record|Message) size (?:is smaller than minimum record overhead|exceeds the largest allowable)",
            r"InvalidMessageException",
            r"InvalidRecordException",
        ),
        "A batch is damaged: its checksum or its length is wrong. A broker that recovers the log truncates it there; "
        "a consumer stops there.",
        (VERIFY, SALVAGE_PLAN),
        ("crc-mismatch", "bad-length", "truncated-batch", "nonsense-block"),
        speaker=CLIENT,
    ),
    Symptom(
        "record-too-large",
        "There are some messages at [Partition=Offset]: {orders-0=OFFSET} whose size is larger than the fetch size N",
        (
            r"\{(?P<partition>[\w.-]+-\d+)=(?P<offset>\d+)\} whose size is larger than the fetch size",
            r"whose size is larger than the fetch size",
            r"RecordTooLargeException|MSG_SIZE_TOO_LARGE|MESSAGE_TOO_LARGE",
        ),
        "A batch is larger than a limit: of the consumer (max.partition.fetch.bytes), or of the topic "
        "(max.message.bytes) where a producer gets the error.",
        (
            _AROUND,
            NextCommand("kseg dump --summary {partition}", "shows the largest batch, and how sizes are distributed"),
        ),
        speaker=CLIENT,
    ),
    Symptom(
        "timestamp-out-of-range",
        "Timestamp X of message with offset OFFSET is out of range. The timestamp should be within [A, B]",
        (
            r"of message with offset (?P<offset>\d+) is out of range\. The timestamp should be within",
            r"InvalidTimestampException|INVALID_TIMESTAMP",
        ),
        "A producer writes wrong timestamps, such as microseconds. In a topic without that limit, one record in the "
        "future keeps its segment and all later ones from retention.",
        (_EXPLAIN, VERIFY),
        ("future-timestamp",),
        speaker=CLIENT,
    ),
    Symptom(
        "out-of-order-sequence",
        "Out of order sequence number for producer N at offset OFFSET in partition orders-0",
        (
            r"[Oo]ut of order sequence number for producer(?:Id)? \d+ at offset (?P<offset>\d+) in partition "
            r"(?P<partition>[\w.-]+-\d+)",
            r"OutOfOrderSequence(?:Exception|Number)?|OUT_OF_ORDER_SEQUENCE_NUMBER",
            r"UnknownProducerIdException|UNKNOWN_PRODUCER_ID",
            r"Invalid sequence number for new epoch of producer",
        ),
        "The broker's state of an idempotent producer does not fit its batches: some were lost by a truncation, "
        "or a producer snapshot is wrong or missing.",
        (
            VERIFY,
            NextCommand("kseg reindex --snapshots {partition}", "rebuilds the producer snapshots from the batches"),
        ),
        ("producer-sequence-gap", "producer-snapshot-damaged", "producer-snapshot-mismatch"),
        speaker=CLIENT,
    ),
    Symptom(
        "unsupported-format",
        "Invalid magic found in record: N",
        (
            r"UnsupportedForMessageFormatException",
            r"Magic v[01] does not support record headers",
            r"Invalid magic (?:found in record|value|used in LegacyRecord):? -?\d+",
            r"unknown magic byte \(-?\d+\)",
            r"Unexpected magic (?:byte|value)",
        ),
        "A batch has a message format that the reader does not know: an old log that a new client or tool reads, or a "
        "damaged format byte.",
        (
            NextCommand("kseg dump --summary {partition}", "counts batches by format and codec"),
            VERIFY,
            _UPGRADE,
        ),
        ("old-message-format", "bad-magic"),
        speaker=CLIENT,
    ),
    Symptom(
        "dump-invalid-bytes",
        "Found N invalid bytes at the end of 00000000000000000000.log",
        (r"Found \d+ invalid bytes at the end of",),
        "kafka-dump-log.sh stops at a wrong length and counts everything after it as invalid. Valid batches often "
        "follow.",
        (NextCommand("kseg dump {file}", "continues after the damage"), VERIFY, SALVAGE_PLAN),
        ("bad-length", "truncated-batch", "nonsense-block", "zero-block"),
        speaker=TOOL,
    ),
    Symptom(
        "dump-mismatches",
        "Mismatches in :FILE",
        (
            r"Mismatches in :(?P<file>\S+)",
            r"Found timestamp mismatch in :(?P<file>\S+)",
            r"Found out of order timestamp in :(?P<file>\S+)",
            r"Index position does not match|Indexed offset: -?\d+, found log offset",
        ),
        "kafka-dump-log.sh finds an index that does not fit its log.",
        (VERIFY, NextCommand("kseg reindex --check {partition}", "compares all indexes with those of a broker")),
        ("index-misleads", "index-corrupt", "time-index-mismatch", "time-index-incomplete"),
        speaker=TOOL,
    ),
    Symptom(
        "dump-non-consecutive",
        "Non-consecutive offsets in FILE",
        (r"Non-consecutive offsets in :?(?P<file>\S+)",),
        "kafka-dump-log.sh lists every gap, also those that compaction and transactions leave. kseg distinguishes them "
        "from lost records.",
        (VERIFY,),
        ("gap-compacted", "gap-control", "gap-aborted", "gap-truncated", "gap-unexplained"),
        speaker=TOOL,
    ),
    Symptom(
        "dump-not-valid",
        "isvalid: false",
        (r"position: (?P<position>\d+) .*isvalid: false",),
        "kafka-dump-log.sh has printed a batch with a wrong checksum. Its exit status is 0 all the same.",
        (HEX, VERIFY, SALVAGE_PLAN),
        ("crc-mismatch",),
        speaker=TOOL,
    ),
)
"""The first entry that matches is used."""


_ENTRIES = (*LOADING, *METADATA, *RUNNING, *CLIENTS)
SYMPTOMS: tuple[Symptom, ...] = tuple(sorted(_ENTRIES, key=lambda symptom: symptom.is_consequence))
"""Consequences last: the same line often has the text of their cause."""
