"""Messages of a broker at work: replication, the log cleaner, coordinators, remote storage, transactions."""

from kseg.symptoms.symptom import BROKER, REPLICA_PLAN, SALVAGE_PLAN, VERIFY, VERIFY_ALL, NextCommand, Symptom

_AGAINST = NextCommand("kseg verify --against REPLICA {partition}", "lists the differences of the two replicas")
_COMPACT_PLAN = NextCommand("kseg compact --dry-run {partition}", "shows the effect of a compaction, and its obstacles")

RUNNING: tuple[Symptom, ...] = (
    Symptom(
        "record-above-limit",
        BROKER,
        "Invalid record size: N exceeds the configured maximum record size of M.",
        (r"Invalid record size: \d+ exceeds the configured maximum record size",),
        "A record in a compressed batch is larger than the topic's max.decompressed.message.bytes (since 4.4, and in "
        "4.2.2). Producers of such records are refused; with records written before, the log cleaner gives up the "
        "partition, and searches by time fail, until the setting is raised.",
        (
            NextCommand("kseg compact --dry-run {partition}", "names the record that ends a cleaning"),
            NextCommand("kseg dump --summary {partition}", "shows how sizes are distributed"),
        ),
        ("cleaner-blocked",),
    ),
    Symptom(
        "cleaner-stopped",
        BROKER,
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
        BROKER,
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
        "cleaner-offset-reset",
        BROKER,
        "Resetting first dirty offset of orders-0 to log start offset X since the checkpointed offset Y is invalid.",
        (r"Resetting first dirty offset of (?P<partition>\S+)", r"The last checkpoint dirty offset for partition"),
        "cleaner-offset-checkpoint does not fit the log. The cleaner restarts at the start of the log.",
        (VERIFY_ALL, _COMPACT_PLAN),
        ("cleaner-checkpoint-beyond-end",),
    ),
    Symptom(
        "offsets-not-loaded",
        BROKER,
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
        BROKER,
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
        BROKER,
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
        BROKER,
        "Truncate fully and reset fetch offset for partition orders-0",
        (r"Truncate fully and reset fetch offset for partition (?P<partition>\S+)",),
        "This replica ends before the start of its leader: it was down longer than the retention. Its records are "
        "deleted and fetched again.",
        (VERIFY, _AGAINST),
        ("replica-ends-earlier", "replica-starts-later"),
    ),
    Symptom(
        "unclean-election",
        BROKER,
        "UNCLEAN partition change for orders-0",
        (r"UNCLEAN partition change for (?P<partition>[\w.-]+-\d+)", r"[Uu]nclean leader election"),
        "A replica that was not in sync has become leader. Records that only the old leader has are truncated when it "
        "comes back: copy its partition first.",
        (_AGAINST, REPLICA_PLAN),
        ("replicas-diverge", "replica-lacks-records"),
    ),
    Symptom(
        "replication-invalid-messages",
        BROKER,
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
        BROKER,
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
        BROKER,
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
        BROKER,
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
