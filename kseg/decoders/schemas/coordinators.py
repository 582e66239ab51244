"""Schemas of __consumer_offsets, __transaction_state and __share_group_state: keys and values by record type.

Source: the message definitions of Kafka 4.4.0's coordinators; for the notation see `kseg.formats.schema`.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kseg.formats.schema import MessageSchema


class Topic(NamedTuple):
    """The messages of one topic by record type."""

    keys: Mapping[int, MessageSchema]
    values: Mapping[int, MessageSchema]


_Messages = tuple[MessageSchema, MessageSchema]


def _record(name: str, key: str, value: str, highest: int = 0, flexible: int | None = 0) -> _Messages:
    """Returns the messages of a key, which is never flexible, and of a value."""
    return MessageSchema(f"{name}Key", key, flexible=None), MessageSchema(f"{name}Value", value, highest, flexible)


def _topic(records: Mapping[int, _Messages]) -> Topic:
    return Topic(*({kind: messages[part] for kind, messages in records.items()} for part in (0, 1)))


_TASK = "{subtopologyId:str, partitions:[]i32, assignmentEpochs:[]i32?(tag0 =[])}"
_ASSIGNED = "{topicId:uuid, partitions:[]i32, assignmentEpochs:[]i32?(tag0 =[])}"
_CHANGELOG = "{name:str, partitions:i32, replicationFactor:i16, topicConfigs:[]{key:str, value:str}}"

_CONSUMER_OFFSETS = {
    0: _record(
        "LegacyOffsetCommit",
        "group:str, topic:str, partition:i32",
        "offset:i64, metadata:str, commitTimestamp:i64",
        flexible=None,
    ),
    1: _record(
        "OffsetCommit",
        "group:str, topic:str, partition:i32",
        "offset:i64, leaderEpoch:i32(v3+), metadata:str, commitTimestamp:i64, expireTimestamp:i64(v1), "
        "topicId:uuid(v4+ tag0)",
        highest=4,
        flexible=4,
    ),
    2: _record(
        "GroupMetadata",
        "group:str",
        "protocolType:str, generation:i32, protocol:str?, leader:str?, currentStateTimestamp:i64(v2+), "
        "members:[]{memberId:str, groupInstanceId:str?(v3+), clientId:str, clientHost:str, "
        "rebalanceTimeout:i32(v1+), sessionTimeout:i32, subscription:bytes, assignment:bytes}",
        highest=4,
        flexible=4,
    ),
    3: _record("ConsumerGroupMetadata", "groupId:str", "epoch:i32, metadataHash:i64(tag0)"),
    4: _record(
        "ConsumerGroupPartitionMetadata",
        "groupId:str",
        "topics:[]{topicId:uuid, topicName:str, numPartitions:i32, partitionMetadata:[]{partition:i32, racks:[]str}}",
    ),
    5: _record(
        "ConsumerGroupMemberMetadata",
        "groupId:str, memberId:str",
        "instanceId:str?, rackId:str?, clientId:str, clientHost:str, subscribedTopicNames:[]str, "
        "subscribedTopicRegex:str?, rebalanceTimeoutMs:i32, serverAssignor:str?, "
        "classicMemberMetadata:{sessionTimeoutMs:i32, supportedProtocols:[]{name:str, metadata:bytes}}?(tag0)",
    ),
    6: _record(
        "ConsumerGroupTargetAssignmentMetadata", "groupId:str", "assignmentEpoch:i32, assignmentTimestamp:i64(tag0)"
    ),
    7: _record(
        "ConsumerGroupTargetAssignmentMember",
        "groupId:str, memberId:str",
        "topicPartitions:[]{topicId:uuid, partitions:[]i32}",
    ),
    8: _record(
        "ConsumerGroupCurrentMemberAssignment",
        "groupId:str, memberId:str",
        f"memberEpoch:i32, previousMemberEpoch:i32, state:i8, assignedPartitions:[]{_ASSIGNED}, "
        f"partitionsPendingRevocation:[]{_ASSIGNED}",
    ),
    10: _record(
        "ShareGroupMemberMetadata",
        "groupId:str, memberId:str",
        "rackId:str?, clientId:str, clientHost:str, subscribedTopicNames:[]str",
    ),
    11: _record("ShareGroupMetadata", "groupId:str", "epoch:i32, metadataHash:i64"),
    12: _record(
        "ShareGroupTargetAssignmentMetadata", "groupId:str", "assignmentEpoch:i32, assignmentTimestamp:i64(tag0)"
    ),
    13: _record(
        "ShareGroupTargetAssignmentMember",
        "groupId:str, memberId:str",
        "topicPartitions:[]{topicId:uuid, partitions:[]i32}",
    ),
    14: _record(
        "ShareGroupCurrentMemberAssignment",
        "groupId:str, memberId:str",
        "memberEpoch:i32, previousMemberEpoch:i32, state:i8, assignedPartitions:[]{topicId:uuid, partitions:[]i32}",
    ),
    15: _record(
        "ShareGroupStatePartitionMetadata",
        "groupId:str",
        "initializingTopics:[]{topicId:uuid, topicName:str, partitions:[]i32}, initializedTopics:[]{topicId:uuid, "
        "topicName:str, partitions:[]i32}, deletingTopics:[]{topicId:uuid, topicName:str}",
    ),
    16: _record(
        "ConsumerGroupRegularExpression",
        "groupId:str, regularExpression:str",
        "topics:[]str, version:i64, timestamp:i64",
    ),
    17: _record(
        "StreamsGroupMetadata",
        "groupId:str",
        "epoch:i32, metadataHash:i64, validatedTopologyEpoch:i32(tag0 =-1), lastAssignmentConfigs:[]{key:str, "
        "value:str}?(tag1 =[]), storedDescriptionTopologyEpoch:i32(tag2 =-1), "
        "failedDescriptionTopologyEpoch:i32(tag3 =-1)",
    ),
    19: _record(
        "StreamsGroupMemberMetadata",
        "groupId:str, memberId:str",
        "instanceId:str?, rackId:str?, clientId:str, clientHost:str, rebalanceTimeoutMs:i32, topologyEpoch:i32, "
        "processId:str, userEndpoint:{host:str, port:u16}?, clientTags:[]{key:str, value:str}",
    ),
    20: _record(
        "StreamsGroupTargetAssignmentMetadata", "groupId:str", "assignmentEpoch:i32, assignmentTimestamp:i64(tag0)"
    ),
    21: _record(
        "StreamsGroupTargetAssignmentMember",
        "groupId:str, memberId:str",
        "activeTasks:[]{subtopologyId:str, partitions:[]i32}, standbyTasks:[]{subtopologyId:str, partitions:[]i32}, "
        "warmupTasks:[]{subtopologyId:str, partitions:[]i32}",
    ),
    22: _record(
        "StreamsGroupCurrentMemberAssignment",
        "groupId:str, memberId:str",
        f"memberEpoch:i32, previousMemberEpoch:i32, state:i8, activeTasks:[]{_TASK}, standbyTasks:[]{_TASK}, "
        f"warmupTasks:[]{_TASK}, activeTasksPendingRevocation:[]{_TASK}, standbyTasksPendingRevocation:[]{_TASK}, "
        f"warmupTasksPendingRevocation:[]{_TASK}",
    ),
    23: _record(
        "StreamsGroupTopology",
        "groupId:str",
        "epoch:i32, subtopologies:[]{subtopologyId:str, sourceTopics:[]str, sourceTopicRegex:[]str, "
        f"stateChangelogTopics:[]{_CHANGELOG}, repartitionSinkTopics:[]str, repartitionSourceTopics:[]{_CHANGELOG}, "
        "copartitionGroups:[]{sourceTopics:[]i16, sourceTopicRegex:[]i16, repartitionSourceTopics:[]i16}}",
    ),
}
"""Types 9 and 18 are unused."""

CONSUMER_OFFSETS = _topic(_CONSUMER_OFFSETS)

SUBSCRIPTION = MessageSchema(
    "ConsumerProtocolSubscription",
    "topics:[]str, userData:bytes?, ownedPartitions:[]{topic:str, partitions:[]i32}(v1+), generationId:i32(v2+), "
    "rackId:str?(v3+)",
    highest=3,
    flexible=None,
)
ASSIGNMENT = MessageSchema(
    "ConsumerProtocolAssignment",
    "assignedPartitions:[]{topic:str, partitions:[]i32}, userData:bytes?",
    highest=3,
    flexible=None,
)

STATUSES = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence",
)  # fmt: skip
"""Names by the number in a record. Source: TransactionState."""

_NAMES = " ".join(STATUSES)

TRANSACTION_STATE = _topic(
    {
        0: _record(
            "TransactionLog",
            "transactionalId:str",
            "producerId:i64, previousProducerId:i64(tag0 =-1), nextProducerId:i64(tag1 =-1), producerEpoch:i16, "
            f"nextProducerEpoch:i16(tag3 =-1), transactionTimeoutMs:i32, transactionStatus:i8(names {_NAMES}), "
            "transactionPartitions:[]{topic:str, partitionIds:[]i32}?, transactionLastUpdateTimestampMs:i64, "
            "transactionStartTimestampMs:i64, clientTransactionVersion:i16(tag2)",
            highest=1,
            flexible=1,
        ),
    }
)

SHARE_GROUP_STATE = _topic(
    {
        0: _record(
            "ShareSnapshot",
            "groupId:str, topicId:uuid, partition:i32",
            "snapshotEpoch:i32, stateEpoch:i32, leaderEpoch:i32, startOffset:i64, deliveryCompleteCount:i32(tag0 =-1), "
            "createTimestamp:i64, writeTimestamp:i64, stateBatches:[]{firstOffset:i64, lastOffset:i64, "
            "deliveryState:i8, deliveryCount:i16}",
        ),
        1: _record(
            "ShareUpdate",
            "groupId:str, topicId:uuid, partition:i32",
            "snapshotEpoch:i32, leaderEpoch:i32, startOffset:i64, deliveryCompleteCount:i32(tag0 =-1), "
            "stateBatches:[]{firstOffset:i64, lastOffset:i64, deliveryState:i8, deliveryCount:i16}",
        ),
    }
)
