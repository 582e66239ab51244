"""Schemas of __share_group_state: keys and values.

Source: the message definitions of Kafka 4.3.1's share coordinator; for the notation see `kseg.formats.schema`.
"""

from kseg.formats.schema import MessageSchema

KEYS = {
    0: MessageSchema("ShareSnapshotKey", "groupId:str, topicId:uuid, partition:i32", flexible=None),
    1: MessageSchema("ShareUpdateKey", "groupId:str, topicId:uuid, partition:i32", flexible=None),
}

VALUES = {
    0: MessageSchema(
        "ShareSnapshotValue",
        "snapshotEpoch:i32, stateEpoch:i32, leaderEpoch:i32, startOffset:i64, "
        "deliveryCompleteCount:i32(tag0 =-1), createTimestamp:i64, writeTimestamp:i64, "
        "stateBatches:[]{firstOffset:i64, lastOffset:i64, deliveryState:i8, deliveryCount:i16}",
    ),
    1: MessageSchema(
        "ShareUpdateValue",
        "snapshotEpoch:i32, leaderEpoch:i32, startOffset:i64, deliveryCompleteCount:i32(tag0 =-1), "
        "stateBatches:[]{firstOffset:i64, lastOffset:i64, deliveryState:i8, deliveryCount:i16}",
    ),
}
