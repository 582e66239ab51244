"""Findings about producers, transactions and leader epochs, and their files."""

from kseg.findings.kind import (
    BROKER,
    DECISION,
    DOUBTFUL,
    ERROR,
    FROM_REPLICA,
    INFO,
    OFFLINE,
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
