"""The table of all findings: code, severity, what it is, what it means, what repairs it.

It feeds the output of ``kseg verify``, ``--explain`` and man/kseg-findings.7. Codes are stable names; messages are not.
"""

from typing import NamedTuple

ERROR, WARNING, INFO = "error", "warning", "info"
SEVERITIES = (ERROR, WARNING, INFO)


class Kind(NamedTuple):
    """``means`` says what follows for a broker and for consumers.

    ``repair`` is the command that helps, "" where none is needed.
    """

    severity: str
    sentence: str
    means: str
    repair: str = ""


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
        "here. The cleaner stops at it.",
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
    # Producers and transactions
    "producer-sequence-gap": Kind(
        WARNING,
        "The sequence numbers of a producer do not go on from its batch before, in one epoch.",
        "Records of the producer are missing here, or lie here twice: a leader refuses such batches.",
        "kseg recover --from-replica DIR",
    ),
    "producer-epoch-falls": Kind(
        WARNING,
        "A batch of a producer has an epoch below that of its batch before.",
        "An instance of the producer wrote that had been fenced off. A leader refuses such batches.",
    ),
    "coordinator-epoch-falls": Kind(
        WARNING,
        "The marker of a transaction comes from a coordinator older than one whose marker came before.",
        "A leader refuses such markers: a transaction may have been ended that the coordinator of the time had not.",
    ),
    "bad-control-record": Kind(
        ERROR,
        "The control record of a producer's batch is no marker of a transaction that can be read.",
        "A broker that learns the state of producers from this batch does not start. Consumers of committed data stop.",
    ),
    "batch-outside-transaction": Kind(
        ERROR,
        "A batch that belongs to no transaction comes from a producer whose transaction is open.",
        "A broker that learns the state of producers from this batch does not start.",
    ),
    "open-transaction": Kind(
        INFO,
        "A transaction is open at the end of the log.",
        "Consumers of committed data wait at its first offset until its producer or the coordinator ends it.",
    ),
    "hanging-transaction": Kind(
        WARNING,
        "A transaction is open longer than a broker allows by default, or a later epoch of its producer writes.",
        "Consumers of committed data wait at its first offset, and the cleaner stops there, until someone ends it: "
        "kafka-transactions.sh abort.",
    ),
    "too-many-producers": Kind(
        INFO,
        "There are more producers than are followed.",
        "What concerns sequences, epochs and transactions of the later ones was not checked.",
    ),
    "transaction-index-missing": Kind(
        ERROR,
        "A segment holds markers of aborted transactions, and its .txnindex is not there.",
        "Consumers of committed data get aborted records. A broker that finds no file does not look for one.",
        _REINDEX,
    ),
    "transaction-index-incomplete": Kind(
        ERROR,
        "An aborted transaction is not in the .txnindex of the segment that holds its marker.",
        "Consumers of committed data get its records.",
        _REINDEX,
    ),
    "transaction-index-wrong-entry": Kind(
        ERROR,
        "An entry of a .txnindex is not what the markers in the log say.",
        "Consumers of committed data may get aborted records, or miss committed ones.",
        _REINDEX,
    ),
    # Offset and time indexes
    "index-missing": Kind(
        WARNING,
        "A segment has no offset index.",
        "A broker scans the segment when it starts and writes both indexes anew; 1.1 begins an empty one.",
        _REINDEX,
    ),
    "index-corrupt": Kind(
        ERROR,
        "Most entries of an offset index are wrong, in several ways.",
        "Consumers miss records or stop with an error; a broker that stopped cleanly may take a wrong end of the log. "
        "Brokers since 2.3 do not check it, older ones rebuild it at most.",
        _REINDEX,
    ),
    "index-misleads": Kind(
        ERROR,
        "An entry of an offset index leads to a place where no batch begins, or to a batch behind the offset.",
        "Consumers that begin there miss records or stop with an error. Brokers since 2.3 do not check it.",
        _REINDEX,
    ),
    "index-beyond-log": Kind(
        ERROR,
        "An entry of an offset index leads behind the end of the log: the log has lost its end.",
        "A broker that stopped cleanly takes the base offset of the last segment for the end of the log then, and "
        "writes new records over offsets that exist.",
        _REINDEX,
    ),
    "index-unsorted": Kind(
        ERROR,
        "An entry of an offset index is not in line with its neighbours.",
        "Lookups go astray: consumers miss records or read more than they need to.",
        _REINDEX,
    ),
    "index-below-base": Kind(
        ERROR,
        "An entry of an offset index has an offset below the base offset of the segment.",
        "Lookups go astray. Brokers up to 2.2 rebuild the index when they start, later ones do not notice.",
        _REINDEX,
    ),
    "index-zero-tail": Kind(
        WARNING,
        "The end of an offset index is zeros, as room is that was set aside; a broker cuts it off a closed segment.",
        "Lookups may find the zeros and read the segment from its beginning: correct, but slow.",
        _REINDEX,
    ),
    "index-bad-size": Kind(
        WARNING,
        "The size of an offset index is no multiple of 8.",
        "Brokers since 2.3 do not see the bytes left over; older ones rebuild the index, 0.8 does not start.",
        _REINDEX,
    ),
    "index-imprecise": Kind(
        INFO,
        "The offset of an entry of an offset index is that of no batch's end, nor of the beginning of its batch.",
        "It leads nobody astray; no known writer leaves such an entry.",
        _REINDEX,
    ),
    "index-sparse": Kind(
        INFO,
        "Batches lie more than 16 MiB behind the last one that an entry of the offset index leads to.",
        "Consumers that begin there wait while the broker reads that far. With no entry at all (a warning) the index "
        "was lost once, or index.interval.bytes is huge.",
        _REINDEX,
    ),
    "time-index-missing": Kind(
        WARNING,
        "A segment has no time index.",
        "A broker begins an empty one and never fills it: retention goes by the time of the file's last change then, "
        "and searches by time read the segment from its beginning.",
        _REINDEX,
    ),
    "time-index-corrupt": Kind(
        ERROR,
        "Most entries of a time index are wrong, in several ways.",
        "Searches by time go astray, retention keeps the segment for ever or deletes it at once, and a broker may fail "
        "to append to the last segment.",
        _REINDEX,
    ),
    "time-index-mismatch": Kind(
        WARNING,
        "The timestamp of an entry of a time index is not the largest of the records up to its offset.",
        "Where it is too old, searches by time miss records; the last entry decides on retention.",
        _REINDEX,
    ),
    "time-index-incomplete": Kind(
        WARNING,
        "The last entry of a closed segment's time index is older than its largest timestamp.",
        "Retention by time deletes the segment too early; without an entry it goes by the file's last change.",
        _REINDEX,
    ),
    "time-index-beyond-log": Kind(
        ERROR,
        "An entry of a time index has an offset behind the end of the log: the log has lost its end.",
        "In the last segment a broker refuses to append to the index, and so to the log; elsewhere (a warning) "
        "searches by time miss the segment.",
        _REINDEX,
    ),
    "time-index-unsorted": Kind(
        ERROR,
        "An entry of a time index is not in line with its neighbours.",
        "Searches by time go astray.",
        _REINDEX,
    ),
    "time-index-below-base": Kind(
        ERROR,
        "An entry of a time index has an offset below the base offset of the segment.",
        "Searches by time go astray. Brokers up to 2.2 rebuild the index when they start, later ones do not notice.",
        _REINDEX,
    ),
    "time-index-zero-tail": Kind(
        ERROR,
        "The end of a time index is zeros, as room is that was set aside; a broker cuts it off a closed segment.",
        "The last entry of a closed segment stands for its largest timestamp: retention by time takes it for one of "
        "1970 and deletes it.",
        _REINDEX,
    ),
    "time-index-bad-size": Kind(
        WARNING,
        "The size of a time index is no multiple of 12.",
        "Brokers since 2.3 do not see the bytes left over; older ones rebuild the index.",
        _REINDEX,
    ),
    "orphan-index": Kind(
        WARNING,
        "An index has no .log beside it.",
        "A broker deletes it when it starts. If the .log was there once, its records are gone.",
    ),
    # Other side files
    "transaction-index-damaged": Kind(
        ERROR,
        "A .txnindex cannot be read in full, or an entry of it cannot be true.",
        "A broker rebuilds it at its start from the segment, or does not start where it holds an unknown version.",
        _REINDEX,
    ),
    "producer-snapshot-damaged": Kind(
        WARNING,
        "A .snapshot cannot be read.",
        "A broker deletes it, takes the one before and replays the log from there on.",
        "kseg reindex --snapshots",
    ),
    "producer-snapshot-mismatch": Kind(
        WARNING,
        "A .snapshot does not say of a producer what the log says.",
        "A broker that loads it may refuse what the producer writes, take records twice, or show open transactions.",
        "kseg reindex --snapshots",
    ),
    "producer-snapshot-beyond-end": Kind(
        ERROR,
        "A .snapshot was taken at an offset that the log does not reach.",
        "The end of the log is lost here. A broker deletes the snapshot at its start and does not say so.",
        "kseg recover --from-replica DIR",
    ),
    "producer-snapshot-missing": Kind(
        WARNING,
        "Batches have producer ids, and there is no .snapshot.",
        "A broker that starts after a clean stop takes it that there are no producers and no open transactions.",
        "kseg reindex --snapshots",
    ),
    # Leader epochs
    "leader-epochs-damaged": Kind(
        ERROR,
        "leader-epoch-checkpoint cannot be read.",
        "A broker does not start with this log directory.",
        _RECOVER,
    ),
    "leader-epochs-unsorted": Kind(
        WARNING,
        "Epochs or start offsets of leader-epoch-checkpoint do not rise.",
        "A broker drops entries at its start until they do; followers may truncate too much.",
        _RECOVER,
    ),
    "leader-epochs-missing": Kind(
        WARNING,
        "Batches have leader epochs, and leader-epoch-checkpoint has none.",
        "Followers and consumers cannot tell by epochs where logs part. A start after a clean stop does not mend it.",
        _RECOVER,
    ),
    "leader-epochs-mismatch": Kind(
        WARNING,
        "leader-epoch-checkpoint does not say where a leader epoch of the batches begins.",
        "Followers and consumers may truncate too much or too little.",
        _RECOVER,
    ),
    "leader-epochs-beyond-end": Kind(
        WARNING,
        "An entry of leader-epoch-checkpoint begins behind the end of the log.",
        "The log was longer once, or the file is another log's. A broker drops the entry at its start.",
        _RECOVER,
    ),
    # Of files and of reading
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
    "bad-partition-metadata": Kind(
        ERROR,
        "partition.metadata cannot be read.",
        "A broker takes the whole log directory offline.",
        "kseg recover --topic-id UUID",
    ),
    "bad-clean-shutdown": Kind(
        INFO,
        "The content of .kafka_cleanshutdown is not what brokers since 3.7 write.",
        "That the file is there is all that counts; the controller is told no broker epoch.",
    ),
    # Reading
    "file-shrank": Kind(WARNING, "A file became shorter while it was read.", "Someone is writing here: try --live."),
    "unreadable-bytes": Kind(
        ERROR,
        "Parts of a file could not be read.",
        "The disk or file system fails. What could not be read was judged as zeros.",
    ),
}


def severity_of(code: str) -> str:
    """One of SEVERITIES."""
    return KINDS[code].severity
