"""The messages of Kafka's protocol that are served: their tables, and the frames of requests and responses.

    request    i32 size | i16 key, i16 version, i32 correlation id, client id (i16 length), tags if flexible | message
    response   i32 size | i32 correlation id, tags if flexible (ApiVersions: never)                         | message

Versions, fields and defaults are those of Kafka 4.4.0; tagged fields that are neither asked for nor given are left out.
"""

import re
import struct
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from kseg.formats.schema import MessageError, MessageSchema, Wire

MAX_ITEMS = 1 << 18
"""Array elements and fields of a request: a fetch of 37,000 partitions. Each takes some 100 bytes in Python."""

# An entry for each request (apiKey), in the notation of `kseg.formats.schema`: key, name, versions, first flexible
# version, fields of the request => fields of the response.

_TABLE = """
    0 Produce v3-13 flexible 9: transactionalId:str?, acks:i16, timeoutMs:i32, topicData:[]{name:str(v3-12),
        topicId:uuid(v13+), partitionData:[]{index:i32, records:records?}} => responses:[]{name:str(v3-12),
        topicId:uuid(v13+), partitionResponses:[]{index:i32, errorCode:i16, baseOffset:i64,
        logAppendTimeMs:i64(=-1), logStartOffset:i64(v5+ =-1), recordErrors:[]{batchIndex:i32,
        batchIndexErrorMessage:str?}(v8+), errorMessage:str?(v8+)}}, throttleTimeMs:i32
    1 Fetch v4-18 flexible 12: replicaId:i32(v4-14 =-1), replicaState:{replicaId:i32(=-1),
        replicaEpoch:i64(=-1)}(v15+ tag1), maxWaitMs:i32, minBytes:i32, maxBytes:i32(=2147483647),
        isolationLevel:i8, sessionId:i32(v7+), sessionEpoch:i32(v7+ =-1), topics:[]{topic:str(v4-12),
        topicId:uuid(v13+), partitions:[]{partition:i32, currentLeaderEpoch:i32(v9+ =-1), fetchOffset:i64,
        lastFetchedEpoch:i32(v12+ =-1), logStartOffset:i64(v5+ =-1), partitionMaxBytes:i32}},
        forgottenTopicsData:[]{topic:str(v7-12), topicId:uuid(v13+), partitions:[]i32}(v7+), rackId:str(v11+) =>
        throttleTimeMs:i32, errorCode:i16(v7+), sessionId:i32(v7+), responses:[]{topic:str(v4-12),
        topicId:uuid(v13+), partitions:[]{partitionIndex:i32, errorCode:i16, highWatermark:i64,
        lastStableOffset:i64(=-1), logStartOffset:i64(v5+ =-1), abortedTransactions:[]{producerId:i64,
        firstOffset:i64}?, preferredReadReplica:i32(v11+ =-1), records:records?}}
    2 ListOffsets v1-11 flexible 6: replicaId:i32, isolationLevel:i8(v2+), topics:[]{name:str,
        partitions:[]{partitionIndex:i32, currentLeaderEpoch:i32(v4+ =-1), timestamp:i64}}, timeoutMs:i32(v10+) =>
        throttleTimeMs:i32(v2+), topics:[]{name:str, partitions:[]{partitionIndex:i32, errorCode:i16,
        timestamp:i64(=-1), offset:i64(=-1), leaderEpoch:i32(v4+ =-1)}}
    3 Metadata v0-13 flexible 9: topics:[]{topicId:uuid(v10+), name:str?}?, allowAutoTopicCreation:bool(v4+ =true),
        includeClusterAuthorizedOperations:bool(v8-10), includeTopicAuthorizedOperations:bool(v8+) =>
        throttleTimeMs:i32(v3+), brokers:[]{nodeId:i32, host:str, port:i32, rack:str?(v1+)}, clusterId:str?(v2+),
        controllerId:i32(v1+ =-1), topics:[]{errorCode:i16, name:str?, topicId:uuid(v10+), isInternal:bool(v1+),
        partitions:[]{errorCode:i16, partitionIndex:i32, leaderId:i32, leaderEpoch:i32(v7+ =-1), replicaNodes:[]i32,
        isrNodes:[]i32, offlineReplicas:[]i32(v5+)}, topicAuthorizedOperations:i32(v8+ =-2147483648)},
        clusterAuthorizedOperations:i32(v8-10 =-2147483648), errorCode:i16(v13+)
    8 OffsetCommit v2-10 flexible 8: groupId:str, generationIdOrMemberEpoch:i32(=-1), memberId:str,
        groupInstanceId:str?(v7+), retentionTimeMs:i64(v2-4 =-1), topics:[]{name:str(v2-9), topicId:uuid(v10+),
        partitions:[]{partitionIndex:i32, committedOffset:i64, committedLeaderEpoch:i32(v6+ =-1),
        committedMetadata:str?}} => throttleTimeMs:i32(v3+), topics:[]{name:str(v2-9), topicId:uuid(v10+),
        partitions:[]{partitionIndex:i32, errorCode:i16}}
    9 OffsetFetch v1-10 flexible 6: groupId:str(v1-7), topics:[]{name:str, partitionIndexes:[]i32}?(v1-7),
        groups:[]{groupId:str, memberId:str?(v9+), memberEpoch:i32(v9+ =-1), topics:[]{name:str(v8-9),
        topicId:uuid(v10+), partitionIndexes:[]i32}?}(v8+), requireStable:bool(v7+) => throttleTimeMs:i32(v3+),
        topics:[]{name:str, partitions:[]{partitionIndex:i32, committedOffset:i64, committedLeaderEpoch:i32(v5+
        =-1), metadata:str?, errorCode:i16}}(v1-7), errorCode:i16(v2-7), groups:[]{groupId:str,
        topics:[]{name:str(v8-9), topicId:uuid(v10+), partitions:[]{partitionIndex:i32, committedOffset:i64,
        committedLeaderEpoch:i32(=-1), metadata:str?, errorCode:i16}}, errorCode:i16}(v8+)
    10 FindCoordinator v0-6 flexible 3: key:str(v0-3), keyType:i8(v1+), coordinatorKeys:[]str(v4+) =>
        throttleTimeMs:i32(v1+), errorCode:i16(v0-3), errorMessage:str?(v1-3), nodeId:i32(v0-3), host:str(v0-3),
        port:i32(v0-3), coordinators:[]{key:str, nodeId:i32, host:str, port:i32, errorCode:i16,
        errorMessage:str?}(v4+)
    11 JoinGroup v0-9 flexible 6: groupId:str, sessionTimeoutMs:i32, rebalanceTimeoutMs:i32(v1+ =-1), memberId:str,
        groupInstanceId:str?(v5+), protocolType:str, protocols:[]{name:str, metadata:bytes}, reason:str?(v8+) =>
        throttleTimeMs:i32(v2+), errorCode:i16, generationId:i32(=-1), protocolType:str?(v7+), protocolName:str?,
        leader:str, skipAssignment:bool(v9+), memberId:str, members:[]{memberId:str, groupInstanceId:str?(v5+),
        metadata:bytes}
    12 Heartbeat v0-4 flexible 4: groupId:str, generationId:i32, memberId:str, groupInstanceId:str?(v3+) =>
        throttleTimeMs:i32(v1+), errorCode:i16
    13 LeaveGroup v0-5 flexible 4: groupId:str, memberId:str(v0-2), members:[]{memberId:str, groupInstanceId:str?,
        reason:str?(v5+)}(v3+) => throttleTimeMs:i32(v1+), errorCode:i16, members:[]{memberId:str,
        groupInstanceId:str?, errorCode:i16}(v3+)
    14 SyncGroup v0-5 flexible 4: groupId:str, generationId:i32, memberId:str, groupInstanceId:str?(v3+),
        protocolType:str?(v5+), protocolName:str?(v5+), assignments:[]{memberId:str, assignment:bytes} =>
        throttleTimeMs:i32(v1+), errorCode:i16, protocolType:str?(v5+), protocolName:str?(v5+), assignment:bytes
    15 DescribeGroups v0-6 flexible 5: groups:[]str, includeAuthorizedOperations:bool(v3+) =>
        throttleTimeMs:i32(v1+), groups:[]{errorCode:i16, errorMessage:str?(v6+), groupId:str, groupState:str,
        protocolType:str, protocolData:str, members:[]{memberId:str, groupInstanceId:str?(v4+), clientId:str,
        clientHost:str, memberMetadata:bytes, memberAssignment:bytes}, authorizedOperations:i32(v3+ =-2147483648)}
    16 ListGroups v0-5 flexible 3: statesFilter:[]str(v4+), typesFilter:[]str(v5+) => throttleTimeMs:i32(v1+),
        errorCode:i16, groups:[]{groupId:str, protocolType:str, groupState:str(v4+), groupType:str(v5+)}
    18 ApiVersions v0-5 flexible 3: clientSoftwareName:str(v3+), clientSoftwareVersion:str(v3+),
        clusterId:str?(v5+), nodeId:i32(v5+ =-1) => errorCode:i16, apiKeys:[]{apiKey:i16, minVersion:i16,
        maxVersion:i16}, throttleTimeMs:i32(v1+)
    19 CreateTopics v2-7 flexible 5: topics:[]{name:str, numPartitions:i32, replicationFactor:i16,
        assignments:[]{partitionIndex:i32, brokerIds:[]i32}, configs:[]{name:str, value:str?}},
        timeoutMs:i32(=60000), validateOnly:bool => throttleTimeMs:i32, topics:[]{name:str, topicId:uuid(v7+),
        errorCode:i16, errorMessage:str?, numPartitions:i32(v5+ =-1), replicationFactor:i16(v5+ =-1),
        configs:[]{name:str, value:str?, readOnly:bool, configSource:i8(=-1), isSensitive:bool}?(v5+)}
    20 DeleteTopics v1-6 flexible 4: topics:[]{name:str?, topicId:uuid}(v6+), topicNames:[]str(v1-5), timeoutMs:i32
        => throttleTimeMs:i32, responses:[]{name:str?, topicId:uuid(v6+), errorCode:i16, errorMessage:str?(v5+)}
    21 DeleteRecords v0-2 flexible 2: topics:[]{name:str, partitions:[]{partitionIndex:i32, offset:i64}},
        timeoutMs:i32 => throttleTimeMs:i32, topics:[]{name:str, partitions:[]{partitionIndex:i32, lowWatermark:i64,
        errorCode:i16}}
    22 InitProducerId v0-5 flexible 2: transactionalId:str?, transactionTimeoutMs:i32, producerId:i64(v3+ =-1),
        producerEpoch:i16(v3+ =-1) => throttleTimeMs:i32, errorCode:i16, producerId:i64(=-1), producerEpoch:i16
    23 OffsetForLeaderEpoch v2-4 flexible 4: replicaId:i32(v3+ =-2), topics:[]{topic:str,
        partitions:[]{partition:i32, currentLeaderEpoch:i32(=-1), leaderEpoch:i32}} => throttleTimeMs:i32,
        topics:[]{topic:str, partitions:[]{errorCode:i16, partition:i32, leaderEpoch:i32(=-1), endOffset:i64(=-1)}}
    29 DescribeAcls v1-3 flexible 2: resourceTypeFilter:i8, resourceNameFilter:str?, patternTypeFilter:i8(=3),
        principalFilter:str?, hostFilter:str?, operation:i8, permissionType:i8 => throttleTimeMs:i32, errorCode:i16,
        errorMessage:str?, resources:[]{resourceType:i8, resourceName:str, patternType:i8(=3),
        acls:[]{principal:str, host:str, operation:i8, permissionType:i8}}
    32 DescribeConfigs v1-4 flexible 4: resources:[]{resourceType:i8, resourceName:str, configurationKeys:[]str?},
        includeSynonyms:bool, includeDocumentation:bool(v3+) => throttleTimeMs:i32, results:[]{errorCode:i16,
        errorMessage:str?, resourceType:i8, resourceName:str, configs:[]{name:str, value:str?, readOnly:bool,
        configSource:i8(=-1), isSensitive:bool, synonyms:[]{name:str, value:str?, source:i8}, configType:i8(v3+),
        documentation:str?(v3+)}}
    35 DescribeLogDirs v1-5 flexible 2: topics:[]{topic:str, partitions:[]i32}? => throttleTimeMs:i32,
        errorCode:i16(v3+), results:[]{errorCode:i16, logDir:str, topics:[]{name:str,
        partitions:[]{partitionIndex:i32, partitionSize:i64, offsetLag:i64, isFutureKey:bool}}, totalBytes:i64(v4+
        =-1), usableBytes:i64(v4+ =-1), isCordoned:bool(v5+ =false)}
    37 CreatePartitions v0-3 flexible 2: topics:[]{name:str, count:i32, assignments:[]{brokerIds:[]i32}?},
        timeoutMs:i32, validateOnly:bool => throttleTimeMs:i32, results:[]{name:str, errorCode:i16,
        errorMessage:str?}
    42 DeleteGroups v0-3 flexible 2: groupsNames:[]str => throttleTimeMs:i32, results:[]{groupId:str, errorCode:i16,
        errorMessage:str?(v3+)}
    44 IncrementalAlterConfigs v0-1 flexible 1: resources:[]{resourceType:i8, resourceName:str, configs:[]{name:str,
        configOperation:i8, value:str?}}, validateOnly:bool => throttleTimeMs:i32, responses:[]{errorCode:i16,
        errorMessage:str?, resourceType:i8, resourceName:str}
    47 OffsetDelete v0-0 flexible never: groupId:str, topics:[]{name:str, partitions:[]{partitionIndex:i32}} =>
        errorCode:i16, throttleTimeMs:i32, topics:[]{name:str, partitions:[]{partitionIndex:i32, errorCode:i16}}
    60 DescribeCluster v0-2 flexible 0: includeClusterAuthorizedOperations:bool, endpointType:i8(v1+ =1),
        includeFencedBrokers:bool(v2+) => throttleTimeMs:i32, errorCode:i16, errorMessage:str?, endpointType:i8(v1+
        =1), clusterId:str, controllerId:i32(=-1), brokers:[]{brokerId:i32, host:str, port:i32, rack:str?,
        isFenced:bool(v2+)}, clusterAuthorizedOperations:i32(=-2147483648)
    75 DescribeTopicPartitions v0-0 flexible 0: topics:[]{name:str}, responsePartitionLimit:i32(=2000),
        cursor:{topicName:str, partitionIndex:i32}? => throttleTimeMs:i32, topics:[]{errorCode:i16, name:str?,
        topicId:uuid, isInternal:bool, partitions:[]{errorCode:i16, partitionIndex:i32, leaderId:i32,
        leaderEpoch:i32(=-1), replicaNodes:[]i32, isrNodes:[]i32, eligibleLeaderReplicas:[]i32?,
        lastKnownElr:[]i32?, offlineReplicas:[]i32}, topicAuthorizedOperations:i32(=-2147483648)},
        nextCursor:{topicName:str, partitionIndex:i32}?
"""
_ENTRY = re.compile(r"^    (\d+) (\w+) v(\d+)-(\d+) flexible (\w+):", re.MULTILINE)


class Api(NamedTuple):
    """One kind of request, with the versions that are served."""

    key: int
    name: str
    lowest: int
    highest: int
    request: MessageSchema
    response: MessageSchema

    def is_flexible(self, version: int) -> bool:
        return self.request.flexible is not None and version >= self.request.flexible


@cache
def apis() -> Mapping[int, Api]:
    """Returns all kinds of requests by their keys."""
    _, *found = _ENTRY.split(_TABLE)
    by_key = {}
    for key, name, lowest, highest, flexible, fields in zip(*[iter(found)] * 6, strict=True):
        first, last = None if flexible == "never" else int(flexible), int(highest)
        messages = (MessageSchema(name, text, last, first) for text in " ".join(fields.split()).split("=> "))
        by_key[int(key)] = Api(int(key), name, int(lowest), last, *messages)
    return by_key


API_VERSIONS, _UNSUPPORTED_VERSION = 18, 35
_REQUEST = struct.Struct(">hhi")
_LENGTH, _SIZE, _RESPONSE = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">ii")


class Request(NamedTuple):
    """A request; ``values``: the fields of the message, without those that the version lacks."""

    api: Api
    version: int
    correlation_id: int
    client_id: str
    values: dict[str, Any]


def read_request(data: bytes) -> Request:
    """Reads a request without its size. Returns a request for ApiVersions in an unknown version as one in version 0,
    with the error in its values. Raises MessageError."""
    if len(data) < _REQUEST.size + _LENGTH.size:
        raise MessageError(f"a request of {len(data)} bytes")
    key, version, correlation_id = _REQUEST.unpack_from(data)
    api = apis().get(key)
    if api is None or not api.lowest <= version <= api.highest:
        if api is not None and key == API_VERSIONS:
            return Request(api, 0, correlation_id, "", {"errorCode": _UNSUPPORTED_VERSION})
        raise MessageError(f"{'api' if api is None else api.name} {key} in version {version}")
    wire = Wire(data, _REQUEST.size)
    client_id = wire.array(max(wire.number(_LENGTH), 0)).decode("utf-8", "replace")
    if api.is_flexible(version):
        for _ in range(min(wire.uvarint(), wire.remaining)):
            wire.uvarint()
            wire.array(wire.uvarint())
    values, _ = api.request.read(data, version, wire.position, MAX_ITEMS)
    return Request(api, version, correlation_id, client_id, values)


def response_parts(request: Request, values: dict[str, Any]) -> list[Any]:
    """Returns the frame of a response as bytes and, for fields of records, their values."""
    parts = request.api.response.write_parts(values, request.version)
    tags = b"\0" if request.api.is_flexible(request.version) and request.api.key != API_VERSIONS else b""
    size = _RESPONSE.size - _SIZE.size + len(tags) + sum(map(len, parts))
    return [_RESPONSE.pack(size, request.correlation_id) + tags + parts[0], *parts[1:]]


def served_versions() -> list[dict[str, int]]:
    """Returns the answer to ApiVersions. Produce is announced from 0 on, as by Kafka: librdkafka decides by it which
    format it asks for (KIP-896)."""
    return [
        {"apiKey": api.key, "minVersion": 0 if api.name == "Produce" else api.lowest, "maxVersion": api.highest}
        for api in apis().values()
    ]
