"""Schemas of __transaction_state: keys and values.

Source: the message definitions of Kafka 4.4.0's transaction coordinator; for the notation see `kseg.formats.schema`.
"""

from kseg.formats.schema import MessageSchema

KEYS = {
    0: MessageSchema("TransactionLogKey", "transactionalId:str", flexible=None),
}

STATUSES = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence",
)  # fmt: skip
"""Names by the number in a record. Source: TransactionState."""

VALUES = {
    0: MessageSchema(
        "TransactionLogValue",
        "producerId:i64, previousProducerId:i64(tag0 =-1), nextProducerId:i64(tag1 =-1), "
        "producerEpoch:i16, nextProducerEpoch:i16(tag3 =-1), transactionTimeoutMs:i32, "
        f"transactionStatus:i8(names {' '.join(STATUSES)}), "
        "transactionPartitions:[]{topic:str, partitionIds:[]i32}?, "
        "transactionLastUpdateTimestampMs:i64, transactionStartTimestampMs:i64, "
        "clientTransactionVersion:i16(tag2)",
        highest=1,
        flexible=1,
    ),
}
