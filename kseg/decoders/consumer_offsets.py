"""Decoder for __consumer_offsets: committed offsets and the state of consumer, share and streams groups.

Source: GroupCoordinatorRecordSerde and DumpLogSegments (``--offsets-decoder``) of Kafka 4.3.1; KIP-848, KIP-932,
KIP-1071.
"""

import base64
import struct
from typing import Any

from kseg.decoders.coordinator import CoordinatorDecoder
from kseg.decoders.schemas.consumer_offsets import ASSIGNMENT, KEYS, SUBSCRIPTION, VALUES
from kseg.formats.program import Switch
from kseg.formats.schema import MessageError, MessageSchema

GROUP_METADATA = 2
CONSUMER_PROTOCOL = "consumer"
PROTOCOLS = {"subscription": SUBSCRIPTION, "assignment": ASSIGNMENT}

_VERSION = struct.Struct(">h")


def decoder() -> CoordinatorDecoder:
    switch = Switch(GROUP_METADATA, "protocolType", CONSUMER_PROTOCOL, PROTOCOLS)
    return CoordinatorDecoder(KEYS, VALUES, _expand_members, switch)


def _expand_members(record_type: int, fields: dict[str, Any]) -> None:
    if record_type != GROUP_METADATA or fields["protocolType"] != CONSUMER_PROTOCOL:
        return
    for member in fields["members"]:
        for name, message in PROTOCOLS.items():
            member[name] = _expanded(message, member[name])


def _expanded(message: MessageSchema, encoded: str) -> Any:
    # Clients define these bytes: if they are not of the expected protocol, they stay base64 text.
    data = base64.b64decode(encoded)
    if len(data) < _VERSION.size:
        return encoded
    try:
        fields, _end = message.read(data, _VERSION.unpack_from(data)[0], _VERSION.size)
    except MessageError:
        return encoded
    return fields
