"""Schemas of __remote_log_metadata (topic-based RemoteLogMetadataManager, KIP-405): the records by apiKey.

Source: the message definitions of Kafka 4.3.1's storage module; for the notation see `kseg.formats.schema`.
"""

from kseg.formats.schema import MessageSchema

RECORDS = {
    0: MessageSchema(
        "RemoteLogSegmentMetadataRecord",
        "remoteLogSegmentId:{topicIdPartition:{name:str, id:uuid, partition:i32}, id:uuid}, "
        "startOffset:i64, endOffset:i64, brokerId:i32, maxTimestampMs:i64, eventTimestampMs:i64, "
        "segmentLeaderEpochs:[]{leaderEpoch:i32, offset:i64}, segmentSizeInBytes:i32, "
        "customMetadata:bytes?, remoteLogSegmentState:i8, txnIndexEmpty:bool(tag0)",
    ),
    1: MessageSchema(
        "RemoteLogSegmentMetadataUpdateRecord",
        "remoteLogSegmentId:{topicIdPartition:{name:str, id:uuid, partition:i32}, id:uuid}, brokerId:i32, "
        "eventTimestampMs:i64, customMetadata:bytes?, remoteLogSegmentState:i8",
    ),
    2: MessageSchema(
        "RemotePartitionDeleteMetadataRecord",
        "topicIdPartition:{name:str, id:uuid, partition:i32}, brokerId:i32, eventTimestampMs:i64, "
        "remotePartitionDeleteState:i8",
    ),
    3: MessageSchema(
        "RemoteLogSegmentMetadataSnapshotRecord",
        "segmentId:uuid, startOffset:i64, endOffset:i64, brokerId:i32, maxTimestampMs:i64, "
        "eventTimestampMs:i64, segmentLeaderEpochs:[]{leaderEpoch:i32, offset:i64}, "
        "segmentSizeInBytes:i32, customMetadata:bytes?, remoteLogSegmentState:i8, "
        "txnIndexEmpty:bool(tag0)",
    ),
}
