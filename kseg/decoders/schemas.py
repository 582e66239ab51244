"""Schemas of the records of internal topics, as data: coordinators, KRaft, tiered storage.

Source: the message definitions of Kafka 4.4.0.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kseg.formats.schema import MessageSchema

# A table has an entry for each record type (apiKey):
#
#     1 OffsetCommit v0-4 flexible 4: group:str, topic:str, partition:i32 => offset:i64, leaderEpoch:i32(v3+)
#
# The type, the name, the versions (v0 if none are given), the first flexible version (0 if none is given), and the
# fields, in the notation of `kseg.formats.schema`. A record of a coordinator has a key, which is never flexible, and
# behind => a value, to which the versions belong.

_ENTRY = re.compile(r"^ +(\d+) (\w+)(?: v0-(\d+))?(?: flexible (\w+))?:", re.MULTILINE)


class Topic(NamedTuple):
    """The messages of one topic by record type."""

    keys: Mapping[int, MessageSchema]
    values: Mapping[int, MessageSchema]


def _topic(table: str, **parts: str) -> Topic:
    """Returns the messages of a coordinator; ``parts``: fields that the table names as <NAME>."""
    for part, fields in parts.items():
        table = table.replace(f"<{part}>", fields)
    keys, values = dict[int, MessageSchema](), dict[int, MessageSchema]()
    for kind, (name, fields, highest, flexible) in _entries(table):
        key, value = fields.split(" => ")
        keys[kind] = MessageSchema(f"{name}Key", key, flexible=None)
        values[kind] = MessageSchema(f"{name}Value", value, highest, flexible)
    return Topic(keys, values)


def _entries(table: str) -> Iterator[tuple[int, tuple[str, str, int, int | None]]]:
    """Yields the type of each entry, and its name, fields, highest and first flexible version."""
    _, *found = _ENTRY.split(table)
    for kind, name, highest, flexible, fields in zip(*[iter(found)] * 5, strict=True):
        first_flexible = None if flexible == "never" else int(flexible or 0)
        yield int(kind), (name, " ".join(fields.split()), int(highest or 0), first_flexible)


def _messages(table: str) -> dict[int, MessageSchema]:
    """Returns the messages of a topic without keys."""
    return {kind: MessageSchema(*entry) for kind, entry in _entries(table)}


CONSUMER_OFFSETS = _topic(
    """
    0 LegacyOffsetCommit flexible never: group:str, topic:str, partition:i32 => offset:i64, metadata:str,
        commitTimestamp:i64
    1 OffsetCommit v0-4 flexible 4: group:str, topic:str, partition:i32 => offset:i64, leaderEpoch:i32(v3+),
        metadata:str, commitTimestamp:i64, expireTimestamp:i64(v1), topicId:uuid(v4+ tag0)
    2 GroupMetadata v0-4 flexible 4: group:str => protocolType:str, generation:i32, protocol:str?, leader:str?,
        currentStateTimestamp:i64(v2+), members:[]{memberId:str, groupInstanceId:str?(v3+), clientId:str,
        clientHost:str, rebalanceTimeout:i32(v1+), sessionTimeout:i32, subscription:bytes, assignment:bytes}
    3 ConsumerGroupMetadata: groupId:str => epoch:i32, metadataHash:i64(tag0)
    4 ConsumerGroupPartitionMetadata: groupId:str => topics:[]{topicId:uuid, topicName:str, numPartitions:i32,
        partitionMetadata:[]{partition:i32, racks:[]str}}
    5 ConsumerGroupMemberMetadata: groupId:str, memberId:str => instanceId:str?, rackId:str?, clientId:str,
        clientHost:str, subscribedTopicNames:[]str, subscribedTopicRegex:str?, rebalanceTimeoutMs:i32,
        serverAssignor:str?, classicMemberMetadata:{sessionTimeoutMs:i32, supportedProtocols:[]{name:str,
        metadata:bytes}}?(tag0)
    6 ConsumerGroupTargetAssignmentMetadata: groupId:str => assignmentEpoch:i32, assignmentTimestamp:i64(tag0)
    7 ConsumerGroupTargetAssignmentMember: groupId:str, memberId:str => topicPartitions:[]{topicId:uuid,
        partitions:[]i32}
    8 ConsumerGroupCurrentMemberAssignment: groupId:str, memberId:str => memberEpoch:i32, previousMemberEpoch:i32,
        state:i8, assignedPartitions:[]<assigned>, partitionsPendingRevocation:[]<assigned>
    10 ShareGroupMemberMetadata: groupId:str, memberId:str => rackId:str?, clientId:str, clientHost:str,
        subscribedTopicNames:[]str
    11 ShareGroupMetadata: groupId:str => epoch:i32, metadataHash:i64
    12 ShareGroupTargetAssignmentMetadata: groupId:str => assignmentEpoch:i32, assignmentTimestamp:i64(tag0)
    13 ShareGroupTargetAssignmentMember: groupId:str, memberId:str => topicPartitions:[]{topicId:uuid, partitions:[]i32}
    14 ShareGroupCurrentMemberAssignment: groupId:str, memberId:str => memberEpoch:i32, previousMemberEpoch:i32,
        state:i8, assignedPartitions:[]{topicId:uuid, partitions:[]i32}
    15 ShareGroupStatePartitionMetadata: groupId:str => initializingTopics:[]{topicId:uuid, topicName:str,
        partitions:[]i32}, initializedTopics:[]{topicId:uuid, topicName:str, partitions:[]i32},
        deletingTopics:[]{topicId:uuid, topicName:str}
    16 ConsumerGroupRegularExpression: groupId:str, regularExpression:str => topics:[]str, version:i64, timestamp:i64
    17 StreamsGroupMetadata: groupId:str => epoch:i32, metadataHash:i64, validatedTopologyEpoch:i32(tag0 =-1),
        lastAssignmentConfigs:[]{key:str, value:str}?(tag1 =[]), storedDescriptionTopologyEpoch:i32(tag2 =-1),
        failedDescriptionTopologyEpoch:i32(tag3 =-1)
    19 StreamsGroupMemberMetadata: groupId:str, memberId:str => instanceId:str?, rackId:str?, clientId:str,
        clientHost:str, rebalanceTimeoutMs:i32, topologyEpoch:i32, processId:str, userEndpoint:{host:str, port:u16}?,
        clientTags:[]{key:str, value:str}
    20 StreamsGroupTargetAssignmentMetadata: groupId:str => assignmentEpoch:i32, assignmentTimestamp:i64(tag0)
    21 StreamsGroupTargetAssignmentMember: groupId:str, memberId:str => activeTasks:[]{subtopologyId:str,
        partitions:[]i32}, standbyTasks:[]{subtopologyId:str, partitions:[]i32}, warmupTasks:[]{subtopologyId:str,
        partitions:[]i32}
    22 StreamsGroupCurrentMemberAssignment: groupId:str, memberId:str => memberEpoch:i32, previousMemberEpoch:i32,
        state:i8, activeTasks:[]<task>, standbyTasks:[]<task>, warmupTasks:[]<task>,
        activeTasksPendingRevocation:[]<task>, standbyTasksPendingRevocation:[]<task>,
        warmupTasksPendingRevocation:[]<task>
    23 StreamsGroupTopology: groupId:str => epoch:i32, subtopologies:[]{subtopologyId:str, sourceTopics:[]str,
        sourceTopicRegex:[]str, stateChangelogTopics:[]<changelog>, repartitionSinkTopics:[]str,
        repartitionSourceTopics:[]<changelog>, copartitionGroups:[]{sourceTopics:[]i16, sourceTopicRegex:[]i16,
        repartitionSourceTopics:[]i16}}
    """,
    task="{subtopologyId:str, partitions:[]i32, assignmentEpochs:[]i32?(tag0 =[])}",
    assigned="{topicId:uuid, partitions:[]i32, assignmentEpochs:[]i32?(tag0 =[])}",
    changelog="{name:str, partitions:i32, replicationFactor:i16, topicConfigs:[]{key:str, value:str}}",
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

TRANSACTION_STATE = _topic(
    """
    0 TransactionLog v0-1 flexible 1: transactionalId:str => producerId:i64, previousProducerId:i64(tag0 =-1),
        nextProducerId:i64(tag1 =-1), producerEpoch:i16, nextProducerEpoch:i16(tag3 =-1), transactionTimeoutMs:i32,
        transactionStatus:i8(names <statuses>), transactionPartitions:[]{topic:str, partitionIds:[]i32}?,
        transactionLastUpdateTimestampMs:i64, transactionStartTimestampMs:i64, clientTransactionVersion:i16(tag2)
    """,
    statuses=" ".join(STATUSES),
)

SHARE_GROUP_STATE = _topic(
    """
    0 ShareSnapshot: groupId:str, topicId:uuid, partition:i32 => snapshotEpoch:i32, stateEpoch:i32, leaderEpoch:i32,
        startOffset:i64, deliveryCompleteCount:i32(tag0 =-1), createTimestamp:i64, writeTimestamp:i64,
        stateBatches:[]{firstOffset:i64, lastOffset:i64, deliveryState:i8, deliveryCount:i16}
    1 ShareUpdate: groupId:str, topicId:uuid, partition:i32 => snapshotEpoch:i32, leaderEpoch:i32, startOffset:i64,
        deliveryCompleteCount:i32(tag0 =-1), stateBatches:[]{firstOffset:i64, lastOffset:i64, deliveryState:i8,
        deliveryCount:i16}
    """
)

CLUSTER_METADATA = _messages(
    """
    0 RegisterBrokerRecord v0-4: brokerId:i32, isMigratingZkBroker:bool(v2+), incarnationId:uuid, brokerEpoch:i64,
        endPoints:[]{name:str, host:str, port:u16, securityProtocol:i16}, features:[]{name:str, minSupportedVersion:i16,
        maxSupportedVersion:i16}, rack:str?, fenced:bool, inControlledShutdown:bool(v1+), logDirs:[]uuid(v3+ tag0),
        cordonedLogDirs:[]uuid?(v4+ tag1)
    1 UnregisterBrokerRecord: brokerId:i32, brokerEpoch:i64
    2 TopicRecord: name:str, topicId:uuid
    3 PartitionRecord v0-2: partitionId:i32, topicId:uuid, replicas:[]i32, isr:[]i32, removingReplicas:[]i32,
        addingReplicas:[]i32, leader:i32, leaderRecoveryState:i8(tag0), leaderEpoch:i32, partitionEpoch:i32,
        directories:[]uuid(v1+), eligibleLeaderReplicas:[]i32?(v2+ tag1), lastKnownElr:[]i32?(v2+ tag2)
    4 ConfigRecord: resourceType:i8, resourceName:str, name:str, value:str?
    5 PartitionChangeRecord v0-2: partitionId:i32, topicId:uuid, isr:[]i32?(tag0), leader:i32(tag1 =-2),
        replicas:[]i32?(tag2), removingReplicas:[]i32?(tag3), addingReplicas:[]i32?(tag4),
        leaderRecoveryState:i8(tag5 =-1), directories:[]uuid?(v1+ tag8), eligibleLeaderReplicas:[]i32?(v2+ tag6),
        lastKnownElr:[]i32?(v2+ tag7)
    7 FenceBrokerRecord: id:i32, epoch:i64
    8 UnfenceBrokerRecord: id:i32, epoch:i64
    9 RemoveTopicRecord: topicId:uuid
    10 DelegationTokenRecord: owner:str, requester:str, renewers:[]str, issueTimestamp:i64, maxTimestamp:i64,
        expirationTimestamp:i64, tokenId:str
    11 UserScramCredentialRecord: name:str, mechanism:i8, salt:bytes, storedKey:bytes, serverKey:bytes, iterations:i32
    12 FeatureLevelRecord: name:str, featureLevel:i16
    14 ClientQuotaRecord: entity:[]{entityType:str, entityName:str?}, key:str, value:f64, remove:bool
    15 ProducerIdsRecord: brokerId:i32, brokerEpoch:i64, nextProducerId:i64
    17 BrokerRegistrationChangeRecord v0-3: brokerId:i32, brokerEpoch:i64, fenced:i8(tag0),
        inControlledShutdown:i8(v1+ tag1), logDirs:[]uuid(v2+ tag2), cordonedLogDirs:[]uuid?(v3+ tag3)
    18 AccessControlEntryRecord: id:uuid, resourceType:i8, resourceName:str, patternType:i8, principal:str, host:str,
        operation:i8, permissionType:i8
    19 RemoveAccessControlEntryRecord: id:uuid
    20 NoOpRecord:
    21 ZkMigrationStateRecord: zkMigrationState:i8
    22 RemoveUserScramCredentialRecord: name:str, mechanism:i8
    23 BeginTransactionRecord: name:str?(tag0)
    24 EndTransactionRecord:
    25 AbortTransactionRecord: reason:str?(tag0)
    26 RemoveDelegationTokenRecord: tokenId:str
    27 RegisterControllerRecord: controllerId:i32, incarnationId:uuid, zkMigrationReady:bool, endPoints:[]{name:str,
        host:str, port:u16, securityProtocol:i16}, features:[]{name:str, minSupportedVersion:i16,
        maxSupportedVersion:i16}
    28 ClearElrRecord: topicName:str
    29 UnregisterControllerRecord: controllerId:i32
    """
)
"""__cluster_metadata (KRaft). 6 (AccessControlRecord) and 16 (RemoveFeatureLevelRecord) were dropped after the
previews, 13 was never used.
"""

REMOTE_LOG_METADATA = _messages(
    """
    0 RemoteLogSegmentMetadataRecord: remoteLogSegmentId:{topicIdPartition:{name:str, id:uuid, partition:i32}, id:uuid},
        startOffset:i64, endOffset:i64, brokerId:i32, maxTimestampMs:i64, eventTimestampMs:i64,
        segmentLeaderEpochs:[]{leaderEpoch:i32, offset:i64}, segmentSizeInBytes:i32, customMetadata:bytes?,
        remoteLogSegmentState:i8, txnIndexEmpty:bool(tag0)
    1 RemoteLogSegmentMetadataUpdateRecord: remoteLogSegmentId:{topicIdPartition:{name:str, id:uuid, partition:i32},
        id:uuid}, brokerId:i32, eventTimestampMs:i64, customMetadata:bytes?, remoteLogSegmentState:i8
    2 RemotePartitionDeleteMetadataRecord: topicIdPartition:{name:str, id:uuid, partition:i32}, brokerId:i32,
        eventTimestampMs:i64, remotePartitionDeleteState:i8
    3 RemoteLogSegmentMetadataSnapshotRecord: segmentId:uuid, startOffset:i64, endOffset:i64, brokerId:i32,
        maxTimestampMs:i64, eventTimestampMs:i64, segmentLeaderEpochs:[]{leaderEpoch:i32, offset:i64},
        segmentSizeInBytes:i32, customMetadata:bytes?, remoteLogSegmentState:i8, txnIndexEmpty:bool(tag0)
    """
)
"""__remote_log_metadata (KIP-405)."""
