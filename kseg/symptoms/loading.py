"""The form of an entry of the table of symptoms, and the messages of a broker that starts: its logs and metadata."""

from typing import NamedTuple

BROKER, CLIENT, TOOL = "broker", "client", "tool"
SPEAKERS = (BROKER, CLIENT, TOOL)

PLACEHOLDERS = ("{partition}", "{logdir}", "{file}", "{positions}", "{offset}")
"""``{positions}`` is a range of bytes from the position that a message names."""


class NextCommand(NamedTuple):
    """A command and its purpose. Words of ``command`` may hold one of PLACEHOLDERS, or a word in capitals: a choice."""

    command: str
    purpose: str


class Symptom(NamedTuple):
    """``patterns`` are regular expressions of a message. Their groups ``partition``, ``logdir``, ``file``, ``offset``
    and ``position`` are such values; ``topic`` and ``number`` together are a partition.

    ``message`` is the message as people know it, for the manual page. ``findings`` are codes that kseg verify reports
    in this case. ``is_consequence``: the message follows from another one, which names the cause.
    """

    name: str
    message: str
    patterns: tuple[str, ...]
    cause: str
    steps: tuple[NextCommand, ...]
    findings: tuple[str, ...] = ()
    is_consequence: bool = False
    speaker: str = BROKER


VERIFY = NextCommand("kseg verify {partition}", "lists the damage, and the command that repairs it")
VERIFY_ALL = NextCommand(
    "kseg verify {logdir}", "checks all partitions and checkpoint files, and lists the commands to run"
)
SALVAGE_PLAN = NextCommand(
    "kseg recover --mode salvage --dry-run {partition}",
    "shows the records that salvage keeps; without --dry-run it repairs, and kseg undo reverts it",
)
REPLICA_PLAN = NextCommand(
    "kseg recover --from-replica REPLICA --dry-run {partition}",
    "takes the missing records from a copy of another replica, where their histories agree",
)
REINDEX = NextCommand("kseg reindex {partition}", "rebuilds the index files from the .log, as a broker does")
HEX = NextCommand("kseg dump --hex --position {positions} {file}", "shows the bytes at this place, field by field")


# Messages about checkpoints, topic ids, log directories and the metadata of a cluster.

_REBUILD_EPOCHS = NextCommand(
    "kseg recover --rebuild-epochs {partition}", "rebuilds leader-epoch-checkpoint from the headers of the batches"
)
_META = "kseg dump {logdir}/meta.properties"
_METADATA_LOG = "{logdir}/__cluster_metadata-0"

METADATA: tuple[Symptom, ...] = (
    Symptom(
        "bad-leader-epochs",
        "Malformed line in checkpoint file (DIRECTORY/leader-epoch-checkpoint): X",
        (
            r"(?:Malformed line in|Error while reading|Unrecognized version of the|Failed to write to) checkpoint file"
            r".*leader-epoch-checkpoint",
        ),
        "The leader-epoch-checkpoint of a partition cannot be read or written. The broker takes the whole log "
        "directory offline.",
        (VERIFY, _REBUILD_EPOCHS),
        ("leader-epochs-damaged",),
    ),
    Symptom(
        "bad-partition-metadata",
        "Error while reading partition metadata file FILE",
        (
            r"Error while reading partition metadata file",
            r"Invalid topic ID in partition metadata file",
            r"Unrecognized version of partition metadata file",
            r"Malformed line in .*partition\.metadata",
        ),
        "partition.metadata, which holds the topic id, cannot be read. The broker takes the log directory offline.",
        (
            VERIFY,
            NextCommand(
                "kseg recover --dry-run {partition}", "restores the id that other partitions of the topic have"
            ),
            NextCommand(
                "kseg recover --topic-id UUID {partition}", "writes the id that kafka-topics.sh --describe shows"
            ),
        ),
        ("bad-partition-metadata",),
    ),
    Symptom(
        "bad-checkpoint",
        "Error while reading checkpoint file DIRECTORY/log-start-offset-checkpoint",
        (
            r"(?:Malformed line in|Error while reading|Unrecognized version of the) checkpoint file",
            r"Error occurred while reading \S+-checkpoint file of directory",
            r"Expected \d+ entries but found only \d+",
            r"Failed to access checkpoint file",
            r"Disk error while writing \S+(?: start)? offsets checkpoint",
            r"Error while writing to highwatermark file in directory",
        ),
        "An offset checkpoint of the log directory cannot be read. Brokers since 1.0 take the log directory offline, "
        "or start from the oldest segment and recover everything.",
        (VERIFY_ALL, NextCommand("kseg recover --dry-run {logdir}", "shows the new checkpoint")),
        ("unreadable-checkpoint",),
    ),
    Symptom(
        "epochs-truncated",
        "New epoch entry X caused truncation of conflicting entries Y.",
        (r"New epoch entry .* caused truncation of conflicting entries",),
        "The leader epochs of this replica did not rise. A broker writes this when batches with an older epoch follow "
        "newer ones: an offset or epoch in the log is wrong, or the checkpoint does not belong to it.",
        (VERIFY, _REBUILD_EPOCHS),
        ("leader-epoch-falls", "leader-epochs-mismatch", "leader-epochs-unsorted"),
    ),
    Symptom(
        "topic-id-mismatch",
        "Tried to assign topic ID X to log for topic partition orders-0, but log already contained topic ID Y",
        (
            r"Tried to assign topic ID",
            r"InconsistentTopicIdException",
            r"INCONSISTENT_TOPIC_ID",
            r"does not have a topic ID, which is not allowed when running in KRaft mode",
            r"Topic I[Dd] in memory: \S+ does not match the topic I[Dd] for partition (?P<partition>[\w.-]+-\d+)",
        ),
        "The partition directory belongs to another topic of this name: the topic was deleted and created again, or "
        "the directory was copied from another cluster.",
        (
            VERIFY_ALL,
            NextCommand("kseg recover --topic-id UUID {partition}", "gives the partition the id of the current topic"),
        ),
        ("topic-id-mismatch", "no-partition-metadata"),
    ),
    Symptom(
        "stray",
        "Log in DIRECTORY marked stray and renamed to DIRECTORY-stray",
        (
            r"marked (?:as )?stray and renamed to",
            r"Found stray (?:partitions|log dir)",
            r"Loaded stray log",
            r"Unable to stop stray partition",
            r"Failed to delete stray partition",
        ),
        "The cluster does not assign this partition to the broker: the topic was deleted while it was down, its id "
        "differs, or partition.metadata is missing. The broker renames the directory, and later deletes it.",
        (
            VERIFY_ALL,
            NextCommand(
                "kseg recover --undelete {logdir}", "takes the directory back, with the id of the current topic"
            ),
            NextCommand("kseg convert --to jsonl {partition}", "exports the records before they are deleted"),
        ),
        ("stray-directory", "no-partition-metadata", "topic-id-mismatch", "unknown-topic", "unassigned-replica"),
    ),
    Symptom(
        "topic-deleted",
        "Log for partition orders-0 is renamed to DIRECTORY/orders-0.X-delete and is scheduled for deletion",
        (r"Log for partition (?P<partition>\S+) is renamed to \S+-delete and is scheduled for deletion",),
        "The topic was deleted. The broker deletes the directory after file.delete.delay.ms, by default one minute, "
        "and at its next start: copy it, or stop the broker, at once.",
        (
            NextCommand("kseg recover --undelete --dry-run {logdir}", "shows the directories that can be taken back"),
            NextCommand(
                "kseg recover --undelete --output NEW {logdir}", "writes them, with their own names, to a new place"
            ),
            NextCommand("kseg convert --to jsonl -o FILE {partition}", "exports the records"),
        ),
        ("delete-directory",),
    ),
    Symptom(
        "no-meta-properties",
        "No readable meta.properties files found.",
        (
            r"No readable meta\.properties files found",
            r"No `?meta\.properties`? found in (?P<logdir>/\S+)",
            r"Error while reading meta\.properties file",
            r"(?:cluster\.id|node\.id) was not (?:found|specified)",
            r"Error: (?:node|cluster) ID not found in (?P<logdir>/\S+)",
            r"Invalid meta\.properties version",
            r"No meta\.properties file under dir",
            r"Failed to read meta\.properties file under dir|Error while writing meta\.properties",
            r"Invalid reserved directory ID \S+ found in",
        ),
        "meta.properties is missing or damaged: the disk is not mounted, log.dirs names another directory, or the file "
        "is lost. Do not format the directory again: kafka-storage.sh format with the old cluster id and node id "
        "writes this file and keeps the logs.",
        (VERIFY_ALL, NextCommand("kseg recover --dry-run {logdir}", "shows the partitions that are there")),
        ("bad-meta-properties",),
    ),
    Symptom(
        "cluster-id",
        "The Cluster ID X doesn't match stored clusterId Some(Y) in meta.properties.",
        (
            r"InconsistentClusterIdException",
            r"Cluster ID \S+ doesn't match stored clusterId",
            r"Invalid cluster\.id in: (?P<file>/\S+?)\.? Expected",
            r"INCONSISTENT_CLUSTER_ID",
        ),
        "The log directory belongs to another cluster: log.dirs, zookeeper.connect or the controllers' addresses are "
        "wrong, or the cluster was formatted again.",
        (
            NextCommand(_META, "prints the cluster id and node id of the directory"),
            NextCommand("kseg convert --to jsonl {logdir}", "exports the records, if the old cluster is lost"),
        ),
    ),
    Symptom(
        "broker-id",
        "Configured broker.id 2 doesn't match stored broker.id Some(0) in meta.properties.",
        (
            r"doesn't match stored broker\.?[iI]d",
            r"InconsistentBrokerIdException",
            r"Stored node id -?\d+ doesn't match previous node id",
            r"Duplicate directory ID",
        ),
        "The log directory belongs to another broker of the cluster: volumes were swapped, or a directory was copied.",
        (NextCommand(_META, "prints the node id and directory id of the directory"), VERIFY_ALL),
    ),
    Symptom(
        "locked",
        "Failed to acquire lock on file .lock in DIRECTORY. A Kafka instance in another process or thread is using "
        "this directory.",
        (r"Failed to acquire lock on file \.lock in (?P<logdir>/[^\n]*?)\. A Kafka instance",),
        "Another process has the log directory open: a second broker, one that is still stopping, or a kseg command. "
        "That the file .lock exists means nothing.",
        (
            NextCommand("kseg verify --live {logdir}", "checks the directory while a broker runs"),
            NextCommand("kseg undo --list {logdir}", "lists the changes of kseg, an interrupted one included"),
        ),
    ),
    Symptom(
        "quorum-state",
        "Error while reading the Quorum status from the file FILE",
        (r"Error while reading the Quorum status from the file",),
        "quorum-state of the metadata log is damaged. The node does not start. Its content is the last vote: on a node "
        "with other voters the file may be removed.",
        (NextCommand(f"kseg verify {_METADATA_LOG}", "checks the metadata log and its side files"),),
        ("bad-quorum-state",),
    ),
    Symptom(
        "metadata-log",
        "Unhandled fault in MetadataLoader#handleCommit. Last image offset was N",
        (
            r"MetadataLoader#(?:handleCommit|handleLoadSnapshot)",
            r"Snapshot id .* is not valid according to the log",
            r"Found unexpected metadata location in data directory",
            r"Error loading metadata log record from offset",
            r"Unable to load metadata",
        ),
        "A record of the cluster metadata log or of its snapshot cannot be applied. The node stops. Other controllers "
        "have the same log: a node of a quorum can fetch it into an empty directory.",
        (
            NextCommand(f"kseg verify {_METADATA_LOG}", "checks the metadata log and its snapshots"),
            NextCommand(
                f"kseg dump --decode auto --print-data-log --all {_METADATA_LOG}", "prints its records, decoded"
            ),
            NextCommand(
                f"kseg recover --from-replica REPLICA --dry-run {_METADATA_LOG}",
                "takes damaged records from the metadata log of another controller",
            ),
        ),
        ("bad-metadata-snapshot", "metadata-log-behind", "crc-mismatch", "undecodable-records"),
    ),
    Symptom(
        "disk-full",
        "java.io.IOException: No space left on device",
        (r"No space left on device", r"Disk quota exceeded"),
        "The disk is full, and the broker takes the log directory offline. Do not delete .log files by hand: indexes, "
        "snapshots and checkpoints must fit the remaining segments.",
        (
            NextCommand("kseg dump --summary {logdir}", "shows which partitions are large"),
            NextCommand(
                "kseg retain --explain {logdir}",
                "shows the segments that retention deletes, and why it keeps the others",
            ),
            NextCommand(
                "kseg retain --dry-run --retention-ms 1d --topic TOPIC {logdir}",
                "shows the effect of a shorter retention; kept bytes use the same disk, so without --dry-run add "
                "--no-quarantine, which frees the space at once and cannot be undone",
            ),
            NextCommand("kseg compact --dry-run {logdir}", "shows the effect of a compaction"),
        ),
    ),
    Symptom(
        "disk-error",
        "java.io.IOException: Input/output error",
        (r"Input/output error", r"Read-only file system", r"Structure needs cleaning"),
        "The disk or its file system fails. First copy the readable files to another disk.",
        (
            NextCommand(
                "kseg verify {logdir}", "reads around unreadable sectors, and names the batches that they hold"
            ),
            NextCommand(
                "kseg recover --mode salvage --output NEW {logdir}",
                "writes everything that can be read to a new directory",
            ),
        ),
        ("unreadable-bytes", "unreadable-file"),
    ),
    Symptom(
        "too-many-maps",
        "java.io.IOException: Map failed",
        (r"Map failed", r"Too many open files"),
        "The broker has more segments and indexes open than the system allows (vm.max_map_count, open files). Each "
        "segment needs two maps and one file.",
        (NextCommand("kseg dump --summary {logdir}", "counts the segments of each partition"),),
    ),
    Symptom(
        "directory-offline",
        "Shutdown broker because all log dirs in DIRECTORY have failed",
        (
            r"Shutdown broker because (?:all|none of the specified) log dirs",
            r"Stopping serving (?:logs|replicas) in dir",
            r"because they are in the failed log directory",
            r"KafkaStorageException",
            r"LogDirFailureChannel",
            r"Error while [a-z][\w ]* (?:for|to) \S+ in (?:log )?dir ",
            r"The (?:log for|memory mapped buffer for log of) \S+ is already closed",
            r"are offline due to failure on log directory",
            r"is not a readable log directory",
        ),
        "The broker has taken a log directory offline after an error in one file. The lines before name the file.",
        (VERIFY_ALL,),
        ("unreadable-checkpoint", "leader-epochs-damaged", "unreadable-file"),
        is_consequence=True,
    ),
)
"""The first entry that matches is used."""


_SNAPSHOTS = NextCommand("kseg reindex --snapshots {partition}", "rebuilds the producer snapshots from the batches")

LOADING: tuple[Symptom, ...] = (
    Symptom(
        "corrupt-transaction-index",
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
        "Found an orphaned index file FILE, with no corresponding log file.",
        (r"Found an orphaned index file",),
        "The .log of this segment is missing, and its records with it. The broker deletes the index and continues "
        "without the segment.",
        (VERIFY, SALVAGE_PLAN, REPLICA_PLAN),
        ("orphan-index", "gap-unexplained", "gap-truncated"),
    ),
    Symptom(
        "invalid-messages",
        "Found invalid messages in log segment FILE at byte offset POSITION.",
        (r"Found invalid messages in log segment \S+ at byte offset (?P<position>\d+)",),
        "The batch at this position is damaged or incomplete. The broker truncates the log there and deletes every "
        "later segment of the partition, with all valid batches in them.",
        (HEX, VERIFY, SALVAGE_PLAN, REPLICA_PLAN),
        ("crc-mismatch", "truncated-batch", "bad-length", "nonsense-block", "zero-block"),
    ),
    Symptom(
        "corruption-in-segment",
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
        "Deleting all segments because logEndOffset (X) is smaller than logStartOffset Y.",
        (r"Deleting all segments because logEndOffset",),
        "log-start-offset-checkpoint names an offset beyond the end of the log: segments were deleted by hand, or the "
        "checkpoint is wrong. The broker deletes the rest of the partition.",
        (VERIFY_ALL, SALVAGE_PLAN),
        ("log-start-beyond-end",),
    ),
    Symptom(
        "same-segment-exists",
        "Trying to roll a new log segment for topic partition orders-0 with start offset N while it already exists",
        (r"Trying to roll a new log segment",),
        "Two segments would have the same base offset: a batch in the log has a wrong offset, or a stray segment is "
        "in the directory.",
        (VERIFY, SALVAGE_PLAN),
        ("segments-overlap", "batch-out-of-order", "offset-outside-segment"),
    ),
    Symptom(
        "producer-snapshot",
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
        "Attempted to complete transaction X on partition orders-0 which was not started",
        (r"Attempted to complete transaction .* which was not started",),
        "A commit or abort marker has no transaction: batches before it are lost, or the producer state is wrong.",
        (VERIFY, _SNAPSHOTS),
        ("bad-control-record", "batch-outside-transaction"),
    ),
    Symptom(
        "slow-recovery",
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
        "Found directory DIRECTORY, 'NAME' is not in the form of topic-partition or topic-partition.uniqueId-delete",
        (r"Found directory (?P<logdir>/.*)/[^/]+, '.*' is not in the form of topic-partition",),
        "A directory in log.dirs is not a partition, and the broker does not start. Move it elsewhere: usually it is "
        "lost+found of a file system, or a backup of a partition.",
        (NextCommand("kseg verify {logdir}", "lists everything in the log directory that is not Kafka's"),),
        ("broker-would-not-start",),
    ),
    Symptom(
        "duplicate-log-directories",
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
        "java.nio.file.NoSuchFileException: FILE",
        (r"NoSuchFileException: .*\.(?:log|index|timeindex|txnindex|snapshot)\b", r"Failed atomic move of /"),
        "A file that the broker wanted to rename or open is gone: two renames at once, or something else deletes files "
        "in log.dirs.",
        (VERIFY,),
        ("segments-missing", "index-missing", "gap-unexplained"),
    ),
    Symptom(
        "undecodable-batch",
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
