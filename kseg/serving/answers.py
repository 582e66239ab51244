"""The answer to each kind of request. What a read-only broker cannot do is refused with a clear error.

Handlers are methods by the name of the request. Those that read logs are made of `Steps`, which run on threads.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from kseg.errors import KsegError, text_of
from kseg.formats.schema import ZERO_UUID
from kseg.node.coordinators import Partition
from kseg.serving.catalog import Catalog, ServedTopic
from kseg.serving.groups import EMPTY, STABLE, Answer, Commit, GroupCoordinator, commits_in
from kseg.serving.logs import EARLIEST, EARLIEST_LOCAL, LATEST, NONE, OUT_OF_RANGE, FetchAnswer, Records, Steps, step
from kseg.serving.protocol import Request, served_versions

READ_ONLY = "kseg serve is read-only: nothing is ever written"
UNKNOWN_TOPIC, INVALID_REQUEST, CLUSTER_DENIED, POLICY_VIOLATION, TRANSACTIONAL_ID_DENIED, SECURITY_DISABLED = (
    3, 42, 31, 44, 53, 54,
)  # fmt: skip
STORAGE_ERROR, GROUP_NOT_FOUND, UNKNOWN_SESSION, UNSUPPORTED_COMPRESSION, UNKNOWN_TOPIC_ID = 56, 69, 70, 76, 100
"""Kafka's error codes."""
NODE = 0
MAX_RESPONSE_BYTES = 64 << 20
MAX_WAIT_MS = 60_000
WAIT = "waitSeconds"
_NO_ID = -1
_PARTS_AT_ONCE = 64
"""So many partitions of a fetch are found in one step."""
_GROUP_KEY, _SHARE_KEY = 0, 2
"""Types of keys in FindCoordinator; 1 is that of transactions."""
_TOPIC = 2

Work = Callable[[Steps[Any]], Awaitable[Any]]
"""Runs steps on threads."""


class Peer(NamedTuple):
    """A connection: the host of its client, and the address by which it came, or the one that is advertised."""

    client_host: str
    host: str
    port: int


class Answers:
    """Answers requests from a catalog. ``tell`` gets errors of files."""

    def __init__(self, catalog: Catalog, cluster_id: str, work: Work, tell: Callable[[str], None]) -> None:
        self.catalog, self.cluster_id, self.groups = catalog, cluster_id, GroupCoordinator()
        self._work, self._tell = work, tell
        self._stored: asyncio.Future[Any] | None = None
        self._told = set[str]()

    async def of(self, request: Request, peer: Peer) -> dict[str, Any] | Answer | None:
        """Returns the fields of the response; WAIT among them: the seconds for which it is held back. An `Answer` if it
        has to wait for other clients; None if the connection is to be closed without a response."""
        if (refuse := _REFUSALS.get(request.api.name)) is not None:
            return refuse(request.values)
        handler = getattr(self, f"_{request.api.name}")
        found: dict[str, Any] | Answer | None = await handler(request, peer)
        return found

    # Topics, offsets, records.

    async def _ApiVersions(self, request: Request, _peer: Peer) -> dict[str, Any]:
        return {"errorCode": request.values.get("errorCode", NONE), "apiKeys": served_versions()}

    async def _Metadata(self, request: Request, peer: Peer) -> dict[str, Any]:
        topics = request.values["topics"]
        is_all = topics is None or (request.version == 0 and not topics)
        found: list[dict[str, Any]] = await self._work(self._topics(None if is_all else topics))
        return {
            "brokers": [{"nodeId": NODE, "host": peer.host, "port": peer.port, "rack": None}],
            "clusterId": self.cluster_id, "controllerId": NODE, "topics": found,
        }  # fmt: skip

    def _topics(self, asked: list[dict[str, Any]] | None) -> Steps[list[dict[str, Any]]]:
        """Returns the topics that are asked for by name or id, each once; None: all."""
        if asked is None:
            asked = [{"name": name} for name in self.catalog.topics]
        found = []
        for name, topic_id in dict.fromkeys((each["name"], each.get("topicId", ZERO_UUID)) for each in asked):
            topic = self.catalog.topics.get(name) if name is not None else self.catalog.by_id(topic_id)
            error = NONE if topic is not None else UNKNOWN_TOPIC if name is not None else UNKNOWN_TOPIC_ID
            found.append(
                {
                    "errorCode": error, "name": topic.name if topic is not None else name,
                    "topicId": self.catalog.id_of(topic) if topic is not None else topic_id,
                    "isInternal": topic is not None and topic.name.startswith("__"),
                    "partitions": [] if topic is None else [_partition(n) for n in range(topic.partitions)],
                }
            )  # fmt: skip
            yield
        return found

    async def _DescribeTopicPartitions(self, request: Request, _peer: Peer) -> dict[str, Any]:
        names = sorted({each["name"] for each in request.values["topics"]} or self.catalog.topics)  # none stand for all
        cursor, limit = request.values["cursor"], min(max(request.values["responsePartitionLimit"], 1), 2000)
        start, after = (cursor["topicName"], cursor["partitionIndex"]) if cursor else ("", 0)
        found: list[dict[str, Any]] = []
        for each in await self._work(self._topics([{"name": name} for name in names if name >= start])):
            parts = each["partitions"][after if each["name"] == start else 0 :]
            each["partitions"] = parts[:limit]
            limit -= len(each["partitions"])
            found.append(each)
            if len(each["partitions"]) < len(parts):
                at = parts[len(each["partitions"])]["partitionIndex"]
                return {"topics": found, "nextCursor": {"topicName": each["name"], "partitionIndex": at}}
        return {"topics": found, "nextCursor": None}

    async def _DescribeCluster(self, request: Request, peer: Peer) -> dict[str, Any]:
        return {
            "errorCode": NONE, "endpointType": request.values.get("endpointType", 1),
            "clusterId": self.cluster_id, "controllerId": NODE,
            "brokers": [{"brokerId": NODE, "host": peer.host, "port": peer.port, "rack": None}],
        }  # fmt: skip

    async def _ListOffsets(self, request: Request, _peer: Peer) -> dict[str, Any]:
        return {"topics": await self._work(self._offsets(request))}

    def _offsets(self, request: Request) -> Steps[list[dict[str, Any]]]:
        is_committed, is_follower = request.values.get("isolationLevel", 0) == 1, request.values["replicaId"] >= 0
        topics = []
        for topic in request.values["topics"]:
            parts = []
            for each in topic["partitions"]:
                number = each["partitionIndex"]
                found = {"partitionIndex": number, "errorCode": NONE}
                log = self.catalog.log(topic["name"], number)
                try:
                    if is_follower:
                        found["errorCode"] = CLUSTER_DENIED
                    elif log is not None:
                        offset = yield from log.find_offset(each["timestamp"], is_committed)
                        found |= {"timestamp": offset.timestamp, "offset": offset.offset}
                    elif not _is_listed(self.catalog.topics.get(topic["name"]), number):
                        found["errorCode"] = UNKNOWN_TOPIC
                    elif each["timestamp"] in (LATEST, EARLIEST, EARLIEST_LOCAL):
                        found["offset"] = 0
                except (KsegError, OSError) as error:
                    found["errorCode"] = self._failed(error)
                parts.append(found)
                yield
            topics.append({"name": topic["name"], "partitions": parts})
        return topics

    async def _Fetch(self, request: Request, _peer: Peer) -> dict[str, Any]:
        values = request.values
        replica = values.get("replicaId", values.get("replicaState", {}).get("replicaId", -1))
        if values.get("sessionId", 0):
            return {"errorCode": UNKNOWN_SESSION, "responses": []}
        if replica >= 0:
            return {"errorCode": CLUSTER_DENIED, "responses": []}
        steps = self._fetched(request)
        try:
            next(steps)  # what is scanned is found without a file: a thread would take longer to begin
            topics = await self._work(steps)
        except StopIteration as end:
            topics = end.value
        seconds = 0.0
        parts = [each for topic in topics for each in topic["partitions"]]
        if not any(each["errorCode"] or each["records"] for each in parts) and values["minBytes"] > 0:
            seconds = min(max(values["maxWaitMs"], 0), MAX_WAIT_MS) / 1000  # nothing is ever appended
        return {"errorCode": NONE, "sessionId": 0, "responses": topics, WAIT: seconds}

    def _fetched(self, request: Request) -> Steps[list[dict[str, Any]]]:
        """Returns the answers by topics. Reads no file before the first yield."""
        values, topics, done = request.values, [], 0
        left = min(max(values["maxBytes"], 0), MAX_RESPONSE_BYTES)
        is_committed, takes_one = values["isolationLevel"] == 1, True
        for asked in values["topics"]:
            if "topicId" in asked and not self.catalog.is_known(asked["topicId"]):
                yield
            topic = (
                self.catalog.by_id(asked["topicId"]) if "topicId" in asked else self.catalog.topics.get(asked["topic"])
            )
            parts = []
            for each in asked["partitions"]:
                number, offset = each["partition"], each["fetchOffset"]
                limit = min(max(each["partitionMaxBytes"], 0), left)
                log = None if topic is None else topic.logs.get(number)
                try:
                    if log is not None:
                        found = yield from log.fetch(offset, limit, is_committed, takes_one)
                    else:
                        unknown = UNKNOWN_TOPIC_ID if "topicId" in asked and topic is None else UNKNOWN_TOPIC
                        error = unknown if not _is_listed(topic, number) else OUT_OF_RANGE if offset else NONE
                        found = _empty_answer(error)
                except (KsegError, OSError) as error:
                    found = _empty_answer(self._failed(error))
                if log is not None and found.records and request.version < 10 and log.starts_with_zstd(offset):
                    found = _empty_answer(UNSUPPORTED_COMPRESSION)
                left, takes_one = left - len(found.records), takes_one and not found.records
                parts.append(
                    {
                        "partitionIndex": number, "errorCode": found.error_code, "highWatermark": found.high_watermark,
                        "lastStableOffset": found.last_stable_offset, "logStartOffset": found.log_start,
                        "abortedTransactions": None if found.aborted is None else [
                            {"producerId": producer_id, "firstOffset": first} for producer_id, first in found.aborted
                        ],
                        "records": found.records,
                    }
                )  # fmt: skip
                done += 1
                if done % _PARTS_AT_ONCE == 0:
                    yield
            topics.append({name: asked[name] for name in ("topic", "topicId") if name in asked} | {"partitions": parts})
        return topics

    def _failed(self, error: BaseException) -> int:
        """Tells of an error of a file, once, and returns its code."""
        if (text := text_of(error)) not in self._told:
            self._told.add(text)
            self._tell(text)
        return STORAGE_ERROR

    # Groups.

    async def _FindCoordinator(self, request: Request, peer: Peer) -> dict[str, Any]:
        values = request.values
        error = INVALID_REQUEST if values.get("keyType", _GROUP_KEY) >= _SHARE_KEY else NONE
        here = {"nodeId": _NO_ID, "host": "", "port": -1} if error else {
            "nodeId": NODE, "host": peer.host, "port": peer.port
        }  # fmt: skip
        here |= {"errorCode": error, "errorMessage": "share groups are not served" if error else None}
        return {**here, "coordinators": [{"key": key, **here} for key in values.get("coordinatorKeys", ())]}

    async def _JoinGroup(self, request: Request, peer: Peer) -> Answer:
        return self.groups.join(request.values, request.client_id, f"/{peer.client_host}")

    async def _SyncGroup(self, request: Request, _peer: Peer) -> Answer:
        return self.groups.sync(request.values)

    async def _Heartbeat(self, request: Request, _peer: Peer) -> dict[str, Any]:
        return self.groups.heartbeat(request.values)

    async def _LeaveGroup(self, request: Request, _peer: Peer) -> dict[str, Any]:
        return self.groups.leave(request.values)

    async def _read_stored(self) -> None:
        """Reads what real groups have committed, once."""
        if self._stored is None:
            self._stored = asyncio.ensure_future(self._work(commits_in(self.catalog.offsets_logs)))
        self.groups.stored = await asyncio.shield(self._stored)

    async def _OffsetCommit(self, request: Request, _peer: Peer) -> dict[str, Any]:
        commits, unknown = dict[Partition, Commit](), dict[Partition, int]()
        topics = []
        for topic in request.values["topics"]:
            name, given = await self._name_of(topic)
            topics.append((given, name, [each["partitionIndex"] for each in topic["partitions"]]))
            served = self.catalog.topics.get(name)
            for each in topic["partitions"]:
                place = name, each["partitionIndex"]
                if not _is_listed(served, place[1]):
                    unknown[place] = UNKNOWN_TOPIC_ID if "topicId" in topic and served is None else UNKNOWN_TOPIC
                    continue
                epoch = each.get("committedLeaderEpoch", -1)
                commits[place] = Commit(each["committedOffset"], epoch, each["committedMetadata"])
        errors = self.groups.commit(request.values, commits) | unknown
        return {
            "topics": [
                {**given, "partitions": [{"partitionIndex": n, "errorCode": errors[name, n]} for n in numbers]}
                for given, name, numbers in topics
            ]
        }

    async def _name_of(self, topic: dict[str, Any]) -> tuple[str, dict[str, str]]:
        """Returns the name of a topic in a request, and the field that names it there."""
        if "topicId" not in topic:
            return topic["name"], {"name": topic["name"]}
        found: ServedTopic | None = await self._work(step(lambda: self.catalog.by_id(topic["topicId"])))
        return "" if found is None else found.name, {"topicId": topic["topicId"]}

    async def _OffsetFetch(self, request: Request, _peer: Peer) -> dict[str, Any]:
        await self._read_stored()
        values = request.values
        if "groups" not in values:
            return {"errorCode": NONE, "topics": await self._committed(values["groupId"], values["topics"], False)}
        groups = []
        for each in values["groups"]:
            topics = await self._committed(each["groupId"], each["topics"], request.version >= 10)
            groups.append({"groupId": each["groupId"], "topics": topics, "errorCode": NONE})
        return {"groups": groups}

    async def _committed(self, group_id: str, asked: list[dict[str, Any]] | None, by_id: bool) -> list[dict[str, Any]]:
        """Returns the offsets of a group, for topics that are ``asked`` for; None: all."""
        names = {topic for topic, _ in self.groups.stored.get(group_id, {})} & self.catalog.topics.keys()
        ids = step(lambda: {name: self.catalog.id_of(self.catalog.topics[name]) for name in names})
        offsets = self.groups.offsets(group_id, await self._work(ids))
        if asked is None:
            by_topic: dict[str, list[int]] = {}
            for name, number in sorted(offsets):  # tools ask for the end of each, and fail at one that is unknown
                if _is_listed(self.catalog.topics.get(name), number):
                    by_topic.setdefault(name, []).append(number)
            asked = [
                {"name": name, "partitionIndexes": numbers} if not by_id else
                {"topicId": self.catalog.id_of(self.catalog.topics[name]), "partitionIndexes": numbers}
                for name, numbers in by_topic.items()
            ]  # fmt: skip
        found = []
        for topic in asked:
            name, given = await self._name_of(topic)
            parts = []
            for number in topic["partitionIndexes"]:
                commit = offsets.get((name, number), Commit(-1))
                error = UNKNOWN_TOPIC_ID if by_id and not name else NONE
                parts.append(
                    {
                        "partitionIndex": number, "committedOffset": commit.offset, "metadata": commit.metadata or "",
                        "committedLeaderEpoch": commit.leader_epoch, "errorCode": error,
                    }
                )  # fmt: skip
            found.append({**given, "partitions": parts})
        return found

    async def _ListGroups(self, request: Request, _peer: Peer) -> dict[str, Any]:
        await self._read_stored()
        states = {each.lower() for each in request.values.get("statesFilter", ())}
        kinds = {each.lower() for each in request.values.get("typesFilter", ())}
        return {
            "errorCode": NONE,
            "groups": [
                {"groupId": name, "protocolType": kind, "groupState": state, "groupType": "classic"}
                for name, kind, state in self.groups.states()
                if (not states or state.lower() in states) and (not kinds or "classic" in kinds)
            ],
        }

    async def _DescribeGroups(self, request: Request, _peer: Peer) -> dict[str, Any]:
        await self._read_stored()
        return {"groups": [self._group(name, request.version) for name in dict.fromkeys(request.values["groups"])]}

    def _group(self, name: str, version: int) -> dict[str, Any]:
        if not self.groups.is_known(name):
            error = {"errorCode": GROUP_NOT_FOUND, "errorMessage": f"Group {name} not found."} if version >= 6 else {}
            return {"errorCode": NONE, "groupId": name, "groupState": "Dead", "members": [], **error}
        group = self.groups.of(name)
        return {
            "errorCode": NONE, "groupId": name, "groupState": group.state,
            "protocolType": group.protocol_type or "consumer",
            "protocolData": group.protocol if group.state == STABLE else "",
            "members": [
                {
                    "memberId": each.id, "groupInstanceId": each.instance_id, "clientId": each.client_id,
                    "clientHost": each.host, "memberMetadata": each.protocols.get(group.protocol, ""),
                    "memberAssignment": each.assignment,
                }
                for each in group.members.values() if group.state != EMPTY
            ],
        }  # fmt: skip

    # What is told of the node.

    async def _DescribeConfigs(self, request: Request, _peer: Peer) -> dict[str, Any]:
        found = []
        for each in request.values["resources"]:
            is_unknown = each["resourceType"] == _TOPIC and each["resourceName"] not in self.catalog.topics
            found.append({**each, "errorCode": UNKNOWN_TOPIC if is_unknown else NONE, "configs": []})
        return {"results": found}

    async def _DescribeLogDirs(self, request: Request, _peer: Peer) -> dict[str, Any]:
        return {"errorCode": NONE, "results": await self._work(self._sizes(request.values["topics"]))}

    def _sizes(self, asked: list[dict[str, Any]] | None) -> Steps[list[dict[str, Any]]]:
        """Returns the log directories, each with the sizes of its partitions."""
        served = [
            (name, number, log) for name, topic in self.catalog.topics.items() for number, log in topic.logs.items()
        ]
        found: dict[str, dict[str, list[dict[str, Any]]]] = {log.directory: {} for _, _, log in served}
        if asked is None:
            asked = [{"topic": name, "partitions": [number]} for name, number, _ in served]
        for each in asked:
            for number in each["partitions"]:
                log = self.catalog.log(each["topic"], number)
                if log is None:
                    continue
                try:
                    size = log.size()
                except (KsegError, OSError) as error:
                    self._failed(error)
                    continue
                part = {"partitionIndex": number, "partitionSize": size, "offsetLag": 0, "isFutureKey": False}
                found[log.directory].setdefault(each["topic"], []).append(part)
                yield
        return [
            {
                "errorCode": NONE, "logDir": name, "usableBytes": 0,
                "topics": [{"name": topic, "partitions": parts} for topic, parts in topics.items()],
                "totalBytes": sum(part["partitionSize"] for parts in topics.values() for part in parts),
            }
            for name, topics in found.items()
        ]  # fmt: skip


def _partition(number: int) -> dict[str, Any]:
    return {
        "errorCode": NONE, "partitionIndex": number, "leaderId": NODE, "replicaNodes": [NODE], "isrNodes": [NODE],
        "offlineReplicas": [], "eligibleLeaderReplicas": [], "lastKnownElr": [],
    }  # fmt: skip


def _is_listed(topic: ServedTopic | None, number: int) -> bool:
    """Whether the metadata for clients list a partition: one that is missing is served as an empty one."""
    return topic is not None and 0 <= number < topic.partitions


def _empty_answer(error: int) -> FetchAnswer:
    end = 0 if error == NONE else -1
    return FetchAnswer(error, end, end, 0 if error == NONE else -1, None, Records(()))


def _by_partition(
    topics: list[dict[str, Any]], answer: dict[str, Any], asked: str = "partitions", told: str = "partitions"
) -> list[dict[str, Any]]:
    """Returns the topics of a request with one answer for all partitions. ``asked`` and ``told``: the fields of the
    partitions in request and response; other fields of the request are not written if the response lacks them."""
    return [{**topic, told: [{**each, **answer} for each in topic[asked]]} for topic in topics]


def _not_produced(values: dict[str, Any]) -> dict[str, Any] | None:
    if values["acks"] == 0:
        return None  # no response is expected: closing the connection is the only sign there is
    refused = {**_REFUSED, "baseOffset": -1}
    return {"responses": _by_partition(values["topicData"], refused, "partitionData", "partitionResponses")}


def _not_deleted(values: dict[str, Any]) -> dict[str, Any]:
    named = [{"name": name, "topicId": ZERO_UUID} for name in values.get("topicNames", ())]
    return {"responses": [{**each, **_REFUSED} for each in [*values.get("topics", ()), *named]]}


_REFUSED = {"errorCode": POLICY_VIOLATION, "errorMessage": READ_ONLY}
_REFUSALS: dict[str, Callable[[dict[str, Any]], dict[str, Any] | None]] = {
    "CreatePartitions": lambda values: {"results": [{**each, **_REFUSED} for each in values["topics"]]},
    "CreateTopics": lambda values: {
        "topics": [{"name": each["name"], "topicId": ZERO_UUID, **_REFUSED} for each in values["topics"]]
    },
    "DeleteGroups": lambda values: {"results": [{"groupId": name, **_REFUSED} for name in values["groupsNames"]]},
    "DeleteRecords": lambda values: {"topics": _by_partition(values["topics"], {**_REFUSED, "lowWatermark": -1})},
    "DeleteTopics": _not_deleted,
    "DescribeAcls": lambda _: {
        "errorCode": SECURITY_DISABLED, "errorMessage": "kseg serve has no authorizer", "resources": []
    },
    "IncrementalAlterConfigs": lambda values: {"responses": [{**each, **_REFUSED} for each in values["resources"]]},
    "InitProducerId": lambda values: {
        "errorCode": CLUSTER_DENIED if values["transactionalId"] is None else TRANSACTIONAL_ID_DENIED,
        "producerEpoch": -1,
    },
    "OffsetDelete": lambda values: {
        "errorCode": POLICY_VIOLATION, "topics": _by_partition(values["topics"], _REFUSED)
    },
    # Without an epoch and offset, as of logs that have none.
    "OffsetForLeaderEpoch": lambda values: {
        "topics": _by_partition(values["topics"], {"errorCode": NONE, "leaderEpoch": -1})
    },
    "Produce": _not_produced,
}  # fmt: skip
"""Answers that need no log: to requests that would write, and to those for what `kseg serve` does not have."""
