"""Messages about checkpoints, topic ids, log directories and the metadata of a cluster."""

from kseg.symptoms.symptom import BROKER, VERIFY, VERIFY_ALL, NextCommand, Symptom

_REBUILD_EPOCHS = NextCommand(
    "kseg recover --rebuild-epochs {partition}", "rebuilds leader-epoch-checkpoint from the headers of the batches"
)
_META = "kseg dump {logdir}/meta.properties"
_METADATA_LOG = "{logdir}/__cluster_metadata-0"

METADATA: tuple[Symptom, ...] = (
    Symptom(
        "bad-leader-epochs",
        BROKER,
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
        BROKER,
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
        BROKER,
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
        BROKER,
        "New epoch entry X caused truncation of conflicting entries Y.",
        (r"New epoch entry .* caused truncation of conflicting entries",),
        "The leader epochs of this replica did not rise. A broker writes this when batches with an older epoch follow "
        "newer ones: an offset or epoch in the log is wrong, or the checkpoint does not belong to it.",
        (VERIFY, _REBUILD_EPOCHS),
        ("leader-epoch-falls", "leader-epochs-mismatch", "leader-epochs-unsorted"),
    ),
    Symptom(
        "topic-id-mismatch",
        BROKER,
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
        BROKER,
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
        BROKER,
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
        BROKER,
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
        BROKER,
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
        BROKER,
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
        BROKER,
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
        BROKER,
        "Error while reading the Quorum status from the file FILE",
        (r"Error while reading the Quorum status from the file",),
        "quorum-state of the metadata log is damaged. The node does not start. Its content is the last vote: on a node "
        "with other voters the file may be removed.",
        (NextCommand(f"kseg verify {_METADATA_LOG}", "checks the metadata log and its side files"),),
        ("bad-quorum-state",),
    ),
    Symptom(
        "metadata-log",
        BROKER,
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
        BROKER,
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
        BROKER,
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
        BROKER,
        "java.io.IOException: Map failed",
        (r"Map failed", r"Too many open files"),
        "The broker has more segments and indexes open than the system allows (vm.max_map_count, open files). Each "
        "segment needs two maps and one file.",
        (NextCommand("kseg dump --summary {logdir}", "counts the segments of each partition"),),
    ),
    Symptom(
        "directory-offline",
        BROKER,
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
