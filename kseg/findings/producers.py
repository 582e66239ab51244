"""Findings about producers, transactions and leader epochs, and the files that tell of them."""

from kseg.findings.kind import (
    BROKER,
    DECISION,
    ERROR,
    FROM_REPLICA,
    INFO,
    REBUILD_EPOCHS,
    RECOVER,
    REINDEX,
    REPLICA,
    SALVAGE,
    SNAPSHOTS,
    WARNING,
    Kind,
)

PRODUCER_KINDS: dict[str, Kind] = {
    # Producers and transactions
    "producer-sequence-gap": Kind(
        WARNING,
        "The sequence numbers of a producer do not go on from its batch before, in one epoch.",
        "Records of the producer are missing here, or lie here twice: a leader refuses such batches.",
        FROM_REPLICA,
        REPLICA,
    ),
    "producer-epoch-falls": Kind(
        WARNING,
        "A batch of a producer has an epoch below that of its batch before.",
        "An instance of the producer wrote that had been fenced off. A leader refuses such batches.",
        needs=DECISION,
    ),
    "coordinator-epoch-falls": Kind(
        WARNING,
        "The marker of a transaction comes from a coordinator older than one whose marker came before.",
        "A leader refuses such markers: a transaction may have been ended that the coordinator of the time had not.",
        needs=DECISION,
    ),
    "bad-control-record": Kind(
        ERROR,
        "The control record of a producer's batch is no marker of a transaction that can be read.",
        "A broker that learns the state of producers from this batch does not start. Consumers of committed data stop.",
        SALVAGE,
    ),
    "batch-outside-transaction": Kind(
        ERROR,
        "A batch that belongs to no transaction comes from a producer whose transaction is open.",
        "A broker that learns the state of producers from this batch does not start.",
        SALVAGE,
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
        needs=BROKER,
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
        REINDEX,
    ),
    "transaction-index-damaged": Kind(
        ERROR,
        "A .txnindex cannot be read in full, or an entry of it cannot be true.",
        "A broker rebuilds it at its start from the segment, or does not start where it holds an unknown version.",
        REINDEX,
    ),
    "transaction-index-incomplete": Kind(
        ERROR,
        "An aborted transaction is not in the .txnindex of the segment that holds its marker.",
        "Consumers of committed data get its records.",
        REINDEX,
    ),
    "transaction-index-wrong-entry": Kind(
        ERROR,
        "An entry of a .txnindex is not what the markers in the log say.",
        "Consumers of committed data may get aborted records, or miss committed ones.",
        REINDEX,
    ),
    # Snapshots of producers
    "producer-snapshot-damaged": Kind(
        WARNING,
        "A .snapshot cannot be read.",
        "A broker deletes it, takes the one before and replays the log from there on.",
        SNAPSHOTS,
    ),
    "producer-snapshot-mismatch": Kind(
        WARNING,
        "A .snapshot does not say of a producer what the log says.",
        "A broker that loads it may refuse what the producer writes, take records twice, or show open transactions.",
        SNAPSHOTS,
    ),
    "producer-snapshot-beyond-end": Kind(
        ERROR,
        "A .snapshot was taken at an offset that the log does not reach.",
        "The end of the log is lost here, and only another replica has it (kseg recover --from-replica). A broker "
        "deletes the snapshot at its start and does not say so; kseg recover deletes it too.",
        RECOVER,
        DECISION,
    ),
    "producer-snapshot-missing": Kind(
        WARNING,
        "Batches have producer ids, and there is no .snapshot.",
        "A broker that starts after a clean stop takes it that there are no producers and no open transactions.",
        SNAPSHOTS,
    ),
    # Leader epochs
    "leader-epochs-damaged": Kind(
        ERROR,
        "leader-epoch-checkpoint cannot be read.",
        "A broker does not start with this log directory.",
        REBUILD_EPOCHS,
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
        "Batches have leader epochs, and leader-epoch-checkpoint has none.",
        "Followers and consumers cannot tell by epochs where logs part. A start after a clean stop does not mend it.",
        REBUILD_EPOCHS,
    ),
    "leader-epochs-mismatch": Kind(
        WARNING,
        "leader-epoch-checkpoint does not say where a leader epoch of the batches begins.",
        "Followers and consumers may truncate too much or too little.",
        REBUILD_EPOCHS,
        is_repaired_alone=True,
    ),
    "leader-epochs-beyond-end": Kind(
        WARNING,
        "An entry of leader-epoch-checkpoint begins behind the end of the log.",
        "The log was longer once, or the file is another log's. A broker drops the entry at its start.",
        RECOVER,
    ),
}
