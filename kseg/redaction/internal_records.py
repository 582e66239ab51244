"""Replaces the names and secrets in records of Kafka's internal topics, so that these still decode, and still join.

A record keeps its bytes but for its texts and bytes, which get replacements of the same length: numbers, times, topic
ids and the words of the protocols stay. Equal names get equal replacements in all topics of a run. What does not decode
is replaced as the records of any other topic.
"""

import json
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from kseg.decoders import name_for
from kseg.decoders.framed import CONFIG, SECRET_CONFIG, read_framed
from kseg.decoders.keyed import MirrorMakerDecoder, decoder
from kseg.decoders.schemas import (
    ASSIGNMENT,
    CLUSTER_METADATA,
    CONSUMER_OFFSETS,
    REMOTE_LOG_METADATA,
    SHARE_GROUP_STATE,
    SUBSCRIPTION,
    TRANSACTION_STATE,
    Topic,
)
from kseg.formats.control import known_parts
from kseg.formats.schema import Field, FieldSpan, MessageError, MessageSchema
from kseg.redaction.pseudonyms import LONGEST_REMEMBERED, Pseudonyms

_T = TypeVar("_T")

Replacement = Callable[[bytes], bytes]
"""Returns other bytes of the same length."""

_RULES: dict[str, Callable[..., bytes]] = {
    field: rule
    for rule, fields in (
        (
            bytes,  # words of protocols, and names that Kafka gives; listeners among them
            "protocolType protocol serverAssignor supportedProtocols.name features.name FeatureLevelRecord.name "
            "endPoints.name endpoints.name ConfigRecord.name ClientQuotaRecord.key entityType "
            "lastAssignmentConfigs.key lastAssignmentConfigs.value topicConfigs.key topicConfigs.value subtopologyId "
            "BeginTransactionRecord.name",
        ),
        (
            Pseudonyms.topic,
            "topic topicName topics subscribedTopicNames sourceTopics repartitionSinkTopics stateChangelogTopics.name "
            "repartitionSourceTopics.name topicIdPartition.name TopicRecord.name",
        ),
        (Pseudonyms.identity, "group groupId transactionalId"),
        (Pseudonyms.host, "host clientHost"),
        (Pseudonyms.principal, "principal owner requester renewers"),
    )
    for field in fields.split()
}
"""What replaces a text, by the name of its field, or that behind the name of the struct around it; all others are
names. `bytes` keeps it."""
_PROTOCOL_BYTES = {"subscription": SUBSCRIPTION, "metadata": SUBSCRIPTION, "assignment": ASSIGNMENT}
"""Bytes of members that hold messages of consumers."""

_ACL = 18
_TOPIC, _GROUP, _CLUSTER, _TRANSACTIONAL_ID = 2, 3, 4, 5
"""Types of the resources of ACLs (ResourceType)."""
_CONFIG_OF_TOPIC, _CONFIG_OF_GROUP = 2, 32
"""Types of the resources of settings (ConfigResource.Type); brokers have numbers as names."""
_PLAIN_VALUE = re.compile(r"[-+0-9.,:*\[\]]*|true|false")
_VALUES_KEPT = frozenset(
    ("cleanup.policy", "compression.type", "message.timestamp.type", "message.format.version", "min.insync.replicas")
)
"""Settings whose values are Kafka's words."""

_VERSION = struct.Struct(">h")
_MAX_REMEMBERED, _MAX_FORMS = 1 << 13, 1 << 9
"""Limits of the replacements of keys and fields, and of the forms of messages, that are remembered: most records repeat
one of a few."""


Fields = tuple[bytes | None, bytes | None]
"""Key and value of a record."""
RecordRule = Callable[[bytes | None, bytes | None], Fields]
"""Replaces in key and value of one record; they keep their lengths."""


def rule_for(
    topic: str | None, kind: str, names: Pseudonyms, topics: frozenset[bytes] = frozenset()
) -> RecordRule | None:
    """Returns the rule for the records of an internal topic; None for any other topic.

    ``kind``: the suffix of the file; ``topics``: those of the same log directory, by which subjects of schemas are
    known.
    """
    name = name_for(topic, kind)
    if name in _FRAMED:
        return partial(_framed, _FRAMED[name], names)
    if name in _COORDINATORS:
        return CoordinatorRule(_COORDINATORS[name], names)
    if name is not None:
        found = decoder(name)
        assert isinstance(found, MirrorMakerDecoder)
        return partial(_of_mirror_maker, found, names)
    if topic == "_schemas":
        return SchemasRule(names, topics)
    return partial(_of_connector, names) if topic == "connect-configs" else None


_FRAMED = {"cluster-metadata": CLUSTER_METADATA, "remote-log-metadata": REMOTE_LOG_METADATA}
_COORDINATORS = {
    "offsets": CONSUMER_OFFSETS, "transaction-log": TRANSACTION_STATE, "share-group-state": SHARE_GROUP_STATE,
}  # fmt: skip


def of_control(names: Pseudonyms, key: bytes | None, value: bytes | None) -> Fields:
    """Replaces the hosts of voters in a control record, and what is no field of its type: a damaged attribute makes
    any batch a control batch."""
    of_key, of_value, spans = known_parts(key, value)
    new_key = None if key is None else key[:of_key] + names.payload(key[of_key:])
    if value is None:
        return new_key, None
    return new_key, _in_spans(value[:of_value], spans, {}, names) + names.payload(value[of_value:])


@lru_cache(maxsize=256)
def _fields_by_path(message: MessageSchema) -> Mapping[Field, tuple[str, str]]:
    """Returns for each text and bytes field of a message its name, and its name behind that of the struct around it."""

    def walk(fields: tuple[Field, ...], around: str) -> Iterator[tuple[Field, tuple[str, str]]]:
        for each in fields:
            yield each, (each.name, f"{around}.{each.name}")
            yield from walk(each.fields, each.name)

    return dict(walk(message.fields, message.name))


class _Place(NamedTuple):
    """A text or bytes field of a message: what replaces it, and its bytes ``[start, end)``."""

    replacement: Replacement
    start: int
    end: int


def _places(spans: list[FieldSpan], paths: Mapping[Field, tuple[str, str]], names: Pseudonyms) -> list[_Place]:
    """Returns the fields at ``spans`` with the rules for their names."""
    found = []
    for each, start, end in spans:
        name, path = ("", "") if each is None else paths.get(each, (each.name, each.name))
        replacement = _replacement(name, path, each, names)
        if replacement is not bytes:
            found.append(_Place(replacement, start, end))
    return found


def _with_replaced(data: bytes, places: list[_Place]) -> bytes:
    """Returns ``data`` with the fields replaced."""
    out = bytearray(data)
    for replacement, start, end in places:
        out[start:end] = replacement(data[start:end])
    return bytes(out)


def _in_spans(data: bytes, spans: list[FieldSpan], paths: Mapping[Field, tuple[str, str]], names: Pseudonyms) -> bytes:
    """Returns ``data`` with all fields at ``spans`` replaced by their names' rules."""
    return _with_replaced(data, _places(spans, paths, names))


def _replacement(name: str, path: str, each: Field | None, names: Pseudonyms) -> Replacement:
    rule = _RULES.get(path) or _RULES.get(name, Pseudonyms.name)
    if rule is bytes:
        return bytes
    return names.payload if each is None or each.kind == "bytes" else partial(rule, names)


class _Form(NamedTuple):
    """The places of the texts in messages of one length, in which the bytes of all sizes and of the protocol's type are
    the same."""

    sizes_of: Callable[[bytes], object]
    sizes: object
    places: list[_Place]


def _remembered(make: Callable[[Any], _T]) -> Callable[[Any], _T]:
    """Returns the function, whose results for short bytes are remembered."""
    remembered = lru_cache(_MAX_REMEMBERED)(make)
    return lambda data: (remembered if data is None or len(data) <= LONGEST_REMEMBERED else make)(data)


class CoordinatorRule:
    """Replaces in the records of coordinators (`kseg.decoders.keyed`)."""

    def __init__(self, topic: Topic, names: Pseudonyms) -> None:
        self._topic, self._names = topic, names
        self._forms: dict[tuple[str, int, int], _Form] = {}
        self._key = _remembered(self._new_key)
        self._of_consumer = {
            name: _remembered(partial(self._new_of_consumer, message)) for name, message in _PROTOCOL_BYTES.items()
        }

    def __call__(self, key: bytes | None, value: bytes | None) -> Fields:
        kind, new_key = self._key(key)
        if new_key is None:
            return _payloads(key, value, self._names)
        if value is None or len(value) < _VERSION.size:
            return new_key, None if value is None else self._names.payload(value)
        new_value = self._message(self._topic.values[kind], value)
        return new_key, self._names.payload(value) if new_value is None else new_value

    def _new_key(self, key: bytes | None) -> tuple[int, bytes | None]:
        """Returns the kind of a record, by its key, and the key in the twin; None if it is no such key."""
        kind = _VERSION.unpack_from(key)[0] if key is not None and len(key) >= _VERSION.size else -1
        message = self._topic.keys.get(kind)
        return kind, None if message is None or key is None else self._message(message, key)

    def _message(self, message: MessageSchema, data: bytes) -> bytes | None:
        """Returns the bytes of a message behind its version; None if it cannot be read."""
        version = _VERSION.unpack_from(data)[0]
        form = self._forms.get((message.name, version, len(data)))
        if form is not None and form.sizes_of(data) == form.sizes:
            return _with_replaced(data, form.places)
        spans, sizes = list[FieldSpan](), list[int]()
        try:
            fields, end = message.read(data, version, _VERSION.size, spans=spans, sizes=sizes)
        except MessageError:
            return None
        places = _places(spans, _fields_by_path(message), self._names)
        if fields.get("protocolType", "consumer") == "consumer":
            inner = {
                start: _Place(self._of_consumer[each.name], start, stop)
                for each, start, stop in spans
                if each is not None and each.kind == "bytes" and each.name in _PROTOCOL_BYTES
            }
            places = [inner.get(each.start, each) for each in places]
        if end == len(data) <= LONGEST_REMEMBERED and len(sizes) > 1:
            if len(self._forms) >= _MAX_FORMS:
                self._forms.clear()
            for each, start, stop in spans:
                sizes += range(start, stop) if each is not None and each.name == "protocolType" else ()
            sizes_of = itemgetter(*sizes)
            self._forms[message.name, version, len(data)] = _Form(sizes_of, sizes_of(data), places)
        return _with_replaced(data[:end], places) + self._names.payload(data[end:])

    def _new_of_consumer(self, message: MessageSchema, data: bytes) -> bytes:
        spans = list[FieldSpan]()
        with suppress(MessageError, struct.error):
            end = message.read(data, _VERSION.unpack_from(data)[0], _VERSION.size, spans=spans)[1]
            return _in_spans(data[:end], spans, _fields_by_path(message), self._names) + self._names.payload(data[end:])
        return self._names.payload(data)


def _payloads(key: bytes | None, value: bytes | None, names: Pseudonyms) -> Fields:
    return None if key is None else names.payload(key), None if value is None else names.payload(value)


def _framed(records: Mapping[int, MessageSchema], names: Pseudonyms, key: bytes | None, value: bytes | None) -> Fields:
    """Replaces in a record of cluster metadata or of tiered storage (`kseg.decoders.framed`)."""
    spans: list[FieldSpan] = []
    try:
        record = read_framed(value, records, spans=spans)
    except MessageError:
        return _payloads(key, value, names)
    assert value is not None
    out = bytearray(_in_spans(value, spans, _fields_by_path(records[record.api_key]), names))
    for each, start, end in spans:
        special = None if each is None else _special(record.api_key, each.name, record.fields, names)
        if special is not None:
            out[start:end] = special(value[start:end])
    return None if key is None else names.payload(key), bytes(out)


def _special(kind: int, name: str, fields: Mapping[str, Any], names: Pseudonyms) -> Replacement | None:
    """Returns the replacement of a field that depends on others."""
    if name == "resourceName" and kind in (_ACL, CONFIG):
        of = fields["resourceType"]
        if of == _TOPIC:
            return names.topic
        if fields[name] == "*" or (fields[name].isdecimal() if kind == CONFIG else of == _CLUSTER):
            return bytes
        if of in (_GROUP, _TRANSACTIONAL_ID) if kind == _ACL else of == _CONFIG_OF_GROUP:
            return names.identity
    if name == "value" and kind == CONFIG and not SECRET_CONFIG.search(fields["name"]):
        if fields["name"] in _VALUES_KEPT or _PLAIN_VALUE.fullmatch(fields["value"] or ""):
            return bytes
    return None


def _of_mirror_maker(found: MirrorMakerDecoder, names: Pseudonyms, key: bytes | None, value: bytes | None) -> Fields:
    """Replaces in a record of MirrorMaker 2."""

    def replaced(message: MessageSchema, data: bytes | None, start: int) -> bytes | None:
        spans: list[FieldSpan] = []
        with suppress(MessageError):
            if data is not None and message.read(data, 0, start, spans=spans)[1] == len(data):
                return _in_spans(data, spans, _fields_by_path(message), names)
        return None

    new_key = replaced(found.key, key, 0)
    if new_key is None:
        return _payloads(key, value, names)
    new_value = replaced(found.value, value, _VERSION.size * found.has_version)
    return new_key, new_value or _payloads(None, value, names)[1]


# Records as JSON: the schemas of a Schema Registry, and the connectors of Kafka Connect.

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_KEY_WORDS = frozenset(
    (
        b"keytype subject version magic id guid schema schemaType schemaTags references name deleted metadata "
        b"ruleSet ts offset compatibilityLevel alias defaultMetadata overrideMetadata defaultRuleSet "
        b"overrideRuleSet normalize"
    ).split()
)
_KEPT_VALUES = frozenset((b"keytype", b"schemaType", b"compatibilityLevel", b"guid"))
_WORD = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*|[^\x00-\x7f]+|[0-9]{5,}")
_SCHEMA_WORDS = frozenset(
    (
        b"null boolean int long float double bytes string record enum array map fixed error union type name "
        b"namespace doc fields items values symbols size aliases default order ascending descending ignore "
        b"logicalType precision scale decimal uuid date time millis micros nanos timestamp local duration true "
        b"false connect parameters n r t object number integer properties required title description const "
        b"pattern format additionalProperties oneOf anyOf allOf not definitions schema id ref http https json "
        b"org draft minimum maximum minLength maxLength syntax proto2 proto3 package import public option "
        b"optional repeated reserved message oneof extend extensions service rpc returns stream to max int32 "
        b"int64 uint32 uint64 sint32 sint64 fixed32 fixed64 sfixed32 sfixed64 bool google protobuf"
    ).split()
)


class SchemasRule:
    """Replaces in the records of _schemas: subjects, and every word of a schema that is not of its language (Avro, JSON
    Schema, Protobuf)."""

    def __init__(self, names: Pseudonyms, topics: frozenset[bytes]) -> None:
        self._names, self._topics = names, topics

    def __call__(self, key: bytes | None, value: bytes | None) -> Fields:
        return self._json(key), self._json(value)

    def _json(self, data: bytes | None) -> bytes | None:
        if data is None:
            return None
        try:
            is_object = isinstance(json.loads(data), dict)
        except (ValueError, RecursionError):
            is_object = False
        if not is_object:
            return self._names.payload(data)
        out, field = bytearray(data), b""
        for found in _STRING.finditer(data):
            text, start = found[0][1:-1], found.start() + 1
            if data[found.end() :].lstrip()[:1] == b":":
                field = text
                if field not in _KEY_WORDS:
                    out[start : start + len(text)] = self._words(text)
            elif field not in _KEPT_VALUES:
                is_subject = field == b"subject" and b"\\" not in text
                new = self._names.subject(text, self._topics) if is_subject else self._words(text)
                out[start : start + len(text)] = new
        return bytes(out)

    def _words(self, text: bytes) -> bytes:
        return _WORD.sub(self._word, text)

    def _word(self, found: "re.Match[bytes]") -> bytes:
        word = found[0]
        if word in _SCHEMA_WORDS:
            return word
        return b"7" * len(word) if word.isdigit() else self._names.name(word)


_CONNECTOR_KEYS = re.compile(rb"(connector|target-state|commit|task)-(.+?)(-[0-9]+)?", re.DOTALL)


def _of_connector(names: Pseudonyms, key: bytes | None, value: bytes | None) -> Fields:
    """Replaces in a record of connect-configs, whose keys name connectors: task-NAME-0 and others."""
    found = None if key is None else _CONNECTOR_KEYS.fullmatch(key)
    new_key, new_value = _payloads(key, value, names)
    if found is not None:
        kind, name, number = found[1], found[2], found[3] or b""
        if kind != b"task":
            name, number = name + number, b""
        new_key = kind + b"-" + names.name(name) + number
    return new_key, new_value
