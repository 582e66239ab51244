"""Decoders for topics whose records are a key message and a value message: the coordinators' and MirrorMaker 2's.

    __consumer_offsets, __transaction_state, __share_group_state
        key     i16 record type, then the key message of that type (not flexible)
        value   i16 version, then the value message in that version; null is a tombstone
        Trailing bytes after either message are ignored.

    topic                         key                                     value
    mm2-offset-syncs.A.internal   topic str, partition i32                upstreamOffset i64, downstreamOffset i64
    A.checkpoints.internal        group str, topic str, partition i32     i16 version 0, upstreamOffset i64,
                                                                          downstreamOffset i64, metadata str
    heartbeats, A.heartbeats      sourceClusterAlias str,                 i16 version 0, timestamp i64
                                  targetClusterAlias str

For MirrorMaker 2 the payload text is that of its formatters for kafka-console-consumer.sh. Any topic may be called
heartbeats: records of another form are shown as without a decoder. Source: the coordinators' RecordSerde classes and
DumpLogSegments of Kafka 4.4.0; OffsetSync, Checkpoint, Heartbeat and ReplicationPolicy of 4.3.1; KIP-98, KIP-382,
KIP-848, KIP-890, KIP-932, KIP-1071.
"""

import base64
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple

from kseg.decoders.decoded import Decoded, Headers, undecodable_json
from kseg.decoders.schemas import ASSIGNMENT, CONSUMER_OFFSETS, SHARE_GROUP_STATE, SUBSCRIPTION, TRANSACTION_STATE
from kseg.formats import java_text
from kseg.formats.json_values import bytes_value
from kseg.formats.program import Program, Switch, coordinator_program
from kseg.formats.schema import MessageError, MessageSchema, json_text

TOMBSTONE = "<DELETE>"

_VERSION = struct.Struct(">h")


class CoordinatorDecoder:
    """Decodes the records of one coordinator; `refine` (record type, value fields) may change the fields in place.

    `switch` is the kernel's description of the same messages.
    """

    def __init__(
        self,
        keys: Mapping[int, MessageSchema],
        values: Mapping[int, MessageSchema],
        refine: Callable[[int, dict[str, Any]], None] | None = None,
        switch: Switch | None = None,
    ):
        self._keys = keys
        self._values = values
        self._refine = refine
        self._switch = switch

    @cached_property
    def program(self) -> Program:
        return coordinator_program(self._keys, self._values, self._switch)

    def decode(self, key: bytes | None, value: bytes | None, offset: int, headers: Headers = ()) -> Decoded:
        """Decodes one record; see `kseg.decoders.decoded.Decoder`."""
        found = self.without_texts(key, value, offset)
        if found.key_text is not None:
            return found
        if value is None:
            return Decoded(json_text(found.key), TOMBSTONE, found.key, None)
        printed = {**found.value, "data": self._values[int(found.key["type"])].printed(found.value["data"])}
        return Decoded(json_text(found.key), json_text(printed), found.key, found.value)

    def without_texts(self, key: bytes | None, value: bytes | None, offset: int) -> Decoded:
        """Decodes one record; only errors have texts."""
        if key is None:
            # Kafka's tool stops only here, with an exception of this text; kseg prints the text and continues.
            missing = (
                f"Failed to decode message at offset {offset} using the specified decoder (message had a missing key)"
            )
            return Decoded(missing, None, None, undecodable_json(value, missing))
        try:
            record_type = _prefix(key, "key")
            if record_type not in self._keys:
                unknown = f"Unknown record type {record_type} at offset {offset}, skipping."
                return Decoded(unknown, None, undecodable_json(key, unknown), undecodable_json(value, unknown))
            shown = {"type": str(record_type), "data": _message(self._keys[record_type], key, record_type, "key")}
        except MessageError as error:
            return _skipped(key, value, offset, str(error))
        try:
            return Decoded(None, None, shown, None if value is None else self._value(record_type, value))
        except MessageError as error:
            return _skipped(key, value, offset, str(error))._replace(key=shown)

    def _value(self, record_type: int, value: bytes) -> dict[str, Any]:
        message = self._values[record_type]
        version = _prefix(value, "value")
        if not message.lowest <= version <= message.highest:
            raise MessageError(f"Found an unknown record version {version} for {record_type} type")
        fields = _message(message, value, version, "value")
        if self._refine is not None:
            self._refine(record_type, fields)
        return {"version": str(version), "data": fields}


def _prefix(data: bytes, name: str) -> int:
    if len(data) < _VERSION.size:
        raise MessageError(f"Could not read version from {name}'s buffer.")
    (number,) = _VERSION.unpack_from(data)
    return int(number)


def _message(message: MessageSchema, data: bytes, version: int, name: str) -> dict[str, Any]:
    try:
        fields, _end = message.read(data, version, _VERSION.size)
    except MessageError as error:
        raise MessageError(
            f"Could not read record with version {version} from {name}'s buffer due to: {error}."
        ) from error
    return fields


def _skipped(key: bytes | None, value: bytes | None, offset: int, error: str) -> Decoded:
    text = f"Error at offset {offset}, skipping. {error}"
    return Decoded(text, None, undecodable_json(key, text), undecodable_json(value, text))


GROUP_METADATA = 2
CONSUMER_PROTOCOL = "consumer"
PROTOCOLS = {"subscription": SUBSCRIPTION, "assignment": ASSIGNMENT}


def _expand_members(record_type: int, fields: dict[str, Any]) -> None:
    if record_type != GROUP_METADATA or fields["protocolType"] != CONSUMER_PROTOCOL:
        return
    for member in fields["members"]:
        for name, message in PROTOCOLS.items():
            data = base64.b64decode(member[name])
            # Clients define these bytes: if they are not of the expected protocol, they stay base64 text.
            if len(data) >= _VERSION.size:
                with suppress(MessageError):
                    member[name] = message.read(data, _VERSION.unpack_from(data)[0], _VERSION.size)[0]


class _Topic(NamedTuple):
    """``text`` is filled from the fields of key and value."""

    key: MessageSchema
    value: MessageSchema
    has_version: bool
    text: str


_TOPICS = {
    "offset-syncs": _Topic(
        MessageSchema("OffsetSyncKey", "topic:str, partition:i32", flexible=None),
        MessageSchema("OffsetSyncValue", "upstreamOffset:i64, downstreamOffset:i64", flexible=None),
        has_version=False,
        text="OffsetSync{{topicPartition={topic}-{partition}, upstreamOffset={upstreamOffset}, "
        "downstreamOffset={downstreamOffset}}}",
    ),
    "checkpoints": _Topic(
        MessageSchema("CheckpointKey", "group:str, topic:str, partition:i32", flexible=None),
        MessageSchema("CheckpointValue", "upstreamOffset:i64, downstreamOffset:i64, metadata:str", flexible=None),
        has_version=True,
        text="Checkpoint{{consumerGroupId={group}, topicPartition={topic}-{partition}, "
        "upstreamOffset={upstreamOffset}, downstreamOffset={downstreamOffset}, metadata={metadata}}}",
    ),
    "heartbeats": _Topic(
        MessageSchema("HeartbeatKey", "sourceClusterAlias:str, targetClusterAlias:str", flexible=None),
        MessageSchema("HeartbeatValue", "timestamp:i64", flexible=None),
        has_version=True,
        text="Heartbeat{{sourceClusterAlias={sourceClusterAlias}, targetClusterAlias={targetClusterAlias}, "
        "timestamp={timestamp}}}",
    ),
}


class MirrorMakerDecoder:
    """Decodes one topic of MirrorMaker 2: ``"offset-syncs"``, ``"checkpoints"`` or ``"heartbeats"``."""

    def __init__(self, name: str) -> None:
        self._topic = _TOPICS[name]
        self._is_reserved_name = name != "heartbeats"

    def decode(self, key: bytes | None, value: bytes | None, offset: int, headers: Headers = ()) -> Decoded:
        """Decodes one record; see `kseg.decoders.decoded.Decoder`."""
        try:
            key_fields = _filling(self._topic.key, key)
            if value is None:
                return Decoded(json_text(key_fields), TOMBSTONE, key_fields, None)
            fields = shown = _filling(self._topic.value, value, _VERSION.size * self._topic.has_version)
        except MessageError as error:
            if not self._is_reserved_name:
                return Decoded(_text(key), _text(value), bytes_value(key), bytes_value(value))
            return _skipped(key, value, offset, str(error))
        if self._topic.has_version:
            shown = {"version": "0", "data": fields}
        return Decoded(None, self._topic.text.format(**key_fields, **fields), key_fields, shown)


def _filling(message: MessageSchema, data: bytes | None, start: int = 0) -> dict[str, Any]:
    """Returns the fields of a message that fills ``data``, behind a version if ``start`` is not 0."""
    if data is None:
        raise MessageError(f"{message.name} is null")
    if start and data[:start] != bytes(start):
        raise MessageError(f"{message.name} does not have version 0")
    fields, end = message.read(data, 0, start)
    if end != len(data):
        raise MessageError(f"{len(data) - end} bytes behind {message.name}")
    return fields


def _text(data: bytes | None) -> str | None:
    return None if data is None else java_text.decode(data)


def decoder(name: str) -> CoordinatorDecoder | MirrorMakerDecoder:
    """Returns a decoder of `kseg.decoders.decoder`. Raises KeyError."""
    if name in _TOPICS:
        return MirrorMakerDecoder(name)
    if name == "offsets":
        switch = Switch(GROUP_METADATA, "protocolType", CONSUMER_PROTOCOL, PROTOCOLS)
        return CoordinatorDecoder(*CONSUMER_OFFSETS, _expand_members, switch)
    return CoordinatorDecoder(*{"transaction-log": TRANSACTION_STATE, "share-group-state": SHARE_GROUP_STATE}[name])
