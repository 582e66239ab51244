"""The record framing of __cluster_metadata and __remote_log_metadata.

    value   uvarint frame version (1), uvarint apiKey, uvarint version, then the message, and no trailing bytes
    key     none

Source: AbstractApiMessageSerde of Kafka 4.3.1; KIP-631.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from kseg.formats.schema import INT16_MAX, MessageError, MessageSchema, Wire

FRAME_VERSION = 1


class FramedRecord(NamedTuple):
    """One record: its apiKey, message version and fields."""

    api_key: int
    version: int
    fields: dict[str, Any]


def read_framed(data: bytes | None, records: Mapping[int, MessageSchema]) -> FramedRecord:
    """Reads the record in `data`. Raises MessageError with the text of Kafka's MetadataParseException."""
    if data is None:
        raise MessageError("Error while reading frame version")
    wire = Wire(data)
    frame_version = _small(wire, "frame version")
    if frame_version == 0:
        raise MessageError(
            "Could not deserialize metadata record with frame version 0. Note that upgrades from the preview "
            "release of KRaft in 2.8 to newer versions are not supported."
        )
    if frame_version != FRAME_VERSION:
        raise MessageError(
            f"Could not deserialize metadata record due to unknown frame version {frame_version}"
            f"(only frame version {FRAME_VERSION} is supported)"
        )
    api_key, version = _small(wire, "type"), _small(wire, "version")
    if api_key not in records:
        raise MessageError(f"org.apache.kafka.common.errors.UnsupportedVersionException: Unknown metadata id {api_key}")
    try:
        fields, end = records[api_key].read(data, version, wire.position)
    except MessageError as error:
        raise MessageError(f"Failed to deserialize record with type {api_key}") from error
    if end < len(data):
        raise MessageError(f"Found {len(data) - end} byte(s) of garbage after {api_key}")
    return FramedRecord(api_key, version, fields)


def type_name(message: MessageSchema) -> str:
    """Returns the constant of Kafka's MetadataRecordType: TOPIC_RECORD for ``TopicRecord``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", message.name).upper()


def _small(wire: Wire, name: str) -> int:
    try:
        number = wire.uvarint()
    except MessageError as error:
        raise MessageError(f"Error while reading {name}") from error
    if number > INT16_MAX:
        raise MessageError(f"Value for {name} was too large.")
    low = number & 0xFFFF
    return low - 0x10000 if low > INT16_MAX else low
