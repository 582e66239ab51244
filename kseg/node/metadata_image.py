"""What the records of __cluster_metadata make together: the image of a cluster, as a node holds it in memory.

Each rule and each refusal is that of Kafka's deltas. A delta is what a node applies at once: a batch, or a
transaction. Some rules look at the image before the delta, so that the order of records within one matters; they are
followed here. Sources: MetadataDelta and the deltas beside it, MetadataBatchLoader, PartitionRegistration,
BrokerRegistration, MetadataVersion of Kafka 4.4.0; KIP-631, KIP-866, KIP-868, KIP-966.
"""

import base64
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from kseg.decoders.framed import FramedRecord, type_name
from kseg.decoders.schemas import CLUSTER_METADATA
from kseg.formats.schema import ZERO_UUID
from kseg.releases.metadata import ELR_VERSION, KRAFT_VERSION, METADATA_VERSION, METADATA_VERSIONS, NEWEST_RULES
from kseg.sidefiles.hash_order import FIRST_CAPACITY, hash_map_order, string_spread

SCRAM_SINCE, TOKENS_SINCE, CONTROLLERS_SINCE, DIRECTORIES_SINCE = 11, 14, 15, 17
ELR_SINCE, CORDONED_SINCE, ZK_MIGRATION_SINCE = 23, 30, 8
"""Levels of metadata.version from which on a snapshot may hold such records or fields."""

LOWEST_LEVEL = 7
"""The lowest level of metadata.version that the newest release replays."""
NO_LEADER_CHANGE, NO_RECOVERY_CHANGE = -2, -1
RECOVERING = 1
"""LeaderRecoveryState of a partition whose leader was elected without being in sync."""
TOPIC_RESOURCE = 2
_MISSING = object()

Fields = dict[str, Any]


class ReplayError(ValueError):
    """A record that no node can replay. The text says why."""


_LISTS = {
    "replicas": "replicas",
    "directories": "directories",
    "isr": "isr",
    "removing": "removingReplicas",
    "adding": "addingReplicas",
    "elr": "eligibleLeaderReplicas",
    "last_known_elr": "lastKnownElr",
}
"""The lists of a partition, with their names in records."""


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """PartitionRegistration: one partition of a topic."""

    replicas: tuple[int, ...]
    directories: tuple[str, ...]
    isr: tuple[int, ...]
    removing: tuple[int, ...]
    adding: tuple[int, ...]
    leader: int
    recovery_state: int
    leader_epoch: int
    partition_epoch: int
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    @property
    def may_lead(self) -> tuple[int, ...]:
        """The replicas that have all that was committed: those in sync; if none is, those that may lead (KIP-966)."""
        return self.isr or self.elr

    @classmethod
    def registered(cls, fields: Fields) -> "PartitionImage":
        """The partition of a PartitionRecord."""
        lists = {name: tuple(fields.get(key) or ()) for name, key in _LISTS.items()}
        lists["directories"] = _directories(lists["directories"], len(lists["replicas"]))
        return cls(
            **lists,
            leader=fields["leader"],
            recovery_state=_recovery_state(fields.get("leaderRecoveryState", 0)),
            leader_epoch=fields["leaderEpoch"],
            partition_epoch=fields["partitionEpoch"],
        )

    def changed(self, fields: Fields) -> "PartitionImage":
        """The partition after a PartitionChangeRecord; what the record leaves out stays."""
        lists = {name: tuple(value) for name, key in _LISTS.items() if (value := fields.get(key)) is not None}
        replicas = lists.get("replicas", self.replicas)
        lists["directories"] = _directories(lists.get("directories", self.directories), len(replicas))
        leader = fields.get("leader", NO_LEADER_CHANGE)
        is_kept = leader == NO_LEADER_CHANGE
        state = fields.get("leaderRecoveryState", NO_RECOVERY_CHANGE)
        return replace(
            self,
            **lists,
            leader=self.leader if is_kept else leader,
            recovery_state=self.recovery_state if state == NO_RECOVERY_CHANGE else _recovery_state(state),
            leader_epoch=self.leader_epoch + (not is_kept),
            partition_epoch=self.partition_epoch + 1,
        )

    def fields(self, topic_id: str, number: int, has_elr: bool) -> Fields:
        """The fields of its PartitionRecord."""
        lists: Fields = {key: list(getattr(self, name)) for name, key in _LISTS.items()}
        for key in ("eligibleLeaderReplicas", "lastKnownElr"):
            lists[key] = (lists[key] or None) if has_elr else None
        return lists | {
            "partitionId": number,
            "topicId": topic_id,
            "leader": self.leader,
            "leaderRecoveryState": self.recovery_state,
            "leaderEpoch": self.leader_epoch,
            "partitionEpoch": self.partition_epoch,
        }


def _recovery_state(number: int) -> int:
    if number not in (0, 1):
        raise ReplayError(f"leader recovery state {number} is unknown")
    return number


def _directories(found: tuple[str, ...], replicas: int) -> tuple[str, ...]:
    """Directories of replicas; the zero id, which says that the directory is not known yet, for each if none is set."""
    if all(directory == ZERO_UUID for directory in found):
        return (ZERO_UUID,) * replicas
    if len(found) != replicas:
        raise ReplayError(f"{len(found)} directories for {replicas} replicas")
    return found


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic, with its partitions by number."""

    name: str
    topic_id: str
    partitions: dict[int, PartitionImage] = field(default_factory=dict)


class _Delta:
    """What the records since the last applied delta have changed: values before it, and what is put off to its end."""

    def __init__(self) -> None:
        self.before: dict[tuple[int, Any], tuple[MutableMapping[Any, Any], Any, Any]] = {}
        self.changed_topics: dict[str, None] = {}
        self.created_topics: dict[str, str] = {}
        self.deleted_topics: dict[str, str] = {}
        self.scram: dict[int, dict[str, Fields | None]] = {}
        self.metadata_version: int | None = None


class MetadataImage:
    """The image of a cluster. `replay` takes records, `apply` ends a delta, `discard` takes it back.

    Topics by id, and their ids by name; brokers and controllers by node id; configs by resource type and name; quotas
    by the types and names of an entity; ACLs by id; SCRAM credentials by mechanism and user; tokens by id.
    """

    def __init__(self) -> None:
        self.metadata_version: int | None = None
        self.features: dict[str, int] = {}
        self.brokers: dict[int, Fields] = {}
        self.controllers: dict[int, Fields] = {}
        self.topics: dict[str, TopicImage] = {}
        self.topic_ids: dict[str, str] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.quotas: dict[tuple[tuple[str, str | None], ...], dict[str, float | str]] = {}
        self.producer_ids: dict[str, int] = {}
        self.acls: dict[str, Fields] = {}
        self.scram: dict[int, dict[str, Fields]] = {}
        self.tokens: dict[str, Fields] = {}
        self._delta = _Delta()

    def _set(self, of: MutableMapping[Any, Any], key: Any, value: Any) -> None:
        """Sets or (_MISSING) removes a value; the delta remembers what was there."""
        self._delta.before.setdefault((id(of), key), (of, key, of.get(key, _MISSING)))
        if value is _MISSING:
            of.pop(key, None)
        else:
            of[key] = value

    def _set_inner(self, of: MutableMapping[Any, Any], key: Any, name: str, value: Any) -> None:
        """Sets or removes one value of the dictionary under a key, which need not exist; `apply` removes empty ones."""
        inner = of.get(key, {})
        self._set(of, key, inner)
        self._set(inner, name, value)

    def _before(self, of: MutableMapping[Any, Any], key: Any) -> Any:
        """The value before this delta, _MISSING if there was none."""
        found = self._delta.before.get((id(of), key))
        return of.get(key, _MISSING) if found is None else found[2]

    def apply(self) -> None:
        """Ends a delta: what its records changed is the image."""
        delta, self._delta = self._delta, _Delta()
        if delta.metadata_version is not None:
            self.metadata_version = delta.metadata_version
        for name in delta.deleted_topics.values():
            self.topic_ids.pop(name, None)
        for topic_id in delta.changed_topics:
            self.topic_ids[self.topics[topic_id].name] = topic_id
        for mechanism, changes in delta.scram.items():
            # In the order of a HashMap. What follows the removal of the last user is lost.
            credentials = self.scram.setdefault(mechanism, {})
            for name in hash_map_order(changes, spread_of=string_spread):
                change = changes[name]
                if change is not None:
                    credentials[name] = change
                else:
                    credentials.pop(name, None)
                    if not credentials:
                        self.scram.pop(mechanism, None)
        for of, key, _ in delta.before.values():
            if (of is self.configs or of is self.quotas) and not of.get(key, True):
                del of[key]

    def discard(self) -> None:
        """Takes back what the records since the last delta changed."""
        for of, key, value in self._delta.before.values():
            if value is _MISSING:
                of.pop(key, None)
            else:
                of[key] = value
        self._delta = _Delta()

    def replay(self, api_key: int, fields: Fields) -> None:
        """Takes one record into the delta. Raises ReplayError."""
        rule = _RULES.get(api_key)
        if rule is None:
            name = type_name(CLUSTER_METADATA[api_key]) if api_key in CLUSTER_METADATA else f"type {api_key}"
            raise ReplayError(f"a node has no rule for {name} here")
        rule(self, fields)

    def _feature(self, fields: Fields) -> None:
        name, level = fields["name"], fields["featureLevel"]
        if name == METADATA_VERSION:
            if not LOWEST_LEVEL <= level <= max(METADATA_VERSIONS):
                raise ReplayError(f"{METADATA_VERSION} {level} is unknown")
            self._delta.metadata_version = level
        elif name != KRAFT_VERSION:
            self._set(self.features, name, level or _MISSING)

    def _register_broker(self, fields: Fields) -> None:
        listeners = {endpoint["name"]: endpoint for endpoint in fields["endPoints"]}
        if "" in listeners:
            raise ReplayError("a listener has no name")
        broker = {"isMigratingZkBroker": False, "inControlledShutdown": False, "cordonedLogDirs": None, **fields}
        broker["endPoints"] = _in_order(listeners, _capacity(len(listeners)))
        copied = {feature["name"]: feature for feature in _features(fields)}
        broker["features"] = _in_order(copied, _capacity(int(len(copied) / 0.75 + 1)))
        broker["logDirs"] = sorted(fields.get("logDirs") or (), key=_uuid_order)
        self._set(self.brokers, fields["brokerId"], broker)

    def _broker_change(self, fields: Fields) -> None:
        changes: Fields = {}
        fenced, shutdown = fields.get("fenced", 0), fields.get("inControlledShutdown", 0)
        number, epoch = fields["brokerId"], fields["brokerEpoch"]
        broker = self._broker(number, epoch)
        if fenced not in (-1, 0, 1) or shutdown not in (0, 1):
            raise ReplayError(f"broker {number}: fenced {fenced}, inControlledShutdown {shutdown} are no changes")
        if fenced:
            changes["fenced"] = fenced > 0
        if shutdown:
            changes["inControlledShutdown"] = True
        if directories := fields.get("logDirs"):
            changes["logDirs"] = sorted(directories, key=_uuid_order)
        if (cordoned := fields.get("cordonedLogDirs")) is not None:
            changes["cordonedLogDirs"] = cordoned
        self._set(self.brokers, number, broker | changes)

    def _broker(self, number: int, epoch: int) -> Fields:
        broker = self.brokers.get(number)
        if broker is None:
            raise ReplayError(f"broker {number} is not registered")
        if broker["brokerEpoch"] != epoch:
            raise ReplayError(f"broker {number} has epoch {broker['brokerEpoch']}, not {epoch}")
        return broker

    def _fence(self, fields: Fields, is_fenced: bool = True) -> None:
        broker = self._broker(fields["id"], fields["epoch"])
        self._set(self.brokers, fields["id"], broker | {"fenced": is_fenced})

    def _register_controller(self, fields: Fields) -> None:
        listeners = {endpoint["name"]: endpoint for endpoint in fields["endPoints"]}
        for endpoint in fields["endPoints"]:
            if not 0 <= endpoint["securityProtocol"] <= 3:
                raise ReplayError(f"security protocol {endpoint['securityProtocol']} is unknown")
        controller = dict(fields)
        controller["endPoints"] = _in_order(listeners, FIRST_CAPACITY)
        controller["features"] = _features(fields)
        self._set(self.controllers, fields["controllerId"], controller)

    def _topic(self, fields: Fields) -> None:
        name, topic_id = fields["name"], fields["topicId"]
        self._set(self.topics, topic_id, TopicImage(name, topic_id))
        self._delta.changed_topics[topic_id] = None
        self._delta.created_topics[name] = topic_id

    def _changed_topic(self, topic_id: str) -> TopicImage:
        """The topic, marked as changed by this delta. One that it removed is back as it was before. Raises
        ReplayError."""
        topic = self.topics.get(topic_id)
        if topic is None:
            topic = self._before(self.topics, topic_id)
            if topic is _MISSING:
                raise ReplayError(f"there is no topic with id {topic_id}")
            here = id(topic.partitions)
            numbers = {*topic.partitions, *(key for of, key in self._delta.before if of == here)}
            before = {number: self._before(topic.partitions, number) for number in numbers}
            partitions = {number: found for number, found in before.items() if found is not _MISSING}
            topic = replace(topic, partitions=partitions)
            self._set(self.topics, topic_id, topic)
        self._delta.changed_topics[topic_id] = None
        return topic

    def _partition(self, fields: Fields) -> None:
        topic = self._changed_topic(fields["topicId"])
        self._set(topic.partitions, fields["partitionId"], PartitionImage.registered(fields))

    def _partition_change(self, fields: Fields) -> None:
        topic, number = self._changed_topic(fields["topicId"]), fields["partitionId"]
        partition = topic.partitions.get(number)
        if partition is None:
            raise ReplayError(f"topic {topic.name} has no partition {number}")
        self._set(topic.partitions, number, partition.changed(fields))

    def _remove_topic(self, fields: Fields) -> None:
        delta, topic_id = self._delta, fields["topicId"]
        before = self._before(self.topics, topic_id)
        if topic_id in delta.changed_topics:
            del delta.changed_topics[topic_id]
            name = self.topics[topic_id].name
            delta.created_topics.pop(name, None)
        elif before is _MISSING:
            raise ReplayError(f"there is no topic with id {topic_id}")
        else:
            name = before.name
        if before is not _MISSING:
            delta.deleted_topics[topic_id] = before.name
        self._set(self.topics, topic_id, _MISSING)
        # Settings that came in this delta with the first of the topic stay: nothing was there to be deleted.
        if self._before(self.configs, (TOPIC_RESOURCE, name)) is not _MISSING:
            self._set(self.configs, (TOPIC_RESOURCE, name), _MISSING)

    def _clear_elr(self, fields: Fields) -> None:
        delta, name = self._delta, fields["topicName"]
        if name:
            topic_id = delta.created_topics.get(name) or self.topic_ids.get(name)
            if topic_id is None:
                raise ReplayError(f"there is no topic {name}")
            cleared = [topic_id]
        else:
            cleared = [*self.topics]
        nothing: Fields = {"eligibleLeaderReplicas": [], "lastKnownElr": []}
        for topic_id in cleared:
            if topic_id in delta.deleted_topics:
                continue
            topic = self._changed_topic(topic_id)
            for number, partition in list(topic.partitions.items()):
                if partition.elr or partition.last_known_elr:
                    self._set(topic.partitions, number, partition.changed(nothing))

    def _config(self, fields: Fields) -> None:
        kind = fields["resourceType"]
        resource = (kind if kind in (TOPIC_RESOURCE, 4, 8, 16, 32) else 0, fields["resourceName"])
        value = _MISSING if fields["value"] is None else fields["value"]
        self._set_inner(self.configs, resource, fields["name"], value)

    def _quota(self, fields: Fields) -> None:
        entity = {each["entityType"]: each["entityName"] for each in fields["entity"]}
        key = tuple(sorted(entity.items(), key=lambda item: item[0]))
        self._set_inner(self.quotas, key, fields["key"], _MISSING if fields["remove"] else fields["value"])

    def _acl(self, fields: Fields) -> None:
        known = {"resourceType": 7, "patternType": 4, "operation": 15, "permissionType": 3}
        numbers = {name: fields[name] if 0 <= fields[name] <= last else 0 for name, last in known.items()}
        self._set(self.acls, fields["id"], fields | numbers)

    def _remove_acl(self, fields: Fields) -> None:
        acl_id = fields["id"]
        if acl_id not in self.acls and self._before(self.acls, acl_id) is _MISSING:
            raise ReplayError(f"there is no ACL with id {acl_id}")
        self._set(self.acls, acl_id, _MISSING)

    def _credential(self, fields: Fields, is_kept: bool = True) -> None:
        mechanism = fields["mechanism"] if fields["mechanism"] in (1, 2) else 0
        change = fields | {"mechanism": mechanism} if is_kept else None
        self._delta.scram.setdefault(mechanism, {})[fields["name"]] = change

    def _token(self, fields: Fields) -> None:
        for principal in (fields["owner"], fields["requester"], *fields["renewers"]):
            if ":" not in principal:
                raise ReplayError(f"{principal!r} is no principal of the form TYPE:NAME")
        self._set(self.tokens, fields["tokenId"], fields)

    def records(self) -> Iterator[FramedRecord]:
        """Yields the records that a node would write to a snapshot, in the versions of metadata.version. What that
        version cannot hold is left out; a node would refuse to write it."""
        level = self.metadata_version or LOWEST_LEVEL

        def record(api_key: int, fields: Fields, version: int = 0) -> FramedRecord:
            return FramedRecord(api_key, version, CLUSTER_METADATA[api_key].fitted(fields, version))

        if self.metadata_version is not None:
            yield record(FEATURE_RECORD, {"name": METADATA_VERSION, "featureLevel": self.metadata_version})
        for name, feature_level in sorted(self.features.items()):
            yield record(FEATURE_RECORD, {"name": name, "featureLevel": feature_level})
        version = 1 + sum(level >= since for since in (ZK_MIGRATION_SINCE, DIRECTORIES_SINCE, CORDONED_SINCE))
        for _, broker in sorted(self.brokers.items()):
            yield record(_BROKER, broker, version)
        for _, controller in sorted(self.controllers.items()) if level >= CONTROLLERS_SINCE else ():
            yield record(_CONTROLLER, controller)
        version = (level >= DIRECTORIES_SINCE) + (level >= ELR_SINCE)
        has_elr = self.features.get(ELR_VERSION, 0) >= 1
        for topic in sorted(self.topics.values(), key=lambda topic: topic.name):
            yield record(_TOPIC, {"name": topic.name, "topicId": topic.topic_id})
            for number, partition in sorted(topic.partitions.items()):
                yield record(_PARTITION, partition.fields(topic.topic_id, number, has_elr), version)
        for (kind, resource), settings in sorted(self.configs.items()):
            for name, value in sorted(settings.items()):
                yield record(_CONFIG, {"resourceType": kind, "resourceName": resource, "name": name, "value": value})
        for entity, quotas in self.quotas.items():
            names = dict(entity)
            kinds = hash_map_order(names, spread_of=string_spread)
            parts = [{"entityType": kind, "entityName": names[kind]} for kind in kinds]
            for name, quota in sorted(quotas.items()):
                yield record(_QUOTA, {"entity": parts, "key": name, "value": quota, "remove": False})
        for next_id in self.producer_ids.values():
            if next_id >= 0:
                yield record(_PRODUCER_IDS, {"brokerId": -1, "brokerEpoch": -1, "nextProducerId": next_id})
        for acl in self.acls.values():
            yield record(_ACL, acl)
        for _, users in sorted(self.scram.items()) if level >= SCRAM_SINCE else ():
            for _, credential in sorted(users.items()):
                yield record(_CREDENTIAL, credential)
        for _, token in sorted(self.tokens.items()) if level >= TOKENS_SINCE else ():
            yield record(_TOKEN, token)


def topics_of_two_ids(image: MetadataImage) -> Iterator[tuple[str, Callable[[], object]]]:
    """As `unstartable`, what a controller stops at (ReplicationControlManager), while a broker takes the later id."""
    for topic in list(image.topics.values()):
        if (named := image.topic_ids.get(topic.name, topic.topic_id)) != topic.topic_id:
            text = f"topic {topic.name} has two ids, at which a controller stops: {named}, and {topic.topic_id} before"
            yield text, partial(image.topics.pop, topic.topic_id)


def unstartable(image: MetadataImage) -> Iterator[tuple[str, Callable[[], object] | None]]:
    """Yields what a node replays and then stops at, as a sentence, and what takes it out of the image; None if the
    image is nothing without it. Sources: FeaturesPublisher, QuorumFeatures, TopicsImage, SecurityProtocol."""
    for name, text in list(NEWEST_RULES.unknown_features(image.metadata_version, image.features)):
        yield text, None if name == METADATA_VERSION else partial(image.features.pop, name)
    yield from topics_of_two_ids(image)
    for number, broker in list(image.brokers.items()):
        for endpoint in broker["endPoints"]:
            if not 0 <= endpoint["securityProtocol"] <= 3:
                text = (
                    f"broker {number} is registered with the unknown security protocol {endpoint['securityProtocol']}"
                )
                yield text, partial(image.brokers.pop, number, None)
                break


_BROKER, _TOPIC, _PARTITION, _CONFIG, _TOKEN, _CREDENTIAL, FEATURE_RECORD = 0, 2, 3, 4, 10, 11, 12
_QUOTA, _PRODUCER_IDS, _ACL, _CONTROLLER = 14, 15, 18, 27
BEGIN_TRANSACTION, END_TRANSACTION, ABORT_TRANSACTION = 23, 24, 25
_RULES: dict[int, Callable[[MetadataImage, Fields], None]] = {
    _BROKER: MetadataImage._register_broker,
    1: lambda image, fields: image._set(image.brokers, fields["brokerId"], _MISSING),
    _TOPIC: MetadataImage._topic,
    _PARTITION: MetadataImage._partition,
    _CONFIG: MetadataImage._config,
    5: MetadataImage._partition_change,
    7: MetadataImage._fence,
    8: lambda image, fields: image._fence(fields, is_fenced=False),
    9: MetadataImage._remove_topic,
    _TOKEN: MetadataImage._token,
    _CREDENTIAL: MetadataImage._credential,
    FEATURE_RECORD: MetadataImage._feature,
    _QUOTA: MetadataImage._quota,
    _PRODUCER_IDS: lambda image, fields: image._set(image.producer_ids, "next", fields["nextProducerId"]),
    17: MetadataImage._broker_change,
    _ACL: MetadataImage._acl,
    19: MetadataImage._remove_acl,
    20: lambda _image, _fields: None,  # NoOpRecord
    21: lambda _image, _fields: None,  # ZkMigrationStateRecord, since 4.0
    22: lambda image, fields: image._credential(fields, is_kept=False),
    26: lambda image, fields: image._set(image.tokens, fields["tokenId"], _MISSING),
    _CONTROLLER: MetadataImage._register_controller,
    28: MetadataImage._clear_elr,
    29: lambda image, fields: image._set(image.controllers, fields["controllerId"], _MISSING),
}


def _uuid_order(text: str) -> tuple[int, int]:
    data = base64.urlsafe_b64decode(text + "==")
    return int.from_bytes(data[:8], "big", signed=True), int.from_bytes(data[8:], "big", signed=True)


def _capacity(count: int) -> int:
    """The buckets of a HashMap that is made for ``count`` keys."""
    return 1 << max(0, count - 1).bit_length()


def _in_order(values: dict[str, Fields], capacity: int) -> list[Fields]:
    return [values[name] for name in hash_map_order(values, capacity, string_spread)]


def _features(fields: Fields) -> list[Fields]:
    """The features of a node in the order of their map. That of a broker is a copy, which has its own order."""
    return _in_order({feature["name"]: feature for feature in fields["features"]}, FIRST_CAPACITY)
