"""Schemas of __cluster_metadata (KRaft) and __remote_log_metadata (KIP-405): the records by apiKey.

Source: the message definitions of Kafka 4.4.0; for the notation see `kseg.formats.schema`.
In __cluster_metadata 6 (AccessControlRecord) and 16 (RemoveFeatureLevelRecord) were dropped after the previews, 13 was
never used.
"""

from kseg.formats.schema import MessageSchema

CLUSTER_METADATA = {
    0: MessageSchema(
        "RegisterBrokerRecord",
        "brokerId:i32, isMigratingZkBroker:bool(v2+), incarnationId:uuid, brokerEpoch:i64, "
        "endPoints:[]{name:str, host:str, port:u16, securityProtocol:i16}, features:[]{name:str, "
        "minSupportedVersion:i16, maxSupportedVersion:i16}, rack:str?, fenced:bool, "
        "inControlledShutdown:bool(v1+), logDirs:[]uuid(v3+ tag0), cordonedLogDirs:[]uuid?(v4+ tag1)",
        highest=4,
    ),
    1: MessageSchema("UnregisterBrokerRecord", "brokerId:i32, brokerEpoch:i64"),
    2: MessageSchema("TopicRecord", "name:str, topicId:uuid"),
    3: MessageSchema(
        "PartitionRecord",
        "partitionId:i32, topicId:uuid, replicas:[]i32, isr:[]i32, removingReplicas:[]i32, "
        "addingReplicas:[]i32, leader:i32, leaderRecoveryState:i8(tag0), leaderEpoch:i32, "
        "partitionEpoch:i32, directories:[]uuid(v1+), eligibleLeaderReplicas:[]i32?(v2+ tag1), "
        "lastKnownElr:[]i32?(v2+ tag2)",
        highest=2,
    ),
    4: MessageSchema("ConfigRecord", "resourceType:i8, resourceName:str, name:str, value:str?"),
    5: MessageSchema(
        "PartitionChangeRecord",
        "partitionId:i32, topicId:uuid, isr:[]i32?(tag0), leader:i32(tag1 =-2), replicas:[]i32?(tag2), "
        "removingReplicas:[]i32?(tag3), addingReplicas:[]i32?(tag4), leaderRecoveryState:i8(tag5 =-1), "
        "directories:[]uuid?(v1+ tag8), eligibleLeaderReplicas:[]i32?(v2+ tag6), lastKnownElr:[]i32?(v2+ "
        "tag7)",
        highest=2,
    ),
    7: MessageSchema("FenceBrokerRecord", "id:i32, epoch:i64"),
    8: MessageSchema("UnfenceBrokerRecord", "id:i32, epoch:i64"),
    9: MessageSchema("RemoveTopicRecord", "topicId:uuid"),
    10: MessageSchema(
        "DelegationTokenRecord",
        "owner:str, requester:str, renewers:[]str, issueTimestamp:i64, maxTimestamp:i64, "
        "expirationTimestamp:i64, tokenId:str",
    ),
    11: MessageSchema(
        "UserScramCredentialRecord",
        "name:str, mechanism:i8, salt:bytes, storedKey:bytes, serverKey:bytes, iterations:i32",
    ),
    12: MessageSchema("FeatureLevelRecord", "name:str, featureLevel:i16"),
    14: MessageSchema(
        "ClientQuotaRecord",
        "entity:[]{entityType:str, entityName:str?}, key:str, value:f64, remove:bool",
    ),
    15: MessageSchema("ProducerIdsRecord", "brokerId:i32, brokerEpoch:i64, nextProducerId:i64"),
    17: MessageSchema(
        "BrokerRegistrationChangeRecord",
        "brokerId:i32, brokerEpoch:i64, fenced:i8(tag0), inControlledShutdown:i8(v1+ tag1), "
        "logDirs:[]uuid(v2+ tag2), cordonedLogDirs:[]uuid?(v3+ tag3)",
        highest=3,
    ),
    18: MessageSchema(
        "AccessControlEntryRecord",
        "id:uuid, resourceType:i8, resourceName:str, patternType:i8, principal:str, host:str, "
        "operation:i8, permissionType:i8",
    ),
    19: MessageSchema("RemoveAccessControlEntryRecord", "id:uuid"),
    20: MessageSchema("NoOpRecord", ""),
    21: MessageSchema("ZkMigrationStateRecord", "zkMigrationState:i8"),
    22: MessageSchema("RemoveUserScramCredentialRecord", "name:str, mechanism:i8"),
    23: MessageSchema("BeginTransactionRecord", "name:str?(tag0)"),
    24: MessageSchema("EndTransactionRecord", ""),
    25: MessageSchema("AbortTransactionRecord", "reason:str?(tag0)"),
    26: MessageSchema("RemoveDelegationTokenRecord", "tokenId:str"),
    27: MessageSchema(
        "RegisterControllerRecord",
        "controllerId:i32, incarnationId:uuid, zkMigrationReady:bool, endPoints:[]{name:str, host:str, "
        "port:u16, securityProtocol:i16}, features:[]{name:str, minSupportedVersion:i16, "
        "maxSupportedVersion:i16}",
    ),
    28: MessageSchema("ClearElrRecord", "topicName:str"),
    29: MessageSchema("UnregisterControllerRecord", "controllerId:i32"),
}

REMOTE_LOG_METADATA = {
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
