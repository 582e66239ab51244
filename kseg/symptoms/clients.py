"""Messages of consumers, producers and Kafka's tools."""

from kseg.symptoms.symptom import CLIENT, HEX, SALVAGE_PLAN, TOOL, VERIFY, NextCommand, Symptom

_EXPLAIN = NextCommand(
    "kseg retain --explain {partition}", "shows which segments are deleted when, and which record decides"
)
_AROUND = NextCommand("kseg dump --deep-iteration --offsets {offset} {partition}", "prints the batch with this offset")
_UPGRADE = NextCommand("kseg convert --to v2 --output NEW {partition}", "writes the log in format v2")

CLIENTS: tuple[Symptom, ...] = (
    Symptom(
        "offset-out-of-range",
        CLIENT,
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
    ),
    Symptom(
        "log-truncation",
        CLIENT,
        "Truncated partition orders-0 detected with divergent offset X",
        (r"LogTruncationException", r"Truncated partitions? .*detected"),
        "The log was truncated below the consumer's position: records that it has read are no longer there.",
        (VERIFY, NextCommand("kseg verify --against REPLICA {partition}", "shows which replica has more records")),
        ("replicas-diverge", "gap-truncated"),
    ),
    Symptom(
        "consumer-corrupt-record",
        CLIENT,
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
    ),
    Symptom(
        "message-without-key",
        CLIENT,
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
    ),
    Symptom(
        "compressed-twice",
        CLIENT,
        "Inner messages must not be compressed",
        (r"Inner messages must not be compressed",),
        "A compressed set of messages of format v0 or v1 is in another one, as some old producers wrote it. Consumers, "
        "the log cleaner and kafka-dump-log.sh stop there; the records are intact.",
        (
            NextCommand("kseg verify --level deep {partition}", "names the sets, and the command that rewrites them"),
            NextCommand("kseg dump --print-data-log {partition}", "prints their records"),
        ),
        ("compressed-twice",),
    ),
    Symptom(
        "corrupt-record",
        CLIENT,
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
    ),
    Symptom(
        "record-too-large",
        CLIENT,
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
    ),
    Symptom(
        "timestamp-out-of-range",
        CLIENT,
        "Timestamp X of message with offset OFFSET is out of range. The timestamp should be within [A, B]",
        (
            r"of message with offset (?P<offset>\d+) is out of range\. The timestamp should be within",
            r"InvalidTimestampException|INVALID_TIMESTAMP",
        ),
        "A producer writes wrong timestamps, such as microseconds. In a topic without that limit, one record in the "
        "future keeps its segment and all later ones from retention.",
        (_EXPLAIN, VERIFY),
        ("future-timestamp",),
    ),
    Symptom(
        "out-of-order-sequence",
        CLIENT,
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
    ),
    Symptom(
        "unsupported-format",
        CLIENT,
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
    ),
    Symptom(
        "dump-invalid-bytes",
        TOOL,
        "Found N invalid bytes at the end of 00000000000000000000.log",
        (r"Found \d+ invalid bytes at the end of",),
        "kafka-dump-log.sh stops at a wrong length and counts everything after it as invalid. Valid batches often "
        "follow.",
        (NextCommand("kseg dump {file}", "continues after the damage"), VERIFY, SALVAGE_PLAN),
        ("bad-length", "truncated-batch", "nonsense-block", "zero-block"),
    ),
    Symptom(
        "dump-mismatches",
        TOOL,
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
    ),
    Symptom(
        "dump-non-consecutive",
        TOOL,
        "Non-consecutive offsets in FILE",
        (r"Non-consecutive offsets in :?(?P<file>\S+)",),
        "kafka-dump-log.sh lists every gap, also those that compaction and transactions leave. kseg distinguishes them "
        "from lost records.",
        (VERIFY,),
        ("gap-compacted", "gap-control", "gap-aborted", "gap-truncated", "gap-unexplained"),
    ),
    Symptom(
        "dump-not-valid",
        TOOL,
        "isvalid: false",
        (r"position: (?P<position>\d+) .*isvalid: false",),
        "kafka-dump-log.sh has printed a batch with a wrong checksum. Its exit status is 0 all the same.",
        (HEX, VERIFY, SALVAGE_PLAN),
        ("crc-mismatch",),
    ),
)
"""The first entry that matches is used."""
