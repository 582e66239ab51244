"""Schemas of __consumer_offsets: keys and values by record type.

Source: the message definitions of Kafka 4.3.1's group coordinator; for the notation see `kseg.formats.schema`.
Types 9 and 18 are unused.
"""

from kseg.formats.schema import Message

KEYS = {
    0: Message("LegacyOffsetCommitKey", "group:str, topic:str, partition:i32", flexible=None),
    1: Message("OffsetCommitKey", "group:str, topic:str, partition:i32", flexible=None),
    2: Message("GroupMetadataKey", "group:str", flexible=None),
    3: Message("ConsumerGroupMetadataKey", "groupId:str", flexible=None),
    4: Message("ConsumerGroupPartitionMetadataKey", "groupId:str", flexible=None),
    5: Message("ConsumerGroupMemberMetadataKey", "groupId:str, memberId:str", flexible=None),
    6: Message("ConsumerGroupTargetAssignmentMetadataKey", "groupId:str", flexible=None),
    7: Message("ConsumerGroupTargetAssignmentMemberKey", "groupId:str, memberId:str", flexible=None),
    8: Message("ConsumerGroupCurrentMemberAssignmentKey", "groupId:str, memberId:str", flexible=None),
    10: Message("ShareGroupMemberMetadataKey", "groupId:str, memberId:str", flexible=None),
    11: Message("ShareGroupMetadataKey", "groupId:str", flexible=None),
    12: Message("ShareGroupTargetAssignmentMetadataKey", "groupId:str", flexible=None),
    13: Message("ShareGroupTargetAssignmentMemberKey", "groupId:str, memberId:str", flexible=None),
    14: Message("ShareGroupCurrentMemberAssignmentKey", "groupId:str, memberId:str", flexible=None),
    15: Message("ShareGroupStatePartitionMetadataKey", "groupId:str", flexible=None),
    16: Message("ConsumerGroupRegularExpressionKey", "groupId:str, regularExpression:str", flexible=None),
    17: Message("StreamsGroupMetadataKey", "groupId:str", flexible=None),
    19: Message("StreamsGroupMemberMetadataKey", "groupId:str, memberId:str", flexible=None),
    20: Message("StreamsGroupTargetAssignmentMetadataKey", "groupId:str", flexible=None),
    21: Message("StreamsGroupTargetAssignmentMemberKey", "groupId:str, memberId:str", flexible=None),
    22: Message("StreamsGroupCurrentMemberAssignmentKey", "groupId:str, memberId:str", flexible=None),
    23: Message("StreamsGroupTopologyKey", "groupId:str", flexible=None),
}

VALUES = {
    0: Message(
        "LegacyOffsetCommitValue",
        "offset:i64, metadata:str, commitTimestamp:i64",
        flexible=None,
    ),
    1: Message(
        "OffsetCommitValue",
        "offset:i64, leaderEpoch:i32(v3+), metadata:str, commitTimestamp:i64, expireTimestamp:i64(v1), "
        "topicId:uuid(v4+ tag0)",
        highest=4,
        flexible=4,
    ),
    2: Message(
        "GroupMetadataValue",
        "protocolType:str, generation:i32, protocol:str?, leader:str?, currentStateTimestamp:i64(v2+), "
        "members:[]{memberId:str, groupInstanceId:str?(v3+), clientId:str, clientHost:str, "
        "rebalanceTimeout:i32(v1+), sessionTimeout:i32, subscription:bytes, assignment:bytes}",
        highest=4,
        flexible=4,
    ),
    3: Message(
        "ConsumerGroupMetadataValue",
        "epoch:i32, metadataHash:i64(tag0)",
    ),
    4: Message(
        "ConsumerGroupPartitionMetadataValue",
        "topics:[]{topicId:uuid, topicName:str, numPartitions:i32, partitionMetadata:[]{partition:i32, racks:[]str}}",
    ),
    5: Message(
        "ConsumerGroupMemberMetadataValue",
        "instanceId:str?, rackId:str?, clientId:str, clientHost:str, subscribedTopicNames:[]str, "
        "subscribedTopicRegex:str?, rebalanceTimeoutMs:i32, serverAssignor:str?, "
        "classicMemberMetadata:{sessionTimeoutMs:i32, supportedProtocols:[]{name:str, "
        "metadata:bytes}}?(tag0)",
    ),
    6: Message(
        "ConsumerGroupTargetAssignmentMetadataValue",
        "assignmentEpoch:i32, assignmentTimestamp:i64(tag0)",
    ),
    7: Message(
        "ConsumerGroupTargetAssignmentMemberValue",
        "topicPartitions:[]{topicId:uuid, partitions:[]i32}",
    ),
    8: Message(
        "ConsumerGroupCurrentMemberAssignmentValue",
        "memberEpoch:i32, previousMemberEpoch:i32, state:i8, assignedPartitions:[]{topicId:uuid, "
        "partitions:[]i32, assignmentEpochs:[]i32?(tag0 =[])}, partitionsPendingRevocation:[]{topicId:uuid, "
        "partitions:[]i32, assignmentEpochs:[]i32?(tag0 =[])}",
    ),
    10: Message(
        "ShareGroupMemberMetadataValue",
        "rackId:str?, clientId:str, clientHost:str, subscribedTopicNames:[]str",
    ),
    11: Message(
        "ShareGroupMetadataValue",
        "epoch:i32, metadataHash:i64",
    ),
    12: Message(
        "ShareGroupTargetAssignmentMetadataValue",
        "assignmentEpoch:i32, assignmentTimestamp:i64(tag0)",
    ),
    13: Message(
        "ShareGroupTargetAssignmentMemberValue",
        "topicPartitions:[]{topicId:uuid, partitions:[]i32}",
    ),
    14: Message(
        "ShareGroupCurrentMemberAssignmentValue",
        "memberEpoch:i32, previousMemberEpoch:i32, state:i8, assignedPartitions:[]{topicId:uuid, partitions:[]i32}",
    ),
    15: Message(
        "ShareGroupStatePartitionMetadataValue",
        "initializingTopics:[]{topicId:uuid, topicName:str, partitions:[]i32}, "
        "initializedTopics:[]{topicId:uuid, topicName:str, partitions:[]i32}, "
        "deletingTopics:[]{topicId:uuid, topicName:str}",
    ),
    16: Message(
        "ConsumerGroupRegularExpressionValue",
        "topics:[]str, version:i64, timestamp:i64",
    ),
    17: Message(
        "StreamsGroupMetadataValue",
        "epoch:i32, metadataHash:i64, validatedTopologyEpoch:i32(tag0 =-1), "
        "lastAssignmentConfigs:[]{key:str, value:str}?(tag1 =[])",
    ),
    19: Message(
        "StreamsGroupMemberMetadataValue",
        "instanceId:str?, rackId:str?, clientId:str, clientHost:str, rebalanceTimeoutMs:i32, "
        "topologyEpoch:i32, processId:str, userEndpoint:{host:str, port:u16}?, clientTags:[]{key:str, "
        "value:str}",
    ),
    20: Message(
        "StreamsGroupTargetAssignmentMetadataValue",
        "assignmentEpoch:i32, assignmentTimestamp:i64(tag0)",
    ),
    21: Message(
        "StreamsGroupTargetAssignmentMemberValue",
        "activeTasks:[]{subtopologyId:str, partitions:[]i32}, standbyTasks:[]{subtopologyId:str, "
        "partitions:[]i32}, warmupTasks:[]{subtopologyId:str, partitions:[]i32}",
    ),
    22: Message(
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
    23: Message(
        "StreamsGroupTopologyValue",
        "epoch:i32, subtopologies:[]{subtopologyId:str, sourceTopics:[]str, sourceTopicRegex:[]str, "
        "stateChangelogTopics:[]{name:str, partitions:i32, replicationFactor:i16, "
        "topicConfigs:[]{key:str, value:str}}, repartitionSinkTopics:[]str, "
        "repartitionSourceTopics:[]{name:str, partitions:i32, replicationFactor:i16, "
        "topicConfigs:[]{key:str, value:str}}, copartitionGroups:[]{sourceTopics:[]i16, "
        "sourceTopicRegex:[]i16, repartitionSourceTopics:[]i16}}",
    ),
}

SUBSCRIPTION = Message(
    "ConsumerProtocolSubscription",
    "topics:[]str, userData:bytes?, ownedPartitions:[]{topic:str, partitions:[]i32}(v1+), generationId:i32(v2+), "
    "rackId:str?(v3+)",
    highest=3,
    flexible=None,
)
ASSIGNMENT = Message(
    "ConsumerProtocolAssignment",
    "assignedPartitions:[]{topic:str, partitions:[]i32}, userData:bytes?",
    highest=3,
    flexible=None,
)
