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


CONSUMER_OFFSETS = Topic(
    keys={
        0: MessageSchema("LegacyOffsetCommitKey", "group:str, topic:str, partition:i32", flexible=None),
        1: MessageSchema("OffsetCommitKey", "group:str, topic:str, partition:i32", flexible=None),
        2: MessageSchema("GroupMetadataKey", "group:str", flexible=None),
        3: MessageSchema("ConsumerGroupMetadataKey", "groupId:str", flexible=None),
        4: MessageSchema("ConsumerGroupPartitionMetadataKey", "groupId:str", flexible=None),
        5: MessageSchema("ConsumerGroupMemberMetadataKey", "groupId:str, memberId:str", flexible=None),
        6: MessageSchema("ConsumerGroupTargetAssignmentMetadataKey", "groupId:str", flexible=None),
        7: MessageSchema("ConsumerGroupTargetAssignmentMemberKey", "groupId:str, memberId:str", flexible=None),
        8: MessageSchema("ConsumerGroupCurrentMemberAssignmentKey", "groupId:str, memberId:str", flexible=None),
        10: MessageSchema("ShareGroupMemberMetadataKey", "groupId:str, memberId:str", flexible=None),
        11: MessageSchema("ShareGroupMetadataKey", "groupId:str", flexible=None),
        12: MessageSchema("ShareGroupTargetAssignmentMetadataKey", "groupId:str", flexible=None),
        13: MessageSchema("ShareGroupTargetAssignmentMemberKey", "groupId:str, memberId:str", flexible=None),
        14: MessageSchema("ShareGroupCurrentMemberAssignmentKey", "groupId:str, memberId:str", flexible=None),
        15: MessageSchema("ShareGroupStatePartitionMetadataKey", "groupId:str", flexible=None),
        16: MessageSchema("ConsumerGroupRegularExpressionKey", "groupId:str, regularExpression:str", flexible=None),
        17: MessageSchema("StreamsGroupMetadataKey", "groupId:str", flexible=None),
        19: MessageSchema("StreamsGroupMemberMetadataKey", "groupId:str, memberId:str", flexible=None),
        20: MessageSchema("StreamsGroupTargetAssignmentMetadataKey", "groupId:str", flexible=None),
        21: MessageSchema("StreamsGroupTargetAssignmentMemberKey", "groupId:str, memberId:str", flexible=None),
        22: MessageSchema("StreamsGroupCurrentMemberAssignmentKey", "groupId:str, memberId:str", flexible=None),
        23: MessageSchema("StreamsGroupTopologyKey", "groupId:str", flexible=None),
    },
    values={
        0: MessageSchema(
            "LegacyOffsetCommitValue",
            "offset:i64, metadata:str, commitTimestamp:i64",
            flexible=None,
        ),
        1: MessageSchema(
            "OffsetCommitValue",
            "offset:i64, leaderEpoch:i32(v3+), metadata:str, commitTimestamp:i64, expireTimestamp:i64(v1), "
            "topicId:uuid(v4+ tag0)",
            highest=4,
            flexible=4,
        ),
        2: MessageSchema(
            "GroupMetadataValue",
            "protocolType:str, generation:i32, protocol:str?, leader:str?, currentStateTimestamp:i64(v2+), "
            "members:[]{memberId:str, groupInstanceId:str?(v3+), clientId:str, clientHost:str, "
            "rebalanceTimeout:i32(v1+), sessionTimeout:i32, subscription:bytes, assignment:bytes}",
            highest=4,
            flexible=4,
        ),
        3: MessageSchema(
            "ConsumerGroupMetadataValue",
            "epoch:i32, metadataHash:i64(tag0)",
        ),
        4: MessageSchema(
            "ConsumerGroupPartitionMetadataValue",
            "topics:[]{topicId:uuid, topicName:str, numPartitions:i32, "
            "partitionMetadata:[]{partition:i32, racks:[]str}}",
        ),
        5: MessageSchema(
            "ConsumerGroupMemberMetadataValue",
            "instanceId:str?, rackId:str?, clientId:str, clientHost:str, subscribedTopicNames:[]str, "
            "subscribedTopicRegex:str?, rebalanceTimeoutMs:i32, serverAssignor:str?, "
            "classicMemberMetadata:{sessionTimeoutMs:i32, supportedProtocols:[]{name:str, "
            "metadata:bytes}}?(tag0)",
        ),
        6: MessageSchema(
            "ConsumerGroupTargetAssignmentMetadataValue",
            "assignmentEpoch:i32, assignmentTimestamp:i64(tag0)",
        ),
        7: MessageSchema(
            "ConsumerGroupTargetAssignmentMemberValue",
            "topicPartitions:[]{topicId:uuid, partitions:[]i32}",
        ),
        8: MessageSchema(
            "ConsumerGroupCurrentMemberAssignmentValue",
            "memberEpoch:i32, previousMemberEpoch:i32, state:i8, assignedPartitions:[]{topicId:uuid, "
            "partitions:[]i32, assignmentEpochs:[]i32?(tag0 =[])}, partitionsPendingRevocation:[]{topicId:uuid, "
            "partitions:[]i32, assignmentEpochs:[]i32?(tag0 =[])}",
        ),
        10: MessageSchema(
            "ShareGroupMemberMetadataValue",
            "rackId:str?, clientId:str, clientHost:str, subscribedTopicNames:[]str",
        ),
        11: MessageSchema(
            "ShareGroupMetadataValue",
            "epoch:i32, metadataHash:i64",
        ),
        12: MessageSchema(
            "ShareGroupTargetAssignmentMetadataValue",
            "assignmentEpoch:i32, assignmentTimestamp:i64(tag0)",
        ),
        13: MessageSchema(
            "ShareGroupTargetAssignmentMemberValue",
            "topicPartitions:[]{topicId:uuid, partitions:[]i32}",
        ),
        14: MessageSchema(
            "ShareGroupCurrentMemberAssignmentValue",
            "memberEpoch:i32, previousMemberEpoch:i32, state:i8, assignedPartitions:[]{topicId:uuid, partitions:[]i32}",
        ),
        15: MessageSchema(
            "ShareGroupStatePartitionMetadataValue",
            "initializingTopics:[]{topicId:uuid, topicName:str, partitions:[]i32}, "
            "initializedTopics:[]{topicId:uuid, topicName:str, partitions:[]i32}, "
            "deletingTopics:[]{topicId:uuid, topicName:str}",
        ),
        16: MessageSchema(
            "ConsumerGroupRegularExpressionValue",
            "topics:[]str, version:i64, timestamp:i64",
        ),
        17: MessageSchema(
            "StreamsGroupMetadataValue",
            "epoch:i32, metadataHash:i64, validatedTopologyEpoch:i32(tag0 =-1), "
            "lastAssignmentConfigs:[]{key:str, value:str}?(tag1 =[]), storedDescriptionTopologyEpoch:i32(tag2 =-1), "
            "failedDescriptionTopologyEpoch:i32(tag3 =-1)",
        ),
        19: MessageSchema(
            "StreamsGroupMemberMetadataValue",
            "instanceId:str?, rackId:str?, clientId:str, clientHost:str, rebalanceTimeoutMs:i32, "
            "topologyEpoch:i32, processId:str, userEndpoint:{host:str, port:u16}?, clientTags:[]{key:str, "
            "value:str}",
        ),
        20: MessageSchema(
            "StreamsGroupTargetAssignmentMetadataValue",
            "assignmentEpoch:i32, assignmentTimestamp:i64(tag0)",
        ),
        21: MessageSchema(
            "StreamsGroupTargetAssignmentMemberValue",
            "activeTasks:[]{subtopologyId:str, partitions:[]i32}, standbyTasks:[]{subtopologyId:str, "
            "partitions:[]i32}, warmupTasks:[]{subtopologyId:str, partitions:[]i32}",
        ),
        22: MessageSchema(
            "StreamsGroupCurrentMemberAssignmentValue",
            "memberEpoch:i32, previousMemberEpoch:i32, state:i8, activeTasks:[]{subtopologyId:str, "
            "partitions:[]i32, assignmentEpochs:[]i32?(tag0 =[])}, standbyTasks:[]{subtopologyId:str, "
            "partitions:[]i32, assignmentEpochs:[]i32?(tag0 =[])}, warmupTasks:[]{subtopologyId:str, "
            "partitions:[]i32, assignmentEpochs:[]i32?(tag0 =[])}, "
            "activeTasksPendingRevocation:[]{subtopologyId:str, partitions:[]i32, "
            "assignmentEpochs:[]i32?(tag0 =[])}, standbyTasksPendingRevocation:[]{subtopologyId:str, "
            "partitions:[]i32, assignmentEpochs:[]i32?(tag0 =[])}, "
            "warmupTasksPendingRevocation:[]{subtopologyId:str, partitions:[]i32, "
            "assignmentEpochs:[]i32?(tag0 =[])}",
        ),
        23: MessageSchema(
            "StreamsGroupTopologyValue",
            "epoch:i32, subtopologies:[]{subtopologyId:str, sourceTopics:[]str, sourceTopicRegex:[]str, "
            "stateChangelogTopics:[]{name:str, partitions:i32, replicationFactor:i16, "
            "topicConfigs:[]{key:str, value:str}}, repartitionSinkTopics:[]str, "
            "repartitionSourceTopics:[]{name:str, partitions:i32, replicationFactor:i16, "
            "topicConfigs:[]{key:str, value:str}}, copartitionGroups:[]{sourceTopics:[]i16, "
            "sourceTopicRegex:[]i16, repartitionSourceTopics:[]i16}}",
        ),
    },
)
"""Types 9 and 18 are unused."""

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

TRANSACTION_STATE = Topic(
    keys={
        0: MessageSchema("TransactionLogKey", "transactionalId:str", flexible=None),
    },
    values={
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
    },
)

SHARE_GROUP_STATE = Topic(
    keys={
        0: MessageSchema("ShareSnapshotKey", "groupId:str, topicId:uuid, partition:i32", flexible=None),
        1: MessageSchema("ShareUpdateKey", "groupId:str, topicId:uuid, partition:i32", flexible=None),
    },
    values={
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
    },
)
