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
from contextlib import suppress
from functools import cached_property
from itertools import product
from typing import Any

from kseg.decoders.decoded import Decoded, Headers, undecodable_json
from kseg.decoders.schemas import (
    ASSIGNMENT,
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    SUBSCRIPTION,
    TRANSACTION_STATE,
    Topic,
)
from kseg.formats import java_text
from kseg.formats.json_values import bytes_value
from kseg.formats.program import Program, Switch, coordinator_program
from kseg.formats.schema import MessageError, MessageSchema, json_text

TOMBSTONE = "<DELETE>"

_VERSION = struct.Struct(">h")


class CoordinatorDecoder:
    """Decodes the records of one coordinator; `switch`: messages within bytes of the members of a group."""

    def __init__(self, topic: Topic, switch: Switch | None = None):
        self._keys, self._values = topic
        self._switch = switch

    @cached_property
    def program(self) -> Program:
        return coordinator_program(self._keys, self._values, self._switch)

    def decode(self, key: bytes | None, value: bytes | None, offset: int, headers: Headers = ()) -> Decoded:
        """Decodes one record; see `kseg.decoders.decoded.Decoder`."""
        found = self.decode_fields(key, value, offset)
        if found.key_text is not None:
            return found  # the error
        payload = TOMBSTONE
        if found.value is not None:
            message = self._values[int(found.key["type"])]
            payload = json_text({**found.value, "data": message.printed(found.value["data"])})
        return found._replace(key_text=json_text(found.key), payload_text=payload)

    def decode_fields(self, key: bytes | None, value: bytes | None, offset: int) -> Decoded:
        """Decodes one record without the texts, which take more than a third of the time; ``key_text`` is the error, if
        any."""
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
        if not 0 <= version <= message.highest:
            raise MessageError(f"Found an unknown record version {version} for {record_type} type")
        fields, switch = _message(message, value, version, "value"), self._switch
        if switch is not None and record_type == switch.record_type and fields[switch.field] == switch.text:
            for member, (name, inner) in product(fields["members"], switch.messages.items()):
                data = base64.b64decode(member[name])
                # Clients define these bytes: if they are not of the expected protocol, they stay base64 text.
                if len(data) >= _VERSION.size:
                    with suppress(MessageError):
                        member[name] = inner.read(data, _VERSION.unpack_from(data)[0], _VERSION.size)[0]
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


class MirrorMakerDecoder:
    """Decodes one topic of MirrorMaker 2, by the fields of keys and values. ``has_version``: an i16 version 0 precedes
    the fields of a value; ``text`` is that of the object called ``name``, filled from all fields.
    """

    def __init__(self, name: str, key: str, value: str, text: str, has_version: bool = True) -> None:
        self.key = MessageSchema(f"{name}Key", key, flexible=None)
        self.value = MessageSchema(f"{name}Value", value, flexible=None)
        self._text, self.has_version = f"{name}{{{{{text}}}}}", has_version
        self._is_reserved_name = name != "Heartbeat"

    def decode(self, key: bytes | None, value: bytes | None, offset: int, headers: Headers = ()) -> Decoded:
        """Decodes one record; see `kseg.decoders.decoded.Decoder`."""
        try:
            key_fields = _filling(self.key, key)
            if value is None:
                return Decoded(json_text(key_fields), TOMBSTONE, key_fields, None)
            fields = shown = _filling(self.value, value, _VERSION.size * self.has_version)
        except MessageError as error:
            if not self._is_reserved_name:
                return Decoded(_text(key), _text(value), bytes_value(key), bytes_value(value))
            return _skipped(key, value, offset, str(error))
        if self.has_version:
            shown = {"version": "0", "data": fields}
        return Decoded(None, self._text.format(**key_fields, **fields), key_fields, shown)


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


_MIRROR_MAKER = {
    "offset-syncs": MirrorMakerDecoder(
        "OffsetSync",
        "topic:str, partition:i32",
        "upstreamOffset:i64, downstreamOffset:i64",
        "topicPartition={topic}-{partition}, upstreamOffset={upstreamOffset}, downstreamOffset={downstreamOffset}",
        has_version=False,
    ),
    "checkpoints": MirrorMakerDecoder(
        "Checkpoint",
        "group:str, topic:str, partition:i32",
        "upstreamOffset:i64, downstreamOffset:i64, metadata:str",
        "consumerGroupId={group}, topicPartition={topic}-{partition}, upstreamOffset={upstreamOffset}, "
        "downstreamOffset={downstreamOffset}, metadata={metadata}",
    ),
    "heartbeats": MirrorMakerDecoder(
        "Heartbeat",
        "sourceClusterAlias:str, targetClusterAlias:str",
        "timestamp:i64",
        "sourceClusterAlias={sourceClusterAlias}, targetClusterAlias={targetClusterAlias}, timestamp={timestamp}",
    ),
}


def decoder(name: str) -> CoordinatorDecoder | MirrorMakerDecoder:
    """Returns a decoder of `kseg.decoders.decoder`. Raises KeyError."""
    return _MIRROR_MAKER[name] if name in _MIRROR_MAKER else coordinator_decoder(name)


def coordinator_decoder(name: str) -> CoordinatorDecoder:
    """Returns the decoder of a coordinator's topic. Raises KeyError."""
    if name == "offsets":
        protocols = {"subscription": SUBSCRIPTION, "assignment": ASSIGNMENT}
        return CoordinatorDecoder(CONSUMER_OFFSETS, Switch(2, "protocolType", "consumer", protocols))
    coordinators = {"transaction-log": TRANSACTION_STATE, "share-group-state": SHARE_GROUP_STATE}
    return CoordinatorDecoder(coordinators[name])
