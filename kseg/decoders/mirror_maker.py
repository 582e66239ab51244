"""Decoders for the topics of MirrorMaker 2: offset syncs, checkpoints and heartbeats.

    topic                         key                                     value
    mm2-offset-syncs.A.internal   topic str, partition i32                upstreamOffset i64, downstreamOffset i64
    A.checkpoints.internal        group str, topic str, partition i32     i16 version 0, upstreamOffset i64,
                                                                          downstreamOffset i64, metadata str
    heartbeats, A.heartbeats      sourceClusterAlias str,                 i16 version 0, timestamp i64
                                  targetClusterAlias str

The payload text is that of MirrorMaker's formatters for kafka-console-consumer.sh. Any topic may be called heartbeats:
records of another form are shown as without a decoder. Source: OffsetSync, Checkpoint, Heartbeat and ReplicationPolicy
of Kafka 4.3.1; KIP-382.
"""

import struct
from typing import Any, NamedTuple

from kseg.decoders.coordinator import TOMBSTONE
from kseg.decoders.decoded import Decoded, Headers, undecodable_json
from kseg.formats import utf8
from kseg.formats.json_values import bytes_value
from kseg.formats.schema import MessageError, MessageSchema, json_text

_VERSION = struct.Struct(">h")


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
            key_fields = _fields(self._topic.key, key)
            if value is None:
                return Decoded(json_text(key_fields), TOMBSTONE, key_fields, None)
            fields = shown = _fields(self._topic.value, value, _VERSION.size * self._topic.has_version)
        except MessageError as error:
            if not self._is_reserved_name:
                return Decoded(_text(key), _text(value), bytes_value(key), bytes_value(value))
            text = f"Error at offset {offset}, skipping. {error}"
            return Decoded(text, None, undecodable_json(key, text), undecodable_json(value, text))
        if self._topic.has_version:
            shown = {"version": "0", "data": fields}
        return Decoded(None, self._topic.text.format(**key_fields, **fields), key_fields, shown)


def decoder(name: str) -> MirrorMakerDecoder:
    return MirrorMakerDecoder(name)


def _fields(message: MessageSchema, data: bytes | None, start: int = 0) -> dict[str, Any]:
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
    return None if data is None else utf8.decode(data)
